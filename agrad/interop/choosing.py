"""NumPy's functions that choose elements, or write them, on Tensors."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    alike,
    along,
    axis_of,
    cast,
    constant,
    flat,
    inexact,
    is_complex,
    is_inexact,
    like_of,
    picked,
    promoted,
    rejects,
    tensor,
    tensors,
    values_of,
)
from agrad.interop.table import implements
from agrad.interop.ufuncs import operands

_MISSING: Any = object()


@implements("where")
def _where(condition: Any, x: Any = _MISSING, y: Any = _MISSING, /) -> Any:
    like = like_of(condition, x, y)
    assert like is not None
    mask = cast(tensor(condition, like), bool)
    if x is _MISSING or y is _MISSING:
        return tuple(constant(i, like) for i in np.nonzero(values_of(mask)))
    first, second = operands(x, y) if like_of(x, y) is not None else promoted(tensor(x, like), tensor(y, like))
    return agrad.where(mask, first, second)


@implements("select")
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    conditions, choices = list(condlist), list(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise ValueError("numpy.select takes as many choices as conditions, and one at least")
    like = like_of(conditions, choices, default)
    *parts, out = alike(*choices, default)
    masks = [tensor(c, like) for c in conditions]
    for mask, part in zip(reversed(masks), reversed(parts), strict=True):
        out = agrad.where(cast(mask, bool), part, out)
    # rows lie one after the other, as in NumPy's result
    return agrad.reshape(agrad.reshape(out, (-1,)), out.shape) if out.ndim > 1 else out


@implements("piecewise")
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    x = tensor(x, like_of(condlist))
    single = not isinstance(condlist, (list, tuple)) or (x.ndim > 0 and np.ndim(condlist[0]) == 0)
    conditions = [values_of(c).astype(bool) for c in ([condlist] if single else condlist)]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        conditions.append(~np.any([np.broadcast_to(c, x.shape) for c in conditions], axis=0))
    elif len(functions) != len(conditions):
        raise ValueError(f"numpy.piecewise: {len(conditions)} conditions for {len(functions)} functions")
    out = agrad.zeros_like(x)
    for condition, function in zip(conditions, functions, strict=True):
        mask = np.broadcast_to(condition, x.shape)
        if not mask.any():
            continue
        index = constant(mask, x)
        # the function sees only the elements that are its own, as with NumPy
        part = function(x[index], *args, **kw) if callable(function) else function
        part = agrad.broadcast_to(cast(tensor(part, x), x.dtype), (int(mask.sum()),))
        places = constant(np.cumsum(mask.reshape(-1)).reshape(mask.shape) * mask, x)
        padded = agrad.concat([agrad.zeros_like(part)[:1], part], axis=0)
        spread = agrad.reshape(agrad.take(padded, flat(places), axis=0), x.shape)
        out = agrad.where(index, spread, out)
    return out


@implements("choose")
def _choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    like = like_of(a, choices)
    assert like is not None
    parts = list(choices)
    parts = alike(*parts) if like_of(parts) is not None else promoted(*[tensor(c, like) for c in parts])
    which = values_of(a)
    # NumPy itself says what an index out of range means
    which = np.choose(which, [np.int64(i) for i in range(len(parts))], mode=mode)
    shape = np.broadcast_shapes(which.shape, *[p.shape for p in parts])
    stacked = agrad.stack([agrad.broadcast_to(p, shape) for p in parts], axis=0)
    index = constant(np.broadcast_to(which, shape)[None].astype(np.int64), like)
    return agrad.take_along_axis(stacked, index, axis=0)[0]


@implements("compress")
def _compress(condition: Any, a: Any, axis: Any = None) -> Tensor:
    x = tensor(a, like_of(condition))
    if axis is None:
        x, axis = flat(x), 0
    return picked(x, np.flatnonzero(values_of(condition)), axis_of(axis, x.ndim))


@implements("extract")
def _extract(condition: Any, arr: Any) -> Tensor:
    x = tensor(arr, like_of(condition))
    return picked(flat(x), np.flatnonzero(values_of(condition)), 0)


@implements("take")
def _take(a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Tensor:
    x = tensor(a, like_of(indices))
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    if isinstance(indices, Tensor) and mode == "raise":
        return x[along(axis, indices)]
    index = values_of(indices)
    index = np.take(np.arange(x.shape[axis]), index if index.size else index.astype(np.int64), mode=mode)
    out = picked(x, np.asarray(index).reshape(-1), axis)
    return agrad.reshape(out, (*x.shape[:axis], *np.shape(index), *x.shape[axis + 1 :]))


@implements("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    x = tensor(arr, like_of(indices))
    if axis is None:
        x, axis = flat(x), 0
    return agrad.take_along_axis(x, indices, axis=axis_of(axis, x.ndim))


@implements("clip")
def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, **settings: Any) -> Tensor:
    if settings:
        raise rejects("clip", f"takes no {', '.join(settings)} for Tensors", "clip first, and choose with numpy.where")
    low, high = a_min if min is None else min, a_max if max is None else max
    x = tensor(a, like_of(low, high))
    for limit, function in ((low, agrad.maximum), (high, agrad.minimum)):
        if limit is not None:
            x = function(*operands(x, limit))
    return x if low is not None or high is not None else agrad.positive(x)


@implements("nan_to_num")
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    x = tensor(x)
    if not copy:
        raise rejects("nan_to_num", "with copy=False would change a Tensor in place", "leave copy away")
    if not is_inexact(x):
        return x
    if is_complex(x):
        real = _nan_to_num(agrad.real(x), True, nan, posinf, neginf)
        return real + 1j * _nan_to_num(agrad.imag(x), True, nan, posinf, neginf)
    limits = agrad.finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    infinite = agrad.isinf(x)
    x = agrad.where(agrad.isnan(x), cast(tensor(nan, x), x.dtype), x)
    x = agrad.where(infinite & (x > 0), cast(tensor(high, x), x.dtype), x)
    return agrad.where(infinite & (x < 0), cast(tensor(low, x), x.dtype), x)


# ------------------------------------------------------------------ rounding and parts


@implements("round", "around")
def _round(a: Any, decimals: int = 0) -> Tensor:
    x = tensor(a)
    if decimals == 0 or (decimals > 0 and not is_inexact(x)):
        return agrad.round(x)
    scale = 10.0 ** abs(decimals)
    scaled = inexact(x)
    out = agrad.round(scaled * scale) / scale if decimals > 0 else agrad.round(scaled / scale) * scale
    return cast(out, x.dtype)


@implements("fix")
def _fix(x: Any) -> Tensor:
    return agrad.trunc(tensor(x))


@implements("real")
def _real(val: Any) -> Tensor:
    return tensor(val).real


@implements("imag")
def _imag(val: Any) -> Tensor:
    return tensor(val).imag


@implements("angle")
def _angle(z: Any, deg: bool = False) -> Tensor:
    z = inexact(tensor(z))
    if is_complex(z):
        out = agrad.atan2(agrad.imag(z), agrad.real(z))
    else:  # 0 or pi: constant between the jumps at 0
        turned = agrad.astype(agrad.signbit(z), z.dtype) * np.pi
        out = agrad.where(agrad.isnan(z), z, turned)
    return out * (180 / np.pi) if deg else out


@implements("real_if_close")
def _real_if_close(a: Any, tol: float = 100) -> Tensor:
    x = tensor(a)
    return agrad.real(x) if is_complex(x) and not np.iscomplexobj(np.real_if_close(values_of(x), tol)) else x


# ------------------------------------------------------------------ writing: the Tensor is rebound


def _target(a: Any, name: str) -> Tensor:
    if not isinstance(a, Tensor):
        raise rejects(
            name,
            f"would write Tensors into a {type(a).__name__}, which records nothing",
            "make it a Tensor first: agrad.asarray(a), or build the array with numpy.where or numpy.concatenate",
        )
    return a


@implements("copyto")
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    dst = _target(dst, "copyto")
    new = tensor(src, dst)
    if not np.can_cast(np.dtype(new.dtype.name), np.dtype(dst.dtype.name), casting):
        raise TypeError(f"numpy.copyto: {new.dtype} cannot be cast to {dst.dtype} by the rule {casting!r}")
    new = agrad.broadcast_to(cast(new, dst.dtype), dst.shape)
    dst[...] = new if where is True else agrad.where(cast(tensor(where, dst), bool), new, dst)


@implements("put")
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    x = _target(a, "put")
    places = np.take(np.arange(x.size), values_of(ind).reshape(-1), mode=mode)
    _write(x, places, v)


@implements("place")
def _place(arr: Any, mask: Any, vals: Any) -> None:
    x = _target(arr, "place")
    _write(x, np.flatnonzero(values_of(mask)), vals)


def _write(x: Tensor, places: np.ndarray, values: Any) -> None:
    """Write values, repeated as often as need be, at places of the flattened array."""
    new = flat(cast(tensor(values, x), x.dtype))
    if not places.size:
        return
    if not new.size:
        raise ValueError("there are no values to write")
    new = picked(new, np.arange(places.size) % new.size, 0)
    # of several values for one place the last stands
    last = {int(place): i for i, place in enumerate(places)}
    row = flat(x)
    row[constant(np.fromiter(last, np.int64), x)] = picked(new, np.fromiter(last.values(), np.int64), 0)
    x[...] = agrad.reshape(row, x.shape)


@implements("putmask")
def _putmask(a: Any, mask: Any, values: Any) -> None:
    x = _target(a, "putmask")
    new = flat(cast(tensor(values, x), x.dtype))
    spread = agrad.reshape(picked(new, np.arange(x.size) % max(new.size, 1), 0), x.shape)
    x[...] = agrad.where(cast(tensor(mask, x), bool), spread, x)


@implements("put_along_axis")
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    x = _target(arr, "put_along_axis")
    shape = x.shape
    if axis is None:
        shape, axis = (x.size,), 0
    places = np.arange(x.size).reshape(shape)
    index = values_of(indices)
    axis = axis_of(axis, len(shape))
    lead = tuple(1 if i == axis else n for i, n in enumerate(shape))
    index = np.broadcast_to(index, np.broadcast_shapes(index.shape, lead))
    new = agrad.broadcast_to(cast(tensor(values, x), x.dtype), index.shape)
    _write(x, np.take_along_axis(places, index, axis).reshape(-1), new)


@implements("fill_diagonal")
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    x = _target(a, "fill_diagonal")
    marks = np.zeros(x.shape, dtype=bool)
    np.fill_diagonal(marks, True, wrap=wrap)
    _write(x, np.flatnonzero(marks), val)


@implements("diff")
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Tensor:
    x = tensor(a, like_of(prepend, append))
    if n == 0:  # NumPy joins nothing then
        return x
    axis = axis_of(axis, x.ndim)
    ends = []
    for end in (prepend, append):
        if end is np._NoValue:
            ends.append(None)
            continue
        (end,) = tensors(tensor(end, x))
        shape = tuple(1 if i == axis else m for i, m in enumerate(x.shape))
        ends.append(agrad.broadcast_to(end, shape) if end.ndim == 0 else end)
    parts = iter(promoted(*[part for part in (ends[0], x, ends[1]) if part is not None]))
    before, x, after = [None if part is None else next(parts) for part in (ends[0], x, ends[1])]
    if x.dtype == agrad.bool:
        out = agrad.diff(agrad.astype(x, agrad.int8), axis=axis, n=n, prepend=before, append=after)
        return out != 0
    return agrad.diff(x, axis=axis, n=n, prepend=before, append=after)


@implements("ediff1d")
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    x = flat(tensor(ary, like_of(to_end, to_begin)))
    parts = [to_begin, agrad.diff(x), to_end]
    return agrad.concat([flat(cast(tensor(p, x), x.dtype)) for p in parts if p is not None], axis=0)
