"""NumPy functions that reshape, join, split, pad and rearrange, for Tensors."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import OperandError
from agrad.interop.arguments import (
    along,
    axes_of,
    axis_of,
    between_zeros,
    cast,
    constant,
    dtype_of,
    flat,
    is_inexact,
    like_of,
    on_axis,
    picked,
    promoted,
    rearranged,
    rejects,
    resized,
    stretched,
    tensor,
    tensors,
    values_of,
    with_axis,
)
from agrad.interop.table import as_written, implements
from agrad.registry import CALLS

# ------------------------------------------------------------------ shape


@implements("reshape")
def _reshape(a: Tensor, shape: Any, order: str = "C") -> Tensor:
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    if order == "F":
        shape = tuple(int(n) for n in np.empty(a.shape).reshape(shape).shape)
        return _transpose(agrad.reshape(_transpose(a), tuple(reversed(shape))))
    _row_major("reshape", order)
    return agrad.reshape(a, shape)


def _row_major(name: str, order: str) -> None:
    # libraries choose their own order in memory
    if order not in ("C", "K", "A"):
        raise rejects(name, f"order={order!r} is not supported for Tensors", "Use order='C'")


@implements("ravel")
def _ravel(a: Tensor, order: str = "C") -> Tensor:
    if order == "F":
        return flat(_transpose(a))
    _row_major("ravel", order)
    out = flat(a)
    return out if CALLS["lies_in_a_row"](out) else _copy(out)


@implements("transpose", "permute_dims")
def _transpose(a: Tensor, axes: Any = None) -> Tensor:
    order = reversed(range(a.ndim)) if axes is None else [axis_of(i, a.ndim) for i in axes]
    return agrad.permute_dims(a, tuple(order))


@implements("matrix_transpose")
def _matrix_transpose(x: Tensor) -> Tensor:
    return agrad.matrix_transpose(x)


@implements("swapaxes")
def _swapaxes(a: Tensor, axis1: int, axis2: int) -> Tensor:
    order = list(range(a.ndim))
    i, j = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order[i], order[j] = order[j], order[i]
    return agrad.permute_dims(a, tuple(order))


@implements("moveaxis")
def _moveaxis(a: Tensor, source: Any, destination: Any) -> Tensor:
    return agrad.moveaxis(a, source, destination)


@implements("squeeze")
def _squeeze(a: Tensor, axis: Any = None) -> Tensor:
    axes = tuple(i for i, n in enumerate(a.shape) if n == 1) if axis is None else axes_of(axis, a.ndim)
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError(f"numpy.squeeze: the axes {axes} must have length 1, got shape {a.shape}")
    return agrad.squeeze(a, axis=axes)


@implements("expand_dims")
def _expand_dims(a: Tensor, axis: Any) -> Tensor:
    return agrad.expand_dims(a, axis=tuple(axis) if isinstance(axis, list) else axis)


@implements("broadcast_to")
def _broadcast_to(array: Tensor, shape: Any) -> Tensor:
    return agrad.broadcast_to(array, shape)


@implements("broadcast_arrays")
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    return agrad.broadcast_arrays(*tensors(*args))


def _at_least(n: int) -> Any:
    function = getattr(np, f"atleast_{n}d")

    @functools.lru_cache(maxsize=64)
    def brought(shape: tuple[int, ...]) -> Any:
        return function(np.broadcast_to(0, shape)).shape  # NumPy computes it

    def one(x: Tensor) -> Tensor:
        return x if x.ndim >= n else agrad.reshape(x, brought(x.shape))

    def handler(*arys: Any) -> Any:
        out = tuple([one(x) for x in tensors(*arys)])
        return out[0] if len(out) == 1 else out

    return implements(f"atleast_{n}d")(handler)


_atleast_1d, _atleast_2d, _atleast_3d = _at_least(1), _at_least(2), _at_least(3)


@implements("astype")
def _astype(x: Tensor, dtype: Any, copy: bool = True) -> Tensor:
    return agrad.astype(x, dtype_of(dtype), copy=copy)


@implements("copy")
def _copy(a: Tensor) -> Tensor:
    return agrad.astype(a, a.dtype, copy=True)


# ------------------------------------------------------------------ joining


def _parts(arrays: Any) -> list[Tensor]:
    return tensors(*(agrad.unstack(arrays) if isinstance(arrays, Tensor) else arrays))


@implements("concatenate", "concat")
def _concatenate(arrays: Any, axis: Any = 0, dtype: Any = None) -> Tensor:
    parts = promoted(*_parts(arrays))
    if axis is None:
        parts, axis = [flat(x) for x in parts], 0
    return cast(agrad.concat(parts, axis=axis_of(axis, parts[0].ndim)), dtype)


@implements("stack")
def _stack(arrays: Any, axis: int = 0, dtype: Any = None) -> Tensor:
    parts = promoted(*_parts(arrays))
    return cast(agrad.stack(parts, axis=axis_of(axis, parts[0].ndim + 1)), dtype)


def _joining(name: str, *alias: str) -> Any:
    join = getattr(np, name).__wrapped__  # NumPy composes it of its other functions

    def handler(tup: Any, **kwargs: Any) -> Tensor:
        return join(_parts(tup), **kwargs)

    return implements(name, *alias)(handler)


_dstack, _hstack, _vstack = _joining("dstack"), _joining("hstack"), _joining("vstack", "row_stack")


@implements("column_stack")
def _column_stack(tup: Any) -> Tensor:
    return _concatenate([agrad.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in _parts(tup)], 1)


@implements("block")
def _block(arrays: Any) -> Tensor:
    like = like_of(arrays)

    def depth(part: Any) -> int:
        return 1 + max(map(depth, part)) if isinstance(part, list) else 0

    def ndim(part: Any) -> int:
        return max(map(ndim, part)) if isinstance(part, list) else tensor(part, like).ndim

    levels = depth(arrays)
    least = max(levels, ndim(arrays))

    def build(part: Any, level: int) -> Tensor:
        if isinstance(part, list):
            if not part:
                raise ValueError("numpy.block: lists must not be empty")
            return _concatenate([build(p, level + 1) for p in part], level - levels + least)
        return _with_ndim(tensor(part, like), least)

    return build(arrays, 0)


def _with_ndim(x: Tensor, ndim: int) -> Tensor:
    """Insert axes of length 1 in front, up to ``ndim`` dimensions."""
    return agrad.reshape(x, (*(1,) * (ndim - x.ndim), *x.shape)) if x.ndim < ndim else x


@implements("append")
def _append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    return _concatenate([arr, values], axis)


# ------------------------------------------------------------------ splitting


as_written("array_split dsplit hsplit split unstack vsplit")


# ------------------------------------------------------------------ repeating and moving


@implements("tile")
def _tile(A: Tensor, reps: Any) -> Tensor:
    return agrad.tile(A, tuple(int(n) for n in np.atleast_1d(values_of(reps))))


@implements("repeat")
def _repeat(a: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    times = values_of(repeats)
    return agrad.repeat(a, int(times) if times.ndim == 0 else constant(times.astype(np.int64), a), axis=axis)


@implements("roll")
def _roll(a: Tensor, shift: Any, axis: Any = None) -> Tensor:
    if axis is None:
        return agrad.roll(a, int(np.sum(shift)))
    pairs = np.atleast_1d(*np.broadcast_arrays(shift, axis))
    shifts, axes = (tuple(part.tolist()) for part in pairs)
    return agrad.roll(a, shifts, axis=axes)


@implements("flip")
def _flip(m: Tensor, axis: Any = None) -> Tensor:
    return agrad.flip(m, axis=axes_of(axis, m.ndim))


@implements("flipud")
def _flipud(m: Tensor) -> Tensor:
    return _flip(m, 0)


@implements("fliplr")
def _fliplr(m: Tensor) -> Tensor:
    return _flip(m, 1)


@implements("rot90")
def _rot90(m: Tensor, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    np.rot90(np.broadcast_to(0, m.shape), k, axes)  # raises NumPy's errors
    first, second = axes
    if k % 4 == 0:
        return m[...]
    if k % 4 == 1:
        return _swapaxes(_flip(m, second), first, second)
    if k % 4 == 2:
        return _flip(m, (first, second))
    return _flip(_swapaxes(m, first, second), second)


@implements("lib.stride_tricks.sliding_window_view")
def _sliding_window_view(x: Tensor, window_shape: Any, axis: Any = None, writeable: bool = False) -> Tensor:
    if writeable:
        raise rejects("sliding_window_view", "writeable=True is not supported for Tensors", "Write into x itself")
    view = np.lib.stride_tricks.sliding_window_view
    return rearranged(x, lambda places: view(places, window_shape, axis))


@implements("delete")
def _delete(arr: Tensor, obj: Any, axis: Any = None) -> Tensor:
    x, axis = with_axis(arr, axis)
    return picked(x, np.delete(np.arange(x.shape[axis]), _positions(obj)), axis)


def _positions(obj: Any) -> Any:
    """Return positions as integers; an empty list has a floating dtype."""
    if isinstance(obj, slice):
        return obj
    values = values_of(obj)
    return values if values.size else values.astype(np.int64)


@implements("insert")
def _insert(arr: Tensor, obj: Any, values: Tensor, axis: Any = None) -> Tensor:
    x, axis = with_axis(arr, axis)
    new = cast(values, x.dtype)
    n = x.shape[axis]
    obj = _positions(obj)
    if np.ndim(obj) == 0 and not isinstance(obj, slice):  # several values may be inserted at one position
        new = agrad.moveaxis(_with_ndim(new, x.ndim), 0, axis)
        count = new.shape[axis]
    else:
        count = len(np.insert(np.arange(n), obj, -1)) - n
    order = np.insert(np.arange(n), obj, n + np.arange(count))
    return picked(agrad.concat([x, stretched(new, resized(x, axis, count))], axis=axis), order, axis)


@implements("trim_zeros")
def _trim_zeros(filt: Tensor, trim: str = "fb", axis: Any = None) -> Tensor:
    found = np.argwhere(values_of(filt) != 0)
    axes = axes_of(axis, filt.ndim)
    index: list[slice] = [slice(None)] * filt.ndim
    for i in axes:
        first, last = (int(found[:, i].min()), int(found[:, i].max())) if len(found) else (0, -1)
        index[i] = slice(first if "f" in trim.lower() else None, last + 1 if "b" in trim.lower() else None)
    if not len(found):
        index = [slice(0, 0) if i in axes else part for i, part in enumerate(index)]
    return filt[tuple(index)]


# ------------------------------------------------------------------ questions about shapes


as_written("linalg.matrix_transpose ndim resize rollaxis shape size")


@implements("apply_along_axis")
def _apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    x = tensor(arr)
    axis = axis_of(axis, x.ndim)
    lead = agrad.moveaxis(x, axis, -1)
    count = math.prod(lead.shape[:-1])
    rows = agrad.reshape(lead, (count, x.shape[axis]))
    if not count:
        raise OperandError("numpy.apply_along_axis: arr must not be empty, as the shape of the result is not known")
    out = agrad.stack(promoted(*[tensor(func1d(row, *args, **kwargs), x) for row in agrad.unstack(rows)]))
    width = out.ndim - 1
    out = agrad.reshape(out, (*lead.shape[:-1], *out.shape[1:]))
    return agrad.moveaxis(out, tuple(range(out.ndim - width, out.ndim)), tuple(range(axis, axis + width)))


@implements("apply_over_axes")
def _apply_over_axes(func: Any, a: Tensor, axes: Any) -> Tensor:
    for axis in np.atleast_1d(axes):
        axis = axis_of(axis, a.ndim)
        result = tensor(func(a, axis), a)
        a = result if result.ndim == a.ndim else agrad.expand_dims(result, axis=axis)
    return a


# ------------------------------------------------------------------ padding

_BY_PLACE = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


@implements("pad")
def _pad(array: Tensor, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    x = array
    if isinstance(pad_width, dict):
        given = {axis_of(k, x.ndim): v for k, v in pad_width.items()}
        pad_width = [given.get(i, (0, 0)) for i in range(x.ndim)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    widths = _pairs(pad_width, x.ndim)
    if not np.any(widths):
        return agrad.astype(x, x.dtype, copy=True)
    if mode in _BY_PLACE:
        for axis, (before, after) in enumerate(widths):
            places = np.pad(np.arange(x.shape[axis]), (int(before), int(after)), mode, **kwargs)
            if kwargs.get("reflect_type") == "odd" and x.shape[axis] > 1:
                x = _reflected(x, axis, int(before), int(after), mode == "symmetric")
            elif before or after:
                x = picked(x, places, axis)
        return x
    if mode == "constant" and _are_zeros(kwargs):
        return between_zeros(x, dict(enumerate((int(before), int(after)) for before, after in widths)))
    if mode in ("constant", "linear_ramp", *_STATISTICS):
        for axis in range(x.ndim):
            x = _padded_axis(x, axis, widths[axis], mode, kwargs)
        return x
    named = mode if isinstance(mode, str) else getattr(mode, "__name__", "a function")
    raise rejects(
        "pad",
        f"mode {named} is not supported for Tensors",
        f"Use one of constant, linear_ramp, {', '.join((*_BY_PLACE, *_STATISTICS))}, or numpy.concatenate",
    )


def _reflected(x: Tensor, axis: int, before: int, after: int, with_edge: bool) -> Tensor:
    """Extend an axis by its point reflections at both ends, as NumPy by whole periods of the array at a time."""
    skip = 0 if with_edge else 1
    period = x.shape[axis] - skip
    while before or after:
        n = x.shape[axis]
        most = (n - skip) // period * period
        left, right = min(before, most), min(after, most)
        first, last = x[along(axis, slice(0, 1))], x[along(axis, slice(n - 1, n))]
        start, end = x[along(axis, slice(skip, skip + left))], x[along(axis, slice(n - skip - right, n - skip))]
        chunks = 2 * first - _flip(start, axis), x, 2 * last - _flip(end, axis)
        x = agrad.concat([cast(chunk, x.dtype) for chunk in chunks], axis=axis)
        before, after = before - left, after - right
    return x


def _are_zeros(settings: dict[str, Any]) -> bool:
    """Return True for the padding values 0, which are the default."""
    value = settings.get("constant_values", 0)
    return not set(settings) - {"constant_values"} and isinstance(value, (int, float)) and not value


def _pairs(value: Any, ndim: int) -> list[Any]:
    """Broadcast a number or pairs to a pair for each axis, as NumPy."""
    return np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()


def _end(value: Any, axis: int, side: int, x: Tensor) -> Tensor:
    """Return the padding value of one side of an axis as a Tensor of no dimensions."""
    ends = cast(tensor(value, x), x.dtype)
    return agrad.broadcast_to(ends, (x.ndim, 2))[axis, side] if ends.ndim else ends


def _padded_axis(x: Tensor, axis: int, widths: Sequence[int], mode: str, settings: dict[str, Any]) -> Tensor:
    known = {"constant": "constant_values", "linear_ramp": "end_values"}.get(mode, "stat_length")
    if unknown := set(settings) - {known}:
        raise ValueError(f"numpy.pad: mode {mode} does not support {', '.join(sorted(unknown))}")
    parts = [x]
    for side, width in enumerate(widths):
        if not width:
            continue
        shape = resized(x, axis, int(width))
        if mode == "constant":
            part = agrad.broadcast_to(_end(settings.get(known, 0), axis, side, x), shape)
        elif mode == "linear_ramp":
            edge = x[along(axis, slice(0, 1) if side == 0 else slice(x.shape[axis] - 1, None))]
            end = _end(settings.get(known, 0), axis, side, x)
            if whole := not is_inexact(x):
                edge, end = cast(edge, float), cast(end, float)
            steps = np.arange(width) / width
            steps = (steps if side == 0 else steps[::-1]).astype(edge.dtype.name)
            ramp = constant(steps.reshape(on_axis(-1, axis, x.ndim)), edge)
            part = end + (edge - end) * ramp
            part = cast(agrad.floor(part), x.dtype) if whole else part
        else:
            length = settings.get(known)
            length = x.shape[axis] if length is None else _pairs(length, x.ndim)[axis][side]
            n = x.shape[axis]
            piece = x[along(axis, slice(0, length) if side == 0 else slice(max(n - length, 0), n))]
            part = _STATISTICS[mode](piece, axis=axis, keepdims=True)
            if not is_inexact(x) and is_inexact(part):
                part = cast(agrad.round(part), x.dtype)
            part = agrad.broadcast_to(part, shape)
        parts = [part, *parts] if side == 0 else [*parts, part]
    return agrad.concat(parts, axis=axis) if len(parts) > 1 else x
