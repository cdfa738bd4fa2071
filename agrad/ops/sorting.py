"""Sorting. A sorted array is a permutation of the given one, so its derivative is that permutation."""

from typing import Any

from agrad.engine.notation import primitive
from agrad.ops.indexing import along_axis
from agrad.ops.shared import axis_of
from agrad.shapes import ARRAY


@primitive(constant="x", normalize={"axis": axis_of}, batch="axis")
def argsort(xp: Any, x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort ``x`` along ``axis``. Integers; no derivative.

    x: array of one dimension or more and a real dtype. ``stable``: equal elements keep their order.
    """
    return xp.argsort(x, axis=axis, descending=descending, stable=stable)


@primitive(normalize={"axis": axis_of}, batch="axis")
def sort(xp: Any, x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in ascending (or ``descending``) order along ``axis``.

    x: array of one dimension or more and a real dtype. Among equal elements the derivative goes by their order in
    ``x``.
    """
    return xp.sort(x, axis=axis, descending=descending, stable=stable)


@sort.vjp
def sort_vjp(xp: Any, g: Any, x: Any, *, axis: int, descending: bool) -> Any:
    shape = tuple(x.shape)
    order = along_axis(xp, xp.argsort(x, axis=axis, descending=descending, stable=True), shape, axis)
    return xp.scatter_add(g, *order, index=(ARRAY,) * len(shape), shape=shape)


@sort.jvp
def sort_jvp(xp: Any, t: Any, x: Any, *, axis: int, descending: bool) -> Any:
    shape = tuple(x.shape)
    order = along_axis(xp, xp.argsort(x, axis=axis, descending=descending, stable=True), shape, axis)
    return xp.getitem(t, *order, index=(ARRAY,) * len(shape))


__all__ = ["argsort", "sort"]
