"""Indexing. Reading at an index and adding at it are each other's transpose.

Index arrays are operands, not settings, so that transforms see them; the rest of an index is a template in which
``ARRAY`` stands for each of them.
"""

from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import as_dtype
from agrad.engine.notation import primitive
from agrad.engine.tensor import Tensor
from agrad.errors import DtypeError, MixedBackendsError, OperandError
from agrad.ops.shared import array_arguments, axis_of, ndim_of, raw_of
from agrad.registry import CALLS
from agrad.shapes import ARRAY

Template = tuple[Any, ...]


@primitive(linear="x", constant="indices")
def getitem(xp: Any, x: Any, /, *indices: Any, index: Template) -> Any:
    return xp.getitem(x, *indices, index=index)


@getitem.vjp("x")
def getitem_vjp(xp: Any, g: Any, x_meta: Any, indices: Any, *, index: Template) -> Any:
    return xp.scatter_add(g, *indices, index=index, shape=x_meta.shape)


@primitive(linear="x", constant="indices")
def scatter_add(xp: Any, x: Any, /, *indices: Any, index: Template, shape: Any) -> Any:
    """Zeros of ``shape`` with ``x`` added at the index; repeated positions accumulate."""
    return xp.scatter_add(x, *indices, index=index, shape=shape)


@scatter_add.vjp("x")
def scatter_add_vjp(xp: Any, g: Any, indices: Any, *, index: Template) -> Any:
    return xp.getitem(g, *indices, index=index)


@primitive(constant="indices", broadcasts=True)
def setitem(xp: Any, x: Any, value: Any, /, *indices: Any, index: Template) -> Any:
    """``x`` but for ``value`` at the index. Where a position is named twice, one of the values stands there."""
    return xp.setitem(x, value, *indices, index=index)


@setitem.vjp("x")
@setitem.jvp("x")
def setitem_x(xp: Any, g: Any, indices: Any, *, index: Template) -> Any:
    return xp.setitem(g, 0, *indices, index=index)


def _winners(xp: Any, like: Any, indices: Any, index: Template) -> Any:
    """1 where a written value is the one that stands in the result, 0 where a later one overwrote it."""
    shape = tuple(like.shape)
    picked = xp.getitem(xp.zeros_like(like), *indices, index=index)
    order = xp.reshape(xp.cumulative_sum(xp.ones_like(xp.reshape(picked, (-1,))), axis=0), tuple(picked.shape))
    written = xp.setitem(xp.zeros_like(xp.reshape(like, shape)), order, *indices, index=index)
    return xp.astype(xp.getitem(written, *indices, index=index) == order, like.dtype)


def _names_twice(indices: Any) -> bool:
    """Whether an index may name a position twice: only integer arrays can."""
    return any(as_dtype(i.dtype).kind != "bool" for i in indices)


@setitem.vjp("value")
def setitem_value(xp: Any, g: Any, indices: Any, *, index: Template) -> Any:
    picked = xp.getitem(g, *indices, index=index)
    return picked * _winners(xp, g, indices, index) if _names_twice(indices) else picked


@setitem.jvp("value")
def setitem_value_jvp(xp: Any, t: Any, y: Any, indices: Any, *, index: Template) -> Any:
    return xp.setitem(xp.zeros_like(y), t, *indices, index=index)


@primitive(linear="x", constant="indices")
def take(xp: Any, x: Any, indices: Any, /, *, axis: int) -> Any:
    return xp.take(x, indices, axis=axis)


@take.vjp("x")
def take_vjp(xp: Any, g: Any, x_meta: Any, indices: Any, *, axis: int) -> Any:
    return xp.scatter_add(g, indices, index=(slice(None),) * axis + (ARRAY,), shape=x_meta.shape)


_take = take.bind


@take.door
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The elements at ``indices`` (a one-dimensional integer array) along ``axis``; repeated ones accumulate gradients.

    ``axis`` may be left out for an array of one dimension.
    """
    if axis is None:
        if ndim_of(x, "take") != 1:
            raise OperandError(f"take from an array of shape {tuple(x.shape)} needs an axis")
        axis = 0
    return _take(x, _index_array(indices, raw_of(x)), axis=axis_of(axis, x))


def _index_array(entry: Any, raw: Any) -> Any:
    """An array of an index, on the backend and device of the array it indexes; Tensors stay Tensors."""
    backend = backend_of(raw)
    if isinstance(entry, (list, tuple, np.ndarray, np.generic)):
        host = np.asarray(entry)
        if host.size == 0 and isinstance(entry, (list, tuple)):
            host = host.astype(np.int64)
        if backend.name != "numpy":
            host = backend.from_host(host, backend.device_of(raw))
        entry = host
    other = backend_of(raw_of(entry))
    if other is not backend:
        raise MixedBackendsError(
            f"an array of {backend.name} cannot be indexed by one of {other.name}; "
            f'move the index: i.to("{backend.name}")'
        )
    if as_dtype(entry.dtype).kind not in ("bool", "signed integer", "unsigned integer"):
        raise DtypeError(f"an index array has an integer or boolean dtype, not {as_dtype(entry.dtype)}")
    return entry


def along_axis(xp: Any, order: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """The index arrays that pick, from an array of ``shape``, the elements at ``order`` along ``axis``.

    All but the one at ``axis`` count through their own axis; the arrays broadcast against one another.
    """
    n, like = len(shape), raw_of(order)
    return tuple(
        order if i == axis else xp.reshape(xp.arange_like(like, shape[i]), (1,) * i + (-1,) + (1,) * (n - i - 1))
        for i in range(n)
    )


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """The elements at ``indices``, an integer array of as many dimensions as ``x``, along ``axis``.

    The other axes broadcast. Negative indices count from the end; repeated ones accumulate gradients.
    """
    ndim = ndim_of(x, "take_along_axis")
    axis = axis_of(axis, x)
    order = _index_array(indices, raw_of(x))
    if len(order.shape) != ndim or as_dtype(order.dtype).kind == "bool":
        raise OperandError(
            f"take_along_axis takes an array of {ndim} dimensions and integer dtype as indices, "
            f"not {as_dtype(order.dtype)}{tuple(order.shape)}"
        )
    xp = backend_of(raw_of(x)).xp
    return _getitem(x, *along_axis(xp, order, tuple(x.shape), axis), index=(ARRAY,) * ndim)


def split_index(index: Any, x: Any) -> tuple[Template, list[Any]]:
    """An index as Python wrote it, as a template and the arrays that fill it."""
    template: list[Any] = []
    arrays: list[Any] = []
    for entry in index if isinstance(index, tuple) else (index,):
        if entry is None or entry is Ellipsis or type(entry) in (int, slice):
            template.append(_plain(entry))
        elif type(entry) is bool or isinstance(entry, (list, Tensor, np.generic)) or hasattr(entry, "shape"):
            if isinstance(entry, np.integer):
                template.append(int(entry))
                continue
            array = _index_array(np.asarray(entry) if type(entry) is bool else entry, raw_of(x))
            template.append(ARRAY)
            arrays.append(array)
        elif hasattr(entry, "__index__"):
            template.append(entry.__index__())
        else:
            raise OperandError(
                f"{type(entry).__name__} is no index; an index is made of ints, slices, None, ..., "
                "integer and boolean arrays"
            )
    return tuple(template), arrays


def _plain(entry: Any) -> Any:
    if type(entry) is slice:
        parts = (entry.start, entry.stop, entry.step)
        if any(p is not None and type(p) is not int for p in parts):
            return slice(*[None if p is None else p.__index__() for p in parts])
    return entry


_getitem, _setitem = getitem.bind, setitem.bind


def get_at(x: Any, index: Any, /) -> Any:
    """``x[index]`` for an index as Python writes it."""
    if type(index) is int:
        return _getitem(x, index=(index,))
    template, arrays = split_index(index, x)
    return _getitem(x, *arrays, index=template)


def set_at(x: Any, value: Any, index: Any, /) -> Any:
    """What ``x`` is after ``x[index] = value``."""
    if not hasattr(value, "shape"):
        if isinstance(value, (list, tuple)):
            value = backend_of(raw_of(x)).from_host(np.asarray(value), backend_of(raw_of(x)).device_of(raw_of(x)))
        else:
            value = array_arguments("x[i] = v", x, value)[1]
    elif isinstance(value, (np.ndarray, np.generic)) and backend_of_type(type(raw_of(x))) is not backend_of(value):
        raise MixedBackendsError(
            f"x[i] = v: x is an array of {backend_of(raw_of(x)).name}, v one of numpy; move v: agrad.asarray(v).to(...)"
        )
    template, arrays = split_index(index, x)
    if value.dtype != x.dtype:
        value = CALLS["astype"](value, x.dtype)
    return _setitem(x, value, *arrays, index=template)


CALLS["getitem"] = get_at
CALLS["setitem"] = set_at

__all__ = ["take", "take_along_axis"]
