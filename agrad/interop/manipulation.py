"""NumPy's functions that reshape, join, split, repeat and rearrange, on Tensors."""

import itertools
import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import OperandError
from agrad.interop.arguments import (
    along,
    axes_of,
    axis_of,
    cast,
    constant,
    dtype_of,
    flat,
    like_of,
    picked,
    promoted,
    rearranged,
    rejects,
    tensor,
    tensors,
    values_of,
)
from agrad.interop.table import implements
from agrad.registry import CALLS

# ------------------------------------------------------------------ shape


@implements("reshape")
def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: Any = None) -> Tensor:
    x = tensor(a)
    shape = (shape,) if not isinstance(shape, (tuple, list)) else tuple(shape)
    if order == "F":
        turned = agrad.permute_dims(x, tuple(reversed(range(x.ndim))))
        shape = tuple(int(n) for n in np.empty(x.shape).reshape(shape).shape)
        out = agrad.reshape(turned, tuple(reversed(shape)))
        return agrad.permute_dims(out, tuple(reversed(range(len(shape)))))
    _row_major("reshape", order)
    return agrad.reshape(x, shape)


def _row_major(name: str, order: str) -> None:
    # where the elements lie in memory is each library's own affair
    if order not in ("C", "K", "A"):
        raise rejects(name, f"takes no order={order!r} for Tensors", "use order='C'")


@implements("ravel")
def _ravel(a: Any, order: str = "C") -> Tensor:
    x = tensor(a)
    if order == "F":
        return flat(agrad.permute_dims(x, tuple(reversed(range(x.ndim)))))
    _row_major("ravel", order)
    out = flat(x)
    return out if CALLS["lies_in_a_row"](out) else agrad.astype(out, out.dtype, copy=True)


@implements("transpose", "permute_dims")
def _transpose(a: Any, axes: Any = None) -> Tensor:
    x = tensor(a)
    order = tuple(reversed(range(x.ndim))) if axes is None else axes_of_permutation(axes, x.ndim)
    return agrad.permute_dims(x, order)


def axes_of_permutation(axes: Any, ndim: int) -> tuple[int, ...]:
    """All axes in a new order, not negative."""
    return tuple(axis_of(a, ndim) for a in axes)


@implements("matrix_transpose", "linalg.matrix_transpose")
def _matrix_transpose(x: Any, /) -> Tensor:
    return agrad.matrix_transpose(tensor(x))


@implements("swapaxes")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    x = tensor(a)
    order = list(range(x.ndim))
    i, j = axis_of(axis1, x.ndim), axis_of(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return agrad.permute_dims(x, tuple(order))


@implements("moveaxis")
def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return agrad.moveaxis(tensor(a), source, destination)


@implements("rollaxis")
def _rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    x = tensor(a)
    shape = tuple(range(2, x.ndim + 2))
    rolled = np.rollaxis(np.empty(shape), axis, start).shape
    return agrad.permute_dims(x, tuple(n - 2 for n in rolled))


@implements("squeeze")
def _squeeze(a: Any, axis: Any = None) -> Tensor:
    x = tensor(a)
    axes = tuple(i for i, n in enumerate(x.shape) if n == 1) if axis is None else axes_of(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"numpy.squeeze: axes {axes} of an array of shape {x.shape} are not all of length one")
    return agrad.squeeze(x, axis=axes)


@implements("expand_dims")
def _expand_dims(a: Any, axis: Any) -> Tensor:
    return agrad.expand_dims(tensor(a), axis=tuple(axis) if isinstance(axis, list) else axis)


@implements("broadcast_to")
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    return agrad.broadcast_to(tensor(array), shape)


@implements("broadcast_arrays")
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    return agrad.broadcast_arrays(*tensors(*args))


def _at_least(n: int) -> Any:
    pad = {1: ((1,),), 2: ((1, 1), (1, 0)), 3: ((1, 1, 1), (1, 0, 1), (0, 0, 1))}[n]

    def one(x: Tensor) -> Tensor:
        if x.ndim >= n:
            return x
        lengths = iter(x.shape)
        return agrad.reshape(x, tuple(1 if one_long else next(lengths) for one_long in pad[x.ndim]))

    def handler(*arys: Any) -> Any:
        out = tuple([one(x) for x in tensors(*arys)])
        return out[0] if len(out) == 1 else out

    return handler


atleast_1d = implements("atleast_1d")(_at_least(1))
atleast_2d = implements("atleast_2d")(_at_least(2))
atleast_3d = implements("atleast_3d")(_at_least(3))


@implements("astype")
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    return agrad.astype(tensor(x), dtype_of(dtype), copy=copy)


@implements("copy")
def _copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    x = tensor(a)
    return agrad.astype(x, x.dtype, copy=True)


# ------------------------------------------------------------------ joining


def _joined(arrays: Any, axis: Any, dtype: Any = None) -> Tensor:
    parts = promoted(*tensors(*_parts(arrays)))
    if axis is None:
        parts, axis = [flat(x) for x in parts], 0
    return cast(agrad.concat(parts, axis=axis_of(axis, parts[0].ndim)), dtype)


def _parts(arrays: Any) -> list[Any]:
    return list(agrad.unstack(arrays)) if isinstance(arrays, Tensor) else list(arrays)


@implements("concatenate", "concat")
def _concatenate(arrays: Any, /, axis: Any = 0, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return _joined(arrays, axis, dtype)


@implements("stack")
def _stack(arrays: Any, axis: int = 0, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    parts = promoted(*tensors(*_parts(arrays)))
    return cast(agrad.stack(parts, axis=axis_of(axis, parts[0].ndim + 1)), dtype)


def _several(arrays: Any, form: Any) -> list[Tensor]:
    return [form(x) for x in tensors(*_parts(arrays))]


@implements("vstack")
def _vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return _joined(_several(tup, atleast_2d), 0, dtype)


@implements("hstack")
def _hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    parts = _several(tup, atleast_1d)
    return _joined(parts, 0 if parts[0].ndim == 1 else 1, dtype)


@implements("dstack")
def _dstack(tup: Any) -> Tensor:
    return _joined(_several(tup, atleast_3d), 2)


@implements("column_stack")
def _column_stack(tup: Any) -> Tensor:
    return _joined(_several(tup, lambda x: agrad.matrix_transpose(atleast_2d(x)) if x.ndim < 2 else x), 1)


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
                raise ValueError("numpy.block: the lists must not be empty")
            return _joined([build(p, level + 1) for p in part], level - levels + least)
        x = tensor(part, like)
        return agrad.reshape(x, (*(1,) * (least - x.ndim), *x.shape))

    return build(arrays, 0)


@implements("append")
def _append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    return _joined([arr, values], axis)


# ------------------------------------------------------------------ splitting


@implements("array_split")
def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x = tensor(ary)
    axis = axis_of(axis, x.ndim)
    where = indices_or_sections
    if hasattr(where, "shape") or isinstance(where, (list, tuple)):
        where = [int(i) for i in values_of(where)]
    pieces = np.array_split(np.arange(x.shape[axis]), where)
    if isinstance(where, list):
        cuts = [0, *where, x.shape[axis]]
    else:
        cuts = np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
    return [x[along(axis, slice(a, b))] for a, b in itertools.pairwise(cuts)]


@implements("split")
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x = tensor(ary)
    if isinstance(indices_or_sections, (int, np.integer)):
        indices_or_sections = int(indices_or_sections)
        if x.shape[axis] % indices_or_sections:
            raise ValueError(f"numpy.split: {indices_or_sections} parts do not divide {x.shape[axis]} equally")
    return _array_split(x, indices_or_sections, axis)


@implements("vsplit")
def _vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split(ary, indices_or_sections, 0)


@implements("hsplit")
def _hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    x = tensor(ary)
    return _split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements("dsplit")
def _dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return _split(ary, indices_or_sections, 2)


@implements("unstack")
def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    return agrad.unstack(tensor(x), axis=axis)


# ------------------------------------------------------------------ repeating and moving


@implements("tile")
def _tile(A: Any, reps: Any) -> Tensor:
    times = tuple(int(n) for n in np.atleast_1d(values_of(reps)))
    return agrad.tile(tensor(A), times)


@implements("repeat")
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    x = tensor(a)
    times = values_of(repeats)
    return agrad.repeat(x, int(times) if times.ndim == 0 else constant(times.astype(np.int64), x), axis=axis)


@implements("roll")
def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    x = tensor(a)
    if axis is not None and (np.ndim(shift) or np.ndim(axis)):  # NumPy pairs them, and adds up those of one axis
        shifts, axes = np.broadcast_arrays(shift, axis)
        moves: dict[int, int] = {}
        for n, i in zip(shifts.reshape(-1), axes.reshape(-1), strict=True):
            moves[axis_of(i, x.ndim)] = moves.get(axis_of(i, x.ndim), 0) + int(n)
        return agrad.roll(x, tuple(moves.values()), axis=tuple(moves))
    if axis is None and np.ndim(shift):
        shift = int(np.sum(shift))
    return agrad.roll(x, int(shift), axis=axis)


@implements("flip")
def _flip(m: Any, axis: Any = None) -> Tensor:
    x = tensor(m)
    return agrad.flip(x, axis=axes_of(axis, x.ndim))


@implements("flipud")
def _flipud(m: Any) -> Tensor:
    return _flip(m, 0)


@implements("fliplr")
def _fliplr(m: Any) -> Tensor:
    return _flip(m, 1)


@implements("rot90")
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    x = tensor(m)
    np.rot90(np.broadcast_to(0, x.shape), k, axes)  # NumPy's own errors
    if k % 4 == 2:
        return agrad.flip(x, axis=axes_of(tuple(axes), x.ndim))
    turned = agrad.flip(x, axis=axis_of(axes[1], x.ndim)) if k % 4 == 1 else x
    if k % 2:
        order = list(range(x.ndim))
        order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
        turned = agrad.permute_dims(turned, tuple(order))
    if k % 4 == 3:
        return agrad.flip(turned, axis=axis_of(axes[1], x.ndim))
    return turned if k % 4 else x[...]


@implements("lib.stride_tricks.sliding_window_view")
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tensor:
    if writeable:
        raise rejects("sliding_window_view", "gives no windows to write through for Tensors", "write into x itself")
    view = np.lib.stride_tricks.sliding_window_view
    return rearranged(tensor(x), lambda places: view(places, window_shape, axis))


@implements("resize")
def _resize(a: Any, new_shape: Any) -> Tensor:
    x = tensor(a)
    if not x.size:
        return agrad.zeros(new_shape, dtype=x.dtype, backend=x.backend, device=x.device)
    return rearranged(x, lambda places: np.resize(places, new_shape))


@implements("delete")
def _delete(arr: Any, obj: Any, axis: Any = None) -> Tensor:
    x = tensor(arr)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    obj = obj if isinstance(obj, slice) else values_of(obj)
    return picked(x, np.delete(np.arange(x.shape[axis]), _whole(obj)), axis)


def _whole(obj: Any) -> Any:
    # NumPy takes an empty list, which is of floats, for no positions
    return obj.astype(np.int64) if isinstance(obj, np.ndarray) and not obj.size else obj


@implements("insert")
def _insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
    x, new = promoted(*tensors(arr, values))
    new = cast(new, tensors(arr, values)[0].dtype)
    x = cast(x, new.dtype)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    obj = obj if isinstance(obj, slice) else _whole(values_of(obj))
    one = np.ndim(obj) == 0 and not isinstance(obj, slice)
    if one:  # several values may go to one place
        if new.ndim < x.ndim:
            new = agrad.reshape(new, (*(1,) * (x.ndim - new.ndim), *new.shape))
        new = agrad.moveaxis(new, 0, axis)
        count = new.shape[axis]
    else:
        count = len(np.insert(np.arange(n), obj, -1)) - n
    shape = tuple(count if i == axis else m for i, m in enumerate(x.shape))
    order = np.insert(np.arange(n), obj, n + np.arange(count))
    return picked(agrad.concat([x, agrad.broadcast_to(new, shape)], axis=axis), order, axis)


@implements("trim_zeros")
def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    x = tensor(filt)
    found = np.argwhere(values_of(x) != 0)
    axes = axes_of(axis, x.ndim)
    index: list[slice] = [slice(None)] * x.ndim
    for i in axes:
        first, last = (int(found[:, i].min()), int(found[:, i].max())) if len(found) else (0, -1)
        index[i] = slice(first if "f" in trim.lower() else None, last + 1 if "b" in trim.lower() else None)
    if not len(found):
        index = [slice(0, 0) if i in axes else part for i, part in enumerate(index)]
    return x[tuple(index)]


# ------------------------------------------------------------------ what is asked of shapes


@implements("shape")
def _shape(a: Any) -> tuple[int, ...]:
    return tensor(a).shape


@implements("ndim")
def _ndim(a: Any) -> int:
    return tensor(a).ndim


@implements("size")
def _size(a: Any, axis: Any = None) -> int:
    x = tensor(a)
    if axis is None:
        return x.size
    return math.prod(x.shape[i] for i in axes_of(axis, x.ndim))


@implements("apply_along_axis")
def _apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    x = tensor(arr)
    axis = axis_of(axis, x.ndim)
    lead = agrad.moveaxis(x, axis, -1)
    count = math.prod(lead.shape[:-1])
    rows = agrad.reshape(lead, (count, x.shape[axis]))
    if not count:
        raise OperandError("numpy.apply_along_axis of no vectors: what the function would give is not known")
    results = [tensor(func1d(row, *args, **kwargs), x) for row in agrad.unstack(rows)]
    out = agrad.stack(promoted(*results))
    made = out.shape[1:]
    out = agrad.reshape(out, (*lead.shape[:-1], *made))
    width = len(made)
    return agrad.moveaxis(out, tuple(range(out.ndim - width, out.ndim)), tuple(range(axis, axis + width)))


@implements("apply_over_axes")
def _apply_over_axes(func: Any, a: Any, axes: Any) -> Tensor:
    x = tensor(a)
    for axis in np.atleast_1d(axes):
        result = tensor(func(x, axis_of(axis, x.ndim)), x)
        x = result if result.ndim == x.ndim else agrad.expand_dims(result, axis=axis_of(axis, x.ndim))
    return x
