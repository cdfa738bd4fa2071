"""Searching, counting and tests over elements: integers and booleans, with no derivative."""

from typing import Any

from agrad.backends import backend_of
from agrad.engine.batching import spread
from agrad.engine.levels import AMBIENT
from agrad.engine.notation import primitive
from agrad.engine.tensor import Tensor, constant
from agrad.errors import OperandError, ShapeError
from agrad.ops.indexing import take
from agrad.ops.shared import array_arguments, axes_of, ndim_of
from agrad.shapes import normalize_axis, size


@primitive(constant="x")
def argmax(xp: Any, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the greatest element along ``axis`` (None: of the flattened array). Integers; no derivative."""
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@primitive(constant="x")
def argmin(xp: Any, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the least element along ``axis`` (None: of the flattened array). Integers; no derivative."""
    return xp.argmin(x, axis=axis, keepdims=keepdims)


def _extreme_batch(name: str) -> Any:
    def rule(xp: Any, x: Any, batch_size: int, *, axis: int | None, keepdims: bool) -> Any:
        shape, word = tuple(x.shape), getattr(xp, name)
        if axis is not None:
            return word(x, axis=normalize_axis(axis, len(shape) - 1) + 1, keepdims=keepdims)
        found = word(xp.reshape(x, (batch_size, size(shape[1:]))), axis=1)
        return xp.reshape(found, (batch_size, *(1,) * (len(shape) - 1))) if keepdims else found

    return rule


argmax.batch(_extreme_batch("argmax"))
argmin.batch(_extreme_batch("argmin"))


@primitive(constant="x", normalize={"axis": axes_of}, batch="axis")
def all(xp: Any, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements over ``axis`` are true. Booleans; no derivative."""
    return xp.all(x, axis=axis, keepdims=keepdims)


@primitive(constant="x", normalize={"axis": axes_of}, batch="axis")
def any(xp: Any, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element over ``axis`` is true. Booleans; no derivative."""
    return xp.any(x, axis=axis, keepdims=keepdims)


@primitive(constant="x", normalize={"axis": axes_of}, batch="axis")
def count_nonzero(xp: Any, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements over ``axis`` (an int, a tuple, or None for all) are not zero. Integers; no derivative."""
    return xp.count_nonzero(x, axis=axis, keepdims=keepdims)


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """The indices of the elements that are not zero: one integer array an axis, in row-major order. No derivative.

    x: array of one dimension or more. Raises ``ShapeError`` for one of none.
    """
    if not ndim_of(x, "nonzero"):
        raise ShapeError("nonzero takes an array of one dimension or more; reshape it to (1,) first")
    if not isinstance(x, Tensor):
        return tuple(backend_of(x).xp.nonzero(x))
    x._check_concrete("nonzero, whose result's shape depends on values,")
    return tuple(constant(part, AMBIENT) for part in backend_of(x.raw).xp.nonzero(x.raw))


@primitive(constant=("x1", "x2"))
def searchsorted(xp: Any, x1: Any, x2: Any, /, *, side: str) -> Any:
    return xp.searchsorted(x1, x2, side=side)


@searchsorted.batch
def searchsorted_batch(
    xp: Any, x1: Any, x2: Any, x1_mapped: bool, x2_mapped: bool, batch_size: int, *, side: str
) -> Any:
    if not x1_mapped:
        return xp.searchsorted(x1, x2, side=side)
    # there is no word that looks in many arrays at once
    found = [xp.searchsorted(x1[i, :], x2[(i, ...)] if x2_mapped else x2, side=side) for i in range(batch_size)]
    return xp.stack(found, axis=0) if found else xp.astype(spread(xp, x2, x2_mapped, batch_size), xp.int64)


_searchsorted = searchsorted.bind


@searchsorted.door
def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where to insert the elements of ``x2`` in ``x1`` so that it stays in ascending order. Integers; no derivative.

    x1: sorted array of one dimension; x2: array of any shape, or a number; ``side``: "left" or "right", which end of
    a run of equal elements. ``sorter``: the indices that sort ``x1``, where it is not sorted itself.
    """
    if side not in ("left", "right"):
        raise OperandError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    if ndim_of(x1, "searchsorted") != 1:
        raise ShapeError(f"searchsorted looks in an array of one dimension, not one of shape {tuple(x1.shape)}")
    if sorter is not None:
        x1 = take(x1, sorter)
    return _searchsorted(*array_arguments("searchsorted", x1, x2), side=side)


__all__ = ["all", "any", "argmax", "argmin", "count_nonzero", "nonzero", "searchsorted"]
