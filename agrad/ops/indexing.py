"""Indexing. Reading at an index and adding at it are each other's transpose.

Index arrays are operands of the primitive. The rest of an index is an option, a template in which ``ARRAY`` marks each
of them.
"""

from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import as_dtype, is_complex
from agrad.engine.batching import spread
from agrad.engine.joining import beside, is_numpys, joined, mixed, moves
from agrad.engine.layouts import copy_if_interleaved
from agrad.engine.tensor import Tensor, raw_of
from agrad.engine.views import is_view_at
from agrad.errors import DtypeError, IndexRangeError, MixedBackendsError, OperandError, ShapeError, described
from agrad.ops.batched_index import aligned, is_mapped_mask, layout, members, over_members
from agrad.ops.casting import astype
from agrad.ops.conversion import asarray
from agrad.ops.definition import of_library, primitive, public_of_arrays
from agrad.ops.elementwise import add
from agrad.ops.manipulation import reshape
from agrad.ops.selection import where
from agrad.ops.shared import array_arguments, axis_of, holds_tensor, ndim_of
from agrad.registry import CALLS, namespace
from agrad.shapes import ARRAY, broadcasts_to, integer, size

__all__ = ["take", "take_along_axis"]

Template = tuple[Any, ...]


@primitive(linear="x", constant="indices", kind="indexing", is_view=True, numpy_view=True, raises=True)
def getitem(xp: Any, x: Any, /, *indices: Any, index: Template) -> Any:
    return xp.getitem(x, *indices, index=index)


@getitem.vjp("x")
def getitem_vjp(xp: Any, g: Any, x_meta: Any, indices: Any, *, index: Template) -> Any:
    return xp.scatter_add(g, *indices, index=index, shape=x_meta.shape)


@getitem.batch
def getitem_batch(
    xp: Any, x: Any, indices: Any, x_mapped: bool, indices_mapped: Any, batch_size: int, *, index: Template
) -> Any:
    if not indices:
        return xp.getitem(x, index=(slice(None), *index))
    place = layout(index, indices, indices_mapped, len(x.shape) - x_mapped)
    if not any(indices_mapped):
        y = xp.getitem(x, *indices, index=(slice(None), *index))
        return copy_if_interleaved(xp.moveaxis(y, place.block, 0) if place.separated else y, packed=True)
    index, indices = over_members(xp, index, indices, indices_mapped, place.block)
    if not x_mapped:
        return xp.moveaxis(xp.getitem(x, *indices, index=index), place.first, 0)
    own = members(xp, x, batch_size, place.block)
    return place.block_back(xp, xp.getitem(x, own, *indices, index=(ARRAY, *index)))


@getitem.write_back
def getitem_put(xp: Any, x: Any, value: Any, *, index: Template) -> Any:
    return xp.setitem(x, value, index=index)


@primitive(linear="x", constant="indices", raises=True, moves=True, sparsity="adds")
def scatter_add(xp: Any, x: Any, /, *indices: Any, index: Template, shape: Any) -> Any:
    """Return zeros of ``shape`` with ``x`` accumulated at the index."""
    return xp.scatter_add(x, *indices, index=index, shape=shape)


@scatter_add.vjp("x")
def scatter_add_vjp(xp: Any, g: Any, indices: Any, *, index: Template) -> Any:
    return xp.getitem(g, *indices, index=index)


@scatter_add.batch
def scatter_add_batch(
    xp: Any,
    x: Any,
    indices: Any,
    x_mapped: bool,
    indices_mapped: Any,
    batch_size: int,
    *,
    index: Template,
    shape: tuple[int, ...],
) -> Any:
    target = (batch_size, *shape)
    if not indices:
        return xp.scatter_add(x, index=(slice(None), *index), shape=target)
    place = layout(index, indices, indices_mapped, len(shape))
    if not any(indices_mapped):
        x = xp.moveaxis(x, 0, place.block) if place.separated else x
        return xp.scatter_add(x, *indices, index=(slice(None), *index), shape=target)
    index, indices = over_members(xp, index, indices, indices_mapped, place.block)
    x = place.block_first(xp, spread(xp, x, x_mapped, batch_size))
    own = members(xp, x, batch_size, place.block)
    return xp.scatter_add(x, own, *indices, index=(ARRAY, *index), shape=target)


@primitive(linear="parts", sparsity="adds", no_alias=True)
def scatter_sum(xp: Any, /, *parts: Any, indices: tuple[Template, ...], shape: tuple[int, ...]) -> Any:
    """Return zeros of ``shape`` with each part added at its index.

    No index has arrays.
    """
    total = None
    for part, index in zip(parts, indices, strict=True):
        whole = part if index == (Ellipsis,) else xp.scatter_add(part, index=index, shape=shape)
        total = whole if total is None else total + whole
    return xp.asarray(total, copy=True) if total is parts[0] else total


@scatter_sum.vjp("parts")
def scatter_sum_vjp(xp: Any, g: Any, *, indices: tuple[Template, ...]) -> Any:
    return [g if index == (Ellipsis,) else xp.getitem(g, index=index) for index in indices]


@scatter_sum.batch
def scatter_sum_batch(
    xp: Any, parts: Any, parts_mapped: Any, batch_size: int, *, indices: tuple[Template, ...], shape: tuple[int, ...]
) -> Any:
    parts = [spread(xp, part, mapped, batch_size) for part, mapped in zip(parts, parts_mapped, strict=True)]
    inner = tuple(index if index == (Ellipsis,) else (slice(None), *index) for index in indices)
    return scatter_sum(*parts, indices=inner, shape=(batch_size, *shape))


getitem.primitive.sum_slices = scatter_sum


@primitive(constant="indices", broadcasts=True, masks=True, jointly=True, raises=True, moves=True)
def setitem(xp: Any, x: Any, value: Any, /, *indices: Any, index: Template) -> Any:
    """Return ``x`` with ``value`` at the index.

    If an index selects a position twice, the element gets one of the values.
    """
    return xp.setitem(x, value, *indices, index=index)


@setitem.vjp("x")
@setitem.jvp("x")
def setitem_x(xp: Any, g: Any, indices: Any, *, index: Template) -> Any:
    return xp.setitem(g, 0, *indices, index=index)


@setitem.batch
def setitem_batch(
    xp: Any,
    x: Any,
    value: Any,
    indices: Any,
    x_mapped: bool,
    value_mapped: bool,
    indices_mapped: Any,
    batch_size: int,
    *,
    index: Template,
) -> Any:
    place = layout(index, indices, indices_mapped, len(x.shape) - x_mapped)
    x = spread(xp, x, x_mapped, batch_size)
    if hasattr(value, "shape"):
        value = aligned(xp, value, value_mapped, place.rank)
    if not any(indices_mapped):
        if place.separated and hasattr(value, "shape"):
            value = xp.moveaxis(value, 0, place.block)
        return xp.setitem(x, value, *indices, index=(slice(None), *index))
    index, indices = over_members(xp, index, indices, indices_mapped, place.block)
    if hasattr(value, "shape"):
        value = place.block_first(xp, value)
    own = members(xp, x, batch_size, place.block)
    return xp.setitem(x, value, own, *indices, index=(ARRAY, *index))


def _winners(xp: Any, whole: Any, picked: Any, indices: Any, index: Template) -> Any:
    """Return booleans: True for a written value that a later one did not overwrite.

    ``whole``: an array like the result; ``picked``: its elements at the index.
    """
    order = xp.reshape(xp.arange_like(whole, size(picked.shape)), tuple(picked.shape))
    written = xp.setitem(xp.zeros_like(whole, dtype=order.dtype), order, *indices, index=index)
    return xp.getitem(written, *indices, index=index) == order


def _names_twice(indices: Any) -> bool:
    """Return True if an index may select a position twice: an integer array."""
    return any(as_dtype(i.dtype).kind != "bool" for i in indices)


@setitem.vjp("value")
def setitem_value(xp: Any, g: Any, value_meta: Any, indices: Any, *, index: Template) -> Any:
    picked = xp.getitem(g, *indices, index=index)
    if _names_twice(indices):
        picked = xp.where(_winners(xp, g, picked, indices, index), picked, xp.zeros_like(picked))
    ones = len(value_meta.shape) - len(picked.shape)  # axes of length one, which libraries leave out
    return xp.reshape(picked, (*(1,) * ones, *picked.shape)) if ones > 0 else picked


@setitem.jvp("value")
def setitem_value_jvp(xp: Any, t: Any, y: Any, indices: Any, *, index: Template) -> Any:
    return xp.setitem(xp.zeros_like(y), t, *indices, index=index)


take_p = of_library("take(x, indices, *, axis)", linear="x", constant="indices", raises=True, moves=True)


@take_p.vjp("x")
def take_vjp(xp: Any, g: Any, x_meta: Any, indices: Any, *, axis: int) -> Any:
    return xp.scatter_add(g, indices, index=(slice(None),) * axis + (ARRAY,), shape=x_meta.shape)


@take_p.batch
def take_batch(
    xp: Any, x: Any, indices: Any, x_mapped: bool, indices_mapped: bool, batch_size: int, *, axis: int
) -> Any:
    if not indices_mapped:
        return xp.take(x, indices, axis=axis + 1)
    index = (slice(None),) * axis + (ARRAY,)
    return getitem_batch(xp, x, (indices,), x_mapped, (True,), batch_size, index=index)


@public_of_arrays
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Return the elements at indices along an axis.

    The cotangents of repeated indices are added.

    Parameters
    ----------
    x : array of any shape and dtype
    indices : array
        1-D integer array.
    axis : int, optional
        Axis to accumulate along. Optional for a 1-D array.

    Returns
    -------
    array
        As long along ``axis`` as ``indices``.

    Examples
    --------
    >>> agrad.take(np.asarray([10.0, 20.0, 30.0]), np.asarray([2, 0, 2]))
    array([30., 10., 30.])
    >>> agrad.grad(lambda x: agrad.sum(agrad.take(x, np.asarray([2, 0, 2]))))(np.asarray([10.0, 20.0, 30.0]))
    array([1., 0., 2.])
    """
    if axis is None:
        if ndim_of(x, "take") != 1:
            raise OperandError(f"take: axis must be an integer for an array of shape {tuple(x.shape)}, got None")
        axis = 0
    return take_p(x, index_array(indices, raw_of(x)), axis=axis_of(axis, x))


_SEQUENCES = (list, tuple, range)
"""Sequences of numbers, which are arrays in an index, as in NumPy."""


def index_array(entry: Any, raw: Any) -> Any:
    """Move an index array to the backend and device of the indexed array.

    Tensors are not converted.
    """
    backend, on_host = backend_of(raw), isinstance(entry, (*_SEQUENCES, np.ndarray, np.generic))
    if not on_host and backend_of_type(type(raw_of(entry))) is None and hasattr(entry, "__array__"):
        entry, on_host = CALLS["values_of_labelled"](entry), True  # a column of pandas
    if on_host:
        host = np.asarray(entry)
        entry = host.astype(np.int64) if host.size == 0 and isinstance(entry, _SEQUENCES) else host
    if not hasattr(entry, "dtype"):
        raise OperandError(f"indices must be an array or a list of integers, got {described(entry)}")
    if as_dtype(entry.dtype).kind not in ("bool", "signed integer", "unsigned integer"):
        raise DtypeError(f"x[i]: an index array must have an integer or Boolean dtype, got {as_dtype(entry.dtype)}")
    if on_host:
        return entry if backend.name == "numpy" else backend.from_host(entry, backend.device_of(raw))
    other = backend_of(raw_of(entry))
    if other is not backend and not moves(entry, raw):
        raise MixedBackendsError(
            f"x[i]: an index of an array of {backend.name} must be on the same backend, got one of {other.name}. Move "
            f'it: i.to("{backend.name}").'
        )
    return entry


def along_axis(xp: Any, order: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    """Return the index arrays of the elements at ``order`` along ``axis``.

    All but the one at ``axis`` count through their own axis; the arrays broadcast against one another.
    """
    n, like = len(shape), raw_of(order)
    return tuple(
        order if i == axis else xp.reshape(xp.arange_like(like, shape[i]), (1,) * i + (-1,) + (1,) * (n - i - 1))
        for i in range(n)
    )


@public_of_arrays
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Return the elements at indices along an axis, row by row.

    Negative indices count from the end. The cotangents of repeated indices are added.

    Parameters
    ----------
    x : array of any shape and dtype
    indices : array
        Integer array with as many axes as ``x``. All axes except ``axis`` broadcast.
    axis : int
        Axis. By default, the last.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> x, order = np.asarray([[3.0, 1.0], [2.0, 4.0]]), np.asarray([[1], [0]])
    >>> agrad.take_along_axis(x, order, axis=1)
    array([[1.],
           [2.]])
    >>> agrad.grad(lambda x: agrad.sum(agrad.take_along_axis(x, order, axis=1)))(x)
    array([[0., 1.],
           [1., 0.]])
    """
    x, indices = joined("take_along_axis", (x, indices)) if moves(x, indices) else (x, indices)
    ndim = ndim_of(x, "take_along_axis")
    axis = axis_of(axis, x)
    order = index_array(indices, raw_of(x))
    if len(order.shape) != ndim or as_dtype(order.dtype).kind == "bool":
        raise OperandError(
            f"take_along_axis: indices must be an integer array with {ndim} axes, got {as_dtype(order.dtype)} of "
            f"shape {tuple(order.shape)}"
        )
    xp = backend_of(raw_of(x)).xp
    return getitem(x, *along_axis(xp, order, tuple(x.shape), axis), index=(ARRAY,) * ndim)


def split_index(index: Any, x: Any) -> tuple[Template, list[Any]]:
    """Return a Python index as a template and the arrays that fill it."""
    template: list[Any] = []
    arrays: list[Any] = []
    for entry in index if isinstance(index, tuple) else (index,):
        if entry is None or entry is Ellipsis or type(entry) in (int, slice):
            template.append(_plain(entry))
        elif type(entry) is bool or isinstance(entry, (*_SEQUENCES, Tensor, np.generic)) or hasattr(entry, "shape"):
            if isinstance(entry, np.integer):
                template.append(int(entry))
                continue
            array = index_array(np.asarray(entry) if type(entry) is bool else entry, raw_of(x))
            template.append(ARRAY)
            arrays.append(array)
        elif hasattr(entry, "__index__"):
            template.append(entry.__index__())
        else:
            raise OperandError(
                "x[i]: an index must consist of ints, slices, None, ..., integer and Boolean arrays, got "
                f"{type(entry).__name__}"
            )
    if template.count(Ellipsis) > 1:
        raise IndexRangeError(f"x[i]: the index must contain at most one ellipsis, got {tuple(template)}")
    return tuple(template), arrays


def _plain(entry: Any) -> Any:
    if type(entry) is slice:
        parts = (entry.start, entry.stop, entry.step)
        if any(p is not None and type(p) is not int for p in parts):
            return slice(*[None if p is None else integer(p, "x[i]: slice bounds") for p in parts])
    return entry


def get_at(x: Any, index: Any, /) -> Any:
    """Return ``x[index]`` for a Python index."""
    if type(index) is int:
        return getitem(x, index=(index,))
    template, arrays = split_index(index, x)
    return getitem(x, *arrays, index=template)


def set_at(x: Any, value: Any, index: Any, /) -> Any:
    """Return ``x`` after ``x[index] = value``.

    ``value``: a number, an array that broadcasts to ``x[index]``, or a nested list of these. It is cast to the dtype of
    ``x``. Raises ``ShapeError`` if it does not broadcast, ``DtypeError`` for complex values in a real array.
    """
    if isinstance(value, (list, tuple)):
        backend, device = backend_of(raw_of(x)), backend_of(raw_of(x)).device_of(raw_of(x))
        if holds_tensor(value):
            value = asarray(value, backend=backend.name, device=device)
        else:
            value = backend.from_host(np.asarray(value), device)
    elif isinstance(value, np.generic) and backend_of(raw_of(x)).name != "numpy":
        return set_at(x, value.item(), index)  # a number, because the library may reject other arrays
    elif not hasattr(value, "shape"):
        if type(value) is complex:
            _check_kind(x, "a complex number")
        value = array_arguments("x[i] = v", x, value)[1]
    elif is_numpys(value) and not is_numpys(x):
        if not moves(x, value):
            raise mixed("x[i] = v", x, value)
        value = beside(value, raw_of(x))
    template, arrays = split_index(index, x)
    if not arrays and is_view_at(value, x, ((getitem.primitive, {"index": template}),)):
        return x  # as in x[i] += v, which first changes the view x[i], and x by it
    if value.dtype != x.dtype:
        if is_complex(value.dtype):
            _check_kind(x, f"of dtype {as_dtype(value.dtype)}")
        value = astype(value, x.dtype)
    if template == (ARRAY,) and size(value.shape) == 1 and is_mapped_mask(arrays[0], x):
        # batch elements select different numbers of elements, and all of these get the same value
        return where(arrays[0], reshape(value, ()), x)
    try:
        return setitem(x, value, *arrays, index=template)
    except Exception as error:
        lead = _extra_ones(x, value, template, arrays, error)
        return setitem(x, reshape(value, tuple(value.shape)[lead:]), *arrays, index=template)


def _check_kind(x: Any, what: str) -> None:
    if not is_complex(x.dtype):
        raise DtypeError(
            f"x[i] = v: v must be real for x of dtype {as_dtype(x.dtype)}, got {what}. Assign its real part: "
            "agrad.real(v)."
        )


def _extra_ones(x: Any, value: Any, template: Template, arrays: list[Any], error: Exception) -> int:
    """Return the number of axes of length one to drop in front of ``value``.

    Raise ``ShapeError``, or the given error if such axes do not cause it.
    """
    # a wrong index raises its own error here
    picked = tuple(getitem(x, *arrays, index=template).shape)
    shape = tuple(value.shape)
    lead = max(len(shape) - len(picked), 0)
    if any(n != 1 for n in shape[:lead]) or not broadcasts_to(shape[lead:], picked):
        raise ShapeError(
            f"x[i] = v: v must broadcast to x[i] of shape {picked}, got shape {shape} (x has shape {tuple(x.shape)})"
        ) from error
    if not lead:
        raise error
    return lead


def add_at(x: Any, value: Any, index: Any, /) -> Any:
    """Return ``x`` with ``value`` added at an index.

    If an index selects a position twice, both values are added.
    """
    template, arrays = split_index(index, x)
    return add(x, scatter_add(value, *arrays, index=template, shape=tuple(x.shape)))


# for rules, with the signatures of the backends' functions
namespace.getitem, namespace.setitem, namespace.scatter_add = getitem, setitem, scatter_add
CALLS["getitem"] = get_at
CALLS["setitem"] = set_at
CALLS["add_at"] = add_at
