"""NumPy sums, means, extrema and cumulative results, for Tensors."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Floating,
    axes_of,
    axis_of,
    cast,
    constant,
    inexact,
    is_complex,
    is_concrete,
    is_inexact,
    masked,
    may_hold,
    tensor,
    values_of,
    with_axis,
)
from agrad.interop.methods import accumulate, reduce
from agrad.interop.table import as_written, implements
from agrad.registry import CALLS


def _shaped(x: Tensor, axis: Any, keepdims: Any) -> dict[str, Any]:
    return {"axis": axes_of(axis, x.ndim), "keepdims": bool(keepdims)}


def _without_nan(x: Tensor, fill: float) -> Tensor:
    """Replace nan by ``fill``."""
    return agrad.where(agrad.isnan(x), float(fill), x) if is_inexact(x) and may_hold(np.isnan, x) else x


def _reduction(ufunc: np.ufunc, fill: float | None = None) -> Any:
    """Return the handler of a function that is a ufunc's ``reduce``.

    ``fill`` replaces nan, in functions that ignore nan.
    """

    def handler(a: Tensor, axis: Any = None, **settings: Any) -> Any:
        return reduce(ufunc, a if fill is None else _without_nan(a, fill), axis, **settings)

    return handler


def _running(ufunc: np.ufunc, fill: float | None = None) -> Any:
    """Return the handler of a function that is a ufunc's ``accumulate``."""

    def handler(a: Tensor, axis: Any = None, dtype: Any = None) -> Any:
        x, axis = with_axis(a if fill is None else _without_nan(a, fill), axis)
        return accumulate(ufunc, x, axis, dtype)

    return handler


for _names, _handler in {
    "sum": _reduction(np.add),
    "nansum": _reduction(np.add, 0),
    "prod": _reduction(np.multiply),
    "nanprod": _reduction(np.multiply, 1),
    "max amax": _reduction(np.maximum),
    "min amin": _reduction(np.minimum),
    "all": _reduction(np.logical_and),
    "any": _reduction(np.logical_or),
    "cumsum": _running(np.add),
    "nancumsum": _running(np.add, 0),
    "cumprod": _running(np.multiply),
    "nancumprod": _running(np.multiply, 1),
}.items():
    implements(*_names.split())(_handler)


@implements("ptp")
def _ptp(a: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    shaped = _shaped(a, axis, keepdims)
    return agrad.max(a, **shaped) - agrad.min(a, **shaped)


as_written("cumulative_prod cumulative_sum")


def _count(x: Tensor, axis: Any, keepdims: Any, where: Any) -> Any:
    """Count the elements of a mean; with ``where`` the counts are an array."""
    if where is True:
        return math.prod(x.shape[i] for i in axes_of(axis, x.ndim))
    mask = agrad.broadcast_to(cast(tensor(where, x), bool), x.shape)
    return agrad.sum(agrad.astype(mask, agrad.real(x).dtype), **_shaped(x, axis, keepdims))


@implements("mean")
def _mean(a: Tensor, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = True) -> Any:
    x = masked(inexact(cast(a, dtype)), where, 0)
    if where is True:
        return cast(agrad.mean(x, **_shaped(x, axis, keepdims)), dtype)
    return cast(agrad.sum(x, **_shaped(x, axis, keepdims)) / _count(x, axis, keepdims, where), dtype)


def _squares(x: Tensor) -> Tensor:
    """Return the squared magnitudes."""
    return agrad.real(x) ** 2 + agrad.imag(x) ** 2 if is_complex(x) else x * x


@implements("var")
def _var(
    a: Tensor,
    axis: Any = None,
    dtype: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    # of complex numbers with a real dtype NumPy's mean is real, as it warns, and the offsets are complex
    real = is_complex(a) and dtype is not None and not is_complex(np.empty(0, dtype))
    x = inexact(a if real else cast(a, dtype))
    ddof = ddof if correction is None else correction
    plain = where is True and mean is None and not is_complex(x)
    if plain and math.prod(x.shape) and _count(x, axis, keepdims, True) > ddof:
        return agrad.var(x, correction=float(ddof), **_shaped(x, axis, keepdims))
    x = masked(x, where, 0)
    centre = _mean(x, axis, dtype if real else None, True, where) if mean is None else tensor(mean, x)
    centre = cast(centre, x.dtype) if real else centre
    spread = masked(_squares(x - centre), where, 0)
    count = _count(spread, axis, keepdims, where)
    rest = agrad.maximum(count - ddof, 0) if isinstance(count, Tensor) else constant(max(count - ddof, 0.0), spread)
    out = agrad.sum(spread, **_shaped(spread, axis, keepdims)) / cast(rest, spread.dtype)
    return cast(out, dtype) if real else out


@implements("std")
def _std(a: Tensor, **settings: Any) -> Any:
    return CALLS["length"](_var(a, **settings))


@implements("count_nonzero")
def _count_nonzero(a: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
    return agrad.count_nonzero(a, **_shaped(a, axis, keepdims))


def _place(name: str) -> None:
    function, without_numbers = getattr(agrad, name), getattr(np, f"nan{name}")

    def handler(a: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
        return function(cast(a, np.int8) if a.dtype == agrad.bool else a, axis=axis, keepdims=bool(keepdims))

    def nan_handler(a: Tensor, axis: Any = None, keepdims: bool = False) -> Any:
        return constant(without_numbers(values_of(a), axis=axis, keepdims=bool(keepdims)), a)

    implements(name)(handler)
    implements(f"nan{name}")(nan_handler)


_place("argmax")
_place("argmin")


# ------------------------------------------------------------------ ignoring nan


def _is_number(x: Tensor, where: Any) -> Tensor:
    """Return True for elements that are not NaN and for which ``where`` is true."""
    is_number = agrad.logical_not(agrad.isnan(x))
    return is_number if where is True else is_number & cast(tensor(where, x), bool)


@implements("nanmean")
def _nanmean(a: Floating, where: Any = True, **settings: Any) -> Any:
    return _mean(a, where=_is_number(a, where), **settings)


@implements("nanvar")
def _nanvar(
    a: Floating,
    axis: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = True,
    correction: Any = None,
    **settings: Any,
) -> Any:
    mask = _is_number(a, where)
    ddof = ddof if correction is None else correction
    out = _var(a, axis, ddof=ddof, keepdims=keepdims, where=mask, **settings)
    # NumPy's result is nan if there are no more numbers than degrees of freedom
    return masked(out, _count(a, axis, keepdims, mask) > float(ddof), math.nan)


@implements("nanstd")
def _nanstd(a: Floating, **settings: Any) -> Any:
    return CALLS["length"](_nanvar(a, **settings))


def _nan_extreme(name: str, ufunc: np.ufunc, fill: float) -> None:
    def handler(a: Tensor, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
        out = reduce(ufunc, _without_nan(a, fill), axis, None, keepdims, initial, where)
        if not is_inexact(a) or initial is not None or not may_hold(lambda x: x == fill, out):
            return out
        return masked(out, agrad.any(_is_number(a, True), **_shaped(a, axis, keepdims)), math.nan)

    implements(name)(handler)


_nan_extreme("nanmax", np.maximum, -math.inf)
_nan_extreme("nanmin", np.minimum, math.inf)


@implements("average")
def _average(
    a: Floating, axis: Any = None, weights: Tensor | None = None, returned: bool = False, keepdims: bool = False
) -> Any:
    shaped = _shaped(a, axis, keepdims)
    if weights is None:
        out = agrad.mean(a, **shaped)
        total = constant(np.float64(_count(a, axis, keepdims, True)), a)
    else:
        w = inexact(_weights_along(a, axis, weights))
        total = agrad.sum(agrad.broadcast_to(w, a.shape), **shaped)
        if is_concrete(total) and not np.all(values_of(total)):
            raise ZeroDivisionError("numpy.average: the sum of weights must not be zero")
        out = agrad.sum(a * w, **shaped) / total
    return (out, agrad.broadcast_to(cast(total, out.dtype), out.shape)) if returned else out


def _weights_along(x: Tensor, axis: Any, weights: Tensor) -> Tensor:
    """Reshape weights of the axes ``axis``, in that order, to broadcast.

    Weights in the shape of the array are returned as they are.
    """
    if weights.shape == x.shape:
        return weights
    if axis is None or weights.shape != tuple(x.shape[i] for i in np.atleast_1d(axis)):
        raise ValueError(f"numpy.average: weights must match axes of the shape {x.shape}, got {weights.shape}")
    places = [axis_of(i, x.ndim) for i in np.atleast_1d(axis)]
    weights = agrad.permute_dims(weights, tuple(int(i) for i in np.argsort(places)))
    return agrad.reshape(weights, tuple(x.shape[i] if i in places else 1 for i in range(x.ndim)))
