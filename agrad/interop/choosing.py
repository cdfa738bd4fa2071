"""NumPy functions that choose, round and write elements, for Tensors."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import described
from agrad.interop.arguments import (
    Floating,
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
    masked,
    may_hold,
    operands,
    picked,
    promoted,
    rejects,
    replaced,
    resized,
    rewrite,
    stretched,
    tensor,
    values_of,
    with_axis,
    zeros,
)
from agrad.interop.table import as_written, implements

_MISSING: Any = object()


@implements("where")
def _where(condition: Any, x: Any = _MISSING, y: Any = _MISSING) -> Any:
    like = like_of(condition, x, y)
    mask = cast(tensor(condition, like), bool)
    if x is _MISSING or y is _MISSING:
        return tuple(constant(i, like) for i in np.nonzero(values_of(mask)))
    first, second = operands(x, y) if like_of(x, y) is not None else promoted(tensor(x, like), tensor(y, like))
    return agrad.where(mask, first, second)


@implements("select")
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    conditions, choices = list(condlist), list(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise ValueError("numpy.select: condlist and choicelist must have the same length, at least 1")
    like = like_of(conditions, choices, default)
    *parts, out = alike(*choices, default)
    for condition, part in zip(reversed(conditions), reversed(parts), strict=True):
        out = agrad.where(cast(tensor(condition, like), bool), part, out)
    # the result is contiguous, as in NumPy
    return agrad.reshape(flat(out), out.shape) if out.ndim > 1 else out


@implements("piecewise")
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    x = tensor(x, like_of(condlist))
    single = not isinstance(condlist, (list, tuple)) or (x.ndim > 0 and np.ndim(condlist[0]) == 0)
    conditions = [values_of(c).astype(bool) for c in ([condlist] if single else condlist)]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        conditions.append(~np.any([np.broadcast_to(c, x.shape) for c in conditions], axis=0))
    elif len(functions) != len(conditions):
        raise ValueError(f"numpy.piecewise: funclist must match {len(conditions)} conditions, got {len(functions)}")
    parts, order, count = [zeros((1,), x)], np.zeros(x.size, dtype=np.int64), 1
    for condition, function in zip(conditions, functions, strict=True):
        places = np.flatnonzero(np.broadcast_to(condition, x.shape))
        if not places.size:
            continue
        # a function is given only the elements of its condition, as in NumPy
        part = tensor(function(picked(x, places), *args, **kw) if callable(function) else function, x)
        if part.size != 1 and part.shape != places.shape:
            raise ValueError(f"numpy.piecewise: a result must have size 1 or {places.size}, got shape {part.shape}")
        parts.append(flat(cast(part, x.dtype)))
        order[places] = count + np.arange(places.size) % part.size
        count += part.size
    return agrad.reshape(picked(agrad.concat(parts), order), x.shape)


@implements("choose")
def _choose(a: Any, choices: Any, mode: str = "raise") -> Tensor:
    like = like_of(a, choices)
    parts = list(choices)
    parts = alike(*parts) if like_of(parts) is not None else promoted(*[tensor(c, like) for c in parts])
    # NumPy applies the mode to indices out of range
    which = np.choose(values_of(a), [np.int64(i) for i in range(len(parts))], mode=mode)
    shape = np.broadcast_shapes(which.shape, *[p.shape for p in parts])
    stacked = agrad.concat([flat(stretched(p, shape)) for p in parts])
    size = math.prod(shape)
    return picked(stacked, np.broadcast_to(which, shape) * size + np.arange(size).reshape(shape))


@implements("compress")
def _compress(condition: Any, a: Tensor, axis: Any = None) -> Tensor:
    x, axis = with_axis(a, axis)
    return picked(x, np.flatnonzero(values_of(condition)), axis)


@implements("extract")
def _extract(condition: Any, arr: Tensor) -> Tensor:
    return picked(arr, np.flatnonzero(values_of(condition)))


@implements("take")
def _take(a: Tensor, indices: Any, axis: Any = None, mode: str = "raise") -> Tensor:
    x, axis = with_axis(a, axis)
    if isinstance(indices, Tensor) and mode == "raise":
        return x[along(axis, indices)]
    index = values_of(indices)
    return picked(
        x, np.take(np.arange(x.shape[axis]), index if index.size else index.astype(np.int64), mode=mode), axis
    )


@implements("take_along_axis")
def _take_along_axis(arr: Tensor, indices: Any, axis: Any = -1) -> Tensor:
    x, axis = with_axis(arr, axis)
    return agrad.take_along_axis(x, indices, axis=axis)


@implements("clip")
def _clip(a: Tensor, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None, **settings: Any) -> Tensor:
    if settings:
        raise rejects("clip", f"{', '.join(settings)} is not supported for Tensors", "Choose with numpy.where")
    low, high = a_min if min is None else min, a_max if max is None else max
    x = a
    for limit, function in ((low, agrad.maximum), (high, agrad.minimum)):
        if limit is not None:
            x = function(*operands(x, limit))
    return x if low is not None or high is not None else agrad.positive(x)


@implements("nan_to_num")
def _nan_to_num(x: Tensor, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    if not copy:
        raise rejects("nan_to_num", "copy=False is not supported for Tensors", "Leave copy out")
    if not is_inexact(x):
        return agrad.astype(x, x.dtype, copy=True)
    if is_complex(x):
        real = _nan_to_num(agrad.real(x), True, nan, posinf, neginf)
        return real + 1j * _nan_to_num(agrad.imag(x), True, nan, posinf, neginf)
    limits = agrad.finfo(x.dtype)
    out = x
    for replaces, value in (
        (lambda x: x != x, nan),
        (lambda x: x == math.inf, limits.max if posinf is None else posinf),
        (lambda x: x == -math.inf, limits.min if neginf is None else neginf),
    ):
        if may_hold(replaces, x):
            out = masked(out, ~replaces(x), value)
    return agrad.astype(x, x.dtype, copy=True) if out is x else out


# ------------------------------------------------------------------ rounding and parts


@implements("round", "around")
def _round(a: Tensor, decimals: int = 0) -> Tensor:
    if decimals == 0 or (decimals > 0 and not is_inexact(a)):
        return agrad.round(a)
    scale = 10.0 ** abs(decimals)
    scaled = inexact(a)
    out = agrad.round(scaled * scale) / scale if decimals > 0 else agrad.round(scaled / scale) * scale
    return cast(out, a.dtype)


as_written("imag real")
implements("fix")(lambda x: np.trunc(x))


@implements("angle")
def _angle(z: Floating, deg: bool = False) -> Tensor:
    if is_complex(z):
        out = agrad.atan2(agrad.imag(z), agrad.real(z))
    else:  # 0 or pi: constant on either side of 0
        turned = agrad.astype(agrad.signbit(z), z.dtype) * np.pi
        out = agrad.where(agrad.isnan(z), z, turned)
    return out * (180 / np.pi) if deg else out


@implements("real_if_close")
def _real_if_close(a: Tensor, tol: float = 100) -> Tensor:
    return agrad.real(a) if is_complex(a) and not np.iscomplexobj(np.real_if_close(values_of(a), tol)) else a


# ------------------------------------------------------------------ writing: the Tensor is rebound


def _target(a: Any, name: str) -> Tensor:
    if not isinstance(a, Tensor):
        raise rejects(
            name,
            f"the target must be a Tensor, got {described(a)}, which cannot record",
            "Convert it first: agrad.asarray(a), or build the array with numpy.where or numpy.concatenate",
        )
    return a


@implements("copyto")
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    dst = _target(dst, "copyto")
    new = tensor(src, dst)
    if not np.can_cast(np.dtype(new.dtype.name), np.dtype(dst.dtype.name), casting):
        raise TypeError(f"numpy.copyto: {new.dtype} cannot be cast to {dst.dtype} with casting={casting!r}")
    new = stretched(cast(new, dst.dtype), dst.shape)
    if where is True:
        dst[...] = new
    else:
        rewrite(dst, agrad.where(cast(tensor(where, dst), bool), new, dst))


@implements("put")
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    x = _target(a, "put")
    places = np.take(np.arange(x.size), values_of(ind).reshape(-1), mode=mode)
    _write(x, places, v)


@implements("place")
def _place(arr: Any, mask: Any, vals: Any) -> None:
    _write(_target(arr, "place"), np.flatnonzero(values_of(mask)), vals)


def _write(x: Tensor, places: np.ndarray, values: Any) -> None:
    """Write values, repeated if needed, at positions of the flattened array."""
    new = flat(cast(tensor(values, x), x.dtype))
    if not places.size:
        return
    if not new.size:
        raise ValueError("the values to write must not be empty")
    rewrite(x, replaced(flat(x), places, new))


@implements("putmask")
def _putmask(a: Any, mask: Any, values: Any) -> None:
    x = _target(a, "putmask")
    new = flat(cast(tensor(values, x), x.dtype))
    spread = agrad.reshape(picked(new, np.arange(x.size) % max(new.size, 1), 0), x.shape)
    rewrite(x, agrad.where(cast(tensor(mask, x), bool), spread, x))


@implements("put_along_axis")
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    x = _target(arr, "put_along_axis")
    shape = (x.size,) if axis is None else x.shape
    axis = 0 if axis is None else axis_of(axis, x.ndim)
    index = values_of(indices)
    index = np.broadcast_to(index, np.broadcast_shapes(index.shape, (*shape[:axis], 1, *shape[axis + 1 :])))
    new = stretched(cast(tensor(values, x), x.dtype), index.shape)
    places = np.arange(x.size).reshape(shape)
    _write(x, np.take_along_axis(places, index, axis).reshape(-1), new)


@implements("fill_diagonal")
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    x = _target(a, "fill_diagonal")
    marks = np.zeros(x.shape, dtype=bool)
    np.fill_diagonal(marks, True, wrap=wrap)
    _write(x, np.flatnonzero(marks), val)


@implements("diff")
def _diff(a: Tensor, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    if n == 0:  # prepend and append are ignored, as in NumPy
        return a
    axis = axis_of(axis, a.ndim)
    parts = promoted(*[tensor(part, a) for part in (prepend, a, append) if part is not None])
    if len(parts) > 1:
        parts = [agrad.broadcast_to(x, resized(a, axis, 1)) if x.ndim == 0 else x for x in parts]
    x = agrad.concat(parts, axis=axis) if len(parts) > 1 else parts[0]
    if x.dtype == agrad.bool:
        return agrad.diff(agrad.astype(x, agrad.int8), axis=axis, n=n) != 0
    return agrad.diff(x, axis=axis, n=n)


@implements("ediff1d")
def _ediff1d(ary: Tensor, to_end: Any = None, to_begin: Any = None) -> Tensor:
    parts = [to_begin, agrad.diff(flat(ary)), to_end]
    return agrad.concat([flat(cast(tensor(p, ary), ary.dtype)) for p in parts if p is not None], axis=0)
