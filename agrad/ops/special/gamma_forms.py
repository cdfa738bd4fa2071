"""Generic forms of the gamma function and its relatives."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from agrad.ops.special.coefficients import DIGAMMA, DIGAMMA_ROOT, GAMMALN
from agrad.ops.special.nodes import bernoulli
from agrad.ops.special.series import HALF_LOG_TWO_PI, chebyshev, nan_where, polynomial, sin_pi

# coefficients of 1 / x**(2 k - 1), from the highest power down: Abramowitz and Stegun 6.1.40 and 6.3.18
_STIRLING = tuple(float(bernoulli(2 * k) / (2 * k * (2 * k - 1))) for k in range(10, 0, -1))
DIGAMMA_TAIL = tuple(float(bernoulli(2 * k) / (2 * k)) for k in range(10, 0, -1))


def _stirling_tail(x: Any) -> Any:
    """Return log(gamma(x)) less Stirling's formula, for x >= 10."""
    inverse = 1 / x
    return inverse * polynomial(_STIRLING, inverse * inverse)


def _reduced(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return log(gamma(z)), over and under with gamma(x) = gamma(z) over / under.

    For 0 < x < 10, with 1.5 <= z <= 2.5.
    """
    z, over, under = x, xp.ones_like(x), xp.ones_like(x)
    for _ in range(8):
        more = z > 2.5
        z = xp.where(more, z - 1, z)
        over = xp.where(more, over * z, over)
    less = z < 0.5
    under = xp.where(less, z, under)
    z = xp.where(less, z + 1, z)
    less = z < 1.5
    under = xp.where(less, under * z, under)
    # the zeros at 1 and 2, before the shift rounds z
    zeros = xp.where(less, z * (z - 1), (z - 1) * (z - 2))
    z = xp.where(less, z + 1, z)
    return zeros * chebyshev(GAMMALN, 1.5, 2.5, z), over, under


def by_library(xp: Any, name: str, form: Callable[[Any, Any], Any], x: Any) -> Any:
    """Return a function of one argument, for NumPy arrays by SciPy, in one call."""
    words = getattr(xp, "special", None) if isinstance(x, np.ndarray) else None
    own = None if words is None else words.find(name)
    return form(xp, x) if own is None else own(x)


def _log_near(xp: Any, x: Any) -> Any:
    log, over, under = _reduced(xp, x)
    return log + xp.log(over) - xp.log(under)


def _gammaln_positive(xp: Any, x: Any) -> Any:
    large = x >= 10
    near = _log_near(xp, xp.where(large | (x <= 0), xp.ones_like(x), x))
    far = xp.where(large, x, xp.full_like(x, 10.0))
    # (x - 1/2) log(x) - x as a product: their difference would be inf - inf at the far end
    stirling = (far - 0.5) * (xp.log(far) - 1) + (HALF_LOG_TWO_PI - 0.5) + _stirling_tail(far)
    return xp.where(large, stirling, near)


def gammaln(xp: Any, x: Any) -> Any:
    """Return the logarithm of the absolute value of the gamma function.

    Examples
    --------
    >>> agrad.special.gammaln(np.asarray([5.0, 200.0])).round(6)
    array([  3.178054, 857.93367 ])
    """
    left = x < 0.5
    positive = _gammaln_positive(xp, xp.where(left, 1 - x, x))
    small = (x > 0) & left
    direct = _gammaln_positive(xp, xp.where(small, x, xp.ones_like(x)))
    sine = xp.abs(sin_pi(xp, xp.where(left & xp.isfinite(x), x, xp.full_like(x, 0.5))))
    whole = sine == 0
    reflected = math.log(math.pi) - xp.log(xp.where(whole, xp.ones_like(x), sine)) - positive
    pole = whole | xp.isinf(x)
    out = xp.where(left, xp.where(small, direct, reflected), positive)
    out = xp.where(pole, xp.full_like(x, math.inf), out)
    return xp.where(xp.isnan(x), x, out)


def stirling_rest(xp: Any, x: Any) -> Any:
    """Return log(gamma(x)) - ((x - 1/2) log(x) - x + log(2 pi) / 2) for x > 0.

    It is small for large x, and accurate there.
    """
    large = x >= 10
    far = xp.where(large, x, xp.full_like(x, 10.0))
    near = xp.where(large, xp.ones_like(x), x)
    rest = by_library(xp, "gammaln", _log_near, near) - ((near - 0.5) * xp.log(near) - near + HALF_LOG_TWO_PI)
    return xp.where(large, _stirling_tail(far), rest)


def _gamma_positive(xp: Any, x: Any) -> Any:
    large = x >= 10
    log, over, under = _reduced(xp, xp.where(large, xp.ones_like(x), x))
    near = xp.exp(log) * over / under
    far = xp.where(large, xp.clip(x, 10.0, 180.0), xp.full_like(x, 10.0))
    half = far ** (far / 2 - 0.25)
    stirling = math.sqrt(2 * math.pi) * half * (half * xp.exp(-far)) * xp.exp(_stirling_tail(far))
    return xp.where(large, xp.where(x > 171.7, xp.full_like(x, math.inf), stirling), near)


def gamma(xp: Any, x: Any) -> Any:
    """Return the gamma function.

    Examples
    --------
    >>> agrad.special.gamma(np.asarray([0.5, 5.0])).round(6)
    array([ 1.772454, 24.      ])
    """
    left = x <= -0.5
    inner = (x > -0.5) & (x < 0.5)
    positive = _gamma_positive(xp, xp.where(left, 1 - x, xp.where(inner, x + 1, x)))
    sine = sin_pi(xp, xp.where(left & xp.isfinite(x), x, xp.full_like(x, 0.5)))
    reflected = math.pi / (xp.where(sine == 0, xp.ones_like(x), sine) * positive)
    reflected = nan_where(xp, (sine == 0) | xp.isinf(x), reflected)
    inside = positive / xp.where(x == 0, xp.ones_like(x), x)
    # at 0 the sign of the zero determines the side of the pole
    inside = xp.where(x == 0, xp.where(xp.signbit(x), -math.inf, xp.full_like(x, math.inf)), inside)
    out = xp.where(left, reflected, xp.where(inner, inside, positive))
    return xp.where(xp.isnan(x), x, out)


def _digamma_positive(xp: Any, x: Any) -> Any:
    large = x >= 10
    z = xp.where(large, xp.ones_like(x), x)
    shift = xp.zeros_like(x)
    for _ in range(8):
        more = z > 2
        z = xp.where(more, z - 1, z)
        shift = xp.where(more, shift + 1 / z, shift)
    less = z < 1
    shift = xp.where(less, shift - 1 / z, shift)
    z = xp.where(less, z + 1, z)
    near = ((z - DIGAMMA_ROOT[0]) - DIGAMMA_ROOT[1]) * chebyshev(DIGAMMA, 1.0, 2.0, z) + shift
    far = xp.where(large, x, xp.full_like(x, 10.0))
    square = 1 / (far * far)
    return xp.where(large, xp.log(far) - 0.5 / far - square * polynomial(DIGAMMA_TAIL, square), near)


def digamma(xp: Any, x: Any) -> Any:
    """Return the derivative of ``gammaln``, gamma' / gamma.

    Examples
    --------
    >>> agrad.special.digamma(np.asarray([1.0, 2.0])).round(6)
    array([-0.577216,  0.422784])
    """
    left = x <= 0
    positive = _digamma_positive(xp, xp.where(left, 1 - x, x))
    rest = xp.where(left & xp.isfinite(x), x - xp.round(x), xp.full_like(x, 0.25))
    whole = rest == 0
    reflected = positive - math.pi / xp.tan(math.pi * xp.where(whole, xp.full_like(x, 0.25), rest))
    reflected = nan_where(xp, (whole & (x != 0)) | xp.isinf(x), reflected)
    at_zero = xp.where(xp.signbit(x), math.inf, xp.full_like(x, -math.inf))
    out = xp.where(x == 0, at_zero, xp.where(left, reflected, positive))
    return xp.where(xp.isnan(x), x, out)


def polygamma_rise(xp: Any, x: Any, h: Any, *, n: int) -> Any:
    """Return polygamma(n, x + h) - polygamma(n, x) without cancellation.

    For x and x + h > 0. Differences of the terms of the series (6.4.10), and of the Euler-Maclaurin formula for its
    rest: each is a power u**-m, and (u + h)**-m - u**-m = u**-m expm1(-m log1p(h / u)).
    """
    inside = (x > 0) & (x + h > 0)
    u, step = xp.where(inside, x, xp.ones_like(x + h)), xp.where(inside, h, xp.ones_like(x + h))
    m = n + 1
    total = xp.zeros_like(u)
    for _ in range(_HEAD):
        total = total + u**-m * xp.expm1(-m * xp.log1p(step / u))
        u = u + 1
    log = xp.log1p(step / u)
    inverse = 1 / u
    total = total + 0.5 * inverse**m * xp.expm1(-m * log)
    total = total + (-log if n == 0 else inverse**n * xp.expm1(-n * log) / n)
    for order, weight in _TAIL:
        rising = math.prod(m + i for i in range(order - 1))
        power = m + order - 1
        total = total + weight * rising * inverse**power * xp.expm1(-power * log)
    total = (-1) ** m * math.factorial(n) * total
    order = xp.full_like(u, float(n))
    return xp.where(inside, total, polygamma(xp, order, x + h) - polygamma(xp, order, x))


_HEAD = 12
"""The number of terms of zeta's sum before the Euler-Maclaurin formula."""
_TAIL = tuple((2 * j, float(bernoulli(2 * j) / math.factorial(2 * j))) for j in range(1, 13))


def zeta_derivative(xp: Any, x: Any, q: Any, *, n: int) -> Any:
    """Return the n-th derivative with respect to x of sum((q + k)**-x, k >= 0).

    For x > 1 and q > 0. Johansson, "Rigorous high-precision computation of the Hurwitz zeta function and its
    derivatives" (2015): the Euler-Maclaurin formula, term by term in Taylor polynomials of x.
    """
    inside = (x > 1) & (q > 0)
    x1 = xp.where(inside, x, xp.full_like(x, 2.0))
    q1 = xp.where(inside, q, xp.ones_like(q))
    total = xp.zeros_like(x1 + q1)
    for k in range(_HEAD):
        base = q1 + k
        term = base**-x1
        total = total + (term if n == 0 else term * (-xp.log(base)) ** n)
    c = q1 + _HEAD
    log_c = xp.log(c)
    # Taylor coefficients in x: of 1 / (x - 1), of the rising factorial, and of c**(1 - x) last, as c**-x underflows
    pole = [(-1) ** i / (x1 - 1) ** (i + 1) for i in range(n + 1)]
    jet = list(pole)
    jet[0] = jet[0] + 0.5 / c
    rising = [x1, *([xp.ones_like(x1)] if n else []), *[xp.zeros_like(x1)] * (n - 1)]
    power = 1 / c / c
    for order, weight in _TAIL:
        jet = [a + weight * power * r for a, r in zip(jet, rising, strict=True)]
        power = power / c / c
        for i in (order - 1, order):
            times = x1 + i
            rising = [rising[0] * times, *[r * times + lower for lower, r in pairwise(rising)]]
    scale = c ** (1 - x1)
    for i in range(n + 1):
        part = math.factorial(n) / math.factorial(n - i)
        rest = scale * part * jet[i] * ((-log_c) ** (n - i) if n > i else 1.0)
        # of a large x the power underflows and the factorial overflows
        total = total + xp.where(scale == 0, xp.zeros_like(rest), rest)
    # beyond the domain as in SciPy: the pole at 1, the poles at whole q <= 0, NaN at x < 1
    edge = (x == 1) | ((q <= 0) & (q == xp.floor(q)) & (x > 1))
    infinite = math.inf if n % 2 == 0 else -math.inf
    total = xp.where(edge, xp.full_like(total, infinite), nan_where(xp, ~inside, total))
    return nan_where(xp, xp.isnan(x) | xp.isnan(q), total)


def zeta(xp: Any, x: Any, q: Any) -> Any:
    """Return Hurwitz's zeta function."""
    return zeta_derivative(xp, x, q, n=0)


def polygamma(xp: Any, n: Any, x: Any) -> Any:
    """Return the n-th derivative of ``digamma``.

    ``n``: nonnegative integers, constants.

    Examples
    --------
    >>> agrad.special.polygamma(1, np.asarray([1.0, 2.0])).round(6)
    array([1.644934, 0.644934])
    """
    x, n = x + xp.zeros_like(n), n + xp.zeros_like(x)
    valid = (n >= 0) & (n == xp.floor(n))
    order = xp.where(valid & (n > 0), n, xp.ones_like(n))
    left = x < 0
    place = xp.where(left, 1 - x, x)
    sign = xp.where(order / 2 == xp.floor(order / 2), -xp.ones_like(order), 1.0)  # (-1)**(n + 1)
    scale, terms = sign * gamma(xp, order + 1), zeta(xp, order + 1, place)
    # the sum over all integers k of (x + k)**-(n + 1), minus the terms of k < 0, which are the terms of 1 - x
    rest = xp.where(left & xp.isfinite(x), x - xp.floor(x), xp.full_like(x, 0.25))
    whole = rest == 0
    rest = xp.where(whole, xp.full_like(x, 0.25), rest)
    both = zeta(xp, order + 1, rest) + sign * (zeta(xp, order + 1, 1 - rest) - terms)
    reflected = xp.where(whole, xp.full_like(x, math.inf), scale * both)
    high = xp.where(left, reflected, scale * terms)
    out = xp.where(n == 0, digamma(xp, x), high)
    return nan_where(xp, ~valid | xp.isnan(x), out)


def _betaln_positive(xp: Any, a: Any, b: Any) -> Any:
    low, high = xp.minimum(a, b), xp.maximum(a, b)
    rest = stirling_rest(xp, low) + stirling_rest(xp, high) - stirling_rest(xp, low + high)
    ratio = low / high
    # 0.5 log(2 pi / low) + low log(low / (low + high)) + (high - 1/2) log(high / (low + high))
    return (
        rest + HALF_LOG_TWO_PI - 0.5 * xp.log(low) + low * xp.log(ratio / (1 + ratio)) - (high - 0.5) * xp.log1p(ratio)
    )


def _gamma_sign(xp: Any, x: Any) -> Any:
    half = xp.floor(x) / 2
    return xp.where((x < 0) & (half != xp.floor(half)), -xp.ones_like(x), 1.0)


def betaln(xp: Any, a: Any, b: Any) -> Any:
    """Return the logarithm of the absolute value of the beta function.

    Examples
    --------
    >>> agrad.special.betaln(np.asarray([1.0, 200.0]), 300.0).round(6)
    array([  -5.703782, -337.980113])
    """
    a, b = a + xp.zeros_like(b), b + xp.zeros_like(a)
    both = (a > 0) & (b > 0)
    a1, b1 = xp.where(both, a, xp.ones_like(a)), xp.where(both, b, xp.ones_like(b))
    other = gammaln(xp, a) + gammaln(xp, b) - gammaln(xp, a + b)
    return xp.where(both, _betaln_positive(xp, a1, b1), other)


def beta(xp: Any, a: Any, b: Any) -> Any:
    """Return the beta function gamma(a) gamma(b) / gamma(a + b).

    Examples
    --------
    >>> agrad.special.beta(np.asarray([1.0, 2.0]), 3.0).round(6)
    array([0.333333, 0.083333])
    """
    a, b = a + xp.zeros_like(b), b + xp.zeros_like(a)
    sign = _gamma_sign(xp, a) * _gamma_sign(xp, b) * _gamma_sign(xp, a + b)
    # the product keeps more digits than the exponential of a large logarithm
    small = (xp.abs(a) < 80) & (xp.abs(b) < 80)
    a1, b1 = xp.where(small, a, xp.ones_like(a)), xp.where(small, b, xp.ones_like(b))
    product = gamma(xp, a1) / gamma(xp, a1 + b1) * gamma(xp, b1)
    return xp.where(small, product, sign * xp.exp(betaln(xp, a, b)))
