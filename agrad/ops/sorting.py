"""Sorting: the derivative is the permutation that sorts."""

from operator import index as as_int
from typing import Any

from agrad.errors import OperandError
from agrad.ops.definition import of_library, public_of_array
from agrad.ops.indexing import along_axis, take_along_axis
from agrad.ops.shared import axis_of
from agrad.registry import public
from agrad.shapes import ARRAY

__all__ = ["argsort", "sort", "topk"]


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


@sort_p.vjp
def sort_vjp(xp: Any, g: Any, x: Any, *, axis: int, descending: bool) -> Any:
    shape = tuple(x.shape)
    order = along_axis(xp, xp.argsort(x, axis=axis, descending=descending, stable=True), shape, axis)
    return xp.scatter_add(g, *order, index=(ARRAY,) * len(shape), shape=shape)


@sort_p.jvp
def sort_jvp(xp: Any, t: Any, x: Any, *, axis: int, descending: bool) -> Any:
    shape = tuple(x.shape)
    order = along_axis(xp, xp.argsort(x, axis=axis, descending=descending, stable=True), shape, axis)
    return xp.getitem(t, *order, index=(ARRAY,) * len(shape))


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
