"""The gamma function and its relatives."""

from typing import Any

from agrad.ops.definition import public_of_array
from agrad.ops.special import gamma_forms as forms
from agrad.ops.special.shared import floating, function, inner, underived

__all__ = ["beta", "betaln", "digamma", "gamma", "gammaln", "polygamma", "zeta"]

gamma = function(forms.gamma, lambda g, x, y: g * y * digamma(x))
gammaln = function(forms.gammaln, lambda g, x: g * digamma(x))
digamma = function(forms.digamma, lambda g, x: g * polygamma(1, x))
polygamma = function(forms.polygamma, underived("polygamma", "n"), lambda g, n, x: g * polygamma(n + 1, x))
polygamma_rise = inner(
    forms.polygamma_rise,
    lambda g, x, h, *, n: g * polygamma_rise(x, h, n=n + 1),
    lambda g, x, h, *, n: g * polygamma(float(n + 1), x + h),
)
beta = function(
    forms.beta,
    lambda g, a, b, y: -(g * y * polygamma_rise(a, b, n=0)),
    lambda g, a, b, y: -(g * y * polygamma_rise(b, a, n=0)),
)
betaln = function(
    forms.betaln,
    lambda g, a, b: -(g * polygamma_rise(a, b, n=0)),
    lambda g, a, b: -(g * polygamma_rise(b, a, n=0)),
)


def _zeta_slope(g: Any, x: Any, q: Any, *, n: int) -> Any:
    # d/dq is -x zeta(x + 1, q), here differentiated n times by x
    if not n:
        return -(g * x * _zeta(x + 1, q))
    return -(g * (x * zeta_derivative(x + 1, q, n=n) + n * zeta_derivative(x + 1, q, n=n - 1)))


zeta_derivative = inner(forms.zeta_derivative, lambda g, x, q, *, n: g * zeta_derivative(x, q, n=n + 1), _zeta_slope)
_zeta = inner(forms.zeta, lambda g, x, q: g * zeta_derivative(x, q, n=1), lambda g, x, q: _zeta_slope(g, x, q, n=0))


@public_of_array("special")
def zeta(x: Any, q: Any = 1.0, /) -> Any:
    """Return Hurwitz's zeta function, the sum over k >= 0 of (q + k)**-x.

    For q = 1 it is the Riemann zeta function.

    Parameters
    ----------
    x, q : array
        Arrays of a real floating dtype or numbers; they broadcast. For x > 1 and q > 0.

    Returns
    -------
    array of the broadcast shape: NaN for x < 1, infinite at x = 1 and at integers q <= 0

    Examples
    --------
    >>> agrad.special.zeta(np.asarray([2.0, 4.0]), 1.0).round(6)
    array([1.644934, 1.082323])
    >>> round(float(agrad.grad(agrad.special.zeta)(2.0, 1.0)), 6)
    -0.937548
    """
    return _zeta(*floating("zeta", x, q))
