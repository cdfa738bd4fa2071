"""Tools of the generic forms: sums, constants, safe elementary functions.

The generic forms of this package are written in array API operations and evaluated on raw float64 arrays (float32 ones
are widened first); they run on every library. They do not branch on values: every element goes through every branch,
with its argument held inside the branch's domain, and ``where`` chooses.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def polynomial(coefficients: Iterable[float], x: Any) -> Any:
    """Return the polynomial with these coefficients, by Horner's rule.

    The highest power is first.
    """
    out = x * 0
    for c in coefficients:
        out = out * x + c
    return out


def chebyshev(coefficients: Sequence[float], low: float, high: float, x: Any) -> Any:
    """Return the Chebyshev sum on [low, high], by Clenshaw's recurrence.

    The constant coefficient is first.
    """
    u = (2 * x - (low + high)) / (high - low)
    double, after = 2 * u, x * 0
    later = after
    for c in reversed(coefficients[1:]):
        after, later = double * after - later + c, after
    return u * after - later + coefficients[0]


def exp_minus_square(xp: Any, x: Any, *, half: bool = False) -> Any:
    """Return exp(-x**2), or with ``half`` exp(-x**2 / 2), accurate for large squares.

    The square of x rounded to a multiple of 1/16 is exact, and what is left is a product of small factors.
    """
    scale, limit = (0.5, 56.0) if half else (1.0, 40.0)
    x = xp.clip(x, -limit, limit)
    near = xp.trunc(x * 16) / 16
    return xp.exp(-scale * near * near) * xp.exp(-scale * (x - near) * (x + near))


def log1p_minus(xp: Any, u: Any) -> Any:
    """Return log(1 + u) - u for u > -1, accurate for small u."""
    small = xp.abs(u) < 0.5
    near, far = (xp.where(mask, u, xp.zeros_like(u)) for mask in (small, ~small))
    return xp.where(small, log1p_minus_near(near), xp.log1p(far) - u)


def log1p_minus_near(u: Any) -> Any:
    """Return log(1 + u) - u for abs(u) < 0.5.

    By log(1 + u) = 2 atanh(w), w = u / (2 + u).
    """
    w = u / (2 + u)
    square = w * w
    # 2 (atanh(w) - w) - (u - 2 w) and u - 2 w = u w
    return 2 * w * square * polynomial([1 / (2 * k + 3) for k in range(17, -1, -1)], square) - u * w


def sin_pi(xp: Any, x: Any) -> Any:
    """Return sin(pi x), exactly 0 at integers."""
    rest = x - 2 * xp.round(x / 2)  # in [-1, 1]
    folded = xp.where(xp.abs(rest) > 0.5, xp.sign(rest) - rest, rest)
    return xp.sin(math.pi * folded)


def nan_where(xp: Any, condition: Any, value: Any) -> Any:
    """Return ``value``, or NaN if ``condition`` is true."""
    return xp.where(condition, value * 0 + math.nan, value)
