"""Products of matrices on CuPy's arrays through cuBLASLt, which a CUDA graph can hold, and what is joined with them.

cuBLASLt is reached by nvmath-python where that is installed; else CuPy's own products run between the graphs.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from agrad.backends.cupy_source import TO_BFLOAT16
from agrad.jit.epilogues import Joined, shape_of, with_epilogues
from agrad.jit.ir import Instruction, Program
from agrad.jit.precision import Way, way

WORKSPACE = 32 << 20
"""Bytes that cuBLASLt may work in: what NVIDIA recommends for its newest GPUs."""

MASK_BITS = 128
"""The rows of cuBLASLt's mask of a ReLU are a multiple of so many bits."""

_DATA = {"f": 0, "d": 1, "e": 2, "H": 14}
"""CUDA's number of a real dtype; what is uint16 here are the bits of bfloat16."""

COMPUTE_32F, COMPUTE_32F_FAST_TF32, GEMM_DEFAULT = 68, 77, -1
"""cuBLAS's numbers."""


class Layout(NamedTuple):
    """How a matrix lies in memory, as cuBLASLt is told."""

    transposed: bool
    """Whether it lies column by column."""
    leading: int
    """Elements from one row, or column, to the next."""


def layout(a: Any) -> Layout | None:
    """The layout of a matrix whose rows or columns are contiguous; None for any other."""
    (m, n), width = a.shape, a.dtype.itemsize
    down, across = a.strides
    if across == width and down % width == 0 and down >= n * width:
        return Layout(False, down // width)
    if down == width and across % width == 0 and across >= m * width:
        return Layout(True, across // width)
    return None


class Lt:
    """cuBLASLt on one device, by its bindings in nvmath-python."""

    def __init__(self) -> None:
        self.broken = ""
        """Why it is not used; empty while it is."""
        self.refused: set[tuple[str, str, str]] = set()
        """Epilogues that it does not have, each for a dtype of factors and one of results."""
        self.zeros: dict[tuple[str, str], bool] = {}
        try:
            from nvmath.bindings import cublas, cublasLt

            self.lt, self.cublas = cublasLt, cublas
            self.handle = cublasLt.create()
        except Exception as error:  # nvmath-python loads libraries, whose absence has errors of several types
            self.broken = f"{type(error).__name__}: {error}"

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
        """``x @ weight`` and what follows it in one call: (m, k), (k, n) and a bias (n,); gives (m, n) and more.

        relu: plus ``bias``, then ReLU; with ``mask=True`` the second result is the bits of where that is positive,
        uint8 of shape (m, bytes of a row). mask: such bits; the result is 0 where they are, and with ``sums`` the
        second result is the sum over its rows (n,). sums alone: the sum over the rows of ``weight`` (n,). dtype: that
        of the results, where it is not that of the factors.
        """
        cupy = sys.modules["cupy"]
        (m, k), n = x.shape, weight.shape[1]
        dtype = np.dtype(x.dtype if dtype is None else dtype)
        x, weight = (a if layout(a) is not None else cupy.ascontiguousarray(a) for a in (x, weight))
        bias = None if bias is None else cupy.ascontiguousarray(bias)
        out, more = cupy.empty((m, n), dtype), None
        workspace = cupy.empty((WORKSPACE,), np.uint8)
        # a matrix row by row is its transpose column by column, which is how cuBLASLt sees it: out' = weight' x'
        first, second = layout(weight), layout(x)
        assert first is not None
        assert second is not None
        lt = self.lt
        scale = np.dtype(np.float64 if dtype.char == "d" else np.float32)
        one, zero = np.ones(1, scale), np.zeros(1, scale)
        made: list[tuple[Callable[[Any], None], Any]] = []

        def matrix(a: np.dtype, rows: int, columns: int, leading: int) -> Any:
            made.append((lt.matrix_layout_destroy, lt.matrix_layout_create(_DATA[a.char], rows, columns, leading)))
            return made[-1][1]

        try:
            task = lt.matmul_desc_create(self._compute(x.dtype, tensor_float), _DATA[scale.char])
            made.append((lt.matmul_desc_destroy, task))
            names = lt.MatmulDescAttribute
            self._set(task, names.TRANSA, np.int32(first.transposed))
            self._set(task, names.TRANSB, np.int32(second.transposed))
            end = epilogue_name(bias is not None, relu, mask, sums)
            if end:
                self._set(task, names.EPILOGUE, np.uint32(getattr(lt.Epilogue, end)))
            if sums:
                bias = more = cupy.empty((n,), dtype)
            if bias is not None:
                self._set(task, names.BIAS_POINTER, np.int64(bias.data.ptr))
            if mask is not None:
                bits = -(-n // MASK_BITS) * MASK_BITS
                if mask is True:
                    mask = more = cupy.empty((m, bits // 8), np.uint8)
                self._set(task, names.EPILOGUE_AUX_POINTER, np.int64(mask.data.ptr))
                self._set(task, names.EPILOGUE_AUX_LD, np.int64(bits))
            a = matrix(weight.dtype, *((k, n) if first.transposed else (n, k)), first.leading)
            b = matrix(x.dtype, *((m, k) if second.transposed else (k, m)), second.leading)
            d = matrix(dtype, n, m, n)
            # without an algorithm cuBLASLt chooses one, on the host: a graph keeps the kernels of that choice
            lt.matmul(
                self.handle, task, one.ctypes.data, weight.data.ptr, a, x.data.ptr, b, zero.ctypes.data,
                out.data.ptr, d, out.data.ptr, d, 0, workspace.data.ptr, WORKSPACE,
                cupy.cuda.get_current_stream().ptr,
            )  # fmt: skip
        finally:
            for destroy, thing in reversed(made):
                destroy(thing)
        return (out,) if more is None else (out, more)

    def _compute(self, dtype: np.dtype, tensor_float: bool) -> Any:
        kinds = self.cublas.ComputeType
        if dtype.char == "d":
            return kinds.COMPUTE_64F
        return kinds.COMPUTE_32F_FAST_TF32 if dtype.char == "f" and tensor_float else kinds.COMPUTE_32F

    def _set(self, task: Any, name: Any, value: Any) -> None:
        held = np.array([value])
        self.lt.matmul_desc_set_attribute(task, name, held.ctypes.data, held.nbytes)

    def masks_zero(self, dtype: np.dtype, factors: np.dtype) -> bool:
        """Whether the mask of a ReLU leaves out what is 0, where agrad's derivative is 0; asked of the device, once."""
        key = (factors.char, dtype.char)
        if key not in self.zeros:
            zeros = sys.modules["cupy"].zeros
            x, bias = zeros((MASK_BITS, MASK_BITS), factors), zeros((MASK_BITS,), dtype)
            _, mask = self.product(x, x, bias, relu=True, mask=True, dtype=dtype)
            self.zeros[key] = not bool(mask.any())
        return self.zeros[key]


def epilogue_name(bias: bool, relu: bool, mask: Any, sums: bool) -> str:
    """cuBLASLt's name of what follows a product; empty where nothing does."""
    if relu:
        return "RELU_BIAS" if mask is None else "RELU_AUX_BIAS"
    if mask is not None:
        return "DRELU_BGRAD" if sums else "DRELU"
    if sums:  # of the second factor, which stands first where matrices lie column by column
        return "BGRADA"
    return "BIAS" if bias else ""


@cache
def lt_of(device: int) -> Lt:
    """cuBLASLt on a device, which must be the current one."""
    return Lt()


def tensor_float_by_default() -> bool:
    """Whether float32 products may round their operands to TF32: where CuPy's own may, by ``CUPY_TF32``."""
    return os.environ.get("CUPY_TF32", "0") == "1"


def epilogues_where_available(program: Program) -> Program:
    """The pass ``with_epilogues`` where cuBLASLt can be reached; without it, what follows is fused by itself."""
    if program.backends() != {"cupy"} or lt_of(int(sys.modules["cupy"].cuda.Device().id)).broken:
        return program
    return with_epilogues(program)


def is_product(instruction: Instruction) -> bool:
    """Whether an instruction is a product of matrices, by itself or joined with what follows it."""
    return isinstance(instruction.operation, Joined) or instruction.name in ("matmul", "linear")


def product_function(instruction: Instruction, tensor_float: bool = False) -> Callable[..., Any] | None:
    """What computes a product so that a graph can hold it; None where nothing can."""
    if shape_of(instruction) is None:
        return None
    cupy = sys.modules["cupy"]
    lt = lt_of(int(cupy.cuda.Device().id))
    if lt.broken:
        return None
    operation = instruction.operation
    joined = operation if isinstance(operation, Joined) else Joined(operation)
    out = instruction.outputs[0]
    assert out is not None
    dtype, affine = np.dtype(out.dtype), joined.product.name == "linear"
    tensor_float = tensor_float or tensor_float_by_default()

    def run(*args: Any) -> Any:
        x, weight, *rest = args
        mask: Any = rest.pop() if joined.masked else True if joined.mask else None
        bias = rest[0] if affine else None
        key = (epilogue_name(affine, joined.relu, mask, joined.sums), x.dtype.char, dtype.char)
        # the bits of a mask are cuBLASLt's own; where it did not make them they are truth values
        fits = not joined.masked or mask.dtype.char == "B"
        if not lt.broken and key not in lt.refused and fits:
            try:
                if joined.mask and not lt.masks_zero(dtype, x.dtype):
                    raise NotImplementedError("its mask of a ReLU counts 0 as positive")
                found = lt.product(
                    x,
                    weight,
                    bias,
                    relu=joined.relu,
                    mask=mask,
                    sums=joined.sums,
                    dtype=dtype,
                    tensor_float=tensor_float,
                )
                return found if len(found) > 1 else found[0]
            except Exception as error:
                if cupy.cuda.get_current_stream().is_capturing():
                    raise
                if key[0]:
                    lt.refused.add(key)
                else:
                    lt.broken = f"{type(error).__name__}: {error}"
        return apart(x, weight, bias, mask)

    def apart(x: Any, weight: Any, bias: Any, mask: Any) -> Any:
        """The product alone, and what follows it by CuPy."""
        found = None
        if not lt.broken:
            try:
                (found,) = lt.product(x, weight, dtype=dtype, tensor_float=tensor_float)
            except Exception as error:
                if cupy.cuda.get_current_stream().is_capturing():
                    raise
                lt.broken = f"{type(error).__name__}: {error}"
        if found is None:
            found = gemm(x, weight, dtype, tensor_float)
        if bias is not None:
            found = found + bias
        if joined.relu:
            found = cupy.maximum(found, dtype.type(0))
        if joined.masked:
            found = cupy.where(_truth(mask, found.shape[1]), found, dtype.type(0))
        if joined.mask:
            return found, found > 0
        if joined.sums:
            return found, (found if joined.masked else weight).sum(axis=0)
        return found

    return run


def _truth(mask: Any, columns: int) -> Any:
    """A mask as truth values (rows, columns)."""
    if mask.dtype.char != "B":
        return mask
    bits = sys.modules["cupy"].unpackbits(mask.reshape(-1), bitorder="little")
    return bits.reshape(mask.shape[0], -1)[:, :columns].astype(bool)


# ------------------------------------------------------------------ products by CuPy's cuBLAS, and narrow factors


def gemm(x: Any, weight: Any, dtype: np.dtype, tensor_float: bool = False) -> Any:
    """``x @ weight`` of two matrices by CuPy's own cuBLAS, which no graph can hold, with a result of ``dtype``."""
    cupy = sys.modules["cupy"]
    if x.dtype == dtype and not (tensor_float and dtype.char == "f"):
        return cupy.matmul(x, weight)
    (m, k), n = x.shape, weight.shape[1]
    x, weight = (a if layout(a) is not None else cupy.ascontiguousarray(a) for a in (x, weight))
    first, second = layout(weight), layout(x)
    assert first is not None
    assert second is not None
    out, one, zero = cupy.empty((m, n), dtype), np.ones(1, np.float32), np.zeros(1, np.float32)
    blas = cupy.cuda.cublas
    compute = COMPUTE_32F_FAST_TF32 if tensor_float and x.dtype.char == "f" else COMPUTE_32F
    blas.gemmEx(
        cupy.cuda.device.get_cublas_handle(), int(first.transposed), int(second.transposed), n, m, k, one.ctypes.data,
        weight.data.ptr, _DATA[weight.dtype.char], first.leading, x.data.ptr, _DATA[x.dtype.char], second.leading,
        zero.ctypes.data, out.data.ptr, _DATA[dtype.char], n, compute, GEMM_DEFAULT,
    )  # fmt: skip
    return out


@cache
def _bfloat16_bits() -> Any:
    return sys.modules["cupy"].ElementwiseKernel(*TO_BFLOAT16, "agrad_to_bfloat16")


@way("cupy")
def _way(precision: str) -> Way:
    """float16 as CuPy has it; bfloat16 as its bits in uint16, for CuPy's arrays have no such dtype of their own."""
    cupy = sys.modules["cupy"]

    def narrow(x: Any) -> Any:
        return x.astype(np.float16) if precision == "float16" else _bfloat16_bits()(x.view(np.uint32))

    def wide(x: Any) -> Any:
        return x.astype(np.float32) if precision == "float16" else (x.astype(np.uint32) << 16).view(np.float32)

    def product(x: Any, weight: Any) -> Any:
        if x.ndim == weight.ndim == 2 and x.size and weight.size:
            return gemm(x, weight, np.dtype(np.float32))
        return cupy.matmul(wide(x), wide(weight))

    return Way(narrow, product, np.dtype(np.float16 if precision == "float16" else np.uint16))
