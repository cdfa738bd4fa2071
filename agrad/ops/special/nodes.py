"""Bernoulli numbers, and nodes of quadrature: exact, by fractions and decimals."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache


@cache
def bernoulli(n: int) -> Fraction:
    """Return the Bernoulli number B_n, with B_1 = -1/2."""
    if n == 0:
        return Fraction(1)
    return -sum((math.comb(n + 1, k) * bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


@cache
def legendre_nodes(count: int) -> tuple[tuple[float, float], ...]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1].

    ``count`` is even. By Newton's method in decimals of 40 digits: in floats the outermost weights lose four digits.
    """
    found: list[tuple[float, float]] = []
    with localcontext(prec=40):
        for k in range(count // 2):
            x = Decimal(math.cos(math.pi * (k + 0.75) / (count + 0.5)))
            for _ in range(4):
                before, now = Decimal(1), x
                for j in range(2, count + 1):
                    before, now = now, ((2 * j - 1) * x * now - (j - 1) * before) / j
                slope = count * (before - x * now) / (1 - x * x)
                x -= now / slope
            weight = float(1 / ((1 - x * x) * slope * slope))
            found += [(float((1 - x) / 2), weight), (float((1 + x) / 2), weight)]
    return tuple(found)
