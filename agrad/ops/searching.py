"""Searching, counting, tests of elements, and sorting.

Only sorted elements have a derivative: the permutation that sorts.
"""

from operator import index as as_int
from typing import Any, Literal

from agrad.backends import backend_of
from agrad.engine.batching import spread
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import OperandError, ShapeError
from agrad.ops.definition import of_library, primitive, public_of_array, public_of_arrays
from agrad.ops.discrete import logical_and, logical_or
from agrad.ops.indexing import along_axis, take, take_along_axis
from agrad.ops.shared import Axes, array_arguments, axes_of, axis_of, ndim_of
from agrad.registry import public
from agrad.shapes import ARRAY, normalize_axis, size

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "topk",
]  # fmt: skip


@public
@primitive(constant="x")
def argmax(xp: Any, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the maximum along an axis.

    The first one of several.

    Parameters
    ----------
    x : array of any shape with a real dtype
    axis : int, optional
        Axis. By default, the array is flattened.
    keepdims : bool
        If True, keep the reduced axes with length one.

    Returns
    -------
    array
        Integer array, which is constant.

    Examples
    --------
    >>> agrad.argmax(np.asarray([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]]), axis=1)
    array([1, 0])
    """
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@public
@primitive(constant="x")
def argmin(xp: Any, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the minimum along an axis.

    The first one of several.

    Parameters
    ----------
    x : array of any shape with a real dtype
    axis, keepdims : optional
        As for ``argmax``.

    Returns
    -------
    array
        Integer array, which is constant.

    Examples
    --------
    >>> agrad.argmin(np.asarray([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]]), axis=1)
    array([0, 1])
    """
    return xp.argmin(x, axis=axis, keepdims=keepdims)


def _extreme_batch(name: str) -> Any:
    def rule(xp: Any, x: Any, batch_size: int, *, axis: int | None, keepdims: bool) -> Any:
        shape, function = tuple(x.shape), getattr(xp, name)
        if axis is not None:
            return function(x, axis=normalize_axis(axis, len(shape) - 1) + 1, keepdims=keepdims)
        found = function(xp.reshape(x, (batch_size, size(shape[1:]))), axis=1)
        return xp.reshape(found, (batch_size, *(1,) * (len(shape) - 1))) if keepdims else found

    return rule


argmax.batch(_extreme_batch("argmax"))
argmin.batch(_extreme_batch("argmin"))


all_p = of_library("all(x, *, axis, keepdims)", constant="x", batch="axis", kind="reduction", combine=logical_and)


@public_of_array
def all(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Test if all elements along axes are true.

    Parameters
    ----------
    x : array of any shape and dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array
        Boolean array, which is constant.

    Examples
    --------
    >>> agrad.all(np.asarray([[True, True], [True, False]]), axis=1)
    array([ True, False])
    """
    return all_p(x, axis=axes_of(axis, x), keepdims=keepdims)


any_p = of_library("any(x, *, axis, keepdims)", constant="x", batch="axis", kind="reduction", combine=logical_or)


@public_of_array
def any(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Test if any element along axes is true.

    Parameters
    ----------
    x : array of any shape and dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array
        Boolean array, which is constant.

    Examples
    --------
    >>> agrad.any(np.asarray([[False, True], [False, False]]), axis=1)
    array([ True, False])
    """
    return any_p(x, axis=axes_of(axis, x), keepdims=keepdims)


count_nonzero_p = of_library("count_nonzero(x, *, axis, keepdims)", constant="x", batch="axis")


@public_of_array
def count_nonzero(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Count the elements over axes that are not zero.

    Parameters
    ----------
    x : array of any shape and dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array
        Integer array, which is constant.

    Examples
    --------
    >>> agrad.count_nonzero(np.asarray([[1, 0, 2], [0, 0, 3]]), axis=1)
    array([2, 1])
    """
    return count_nonzero_p(x, axis=axes_of(axis, x), keepdims=keepdims)


@public
def nonzero(x: Any, /) -> tuple[Any, ...]:
    """Return the indices of the elements that are not zero.

    In row-major order.

    Parameters
    ----------
    x : array with at least one axis

    Returns
    -------
    tuple of arrays
        One for each axis: integers, constants.

    Raises
    ------
    TracedValueError
        In a traced function or under ``vmap``, because the shape of the result depends on the values.

    Examples
    --------
    >>> agrad.nonzero(np.asarray([0.0, 3.0, 0.0, 5.0]))
    (array([1, 3]),)
    """
    if not ndim_of(x, "nonzero"):
        raise ShapeError("nonzero: x must have at least 1 axis, got a scalar. Reshape it to (1,) first.")
    if not isinstance(x, Tensor):
        return tuple(backend_of(x).xp.nonzero(x))
    x._check_concrete("nonzero, whose result's shape depends on values,")
    return tuple(wrap(part, GLOBAL_TAPE) for part in backend_of(x.raw).xp.nonzero(x.raw))


searchsorted_p = of_library("searchsorted(x1, x2, *, side)", constant=("x1", "x2"))


@searchsorted_p.batch
def searchsorted_batch(
    xp: Any, x1: Any, x2: Any, x1_mapped: bool, x2_mapped: bool, batch_size: int, *, side: str
) -> Any:
    if not x1_mapped:
        return xp.searchsorted(x1, x2, side=side)
    # no library searches in many arrays at once
    found = [xp.searchsorted(x1[i, :], x2[(i, ...)] if x2_mapped else x2, side=side) for i in range(batch_size)]
    return xp.stack(found, axis=0) if found else xp.astype(spread(xp, x2, x2_mapped, batch_size), xp.int64)


@public_of_arrays
def searchsorted(x1: Any, x2: Any, /, *, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    """Return the insertion indices that keep a sorted array sorted.

    Inserting each element of ``x2`` into ``x1`` before its index keeps ``x1`` sorted.

    Parameters
    ----------
    x1 : array with one axis and a real dtype, sorted
    x2 : array or number
        Array of any shape.
    side : str
        ``"left"`` for the first such index, ``"right"`` for the last.
    sorter : array, optional
        Indices that sort ``x1``, if it is not sorted.

    Returns
    -------
    array of the shape of ``x2``: integers, a constant

    Examples
    --------
    >>> agrad.searchsorted(np.asarray([1.0, 2.0, 4.0]), np.asarray([0.5, 2.0, 3.0, 9.0]))
    array([0, 1, 2, 3])
    >>> agrad.searchsorted(np.asarray([1.0, 2.0, 4.0]), np.asarray([2.0]), side="right")
    array([2])
    """
    if side not in ("left", "right"):
        raise OperandError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if ndim_of(x1, "searchsorted") != 1:
        raise ShapeError(f"searchsorted: x1 must be 1-D, got shape {tuple(x1.shape)}")
    if sorter is not None:
        x1 = take(x1, sorter)
    return searchsorted_p(*array_arguments("searchsorted", x1, x2), side=side)


# ------------------------------------------------------------------ sorting


argsort_p = of_library("argsort(x, *, axis, descending, stable)", constant="x", batch="axis")


@public_of_array
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the indices that sort an array along an axis.

    Parameters
    ----------
    x : array with at least one axis and a real dtype
    axis : int
        Axis. By default, the last.
    descending : bool
        If True, start with the largest element.
    stable : bool
        If True, equal elements keep their order.

    Returns
    -------
    array of the shape of ``x``: integers, a constant

    Examples
    --------
    >>> agrad.argsort(np.asarray([3.0, 1.0, 2.0]))
    array([1, 2, 0])
    >>> agrad.argsort(np.asarray([3.0, 1.0, 2.0]), descending=True)
    array([0, 2, 1])
    """
    return argsort_p(x, axis=axis_of(axis, x), descending=descending, stable=stable)


sort_p = of_library("sort(x, *, axis, descending, stable)", batch="axis")


def _sorting(xp: Any, x: Any, axis: int, descending: bool) -> Any:
    """Return the index arrays of the elements in ascending or descending order."""
    return along_axis(xp, xp.argsort(x, axis=axis, descending=descending, stable=True), tuple(x.shape), axis)


@sort_p.vjp
def sort_vjp(xp: Any, g: Any, x: Any, *, axis: int, descending: bool) -> Any:
    order, shape = _sorting(xp, x, axis, descending), tuple(x.shape)
    return xp.scatter_add(g, *order, index=(ARRAY,) * len(shape), shape=shape)


@sort_p.jvp
def sort_jvp(xp: Any, t: Any, x: Any, *, axis: int, descending: bool) -> Any:
    return xp.getitem(t, *_sorting(xp, x, axis, descending), index=(ARRAY,) * len(x.shape))


@public_of_array
def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the elements in order along an axis.

    Each of several equal elements gets its own cotangent, in their order.

    Parameters
    ----------
    x : array with at least one axis and a real dtype
    axis, descending, stable : optional
        As for ``argsort``.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.sort(np.asarray([3.0, 1.0, 2.0]))
    array([1., 2., 3.])
    >>> agrad.grad(lambda x: agrad.sort(x)[0])(np.asarray([3.0, 1.0, 2.0]))
    array([0., 1., 0.])
    """
    return sort_p(x, axis=axis_of(axis, x), descending=descending, stable=stable)


@public
def topk(x: Any, k: int, /, *, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """Return the k largest elements along an axis in order, and their indices.

    The first of equal elements are selected, and each gets its own cotangent.

    Parameters
    ----------
    x : array with at least one axis and a real dtype
    k : int
        How many elements to pick.
    axis : int
        Axis. By default, the last.
    largest : bool
        If False, select the smallest elements, the smallest one first.

    Returns
    -------
    values : array
        The ``k`` elements along ``axis``.
    indices : array
        Their integer indices along ``axis``, which are constant.

    Examples
    --------
    >>> values, indices = agrad.topk(np.asarray([3.0, 1.0, 2.0]), 2)
    >>> values, indices
    (array([3., 2.]), array([0, 2]))
    >>> agrad.grad(lambda x: agrad.sum(agrad.topk(x, 2)[0]))(np.asarray([3.0, 1.0, 2.0]))
    array([1., 0., 1.])
    """
    axis, k = axis_of(axis, x), as_int(k)
    if not 0 <= k <= x.shape[axis]:
        raise OperandError(f"topk: k must be from 0 to {x.shape[axis]}, the length of axis {axis}, got {k}")
    indices = argsort(x, axis=axis, descending=largest)[(slice(None),) * axis + (slice(k), ...)]
    return take_along_axis(x, indices, axis=axis), indices
