"""Repeating, tiling, rolling, splitting and differencing."""

from operator import index as as_int
from typing import Any

import numpy as np

from agrad.backends import backend_of
from agrad.dtypes import as_dtype
from agrad.engine.tensor import Tensor, raw_of
from agrad.engine.views import linked
from agrad.errors import DtypeError, OperandError, ShapeError
from agrad.ops.casting import astype
from agrad.ops.definition import primitive, public_of_array
from agrad.ops.indexing import getitem, take
from agrad.ops.manipulation import concat, reshape
from agrad.ops.shared import Axes, axis_of, cut, ndim_of
from agrad.registry import public
from agrad.shapes import normalize_axis, size

__all__ = ["diff", "repeat", "roll", "tile", "unstack"]


@primitive(name="repeat", linear="x", batch="axis", moves=True)
def repeat_p(xp: Any, x: Any, /, *, repeats: int, axis: int) -> Any:
    return xp.repeat(x, repeats, axis=axis)


@repeat_p.vjp
def repeat_vjp(xp: Any, g: Any, x_meta: Any, *, repeats: int, axis: int) -> Any:
    lead, rest = x_meta.shape[: axis + 1], x_meta.shape[axis + 1 :]
    return xp.sum(xp.reshape(g, (*lead, repeats, *rest)), axis=axis + 1)


@public_of_array
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Repeat each element along an axis.

    Parameters
    ----------
    x : array of any shape and dtype
    repeats : int or array of integers
        How often: one number, or one for each element of the axis. An array has no derivative, and is read on the host,
        as it decides the shape of the result.
    axis : int, optional
        Axis. By default, the array is flattened.

    Returns
    -------
    array

    Raises
    ------
    TracedValueError
        If the values of the array are not known, in a traced function.

    Examples
    --------
    >>> agrad.repeat(np.asarray([1.0, 2.0]), 2)
    array([1., 1., 2., 2.])
    >>> agrad.grad(lambda x: agrad.sum(agrad.repeat(x, np.asarray([1, 3]))))(np.asarray([1.0, 2.0]))
    array([1., 3.])
    """
    ndim_of(x, "repeat")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = axis_of(axis, x)
    if hasattr(repeats, "shape"):
        if isinstance(repeats, Tensor):
            repeats._check_concrete("repeat, whose result's shape depends on the repeats,")
        return take(x, _repeated(repeats, x, x.shape[axis]), axis=axis)
    times = as_int(repeats)
    if times < 0:
        raise OperandError(f"repeat: repeats must not be negative, got {times}")
    return repeat_p(x, repeats=times, axis=axis)


def _repeated(repeats: Any, x: Any, n: int) -> Any:
    """Return the positions along an axis, each as often as it repeats."""
    raw, times = raw_of(x), raw_of(repeats)
    counts = np.asarray(backend_of(times).to_host(times))
    if as_dtype(counts.dtype).kind not in ("signed integer", "unsigned integer"):
        raise DtypeError(
            f"repeat: repeats must be an integer or an array of an integer dtype, got dtype {counts.dtype}"
        )
    if counts.shape not in ((), (1,), (n,)):
        raise ShapeError(f"repeat: repeats must have shape ({n},) for an axis of length {n}, got {counts.shape}")
    if counts.size and int(counts.min()) < 0:
        raise OperandError("repeat: repeats must not be negative")
    places = np.repeat(np.arange(n), np.broadcast_to(counts, (n,)))
    backend = backend_of(raw)
    return places if backend.name == "numpy" else backend.from_host(places, backend.device_of(raw))


def _spread(shape: tuple[int, ...], repetitions: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with an axis for the copies before each axis."""
    return tuple([n for pair in zip(repetitions, shape, strict=True) for n in pair])


def _tiled(xp: Any, x: Any, repetitions: tuple[int, ...]) -> Any:
    shape = tuple(x.shape)
    copies = xp.broadcast_to(xp.reshape(x, _spread(shape, (1,) * len(shape))), _spread(shape, repetitions))
    flat = xp.reshape(copies, (-1,))
    if size(shape) <= 1:  # reshaping makes no copy of one element
        flat = xp.astype(flat, x.dtype, copy=True)
    return xp.reshape(flat, tuple([n * m for n, m in zip(repetitions, shape, strict=True)]))


@primitive(name="tile", linear="x", moves=True)
def tile_p(xp: Any, x: Any, /, *, repetitions: tuple[int, ...]) -> Any:
    return _tiled(xp, x, repetitions)


@tile_p.vjp
def tile_vjp(xp: Any, g: Any, x_meta: Any, *, repetitions: tuple[int, ...]) -> Any:
    copies = xp.reshape(g, _spread(x_meta.shape, repetitions))
    return xp.sum(copies, axis=tuple(range(0, 2 * len(repetitions), 2)))


@tile_p.batch
def tile_batch(xp: Any, x: Any, *, repetitions: tuple[int, ...]) -> Any:
    return _tiled(xp, x, (1, *repetitions))


@public_of_array
def tile(x: Any, repetitions: Any, /) -> Any:
    """Repeat a whole array along each axis.

    Parameters
    ----------
    x : array of any shape and dtype
    repetitions : int or tuple of ints
        One number for each of the last axes. If it is longer than the shape of ``x``, axes of length one are prepended
        to ``x``.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.tile(np.asarray([1.0, 2.0]), (2,))
    array([1., 2., 1., 2.])
    """
    ndim = ndim_of(x, "tile")
    times = tuple(as_int(n) for n in repetitions) if isinstance(repetitions, (tuple, list)) else (as_int(repetitions),)
    if any(n < 0 for n in times):
        raise OperandError(f"tile: repetitions must not be negative, got {times}")
    if len(times) > ndim:
        x = reshape(x, (1,) * (len(times) - ndim) + tuple(x.shape))
    if all(n == 1 for n in times):
        return astype(x, x.dtype)  # a copy, although reshaping would return a view
    return tile_p(x, repetitions=(1,) * (ndim - len(times)) + times)


@primitive(name="roll", linear="x", batch="axis", moves=True)
def roll_p(xp: Any, x: Any, /, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return xp.roll(x, shift, axis=axis)


@roll_p.vjp
def roll_vjp(xp: Any, g: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return xp.roll(g, tuple(-n for n in shift), axis=axis)


@public_of_array
def roll(x: Any, /, shift: Any, *, axis: Axes = None) -> Any:
    """Move the elements along axes, around the end.

    Parameters
    ----------
    x : array of any shape and dtype
    shift : int or tuple of ints
        Number of positions to shift by. One shift may apply to several axes.
    axis : int or tuple of ints, optional
        Axes. By default, the flattened array is rolled, and its shape is restored.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.roll(np.asarray([1.0, 2.0, 3.0]), 1)
    array([3., 1., 2.])
    """
    ndim = ndim_of(x, "roll")
    shifts = tuple(map(as_int, shift)) if isinstance(shift, (tuple, list)) else (as_int(shift),)
    if axis is None:
        if len(shifts) != 1:
            raise ShapeError(
                f"roll: axis must contain as many axes as there are shifts, got None for the shifts {shifts}"
            )
        flat = roll_p(reshape(x, (-1,)), shift=shifts, axis=(0,))
        return reshape(flat, tuple(x.shape))
    axes = tuple(normalize_axis(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(
            f"roll: shift and axis must have the same length, got {len(shifts)} shifts {shifts} and {len(axes)} axes "
            f"{axes}"
        )
    return roll_p(x, shift=shifts, axis=axes) if axes else astype(x, x.dtype)


@primitive(name="unstack", linear="x", out="*parts", batch="axis", may_alias=True)
def unstack_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    lead = (slice(None),) * axis
    return tuple(xp.getitem(x, index=(*lead, i)) for i in range(x.shape[axis]))


@unstack_p.vjp
def unstack_vjp(xp: Any, g_parts: Any, x_meta: Any, *, axis: int) -> Any:
    unused = None if len(g_parts) == x_meta.shape[axis] else xp.zeros_like(next(iter(g_parts.values())))
    return xp.stack([g_parts.get(i, unused) for i in range(x_meta.shape[axis])], axis=axis)


@public
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the arrays along an axis, without that axis.

    Parameters
    ----------
    x : array of any shape and dtype
    axis : int

    Returns
    -------
    tuple of arrays
        Views if the library returns views, so that writes to a part change ``x``.

    Examples
    --------
    >>> agrad.unstack(np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    (array([1., 2.]), array([3., 4.]))
    >>> agrad.grad(lambda x: agrad.sum(agrad.unstack(x)[1]))(np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    array([[0., 0.],
           [1., 1.]])
    """
    ndim_of(x, "unstack")
    axis = axis_of(axis, x)
    parts = unstack_p(x, axis=axis)
    lead = (slice(None),) * axis
    # each is the same view as by indexing; a write changes x and the other views of it
    return tuple(linked(getitem.primitive, (x,), {"index": (*lead, i)}, part) for i, part in enumerate(parts))


@primitive(name="diff", linear="x", batch="axis")
def diff_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    n = x.shape[axis]
    return cut(x, axis, min(1, n), n) - cut(x, axis, 0, max(n - 1, 0))


@diff_p.vjp
def diff_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int) -> Any:
    n = x_meta.shape[axis]
    if n < 2:
        return xp.sum(xp.zeros_like(g), axis=axis, keepdims=True) if n else g
    inner = cut(g, axis, 0, n - 2) - cut(g, axis, 1, n - 1)
    return xp.concat([-cut(g, axis, 0, 1), inner, cut(g, axis, n - 2, n - 1)], axis=axis)


@public_of_array
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences x[i + 1] - x[i] along an axis.

    Parameters
    ----------
    x : array with at least one axis and a numeric dtype
    axis : int
        Axis. By default, the last.
    n : int
        How many times to take the differences.
    prepend, append : array, optional
        Arrays to join to ``x`` first, of its shape except along ``axis``. If ``n`` is 0, they are not joined.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.diff(np.asarray([1.0, 4.0, 9.0]))
    array([3., 5.])
    """
    ndim_of(x, "diff")
    axis = axis_of(axis, x)
    if as_int(n) < 0:
        raise OperandError(f"diff: n must not be negative, got {n}")
    parts = [part for part in (prepend, x, append) if part is not None] if n else []
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    for _ in range(n):
        x = diff_p(x, axis=axis)
    return x
