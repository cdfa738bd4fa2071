"""Logarithms of the incomplete gamma and beta functions.

If these underflow, continued fractions compute the quotient by the first term. They converge fast far out in a tail.
"""

from typing import Any

import agrad
from agrad import Tensor, special
from agrad.ops.special import incomplete
from agrad.scipy.stats.base import chosen, log_of, nowhere

DEPTH = 40
"""The depth of the continued fractions."""


LARGE = 100.0
"""Parameters above which the terms of a density's logarithm cancel."""


def log_gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """Return log(x**(a - 1) exp(-x) / gamma(a)) for a > 0 and x >= 0."""
    large = (a > LARGE) & (x > 0) & agrad.isfinite(x) & agrad.isfinite(a)
    if nowhere(large):
        return special.xlogy(a - 1, x) - x - special.gammaln(a)
    far = incomplete.log_gamma_density(chosen(large, a, LARGE), chosen(large, x, LARGE))
    a, x = chosen(large, agrad.ones_like(a), a), chosen(large, agrad.ones_like(x), x)
    return agrad.where(large, far, special.xlogy(a - 1, x) - x - special.gammaln(a))


def log_beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the logarithm of the beta density for a, b > 0 and 0 <= x <= 1."""
    large = (a + b > LARGE) & (x > 0) & (x < 1) & agrad.isfinite(a + b)
    if nowhere(large):
        return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)
    far = incomplete.log_beta_density(*(chosen(large, v, inner) for v, inner in ((a, 1.0), (b, 1.0), (x, 0.5))))
    a, b, x = (chosen(large, agrad.ones_like(v), v) for v in (a, b, x))
    return agrad.where(large, far, special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))


def _beyond(p: Tensor) -> Tensor:
    return p < (1e-30 if p.dtype == agrad.float32 else 1e-280)


def _near(p: Tensor, rest: Tensor | None) -> Tensor:
    return agrad.log(chosen(p <= 0, agrad.ones_like(p), p)) if rest is None else log_of(p, rest)


def _joined(far: Tensor, log: Tensor, p: Tensor, rest: Tensor | None) -> Tensor:
    return agrad.where(far, log, _near(chosen(far, agrad.full_like(p, 0.25), p), rest))


def log_gammainc(a: Tensor, x: Tensor, depth: int = DEPTH, small: bool = False) -> Tensor:
    """Return log(gammainc(a, x)) for a > 0 and x >= 0; DLMF 8.9.1.

    ``small``: it need not be precise if the probability is near 1, and gammaincc is not evaluated.
    """
    p, rest = special.gammainc(a, x), None if small else special.gammaincc(a, x)
    far = _beyond(p) & (x > 0)
    if nowhere(far):
        return _near(p, rest)
    a1, x1 = chosen(far, a, 2.0), chosen(far, x, 1.0)
    v: Any = a1 + depth
    for k in range(depth - 1, 0, -1):
        v = a1 + k + (x1 * ((k + 1) // 2) if k % 2 else -(a1 + k // 2) * x1) / v
    log = log_gamma_density(a1, x1) + agrad.log(x1) - agrad.log(a1) - agrad.log1p(-x1 / v)
    return _joined(far, log, p, rest)


def log_gammaincc(a: Tensor, x: Tensor, depth: int = DEPTH, small: bool = False) -> Tensor:
    """Return log(gammaincc(a, x)) for a > 0 and x >= 0; DLMF 8.9.2.

    ``small``: as for ``log_gammainc``.
    """
    q, rest = special.gammaincc(a, x), None if small else special.gammainc(a, x)
    far = _beyond(q) & agrad.isfinite(x)
    if nowhere(far):
        return _near(q, rest)
    a1, x1 = chosen(far, a, 1.0), chosen(far, x, 2.0)
    v: Any = x1 - a1 + (2 * depth + 1)
    for k in range(depth, 0, -1):
        v = x1 - a1 + (2 * k - 1) - k * (k - a1) / v
    log = log_gamma_density(a1, x1) + agrad.log(x1) - agrad.log(v)
    return _joined(far, log, q, rest)


def log_betainc(
    a: Tensor,
    b: Tensor,
    x: Tensor,
    rest: Tensor | None,
    depth: int = DEPTH,
    log_x: Tensor | None = None,
    p: Tensor | None = None,
) -> Tensor:
    """Return log(betainc(a, b, x)), given 1 less betainc; DLMF 8.17.22.

    ``rest``: None if it need not be precise near 1. ``log_x``: the logarithm of x, if x may underflow.
    ``p``: betainc, if it is known.
    """
    p = special.betainc(a, b, x) if p is None else p
    far = _beyond(p) & (x > 0 if log_x is None else agrad.isfinite(log_x))
    if nowhere(far):
        return _near(p, rest)
    a1, b1, x1 = chosen(far, a, 1.0), chosen(far, b, 1.0), chosen(far, x, 0.25)
    v: Any = agrad.ones_like(a1)
    for k in range(depth, 0, -1):
        m = k // 2
        above = -(a1 + m) / (a1 + (k - 1)) * (a1 + b1 + m) if k % 2 else m / (a1 + (k - 1)) * (b1 - m)
        v = 1 + above / (a1 + k) * x1 / v
    log = agrad.log(x1) if log_x is None else chosen(far, log_x, 0.0)
    first = a1 * log + b1 * agrad.log1p(-x1) - special.betaln(a1, b1)
    return _joined(far, first - agrad.log(a1 * v), p, rest)
