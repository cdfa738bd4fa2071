"""Generic forms of logistic functions, products with logarithms, and entropies."""

import math
from collections.abc import Callable
from typing import Any

from agrad.ops.special.series import nan_where


def expit(xp: Any, x: Any) -> Any:
    """Return the logistic function 1 / (1 + exp(-x)).

    Examples
    --------
    >>> agrad.special.expit(np.asarray([-1.0, 0.0, 1.0])).round(6)
    array([0.268941, 0.5     , 0.731059])
    """
    # the exponential of a negative number never overflows, and keeps the relative precision of both tails
    z = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, xp.ones_like(z), z) / (1 + z)


def log_expit(xp: Any, x: Any) -> Any:
    """Return the logarithm of the logistic function.

    Examples
    --------
    >>> agrad.special.log_expit(np.asarray([-1000.0, 0.0])).round(6)
    array([-1.00000e+03, -6.93147e-01])
    """
    return xp.minimum(x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


def logit(xp: Any, x: Any) -> Any:
    """Return log(x / (1 - x)), the inverse of ``expit``.

    Examples
    --------
    >>> agrad.special.logit(np.asarray([0.25, 0.5])).round(6)
    array([-1.098612,  0.      ])
    """
    # near 1/2 the logarithm of a quotient near 1
    middle = (x > 0.3) & (x < 0.65)
    off = 2 * (xp.where(middle, x, xp.full_like(x, 0.5)) - 0.5)
    return xp.where(middle, xp.log1p(off) - xp.log1p(-off), xp.log(x) - xp.log1p(-x))


def _times_log(xp: Any, log: Callable[[Any], Any], x1: Any, x2: Any) -> Any:
    nothing = (x1 == 0) & ~xp.isnan(x2)
    return xp.where(nothing, xp.zeros_like(x1 + x2), x1 * log(xp.where(nothing, xp.ones_like(x2), x2)))


def xlogy(xp: Any, x1: Any, x2: Any) -> Any:
    """Return x1 log(x2), and 0 where x1 is 0 and x2 is not NaN.

    Examples
    --------
    >>> agrad.special.xlogy(np.asarray([0.0, 2.0]), np.asarray([0.0, 3.0])).round(6)
    array([0.      , 2.197225])
    """
    return _times_log(xp, xp.log, x1, x2)


def xlog1py(xp: Any, x1: Any, x2: Any) -> Any:
    """Return x1 log(1 + x2), and 0 where x1 is 0 and x2 is not NaN.

    Examples
    --------
    >>> agrad.special.xlog1py(np.asarray([0.0, 2.0]), np.asarray([-1.0, 1.0])).round(6)
    array([0.      , 1.386294])
    """
    return _times_log(xp, xp.log1p, x1, x2)


def entr(xp: Any, x: Any) -> Any:
    """Return the entropy -x log(x), 0 at 0 and minus infinity below.

    Examples
    --------
    >>> agrad.special.entr(np.asarray([0.0, 0.5])).round(6)
    array([0.      , 0.346574])
    """
    inside = x > 0
    value = -x * xp.log(xp.where(inside, x, xp.ones_like(x)))
    value = xp.where(x < 0, xp.full_like(x, -math.inf), xp.where(inside, value, xp.zeros_like(x)))
    return xp.where(xp.isnan(x), x, value)


def log_ratio(xp: Any, x: Any, y: Any, log: Any = None) -> Any:
    """Return log(x / y) for x >= 0, y > 0, without overflow or underflow.

    Accurate for close arguments. ``log``: the logarithm of ``x``, for arguments that are not close.
    """
    ratio = x / y
    near = (ratio > 0.5) & (ratio < 2)
    apart = (log or xp.log)(x) - xp.log(y)
    return xp.where(near, xp.log1p(xp.where(near, (x - y) / y, xp.zeros_like(ratio))), apart)


def _relative(xp: Any, x: Any, y: Any, rest: Any, at_zero: Any) -> Any:
    inside = (x > 0) & (y > 0)
    x1, y1 = xp.where(inside, x, xp.ones_like(x)), xp.where(inside, y, xp.ones_like(y))
    value = x1 * log_ratio(xp, x1, y1) + (y1 - x1 if rest else 0.0)
    outside = xp.where((x == 0) & (y >= 0), at_zero, xp.full_like(value, math.inf))
    return nan_where(xp, xp.isnan(x) | xp.isnan(y), xp.where(inside, value, outside))


def rel_entr(xp: Any, x1: Any, x2: Any) -> Any:
    """Return the relative entropy x1 log(x1 / x2) for positive arguments.

    It is 0 at x1 = 0, x2 >= 0, and otherwise infinite.

    Examples
    --------
    >>> agrad.special.rel_entr(np.asarray([0.0, 1.0, 2.0]), 1.0).round(6)
    array([0.      , 0.      , 1.386294])
    """
    return _relative(xp, x1, x2, False, xp.zeros_like(x1 + x2))


def kl_div(xp: Any, x1: Any, x2: Any) -> Any:
    """Return x1 log(x1 / x2) - x1 + x2 where both are positive.

    It is x2 at x1 = 0, x2 >= 0, and infinite elsewhere.

    Examples
    --------
    >>> agrad.special.kl_div(np.asarray([0.0, 1.0, 2.0]), 1.0).round(6)
    array([1.      , 0.      , 0.386294])
    """
    return _relative(xp, x1, x2, True, x2)
