"""The regularized incomplete gamma and beta functions.

They have derivatives by the parameters in every order.
"""

from collections.abc import Callable
from typing import Any

from agrad.ops.special import incomplete_forms as forms
from agrad.ops.special.gamma import digamma, polygamma
from agrad.ops.special.incomplete_forms import bell, bell_pair
from agrad.ops.special.shared import function


def _masked_log(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return log(x), with 0 where x is not positive, and where it is positive."""
    inside = x > 0
    return xp.log(xp.where(inside, x, xp.ones_like(x))), inside


def _times_log(xp: Any, g: Any, y: Any, x: Any, constant: Any) -> Any:
    # the density is 0 or constant in the parameter where x is 0, whatever log(0) says
    log, inside = _masked_log(xp, x)
    zero = xp.zeros_like(g * y)
    return xp.where(inside, g * y * (log + constant), zero)


def _over(xp: Any, above: Any, below: Any) -> Any:
    """Return above / below, but 0 where ``above`` is 0."""
    nothing = above == 0
    return xp.where(nothing, xp.zeros_like(above + below), above / xp.where(nothing, xp.ones_like(below), below))


gamma_density = function(
    "gamma_density",
    "a x",
    forms.gamma_density,
    lambda xp, g, a, x, y: _times_log(xp, g, y, x, -digamma(a)),
    lambda xp, g, a, x, y: g * y * (_over(xp, a - 1, x) - 1),
    doc="x**(a - 1) exp(-x) / gamma(a), the density of the gamma distribution.",
    native=False,
    public=False,
)


def gammainc_by_a(a: Any, x: Any, n: int) -> Any:
    """Return the n-th derivative of gammainc by a."""
    return _gammainc_by_a(a, x, n=n)


def _gamma_slopes(xp: Any, a: Any, log_x: Any) -> Callable[[int], Any]:
    def slopes(k: int) -> Any:
        return log_x - digamma(a) if k == 0 else -polygamma(float(k), a)

    return slopes


def _gammainc_by_a_by_x(xp: Any, g: Any, a: Any, x: Any, *, n: int) -> Any:
    log_x, inside = _masked_log(xp, x)
    density = gamma_density(a, xp.where(inside, x, xp.ones_like(x)))
    slope = density * bell(n, _gamma_slopes(xp, a, log_x))
    return g * xp.where(inside, slope, xp.zeros_like(slope))


_gammainc_by_a = function(
    "gammainc_by_a",
    "a x",
    forms.gammainc_by_a,
    lambda g, a, x, *, n: g * gammainc_by_a(a, x, n + 1),
    _gammainc_by_a_by_x,
    doc="The n-th derivative of gammainc by a.",
    settings=("n",),
    native=False,
    public=False,
)
gammainc = function(
    "gammainc",
    "a x",
    forms.gammainc,
    lambda g, a, x: g * gammainc_by_a(a, x, 1),
    lambda g, a, x: g * gamma_density(a, x),
    doc="The regularized lower incomplete gamma function: 1/gamma(a) times the integral of t**(a - 1) exp(-t) to x.",
)
gammaincc = function(
    "gammaincc",
    "a x",
    forms.gammaincc,
    lambda g, a, x: -(g * gammainc_by_a(a, x, 1)),
    lambda g, a, x: -(g * gamma_density(a, x)),
    doc="The regularized upper incomplete gamma function 1 - gammainc(a, x), accurate where it is small.",
)


# ------------------------------------------------------------------ beta

beta_density = function(
    "beta_density",
    "a b x",
    forms.beta_density,
    lambda xp, g, a, b, x, y: _times_log(xp, g, y, x, digamma(a + b) - digamma(a)),
    lambda xp, g, a, b, x, y: _times_log(xp, g, y, 1 - x, digamma(a + b) - digamma(b)),
    lambda xp, g, a, b, x, y: g * y * (_over(xp, a - 1, x) - _over(xp, b - 1, 1 - x)),
    doc="x**(a - 1) (1 - x)**(b - 1) / beta(a, b), the density of the beta distribution.",
    native=False,
    public=False,
)


def betainc_by_parameters(a: Any, b: Any, x: Any, n: int, m: int) -> Any:
    """Return the derivative of betainc n times by a and m times by b."""
    return _betainc_by_parameters(a, b, x, n=n, m=m)


def _betainc_by_parameters_by_x(xp: Any, g: Any, a: Any, b: Any, x: Any, *, n: int, m: int) -> Any:
    inside = (x > 0) & (x < 1)
    x = xp.where(inside, x, xp.full_like(x, 0.5))
    log_x, log_y, whole = xp.log(x), xp.log1p(-x), a + b

    def slopes(i: int, j: int) -> Any:
        if i + j == 1:
            return (log_x - digamma(a) if i else log_y - digamma(b)) + digamma(whole)
        of_sum = polygamma(float(i + j - 1), whole)
        if i and j:
            return of_sum
        return of_sum - polygamma(float(i + j - 1), a if i else b)

    slope = beta_density(a, b, x) * bell_pair(n, m, slopes)
    return g * xp.where(inside, slope, xp.zeros_like(slope))


_betainc_by_parameters = function(
    "betainc_by_parameters",
    "a b x",
    forms.betainc_by_parameters,
    lambda g, a, b, x, *, n, m: g * betainc_by_parameters(a, b, x, n + 1, m),
    lambda g, a, b, x, *, n, m: g * betainc_by_parameters(a, b, x, n, m + 1),
    _betainc_by_parameters_by_x,
    doc="The derivative of betainc n times by a and m times by b.",
    settings=("n", "m"),
    native=False,
    public=False,
)
betainc = function(
    "betainc",
    "a b x",
    forms.betainc,
    lambda g, a, b, x: g * betainc_by_parameters(a, b, x, 1, 0),
    lambda g, a, b, x: g * betainc_by_parameters(a, b, x, 0, 1),
    lambda g, a, b, x: g * beta_density(a, b, x),
    doc="The regularized incomplete beta function, the distribution function of the beta distribution at x.",
)
