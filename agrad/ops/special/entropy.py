"""Logistic functions, products with logarithms, and entropies.

The reductions have the signatures of SciPy.
"""

import math
from typing import Any

from agrad.engine.notation import PrimitiveFunction
from agrad.errors import DtypeError
from agrad.ops.composites import log_softmax_p, softmax_p
from agrad.ops.composites import logsumexp as _logsumexp
from agrad.ops.definition import elementwise
from agrad.ops.elementwise import abs as abs_
from agrad.ops.elementwise import exp, log, sign
from agrad.ops.manipulation import permute_dims, reshape
from agrad.ops.selection import where
from agrad.ops.shared import Axes, axes_of
from agrad.ops.special import entropy_forms as forms
from agrad.ops.special.shared import floating, function
from agrad.ops.statistical import max as max_
from agrad.ops.statistical import sum as sum_
from agrad.registry import public
from agrad.shapes import inverse_permutation, size

__all__ = [
    "entr", "expit", "kl_div", "log_expit", "log_softmax", "logit", "logsumexp", "rel_entr", "softmax", "xlog1py",
    "xlogy",
]  # fmt: skip


def _log_rule(xp: Any, g: Any, x: Any) -> Any:
    # infinite at 0, except for a tangent that is 0: along it only the other argument changes
    still = (g == 0) & (x == 0)
    return xp.where(still, xp.zeros_like(g), g / xp.where(still, xp.ones_like(x), x))


edge_log = elementwise(
    "special.edge_log",
    _log_rule,
    forward=lambda xp, x, /: xp.log(x),
    doc="Return the logarithm of each element, for the derivative of a function that is finite at 0.",
    public=False,
)


def _or_zero(xp: Any, drop: Any, value: Any) -> Any:
    return xp.where(drop, xp.zeros_like(value), value)


# Masks act only at points without a derivative: wider ones would remove mixed derivatives.


def _by_factor(xp: Any, g: Any, x1: Any, x2: Any, log: Any, low: float) -> Any:
    # at x1 = 0, x2 <= low the function is 0 by convention, and so is its derivative
    drop = (x1 == 0) & (x2 <= low)
    return g * _or_zero(xp, drop, log(xp.where(drop, xp.full_like(x2, low + 1), x2)))


def _by_argument(xp: Any, g: Any, x1: Any, x2: Any, low: float) -> Any:
    drop = (x1 == 0) & (x2 <= low)
    return g * _or_zero(xp, drop, x1 / xp.where(drop, xp.ones_like(x2), x2 - low))


def _domain(xp: Any, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Return masks for valid arguments and for two zeros, and both arguments.

    Invalid arguments are replaced by ones.
    """
    inside = (x >= 0) & (y > 0)
    ones = xp.ones_like(x), xp.ones_like(y)
    return inside, xp.where(inside, x, ones[0]), xp.where(inside, y, ones[1]), (x == 0) & (y == 0)


def _entropy_by_x(xp: Any, g: Any, x: Any, y: Any, constant: float) -> Any:
    # at x = 0 the derivative is infinite; for an infinite value it is NaN, at x = y = 0 it is 0
    inside, x1, y1, origin = _domain(xp, x, y)
    log = forms.log_ratio(xp, x1, y1, edge_log) + constant
    return g * xp.where(inside, log, xp.where(origin, xp.zeros_like(log), x * y * math.nan))


def _entropy_by_y(xp: Any, g: Any, x: Any, y: Any, constant: float) -> Any:
    inside, x1, y1, origin = _domain(xp, x, y)
    slope = constant - x1 / y1
    return g * xp.where(inside, slope, xp.where(origin, xp.full_like(slope, constant), x * y * math.nan))


# ------------------------------------------------------------------ the functions

# y (1 - y) would lose the upper tail
expit = function(forms.expit, lambda g, x, y: g * y * expit(-x))
log_expit = function(forms.log_expit, lambda g, x: g * expit(-x))
logit = function(forms.logit, lambda g, x: g / x + g / (1 - x))
xlogy = function(
    forms.xlogy,
    lambda xp, g, x1, x2: _by_factor(xp, g, x1, x2, xp.log, 0.0),
    lambda xp, g, x1, x2: _by_argument(xp, g, x1, x2, 0.0),
)
xlog1py = function(
    forms.xlog1py,
    lambda xp, g, x1, x2: _by_factor(xp, g, x1, x2, xp.log1p, -1.0),
    lambda xp, g, x1, x2: _by_argument(xp, g, x1, x2, -1.0),
)
entr = function(forms.entr, lambda xp, g, x: -(g * (xp.log(x) + 1)))
rel_entr = function(
    forms.rel_entr,
    lambda xp, g, x1, x2: _entropy_by_x(xp, g, x1, x2, 1.0),
    lambda xp, g, x1, x2: _entropy_by_y(xp, g, x1, x2, 0.0),
)
kl_div = function(
    forms.kl_div,
    lambda xp, g, x1, x2: _entropy_by_x(xp, g, x1, x2, 0.0),
    lambda xp, g, x1, x2: _entropy_by_y(xp, g, x1, x2, 1.0),
)


# ------------------------------------------------------------------ reductions, as SciPy calls them


@public("special")
def logsumexp(a: Any, axis: Axes = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Return log(sum(b exp(a))) over axes, without overflow.

    Differentiable in both.

    Parameters
    ----------
    a : array
        Array of any shape with a real floating-point dtype; without ``b`` and ``return_sign`` also complex.
    axis : int or tuple of ints, optional
        Axes to reduce. By default, all.
    b : array, optional
        Weights that broadcast with ``a``. By default, 1. A zero weight excludes its element, whatever its value.
    keepdims : bool
        If True, keep the reduced axes with length one.
    return_sign : bool
        If True, return the logarithm of the absolute value of the sum, and its sign.

    Returns
    -------
    array, or tuple of arrays
        The logarithm. Without ``return_sign``, NaN if the sum is negative, as in SciPy. With it, also the sign.

    Examples
    --------
    >>> agrad.special.logsumexp(np.asarray([1000.0, 1000.0])).round(4)
    np.float64(1000.6931)
    >>> agrad.grad(lambda w: agrad.special.logsumexp(np.asarray([0.0, 0.0]), b=w))(np.asarray([1.0, 3.0])).round(4)
    array([0.25, 0.25])
    """
    if b is None and not return_sign:
        return _logsumexp(a, axis=axis, keepdims=keepdims)
    a, b = floating("logsumexp", a, 1.0 if b is None else b)
    axes = axes_of(axis, a if len(a.shape) >= len(b.shape) else b)
    lowest = where(b == 0, -math.inf, a)
    # without elements there is no maximum
    top = (max_ if size(lowest.shape) else sum_)(lowest, axis=axes, keepdims=True)
    top = where((top < math.inf) & (top > -math.inf), top, 0.0)
    total = sum_(exp(where(b == 0, 0.0, a - top)) * b, axis=axes, keepdims=True)
    outs = [log(abs_(total) if return_sign else total) + top, *([sign(total)] if return_sign else [])]
    if not keepdims:
        outs = [sum_(out, axis=axes) for out in outs]  # each of the axes has length 1
    return tuple(outs) if return_sign else outs[0]


def _over_axes(operation: PrimitiveFunction, name: str, x: Any, axis: Axes) -> Any:
    if not hasattr(x, "shape"):
        raise DtypeError(f"{name}: x must have a real floating-point dtype. Convert it with agrad.asarray.")
    (x,) = floating(name, x)
    axes, ndim = axes_of(axis, x), len(x.shape)
    if len(axes) == 1:
        return operation(x, axis=axes[0])
    order = (*(i for i in range(ndim) if i not in axes), *axes)
    moved = permute_dims(x, order)
    lead = tuple(moved.shape)[: ndim - len(axes)]
    y = operation(reshape(moved, (*lead, size(x.shape[i] for i in axes))), axis=len(lead))
    return permute_dims(reshape(y, tuple(moved.shape)), inverse_permutation(order))


@public("special")
def softmax(x: Any, axis: Axes = None) -> Any:
    """Return exp(x) / sum(exp(x)) over axes, without overflow.

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis : int or tuple of ints, optional
        Axes. By default, all, as in SciPy.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.special.softmax(np.asarray([0.0, 0.0, np.log(2.0)])).round(6)
    array([0.25, 0.25, 0.5 ])
    >>> agrad.grad(lambda x: agrad.special.softmax(x)[0])(np.asarray([0.0, 0.0]))
    array([ 0.25, -0.25])
    """
    return _over_axes(softmax_p, "softmax", x, axis)


@public("special")
def log_softmax(x: Any, axis: Axes = None) -> Any:
    """Return log(softmax(x)) over axes, without overflow.

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis : int or tuple of ints, optional
        Axes. By default, all, as in SciPy.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.special.log_softmax(np.asarray([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    return _over_axes(log_softmax_p, "log_softmax", x, axis)
