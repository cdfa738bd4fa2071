"""Draws of counts and signs, which have no derivatives."""

from collections.abc import Callable
from typing import Any

import agrad
from agrad.errors import ConfigurationError
from agrad.random.continuous import uniform_like
from agrad.random.discrete import bernoulli
from agrad.random.keys import draw, parameter, positive
from agrad.random.transformed import positive_like

__all__ = ["binomial", "geometric", "poisson", "rademacher"]


@draw
def rademacher(key: Any, shape: Any = (), *, dtype: Any = None) -> agrad.Tensor:
    """Draw signs, 1 and -1 with equal chances.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the result.
    dtype : dtype or None
        Signed dtype. By default, int32.

    Examples
    --------
    >>> agrad.random.rademacher(agrad.random.key(0), 6)
    Tensor([-1, 1, 1, -1, -1, -1], dtype=int32, backend=numpy, device=cpu)
    """
    kept = bernoulli(key, 0.5, shape)
    return 2 * agrad.astype(kept, agrad.int32 if dtype is None else dtype) - 1


_STEPS = 40
"""Halvings of an interval of integers: enough for rates up to 1e15."""


@draw
def poisson(key: Any, lam: Any, shape: Any = None) -> agrad.Tensor:
    """Draw Poisson-distributed integers.

    Parameters
    ----------
    lam : number or array
        Rate, greater than 0. The result is not differentiable with respect to it.

    Returns
    -------
    array of int64, with -1 for rates in an array that are negative, NaN or above 2**62

    Notes
    -----
    Bisection finds the smallest integer at which the distribution function is at least a uniform random number. The
    distribution function at k is the regularized upper incomplete gamma function of k + 1 at the rate.

    Examples
    --------
    >>> agrad.random.poisson(agrad.random.key(0), 3.0, 6)
    Tensor([1, 5, 5, 3, 0, 2], dtype=int64, backend=numpy, device=cpu)
    """
    u = uniform_like(key, shape, "float64", "poisson", lam)
    rate = agrad.stop_gradient(positive_like(lam, "lam", key, u, "poisson"))
    bad = ~((rate >= 0) & (rate < 2.0**62))
    rate = agrad.where(bad, agrad.ones_like(rate), rate)
    deviation = agrad.sqrt(rate)
    low = agrad.maximum(agrad.floor(rate - 12 * deviation), 0.0 * rate) - 1
    high = agrad.ceil(rate + 12 * deviation + 60)
    near = _near(u, rate, deviation, 1.0)
    out = _least(lambda k: agrad.special.gammaincc(k + 1, rate) >= u, low, high, *near)
    return agrad.where(bad, -agrad.ones_like(out), out)


def _near(u: Any, mean: Any, deviation: Any, slant: Any) -> tuple[Any, Any]:
    """Return likely bounds of the quantile of ``u``, by the first terms of the Cornish-Fisher expansion.

    ``slant`` is the skewness times the deviation.
    """
    z = agrad.clip(agrad.special.ndtri(u), -9.0, 9.0)
    middle = mean + deviation * z + slant * (z * z - 1) / 6
    off = 2 + z * z * agrad.abs(z) / (deviation + 1)
    return agrad.floor(middle - off), agrad.ceil(middle + off)


def _least(enough: Callable[[Any], Any], low: Any, high: Any, *near: Any) -> Any:
    """Return the smallest integer from ``low`` + 1 to ``high`` for which ``enough`` is true, as it is for ``high``.

    ``near`` contains numbers between the ends, to begin with.
    """

    def halved(low: Any, high: Any, middle: Any) -> tuple[Any, Any]:
        found = enough(agrad.maximum(middle, 0.0 * middle))
        inside = (middle > low) & (middle < high)
        return agrad.where(inside & ~found, middle, low), agrad.where(inside & found, middle, high)

    for place in near:
        low, high = halved(low, high, place)

    def going(state: tuple[Any, Any, Any]) -> Any:
        k, low, high = state
        return (k < _STEPS) & agrad.any(high - low > 1)

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        k, low, high = state
        return (k + 1, *halved(low, high, agrad.floor((low + high) / 2)))

    steps = agrad.zeros_like(agrad.sum(low))
    return agrad.astype(agrad.while_loop(going, step, (steps, low, high))[2], agrad.int64)


@draw
def binomial(key: Any, n: Any, p: Any, shape: Any = None) -> agrad.Tensor:
    """Draw binomially distributed integers: successes in ``n`` trials.

    Parameters
    ----------
    n : number or array
        Number of trials, an integer of at least 0 and below 2**62.
    p : number or array
        Probability of a success, from 0 to 1. The result is not differentiable with respect to it.

    Returns
    -------
    array of int64
        -1 where an element of ``n`` or ``p`` is invalid, and on JAX inside ``agrad.jit`` for n of 1e6 or more, where
        the distribution function is NaN.

    Notes
    -----
    Bisection finds the smallest integer at which the distribution function is at least a uniform random number. The
    distribution function at k is the regularized incomplete beta function of n - k and k + 1 at 1 - p.

    Examples
    --------
    >>> agrad.random.binomial(agrad.random.key(0), 10, 0.5, 6)
    Tensor([3, 7, 7, 5, 2, 4], dtype=int64, backend=numpy, device=cpu)
    """
    if not hasattr(n, "shape") and isinstance(n, (int, float)) and not (n >= 0 and n == n // 1):
        raise ConfigurationError(f"binomial: n must be an integer of at least 0, got {n!r}")
    u = uniform_like(key, shape, "float64", "binomial", n, p)
    trials = agrad.stop_gradient(parameter(n, "binomial", "n", key, tuple(u.shape), "float64"))
    chance = _probability(p, "binomial", key, u)
    bad = ~((trials >= 0) & (trials < 2.0**62) & (trials == agrad.floor(trials)) & (chance >= 0) & (chance <= 1))
    trials, chance = agrad.where(bad, 0.0, trials), agrad.where(bad, 0.5, chance)
    mean, deviation = trials * chance, agrad.sqrt(trials * chance * (1 - chance))
    spread = 12 * deviation + 60
    low = agrad.maximum(agrad.floor(mean - spread), 0.0 * mean) - 1
    high = agrad.minimum(agrad.ceil(mean + spread), trials)

    def below(k: Any) -> Any:
        failures = agrad.maximum(trials - k, 0.0 * k + 0.5)  # below 1 only without trials, and then nothing is searched
        return agrad.special.betainc(failures, k + 1, 1 - chance)

    out = _least(lambda k: below(k) >= u, low, high, *_near(u, mean, deviation, 1 - 2 * chance))
    return agrad.where(bad | agrad.isnan(below(agrad.floor(mean))), -agrad.ones_like(out), out)


@draw
def geometric(key: Any, p: Any, shape: Any = None) -> agrad.Tensor:
    """Draw geometrically distributed integers: trials up to the first success.

    A sample is 1 + floor(log(u) / log(1 - p)) for a uniform number u.

    Parameters
    ----------
    p : number or array
        Probability of a success, greater than 0 and at most 1. The result is not differentiable with respect to it.

    Returns
    -------
    array of int64, from 1 to 2**63 - 1
        -1 where an element of ``p`` is invalid.

    Examples
    --------
    >>> agrad.random.geometric(agrad.random.key(0), 0.25, 6)
    Tensor([9, 1, 1, 3, 16, 5], dtype=int64, backend=numpy, device=cpu)
    """
    u = uniform_like(key, shape, "float64", "geometric", p)
    chance = _probability(positive(p, "geometric", "p"), "geometric", key, u)
    bad = ~((chance > 0) & (chance <= 1))
    sure = bad | (chance == 1)
    failing = agrad.log1p(-agrad.where(sure, 0.0 * chance + 0.5, chance))
    trials = agrad.floor(agrad.where(sure, 0.0 * u, agrad.log(u) / failing)) + 1
    beyond = ~(trials < 2.0**63)
    counts = agrad.astype(agrad.where(beyond, 1.0 + 0.0 * u, trials), agrad.int64)
    counts = agrad.where(beyond, agrad.full_like(counts, 2**63 - 1), counts)
    return agrad.where(bad, -agrad.ones_like(counts), counts)


def _probability(p: Any, name: str, key: Any, like: Any) -> Any:
    """Return a probability as an array like a sample, checked to be from 0 to 1 if it is a number."""
    if not hasattr(p, "shape") and isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise ConfigurationError(f"{name}: p must be a number from 0 to 1 or an array, got {p!r}")
    return agrad.stop_gradient(parameter(p, name, "p", key, tuple(like.shape), "float64"))
