"""The generic form of Gauss's hypergeometric function.

Abramowitz and Stegun, chapter 15. Sums have as many terms as parameters up to ``_LARGEST`` need. Each sum comes with an
estimate of its absolute error, by which ``hyp2f1`` chooses between formulas. The result is NaN if no formula is
accurate enough.
"""

import math
from collections.abc import Sequence
from typing import Any

from agrad.ops.special.gamma_forms import gamma
from agrad.ops.special.series import nan_where

_BLOCK = 32
"""The terms that are summed at once, on an added axis."""
_BLOCKS = 6
"""For arguments up to ``_MIDDLE``; those around 1 need two."""
_MIDDLE = 0.75
_LARGEST = 64.0
_ROUNDING = 16
"""The error of a term, in units in the last place."""


def _nonpositive(xp: Any, x: Any) -> Any:
    return (x <= 0) & (x == xp.floor(x))


def _minus(x: Any, y: Any) -> tuple[Any, Any]:
    """Return x - y and its rounding error, by Knuth's sum of two numbers."""
    total = x - y
    part = total - x
    return total, (x - (total - part)) - (y + part)


def _places(xp: Any, like: Any) -> Any:
    """Return the indices of a block's terms, on an axis after the axes of ``like``."""
    one = xp.ones_like(like)
    return xp.stack([k * one for k in range(_BLOCK)], axis=-1)


def _halves(*values: Any) -> list[tuple[Any, Any]]:
    return [(v[..., ::2], v[..., 1::2]) for v in values]


def _choose(xp: Any, condition: Any, first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(xp.where(condition, x, y) for x, y in zip(first, second, strict=True))


def _series(xp: Any, a: Any, b: Any, c: Any, z: Any, count: Any, lows: Sequence[Any]) -> tuple[Any, Any]:
    """Return the sum of the first ``count`` terms of the hypergeometric series, and an estimate of its error.

    ``lows``: what a and b lack.
    """
    total, size, product = xp.zeros_like(z), xp.zeros_like(z), xp.ones_like(z)
    ratio = product
    a1, b1, c1, z1, count1, low_a, low_b = (v[..., None] for v in (a, b, c, z, count, *lows))
    first = _places(xp, z)
    for block in range(_BLOCKS):
        n = first + block * _BLOCK
        inside = (n < count1 - 1) & (c1 + n != 0)
        below = xp.where(inside, (c1 + n) * (n + 1), xp.ones_like(n))
        p = xp.where(inside, (a1 + n + low_a) * (b1 + n + low_b) / below * z1, xp.zeros_like(n))
        ratio = xp.abs(p[..., -1])
        terms = product[..., None] * xp.cumulative_prod(p, axis=-1)
        total, size = (
            total + product + xp.sum(terms[..., :-1], axis=-1),
            size + xp.abs(product) + xp.sum(xp.abs(terms[..., :-1]), axis=-1),
        )
        product = terms[..., -1]
    # the rest is at most a geometric series
    rest = xp.where(product == 0, xp.zeros_like(z), xp.abs(product) / xp.where(ratio < 0.9, 1 - ratio, ratio * 0))
    return total, _ROUNDING * xp.finfo(z.dtype).eps * size + rest


def _around_one(xp: Any, p: Sequence[Any], m: Any, e: Any, x: Any) -> tuple[Any, ...]:
    """Return solutions v and u of the differential equation at 1 - x, the sizes of their terms, and a factor k.

    ``p``: a, b, c - b, c - a and what they lack. With s = m + e = c - a - b >= 0 and m whole u is
    x**s F(c - a, c - b; 1 + s; x), and v is F(a, b; 1 - s; x) - k / e * u if m > 0, (F(a, b; 1 - s; x) - u) / e if not.
    Both have limits for e = 0: there is a recurrence for quotients of differences by e.
    """
    one, zero = xp.ones_like(x), xp.zeros_like(x)
    step = xp.where(e == 0, -xp.log(x), -xp.expm1(e * xp.log(x)) / xp.where(e == 0, one, e))
    power = xp.exp(e * xp.log(x))
    sums, starts, head, factor, pure = [zero] * 6, (one, zero, one), (zero, zero), one, one
    a, b, a2, b2, low_a, low_b, low_a2, low_b2, m1, e1, x1 = (v[..., None] for v in (*p, m, e, x))
    places = _places(xp, x)
    ones = xp.ones_like(places)
    for block in range(2):
        n = places + block * _BLOCK
        k, top = n + 1, m1 + n + 1
        alpha, beta = a + (m1 + n) + low_a, b + (m1 + n) + low_b
        r = alpha * beta / (top * (k - e1)) * x1
        q = (a2 + n + low_a2) * (b2 + n + low_b2) / (k * (top + e1)) * x1
        mixed = alpha * beta * (k + top) - (alpha + beta + e1) * top * (k - e1)
        w = mixed / (top * k * (k - e1) * (top + e1)) * x1
        f, g, h, fs, gs, hs = ones, ones * 0, ones, ones, ones * 0, ones
        # the first m terms of F(a, b; 1 - s; x); the factor m - s = -e behind the last is left out
        before = n < m1
        below = xp.where(before, xp.where(n == m1 - 1, -ones, 1 - m1 - e1 + n) * k, ones)
        t = xp.where(before, (a + n + low_a) * (b + n + low_b) / below, ones)
        pure_block = xp.prod(t, axis=-1)
        t = xp.where(before, t * x1, ones)
        c = d = xp.where(before, ones, ones * 0)
        for _ in range(5):
            (r, r2), (q, q2), (w, w2), (t, t2) = _halves(r, q, w, t)
            (f, f2), (g, g2), (h, h2), (c, c2) = _halves(f, g, h, c)
            (fs, fs2), (gs, gs2), (hs, hs2), (d, d2) = _halves(fs, gs, hs, d)
            ra, qa = xp.abs(r), xp.abs(q)
            f, g, h, c = f + r * f2, g + w * f2 + q * g2, h + q * h2, c + t * c2
            fs, gs, hs, d = fs + ra * fs2, gs + xp.abs(w) * fs2 + qa * gs2, hs + qa * hs2, d + xp.abs(t) * d2
            r, q, w, t = r * r2, q * q2, w * r2 + q * w2, t * t2
        f, g, h, fs, gs, hs, r, q, w, t, c, d = (v[..., 0] for v in (f, g, h, fs, gs, hs, r, q, w, t, c, d))
        u, v, y = starts
        more = (u * f, v * f + y * g, y * h, xp.abs(u) * fs, xp.abs(v) * fs + xp.abs(y) * gs, xp.abs(y) * hs)
        sums = [old + new for old, new in zip(sums, more, strict=True)]
        starts = (u * r, v * r + y * w, y * q)
        head = (head[0] + factor * c, head[1] + xp.abs(factor) * d)
        factor, pure = factor * t, pure * pure_block
    v = head[0] + factor * (step * sums[0] + power * sums[1])
    v_size = head[1] + xp.abs(factor) * (xp.abs(step) * sums[3] + power * sums[4])
    lift = x**m * power
    return v, lift * sums[2], v_size, lift * sums[5], pure


def _reciprocal_gamma(xp: Any, x: Any, low: Any) -> Any:
    """Return 1 / gamma(x + low), which is linear in the distance to a pole."""
    pole = _nonpositive(xp, x)
    inverse = 1 / gamma(xp, xp.where(pole, 1 - x, x))
    distance = xp.where((x > 0.5) | pole, xp.ones_like(x), x - xp.round(x))
    at_pole = low * (1 - 2 * xp.remainder(x, xp.full_like(x, 2.0))) / inverse
    return xp.where(pole, at_pole, inverse * (1 + xp.where(x > 0.5, low * 0, low / distance)))


def _connected(
    xp: Any, p: tuple[Any, ...], c: Any, s: tuple[Any, Any], x: Any, found: tuple[Any, Any]
) -> tuple[Any, Any, Any]:
    """Return F at 1 - x, an estimate of its error, and F(1).

    F = A v + B u with A = F(1): 15.3.6. B has a formula that cancels for small e, or comes from ``found`` at
    ``_MIDDLE``; the better one serves.
    """
    tiny = _ROUNDING * xp.finfo(x.dtype).eps
    m = xp.round(s[0])
    e = (s[0] - m) + s[1]
    whole = e == 0
    both = [xp.stack([w, w]) for w in (*p, m, e)]
    pairs = _around_one(xp, both[:8], both[8], both[9], xp.stack([x, xp.full_like(x, 1 - _MIDDLE)]))
    v, u, v_size, u_size, k = (w[0, ...] for w in pairs)
    v0, u0, v0_size, u0_size = (w[1, ...] for w in pairs[:4])
    top = gamma(xp, c)
    first = (
        top
        * gamma(xp, xp.where(m == 0, 1 + e, m + e))
        * _reciprocal_gamma(xp, p[2], p[6])
        * _reciprocal_gamma(xp, p[3], p[7])
    )
    rest = found[0] - first * v0
    matched = rest / u0
    off = (found[1] + tiny * (xp.abs(first) * v0_size + xp.abs(rest) * u0_size / xp.abs(u0))) / xp.abs(u0)
    sine = xp.sin(math.pi * e) * (1 - 2 * xp.remainder(m, xp.full_like(m, 2.0)))
    # gamma(-s) = -pi / (sin(pi s) gamma(1 + s))
    one_way = math.pi * top / xp.where(whole, xp.ones_like(e), -sine) / gamma(xp, 1 + m + e)
    one_way = one_way * _reciprocal_gamma(xp, p[0], p[4]) * _reciprocal_gamma(xp, p[1], p[5])
    other_way = first * k / xp.where(whole, xp.ones_like(e), e)
    off_formula = xp.where(whole, xp.full_like(e, math.inf), 2 * tiny * (xp.abs(one_way) + xp.abs(other_way)))
    second, off = _choose(xp, off_formula < off, (one_way + other_way, off_formula), (matched, off))
    value = first * v + second * u
    error = tiny * (xp.abs(first) * v_size + xp.abs(second) * u_size) + off * xp.abs(u)
    return value, error, xp.where((m == 0) & ~whole, first / xp.where(whole, xp.ones_like(e), e), first)


def _transformed(
    xp: Any, a: Any, b: Any, c: Any, z: Any
) -> tuple[tuple[Any, ...], tuple[Any, Any], tuple[Any, Any], Any]:
    """Return the parameters of an equal function with 0 <= w < 1 and s = c - a - b >= 0, for z <= 1.

    Pfaff's transformation for z < 0 and Euler's: 15.3.3 and 15.3.4. The parameters are a, b, c - b, c - a, and what
    they lack; then s in two parts, w and 1 - w, and the power of 1 - z in front.
    """
    zero, one = xp.zeros_like(z), xp.ones_like(z)
    left = z < 0
    base = xp.where(left, 1 - z, one)
    w, x = xp.where(left, -z / base, z), xp.where(left, 1 / base, 1 - z)
    a, b = _choose(xp, left & (a > b), (b, a), (a, b))
    by_a, by_b, by_s = _minus(c, a), _minus(c, b), _minus(b, a)
    rise = _minus(by_a[0], b)
    p = (a, b, by_b[0], by_a[0], zero, zero, by_b[1], by_a[1])
    p = _choose(xp, left, (a, by_b[0], b, by_a[0], zero, by_b[1], zero, by_a[1]), p)
    s = _choose(xp, left, by_s, (rise[0], rise[1] + by_a[1]))
    low = s[0] < 0
    front = xp.where(left, base**-a, one) * xp.where(low, x ** s[0], one)
    p = _choose(xp, low, (p[3], p[2], p[1], p[0], p[7], p[6], p[5], p[4]), p)
    return p, (xp.where(low, -s[0], s[0]), xp.where(low, -s[1], s[1])), (w, x), front


def _within(xp: Any, c: Any, z: Any, p: tuple[Any, ...], s: tuple[Any, Any], at: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the function of transformed parameters, and an estimate of its error."""
    w, x = at
    close = w <= _MIDDLE
    endless = xp.full_like(z, math.inf)
    place = xp.where(close, w, xp.full_like(w, _MIDDLE))
    pairs = ((p[0], p[3]), (p[1], p[2]), (c, c), (place, place), (p[4], p[7]), (p[5], p[6]))
    a, b, below, both, *lows = (xp.stack(v) for v in pairs)
    sums, errors = _series(xp, a, b, below, both, xp.full_like(a, math.inf), lows)
    found, turned = (sums[0, ...], errors[0, ...]), (sums[1, ...], errors[1, ...])
    lift = xp.where(close, x, 1 - place) ** s[0]
    found = _choose(xp, lift * turned[1] < found[1], (lift * turned[0], lift * turned[1]), found)
    far, error, limit = _connected(xp, p, c, s, xp.where(close | (x == 0), xp.full_like(x, 1 - _MIDDLE), x), found)
    end = (xp.where(s[0] == 0, limit * endless, limit), xp.zeros_like(z))
    value, off = _choose(xp, close, found, _choose(xp, x == 0, end, (far, error)))
    size = xp.abs(s[0])
    for v in (*p[:4], c):
        size = xp.where(xp.abs(v) > size, xp.abs(v), size)
    return value, xp.where(size <= _LARGEST, off, endless)


def hyp2f1(xp: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
    """Return Gauss's hypergeometric function F(a, b; c; z).

    The parameters are real, and z is at most 1. There is a derivative with respect to z only.

    For z > 1 the function is complex and the result NaN, unless a or b is a nonpositive integer: then it is a
    polynomial. If a or b equals c, it is a power of 1 - z. Values have at least nine digits, or thirteen decimal places
    near a zero. The result is NaN if no formula has as many: for some parameters beyond 5, and for large ones.

    Abramowitz and Stegun, chapter 15.

    Examples
    --------
    >>> agrad.special.hyp2f1(1.0, 1.0, 2.0, np.asarray([-1.0, 0.5])).round(6)
    array([0.693147, 1.386294])
    >>> round(float(agrad.grad(lambda z: agrad.special.hyp2f1(1.0, 1.0, 2.0, z))(0.5)), 6)
    1.227411
    """
    zero = xp.zeros_like(a + b + c + z)
    a, b, c, z = (zero + v for v in (a, b, c, z))
    one, endless = xp.ones_like(zero), xp.full_like(zero, math.inf)
    ends_a, ends_b = (xp.where(_nonpositive(xp, v), 1 - v, endless) for v in (a, b))
    count = xp.where(ends_a < ends_b, ends_a, ends_b)
    whole = _nonpositive(xp, c)
    pole = whole & (count > 1 - c)
    inside = (z <= 1) & ~whole
    at, lower = xp.where(inside, z, zero), xp.where(inside, c, one)
    p, s, places, front = _transformed(xp, a, b, lower, at)
    value, off = _within(xp, lower, at, p, s, places)
    value, off = front * value, xp.where(inside, xp.where(places[1] == 0, zero, xp.abs(front) * off), endless)
    # the series as it is
    moderate = (xp.abs(a) <= _LARGEST) & (xp.abs(b) <= _LARGEST) & (xp.abs(c) <= _LARGEST)
    direct = moderate & ((count < math.inf) | (xp.abs(z) <= _MIDDLE))
    summed, error = _series(xp, a, b, xp.where(pole, one, c), xp.where(direct, z, zero), count, (zero, zero))
    summed, error = _choose(xp, direct, (summed, error), (zero, endless))
    value, off = _choose(xp, off <= error, (value, off), (summed, error))
    eps = xp.finfo(z.dtype).eps
    known = (
        (off <= eps**0.6 * xp.abs(value))
        | (off <= eps**0.85 * xp.where(xp.abs(front) < 1, xp.abs(front), one))
        | xp.isinf(value) & (off == 0)
    )
    value = nan_where(xp, ~known, xp.where(known, value, zero))
    value = xp.where(z == 0, one, xp.where(pole, endless, value))
    value = xp.where(b == c, (1 - z) ** -a, xp.where(a == c, (1 - z) ** -b, value))
    return nan_where(xp, xp.isnan(a + b + c + z), value)
