"""Helpers that several files of operations use: arguments in one form, kept axes."""

import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any, Literal, SupportsIndex, get_args

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import DType, as_dtype, is_floating
from agrad.engine.joining import joined
from agrad.engine.layouts import unit_stride
from agrad.engine.scalars import TracedNumber, host_array_call
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor, raw_of
from agrad.engine.views import as_numpy
from agrad.errors import OperandError
from agrad.registry import CALLS
from agrad.shapes import kept_shape, normalize_axes, normalize_axis

NUMBERS = (bool, int, float, complex)

Axes = SupportsIndex | Sequence[SupportsIndex] | None
"""What a reduction accepts as ``axis``; None: all axes."""
Reduction = Literal["mean", "sum", "none"]
"""The reductions of losses."""
Batchmean = Reduction | Literal["batchmean"]
REDUCTIONS = get_args(Reduction)


def shape_of(x: Any, name: str = "") -> tuple[int, ...]:
    """Return the shape of an array. Raise ``OperandError`` for any other object."""
    try:
        return tuple(x.shape)
    except AttributeError:
        frame: FrameType | None = None if name else sys._getframe(1)
        while frame is not None and (frame.f_code.co_filename == __file__ or frame.f_code.co_name[0] in "_<"):
            frame = frame.f_back
        name = name or (frame.f_code.co_name if frame else "")  # the public function, from which helpers were called
        kind = type(x.value if isinstance(x, TracedNumber) else x)
        raise OperandError(
            f"{name}: arguments must be Tensors or arrays, got {kind.__name__}. Convert it with agrad.asarray."
        ) from None


def ndim_of(x: Any, name: str = "") -> int:
    """Return the number of axes of an array. Raise ``OperandError`` for other objects."""
    try:
        return x.ndim
    except AttributeError:
        return len(shape_of(x, name))


def axes_of(axis: Any, x: Any) -> tuple[int, ...]:
    """Return a reduction's axes as a sorted tuple of non-negative numbers."""
    return normalize_axes(axis, ndim_of(x))


def axis_of(axis: int, x: Any) -> int:
    """Return an axis as a non-negative number."""
    return normalize_axis(axis, ndim_of(x))


def native_dtype(dtype: Any, x: Any) -> Any:
    """Return the array library's own dtype for the array ``x``; None for None."""
    if type(dtype) is not DType:
        return dtype
    raw = raw_of(x)
    if dtype.kind == "other" and dtype == raw.dtype:  # the namespace may have no such name: ``>f8``
        return raw.dtype
    return getattr(backend_of(raw).xp, dtype.name)


def floated(xp: Any, x: Any) -> Any:
    """Return ``x``, integers as floating numbers.

    Differences of integers may wrap around.
    """
    return x if is_floating(x.dtype) else xp.astype(x, xp.__array_namespace_info__().default_dtypes()["real floating"])


_RANKS = {bool: 0, int: 1, float: 2, complex: 3}
"""The order of Python number types: an array that can hold one can also hold the previous ones."""
_KIND_RANKS = {"bool": 0, "signed integer": 1, "unsigned integer": 1, "real floating": 2, "complex floating": 3}


def array_arguments(name: str, *values: Any) -> list[Any]:
    """Make arrays of the numbers among the arguments, on the first array's backend.

    Numbers are weakly typed: they get the dtype of the arrays if it can hold them. Booleans do not count among others.
    Raise ``OperandError`` for other objects, or if there is no array.
    """
    shaped = [v for v in values if hasattr(v, "shape")]
    if not shaped:
        raise OperandError(f"{name}: at least one argument must be an array. Create one with agrad.asarray.")
    if len(shaped) == len(values):
        return shaped
    arrays = [raw_of(v) for v in shaped]
    if len(set(map(type, arrays))) > 1:
        values = joined(name, values)
        arrays = [raw_of(v) for v in values if hasattr(v, "shape")]
    backend = backend_of(arrays[0])
    xp, device = backend.xp, backend.device_of(arrays[0])
    typed = [a for a in arrays if as_dtype(a.dtype).kind != "bool"] or arrays
    dtype = typed[0].dtype if len(typed) == 1 else xp.result_type(*typed)
    numbers = [v.value if isinstance(v, TracedNumber) else v for v in values if not hasattr(v, "shape")]
    rank = max([_RANKS.get(type(number), 0) for number in numbers])
    if rank > _KIND_RANKS.get(as_dtype(dtype).kind, rank):
        narrow = rank == 3 and as_dtype(dtype).name == "float32"
        dtype = xp.complex64 if narrow else (xp.int64, xp.float64, xp.complex128)[rank - 1]
    out = []
    for value in values:
        if not hasattr(value, "shape"):
            number = value.value if isinstance(value, TracedNumber) else value
            if type(number) not in NUMBERS:
                raise OperandError(f"{name}: arguments must be arrays or numbers, got {type(number).__name__}")
            place = partial(xp.asarray, dtype=dtype, device=device)
            value = host_array_call(type(number), (value,), place) if isinstance(value, TracedNumber) else place(value)
        out.append(value)
    return out


def keep(xp: Any, value: Any, shape: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    """Restore the reduced axes of a reduction's result, with length one."""
    target = kept_shape(shape, axis)
    return value if tuple(value.shape) == target else xp.reshape(value, target)


def cut(x: Any, axis: int, start: int, stop: int | None = None) -> Any:
    """Return the part of an array from ``start`` to before ``stop`` along ``axis``."""
    return x[(*(slice(None),) * axis, slice(start, stop), ...)]


def holds_tensor(value: Any) -> bool:
    """Return True if ``value`` is a Tensor, or a nested list or tuple with one in it."""
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(holds_tensor, value)))


def lies_in_a_row(x: Tensor) -> bool:
    """Return True if a Tensor is contiguous in memory, in row-major order.

    The present trace then depends on layouts.
    """
    raw = x.raw
    backend = backend_of(raw)
    if x.size < 2:
        return True
    if backend.shares_memory is None:
        return bool(as_numpy(x).flags.c_contiguous)
    trace = mode().trace
    if trace is not None:
        trace.by_layout = True
    step = unit_stride(backend, raw.dtype)
    for n, stride in zip(reversed(x.shape), reversed(backend.strides(raw)), strict=False):
        if n > 1 and stride != step:
            return False
        step *= n
    return True


def no_view(value: Any) -> Any:
    """Return a result as a separate array: writes to it change no other array."""
    if isinstance(value, Tensor):
        value._link = None
    return value


def is_array(value: Any) -> bool:
    """Return True if ``value`` is a Tensor or a plain array of an available backend."""
    return isinstance(value, Tensor) or backend_of_type(type(value)) is not None


CALLS["lies_in_a_row"] = lies_in_a_row
