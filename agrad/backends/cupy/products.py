"""Products of CuPy's matrices by cuBLASLt and by CuPy's own cuBLAS.

A capture can hold those of cuBLASLt, which also computes what follows a product: a bias, a ReLU, its mask, the sum for
a bias.
"""

import itertools
import math
import os
import sys
from ctypes import c_double, c_float, c_int32, c_int64, c_uint32
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from agrad.backends.cupy import cublaslt
from agrad.backends.cupy.cublaslt import REAL, CublasLtError, Task

WORKSPACE = 32 << 20
"""The most bytes of workspace for cuBLASLt, as NVIDIA recommends for its newest GPUs."""

MASK_BITS = 128
"""The rows of cuBLASLt's mask of a ReLU are multiples of this number of bits."""

GEMM_DEFAULT = -1
"""The algorithm's number with which cuBLAS chooses by itself."""


class Layout(NamedTuple):
    """The memory order of one or more matrices, as cuBLASLt describes it."""

    transposed: bool
    """True for a matrix in column order."""
    leading: int
    """Elements from one row, or column, to the next."""
    step: int = 0
    """Elements from one matrix of a batch to the next."""


def layout(a: Any) -> Layout | None:
    """Return the layout of matrices.

    None without contiguous rows or columns, or if the matrices of a batch are not at equal distances.
    """
    (m, n), width = a.shape[-2:], a.dtype.itemsize
    *_, down, across = a.strides
    step = _step([(k, stride) for k, stride in zip(a.shape[:-2], a.strides, strict=False) if k != 1], width)
    if step is None:
        return None
    if across == width and down % width == 0 and down >= n * width:
        return Layout(False, down // width, step)
    if down == width and across % width == 0 and across >= m * width:
        return Layout(True, across // width, step)
    return None


def _step(axes: list[tuple[int, int]], width: int) -> int | None:
    """Return the elements from one matrix to the next, or None.

    axes: the lengths and strides of the axes of a batch.
    """
    if not axes:
        return 0
    for (_, outer), (k, inner) in itertools.pairwise(axes):
        if outer != k * inner:
            return None
    stride = axes[-1][1]
    return stride // width if stride >= 0 and stride % width == 0 else None


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

        x: (m, k). weight: (k, n). bias: (n,). Without operations that follow, the factors may be batches of matrices,
        whose leading axes broadcast. The first result is (m, n), of ``dtype``, or the dtype of the factors.
        relu: apply a ReLU after the bias. With ``mask=True`` the second result has a bit for each positive element, as
        uint8 of shape (m, bytes of a row). mask: such bits; the result is 0 where they are 0, and with ``sums`` the
        second result is the sum over its rows (n,). sums without a mask: the sum over the rows of ``weight`` (n,).
        """
        cupy = sys.modules["cupy"]
        (m, k), n = x.shape[-2:], weight.shape[-1]
        dtype = np.dtype(x.dtype if dtype is None else dtype)
        batch = np.broadcast_shapes(x.shape[:-2], weight.shape[:-2])
        # a matrix in row order is its transpose in column order, as cuBLASLt reads it: out' = weight' x'
        (weight, first), (x, second) = _with_layout(weight, batch), _with_layout(x, batch)
        bias = None if bias is None else cupy.ascontiguousarray(bias)
        out, more = cupy.empty((*batch, m, n), dtype), None
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
            count = math.prod(batch)
            matrices = (
                task.matrix(REAL[weight.dtype.char], (k, n) if first.transposed else (n, k), first[1:], count),
                task.matrix(REAL[x.dtype.char], (m, k) if second.transposed else (k, m), second[1:], count),
                task.matrix(REAL[dtype.char], (n, m), (n, m * n), count),
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
    return (name, *chars, x.shape, weight.shape, tensor_float, layout(x), layout(weight))


def _with_layout(a: Any, batch: tuple[int, ...] = ()) -> tuple[Any, Layout]:
    """Return matrices of a batch with their layout, or a copy if they have none."""
    cupy = sys.modules["cupy"]
    a = cupy.broadcast_to(a, (*batch, *a.shape[-2:])) if batch else a
    found = layout(a)
    if found is not None:
        return a, found
    return cupy.ascontiguousarray(a), Layout(False, a.shape[-1], a.shape[-2] * a.shape[-1])


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


def current_lt() -> Lt:
    return lt_of(int(sys.modules["cupy"].cuda.Device().id))


def tensor_float_by_default() -> bool:
    """Return True if ``CUPY_TF32`` lets float32 products round operands to TF32."""
    return os.environ.get("CUPY_TF32", "0") == "1"


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


def product_in_capture(x: Any, weight: Any) -> Any:
    """Return ``x @ weight``.

    It is by cuBLASLt in a capture, where CuPy refuses its own products.
    """
    cupy = sys.modules["cupy"]
    if cupy.cuda.get_current_stream().is_capturing() and x.dtype.char in REAL and x.dtype == weight.dtype:
        found = current_lt().attempt(x, weight, tensor_float=tensor_float_by_default())
        if found is not None:
            return found[0]
    return cupy.matmul(x, weight)
