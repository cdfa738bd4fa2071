"""The regularized incomplete gamma and beta functions.

They have derivatives of every order with respect to the parameters.
"""

from typing import Any

from agrad.ops.special import incomplete_forms as forms
from agrad.ops.special.gamma import digamma, polygamma
from agrad.ops.special.incomplete_forms import bell, bell_pair
from agrad.ops.special.shared import function, inner

__all__ = ["betainc", "gammainc", "gammaincc"]


def _masked_log(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return log(x), with 0 for x that is not positive, and the mask of positive x."""
    inside = x > 0
    return xp.log(xp.where(inside, x, xp.ones_like(x))), inside


def _times_log(xp: Any, g: Any, y: Any, x: Any, constant: Any) -> Any:
    # where x is 0 the density is 0 or constant in the parameter, and log(0) is left out
    log, inside = _masked_log(xp, x)
    zero = xp.zeros_like(g * y)
    return xp.where(inside, g * y * (log + constant), zero)


def _over(xp: Any, above: Any, below: Any) -> Any:
    """Return above / below, but 0 where ``above`` is 0."""
    nothing = above == 0
    return xp.where(nothing, xp.zeros_like(above + below), above / xp.where(nothing, xp.ones_like(below), below))


gamma_density = inner(
    forms.gamma_density,
    lambda xp, g, a, x, y: _times_log(xp, g, y, x, -digamma(a)),
    lambda xp, g, a, x, y: g * y * (_over(xp, a - 1, x) - 1),
)


log_digamma_gap = inner(forms.log_digamma_gap, lambda g, z: g * (1 / z - polygamma(1.0, z)))


def _log_quotient(xp: Any, u: Any, exactly: Any) -> Any:
    """Return log(1 + u), which is ``exactly`` for u far from 0."""
    small = xp.abs(u) < 0.5
    return xp.where(small, xp.log1p(xp.where(small, u, xp.zeros_like(u))), exactly)


log_gamma_density = inner(
    forms.log_gamma_density,
    lambda xp, g, a, x: g * (_log_quotient(xp, (x - a) / a, xp.log(x) - xp.log(a)) + log_digamma_gap(a)),
    lambda g, a, x: g * ((a - 1 - x) / x),
)


def _gammainc_by_a_by_x(xp: Any, g: Any, a: Any, x: Any, *, n: int) -> Any:
    log_x, inside = _masked_log(xp, x)
    density = gamma_density(a, xp.where(inside, x, xp.ones_like(x)))
    slope = density * bell(n, lambda k: log_x - digamma(a) if k == 0 else -polygamma(float(k), a))
    return g * xp.where(inside, slope, xp.zeros_like(slope))


gammainc_by_a = inner(forms.gammainc_by_a, lambda g, a, x, *, n: g * gammainc_by_a(a, x, n=n + 1), _gammainc_by_a_by_x)
gammainc = function(
    forms.gammainc,
    lambda g, a, x: g * gammainc_by_a(a, x, n=1),
    lambda g, a, x: g * gamma_density(a, x),
)
gammaincc = function(
    forms.gammaincc,
    lambda g, a, x: -(g * gammainc_by_a(a, x, n=1)),
    lambda g, a, x: -(g * gamma_density(a, x)),
)


# ------------------------------------------------------------------ beta

beta_density = inner(
    forms.beta_density,
    lambda xp, g, a, b, x, y: _times_log(xp, g, y, x, digamma(a + b) - digamma(a)),
    lambda xp, g, a, b, x, y: _times_log(xp, g, y, 1 - x, digamma(a + b) - digamma(b)),
    lambda xp, g, a, b, x, y: g * y * (_over(xp, a - 1, x) - _over(xp, b - 1, 1 - x)),
)


def _log_beta_by(xp: Any, g: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return g times the derivative with respect to a; for b, exchange the arguments."""
    quotient = _log_quotient(xp, (x * b - y * a) / a, xp.log(x) + xp.log(a + b) - xp.log(a))
    return g * (quotient + (log_digamma_gap(a) - log_digamma_gap(a + b)))


log_beta_density = inner(
    forms.log_beta_density,
    lambda xp, g, a, b, x: _log_beta_by(xp, g, a, b, x, 1 - x),
    lambda xp, g, a, b, x: _log_beta_by(xp, g, b, a, 1 - x, x),
    lambda g, a, b, x: g * (((a - 1) * (1 - x) - (b - 1) * x) / (x * (1 - x))),
)


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


betainc_by_parameters = inner(
    forms.betainc_by_parameters,
    lambda g, a, b, x, *, n, m: g * betainc_by_parameters(a, b, x, n=n + 1, m=m),
    lambda g, a, b, x, *, n, m: g * betainc_by_parameters(a, b, x, n=n, m=m + 1),
    _betainc_by_parameters_by_x,
)
betainc = function(
    forms.betainc,
    lambda g, a, b, x: g * betainc_by_parameters(a, b, x, n=1, m=0),
    lambda g, a, b, x: g * betainc_by_parameters(a, b, x, n=0, m=1),
    lambda g, a, b, x: g * beta_density(a, b, x),
)
