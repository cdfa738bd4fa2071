"""The error function, the normal distribution, and sinc.

Derivatives: Abramowitz and Stegun, chapter 7.
"""

import math
from typing import Any

from agrad.ops.definition import elementwise
from agrad.ops.special import normal_forms as forms
from agrad.ops.special.shared import evaluate, function, inner
from agrad.registry import public

__all__ = ["erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri", "sinc"]

_SLOPE = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


bell = elementwise(
    "special.bell",
    lambda g, x, *, n, half: g * bell(x, n=n + 1, half=half),
    forward=forms.bell,
    doc="Return the n-th derivative of exp(-x**2), or with ``half`` of exp(-x**2 / 2).",
    public=False,
)


def _erf_forward(xp: Any, x: Any, /) -> Any:
    return evaluate(xp, "erf", forms.erf, (x,), wide=False)  # nothing cancels: float32 is enough for itself


erf = elementwise(
    "erf",
    lambda g, x: g * _SLOPE * bell(x, n=0, half=False),
    forward=_erf_forward,
    doc="Return the error function of each element.\n\n"
    "It is 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.",
    example="""
>>> agrad.erf(np.asarray([0.0, 1.0]))
array([0.        , 0.84270079])
""",
)
public("special")(erf)
erfc = function(forms.erfc, lambda g, x: -(g * _SLOPE * bell(x, n=0, half=False)))
scaled_ierfc = inner(forms.scaled_ierfc, lambda g, x, *, n: -2 * (n + 1) * g * scaled_ierfc(x, n=n + 1))
# 2 x erfcx(x) - 2 / sqrt(pi) in a form that does not cancel
erfcx = function(forms.erfcx, lambda g, x: -2 * g * scaled_ierfc(x, n=1))
erfinv = function(forms.erfinv, lambda xp, g, y: g * (xp.exp(y * y) / _SLOPE))
erfcinv = function(forms.erfcinv, lambda xp, g, y: -(g * (xp.exp(y * y) / _SLOPE)))
ndtr = function(forms.ndtr, lambda g, x: g * bell(x, n=0, half=True) / _ROOT_TWO_PI)


def _log_ndtr_rule(xp: Any, g: Any, x: Any) -> Any:
    # density over distribution function: below 0 their common factor exp(-x**2 / 2) is left out of both
    zero = xp.zeros_like(x)
    above, below = xp.where(x > 0, x, zero), xp.where(x > 0, zero, x)
    upper = bell(above, n=0, half=True) / (_ROOT_TWO_PI * ndtr(above))
    # far out it is -x: the square of 1 / erfcx would overflow
    far = below < -1e9
    lower = math.sqrt(2 / math.pi) / erfcx(xp.where(far, zero, below) * -math.sqrt(0.5))
    return g * xp.where(x > 0, upper, xp.where(far, -below, lower))


log_ndtr = function(forms.log_ndtr, _log_ndtr_rule)
ndtri = function(forms.ndtri, lambda xp, g, y: g * (_ROOT_TWO_PI * xp.exp(0.5 * y * y)))
sinc_derivative = inner(forms.sinc_derivative, lambda g, x, *, n: g * sinc_derivative(x, n=n + 1))
sinc = function(forms.sinc, lambda g, x: g * sinc_derivative(x, n=1), native=False)
