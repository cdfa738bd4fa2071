"""Sums, products and extremes of segments: of the elements that have the same id."""

from collections.abc import Callable
from operator import index as as_int
from typing import Any

from agrad.backends import backend_of
from agrad.dtypes import as_dtype, is_complex, is_floating
from agrad.engine.joining import joined, moves
from agrad.engine.tensor import raw_of
from agrad.errors import DtypeError, OperandError, ShapeError
from agrad.ops.casting import astype, iinfo
from agrad.ops.creation import full_like, ones_like, zeros_like
from agrad.ops.definition import public_of_arrays
from agrad.ops.discrete import isfinite, isnan
from agrad.ops.elementwise import maximum
from agrad.ops.indexing import index_array, scatter_add, take, take_along_axis
from agrad.ops.manipulation import concat, reshape
from agrad.ops.searching import argsort
from agrad.ops.selection import where
from agrad.ops.shared import ndim_of
from agrad.ops.statistical import cumulative_sum
from agrad.shapes import ARRAY, size

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _arguments(name: str, values: Any, ids: Any, num_segments: Any) -> tuple[Any, Any, int]:
    """Return values, ids (``num_segments`` if outside), and ``num_segments``."""
    values, ids = joined(name, (values, ids)) if moves(values, ids) else (values, ids)
    ndim, count = ndim_of(values, name), as_int(num_segments)
    if count < 0:
        raise OperandError(f"{name}: num_segments must not be negative, got {count}")
    if as_dtype(values.dtype).kind == "bool":
        raise DtypeError(f"{name}: values must be numeric, got bool. Cast them: agrad.astype(values, agrad.int64).")
    ids = index_array(ids, raw_of(values))
    if as_dtype(ids.dtype).kind == "bool":
        raise DtypeError(f"{name}: ids must be integers, got bool")
    if ndim == 0 or tuple(ids.shape) != tuple(values.shape)[:1]:
        raise ShapeError(
            f"{name}: ids must contain one id for each element of the first axis of values of shape "
            f"{tuple(values.shape)}, got shape {tuple(ids.shape)}"
        )
    ids = astype(ids, backend_of(raw_of(values)).xp.int64)
    return values, where((ids >= 0) & (ids < count), ids, count), count


def _summed(values: Any, ids: Any, count: int) -> Any:
    return scatter_add(values, ids, index=(ARRAY,), shape=(count + 1, *values.shape[1:]))[:count, ...]


def _sizes(ids: Any, count: int, ndim: int) -> tuple[Any, Any]:
    """Return the broadcastable lengths of the segments, and their sorted ends."""
    sizes = _summed(ones_like(ids), ids, count)
    ends = maximum(cumulative_sum(sizes) - 1, zeros_like(sizes))
    return reshape(sizes, (count, *(1,) * (ndim - 1))), ends


@public_of_arrays
def segment_sum(values: Any, ids: Any, /, num_segments: int) -> Any:
    """Return the sums of the elements that have the same id.

    Parameters
    ----------
    values : array with at least one axis and a numeric dtype
    ids : array
        Integer segment index of each element along the first axis, in any order. An element whose id is not in 0, ...,
        ``num_segments - 1`` is ignored.
    num_segments : int
        Number of segments.

    Returns
    -------
    array
        Array of shape ``(num_segments, *values.shape[1:])``. An empty segment has 0.

    Examples
    --------
    >>> values, segments = np.asarray([1.0, 4.0, 2.0]), np.asarray([0, 0, 1])
    >>> agrad.segment_sum(values, segments, 2)
    array([5., 2.])
    >>> agrad.grad(lambda x: agrad.sum(agrad.segment_sum(x, segments, 2) ** 2))(values)
    array([10., 10.,  4.])
    """
    values, ids, count = _arguments("segment_sum", values, ids, num_segments)
    return _summed(values, ids, count)


@public_of_arrays
def segment_prod(values: Any, ids: Any, /, num_segments: int) -> Any:
    """Return the products of the elements that have the same id.

    Derivatives of every order are also correct at zeros.

    Parameters
    ----------
    values : array with at least one axis and a numeric dtype
    ids : array
    num_segments : int
        As for ``segment_sum``.

    Returns
    -------
    array
        Array of shape ``(num_segments, *values.shape[1:])``. An empty segment has 1.

    Notes
    -----
    A segmented scan of pairwise products: Hillis and Steele, Data parallel algorithms, 1986.

    Examples
    --------
    >>> values, segments = np.asarray([3.0, 4.0, 2.0]), np.asarray([0, 0, 1])
    >>> agrad.segment_prod(values, segments, 2)
    array([12.,  2.])
    >>> agrad.grad(lambda x: agrad.sum(agrad.segment_prod(x, segments, 2)))(values)
    array([4., 3., 1.])
    """
    values, ids, count = _arguments("segment_prod", values, ids, num_segments)
    n, ndim = values.shape[0], len(values.shape)
    if not n or not count:
        return _summed(values, ids, count) + 1
    order = argsort(ids)
    running, own = take(values, order, axis=0), take(ids, order)
    step = 1
    while step < n:
        same = reshape(own[step:] == own[:-step], (-1, *(1,) * (ndim - 1)))
        before = where(same, running[:-step, ...], ones_like(running[:-step, ...]))
        running = concat([running[:step, ...], running[step:, ...] * before])
        step *= 2
    sizes, ends = _sizes(ids, count, ndim)
    products = take(running, ends, axis=0)
    return where(sizes > 0, products, ones_like(products))


@public_of_arrays
def segment_max(values: Any, ids: Any, /, num_segments: int) -> Any:
    """Return the maximum of the elements that have the same id.

    Elements that tie share the derivative evenly.

    Parameters
    ----------
    values : array with at least one axis and a real dtype
    ids : array
    num_segments : int
        As for ``segment_sum``.

    Returns
    -------
    array
        Array of shape ``(num_segments, *values.shape[1:])``. An empty segment has minus infinity,
        or the smallest integer.

    Examples
    --------
    >>> values, segments = np.asarray([1.0, 4.0, 2.0]), np.asarray([0, 0, 1])
    >>> agrad.segment_max(values, segments, 2)
    array([4., 2.])
    >>> agrad.grad(lambda x: agrad.sum(agrad.segment_max(x, segments, 2)))(values)
    array([0., 1., 1.])
    """
    return _extreme("segment_max", values, ids, num_segments, True)


@public_of_arrays
def segment_min(values: Any, ids: Any, /, num_segments: int) -> Any:
    """Return the minimum of the elements that have the same id.

    Elements that tie share the derivative evenly.

    Parameters
    ----------
    values : array with at least one axis and a real dtype
    ids : array
    num_segments : int
        As for ``segment_sum``.

    Returns
    -------
    array
        Array of shape ``(num_segments, *values.shape[1:])``. An empty segment has infinity, or
        the largest integer.

    Examples
    --------
    >>> values, segments = np.asarray([1.0, 4.0, 2.0]), np.asarray([0, 0, 1])
    >>> agrad.segment_min(values, segments, 2)
    array([1., 2.])
    >>> agrad.grad(lambda x: agrad.sum(agrad.segment_min(x, segments, 2)))(values)
    array([1., 0., 1.])
    """
    return _extreme("segment_min", values, ids, num_segments, False)


def _extreme(name: str, values: Any, ids: Any, num_segments: int, greatest: bool) -> Any:
    if is_complex(values.dtype):
        raise DtypeError(f"{name}: values must be real, got {as_dtype(values.dtype)}")
    values, ids, count = _arguments(name, values, ids, num_segments)
    shape, ndim = tuple(values.shape), len(values.shape)
    floating = is_floating(values.dtype)
    limits = None if floating else iinfo(values.dtype)
    worst = float("-inf" if greatest else "inf") if limits is None else limits.min if greatest else limits.max
    if not size(shape) or not count:
        return _summed(values, ids, count) + worst
    order = argsort(values, axis=0, descending=not greatest)
    segment = reshape(take(ids, reshape(order, (-1,))), shape)
    order = take_along_axis(order, argsort(segment, axis=0), axis=0)
    sizes, ends = _sizes(ids, count, ndim)
    out = take_along_axis(values, take(order, ends, axis=0), axis=0)
    if floating:
        out = _shared(values, out, ids, lambda x: _summed(x, ids, count))
    return where(sizes > 0, out, full_like(out, worst))


def _shared(values: Any, out: Any, ids: Any, summed: Callable[[Any], Any]) -> Any:
    """Return ``out``, the extreme of each segment; ties share its derivative.

    The differences added are 0, or NaN in a segment with a NaN.
    """
    zero = zeros_like(values)
    spread = take(concat([out, zeros_like(out[:1, ...])]), ids, axis=0)
    hit = (values == spread) & isfinite(values)
    ties = summed(where(hit, ones_like(values), zero))
    ties = take(concat([ties, ones_like(ties[:1, ...])]), ids, axis=0)
    even = (where(hit, values, zero) - where(hit, spread, zero)) / maximum(ties, ones_like(ties))
    return out + summed(where(isnan(values), values, even))
