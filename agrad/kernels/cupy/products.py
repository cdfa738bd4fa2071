"""Products of CuPy matrices by cuBLASLt and by cuBLAS.

A capture can contain products by cuBLASLt, which also computes the operations that follow a product: a bias, a ReLU,
its mask, the sum for a bias.
"""

import contextlib
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from ctypes import c_int32, c_int64, c_uint32
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from agrad.kernels.cupy import cublaslt
from agrad.kernels.cupy.cublaslt import REAL, Choice, CublasLtError, Kept, Task
from agrad.kernels.cupy.elementwise import compiled, elementwise_kernel

WORKSPACE = 32 << 20
"""The most bytes of workspace for cuBLASLt, as NVIDIA recommends for its newest GPUs."""

MASK_BITS = 128
"""The rows of cuBLASLt's mask of a ReLU are multiples of this number of bits."""

CANDIDATES = 8
"""The most algorithms for a product that are timed."""

REPEATS, DELAY = 5, 300_000
"""The launches that are timed, and the cycles for which the device waits until they are queued."""

FASTER = 0.95
"""The part of a better algorithm's time that another one may take at most to be preferred to it."""

KEPT = 1024
"""The most descriptions of products that are kept."""

ALIGNED = 256
"""The largest alignment in bytes that makes a difference to cuBLASLt."""

GEMM_DEFAULT = -1
"""The algorithm number with which cuBLAS chooses an algorithm."""


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

    Returns None without contiguous rows or columns, or if the matrices of a batch are not at equal distances.
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


# ------------------------------------------------------------------ algorithms


class _Timing(threading.local):
    wanted = False
    over = False
    """True in a capture that uses algorithms which were chosen before it."""


_TIMING = _Timing()


class Unchosen(Exception):
    """A product in a capture has no algorithm yet.

    ``choose`` chooses one outside of the capture.
    """

    choose: Callable[[], Any]


@contextlib.contextmanager
def chosen_before() -> Iterator[None]:
    """Let products without an algorithm raise ``Unchosen``.

    Use it for a capture, in which cuBLASLt 13.3 returns no algorithms. Errors of cuBLASLt are raised too.
    """
    before, _TIMING.over = _TIMING.over, True
    try:
        yield
    finally:
        _TIMING.over = before


@contextlib.contextmanager
def timing() -> Iterator[None]:
    """Let products by cuBLASLt time algorithms, which waits for the device.

    Use it for a run before a capture. ``AGRAD_TIME_PRODUCTS=0`` in the environment prevents it.
    """
    before, _TIMING.wanted = _TIMING.wanted, os.environ.get("AGRAD_TIME_PRODUCTS") != "0"
    try:
        yield
    finally:
        _TIMING.wanted = before


DELAY_SOURCE = """extern "C" __global__ void delay(long long cycles) {
    for (long long start = clock64(); clock64() - start < cycles;) {}
}"""
"""The kernel that does nothing for a number of cycles."""


def milliseconds(launch: Callable[[], None]) -> float:
    """Return the time on the device of some launches, after one that is not timed.

    The device waits before them, so that it does not wait for the host between them.
    """
    cuda = sys.modules["cupy"].cuda
    launch()
    begin, end = cuda.Event(), cuda.Event()
    compiled(DELAY_SOURCE, "delay")((1,), (1,), (np.int64(DELAY),))
    begin.record()
    for _ in range(REPEATS):
        launch()
    end.record()
    end.synchronize()
    return float(cuda.get_elapsed_time(begin, end))


class Plan:
    """A product described for cuBLASLt, with its algorithms by alignment."""

    def __init__(self, library: cublaslt.Library, kept: Kept, key: tuple[Any, ...], x: Any, weight: Any) -> None:
        self.kept, self.key = kept, key
        end, _, _, char, bias, *_, tensor_float = key
        (m, k), n = x.shape[-2:], weight.shape[-1]
        self.batch = batch = np.broadcast_shapes(x.shape[:-2], weight.shape[:-2])
        self.shape, self.dtype = (*batch, m, n), np.dtype(char)
        bits = -(-n // MASK_BITS) * MASK_BITS
        self.mask_shape: tuple[Any, Any] = m, bits // 8
        # a matrix in row-major order is its transpose in column-major order, as cuBLASLt reads it: out' = weight' x'
        (ordered_x, second), (ordered_weight, first) = (_with_layout(a, batch) for a in (x, weight))
        self.copies: tuple[Any, Any] = ordered_x.data.ptr != x.data.ptr, ordered_weight.data.ptr != weight.data.ptr
        self.task = task = Task(library, _compute(x.dtype, tensor_float), REAL["d" if char == "d" else "f"])
        task.set(cublaslt.TRANSA, c_int32(first.transposed))
        task.set(cublaslt.TRANSB, c_int32(second.transposed))
        task.set(cublaslt.EPILOGUE, c_uint32(cublaslt.EPILOGUES[end]))
        if "AUX" in end or "DRELU" in end:
            task.set(cublaslt.AUX_LD, c_int64(bits))
        if bias != char:
            task.set(cublaslt.BIAS_TYPE, c_int32(REAL[bias]))
        count = math.prod(batch)
        task.matrices = (
            task.matrix(REAL[weight.dtype.char], (k, n) if first.transposed else (n, k), first[1:], count),
            task.matrix(REAL[x.dtype.char], (m, k) if second.transposed else (k, m), second[1:], count),
            task.matrix(REAL[char], (n, m), (n, m * n), count),
        )
        self.choices: dict[tuple[int, ...], tuple[Choice, bool]] = {}
        """The algorithms by alignments, each with True if it need not be timed."""

    def run(self, weight: Any, x: Any, out: Any, bias: Any, mask: Any) -> None:
        """Launch the product into ``out``, which shares no memory with the others."""
        at = weight.data.ptr, x.data.ptr, out.data.ptr
        if bias is not None:
            self.task.point(cublaslt.BIAS_POINTER, bias)
        if mask is not None:
            self.task.point(cublaslt.AUX_POINTER, mask)
        last = at[2] if bias is None else at[2] | bias.data.ptr  # an epilogue may load the bias as it stores D
        alignments = tuple([(p | ALIGNED) & -(p | ALIGNED) for p in (at[0], at[1], last)])
        choice, final = self.choices.get(alignments, (None, False))
        if choice is None or (_TIMING.wanted and not final):
            capturing = is_capturing()
            if choice is None and capturing and _TIMING.over:
                raise Unchosen("no algorithm was chosen before the capture")
            if choice is None or not capturing:
                self.choices[alignments] = self._choose(at, alignments, _TIMING.wanted and not capturing)
                return
        self._launch(at, choice)

    def _launch(self, addresses: tuple[int, ...], choice: Choice) -> None:
        cupy, size = sys.modules["cupy"], choice.workspace
        workspace = cupy.empty((size,), np.uint8) if size else None
        stream = cupy.cuda.get_current_stream().ptr
        self.task.run(choice, addresses, 0 if workspace is None else workspace.data.ptr, stream)

    def _choose(self, addresses: tuple[int, ...], alignments: tuple[int, ...], timed: bool) -> tuple[Choice, bool]:
        """Launch the product by the fastest algorithm, or by the first one that runs, and return it.

        The fastest one is kept for other processes. Algorithms that fail are skipped. If all fail, raises one of their
        errors.
        """
        found = self.task.candidates(alignments, WORKSPACE, CANDIDATES)
        timed, errors = timed and len(found) > 1, []
        kept = self.kept.get(self.key, alignments) if timed else None
        if kept is not None:
            found, timed = [kept, *found], False
        best, least = None, math.inf
        for choice in found:
            launch = partial(self._launch, addresses, choice)
            try:
                took = milliseconds(launch) if timed else launch() or 0.0
            except (CublasLtError, MemoryError) as error:
                errors.append(error.with_traceback(None))  # the traceback would keep the arrays of the product
                continue
            if took < FASTER * least:
                best, least = choice, took
            if not timed:
                break
        if best is None:
            raise max(errors, key=_is_shortage)
        if timed:
            best = self.kept.add(best, self.key, alignments)
            self._launch(addresses, best)  # the result is rounded like all later ones
        return best, timed or best is kept or len(found) == 1


def is_capturing() -> bool:
    """Return True if the current stream is captured."""
    return bool(sys.modules["cupy"].cuda.get_current_stream().is_capturing())


def _is_shortage(error: Exception) -> bool:
    return isinstance(error, MemoryError) or getattr(error, "status", 0) == cublaslt.ALLOC_FAILED


# ------------------------------------------------------------------ products by cuBLASLt


class Lt:
    """cuBLASLt on the current device."""

    def __init__(self) -> None:
        self.absent: str = ""
        """The reason why cuBLASLt is absent, or an empty string."""
        self.refused: dict[tuple[Any, ...], str] = {}
        """Errors for products that cuBLASLt does not support, by ``_key``."""
        self.plans: dict[tuple[Any, ...], Plan] = {}
        """Products by ``_key``, the oldest first."""
        self.known: dict[tuple[str, ...], bool] = {}
        """What was computed once, by dtypes."""
        self._lock = threading.RLock()  # the description contains the addresses of one product at a time
        try:
            self.library = cublaslt.Library()
            self.kept: Kept = Kept(self.library.version)
        except (ImportError, OSError, AttributeError, CublasLtError) as error:
            self.absent = str(error)

    def attempt(self, x: Any, weight: Any, bias: Any = None, **settings: Any) -> tuple[Any, ...] | None:
        """Return ``product``, or None if cuBLASLt does not support it.

        Raises ``CublasLtError`` if memory is short. During a capture, that may be the reason for an unsupported
        product, so the result is not remembered.
        """
        key = _key(x, weight, bias, **settings)
        if self.absent or key in self.refused:
            return None
        try:
            return self.product(x, weight, bias, key=key, **settings)
        except Unchosen as error:
            error.choose = partial(self.attempt, x, weight, bias, **settings)
            raise
        except CublasLtError as error:
            if _is_shortage(error) or _TIMING.over:
                raise
            if not is_capturing():
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
        key: tuple[Any, ...] = (),
    ) -> tuple[Any, ...]:
        """Return ``x @ weight``, with a bias and the operations that follow, in one call.

        x: (m, k). weight: (k, n). bias: (n,). Without operations that follow, the factors may be batches of matrices,
        whose leading axes broadcast. The first result is (m, n), of ``dtype``, or the dtype of the factors.
        relu: apply a ReLU after the bias. With ``mask=True`` the second result has a bit for each positive element, as
        uint8 of shape (m, bytes of a row). mask: such bits; the result is 0 where they are 0, and with ``sums`` the
        second result is the sum over its rows (n,). sums without a mask: the sum over the rows of ``weight`` (n,).
        """
        key = key or _key(x, weight, bias, relu=relu, mask=mask, sums=sums, dtype=dtype, tensor_float=tensor_float)
        cupy, more = sys.modules["cupy"], None
        with self._lock:
            plan = self.plans.get(key) or self._plan(key, x, weight)
            if plan.copies[0]:
                x, _ = _with_layout(x, plan.batch)
            if plan.copies[1]:
                weight, _ = _with_layout(weight, plan.batch)
            out = cupy.empty(plan.shape, plan.dtype)
            if sums:
                bias = more = cupy.empty(plan.shape[-1:], plan.dtype)
            elif bias is not None:
                bias = cupy.ascontiguousarray(bias)
            if mask is True:
                mask = more = cupy.empty(plan.mask_shape, np.uint8)
            plan.run(weight, x, out, bias, mask)
        return (out,) if more is None else (out, more)

    def _plan(self, key: tuple[Any, ...], x: Any, weight: Any) -> Plan:
        if len(self.plans) >= KEPT:
            del self.plans[next(iter(self.plans))]
        plan = self.plans[key] = Plan(self.library, self.kept, key, x, weight)
        return plan

    def masks_zero(self, dtype: np.dtype, factors: np.dtype, affine: bool = True) -> bool:
        """Return True if the mask of a ReLU is 0 at zeros, as the derivative of agrad is.

        The mask of a small number is 1, also if the number is rounded to 0. This is computed on the device once.
        """
        key = ("zeros", factors.char, dtype.char, "f" * affine)
        if key not in self.known:
            asarray, n = sys.modules["cupy"].asarray, MASK_BITS
            small = np.eye(n, dtype=np.float32) * np.float32(2.0**-13)
            x = asarray(_in_dtype(small, factors))
            bias = asarray(np.zeros(n, np.float32)) if affine else None
            found = self.attempt(x, x, bias, relu=True, mask=True, dtype=dtype)
            bits = np.packbits(small > 0, axis=1, bitorder="little")
            self.known[key] = found is not None and bool((found[1] == asarray(bits)).all())
        return self.known[key]

    def adds_before_rounding(self, dtype: np.dtype) -> bool:
        """Return True if a float32 bias is added before the product is rounded.

        cuBLASLt documents only a bias of the dtype of the result. This is computed on the device once.
        """
        key = ("bias", dtype.char)
        if key not in self.known:
            asarray, n, unit = sys.modules["cupy"].asarray, MASK_BITS, 2.0 ** {"e": -10, "H": -7}[dtype.char]
            x, weight = np.zeros((n, n), np.float32), np.ones((n, n), np.float32)
            x[:, 0], x[:, 1] = 1, unit / 4
            # the sum is rounded up, but not if the product or the bias is rounded before
            bias = np.full(n, unit / 4 * (1 + unit / 2), np.float32)
            given = [asarray(_in_dtype(a, dtype)) for a in (x, weight, np.full((n, n), 1 + unit, np.float32))]
            found = self.attempt(*given[:2], asarray(bias), dtype=dtype)
            self.known[key] = found is not None and bool((found[0] == given[2]).all())
        return self.known[key]

    def reads_bits(self, dtype: np.dtype, factors: np.dtype) -> bool:
        """Return True if products read ``positive_bits`` as the mask of a ReLU.

        This is computed on the device once.
        """
        key = ("bits", factors.char, dtype.char)
        if key not in self.known:
            asarray, n = sys.modules["cupy"].asarray, MASK_BITS
            x = np.resize(np.array([1, -2, 3, -4, 5], np.float32), (n, n))
            chosen = np.resize(np.array([1, 0, -1, 0, 1, 1, -1], np.float32), (n, n))
            given = [asarray(_in_dtype(a, factors)) for a in (x, np.eye(n, dtype=np.float32))]
            found = self.attempt(*given, mask=positive_bits(asarray(chosen)), dtype=dtype)
            self.known[key] = found is not None and bool((found[0] == asarray(np.where(chosen > 0, x, 0))).all())
        return self.known[key]


def _key(
    x: Any, weight: Any, bias: Any, *, dtype: Any = None, tensor_float: bool = False, **end: Any
) -> tuple[Any, ...]:
    """Return a key. cuBLASLt accepts all products with this key, or none."""
    char = x.dtype.char
    result = char if dtype is None else np.dtype(dtype).char
    bias_char = result if bias is None else bias.dtype.char
    places = x.shape, x.strides, weight.shape, weight.strides
    return (epilogue_name(bias is not None, **end), char, weight.dtype.char, result, bias_char, *places, tensor_float)


def _with_layout(a: Any, batch: tuple[int, ...] = ()) -> tuple[Any, Layout]:
    """Return matrices of a batch with their layout, or a copy if they have none."""
    cupy = sys.modules["cupy"]
    a = cupy.broadcast_to(a, (*batch, *a.shape[-2:])) if batch else a
    found = layout(a)
    if found is not None:
        return a, found
    return cupy.ascontiguousarray(a), Layout(False, a.shape[-1], a.shape[-2] * a.shape[-1])


def positive_bits(y: Any) -> Any:
    """Return a bit for each positive element of a matrix, as cuBLASLt's masks."""
    (m, n), cupy = y.shape, sys.modules["cupy"]
    width = -(-n // MASK_BITS) * MASK_BITS // 8
    return elementwise_kernel("positive_bits")(y, n, width, cupy.empty((m, width), np.uint8))


def _in_dtype(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return numbers that bfloat16 can represent, in the dtype of factors."""
    return (a.view(np.uint32) >> 16).astype(dtype) if dtype.char == "H" else a.astype(dtype)


def _compute(dtype: np.dtype, tensor_float: bool) -> int:
    if dtype.char == "d":
        return cublaslt.COMPUTE_64F
    return cublaslt.COMPUTE_32F_FAST_TF32 if dtype.char == "f" and tensor_float else cublaslt.COMPUTE_32F


def epilogue_name(bias: bool, relu: bool = False, mask: Any = None, sums: bool = False) -> str:
    """Return the cuBLASLt name of the operations after a product, or an empty string."""
    if relu:
        return "RELU" + "_AUX" * (mask is not None) + "_BIAS" * bias
    if mask is not None:
        return "DRELU_BGRAD" if sums else "DRELU"
    if sums:  # the sums of the second factor, which is the first one of cuBLASLt
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
    """Return ``x @ weight`` of two matrices in ``dtype``, by cuBLAS.

    No graph can contain this call. The current device must be the device of the arrays.
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

    It uses cuBLASLt in a capture, in which CuPy raises for its own products, and in ``timing``, which prepares for one.
    """
    cupy = sys.modules["cupy"]
    if (_TIMING.wanted or is_capturing()) and x.dtype.char in REAL and x.dtype == weight.dtype:
        found = current_lt().attempt(x, weight, tensor_float=tensor_float_by_default())
        if found is not None:
            return found[0]
    return cupy.matmul(x, weight)
