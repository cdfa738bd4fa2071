"""Generic forms of the Bessel functions."""

import functools
import math
from fractions import Fraction
from typing import Any

from agrad.ops.special import coefficients as table
from agrad.ops.special.gamma_forms import gamma
from agrad.ops.special.series import chebyshev, nan_where, polynomial, sin_pi

# ------------------------------------------------------------------ modified, of orders 0 and 1


def _hankel_series(order: int) -> list[float]:
    """Return the coefficients of x**-j in exp(-x) I(x) sqrt(2 pi x).

    Abramowitz and Stegun 9.7.1.
    """
    found = [1.0]
    for j in range(1, 31):
        found.append(found[-1] * ((2 * j - 1) ** 2 - 4 * order**2) / (8 * j))
    return found


_TAILS = _hankel_series(0), _hankel_series(1)
_SPLIT = 30.0
_POINTS = 36


def decay_moment(xp: Any, x: Any, *, k: int) -> Any:
    """Return the mean over t of (1 - cos t)**k exp(-abs(x) (1 - cos t)).

    i0e is the mean of k = 0, and its derivatives are the others. The derivative with respect to abs(x) is minus the
    moment of k + 1. The trapezoidal rule, which converges geometrically for a periodic function; beyond 30 the
    asymptotic series, differentiated k times.
    """
    size = xp.abs(x)
    small = size <= _SPLIT
    near = xp.where(small, size, xp.zeros_like(x))
    total = xp.zeros_like(x)
    for i in range(_POINTS + 1):
        fall = 2 * math.sin(math.pi * i / (2 * _POINTS)) ** 2
        weight = (0.5 if i in (0, _POINTS) else 1.0) / _POINTS * fall**k
        if weight:
            total = total + weight * xp.exp(-fall * near)
    far = xp.where(small, xp.full_like(x, _SPLIT), size)
    inverse = 1 / far
    rising = [c * math.prod(j + 0.5 + i for i in range(k)) for j, c in enumerate(_TAILS[0])]
    series = polynomial(reversed(rising), inverse)
    return xp.where(small, total, series * inverse**k / xp.sqrt(2 * math.pi * far))


def i0e(xp: Any, x: Any) -> Any:
    """Return exp(-abs(x)) i0(x).

    Its derivative at the kink 0 is 0.

    Examples
    --------
    >>> agrad.special.i0e(np.asarray([0.0, 1.0])).round(6)
    array([1.     , 0.46576])
    >>> round(float(agrad.grad(agrad.special.i0e)(1.0)), 6)
    -0.257849
    """
    return decay_moment(xp, x, k=0)


def i1e(xp: Any, x: Any) -> Any:
    """Return exp(-abs(x)) i1(x).

    Examples
    --------
    >>> agrad.special.i1e(np.asarray([0.0, 1.0])).round(6)
    array([0.     , 0.20791])
    """
    size = xp.abs(x)
    small = size <= _SPLIT
    near = xp.where(small, x, xp.zeros_like(x))
    total = xp.zeros_like(x)
    # (2 / pi) times the integral of cos t sinh(x cos t) over a quarter of the period: every term of one sign
    for i in range(_POINTS):
        c = math.cos(math.pi * (i + 0.5) / (2 * _POINTS))
        total = total + (c / _POINTS) * xp.sinh(c * near)
    far = xp.where(small, xp.full_like(x, _SPLIT), size)
    inverse = 1 / far
    series = xp.sign(x) * polynomial(reversed(_TAILS[1]), inverse) / xp.sqrt(2 * math.pi * far)
    return xp.where(small, total * xp.exp(-xp.abs(near)), series)


def _unscaled(xp: Any, scaled: Any, x: Any) -> Any:
    half = xp.exp(0.5 * xp.abs(x))
    return scaled * half * half


def i0(xp: Any, x: Any) -> Any:
    """Return the modified Bessel function of order 0.

    Examples
    --------
    >>> agrad.special.i0(np.asarray([0.0, 1.0])).round(6)
    array([1.      , 1.266066])
    """
    return xp.where(xp.isinf(x), xp.abs(x), _unscaled(xp, i0e(xp, x), x))


def i1(xp: Any, x: Any) -> Any:
    """Return the modified Bessel function of order 1.

    Examples
    --------
    >>> agrad.special.i1(np.asarray([0.0, 1.0])).round(6)
    array([0.      , 0.565159])
    """
    return xp.where(xp.isinf(x), x, _unscaled(xp, i1e(xp, x), x))


# ------------------------------------------------------------------ modified, of any order


_UNIFORM_FROM = 30.0
_DEBYE_TERMS = 20


@functools.cache
def _debye_polynomials() -> list[list[float]]:
    """Return u_k(t) / t**k of the uniform expansions, as polynomials of t**2.

    The highest power is first. Abramowitz and Stegun 9.3.10: u_(k+1) = t**2 (1 - t**2) u_k' / 2 + the integral of (1 -
    5 t**2) u_k / 8 from 0.
    """
    known = [[Fraction(1)]]  # the lowest power first
    for k in range(_DEBYE_TERMS):
        out = [Fraction(0)] * (k + 2)
        for i, c in enumerate(known[-1]):
            power = k + 2 * i
            out[i] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            out[i + 1] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        known.append(out)
    return [[float(c) for c in reversed(w)] for w in known]


def _uniform(xp: Any, v: Any, x: Any) -> tuple[Any, Any]:
    """Return I and K of order v >= 0 at x > 0, for v**2 + x**2 >= 900.

    Abramowitz and Stegun 9.7.7 and 9.7.8.
    """
    low, high = xp.minimum(v, x), xp.maximum(v, x)
    radius = high * xp.sqrt(1 + (low / high) ** 2)
    inverse, square = 1 / radius, (v / radius) ** 2
    even, odd, power = xp.ones_like(x), xp.zeros_like(x), xp.ones_like(x)
    for k, w in enumerate(_debye_polynomials()[1:], start=1):
        power = power * inverse
        term = polynomial(w, square) * power
        even, odd = (even, odd + term) if k % 2 else (even + term, odd)
    exponent = radius - v * xp.asinh(v / x)
    half = xp.exp(0.5 * exponent)
    first = (even + odd) * half / xp.sqrt(2 * math.pi * radius) * half
    second = (even - odd) * xp.sqrt(0.5 * math.pi / radius) * xp.exp(-exponent)
    return first, second


def iv(xp: Any, v: Any, x: Any) -> Any:
    """Return the modified Bessel function of real order v.

    It has no derivative with respect to v. x >= 0 unless v is an integer. It is computed by the power series for v**2 +
    x**2 < 900, otherwise by the uniform expansion. A negative noninteger order uses the series up to x = 30, then I[-v]
    = I[v] + 2 / pi sin(v pi) K[v].

    Examples
    --------
    >>> agrad.special.iv(0.5, np.asarray([0.0, 1.0])).round(6)
    array([0.      , 0.937675])
    >>> round(float(agrad.grad(agrad.special.iv, argnums=1)(0.5, 1.0)), 6)
    0.762363
    """
    v, x = v + xp.zeros_like(x), x + xp.zeros_like(v)
    whole = v == xp.floor(v)
    v = xp.where(whole, xp.abs(v), v)
    size = xp.abs(x)
    finite = xp.isfinite(v) & xp.isfinite(x)
    uniform = finite & xp.where(v < 0, size > _SPLIT, (v * v + x * x >= _UNIFORM_FROM**2) & (size > 0))
    # the power series, whose terms are positive from k > -v on
    series = finite & ~uniform
    place = xp.where(series, size, xp.ones_like(x))
    order = xp.where(series, v, xp.ones_like(v))
    quarter = place * place / 4
    lead = (place / 2) ** order / gamma(xp, order + 1)
    term, total = xp.ones_like(x), xp.ones_like(x)
    for k in range(1, 80):
        term = term * quarter / (k * (order + k))
        total = total + term
    near = lead * total
    first, second = _uniform(
        xp,
        xp.where(uniform, xp.abs(v), xp.full_like(v, _UNIFORM_FROM)),
        xp.where(uniform, size, xp.ones_like(x)),
    )
    first = first + xp.where(v < 0, 2 / math.pi * sin_pi(xp, xp.where(uniform, -v, xp.zeros_like(v))) * second, 0.0)
    out = xp.where(uniform, first, near)
    out = xp.where(xp.isinf(x), size, out)
    odd = whole & (v / 2 != xp.floor(v / 2))
    out = xp.where((x < 0) & odd, -out, out)
    return nan_where(xp, ((x < 0) & ~whole) | xp.isnan(x) | ~xp.isfinite(v), out)


# ------------------------------------------------------------------ of the first and second kind

_NEAR = 8.0


def _hankel(xp: Any, order: int, x: Any) -> tuple[Any, Any]:
    """Return J and Y of order 0 or 1 at x >= 8: Abramowitz and Stegun 9.2.5."""
    inverse = 1 / x
    u = (_NEAR * inverse) ** 2
    p = chebyshev(table.P1 if order else table.P0, 0.0, 1.0, u)
    q = chebyshev(table.Q1 if order else table.Q0, 0.0, 1.0, u) * inverse
    # cos(x - pi / 4) and sin(x - pi / 4) of order 0, a quarter turn on for order 1, without rounding x - pi / 4
    s, c = xp.sin(x), xp.cos(x)
    first, second = (s + c, s - c) if order == 0 else (s - c, -(s + c))
    scale = xp.sqrt(inverse / math.pi)
    return scale * (p * first - q * second), scale * (p * second + q * first)


def _outer(xp: Any, x: Any) -> Any:
    """Return abs(x) if the expansions for large x are accurate, otherwise 8."""
    size = xp.abs(x)
    return xp.where((size > _NEAR) & (size < math.inf), size, xp.full_like(x, _NEAR))


def _first_kind(xp: Any, x: Any, near: Any, far: Any) -> Any:
    out = xp.where(xp.abs(x) <= _NEAR, near, far)
    return nan_where(xp, xp.isnan(x), xp.where(xp.isinf(x), xp.zeros_like(x), out))


def j0(xp: Any, x: Any) -> Any:
    """Return the Bessel function of the first kind, order 0.

    Examples
    --------
    >>> agrad.special.j0(np.asarray([0.0, 1.0])).round(6)
    array([1.      , 0.765198])
    """
    inner = xp.clip(x, -_NEAR, _NEAR)
    near = chebyshev(table.J0, 0.0, 64.0, inner * inner)
    return _first_kind(xp, x, near, _hankel(xp, 0, _outer(xp, x))[0])


def j1(xp: Any, x: Any) -> Any:
    """Return the Bessel function of the first kind, order 1.

    Examples
    --------
    >>> agrad.special.j1(np.asarray([0.0, 1.0])).round(6)
    array([0.      , 0.440051])
    """
    inner = xp.clip(x, -_NEAR, _NEAR)
    near = inner * chebyshev(table.J1, 0.0, 64.0, inner * inner)
    return _first_kind(xp, x, near, xp.sign(x) * _hankel(xp, 1, _outer(xp, x))[0])


def _second_kind(xp: Any, x: Any, near: Any, far: Any) -> Any:
    out = xp.where(x <= _NEAR, near, far)
    out = xp.where(xp.isinf(x), xp.zeros_like(x), xp.where(x == 0, xp.full_like(x, -math.inf), out))
    return nan_where(xp, xp.isnan(x) | (x < 0), out)


def _inner(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return x if the expansions for small x are accurate, otherwise 1, and its square."""
    inner = xp.where((x > 0) & (x <= _NEAR), x, xp.ones_like(x))
    return inner, inner * inner


def y0(xp: Any, x: Any) -> Any:
    """Return the Bessel function of the second kind, order 0.

    Examples
    --------
    >>> agrad.special.y0(np.asarray([1.0, 10.0])).round(6)
    array([0.088257, 0.055671])
    """
    inner, square = _inner(xp, x)
    log_part = xp.log(inner) * chebyshev(table.J0, 0.0, 64.0, square)
    near = chebyshev(table.Y0, 0.0, 64.0, square) + 2 / math.pi * log_part
    return _second_kind(xp, x, near, _hankel(xp, 0, _outer(xp, x))[1])


def y1(xp: Any, x: Any) -> Any:
    """Return the Bessel function of the second kind, order 1.

    Examples
    --------
    >>> agrad.special.y1(np.asarray([1.0, 10.0])).round(6)
    array([-0.781213,  0.249015])
    """
    inner, square = _inner(xp, x)
    log_part = xp.log(inner) * inner * chebyshev(table.J1, 0.0, 64.0, square)
    near = inner * chebyshev(table.Y1, 0.0, 64.0, square) + 2 / math.pi * (log_part - 1 / inner)
    return _second_kind(xp, x, near, _hankel(xp, 1, _outer(xp, x))[1])


def jn(xp: Any, x: Any, *, n: int) -> Any:
    """Return the Bessel function of the first kind and of order n.

    Upward from j0 and j1 where abs(x) > n, downward from far above it elsewhere; Abramowitz and Stegun 9.12.
    """
    if n < 0:
        out = jn(xp, x, n=-n)
        return -out if n % 2 else out
    if n < 2:
        return j1(xp, x) if n else j0(xp, x)
    size = xp.abs(x)
    up = size > n
    high = xp.where(up, size, xp.full_like(x, float(n)))
    high = xp.where(xp.isinf(high), xp.full_like(x, float(n)), high)
    before, now = j0(xp, high), j1(xp, high)
    for k in range(1, n):
        before, now = now, 2 * k / high * now - before
    # Miller's algorithm: any start far above, scaled in the end by 1 = j0 + 2 (j2 + j4 + ...)
    low = xp.where(up, xp.ones_like(x), size)
    tiny = low < 1e-6
    low = xp.where(tiny, xp.ones_like(x), low)
    first = n + 20 + int(8 * n ** (1 / 3)) + int(math.sqrt(40 * n))
    first += first % 2
    after, here = xp.zeros_like(x), xp.full_like(x, 1e-300)
    total, picked = xp.zeros_like(x), xp.zeros_like(x)
    for k in range(first, 0, -1):
        # here is used for the order k
        if k == n:
            picked = here
        if k % 2 == 0:
            total = total + 2 * here
        after, here = here, 2 * k / low * here - after
        big = xp.abs(here) > 1e200
        shrink = xp.where(big, 1e-200, xp.ones_like(x))
        after, here, total, picked = after * shrink, here * shrink, total * shrink, picked * shrink
    miller = picked / (total + here)
    small = xp.where(tiny, size, xp.zeros_like(x))
    lead = (small / 2) ** n / float(math.factorial(n)) if n <= 170 else xp.zeros_like(x)
    out = xp.where(up, now, xp.where(tiny, lead, miller))
    out = xp.where(xp.isinf(x), xp.zeros_like(x), out)
    out = xp.where((x < 0) & (n % 2 == 1), -out, out)
    return nan_where(xp, xp.isnan(x), out)
