"""Generic forms of the error function and of the normal distribution."""

import math
from typing import Any

from agrad.ops.special.series import exp_minus_square, nan_where, polynomial

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969): numerators and
# denominators, the highest power first, for |x| <= 0.46875, up to 4, and beyond
_P1 = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
    3.20937758913846947e3,
)  # fmt: skip
_Q1 = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_P2 = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
    2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
    1.23033935479799725e3,
)  # fmt: skip
_Q2 = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_P3 = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
    1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_Q3 = (
    1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
    2.33520497626869185e-3,
)  # fmt: skip

_CUT = 0.46875


def _ratio(p: tuple[float, ...], q: tuple[float, ...], x: Any) -> Any:
    return polynomial(p, x) / polynomial(q, x)


def bell(xp: Any, x: Any, /, *, n: int, half: bool) -> Any:
    """Return the n-th derivative of exp(-x**2), or with ``half`` of exp(-x**2 / 2).

    It is a Hermite polynomial times the function.
    """
    value = exp_minus_square(xp, x, half=half)
    if not n:
        return value
    scale, x = (1, xp.clip(x, -56.0, 56.0)) if half else (2, xp.clip(x, -40.0, 40.0))
    before, factor = xp.ones_like(x), -scale * x
    for k in range(1, n):
        before, factor = factor, -scale * (x * factor + k * before)
    return factor * value


def _near(xp: Any, x: Any) -> Any:
    small = xp.where(xp.abs(x) < _CUT, x, xp.zeros_like(x))
    return small * _ratio(_P1, _Q1, small * small)


def _scaled_tail(xp: Any, size: Any) -> Any:
    """Return exp(x**2) erfc(x) for x >= 0.46875."""
    middle = _ratio(_P2, _Q2, xp.clip(size, _CUT, 4.0))
    large = xp.where(size > 4.0, size, xp.full_like(size, 4.0))
    inverse = 1 / large
    square = inverse * inverse
    far = (1 / math.sqrt(math.pi) - square * _ratio(_P3, _Q3, square)) * inverse
    return xp.where(size <= 4.0, middle, far)


def erf(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    # compared with 1, the rounding of the square is negligible
    near = xp.clip(size, 0.0, 6.0)
    far = 1 - xp.exp(-near * near) * _scaled_tail(xp, near)
    out = xp.where(size < _CUT, _near(xp, x), xp.sign(x) * far)
    return xp.where(xp.isnan(x), x, out)


def erfc(xp: Any, x: Any) -> Any:
    """Return the complementary error function 1 - erf(x).

    Accurate if the result is small.

    Examples
    --------
    >>> agrad.special.erfc(np.asarray([0.0, 1.0])).round(6)
    array([1.      , 0.157299])
    """
    size = xp.abs(x)
    tail = exp_minus_square(xp, x) * _scaled_tail(xp, size)
    out = xp.where(size < _CUT, 1 - _near(xp, x), xp.where(x > 0, tail, 2 - tail))
    return xp.where(xp.isnan(x), x, out)


def erfcx_right(xp: Any, x: Any) -> Any:
    """Return ``erfcx`` for x > -0.46875; below that, its value at -x."""
    size = xp.abs(x)
    small = size < _CUT
    near = xp.exp(xp.where(small, x * x, xp.zeros_like(x))) * (1 - _near(xp, x))
    return xp.where(small, near, _scaled_tail(xp, size))


def erfcx(xp: Any, x: Any) -> Any:
    """Return the scaled complementary error function exp(x**2) erfc(x).

    Examples
    --------
    >>> agrad.special.erfcx(np.asarray([0.0, 100.0])).round(6)
    array([1.      , 0.005642])
    """
    right = erfcx_right(xp, x)
    growth = 1 / exp_minus_square(xp, xp.clip(x, -27.0, 0.0))
    growth = xp.where(x < -26.7, xp.full_like(x, math.inf), growth)
    out = xp.where(x > -_CUT, right, 2 * growth - right)
    return xp.where(xp.isnan(x), x, out)


def scaled_ierfc(xp: Any, x: Any, *, n: int) -> Any:
    """Return exp(x**2) times the n-fold integral of erfc from x to infinity, n >= 1.

    For x < 2 upward by 2 n e[n] = e[n - 2] - 2 x e[n - 1], which only adds for negative x; otherwise by the ratios
    e[n] / e[n - 1] from far above downward, as for any minimal solution. Abramowitz and Stegun 7.2.5.
    """
    low = xp.where(x < 2.0, x, xp.full_like(x, 2.0))
    before, up = xp.full_like(x, 2 / math.sqrt(math.pi)), erfcx(xp, low)
    for k in range(1, n + 1):
        before, up = up, (before - 2 * low * up) / (2 * k)
    high = xp.where(x < 2.0, xp.full_like(x, 2.0), x)
    ratio, down = 1 / (high + xp.sqrt(high * high + 2 * (n + 60))), erfcx(xp, high)
    for k in range(n + 60, 0, -1):
        ratio = 0.5 / (high + (k + 1) * ratio)
        if k <= n:
            down = down * ratio
    return xp.where(xp.isnan(x), x, xp.where(x < 2.0, up, down))


def _tail_inverse(xp: Any, p: Any) -> Any:
    """Return y >= 0 with erfc(y) = p, for 0 < p <= 0.5."""
    # S. Winitzki's approximation of the inverse, good to 0.4 %, then Newton's steps on log(erfc), which is nearly
    # a parabola; each with the correction for its curvature
    a = 0.147
    middle = xp.log(p) + xp.log1p(1 - p)
    half = 2 / (math.pi * a) + middle / 2
    y = xp.sqrt(xp.sqrt(half * half - middle / a) - half)
    log_p = xp.log(p)
    for _ in range(3):
        scaled = erfcx(xp, y)
        slope = 2 / math.sqrt(math.pi) / scaled
        off = (xp.log(scaled) - y * y - log_p) / slope
        y = y + off / (1 + off * (slope / 2 - y))
    return y


def _centre_inverse(xp: Any, x: Any) -> Any:
    """Return y with erf(y) = x, for |x| <= 0.5."""
    y = x * (math.sqrt(math.pi) / 2) * (1 + x * x * (math.pi / 12) + x**4 * (7 * math.pi**2 / 480))
    for _ in range(3):
        off = (erf(xp, y) - x) * (math.sqrt(math.pi) / 2) * xp.exp(y * y)
        y = y - off / (1 + y * off)
    return y


def _inverse(xp: Any, from_middle: Any, tail: Any) -> Any:
    """Return the positive solution, by the values of erf and of erfc."""
    centre = _centre_inverse(xp, xp.clip(from_middle, -0.5, 0.5))
    p = xp.where((tail > 0) & (tail < 0.5), tail, xp.full_like(tail, 0.5))
    out = xp.where(tail < 0.5, _tail_inverse(xp, p), centre)
    return xp.where(tail == 0, xp.full_like(tail, math.inf), out)


def erfinv(xp: Any, x: Any) -> Any:
    """Return the inverse of ``erf``, for x from -1 to 1.

    Examples
    --------
    >>> agrad.special.erfinv(np.asarray([0.0, 0.5])).round(6)
    array([0.      , 0.476936])
    """
    size = xp.abs(x)
    out = xp.where(x < 0, xp.full_like(x, -1.0), 1.0) * _inverse(xp, size, 1 - size)
    return nan_where(xp, xp.isnan(x) | (size > 1), out)


def erfcinv(xp: Any, x: Any) -> Any:
    """Return the inverse of ``erfc``, for x from 0 to 2.

    Examples
    --------
    >>> agrad.special.erfcinv(np.asarray([1.5, 0.5])).round(6)
    array([-0.476936,  0.476936])
    """
    upper = x > 1
    out = _inverse(xp, xp.abs(1 - x), xp.where(upper, 2 - x, x))
    return nan_where(xp, xp.isnan(x) | (x < 0) | (x > 2), xp.where(upper, -out, out))


def _normal_tail(xp: Any, size: Any) -> Any:
    """Return the mass beyond ``size`` >= 0.

    The rounding of size / sqrt(2) matters little in erfcx, and much in exp(-x**2).
    """
    return 0.5 * exp_minus_square(xp, size, half=True) * erfcx(xp, size * math.sqrt(0.5))


def ndtr(xp: Any, x: Any) -> Any:
    """Return the distribution function of the standard normal distribution.

    Examples
    --------
    >>> agrad.special.ndtr(np.asarray([-1.0, 0.0, 1.0])).round(6)
    array([0.158655, 0.5     , 0.841345])
    """
    tail = _normal_tail(xp, xp.abs(x))
    return xp.where(x < 0, tail, 1 - tail)


def log_ndtr(xp: Any, x: Any) -> Any:
    """Return the logarithm of the standard normal distribution function.

    Examples
    --------
    >>> agrad.special.log_ndtr(np.asarray([-40.0, 0.0])).round(6)
    array([-8.04608442e+02, -6.93147000e-01])
    """
    low = xp.where(x < -1.0, x, xp.full_like(x, -1.0))
    tail = xp.log(0.5 * erfcx(xp, low * -math.sqrt(0.5))) - 0.5 * low * low
    upper = xp.log1p(-_normal_tail(xp, xp.where(x > 0, x, xp.zeros_like(x))))
    near = xp.log(_normal_tail(xp, xp.where((x < 0) & (x > -1.0), -x, xp.zeros_like(x))))
    return xp.where(xp.isnan(x), x, xp.where(x < -1.0, tail, xp.where(x < 0, near, upper)))


def ndtri(xp: Any, x: Any) -> Any:
    """Return the quantile of the standard normal distribution.

    It is the inverse of ``ndtr``, for x from 0 to 1.

    Examples
    --------
    >>> agrad.special.ndtri(np.asarray([0.025, 0.975])).round(6)
    array([-1.959964,  1.959964])
    """
    return -math.sqrt(2) * erfcinv(xp, 2 * x)


def sinc_derivative(xp: Any, x: Any, *, n: int) -> Any:
    """Return the n-th derivative of sin(pi x) / (pi x).

    With S[n] the n-th derivative of sin(z) / z: z S[n] + n S[n - 1] = sin(z + n pi / 2) upward for larger z, which is
    stable there; the Taylor series for smaller.
    """
    z = math.pi * x
    reach = n + 2.0
    small = xp.abs(z) < reach
    # the sum over k >= n / 2 of (-1)**k (2 k)! / ((2 k - n)! (2 k + 1)!) z**(2 k - n)
    first = (n + 1) // 2
    coefficients = []
    for k in range(first, first + 22 + 2 * n):
        coefficients.append((-1) ** k / ((2 * k + 1) * math.factorial(2 * k - n)))
    near = xp.where(small, z, xp.zeros_like(z))
    series = polynomial(reversed(coefficients), near * near)
    series = series * near if n % 2 else series
    far = xp.where(small, xp.full_like(z, reach), z)
    # of the far arguments the sine and cosine of pi x, without rounding pi x
    rest = math.pi * xp.where(xp.isfinite(x), x - 2 * xp.round(x / 2), xp.zeros_like(x))
    waves = tuple(xp.where(small, wave(far), wave(rest)) for wave in (xp.sin, xp.cos))
    up = waves[0] / far
    for k in range(1, n + 1):
        wave = waves[k % 2] if k % 4 < 2 else -waves[k % 2]
        up = (wave - k * up) / far
    out = math.pi**n * xp.where(small, series, up)
    zero = xp.zeros_like(x)
    return xp.where(xp.isinf(x), zero, out)


def sinc(xp: Any, x: Any) -> Any:
    """Return sin(pi x) / (pi x), and 1 at 0.

    Examples
    --------
    >>> agrad.special.sinc(np.asarray([0.0, 0.5, 1.5])).round(6)
    array([ 1.      ,  0.63662 , -0.212207])
    """
    zero = x == 0
    rest = math.pi * xp.where(xp.isfinite(x), x - 2 * xp.round(x / 2), xp.zeros_like(x))
    return xp.where(zero, xp.ones_like(x), xp.sin(rest) / (math.pi * xp.where(zero, xp.ones_like(x), x)))
