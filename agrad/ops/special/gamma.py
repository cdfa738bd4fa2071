"""The gamma function and its relatives."""

from typing import Any

from agrad.ops.special import gamma_forms as forms
from agrad.ops.special.shared import floating, function, underived
from agrad.registry import public

gamma = function("gamma", "x", forms.gamma, lambda g, x, y: g * y * digamma(x), doc="The gamma function.")
gammaln = function(
    "gammaln",
    "x",
    forms.gammaln,
    lambda g, x: g * digamma(x),
    doc="The logarithm of the absolute value of the gamma function.",
)
digamma = function(
    "digamma", "x", forms.digamma, lambda g, x: g * polygamma(1, x), doc="The derivative of gammaln, gamma' / gamma."
)
polygamma = function(
    "polygamma",
    "n x",
    forms.polygamma,
    underived("polygamma", "n"),
    lambda g, n, x: g * polygamma(n + 1, x),
    doc="The n-th derivative of digamma; n: whole numbers from 0 on, in which there is no derivative.",
)


def polygamma_rise(x: Any, h: Any, n: int) -> Any:
    """Return polygamma(n, x + h) - polygamma(n, x), accurate where h is small."""
    return _polygamma_rise(x, h, n=n)


_polygamma_rise = function(
    "polygamma_rise",
    "x h",
    forms.polygamma_rise,
    lambda g, x, h, *, n: g * polygamma_rise(x, h, n + 1),
    lambda g, x, h, *, n: g * polygamma(float(n + 1), x + h),
    doc="polygamma(n, x + h) - polygamma(n, x), accurate where h is small beside x.",
    settings=("n",),
    native=False,
    public=False,
)
# fmt: off
beta = function(
    "beta", "a b", forms.beta,
    lambda g, a, b, y: -(g * y * polygamma_rise(a, b, 0)),
    lambda g, a, b, y: -(g * y * polygamma_rise(b, a, 0)),
    doc="The beta function gamma(a) gamma(b) / gamma(a + b).",
)
betaln = function(
    "betaln", "a b", forms.betaln,
    lambda g, a, b: -(g * polygamma_rise(a, b, 0)),
    lambda g, a, b: -(g * polygamma_rise(b, a, 0)),
    doc="The logarithm of the absolute value of the beta function.",
)
# fmt: on


def zeta_derivative(x: Any, q: Any, n: int) -> Any:
    """Return the n-th derivative of zeta by x."""
    return _zeta_derivative(x, q, n=n)


def _zeta_slope(g: Any, x: Any, q: Any, *, n: int) -> Any:
    # d/dq is -x zeta(x + 1, q), here differentiated n times by x
    return -(g * (x * zeta_derivative(x + 1, q, n) + n * zeta_derivative(x + 1, q, n - 1)))


_zeta_derivative = function(
    "zeta_derivative",
    "x q",
    forms.zeta_derivative,
    lambda g, x, q, *, n: g * zeta_derivative(x, q, n + 1),
    lambda g, x, q, *, n: _zeta_slope(g, x, q, n=n) if n else -(g * x * zeta(x + 1, q)),
    doc="The n-th derivative of zeta by x.",
    settings=("n",),
    native=False,
    public=False,
)
_zeta = function(
    "zeta",
    "x q",
    forms.zeta,
    lambda g, x, q: g * zeta_derivative(x, q, 1),
    lambda g, x, q: -(g * x * zeta(x + 1, q)),
    doc="",
    public=False,
)


@public("special")
def zeta(x: Any, q: Any = 1.0, /) -> Any:
    """Return Hurwitz's zeta function, the sum over k >= 0 of (q + k)**-x.

    It is Riemann's where q is 1. x, q: arrays or numbers that broadcast, x > 1 and q > 0; NaN for x < 1, infinite at
    x = 1 and at whole q <= 0.
    """
    return _zeta(*floating("zeta", x, q))
