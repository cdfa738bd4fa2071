"""Generic forms of exponential integrals and of Lambert's function."""

import math
from typing import Any

from agrad.ops.special.series import nan_where, polynomial

_EULER = 0.57721566490153286
_FRACTION = 60
"""Number of terms of the continued fraction of E1, which is accurate to all digits for x >= 2."""
_SERIES = tuple(1 / (k * math.factorial(k)) for k in range(130, 0, -1))
_ALTERNATING = tuple((-1) ** (k - 1) / (k * math.factorial(k)) for k in range(27, 0, -1))
_ASYMPTOTIC = tuple(float(math.factorial(k)) for k in range(38, -1, -1))
_FAR = 40.0
"""From here on, the asymptotic series of Ei, whose smallest term is about exp(-x), is accurate to all digits."""


def exp1(xp: Any, x: Any) -> Any:
    """Return the exponential integral E1.

    The integral of exp(-t) / t from x on.

    Abramowitz and Stegun 5.1.11 and 5.1.22.

    Examples
    --------
    >>> agrad.special.exp1(np.asarray([0.5, 2.0])).round(6)
    array([0.559774, 0.048901])
    """
    near = x <= 2
    small = xp.where(near & (x > 0), x, xp.ones_like(x))
    series = small * polynomial(_ALTERNATING, small) - _EULER - xp.log(small)
    large = xp.where(near | xp.isnan(x), xp.full_like(x, 2.0), x)
    below = large + 2 * _FRACTION + 1
    for k in range(_FRACTION, 0, -1):
        below = large + (2 * k - 1) - k * k / below
    found = xp.where(near, series, xp.exp(-large) / below)
    return nan_where(xp, (x < 0) | xp.isnan(x), xp.where(x == 0, xp.full_like(x, math.inf), found))


def expi(xp: Any, x: Any) -> Any:
    """Return the exponential integral Ei.

    The principal value of the integral of exp(t) / t up to x.

    Abramowitz and Stegun 5.1.10 and 5.1.51.

    Examples
    --------
    >>> agrad.special.expi(np.asarray([-1.0, 2.0])).round(6)
    array([-0.219384,  4.954234])
    """
    left = x <= 0
    negative = -exp1(xp, xp.where(left, -x, xp.ones_like(x)))
    far = x > _FAR
    small = xp.where(left | far, xp.ones_like(x), x)
    near = _EULER + xp.log(small) + small * polynomial(_SERIES, small)
    large = xp.where(far, x, xp.full_like(x, _FAR))
    # two halves of the exponential, as it overflows earlier than the quotient
    half = xp.exp(large / 2)
    beyond = half / large * polynomial(_ASYMPTOTIC, 1 / large) * half
    beyond = xp.where(x > 800, xp.full_like(x, math.inf), beyond)
    return nan_where(xp, xp.isnan(x), xp.where(left, negative, xp.where(far, beyond, near)))


def _branch_series() -> tuple[float, ...]:
    """Return the coefficients of W by p = sqrt(2 (e x + 1)), the highest first.

    Corless and others, "On the Lambert W function" (1996), (4.23) and (4.24).
    """
    mu, alpha = [-1.0, 1.0], [2.0, -1.0]
    for k in range(2, 31):
        alpha.append(sum(mu[j] * mu[k + 1 - j] for j in range(2, k)))
        mu.append((k - 1) / (k + 1) * (mu[k - 2] / 2 + alpha[k - 2] / 4) - alpha[k] / 2 - mu[k - 1] / (k + 1))
    return tuple(reversed(mu))


BRANCH = _branch_series()
OVER_E = (0.36787944117144233, -1.2428753672788363e-17)
"""1 / e as the sum of two floats."""


def lambertw(xp: Any, x: Any, *, k: int) -> Any:
    """Return the real solution w of w exp(w) = x.

    It is the branch from -1 up for k = 0, down for k = -1.

    A series at the branch point, elsewhere Newton's method for w + log(w) = log(x): Iacono and Boyd, "New
    approximations to the principal real-valued branch of the Lambert W-function" (2017).
    """
    rise = (x + OVER_E[0]) + OVER_E[1]
    # the float nearest to -1 / e is a little above it or below it, and counts as the branch point
    inside = (rise >= 0) | (xp.abs(rise) < 1e-16)
    if k == -1:
        inside = inside & (x < 0)
    p = xp.sqrt(2 * math.e * xp.where(inside & (rise > 0), rise, xp.zeros_like(x)))
    close = inside & (p < 0.35)
    series = polynomial(BRANCH, xp.where(close, p, xp.zeros_like(x)) * (1 if k == 0 else -1))
    plain = inside & ~close & xp.isfinite(x) & (x != 0)
    at = xp.where(plain, x, xp.full_like(x, -0.1))
    if k == 0:
        log = xp.log1p(at)
        # to the right of the branch point log1p(log1p(x)) leaves its domain
        low = at < -0.2
        log = xp.where(low, xp.ones_like(log), log)
        w = log * (1 - xp.log1p(log) / (2 + log))
        w = xp.where(low, -1 + xp.where(low, p, xp.ones_like(p)) * (1 - p / 3 + 11 / 72 * p * p), w)
    else:
        u = -xp.log(-at) - 1
        u = xp.where(u > 0, u, xp.ones_like(u))
        w = -1 - xp.sqrt(2 * u) - u
    for _ in range(5):
        w = w / (1 + w) * (1 + xp.log(at / w))
    end = xp.where(x == 0, xp.zeros_like(x) if k == 0 else xp.full_like(x, -math.inf), x)
    found = xp.where(close, series, xp.where(plain, w, end))
    return nan_where(xp, xp.isnan(x) | ~(inside if k == 0 else inside | (x == 0)), found)
