"""Quantiles of the gamma and beta distributions, by Newton's method.

The unknown is u = log(x), or logit(x) for beta. The density of u is log-concave, and so are both tails: on the
logarithm of the smaller tail the iteration converges from anywhere. It is not recorded; two steps from its end are, and
they give the derivatives: each doubles the order up to which these are right.
"""

from collections.abc import Callable

import agrad
from agrad import Tensor, special
from agrad.scipy.stats.base import nowhere
from agrad.scipy.stats.tails import DEPTH, log_betainc, log_gammainc, log_gammaincc

_STEPS = 30
_SHALLOW = 10
"""The depth of the continued fractions in steps that are not recorded."""


def _settled(step: Tensor, u: Tensor) -> bool:
    """Return True if all steps are small: those that follow are exact to rounding."""
    return nowhere(agrad.abs(step) > 1e-3 * agrad.maximum(agrad.abs(u) * 1e-3, agrad.ones_like(u)))


def _solved(step: Callable[[Tensor, int], Tensor], u: Tensor) -> Tensor:
    """Return u after Newton's steps ``step(u, depth)``, of which the last are recorded."""
    least = -700.0 if u.dtype == agrad.float64 else -86.0
    u = agrad.stop_gradient(u)
    for _ in range(_STEPS):
        change = agrad.stop_gradient(step(u, _SHALLOW))
        u = agrad.clip(u + change, least, -least)
        if _settled(change, u):
            break
    u = agrad.stop_gradient(u)
    for _ in range(2):
        # where x underflows, the tail is linear in u, and one step is exact
        at = agrad.clip(u, least, -least)
        u = at + step(at, DEPTH)
    return u


def gamma_quantile(a: Tensor, log_lower: Tensor, log_upper: Tensor) -> Tensor:
    """Return x with log(gammainc(a, x)) = log_lower, log(gammaincc(a, x)) = log_upper."""
    upper = log_upper < log_lower
    target = agrad.where(upper, log_upper, log_lower)
    side = agrad.where(upper, -agrad.ones_like(target), agrad.ones_like(target))

    def step(u: Tensor, depth: int) -> Tensor:
        x = agrad.exp(u)
        log = agrad.where(upper, log_gammaincc(a, x, depth), log_gammainc(a, x, depth))
        change = side * (target - log) * agrad.exp(log - (a * u - x - special.gammaln(a)))
        # the upper tail falls as exp(-exp(u)), and a long step would end far beyond
        return agrad.where(upper & (change > 1), agrad.ones_like(change), change)

    return agrad.exp(_solved(step, agrad.log(agrad.maximum(a, agrad.ones_like(a)))))


def beta_quantile(a: Tensor, b: Tensor, log_lower: Tensor, log_upper: Tensor) -> Tensor:
    """Return logit(x) of the beta distribution's quantile x, from logarithms."""
    upper = log_upper < log_lower
    target = agrad.where(upper, log_upper, log_lower)
    a, b = agrad.where(upper, b, a), agrad.where(upper, a, b)

    def step(u: Tensor, depth: int) -> Tensor:
        log = log_betainc(a, b, special.expit(u), special.betainc(b, a, special.expit(-u)), depth)
        front = a * special.log_expit(u) + b * special.log_expit(-u) - special.betaln(a, b)
        return (target - log) * agrad.exp(log - front)

    u = _solved(step, agrad.log(a) - agrad.log(b))
    return agrad.where(upper, -u, u)
