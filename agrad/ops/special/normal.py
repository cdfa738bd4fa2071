"""The error function, the normal distribution, and sinc.

Derivatives: Abramowitz and Stegun, chapter 7.
"""

import math
from typing import Any

from agrad.ops.definition import elementwise
from agrad.ops.special import normal_forms as forms
from agrad.ops.special.shared import evaluate, function
from agrad.registry import public

_SLOPE = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


def bell(x: Any, n: int, half: bool) -> Any:
    """Return the n-th derivative of exp(-x**2), or with ``half`` of exp(-x**2 / 2)."""
    return _bell(x, n=n, half=half)


_bell = elementwise(
    "special.bell",
    lambda g, x, *, n, half: g * bell(x, n + 1, half),
    forward=forms.bell,
    doc="The n-th derivative of exp(-x**2), or with ``half`` of exp(-x**2 / 2), of each element.",
    public=False,
)


def _erf_forward(xp: Any, x: Any, /) -> Any:
    return evaluate(xp, "erf", forms.erf, (x,), wide=False)  # nothing cancels: float32 is enough for itself


erf = elementwise(
    "erf",
    lambda g, x: g * _SLOPE * bell(x, 0, False),
    forward=_erf_forward,
    doc="The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to each element.",
)
public("special")(erf)
erfc = function(
    "erfc",
    "x",
    forms.erfc,
    lambda g, x: -(g * _SLOPE * bell(x, 0, False)),
    doc="The complementary error function 1 - erf(x), accurate where it is small.",
)


def scaled_ierfc(x: Any, n: int) -> Any:
    """Return exp(x**2) times the n-fold integral of erfc.

    The derivative of the integral of n is -2 (n + 1) times that of n + 1.
    """
    return _scaled_ierfc(x, n=n)


_scaled_ierfc = function(
    "scaled_ierfc",
    "x",
    forms.scaled_ierfc,
    lambda g, x, *, n: -2 * (n + 1) * g * scaled_ierfc(x, n + 1),
    doc="exp(x**2) times the n-fold integral of erfc from each element to infinity.",
    settings=("n",),
    native=False,
    public=False,
)
erfcx = function(
    "erfcx",
    "x",
    forms.erfcx,
    # 2 x erfcx(x) - 2 / sqrt(pi) in a form that does not cancel
    lambda g, x: -2 * g * scaled_ierfc(x, 1),
    doc="The scaled complementary error function exp(x**2) erfc(x).",
)
erfinv = function(
    "erfinv",
    "x",
    forms.erfinv,
    lambda xp, g, y: g * (xp.exp(y * y) / _SLOPE),
    doc="The inverse of erf, for x from -1 to 1.",
)
erfcinv = function(
    "erfcinv",
    "x",
    forms.erfcinv,
    lambda xp, g, y: -(g * (xp.exp(y * y) / _SLOPE)),
    doc="The inverse of erfc, for x from 0 to 2.",
)
ndtr = function(
    "ndtr",
    "x",
    forms.ndtr,
    lambda g, x: g * bell(x, 0, True) / _ROOT_TWO_PI,
    doc="The distribution function of the standard normal distribution.",
)


def _log_ndtr_rule(xp: Any, g: Any, x: Any) -> Any:
    # density over distribution function: below 0 their common factor exp(-x**2 / 2) is left out of both
    zero = xp.zeros_like(x)
    above, below = xp.where(x > 0, x, zero), xp.where(x > 0, zero, x)
    upper = bell(above, 0, True) / (_ROOT_TWO_PI * ndtr(above))
    lower = math.sqrt(2 / math.pi) / erfcx(below * -math.sqrt(0.5))
    return g * xp.where(x > 0, upper, lower)


log_ndtr = function(
    "log_ndtr",
    "x",
    forms.log_ndtr,
    _log_ndtr_rule,
    doc="The logarithm of the distribution function of the standard normal distribution.",
)
ndtri = function(
    "ndtri",
    "x",
    forms.ndtri,
    lambda xp, g, y: g * (_ROOT_TWO_PI * xp.exp(0.5 * y * y)),
    doc="The quantile of the standard normal distribution, the inverse of ndtr, for x from 0 to 1.",
)


def sinc_derivative(x: Any, n: int) -> Any:
    """Return the n-th derivative of sinc."""
    return _sinc_derivative(x, n=n)


_sinc_derivative = function(
    "sinc_derivative",
    "x",
    forms.sinc_derivative,
    lambda g, x, *, n: g * sinc_derivative(x, n + 1),
    doc="The n-th derivative of sinc.",
    settings=("n",),
    native=False,
    public=False,
)


def _sinc_form(xp: Any, x: Any) -> Any:
    return forms.sinc_derivative(xp, x, n=0)


sinc = function(
    "sinc",
    "x",
    _sinc_form,
    lambda g, x: g * sinc_derivative(x, 1),
    doc="sin(pi x) / (pi x), and 1 at 0.",
    native=False,
)
