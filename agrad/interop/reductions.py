"""NumPy's sums, products, means, extremes and running results, with and without nan, on Tensors."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    axes_of,
    axis_of,
    cast,
    constant,
    flat,
    inexact,
    is_complex,
    is_concrete,
    is_inexact,
    masked,
    numeric,
    tensor,
    tensors,
    values_of,
)
from agrad.interop.table import implements
from agrad.registry import CALLS

_ALL: Any = np._NoValue
"""What NumPy's own functions hand on for a setting that was not given."""


def given(value: Any, default: Any) -> Any:
    """A setting, or its default where it was not given."""
    return default if value is _ALL else value


def _selected(a: Any, where: Any, fill: Any) -> Tensor:
    """The array, with ``fill`` where ``where`` does not hold."""
    a = tensor(a)
    if where is _ALL or where is True:
        return a
    shape = np.broadcast_shapes(tuple(np.shape(where)), a.shape)
    return masked(agrad.broadcast_to(a, shape), agrad.broadcast_to(tensor(where, a), shape), fill)


def _shaped(x: Tensor, axis: Any, keepdims: Any) -> dict[str, Any]:
    return {"axis": axes_of(axis, x.ndim), "keepdims": bool(given(keepdims, False))}


@implements("sum")
def _sum(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = _ALL, initial: Any = _ALL, where: Any = _ALL
) -> Any:
    x = _selected(cast(tensor(a), dtype), where, 0)
    out = agrad.sum(numeric(x), **_shaped(x, axis, keepdims))
    return cast(out if initial is _ALL else out + initial, dtype)


@implements("prod")
def _prod(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = _ALL, initial: Any = _ALL, where: Any = _ALL
) -> Any:
    x = _selected(cast(tensor(a), dtype), where, 1)
    out = agrad.prod(numeric(x), **_shaped(x, axis, keepdims))
    return cast(out if initial is _ALL else out * initial, dtype)


def _count(x: Tensor, axis: Any, keepdims: Any, where: Any) -> Any:
    """How many elements a mean is over: a number, or with ``where`` a constant array."""
    axes = axes_of(axis, x.ndim)
    if where is _ALL or where is True:
        return math.prod(x.shape[i] for i in axes)
    mask = agrad.broadcast_to(cast(tensor(where, x), bool), x.shape)
    return agrad.sum(agrad.astype(mask, agrad.real(x).dtype), axis=axes, keepdims=bool(given(keepdims, False)))


@implements("mean")
def _mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = _ALL, where: Any = _ALL) -> Any:
    x = _selected(inexact(cast(tensor(a), dtype)), where, 0)
    if where is _ALL or where is True:
        return cast(agrad.mean(x, **_shaped(x, axis, keepdims)), dtype)
    return cast(agrad.sum(x, **_shaped(x, axis, keepdims)) / _count(x, axis, keepdims, where), dtype)


def _squares(x: Tensor) -> Tensor:
    """The squared magnitudes."""
    return agrad.real(x) ** 2 + agrad.imag(x) ** 2 if is_complex(x) else x * x


@implements("var")
def _var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: Any = _ALL,
    where: Any = _ALL,
    mean: Any = _ALL,
    correction: Any = _ALL,
) -> Any:
    x = inexact(cast(tensor(a), dtype))
    ddof = given(correction, ddof)
    if not is_complex(x) and (where is _ALL or where is True) and mean is _ALL and math.prod(x.shape):
        axes = axes_of(axis, x.ndim)
        if math.prod(x.shape[i] for i in axes) > ddof:
            return agrad.var(x, axis=axes, correction=float(ddof), keepdims=bool(given(keepdims, False)))
    x = _selected(x, where, 0)
    centre = _mean(x, axis, None, True, where) if mean is _ALL else tensor(mean, x)
    spread = _selected(_squares(x - centre), where, 0)
    count = _count(spread, axis, keepdims, where)
    rest = agrad.maximum(count - ddof, 0) if isinstance(count, Tensor) else constant(max(count - ddof, 0.0), spread)
    return agrad.sum(spread, **_shaped(spread, axis, keepdims)) / cast(rest, spread.dtype)


@implements("std")
def _std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: Any = _ALL,
    where: Any = _ALL,
    mean: Any = _ALL,
    correction: Any = _ALL,
) -> Any:
    return CALLS["length"](_var(a, axis, dtype, ddof, keepdims, where, mean, correction))


def _extreme(name: str) -> Any:
    function, pair = getattr(agrad, name), agrad.maximum if name == "max" else agrad.minimum

    def handler(a: Any, axis: Any = None, keepdims: Any = _ALL, initial: Any = _ALL, where: Any = _ALL) -> Any:
        if where is not _ALL and where is not True and initial is _ALL:
            raise ValueError(f"numpy.{name}: where= needs initial=, as there is no least or greatest of no elements")
        x = _selected(a, where, initial)
        if initial is not _ALL and not x.size:
            return agrad.full_like(agrad.sum(x, **_shaped(x, axis, keepdims)), initial, dtype=x.dtype)
        out = function(x, **_shaped(x, axis, keepdims))
        return out if initial is _ALL else pair(out, initial)

    return handler


implements("max", "amax")(_extreme("max"))
implements("min", "amin")(_extreme("min"))


@implements("ptp")
def _ptp(a: Any, axis: Any = None, keepdims: Any = _ALL) -> Any:
    x = tensor(a)
    return agrad.max(x, **_shaped(x, axis, keepdims)) - agrad.min(x, **_shaped(x, axis, keepdims))


def _truth(name: str) -> Any:
    function = getattr(agrad, name)

    def handler(a: Any, axis: Any = None, keepdims: Any = _ALL, *, where: Any = _ALL) -> Any:
        x = _selected(a, where, name == "all")
        return function(x if x.dtype == agrad.bool else x != 0, **_shaped(x, axis, keepdims))

    return handler


implements("all")(_truth("all"))
implements("any")(_truth("any"))


@implements("count_nonzero")
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    x = tensor(a)
    return agrad.count_nonzero(x, axis=axes_of(axis, x.ndim), keepdims=keepdims)


@implements("argmax")
def _argmax(a: Any, axis: Any = None, *, keepdims: Any = _ALL) -> Any:
    return agrad.argmax(_comparable(tensor(a)), axis=axis, keepdims=bool(given(keepdims, False)))


@implements("argmin")
def _argmin(a: Any, axis: Any = None, *, keepdims: Any = _ALL) -> Any:
    return agrad.argmin(_comparable(tensor(a)), axis=axis, keepdims=bool(given(keepdims, False)))


def _comparable(x: Tensor) -> Tensor:
    return cast(x, np.int8) if x.dtype == agrad.bool else x


# ------------------------------------------------------------------ running results


def _running(function: Any, a: Any, axis: Any, dtype: Any) -> Tensor:
    x = tensor(a)
    if axis is None:
        x, axis = flat(x), 0
    return cast(function(numeric(cast(x, dtype)), axis=axis_of(axis, x.ndim)), dtype)


@implements("cumsum")
def _cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _running(agrad.cumulative_sum, a, axis, dtype)


@implements("cumprod")
def _cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _running(agrad.cumulative_prod, a, axis, dtype)


def _standard_running(name: str) -> Any:
    function = getattr(agrad, name)

    def handler(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
        x = numeric(cast(tensor(x), dtype))
        return cast(function(x, axis=axis, include_initial=include_initial), dtype)

    return handler


implements("cumulative_sum")(_standard_running("cumulative_sum"))
implements("cumulative_prod")(_standard_running("cumulative_prod"))


# ------------------------------------------------------------------ without nan


def without_nan(a: Any, fill: float) -> Tensor:
    """The array, with ``fill`` where it is nan."""
    x = tensor(a)
    return agrad.where(agrad.isnan(x), agrad.full_like(x, fill), x) if is_inexact(x) else x


def _numbers(a: Any, where: Any) -> tuple[Tensor, Any]:
    """The array, and where it is a number and ``where`` holds."""
    x = inexact(tensor(a))
    is_number = agrad.logical_not(agrad.isnan(x))
    if where is not _ALL and where is not True:
        is_number = is_number & cast(tensor(where, x), bool)
    return x, is_number


@implements("nansum")
def _nansum(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = _ALL, initial: Any = _ALL, where: Any = _ALL
) -> Any:
    return _sum(without_nan(a, 0), axis, dtype, keepdims, initial, where)


@implements("nanprod")
def _nanprod(
    a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = _ALL, initial: Any = _ALL, where: Any = _ALL
) -> Any:
    return _prod(without_nan(a, 1), axis, dtype, keepdims, initial, where)


@implements("nancumsum")
def _nancumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _cumsum(without_nan(a, 0), axis, dtype)


@implements("nancumprod")
def _nancumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return _cumprod(without_nan(a, 1), axis, dtype)


@implements("nanmean")
def _nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = _ALL, *, where: Any = _ALL) -> Any:
    x, mask = _numbers(a, where)
    return _mean(x, axis, dtype, keepdims, mask)


@implements("nanvar")
def _nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: Any = _ALL,
    *,
    where: Any = _ALL,
    mean: Any = _ALL,
    correction: Any = _ALL,
) -> Any:
    x, mask = _numbers(a, where)
    out = _var(x, axis, dtype, ddof, keepdims, mask, mean, correction)
    # NumPy says nan where no more numbers are left than degrees of freedom taken away
    return masked(out, _count(x, axis, keepdims, mask) > float(given(correction, ddof)), math.nan)


@implements("nanstd")
def _nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: Any = _ALL,
    *,
    where: Any = _ALL,
    mean: Any = _ALL,
    correction: Any = _ALL,
) -> Any:
    return CALLS["length"](
        _nanvar(a, axis, dtype, ddof, keepdims, where=where, mean=mean, correction=correction),
    )


def _nan_extreme(name: str) -> Any:
    whole, fill = _extreme(name), -math.inf if name == "max" else math.inf

    def handler(a: Any, axis: Any = None, keepdims: Any = _ALL, initial: Any = _ALL, where: Any = _ALL) -> Any:
        x = tensor(a)
        if not is_inexact(x):
            return whole(x, axis, keepdims, initial, where)
        out = whole(without_nan(x, fill), axis, keepdims, initial, where)
        some = agrad.any(agrad.logical_not(agrad.isnan(x)), **_shaped(x, axis, keepdims))
        return masked(out, some, math.nan) if initial is _ALL else out

    return handler


implements("nanmax")(_nan_extreme("max"))
implements("nanmin")(_nan_extreme("min"))


def _nan_place(name: str) -> Any:
    function = getattr(np, name)

    def handler(a: Any, axis: Any = None, *, keepdims: Any = _ALL) -> Any:
        return constant(function(values_of(a), axis=axis, keepdims=bool(given(keepdims, False))), tensor(a))

    return handler


implements("nanargmax")(_nan_place("nanargmax"))
implements("nanargmin")(_nan_place("nanargmin"))


@implements("average")
def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = _ALL) -> Any:
    x, w = tensors(a, weights)
    x = inexact(x)
    keep = bool(given(keepdims, False))
    axes = axes_of(axis, x.ndim)
    if w is None:
        out = agrad.mean(x, axis=axes, keepdims=keep)
        total = constant(np.float64(math.prod(x.shape[i] for i in axes)), x)
    else:
        if w.shape != x.shape:
            if axis is None or w.shape != tuple(x.shape[i] for i in np.atleast_1d(axis)):
                raise ValueError(f"numpy.average: weights of shape {w.shape} do not fit an array of shape {x.shape}")
            places = [axis_of(i, x.ndim) for i in np.atleast_1d(axis)]
            w = agrad.permute_dims(w, tuple(int(i) for i in np.argsort(places)))
            w = agrad.reshape(w, tuple(x.shape[i] if i in axes else 1 for i in range(x.ndim)))
        w = inexact(w)
        total = agrad.sum(agrad.broadcast_to(w, x.shape), axis=axes, keepdims=keep)
        if is_concrete(total) and not np.all(values_of(total)):
            raise ZeroDivisionError("numpy.average: the weights sum to zero, so that they cannot be normalized")
        out = agrad.sum(x * w, axis=axes, keepdims=keep) / total
    return (out, agrad.broadcast_to(cast(total, out.dtype), out.shape)) if returned else out
