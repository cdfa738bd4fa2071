"""Logistic functions, products with logarithms, and entropies.

The reductions have SciPy's signatures.
"""

import math
from typing import Any

from agrad.errors import DtypeError
from agrad.ops.composites import logsumexp as _logsumexp
from agrad.ops.definition import elementwise
from agrad.ops.elementwise import exp, log, where
from agrad.ops.shared import axes_of
from agrad.ops.special.shared import floating, function
from agrad.ops.statistical import max as max_
from agrad.ops.statistical import sum as sum_
from agrad.registry import public

# ------------------------------------------------------------------ generic forms


def _expit_form(xp: Any, x: Any) -> Any:
    z = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, xp.ones_like(z), z) / (1 + z)


def _log_expit_form(xp: Any, x: Any) -> Any:
    return xp.minimum(x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


def _logit_form(xp: Any, x: Any) -> Any:
    # near 1/2 the logarithm of a quotient near 1
    middle = (x > 0.3) & (x < 0.65)
    near = xp.where(middle, x, xp.full_like(x, 0.5))
    off = 2 * (near - 0.5)
    out = xp.where(middle, xp.log1p(off) - xp.log1p(-off), xp.log(x) - xp.log1p(-x))
    return out


def _xlogy_form(xp: Any, x: Any, y: Any) -> Any:
    nothing = (x == 0) & ~xp.isnan(y)
    return xp.where(nothing, xp.zeros_like(x + y), x * xp.log(xp.where(nothing, xp.ones_like(y), y)))


def _xlog1py_form(xp: Any, x: Any, y: Any) -> Any:
    nothing = (x == 0) & ~xp.isnan(y)
    return xp.where(nothing, xp.zeros_like(x + y), x * xp.log1p(xp.where(nothing, xp.ones_like(y), y)))


def _entr_form(xp: Any, x: Any) -> Any:
    inside = x > 0
    value = -x * xp.log(xp.where(inside, x, xp.ones_like(x)))
    value = xp.where(x < 0, xp.full_like(x, -math.inf), xp.where(inside, value, xp.zeros_like(x)))
    return xp.where(xp.isnan(x), x, value)


def _log_rule(xp: Any, g: Any, x: Any) -> Any:
    # infinite at 0, but for a tangent that is 0: along it only the other argument moves
    still = (g == 0) & (x == 0)
    return xp.where(still, xp.zeros_like(g), g / xp.where(still, xp.ones_like(x), x))


edge_log = elementwise(
    "special.edge_log",
    _log_rule,
    forward=lambda xp, x, /: xp.log(x),
    doc="The logarithm of each element, in the slope of a function that is finite at 0.",
    public=False,
)


def _log_ratio(xp: Any, x: Any, y: Any, log: Any = None) -> Any:
    """Return log(x / y) for x >= 0, y > 0, without overflow or underflow.

    Accurate where they are close.
    """
    ratio = x / y
    near = (ratio > 0.5) & (ratio < 2)
    apart = (log or xp.log)(x) - xp.log(y)
    return xp.where(near, xp.log1p(xp.where(near, (x - y) / y, xp.zeros_like(ratio))), apart)


def _relative(xp: Any, x: Any, y: Any, rest: Any, at_zero: Any) -> Any:
    inside = (x > 0) & (y > 0)
    x1, y1 = xp.where(inside, x, xp.ones_like(x)), xp.where(inside, y, xp.ones_like(y))
    value = x1 * _log_ratio(xp, x1, y1) + (y1 - x1 if rest else 0.0)
    outside = xp.where((x == 0) & (y >= 0), at_zero, xp.full_like(value, math.inf))
    out = xp.where(inside, value, outside)
    return xp.where(xp.isnan(x) | xp.isnan(y), xp.full_like(out, math.nan), out)


def _rel_entr_form(xp: Any, x: Any, y: Any) -> Any:
    return _relative(xp, x, y, False, xp.zeros_like(x + y))


def _kl_div_form(xp: Any, x: Any, y: Any) -> Any:
    return _relative(xp, x, y, True, y)


# ------------------------------------------------------------------ rules


def _or_zero(xp: Any, drop: Any, value: Any) -> Any:
    return xp.where(drop, xp.zeros_like(value), value)


# Masks act only where the function has no derivative: one that is wider would take the mixed derivatives with it.


def _xlogy_by_x(xp: Any, g: Any, x1: Any, x2: Any) -> Any:
    # at x1 = 0, x2 <= 0 the function is 0 by convention, and so is its derivative
    drop = (x1 == 0) & (x2 <= 0)
    return g * _or_zero(xp, drop, xp.log(xp.where(drop, xp.ones_like(x2), x2)))


def _xlogy_by_y(xp: Any, g: Any, x1: Any, x2: Any) -> Any:
    drop = (x1 == 0) & (x2 <= 0)
    return g * _or_zero(xp, drop, x1 / xp.where(drop, xp.ones_like(x2), x2))


def _xlog1py_by_x(xp: Any, g: Any, x1: Any, x2: Any) -> Any:
    drop = (x1 == 0) & (x2 <= -1)
    return g * _or_zero(xp, drop, xp.log1p(xp.where(drop, xp.zeros_like(x2), x2)))


def _xlog1py_by_y(xp: Any, g: Any, x1: Any, x2: Any) -> Any:
    drop = (x1 == 0) & (x2 <= -1)
    return g * _or_zero(xp, drop, x1 / xp.where(drop, xp.ones_like(x2), 1 + x2))


def _domain(xp: Any, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Return where the function is a number, both arguments, and where both are 0.

    Arguments outside are replaced by ones.
    """
    inside = (x >= 0) & (y > 0)
    ones = xp.ones_like(x), xp.ones_like(y)
    return inside, xp.where(inside, x, ones[0]), xp.where(inside, y, ones[1]), (x == 0) & (y == 0)


def _entropy_by_x(xp: Any, g: Any, x: Any, y: Any, constant: float) -> Any:
    # at x = 0 the slope is infinite; where the value is infinite the derivative is NaN, at x = y = 0 it is 0
    inside, x1, y1, origin = _domain(xp, x, y)
    log = _log_ratio(xp, x1, y1, edge_log) + constant
    return g * xp.where(inside, log, xp.where(origin, xp.zeros_like(log), x * y * math.nan))


def _entropy_by_y(xp: Any, g: Any, x: Any, y: Any, constant: float) -> Any:
    inside, x1, y1, origin = _domain(xp, x, y)
    slope = constant - x1 / y1
    return g * xp.where(inside, slope, xp.where(origin, xp.full_like(slope, constant), x * y * math.nan))


# ------------------------------------------------------------------ the functions

expit = function(
    "expit",
    "x",
    _expit_form,
    # y (1 - y) would lose the upper tail
    lambda g, x, y: g * y * expit(-x),
    doc="The logistic function 1 / (1 + exp(-x)).",
)
log_expit = function(
    "log_expit", "x", _log_expit_form, lambda g, x: g * expit(-x), doc="The logarithm of the logistic function."
)
logit = function(
    "logit", "x", _logit_form, lambda g, x: g / x + g / (1 - x), doc="log(x / (1 - x)), the inverse of expit."
)
xlogy = function(
    "xlogy", "x1 x2", _xlogy_form, _xlogy_by_x, _xlogy_by_y, doc="x1 log(x2), and 0 where x1 is 0 and x2 is not NaN."
)
xlog1py = function(
    "xlog1py",
    "x1 x2",
    _xlog1py_form,
    _xlog1py_by_x,
    _xlog1py_by_y,
    doc="x1 log(1 + x2), and 0 where x1 is 0 and x2 is not NaN.",
)
entr = function(
    "entr",
    "x",
    _entr_form,
    lambda xp, g, x: -(g * (xp.log(x) + 1)),
    doc="-x log(x), 0 at 0, minus infinity below.",
)
rel_entr = function(
    "rel_entr",
    "x1 x2",
    _rel_entr_form,
    lambda xp, g, x1, x2: _entropy_by_x(xp, g, x1, x2, 1.0),
    lambda xp, g, x1, x2: _entropy_by_y(xp, g, x1, x2, 0.0),
    doc="x1 log(x1 / x2) where both are positive; 0 at x1 = 0, x2 >= 0; elsewhere infinite.",
)
kl_div = function(
    "kl_div",
    "x1 x2",
    _kl_div_form,
    lambda xp, g, x1, x2: _entropy_by_x(xp, g, x1, x2, 0.0),
    lambda xp, g, x1, x2: _entropy_by_y(xp, g, x1, x2, 1.0),
    doc="x1 log(x1 / x2) - x1 + x2 where both are positive; x2 at x1 = 0, x2 >= 0; elsewhere infinite.",
)


# ------------------------------------------------------------------ reductions, as SciPy calls them


@public("special")
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> Any:
    """Return log(sum(b exp(a))) over ``axis``, without overflow.

    ``axis``: an int, a tuple, or None for all. a: array of a real floating dtype. b: weights that broadcast with it, by
    default 1; a zero leaves its element out, whatever it is. Where the sum is negative the result is NaN, as in SciPy.
    Differentiable in both.
    """
    if b is None:
        return _logsumexp(a, axis=axis, keepdims=keepdims)
    a, b = floating("logsumexp", a, b)
    axes = axes_of(axis, a if len(a.shape) >= len(b.shape) else b)
    lowest = where(b == 0, -math.inf, a)
    top = max_(lowest, axis=axes, keepdims=True)
    top = where((top < math.inf) & (top > -math.inf), top, 0.0)
    scaled = exp(where(b == 0, 0.0, a - top)) * b
    out = log(sum_(scaled, axis=axes, keepdims=True)) + top
    return out if keepdims else _dropped(out, axes)


def _dropped(x: Any, axes: tuple[int, ...]) -> Any:
    return sum_(x, axis=axes)  # each of the axes has length 1


@public("special")
def softmax(x: Any, axis: Any = None) -> Any:
    """Return exp(x) / sum(exp(x)) over ``axis``, without overflow.

    ``axis``: an int, a tuple, or, as in SciPy, None for all.
    """
    return exp(log_softmax(x, axis))


@public("special")
def log_softmax(x: Any, axis: Any = None) -> Any:
    """Return log(softmax(x, axis)), without overflow."""
    if not hasattr(x, "shape"):
        raise DtypeError("log_softmax takes an array of a real floating dtype; make one with agrad.asarray")
    return x - _logsumexp(x, axis=axis, keepdims=True)
