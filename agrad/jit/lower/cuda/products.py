"""Products of CuPy's matrices by cuBLASLt, and the operations joined with them.

A CUDA graph can hold these. Where cuBLASLt is absent, or refuses a product, CuPy's own products run between the graphs.
"""

import os
import sys
import warnings
from collections.abc import Callable
from ctypes import c_double, c_float, c_int32, c_int64, c_uint32
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from agrad.backends import load
from agrad.backends.cupy.elementwise import elementwise_kernel
from agrad.jit.lower.cuda import cublaslt
from agrad.jit.lower.cuda.cublaslt import REAL, CublasLtError, Task
from agrad.jit.lower.cuda.epilogues import Joined, shape_of, with_epilogues
from agrad.jit.passes.precision import Way
from agrad.jit.program import Instruction, Program
from agrad.registry import PRIMITIVES

WORKSPACE = 32 << 20
"""The most bytes that cuBLASLt may work in: as many as NVIDIA recommends for its newest GPUs."""

MASK_BITS = 128
"""The rows of cuBLASLt's mask of a ReLU are a multiple of so many bits."""

GEMM_DEFAULT = -1
"""cuBLAS's number of its own choice of an algorithm."""


class Layout(NamedTuple):
    """The memory order of a matrix, as cuBLASLt takes it."""

    transposed: bool
    """True for a matrix that lies column by column."""
    leading: int
    """Elements from one row, or column, to the next."""


def layout(a: Any) -> Layout | None:
    """Return the layout of a matrix; None without contiguous rows or columns."""
    (m, n), width = a.shape, a.dtype.itemsize
    down, across = a.strides
    if across == width and down % width == 0 and down >= n * width:
        return Layout(False, down // width)
    if down == width and across % width == 0 and across >= m * width:
        return Layout(True, across // width)
    return None


class Lt:
    """cuBLASLt on the current device."""

    def __init__(self) -> None:
        self.absent = ""
        """The reason why there is none; empty where there is."""
        self.refused: dict[tuple[Any, ...], str] = {}
        """Its errors for products that it refused, by ``_key``."""
        self.zeros: dict[tuple[str, str], bool] = {}
        try:
            self.library = cublaslt.Library()
        except (ImportError, OSError, AttributeError, CublasLtError) as error:
            self.absent = str(error)

    def attempt(self, x: Any, weight: Any, bias: Any = None, **settings: Any) -> tuple[Any, ...] | None:
        """Return ``product``, or None where cuBLASLt refuses it.

        Raises ``CublasLtError`` for lack of memory.
        """
        key = _key(x, weight, bias, **settings)
        if self.absent or key in self.refused:
            return None
        try:
            return self.product(x, weight, bias, **settings)
        except CublasLtError as error:
            if error.status == cublaslt.ALLOC_FAILED:
                raise
            self.refused[key] = str(error)
            return None

    def product(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        relu: bool = False,
        mask: Any = None,
        sums: bool = False,
        dtype: Any = None,
        tensor_float: bool = False,
    ) -> tuple[Any, ...]:
        """Return ``x @ weight``, plus ``bias``, and the work after it, in one call.

        x: (m, k); weight: (k, n); bias: (n,); the first result: (m, n), of ``dtype``, or that of the factors. relu: a
        ReLU after the bias; with ``mask=True`` the second result has a bit for each positive element, uint8 of shape
        (m, bytes of a row). mask: such bits; the result is 0 where they are 0, and with ``sums`` the second result is
        the sum over its rows (n,). sums alone: the sum over the rows of ``weight`` (n,).
        """
        cupy = sys.modules["cupy"]
        (m, k), n = x.shape, weight.shape[1]
        dtype = np.dtype(x.dtype if dtype is None else dtype)
        # a matrix row by row is its transpose column by column, which is how cuBLASLt sees it: out' = weight' x'
        (weight, first), (x, second) = _with_layout(weight), _with_layout(x)
        bias = None if bias is None else cupy.ascontiguousarray(bias)
        out, more = cupy.empty((m, n), dtype), None
        end = epilogue_name(bias is not None, relu, mask, sums)
        scale = c_double if dtype.char == "d" else c_float
        with Task(self.library, _compute(x.dtype, tensor_float), REAL["d" if dtype.char == "d" else "f"]) as task:
            task.set(cublaslt.TRANSA, c_int32(first.transposed))
            task.set(cublaslt.TRANSB, c_int32(second.transposed))
            task.set(cublaslt.EPILOGUE, c_uint32(cublaslt.EPILOGUES[end]))
            if sums:
                bias = more = cupy.empty((n,), dtype)
            if bias is not None:
                task.set(cublaslt.BIAS_POINTER, c_int64(bias.data.ptr))
            if mask is not None:
                bits = -(-n // MASK_BITS) * MASK_BITS
                if mask is True:
                    mask = more = cupy.empty((m, bits // 8), np.uint8)
                task.set(cublaslt.AUX_POINTER, c_int64(mask.data.ptr))
                task.set(cublaslt.AUX_LD, c_int64(bits))
            matrices = (
                task.matrix(REAL[weight.dtype.char], *((k, n) if first.transposed else (n, k)), first.leading),
                task.matrix(REAL[x.dtype.char], *((m, k) if second.transposed else (k, m)), second.leading),
                task.matrix(REAL[dtype.char], n, m, n),
            )
            addresses = weight.data.ptr, x.data.ptr, out.data.ptr
            choice = task.choose(matrices, addresses, WORKSPACE)
            workspace = cupy.empty((choice.workspace,), np.uint8)
            stream = cupy.cuda.get_current_stream().ptr
            task.run(choice, matrices, addresses, (scale(1), scale(0)), workspace.data.ptr, stream)
        return (out,) if more is None else (out, more)

    def masks_zero(self, dtype: np.dtype, factors: np.dtype) -> bool:
        """Return whether a ReLU's mask leaves out zeros, where agrad's derivative is 0.

        The device is asked once.
        """
        key = (factors.char, dtype.char)
        if key not in self.zeros:
            zeros = sys.modules["cupy"].zeros
            x, bias = zeros((MASK_BITS, MASK_BITS), factors), zeros((MASK_BITS,), dtype)
            found = self.attempt(x, x, bias, relu=True, mask=True, dtype=dtype)
            self.zeros[key] = found is not None and not bool(found[1].any())
        return self.zeros[key]


def _key(
    x: Any, weight: Any, bias: Any, *, dtype: Any = None, tensor_float: bool = False, **end: Any
) -> tuple[Any, ...]:
    """Return the key of a product: cuBLASLt accepts all products of one key, or none."""
    chars = x.dtype.char, np.dtype(x.dtype if dtype is None else dtype).char
    name = epilogue_name(bias is not None, **end)
    return (name, *chars, (*x.shape, weight.shape[1]), tensor_float, layout(x), layout(weight))


def _with_layout(a: Any) -> tuple[Any, Layout]:
    """Return a matrix, or a copy of it that has a layout, and the layout."""
    found = layout(a)
    if found is not None:
        return a, found
    return sys.modules["cupy"].ascontiguousarray(a), Layout(False, a.shape[1])


def _compute(dtype: np.dtype, tensor_float: bool) -> int:
    if dtype.char == "d":
        return cublaslt.COMPUTE_64F
    return cublaslt.COMPUTE_32F_FAST_TF32 if dtype.char == "f" and tensor_float else cublaslt.COMPUTE_32F


def epilogue_name(bias: bool, relu: bool = False, mask: Any = None, sums: bool = False) -> str:
    """Return cuBLASLt's name of the work after a product; empty for none."""
    if relu:
        return "RELU_BIAS" if mask is None else "RELU_AUX_BIAS"
    if mask is not None:
        return "DRELU_BGRAD" if sums else "DRELU"
    if sums:  # of the second factor, which stands first where matrices lie column by column
        return "BGRADA"
    return "BIAS" if bias else ""


@cache
def lt_of(device: int) -> Lt:
    """Return cuBLASLt on a device, which must be the current one."""
    return Lt()


def _current() -> Lt:
    return lt_of(int(sys.modules["cupy"].cuda.Device().id))


def tensor_float_by_default() -> bool:
    """Return whether ``CUPY_TF32`` lets float32 products round operands to TF32."""
    return os.environ.get("CUPY_TF32", "0") == "1"


def epilogues_where_available(program: Program) -> Program:
    """Apply the pass ``with_epilogues`` where cuBLASLt is available."""
    if program.backends() != {"cupy"} or _current().absent:
        return program
    return with_epilogues(program)


def is_product(instruction: Instruction) -> bool:
    """Return whether an instruction is a product of matrices, alone or joined."""
    return isinstance(instruction.operation, Joined) or instruction.name in ("matmul", "linear")


def absence(program: Program) -> str:
    """Return why cuBLASLt does not compute the program's products, and the remedy.

    Empty where it does, and where there are none. The first time in a process this is a ``RuntimeWarning`` too.
    """
    products = any(is_product(i) and shape_of(i) is not None for i in program.instructions)
    reason = _current().absent if products else ""
    if not reason:
        return ""
    text = (
        f"cuBLASLt is not there ({reason}), so that products of matrices run one by one between the CUDA graphs. "
        f"It is looked for as {cublaslt.library_name()}, which comes with cuBLAS: pip install nvidia-cublas (for CUDA "
        "12: nvidia-cublas-cu12), or install all of the CUDA toolkit's libraries"
    )
    _warn(text)
    return text


@cache
def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def product_function(instruction: Instruction, tensor_float: bool = False) -> Callable[..., Any] | None:
    """Return the function of a product by cuBLASLt; None where that cannot compute it."""
    if shape_of(instruction) is None or _current().absent:
        return None
    operation = instruction.operation
    joined = operation if isinstance(operation, Joined) else Joined(operation)
    out = instruction.outputs[0]
    assert out is not None
    dtype, affine = np.dtype(out.dtype), joined.product.name == "linear"
    plain = {"dtype": dtype, "tensor_float": tensor_float or tensor_float_by_default()}

    def run(*args: Any) -> Any:
        x, weight, *rest = args
        mask: Any = rest.pop() if joined.masked else True if joined.mask else None
        bias = rest[0] if affine else None
        lt = _current()
        # the bits of a mask are cuBLASLt's own; a mask that it did not make has truth values
        fits = lt.masks_zero(dtype, x.dtype) if joined.mask else not joined.masked or mask.dtype.char == "B"
        if fits:
            found = lt.attempt(x, weight, bias, relu=joined.relu, mask=mask, sums=joined.sums, **plain)
            if found is not None:
                return found if len(found) > 1 else found[0]
        alone = lt.attempt(x, weight, **plain)
        product = gemm(x, weight, **plain) if alone is None else alone[0]
        if bias is not None:
            product = product + bias
        truth = _truth(mask, product.shape[1]) if joined.masked else None
        return joined.followed(product, weight, truth, lambda name, *given, **by: PRIMITIVES[name].evaluate(given, by))

    return load("cupy").placed(run)


def _truth(mask: Any, columns: int) -> Any:
    """Return a mask as truth values (rows, columns)."""
    if mask.dtype.char != "B":
        return mask
    bits = sys.modules["cupy"].unpackbits(mask.reshape(-1), bitorder="little")
    return bits.reshape(mask.shape[0], -1)[:, :columns].astype(bool)


# ------------------------------------------------------------------ products by CuPy's cuBLAS, and narrow factors


def gemm(x: Any, weight: Any, dtype: np.dtype, tensor_float: bool = False) -> Any:
    """Return ``x @ weight`` of two matrices in ``dtype``, by CuPy's own cuBLAS.

    No graph can hold it. It runs on the current device, which must be that of the arrays.
    """
    cupy = sys.modules["cupy"]
    if x.dtype == dtype and not (tensor_float and dtype.char == "f"):
        return cupy.matmul(x, weight)
    (m, k), n = x.shape, weight.shape[1]
    (weight, first), (x, second) = _with_layout(weight), _with_layout(x)
    out, one, zero = cupy.empty((m, n), dtype), np.ones(1, np.float32), np.zeros(1, np.float32)
    cupy.cuda.cublas.gemmEx(
        cupy.cuda.device.get_cublas_handle(), int(first.transposed), int(second.transposed), n, m, k, one.ctypes.data,
        weight.data.ptr, REAL[weight.dtype.char], first.leading, x.data.ptr, REAL[x.dtype.char], second.leading,
        zero.ctypes.data, out.data.ptr, REAL[dtype.char], n, _compute(x.dtype, tensor_float), GEMM_DEFAULT,
    )  # fmt: skip
    return out


def cupy_way(precision: str) -> Way:
    """Return the products of float16, or of bfloat16 as its bits in uint16.

    CuPy's arrays have no bfloat16.
    """
    cupy, placed = sys.modules["cupy"], load("cupy").placed

    def narrow(x: Any) -> Any:
        if precision == "float16":
            return x.astype(np.float16)
        return elementwise_kernel("to_bfloat16")(x.view(np.uint32))

    def wide(x: Any) -> Any:
        return x.astype(np.float32) if precision == "float16" else (x.astype(np.uint32) << 16).view(np.float32)

    def product(x: Any, weight: Any) -> Any:
        if x.ndim == weight.ndim == 2 and x.size and weight.size:
            return gemm(x, weight, np.dtype(np.float32))
        return cupy.matmul(wide(x), wide(weight))

    return Way(placed(narrow), placed(product), np.dtype(np.float16 if precision == "float16" else np.uint16))
