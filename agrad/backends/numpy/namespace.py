"""Functions of the standard on NumPy that are faster than its own or correct them.

NumPy's functions first convert their arguments and search for overrides; on an 8 x 8 array this takes one half to nine
tenths of the time. Here every argument is a NumPy array or scalar.
"""

import functools
import math
from typing import Any

import numpy as np

from agrad.registry import kernel
from agrad.shapes import ARRAY, fill_index

Axis = int | tuple[int, ...] | None

# an array of at least _LONG elements in rows of at most _SHORT is reduced column by column: NumPy takes 20 ns to begin
# a row, and rows of 2 to 5 were measured to take two thirds to a twentieth of the time
_LONG, _SHORT = 1024, 5


def reduced(ufunc: np.ufunc, x: Any, axis: Axis, keepdims: bool, out: Any = None) -> Any:
    """Return ``ufunc.reduce(x, axis=axis)``, with the same bits, in ``out`` if given.

    A sum of nothing but negative zeros is an exception: it is negative here. ``out`` shares no memory with ``x``.
    """
    if x.size >= _LONG and 1 < x.shape[-1] <= _SHORT and x.ndim > 1 and x.dtype.char in "fd" and x.flags.c_contiguous:
        last = x.ndim - 1
        if axis in (last, (last,), -1, (-1,)):
            made = ufunc(x[..., 0], x[..., 1], out=out[..., 0] if keepdims and out is not None else out)
            for i in range(2, x.shape[-1]):
                ufunc(made, x[..., i], out=made)
            return out if out is not None else made[..., None] if keepdims else made
    return ufunc.reduce(x, axis=axis, keepdims=keepdims, out=out)


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    if dtype is not None:
        return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)
    return reduced(np.add, x, axis, keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return reduced(np.maximum, x, axis, keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return reduced(np.minimum, x, axis, keepdims)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    if x.dtype.char not in "fdFD" or not x.size:
        return np.mean(x, axis=axis, keepdims=keepdims)
    total = reduced(np.add, x, axis, keepdims)
    return total / (x.size // total.size)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return np.asarray(x.astype(dtype, copy=copy))  # an array of a NumPy scalar too, as views can share it


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    return x.reshape(shape) if copy is None else np.reshape(x, shape, copy=copy)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    return np.asarray(obj, dtype, copy=copy)


def any_(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


def all_(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


def flip(x: Any, /, *, axis: Axis = None) -> Any:
    index = [slice(None)] * x.ndim
    for i in range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,):
        index[i] = slice(None, None, -1)
    return x[tuple(index)]


def arange_like(x: Any, n: int, /) -> Any:
    return np.arange(n)


def _running(x: Any, sums: Any, axis: int | None, start: int, include_initial: bool) -> Any:
    if not include_initial:
        return sums
    lead = (slice(None),) * ((0 if axis is None else axis) % x.ndim)
    shape = list(sums.shape)
    shape[len(lead)] += 1
    out = np.full(shape, start, sums.dtype)
    out[(*lead, slice(1, None))] = sums
    return out


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return _running(x, x.cumsum(axis, dtype), axis, 0, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return _running(x, x.cumprod(axis, dtype), axis, 1, include_initial)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    return x.take(indices, axis=axis)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    return x.transpose(axes)


def matrix_transpose(x: Any, /) -> Any:
    return x.mT


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    x = np.asarray(x)
    lead = len(shape) - x.ndim
    if lead < 0 or not x.flags.c_contiguous or not x.size:
        return np.broadcast_to(x, shape)
    for n, m in zip(x.shape, shape[lead:], strict=True):
        if n != m and n != 1:
            return np.broadcast_to(x, shape)
    strides = (0,) * lead + tuple([0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)])
    out = np.ndarray(shape, x.dtype, x, 0, strides)
    out.setflags(write=False)  # one element stands in several places
    return out


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.zeros(x.shape, x.dtype if dtype is None else dtype, "F" if x.flags.fnc else "C")


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return np.ones(x.shape, x.dtype if dtype is None else dtype, "F" if x.flags.fnc else "C")


_SMALL = 4096
"""Elements of matrices whose triangle is remembered: of small ones NumPy takes most of the time to make it."""


@functools.lru_cache(64)
def _triangle(m: int, n: int, k: int) -> Any:
    return np.tri(m, n, k, bool)


def tril(x: Any, /, *, k: int = 0) -> Any:
    if (m := x.shape[-2]) * (n := x.shape[-1]) > _SMALL:
        return np.tril(x, k)
    return np.where(_triangle(m, n, k), x, x.dtype.type(0))


def triu(x: Any, /, *, k: int = 0) -> Any:
    if (m := x.shape[-2]) * (n := x.shape[-1]) > _SMALL:
        return np.triu(x, k)
    return np.where(_triangle(m, n, k - 1), x.dtype.type(0), x)


def expm1(x: Any, /) -> Any:
    out = np.expm1(x)
    if out.dtype.char not in "FD":
        return out
    # NumPy's complex expm1 is NaN at infinities, and keeps the sign of a zero that the standard drops
    special = ~np.isfinite(x) | (x == 0)
    return np.where(special, np.exp(x) - 1, out) if special.any() else out


# ------------------------------------------------------------------ adding at an index

_FEW = 512
"""Elements up to which ``numpy.add.at`` is as fast as flat positions."""

_LONG_ROW = 150
"""Elements of a row from which on it is faster to add row by row than element by element, measured."""

Shape = tuple[int, ...]


def scatter_add(g: np.ndarray, /, *indices: np.ndarray, index: tuple[Any, ...], shape: Shape) -> np.ndarray:
    """Return zeros of ``shape`` with ``g`` added at the index.

    Repeated positions accumulate in the order of ``g``. ``numpy.add.at`` has a fast loop for one flat index. For an
    index of several parts it takes ten times as long.
    """
    out = np.zeros(shape, dtype=g.dtype)
    arrays = all(type(i) is np.ndarray for i in indices)
    if arrays and all(i.dtype.kind == "b" for i in indices):  # without integer arrays no position repeats
        out[fill_index(index, indices)] = g
    elif not arrays or g.size <= _FEW or not _add_flat(out, g, indices, index):
        np.add.at(out, fill_index(index, indices), g)
    return out


@kernel("numpy", "scatter_sum", "forward")
def scatter_sum(*parts: Any, indices: tuple[tuple[Any, ...], ...], shape: Shape) -> np.ndarray:
    """Return zeros of ``shape`` with each part added at its index."""
    first = parts[0]
    if indices[0] == (Ellipsis,):
        out = np.array(first)
    else:
        out = np.zeros(shape, first.dtype)
        out[indices[0]] = first
    for part, index in zip(parts[1:], indices[1:], strict=True):
        out[index] += part
    return out


def _add_flat(out: np.ndarray, g: np.ndarray, indices: tuple[np.ndarray, ...], index: tuple[Any, ...]) -> bool:
    """Add by flat positions or by rows, or return False.

    False is for an index that is not full slices followed by arrays of integers in range.
    """
    lead, end = len(index) - len(indices), len(index)
    if not all(entry == slice(None) for entry in index[:lead]) or not all(entry is ARRAY for entry in index[lead:]):
        return False
    places: Any = 0
    for entry, n in zip(indices, out.shape[lead:end], strict=True):
        counted = _counted(entry, n)
        if counted is None:
            return False  # numpy.add.at raises the error
        places = places * n + counted
    places = places.reshape(-1)
    blocks, length, row = math.prod(out.shape[:lead]), math.prod(out.shape[lead:end]), math.prod(out.shape[end:])
    if row >= _LONG_ROW:
        to, given = out.reshape(blocks, length, row), g.reshape(blocks, places.size, row)
        for k, place in enumerate(places.tolist()):
            to[:, place] += given[:, k]
        return True
    if blocks > 1 or row > 1:
        starts = np.arange(blocks)[:, None] * length + places
        places = (starts[:, :, None] * row + np.arange(row)).reshape(-1)
    np.add.at(out.reshape(-1), places, g.reshape(-1))
    return True


def _counted(index: np.ndarray, length: int) -> np.ndarray | None:
    """Return integers counted from the start of an axis, or None if they do not fit."""
    if index.dtype.kind not in "iu" or not index.size:
        return None
    least = int(index.min())
    if least < -length or int(index.max()) >= length:
        return None
    index = index.astype(np.intp, copy=False)
    return index if least >= 0 else np.where(index < 0, index + length, index)


_OWN = (
    *(sum, prod, max, min, mean, astype, asarray, reshape, permute_dims, matrix_transpose, broadcast_to),
    *(flip, arange_like, cumulative_sum, cumulative_prod, take, zeros_like, ones_like, tril, triu),
)
WORDS = {word.__name__: word for word in (*_OWN, expm1, scatter_add)}
WORDS |= {"any": any_, "all": all_}
WORDS["matmul"] = np.matmul  # array-api-compat's looks up the namespace first
