"""The functions beyond the standard, implemented with functions of the standard.

A basic index is a slice of a copy, or zeros around and between. An index with arrays of known values is one ``take`` at
positions computed on the host. If the values of integer arrays cannot be read, positions are computed by arithmetic.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from agrad.backends.base import in_digits_of
from agrad.backends.convolution import beside, zeros_around, zeros_between
from agrad.backends.indexing import check_bounds, explicit, positions
from agrad.dtypes import as_dtype
from agrad.errors import OperandError
from agrad.shapes import ARRAY, fill_index, size

Index = tuple[Any, ...]


def _is_whole(entry: Any) -> bool:
    return isinstance(entry, slice) and entry == slice(None)


def _axis_of(index: Index, arrays: list[np.ndarray], ndim: int) -> int | None:
    """Return the axis of an index that is one vector of integers among whole axes, or None for another index."""
    if len(arrays) != 1 or arrays[0].ndim != 1 or arrays[0].dtype == bool:
        return None
    at = index.index(ARRAY)
    if Ellipsis in index[:at]:
        at += ndim - len(index)
    rest = [entry for entry in index if entry is not ARRAY and entry is not Ellipsis]
    return at if all(map(_is_whole, rest)) else None


class ExtensionFunctions:
    """The indexing functions of a library, and functions that create arrays.

    ``placed(host, like)`` returns an array of the library with the values of a NumPy array, on the device of ``like``.
    ``known(array)`` returns the values of an index array as a NumPy array, or None if they cannot be read here.
    ``writes``: True if arrays are writable.
    """

    def __init__(
        self,
        xp: SimpleNamespace,
        placed: Callable[[np.ndarray, Any], Any],
        known: Callable[[Any], np.ndarray | None],
        writes: bool,
    ) -> None:
        self.xp, self.placed, self.known, self.writes = xp, placed, known, writes

    def _values(self, indices: tuple[Any, ...]) -> list[np.ndarray] | None:
        values = [self.known(array) for array in indices]
        return None if any(v is None for v in values) else values  # type: ignore[return-value]

    def _flat(self, x: Any) -> Any:
        return x if len(x.shape) == 1 else self.xp.reshape(x, (size(x.shape),))

    def _gather(self, x: Any, places: np.ndarray, axis: int = 0) -> Any:
        """Return the elements at positions along an axis of ``x``, in the shape of the positions."""
        shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
        if not size(shape):
            return self.xp.zeros(shape, dtype=x.dtype, **beside(x))
        taken = self.xp.take(x, self.placed(places.reshape(-1), x), axis=axis)
        return taken if places.ndim == 1 else self.xp.reshape(taken, shape)

    def getitem(self, x: Any, /, *indices: Any, index: Index) -> Any:
        shape = tuple(x.shape)
        at = None if indices else explicit(index, shape)
        if at is not None:
            return x[(*at, ...)] if Ellipsis in index else x[at]  # an array, and no scalar
        values = self._values(indices)
        if values is None:
            places = self._positions(x, indices, index, shape)
            return self.xp.reshape(self.xp.take(self._flat(x), self._flat(places), axis=0), tuple(places.shape))
        axis = _axis_of(index, values, len(shape))
        if axis is None:
            return self._gather(self._flat(x), positions(index, values, shape))
        places = np.arange(shape[axis])[values[0]]
        if places.size and isinstance(indices[0], type(x)) and (places == values[0]).all():
            return self.xp.take(x, indices[0], axis=axis)
        return self._gather(x, places, axis)

    def scatter_add(self, g: Any, /, *indices: Any, index: Index, shape: tuple[int, ...]) -> Any:
        if not size(g.shape) or not size(shape):
            return self.xp.zeros(shape, dtype=g.dtype, **beside(g))
        at = None if indices else explicit(index, shape)
        if at is not None:
            return self._spread(g, at, shape)
        values = self._values(indices)
        if values is None:
            return self._added_at_unknown(g, indices, index, shape)
        axis = _axis_of(index, values, len(shape))
        if axis is None:
            places = positions(index, values, shape).reshape(-1)
            return self.xp.reshape(self._added(self._flat(g), places, size(shape), 0), shape)
        return self._added(g, np.arange(shape[axis])[values[0]], shape[axis], axis)

    def _added(self, g: Any, places: np.ndarray, length: int, axis: int) -> Any:
        """Return zeros with ``g`` added at positions along an axis.

        Elements at the same position are added in pairs, until each position has one.
        """
        order = np.argsort(places, kind="stable")
        places = places[order]
        while True:
            starts = np.flatnonzero(np.diff(places, prepend=-1))
            rank = np.arange(places.size) - np.repeat(starts, np.diff(starts, append=places.size))
            padded = self._padded(g, axis)
            if not rank.any():
                break
            first = np.flatnonzero(rank % 2 == 0)
            second = np.append(rank, 0)[first + 1] % 2 == 1
            places, pairs = places[first], np.where(second, np.append(order, 0)[first + 1], g.shape[axis])
            one, other = self._gather(g, order[first], axis), self._gather(padded, pairs, axis)
            g = self.xp.logical_or(one, other) if _is_boolean(g) else one + other
            order = np.arange(places.size)
        table = np.full(length, g.shape[axis])  # the zero at the end
        table[places] = order
        return self._gather(padded, table, axis)

    def _padded(self, g: Any, axis: int) -> Any:
        zero = self.xp.zeros((*g.shape[:axis], 1, *g.shape[axis + 1 :]), dtype=g.dtype, **beside(g))
        return self.xp.concat([g, zero], axis=axis)

    def _spread(self, g: Any, at: Index, shape: tuple[int, ...]) -> Any:
        """Return zeros with ``g`` at a basic index."""
        if self.writes:
            out = self.xp.zeros(shape, dtype=g.dtype, **beside(g))
            return self._written(out, g, at)
        entries = [e for e in at if e is not None]
        ranges = [
            range(n)[e] if isinstance(e, slice) else range(n)[e:][:1] for e, n in zip(entries, shape, strict=True)
        ]
        g = self.xp.reshape(g, tuple(map(len, ranges)))
        for axis, (r, n) in enumerate(zip(ranges, shape, strict=True)):
            if r.step < 0:
                g, r = self.xp.flip(g, axis=axis), r[::-1]
            if len(r) != n:
                g = zeros_between(self.xp, g, axis, r.step)
                g = zeros_around(self.xp, g, axis, r[0], n - 1 - r[-1])
        return g

    def _written(self, out: Any, value: Any, at: Index) -> Any:
        """Write into our own array at a basic index without None, which the standard does not support here."""
        if None in at:
            at = tuple(e for e in at if e is not None)
            value = self.xp.reshape(value, np.broadcast_to(np.False_, out.shape)[at].shape)
        out[at] = value
        return out

    def setitem(self, x: Any, value: Any, /, *indices: Any, index: Index) -> Any:
        shape = tuple(x.shape)
        if not hasattr(value, "shape"):
            value = self.xp.full((), value, dtype=x.dtype, **beside(x))
        elif value.dtype != x.dtype:
            value = self.xp.astype(value, x.dtype)
        at = None if indices else explicit(index, shape)
        if at is not None:
            return self._set_at(x, value, at, shape)
        values = self._values(indices)
        if values is None:
            return self._set_at_unknown(x, value, indices, index)
        check_bounds(index, values, shape)
        picked = np.broadcast_to(np.False_, shape)[fill_index(index, values)].shape
        value = self._shaped(value, picked)
        if not size(picked):
            return x
        places = np.arange(size(shape)).reshape(shape)
        places[fill_index(index, values)] = size(shape) + np.arange(size(picked)).reshape(picked)
        return self._gather(self.xp.concat([self._flat(x), self._flat(value)], axis=0), places)

    def _set_at(self, x: Any, value: Any, at: Index, shape: tuple[int, ...]) -> Any:
        picked = np.broadcast_to(np.False_, shape)[at].shape
        if not size(picked):
            return x
        if not self.writes:
            mask = np.zeros(shape, bool)
            mask[at] = True
            return self.xp.where(self.placed(mask, x), self._spread(self._shaped(value, picked), at, shape), x)
        if None in at or len(value.shape) > len(picked):
            value = self._shaped(value, picked)
        return self._written(self.xp.astype(x, x.dtype), value, at)

    def _shaped(self, value: Any, shape: tuple[int, ...]) -> Any:
        """Return a value broadcast as assignments do, which drop leading axes of length 1."""
        extra = len(value.shape) - len(shape)
        if extra > 0 and all(n == 1 for n in value.shape[:extra]):
            value = self.xp.reshape(value, tuple(value.shape[extra:]))
        return value if tuple(value.shape) == shape else self.xp.broadcast_to(value, shape)

    # ------------------------------------------------------------ indices that cannot be read

    def _positions(self, x: Any, indices: tuple[Any, ...], index: Index, shape: tuple[int, ...]) -> Any:
        """Return the positions in the flattened array for an index whose arrays cannot be read."""
        xp, lead = self.xp, index.index(ARRAY)
        end = lead + len(indices)
        trailing = index[end:]
        plain = all(map(_is_whole, (*index[:lead], *(e for e in trailing if e is not Ellipsis))))
        if not plain or index[lead:end] != (ARRAY,) * len(indices) or any(map(_is_boolean, indices)):
            raise OperandError(
                f"x[i]: the values of an index array cannot be read here, so that i must be integer arrays after whole "
                f"axes, got {index}. Use agrad.where or agrad.take."
            )
        place: Any = 0
        for axis, i in enumerate(indices, lead):
            i = xp.astype(i, xp.int64)
            place = place + xp.where(i < 0, i + shape[axis], i) * size(shape[axis + 1 :])
        rest = len(shape) - end
        rows = np.arange(size(shape[:lead])).reshape(shape[:lead] + (1,) * (len(place.shape) + rest))
        tail = np.arange(size(shape[end:])).reshape(shape[end:])
        place = xp.reshape(place, (*place.shape, *(1,) * rest))
        return place + self.placed(rows * size(shape[lead:]) + tail, x)

    def _added_at_unknown(self, g: Any, indices: tuple[Any, ...], index: Index, shape: tuple[int, ...]) -> Any:
        """Return the product with the matrix that is 1 at the positions."""
        xp, n = self.xp, size(shape)
        places = self._flat(self._positions(g, indices, index, shape))
        rows = self.placed(np.arange(n).reshape(n, 1), g)
        ones = xp.astype(xp.expand_dims(places, axis=0) == rows, g.dtype)
        return xp.reshape(xp.matmul(ones, self._flat(g)), shape)

    def _set_at_unknown(self, x: Any, value: Any, indices: tuple[Any, ...], index: Index) -> Any:
        mask = indices[0]
        if index == (ARRAY,) and _is_boolean(mask) and not value.shape:
            mask = self.xp.reshape(mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))
            return self.xp.where(mask, value, x)
        raise OperandError(
            f"x[i] = v: the values of an index array cannot be read here, so that i must be one mask and v a number, "
            f"got {index}. Use agrad.where."
        )

    def arange_like(self, x: Any, n: int, /) -> Any:
        return self.xp.arange(n, **beside(x)) if hasattr(self.xp, "arange") else self.placed(np.arange(n), x)

    # ------------------------------------------------------------ complex numbers

    def from_parts(self, x1: Any, x2: Any, /) -> Any:
        """Return ``x1 + 1j * x2``, with the signs of zeros and without NaN for infinities."""
        xp = self.xp
        dtype = xp.complex64 if as_dtype(x1.dtype).name == "float32" else xp.complex128
        length = xp.abs(x2)
        finite = xp.isfinite(length)
        known = xp.astype(xp.where(finite, length, xp.zeros_like(length)), dtype)

        def above(real: float) -> Any:
            ends = [xp.full((), complex(real, end), dtype=dtype, **beside(x2)) for end in (math.inf, math.nan)]
            return xp.where(finite, complex(real, 1) * known, xp.where(length > 0, *ends))

        z = xp.where((x1 == 0) & xp.signbit(x1), above(-0.0), xp.astype(x1, dtype) + above(0.0))
        return xp.where(xp.signbit(x2), xp.conj(z), z)


def _is_boolean(array: Any) -> bool:
    return as_dtype(array.dtype).kind == "bool"


def solve_or_nan(xp: Any, x1: Any, x2: Any, /) -> Any:
    """Return the solution of ``x1 @ y = x2``, NaN if ``x1`` is singular."""
    singular = xp.expand_dims(xp.expand_dims(xp.linalg.slogdet(x1)[0] == 0, axis=-1), axis=-1)
    identity = xp.zeros_like(x1) + xp.eye(x1.shape[-1], dtype=x1.dtype, **beside(x1))
    y = xp.linalg.solve(xp.where(singular, identity, x1), x2)
    return xp.where(singular, xp.full_like(y, math.nan), y)


def lu(xp: Any, x: Any, /) -> tuple[Any, Any, Any]:
    """Return P, L and U of each matrix, with the pivots that LAPACK chooses."""
    kind = as_dtype(x.dtype).kind
    x = x if kind.endswith("floating") else xp.astype(x, xp.float64)
    m, n = x.shape[-2:]
    k = min(m, n)
    rows, columns = xp.arange_like(x, m), xp.arange_like(x, n)
    down = xp.expand_dims(rows, axis=-1)
    order = xp.broadcast_to(rows, tuple(x.shape[:-1]))
    for j in range(k):
        column = x[..., :, j]
        lengths = xp.abs(xp.real(column)) + xp.abs(xp.imag(column)) if kind[0] == "c" else xp.abs(column)
        pivot = xp.argmax(xp.where(rows >= j, lengths, -xp.ones_like(lengths)), axis=-1, keepdims=True)
        swap = rows + (pivot - j) * (xp.astype(rows == j, rows.dtype) - xp.astype(rows == pivot, rows.dtype))
        order = xp.take_along_axis(order, swap, axis=-1)
        places = xp.expand_dims(swap, axis=-1) + xp.zeros(tuple(x.shape), dtype=swap.dtype, **beside(x))
        x = xp.take_along_axis(x, places, axis=-2)
        top = x[..., j : j + 1, j : j + 1]
        top = xp.where(top == 0, xp.ones_like(top), top)
        factor = xp.where(down > j, x[..., :, j : j + 1] / top, xp.zeros_like(top))
        x = xp.where((down > j) & (columns == j), factor, x)
        x = x - xp.where(columns > j, factor * x[..., j : j + 1, :], xp.zeros_like(x))
    P = xp.astype(xp.expand_dims(order, axis=-2) == down, x.dtype)
    return P, xp.tril(x[..., :, :k], k=-1) + xp.astype(down == columns[:k], x.dtype), xp.triu(x[..., :k, :])


def diagonal(xp: Any, x: Any, /, *, offset: int = 0) -> Any:
    rows = np.diagonal(np.arange(size(x.shape[-2:])).reshape(x.shape[-2:]), offset) // x.shape[-1]
    return xp.getitem(x, rows, rows + offset, index=(Ellipsis, ARRAY, ARRAY))


def vector_norm(xp: Any, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    lengths = xp.abs(x)
    if abs(ord) == math.inf:
        return (xp.max if ord > 0 else xp.min)(lengths, axis=axis, keepdims=keepdims)
    if ord == 0:
        return xp.sum(xp.astype(lengths != 0, lengths.dtype), axis=axis, keepdims=keepdims)
    power = in_digits_of(x, 1 / ord, lambda xp, one: one / ord)
    return xp.sum(lengths**ord, axis=axis, keepdims=keepdims) ** power
