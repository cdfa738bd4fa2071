"""Draws that are transformations of others: their distributions, derivatives, and the same numbers everywhere."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad import random
from agrad.errors import ConfigurationError, ShapeError

N = 20_000
KEY = random.key(20_260_202, backend="numpy")


def kolmogorov(sample: np.ndarray, at: np.ndarray) -> float:
    """sqrt(n) times the largest distance from the distribution function; above 1.95 with probability 0.001."""
    steps = np.arange(sample.size + 1) / sample.size
    return math.sqrt(sample.size) * float(max(np.max(steps[1:] - at), np.max(at - steps[:-1])))


def at_2(x: np.ndarray) -> np.ndarray:
    """Of Student's distribution of two degrees of freedom."""
    return np.asarray(0.5 + x / (2 * np.sqrt(2 + x * x)))


def erf(x: np.ndarray) -> np.ndarray:
    return np.asarray([math.erf(value) for value in x])


Draw = Callable[[Any, Any, Any], Any]
CONTINUOUS: dict[str, tuple[Draw, float, Callable[[np.ndarray], np.ndarray]]] = {
    "laplace": (
        lambda key, a, shape: random.laplace(key, shape, scale=a),
        2.0,
        lambda x: np.where(x < 0, np.exp(np.minimum(x, 0) / 2) / 2, 1 - np.exp(-np.maximum(x, 0) / 2) / 2),
    ),
    "gumbel": (lambda key, a, shape: random.gumbel(key, shape, loc=a), 2.0, lambda x: np.exp(-np.exp(2 - x))),
    "logistic": (lambda key, a, shape: random.logistic(key, shape, scale=a), 2.0, lambda x: 1 / (1 + np.exp(-x / 2))),
    "cauchy": (lambda key, a, shape: random.cauchy(key, shape, scale=a), 2.0, lambda x: 0.5 + np.arctan(x / 2) / np.pi),
    "rayleigh": (lambda key, a, shape: random.rayleigh(key, a, shape), 2.0, lambda x: 1 - np.exp(-x * x / 8)),
    "weibull_min": (
        lambda key, a, shape: random.weibull_min(key, 2.0, a, shape),
        1.5,
        lambda x: 1 - np.exp(-((x / 2) ** 1.5)),
    ),
    "pareto": (lambda key, a, shape: random.pareto(key, a, shape), 2.5, lambda x: 1 - x**-2.5),
    "lognormal": (
        lambda key, a, shape: random.lognormal(key, a, shape),
        0.5,
        lambda x: 0.5 + erf(np.log(x) / 0.5 / math.sqrt(2)) / 2,
    ),
    "chisquare": (
        lambda key, a, shape: random.chisquare(key, a, shape),
        4.0,
        lambda x: 1 - np.exp(-x / 2) * (1 + x / 2),
    ),
    "t": (lambda key, a, shape: random.t(key, a, shape), 2.0, at_2),
    "maxwell": (
        lambda key, a, shape: random.maxwell(key, shape, scale=a),
        2.0,
        lambda x: erf(x / 2 / math.sqrt(2)) - math.sqrt(2 / math.pi) * x / 2 * np.exp(-x * x / 8),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name: str) -> None:
    draw, parameter, cdf = CONTINUOUS[name]
    found = draw(KEY, agrad.asarray(parameter, dtype="float64", backend="numpy"), (N,)).numpy()
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    assert kolmogorov(found, cdf(np.sort(found))) < 1.95
    assert kolmogorov(1.1 * found + 0.05, cdf(np.sort(np.maximum(1.1 * found + 0.05, 0.1)))) > 1.95


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_same_everywhere_and_in_transforms(name: str, backend: str) -> None:
    draw, parameter, _ = CONTINUOUS[name]
    a, key = agrad.asarray(parameter, dtype="float64"), random.key(3)
    right = draw(
        random.key(3, backend="numpy"), agrad.asarray(parameter, dtype="float64", backend="numpy"), (4,)
    ).numpy()
    found = draw(key, a, (4,))
    assert found.backend == backend
    np.testing.assert_allclose(found.to("numpy").numpy(), right, rtol=1e-10)
    jitted = agrad.jit(lambda key, a: draw(key, a, (4,)))(key, a)
    np.testing.assert_allclose(jitted.to("numpy").numpy(), right, rtol=1e-10)
    keys = random.split(key, 2)
    members = agrad.vmap(lambda key: draw(key, a, (4,)))(keys)
    np.testing.assert_allclose(
        members[1, :].to("numpy").numpy(), draw(keys[1, :], a, (4,)).to("numpy").numpy(), rtol=1e-10
    )
    if name not in ("chisquare", "t"):  # those of gamma distributed numbers are implicit
        h = 1e-6
        slope = agrad.jvp(lambda a: draw(key, a, (4,)), (a,), (agrad.ones_like(a),))[1].to("numpy").numpy()
        difference = (draw(key, a + h, (4,)) - draw(key, a - h, (4,))).to("numpy").numpy() / (2 * h)
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-8)


def test_multivariate_normal(backend: str) -> None:
    key = random.key(5)
    mean, cov = agrad.asarray([1.0, -2.0], dtype="float64"), agrad.asarray([[2.0, 0.6], [0.6, 1.0]], dtype="float64")
    x = random.multivariate_normal(key, mean, cov, (5000,)).to("numpy").numpy()
    np.testing.assert_allclose(x.mean(axis=0), [1.0, -2.0], atol=0.08)
    np.testing.assert_allclose(np.cov(x.T), [[2.0, 0.6], [0.6, 1.0]], atol=0.15)
    assert random.multivariate_normal(key, mean, cov).shape == (2,)
    gradient = agrad.grad(lambda m: agrad.sum(random.multivariate_normal(key, m, cov, 3)))(mean)
    assert gradient.tolist() == [3.0, 3.0]
    with pytest.raises(ShapeError, match=r"must have shapes \(..., n\) and \(..., n, n\), got \(2,\) and"):
        random.multivariate_normal(key, mean, mean)


def test_rademacher(backend: str) -> None:
    found = random.rademacher(random.key(1), (4000,)).to("numpy").numpy()
    assert set(found.tolist()) == {-1, 1}
    assert abs(found.mean()) < 0.06


@pytest.mark.parametrize("rate", [0.01, 0.7, 3.0, 30.0, 1000.0])
def test_poisson(rate: float) -> None:
    n = 4000
    found = random.poisson(KEY, rate, (n,)).numpy()
    assert found.dtype == np.int64
    assert found.min() >= 0
    k = np.arange(found.max() + 1)
    p = np.exp(k * math.log(rate) - rate - np.asarray([math.lgamma(i + 1) for i in k.tolist()]))
    counts = np.bincount(found, minlength=k.size)
    # the largest distance of the distribution functions, whose bound of continuous ones is above that of discrete ones
    assert math.sqrt(n) * np.abs(np.cumsum(counts) / n - np.cumsum(p)).max() < 1.95
    assert abs(found.mean() - rate) < 4 * math.sqrt(rate / n)


def test_poisson_everywhere(backend: str) -> None:
    key, rate = random.key(2), agrad.asarray([0.5, 4.0, 100.0, 1e6], dtype="float64")
    right = random.poisson(random.key(2, backend="numpy"), np.asarray([0.5, 4.0, 100.0, 1e6])).numpy()
    assert random.poisson(key, rate).tolist() == right.tolist()
    assert agrad.jit(random.poisson)(key, rate).tolist() == right.tolist()
    assert abs(right[3] - 1e6) < 5e3
    with pytest.raises(ConfigurationError, match="lam must be above 0"):
        random.poisson(key, -1.0)


def distance(found: np.ndarray, p: list[float], first: int) -> float:
    """Return the scaled largest distance of the distribution functions of draws and of chances from ``first`` on.

    Its bound for continuous distributions is above that for discrete ones.
    """
    counts = np.bincount(found - first, minlength=len(p))[: len(p)]
    return math.sqrt(found.size) * float(np.abs(np.cumsum(counts) / found.size - np.cumsum(p)).max())


@pytest.mark.parametrize(("n", "p"), [(0, 0.5), (1, 0.3), (7, 0.0), (7, 1.0), (20, 0.4), (300, 0.01), (1000, 0.9)])
def test_binomial(n: int, p: float) -> None:
    found = random.binomial(KEY, n, p, (4000,)).numpy()
    assert found.dtype == np.int64
    assert found.min() >= 0 and found.max() <= n
    assert distance(found, [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)], 0) < 1.95


@pytest.mark.parametrize("p", [1.0, 0.9, 0.3, 0.02])
def test_geometric(p: float) -> None:
    assert np.all(random.geometric(KEY, 1e-20, 3).numpy() == 2**63 - 1)
    found = random.geometric(KEY, p, (4000,)).numpy()
    assert found.dtype == np.int64
    assert found.min() >= 1
    assert distance(found, [p * (1 - p) ** k for k in range(2000)], 1) < 1.95


COUNTS = {
    "binomial": (random.binomial, ([0.0, 8.0, 100.0, 1e6], [0.5, 0.25, 1.0, 0.5])),
    "geometric": (random.geometric, ([0.01, 0.5, 1.0, 1e-6],)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_everywhere(name: str, backend: str) -> None:
    draw, given = COUNTS[name]
    right = draw(random.key(2, backend="numpy"), *[np.asarray(a) for a in given])
    key, *parameters = random.key(2), *[agrad.asarray(a, dtype="float64") for a in given]
    assert draw(key, *parameters).tolist() == right.tolist()
    assert agrad.jit(draw)(key, *parameters).tolist() == right.tolist()
    found = draw(key.raw, *[a.raw for a in parameters], (3, 4))
    assert not isinstance(found, agrad.Tensor)
    assert tuple(found.shape) == (3, 4)


def test_counts_take_arrays_of_integers() -> None:
    found = random.binomial(KEY, np.asarray([3, 10**6]), 0.5).tolist()
    assert 0 <= found[0] <= 3 and abs(found[1] - 500_000) < 3000


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda: random.binomial(KEY, -1, 0.5), "binomial: n must be an integer of at least 0, got -1"),
        (lambda: random.binomial(KEY, 2.5, 0.5), "binomial: n must be an integer of at least 0, got 2.5"),
        (lambda: random.binomial(KEY, math.inf, 0.5), "binomial: n must be an integer of at least 0, got inf"),
        (lambda: random.binomial(KEY, 2, 1.5), "binomial: p must be a number from 0 to 1 or an array, got 1.5"),
        (lambda: random.geometric(KEY, 0.0), "geometric: p must be above 0 and finite, got 0.0"),
        (lambda: random.geometric(KEY, 1.5), "geometric: p must be a number from 0 to 1 or an array, got 1.5"),
    ],
)
def test_counts_refuse_numbers_out_of_range(draw: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        draw()


def test_poisson_of_rates_that_are_none_is_minus_1() -> None:
    found = random.poisson(random.key(0), agrad.asarray([-1.0, np.nan, 1e19, 0.0]))
    assert found.tolist() == [-1, -1, -1, 0]
