"""Quantiles of the gamma and beta distributions, by Newton's method.

The unknown is u = log(x), or logit(x) for beta. The density of u and both tails are log-concave, so the iteration on
the logarithm of the smaller tail converges from any start. The starts are close enough for three steps. The iteration
is not recorded: ``solution`` differentiates the equation.
"""

from collections.abc import Callable
from typing import Any

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.base import chosen, nowhere
from agrad.scipy.stats.tails import (
    DEPTH,
    LARGE,
    log_beta_density,
    log_betainc,
    log_gamma_density,
    log_gammainc,
    log_gammaincc,
)

Step = Callable[..., Tensor]

_STEPS = 8
_SHALLOW = 10
"""The depth of the continued fractions before the last step."""


def solution(solve: Step, step: Step) -> Step:
    """Return ``solve`` with the derivatives of its equation, of every order.

    ``solve(*params)`` returns y, ``step(y, *params)`` a Newton step from there. At the solution, the step is 0, and its
    derivative with respect to the parameters at fixed y is the derivative of y (implicit function theorem).
    """
    solved = agrad.custom_jvp(solve)

    def rule(params: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        params = tuple(map(agrad.asarray, params))
        y = agrad.asarray(solved(*params))
        return y, agrad.jvp(lambda *at: step(y, *at), params, tangents)[1]

    solved.defjvp(rule)
    return solved


def _least(u: Tensor) -> float:
    return -700.0 if u.dtype == agrad.float64 else -86.0


def _iterated(step: Step, u: Tensor, *params: Tensor) -> Tensor:
    """Return u after Newton's steps ``step(u, *params, depth=...)``."""
    least = _least(u)
    u = agrad.clip(u, least, -least)
    for _ in range(_STEPS):
        change = step(u, *params, depth=_SHALLOW)
        u = agrad.clip(u + change, least, -least)
        # the step that follows is then exact to rounding
        if nowhere(agrad.abs(change) > 1e-4 * agrad.maximum(agrad.abs(u) * 1e-3, agrad.ones_like(u))):
            break
    # where x underflows, the tail is linear in u, and one step is exact
    return u + step(u, *params)


def _below(target: Tensor) -> Tensor:
    """Return the normal quantile of a lower tail given by its logarithm, or by the smallest number."""
    return special.ndtri(agrad.exp(agrad.maximum(target, agrad.full_like(target, _least(target)))))


def _near_lower(a: Tensor, target: Tensor) -> Tensor:
    """Return log(x) about, for a lower tail: the first term, or Wilson and Hilferty's cube."""
    first = (target + special.gammaln(a + 1)) / a
    return agrad.where(a > 1, agrad.maximum(first, _cubed(a, _below(target))), first)


def _near_upper(a: Tensor, target: Tensor) -> Tensor:
    """Return log(x) about, for an upper tail: the cube, the lower tail's first term, or the density's logarithm."""
    first = (agrad.log1p(-agrad.exp(target)) + special.gammaln(a + 1)) / a
    level = agrad.clip(-target - special.gammaln(a), 0.3, None)
    x = agrad.clip(level + (a - 1) * agrad.log(level), 0.3, None)
    far = agrad.log(agrad.clip(level + (a - 1) * agrad.log(x), 0.3, None))
    cubed = (a >= 1) & (level < 3 * a)
    return agrad.where(cubed, _cubed(a, -_below(target)), agrad.where((first < -1) & (a < 1), first, far))


def _cubed(a: Tensor, z: Tensor) -> Tensor:
    """Return the logarithm of the gamma quantile by the normal one z; Abramowitz and Stegun 26.4.17."""
    return agrad.log(a) + 3 * agrad.log(agrad.clip(1 - 1 / (9 * a) + z / (3 * agrad.sqrt(a)), 0.01, None))


def _gamma_step(u: Tensor, a: Tensor, target: Tensor, side: Tensor, depth: int = DEPTH) -> Tensor:
    x, upper = agrad.exp(u), side < 0
    log = agrad.where(upper, log_gammaincc(a, x, depth, small=True), log_gammainc(a, x, depth, small=True))
    change = side * (target - log) * agrad.exp(log - _gamma_front(a, x, u))
    # the upper tail falls as exp(-exp(u)), and a long step would end far beyond
    return agrad.where(upper & (change > 1), agrad.ones_like(change), change)


def _gamma_front(a: Tensor, x: Tensor, u: Tensor) -> Tensor:
    """Return the logarithm of the density of u = log(x)."""
    large = (a > LARGE) & (x > 0)
    plain = a * u - x - special.gammaln(a)
    if nowhere(large):
        return plain
    return agrad.where(large, log_gamma_density(chosen(large, a, LARGE), chosen(large, x, LARGE)) + u, plain)


def _beta_front(a: Tensor, b: Tensor, u: Tensor) -> Tensor:
    """Return the logarithm of the density of u = logit(x)."""
    x, log, rest = special.expit(u), special.log_expit(u), special.log_expit(-u)
    large = (a + b > LARGE) & (x > 0) & (x < 1)
    plain = a * log + b * rest - special.betaln(a, b)
    if nowhere(large):
        return plain
    a, b, x = (chosen(large, v, inner) for v, inner in ((a, LARGE), (b, LARGE), (x, 0.5)))
    return agrad.where(large, log_beta_density(a, b, x) + log + rest, plain)


def _gamma_solve(a: Any, target: Any, side: Any) -> Tensor:
    a, target, side = map(agrad.asarray, (a, target, side))
    start = agrad.where(side < 0, _near_upper(a, target), _near_lower(a, target))
    return _iterated(_gamma_step, start, a, target, side)


def _beta_step(u: Tensor, a: Tensor, b: Tensor, target: Tensor, depth: int = DEPTH) -> Tensor:
    front = _beta_front(a, b, u)
    # by the other tail if x is nearer to 1 than the tail to 0
    other = u > -target
    a, b = agrad.where(other, b, a), agrad.where(other, a, b)
    x = special.expit(agrad.where(other, -u, u))
    tail = special.betainc(a, b, x)
    rest = agrad.log1p(-agrad.minimum(chosen(other, tail, 0.5), agrad.full_like(x, 1 - 2.0**-24)))
    log = agrad.where(other, rest, log_betainc(a, b, x, None, depth, p=tail))
    return (target - log) * agrad.exp(log - front)


def _beta_solve(a: Any, b: Any, target: Any) -> Tensor:
    a, b, target = map(agrad.asarray, (a, b, target))
    return _iterated(_beta_step, _near_beta(a, b, target), a, b, target)


def _near_beta(a: Tensor, b: Tensor, target: Tensor) -> Tensor:
    """Return logit(x) about, by the normal distribution, or of the smaller parameter's gamma distribution."""
    swapped = a < b
    small, large = agrad.where(swapped, a, b), agrad.where(swapped, b, a)
    log_y = agrad.where(swapped, _near_lower(small, target), _near_upper(small, target))
    y = agrad.exp(log_y) / (large + 0.5 * agrad.maximum(small - 1, -large))
    # -log(x) or -log(1 - x) is that gamma number
    logit = y + agrad.log(-agrad.expm1(-y))
    by_gamma = agrad.where(swapped, logit, -logit)
    # Abramowitz and Stegun 26.5.22
    z = _below(target)
    ia, ib = 1 / (2 * agrad.maximum(a, agrad.ones_like(a)) - 1), 1 / (2 * agrad.maximum(b, agrad.ones_like(b)) - 1)
    h, third = 2 / (ia + ib), (z * z - 3) / 6
    both = (small >= 2) & ((target > -50) | (third < h))
    w = z * agrad.sqrt(agrad.clip(h + third, 0.0, None)) / h + (ib - ia) * (third + 5 / 6 - 2 / (3 * h))
    return agrad.where(both, agrad.log(a) - agrad.log(b) + 2 * w, by_gamma)


_gamma_solution = solution(_gamma_solve, _gamma_step)
_beta_solution = solution(_beta_solve, _beta_step)


def gamma_quantile(a: Tensor, log_lower: Tensor, log_upper: Tensor) -> Tensor:
    """Return x with log(gammainc(a, x)) = log_lower, log(gammaincc(a, x)) = log_upper."""
    upper = log_upper < log_lower
    target = agrad.where(upper, log_upper, log_lower)
    side = agrad.where(upper, -agrad.ones_like(a), agrad.ones_like(a))
    return agrad.exp(_gamma_solution(a, target, side))


def beta_quantile(a: Tensor, b: Tensor, log_lower: Tensor, log_upper: Tensor) -> Tensor:
    """Return logit(x) of the beta distribution's quantile x, from logarithms."""
    upper = log_upper < log_lower
    target = agrad.where(upper, log_upper, log_lower)
    u = _beta_solution(agrad.where(upper, b, a), agrad.where(upper, a, b), target)
    return agrad.where(upper, -u, u)
