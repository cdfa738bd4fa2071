"""Products of CuPy's matrices by cuBLASLt, and the operations joined with them.

A CUDA graph can hold these. If cuBLASLt is absent, or refuses a product, CuPy's own products run between the graphs.
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
"""The most bytes of workspace for cuBLASLt, as NVIDIA recommends for its newest GPUs."""

MASK_BITS = 128
"""The rows of cuBLASLt's mask of a ReLU are multiples of this number of bits."""

GEMM_DEFAULT = -1
"""The algorithm's number with which cuBLAS chooses by itself."""


class Layout(NamedTuple):
    """The memory order of a matrix, as cuBLASLt describes it."""

    transposed: bool
    """True for a matrix in column order."""
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
        """The reason why cuBLASLt is absent, or an empty string."""
        self.refused: dict[tuple[Any, ...], str] = {}
        """Errors for products that cuBLASLt refused, by ``_key``."""
        self.zeros: dict[tuple[str, str], bool] = {}
        try:
            self.library = cublaslt.Library()
        except (ImportError, OSError, AttributeError, CublasLtError) as error:
            self.absent = str(error)

    def attempt(self, x: Any, weight: Any, bias: Any = None, **settings: Any) -> tuple[Any, ...] | None:
        """Return ``product``, or None if cuBLASLt refuses it.

        Raises ``CublasLtError`` if memory is short.
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
        """Return ``x @ weight``, with a bias and the operations that follow, in one call.

        x: (m, k). weight: (k, n). bias: (n,). The first result is (m, n), of ``dtype``, or the dtype of the factors.
        relu: apply a ReLU after the bias. With ``mask=True`` the second result has a bit for each positive element, as
        uint8 of shape (m, bytes of a row). mask: such bits; the result is 0 where they are 0, and with ``sums`` the
        second result is the sum over its rows (n,). sums without a mask: the sum over the rows of ``weight`` (n,).
        """
        cupy = sys.modules["cupy"]
        (m, k), n = x.shape, weight.shape[1]
        dtype = np.dtype(x.dtype if dtype is None else dtype)
        # a matrix in row order is its transpose in column order, as cuBLASLt reads it: out' = weight' x'
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
        """Return True if the mask of a ReLU is 0 at zeros, where agrad's derivative is 0.

        This is computed on the device once.
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
    """Return a key. cuBLASLt accepts all products with this key, or none."""
    chars = x.dtype.char, np.dtype(x.dtype if dtype is None else dtype).char
    name = epilogue_name(bias is not None, **end)
    return (name, *chars, (*x.shape, weight.shape[1]), tensor_float, layout(x), layout(weight))


def _with_layout(a: Any) -> tuple[Any, Layout]:
    """Return a matrix with its layout, or a copy if it has none."""
    found = layout(a)
    if found is not None:
        return a, found
    return sys.modules["cupy"].ascontiguousarray(a), Layout(False, a.shape[1])


def _compute(dtype: np.dtype, tensor_float: bool) -> int:
    if dtype.char == "d":
        return cublaslt.COMPUTE_64F
    return cublaslt.COMPUTE_32F_FAST_TF32 if dtype.char == "f" and tensor_float else cublaslt.COMPUTE_32F


def epilogue_name(bias: bool, relu: bool = False, mask: Any = None, sums: bool = False) -> str:
    """Return cuBLASLt's name of the operations after a product, or an empty string."""
    if relu:
        return "RELU_BIAS" if mask is None else "RELU_AUX_BIAS"
    if mask is not None:
        return "DRELU_BGRAD" if sums else "DRELU"
    if sums:  # of the second factor, which is cuBLASLt's first one
        return "BGRADA"
    return "BIAS" if bias else ""


@cache
def lt_of(device: int) -> Lt:
    """Return cuBLASLt on a device, which must be the current one."""
    return Lt()


def _current() -> Lt:
    return lt_of(int(sys.modules["cupy"].cuda.Device().id))


def tensor_float_by_default() -> bool:
    """Return True if ``CUPY_TF32`` lets float32 products round operands to TF32."""
    return os.environ.get("CUPY_TF32", "0") == "1"


def epilogues_where_available(program: Program) -> Program:
    """Run the pass ``with_epilogues`` if cuBLASLt is available."""
    if program.backends() != {"cupy"} or _current().absent:
        return program
    return with_epilogues(program)


def is_product(instruction: Instruction) -> bool:
    """Return True for a product of matrices, alone or joined."""
    return isinstance(instruction.operation, Joined) or instruction.name in ("matmul", "linear")


def absence(program: Program) -> str:
    """Return the reason, with remedy, why cuBLASLt does not compute the products.

    The string is empty if it does, and if there are none. The first time in a process it is also a ``RuntimeWarning``.
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
    """Return the function that computes a product by cuBLASLt, or None if it cannot."""
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
        # masks by cuBLASLt are bits, other masks are boolean
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
    """Return a mask as a boolean array (rows, columns)."""
    if mask.dtype.char != "B":
        return mask
    bits = sys.modules["cupy"].unpackbits(mask.reshape(-1), bitorder="little")
    return bits.reshape(mask.shape[0], -1)[:, :columns].astype(bool)


# ------------------------------------------------------------------ products by CuPy's cuBLAS, and narrow factors


def gemm(x: Any, weight: Any, dtype: np.dtype, tensor_float: bool = False) -> Any:
    """Return ``x @ weight`` of two matrices in ``dtype``, by CuPy's own cuBLAS.

    No graph can hold this call. The current device must be that of the arrays.
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
    """Return products of float16, or of bfloat16 as bits in uint16.

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
