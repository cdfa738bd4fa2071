"""Draws have their distribution and its derivatives. Keys are fixed, so no test depends on chance."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad import random

N = 20_000
KEY = random.key(20_260_101, backend="numpy")
INF = math.inf


def draw(distribution: Callable[..., Any], *args: Any, **settings: Any) -> np.ndarray:
    return distribution(KEY, *args, dtype="float64", **settings).numpy()


def erf(x: np.ndarray) -> np.ndarray:
    return np.asarray([math.erf(value) for value in x])


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return np.asarray([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])


def truncated_cdf(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    # in the upper tail, where the difference of distribution functions near 1 would be none
    at = [0.5 * math.erfc(bound / math.sqrt(2)) for bound in (low, high)]
    return lambda x: (at[0] - (1 - normal_cdf(x) if low < 3 else normal_cdf(-x))) / (at[0] - at[1])


def kolmogorov(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """sqrt(n) times the largest distance from the distribution function; above 1.95 with probability 0.001."""
    n = sample.size
    at = cdf(np.sort(sample.reshape(-1)))
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * float(max(np.max(steps[1:] - at), np.max(at - steps[:-1])))


def chi_square(counts: np.ndarray, probabilities: Any) -> float:
    """In standard deviations from its mean, by Wilson and Hilferty; above 3.1 with probability 0.001."""
    expected = np.asarray(probabilities, dtype=float) * counts.sum()
    k = counts.size - 1
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return ((statistic / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))


def at_2(x: np.ndarray) -> np.ndarray:
    """Of Student's distribution of two degrees of freedom."""
    return np.asarray(0.5 + x / (2 * np.sqrt(2 + x * x)))


def at_minus_7(y: np.ndarray) -> np.ndarray:
    """Of the logarithm of a gamma distributed number of a small concentration, up to -7."""
    # P(a, x) is x**a / gamma(a + 1) but for a factor of 1 - a x / (a + 1)
    return np.exp(1e-3 * np.minimum(y, -7.0) - math.lgamma(1.001)) * (y < -7) + (y >= -7)


Cdf = Callable[[np.ndarray], np.ndarray]
CONTINUOUS: dict[str, tuple[Callable[[], np.ndarray], Cdf]] = {}


def continuous(name: str, cdf: Cdf, distribution: Callable[..., Any], *args: Any, **settings: Any) -> None:
    CONTINUOUS[name] = (lambda: draw(distribution, *args, shape=(N,), **settings)), cdf


continuous("uniform", lambda x: x, random.uniform)
continuous("uniform between", lambda x: (x + 3) / 8, random.uniform, low=-3.0, high=5.0)
continuous("normal", normal_cdf, random.normal)
continuous("normal, moved", lambda x: normal_cdf((x - 2) / 3), random.normal, loc=2.0, scale=3.0)
continuous("exponential", lambda x: 1 - np.exp(-x / 2), random.exponential, scale=2.0)
continuous("truncated", truncated_cdf(-1.0, 2.0), random.truncated_normal, -1.0, 2.0)
continuous("truncated to a tail", truncated_cdf(4.0, INF), random.truncated_normal, 4.0, INF)
CONTINUOUS["truncated to the other"] = (
    lambda: -draw(random.truncated_normal, -8.0, -6.0, (N,)), truncated_cdf(6.0, 8.0)
)  # fmt: skip
continuous("gamma 1/2", lambda x: erf(np.sqrt(x)), random.gamma, 0.5)
continuous("gamma 1", lambda x: 1 - np.exp(-x), random.gamma, 1.0)
continuous("gamma 3", lambda x: 1 - np.exp(-2 * x) * (1 + 2 * x + 2 * x * x), random.gamma, 3.0, scale=0.5)
continuous("log of gamma 1/1000", at_minus_7, random.log_gamma, 1e-3)
continuous("beta 2, 1", lambda x: x * x, random.beta, 2.0, 1.0)
continuous("beta 1/2, 1/2", lambda x: 2 / math.pi * np.arcsin(np.sqrt(np.clip(x, 0, 1))), random.beta, 0.5, 0.5)
CONTINUOUS["dirichlet"] = (
    lambda: random.dirichlet(KEY, agrad.asarray([2.0, 0.3, 0.7], backend="numpy"), (N,)).numpy()[:, 0],
    lambda x: x * x,  # the first component is beta distributed, of 2 and 0.3 + 0.7
)

Draw = Callable[[Any, Any, Any], Any]
TRANSFORMED: dict[str, tuple[Draw, float, Cdf]] = {}


def transformed(name: str, parameter: str, value: float, cdf: Cdf, **settings: float) -> None:
    """File a distribution with one of its parameters."""

    def drawn(key: Any, a: Any, shape: Any) -> Any:
        return getattr(random, name)(key, **{parameter: a}, **settings, shape=shape)

    TRANSFORMED[name] = drawn, value, cdf


transformed("laplace", "scale", 2.0, lambda x: np.where(x < 0, np.exp(-np.abs(x) / 2), 2 - np.exp(-np.abs(x) / 2)) / 2)
transformed("gumbel", "loc", 2.0, lambda x: np.exp(-np.exp(2 - x)))
transformed("logistic", "scale", 2.0, lambda x: 1 / (1 + np.exp(-x / 2)))
transformed("cauchy", "scale", 2.0, lambda x: 0.5 + np.arctan(x / 2) / np.pi)
transformed("rayleigh", "scale", 2.0, lambda x: 1 - np.exp(-x * x / 8))
transformed("weibull_min", "concentration", 1.5, lambda x: 1 - np.exp(-((x / 2) ** 1.5)), scale=2.0)
transformed("pareto", "b", 2.5, lambda x: 1 - x**-2.5)
transformed("lognormal", "sigma", 0.5, lambda x: 0.5 + erf(np.log(x) / 0.5 / math.sqrt(2)) / 2)
transformed("chisquare", "df", 4.0, lambda x: 1 - np.exp(-x / 2) * (1 + x / 2))
transformed("t", "df", 2.0, at_2)
_bell = math.sqrt(2 / math.pi)
transformed("maxwell", "scale", 2.0, lambda x: erf(x / 2 / math.sqrt(2)) - _bell * x / 2 * np.exp(-x * x / 8))


@pytest.mark.parametrize("name", [*CONTINUOUS, *TRANSFORMED])
def test_distribution(name: str) -> None:
    if name in CONTINUOUS:
        sample, cdf = CONTINUOUS[name]
        found = sample()
    else:
        drawn, parameter, cdf = TRANSFORMED[name]
        found = drawn(KEY, agrad.asarray(parameter, dtype="float64", backend="numpy"), (N,)).numpy()
        assert kolmogorov(np.maximum(1.1 * found + 0.05, 0.1 if found.min() > 0 else -np.inf), cdf) > 1.95
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    if name == "log of gamma 1/1000":
        found = found[found < -7]
        assert found.size > 0.98 * N
        assert kolmogorov(found, lambda y: cdf(y) / cdf(np.asarray([-7.0 - 1e-12]))) < 1.95
    else:
        assert kolmogorov(found, cdf) < 1.95


def test_the_check_of_distributions_sees_a_wrong_one() -> None:
    sample = draw(random.normal, (N,))
    assert kolmogorov(1.03 * sample + 0.02, normal_cdf) > 1.95
    assert chi_square(np.asarray([1100, 900]), [0.5, 0.5]) > 3.1


def test_moments_of_normal_numbers_in_single_precision() -> None:
    z = random.normal(KEY, (200_000,), dtype="float32").numpy().astype(float)
    for power, expected in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        spread = math.sqrt({1: 1, 2: 2, 3: 15, 4: 96}[power] / z.size)
        assert abs(np.mean(z**power) - expected) < 4 * spread


def test_bits_are_fair_and_independent() -> None:
    drawn = random.bits(KEY, (100_000,), dtype="uint32").numpy()
    ones = np.stack([drawn >> i & 1 for i in range(32)]).astype(float)
    assert np.abs(ones.mean(axis=1) - 0.5).max() < 4 * 0.5 / math.sqrt(drawn.size)
    correlation = np.corrcoef(ones) - np.eye(32)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(drawn.size)


def test_streams_of_split_keys_are_not_correlated() -> None:
    keys = random.split(KEY, 6)
    streams = [draw_of(keys[i, :]) for i in range(6)]
    streams += [draw_of(random.fold_in(KEY, 0)), draw_of(random.fold_in(KEY, 1)), draw_of(KEY), np.roll(streams[0], 1)]
    correlation = np.corrcoef(np.stack(streams)) - np.eye(len(streams))
    assert np.abs(correlation).max() < 4 / math.sqrt(N)
    neighbours = draw_of(random.key(7, backend="numpy")), draw_of(random.key(8, backend="numpy"))
    assert abs(np.corrcoef(*neighbours)[0, 1]) < 4 / math.sqrt(N)


def draw_of(key: Any) -> np.ndarray:
    return random.normal(key, (N,), dtype="float64").numpy()


@pytest.mark.parametrize(("low", "high"), [(0, 7), (-5, 250), (0, 3), (2**62, 2**62 + 11)])
def test_randint(low: int, high: int) -> None:
    counts = np.bincount(random.randint(KEY, low, high, (N,)).numpy() - low, minlength=high - low)
    assert counts.size == high - low
    assert chi_square(counts, np.full(high - low, 1 / (high - low))) < 3.1


def test_a_range_that_is_drawn_again_is_not_biased() -> None:
    """By the remainder alone, the first half of this range would come twice as often as the second."""
    span = 2**62 + 2**61
    found = random.randint(KEY, 0, span, (N,), dtype="int64").numpy()
    assert kolmogorov(found / span, lambda x: x) < 1.95


def test_discrete_distributions() -> None:
    p = np.asarray([0.1, 0.5, 0.15, 0.25])
    on_numpy = agrad.asarray(p)
    for counts in (
        np.bincount(random.categorical(KEY, agrad.log(on_numpy), (N,)).numpy()),
        np.bincount(random.choice(KEY, 4, (N,), p=on_numpy * 7).numpy()),
        np.bincount(np.searchsorted([0.12, 0.2, 0.3], random.choice(KEY, on_numpy, (N,), p=on_numpy).numpy()))[
            [0, 3, 1, 2]
        ],
    ):
        assert chi_square(counts, p) < 3.1
    for kept in (random.bernoulli(KEY, 0.3, (N,)), random.bernoulli(KEY, agrad.asarray(np.asarray(0.3)), (N,))):
        ones = int(kept.numpy().sum())
        assert chi_square(np.asarray([ones, N - ones]), [0.3, 0.7]) < 3.1
    never = random.choice(KEY, 3, (N,), p=agrad.asarray(np.asarray([0.0, 1.0, 0.0]))).numpy()
    assert set(never) == {1}
    impossible = agrad.asarray(np.asarray([-np.inf, 0.0, -np.inf]))
    assert set(random.categorical(KEY, impossible, (N,)).numpy()) == {1}


def test_orders_all_come_equally_often() -> None:
    keys = random.split(KEY, 4800)
    orders = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    counts, pairs = np.zeros(24, int), np.zeros((4, 4), int)
    p = np.asarray([0.4, 0.3, 0.2, 0.1])
    drawn = agrad.vmap(lambda key: random.permutation(key, 4))(keys).tolist()
    chosen = agrad.vmap(lambda key: random.choice(key, 4, (2,), replace=False, p=agrad.asarray(p)))(keys).tolist()
    for order, (a, b) in zip(drawn, chosen, strict=True):
        counts[orders[tuple(order)]] += 1
        pairs[a, b] += 1
    assert chi_square(counts, np.full(24, 1 / 24)) < 3.1
    expected = p[:, None] * p[None, :] / (1 - p[:, None])
    off = ~np.eye(4, dtype=bool)
    assert not pairs.diagonal().any()
    assert chi_square(pairs[off], expected[off]) < 3.1


# ------------------------------------------------------------------ derivatives


def lower_gamma(a: float, x: float) -> float:
    """P(a, x) by its power series."""
    term = math.exp(a * math.log(x) - x - math.lgamma(a + 1))
    total, n = term, 0
    while term > 1e-18 * total:
        n += 1
        term *= x / (a + n)
        total += term
    return total


def quantile(a: float, p: float, y: float) -> float:
    """The logarithm of the x at which P(a, x) = p, by Newton's method from ``y``."""
    for _ in range(60):
        step = (lower_gamma(a, math.exp(y)) - p) / math.exp(a * y - math.exp(y) - math.lgamma(a))
        y -= step
        if abs(step) < 1e-14:
            break
    return y


@pytest.mark.parametrize("alpha", [0.15, 0.8, 1.0, 2.5, 9.0, 30.0])
def test_the_derivative_of_gamma_is_that_of_the_quantile(alpha: float, backend: str) -> None:
    key = random.key(11)
    a = agrad.asarray(alpha, dtype=agrad.float64)

    def f(a: Any) -> Any:
        return random.log_gamma(key, a, (6,))

    y, slope = agrad.jvp(f, (a,), (agrad.ones_like(a),))
    _, second = agrad.jvp(lambda a: agrad.jvp(f, (a,), (agrad.ones_like(a),))[1], (a,), (agrad.ones_like(a),))
    y, slope, second = (np.asarray(v.numpy()) for v in (y, slope, second))
    for i, value in enumerate(y.tolist()):
        p, h = lower_gamma(alpha, math.exp(value)), 1e-3 * alpha
        near = [quantile(alpha + k * h, p, value) for k in (-2, -1, 0, 1, 2)]
        first = (near[0] - 8 * near[1] + 8 * near[3] - near[4]) / (12 * h)
        twice = (-near[0] + 16 * near[1] - 30 * near[2] + 16 * near[3] - near[4]) / (12 * h * h)
        assert math.isclose(slope[i], first, rel_tol=1e-7)
        assert math.isclose(second[i], twice, rel_tol=1e-4, abs_tol=1e-8)


@pytest.mark.needs("jax")
def test_gradients_of_gamma_are_jax_s() -> None:
    import jax

    with agrad.use_backend("numpy"):
        alpha = np.geomspace(0.05, 200.0, 40).astype(np.float32)
        x, gradient = agrad.value_and_grad(lambda a: agrad.sum(random.gamma(KEY, a)))(alpha)
        samples = random.gamma(KEY, alpha).numpy()
    right = np.asarray(jax.lax.random_gamma_grad(alpha, samples))
    np.testing.assert_allclose(gradient, right, rtol=2e-4)
    assert x == samples.sum()


def test_derivatives_of_parameters(backend: str) -> None:
    key = random.key(1)
    at = {"loc": 0.7, "scale": 1.3}
    z = random.normal(key, (50,), dtype="float64").numpy()
    leaves = {name: agrad.asarray(v, dtype=agrad.float64, requires_grad=True) for name, v in at.items()}
    x = random.normal(key, (50,), **leaves)
    np.testing.assert_allclose(x.detach().numpy(), 0.7 + 1.3 * z, rtol=1e-15)
    agrad.sum(x).backward()
    assert math.isclose(leaves["loc"].grad.item(), 50)
    assert math.isclose(leaves["scale"].grad.item(), z.sum(), rel_tol=1e-12)

    def check(f: Callable[[Any], Any], at: float) -> None:
        a, h = agrad.asarray(at, dtype=agrad.float64), 1e-6
        found = agrad.jvp(f, (a,), (agrad.ones_like(a),))[1].numpy()
        differences = (f(a + h).numpy() - f(a - h).numpy()) / (2 * h)
        np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-7)
        assert np.abs(found).max() > 0.01

    check(lambda a: random.uniform(key, (9,), low=a, high=3.0), 0.4)
    check(lambda a: random.uniform(key, (9,), low=-1.0, high=a), 0.4)
    check(lambda a: random.exponential(key, (9,), scale=a), 0.4)
    check(lambda a: random.truncated_normal(key, a, 3.0, (9,)), 0.4)
    check(lambda a: random.truncated_normal(key, -INF, a, (9,), loc=1.0, scale=2.0), 0.4)
    check(lambda a: random.truncated_normal(key, -1.0, 1.0, (9,), loc=a, scale=a), 0.4)
    check(lambda a: random.gamma(key, 2.0, (9,), scale=a), 0.4)


def test_gradients_of_expectations() -> None:
    """The mean of the samples' gradient is the gradient of the mean, where that has a formula."""
    n = 40_000

    def close(f: Callable[[Any], Any], at: Any, right: Any) -> None:
        found = agrad.grad(lambda a: agrad.sum(f(a)) / n)(np.asarray(at))
        np.testing.assert_allclose(found, right, rtol=0.02, atol=0.002)

    close(lambda a: random.gamma(KEY, a, (n,)), 0.3, 1.0)
    close(lambda a: random.gamma(KEY, a, (n,)) ** 2, 2.0, 5.0)
    close(lambda a: random.beta(KEY, a, 1.5, (n,)), 2.0, 1.5 / 3.5**2)
    close(lambda b: random.beta(KEY, 2.0, b, (n,)), 1.5, -2.0 / 3.5**2)
    alpha = np.asarray([0.5, 1.0, 2.0])
    right = (np.asarray([1.0, 0, 0]) - alpha[0] / 3.5) / 3.5
    close(lambda a: random.dirichlet(KEY, a, (n,))[:, 0], alpha, right)
    sums = agrad.sum(random.dirichlet(KEY, agrad.asarray(alpha), (50,)), axis=-1).numpy()
    np.testing.assert_allclose(sums, 1.0, rtol=1e-14)


def test_small_concentrations_are_finite() -> None:
    a = agrad.asarray(np.asarray([1e-4, 1e-3, 1e-2]), requires_grad=True)
    x = random.beta(KEY, a, a, (2000, 3))
    agrad.sum(x).backward()
    assert np.isfinite(a.grad.numpy()).all()
    assert np.isfinite(x.detach().numpy()).all()
    points = random.dirichlet(KEY, agrad.full((4,), 1e-3, dtype=agrad.float32), (500,)).numpy()
    assert np.isfinite(points).all()
    np.testing.assert_allclose(points.sum(axis=-1), 1, rtol=1e-6)


def test_bounds_are_kept() -> None:
    for dtype in ("float32", "float64"):
        found = random.truncated_normal(KEY, 30.0, 30.001, (1000,), dtype=dtype).numpy()
        assert ((found >= np.asarray(30.0, dtype)) & (found <= np.asarray(30.001, dtype))).all()
        for drawn in (random.uniform(KEY, (100_000,), dtype=dtype), random.beta(KEY, 3.0, 2.0, (1000,), dtype=dtype)):
            assert ((drawn.numpy() >= 0) & (drawn.numpy() < 1)).all()
        assert (random.exponential(KEY, (100_000,), dtype=dtype).numpy() > 0).all()


# ------------------------------------------------------------------ transformed draws and counts


@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_same_everywhere_and_in_transforms(name: str, backend: str) -> None:
    draw, parameter, _ = TRANSFORMED[name]
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


def test_rademacher(backend: str) -> None:
    found = random.rademacher(random.key(1), (4000,)).to("numpy").numpy()
    assert set(found.tolist()) == {-1, 1}
    assert abs(found.mean()) < 0.06


def test_poisson_everywhere(backend: str) -> None:
    key, rate = random.key(2), agrad.asarray([0.5, 4.0, 100.0, 1e6], dtype="float64")
    right = random.poisson(random.key(2, backend="numpy"), np.asarray([0.5, 4.0, 100.0, 1e6])).numpy()
    assert random.poisson(key, rate).tolist() == right.tolist()
    assert agrad.jit(random.poisson)(key, rate).tolist() == right.tolist()
    assert abs(right[3] - 1e6) < 5e3


def distance(found: np.ndarray, p: list[float], first: int) -> float:
    """Return the scaled largest distance of the distribution functions of draws and of chances from ``first`` on.

    Its bound for continuous distributions is above that for discrete ones.
    """
    counts = np.bincount(found - first, minlength=len(p))[: len(p)]
    return math.sqrt(found.size) * float(np.abs(np.cumsum(counts) / found.size - np.cumsum(p)).max())


def of_poisson(rate: float) -> tuple[Callable[[], Any], list[float], int]:
    p = [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(10 + int(2 * rate))]
    return lambda: random.poisson(KEY, rate, (4000,)), p, 0


def of_binomial(n: int, p: float) -> tuple[Callable[[], Any], list[float], int]:
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    return lambda: random.binomial(KEY, n, p, (4000,)), chances, 0


def of_geometric(p: float) -> tuple[Callable[[], Any], list[float], int]:
    return lambda: random.geometric(KEY, p, (4000,)), [p * (1 - p) ** k for k in range(2000)], 1


DISCRETE = {
    **{f"poisson {rate}": of_poisson(rate) for rate in (0.01, 0.7, 3.0, 30.0, 1000.0)},
    **{f"binomial {n} {p}": of_binomial(n, p) for n, p in ((1, 0.3), (20, 0.4), (300, 0.01), (1000, 0.9))},
    **{f"geometric {p}": of_geometric(p) for p in (1.0, 0.9, 0.3, 0.02)},
}
"""Draws of counts, the chances of all counts, and the first of them."""


@pytest.mark.parametrize("name", DISCRETE)
def test_distribution_of_counts(name: str) -> None:
    draw, chances, first = DISCRETE[name]
    found = draw().numpy()
    assert found.dtype == np.int64
    assert found.min() >= first and (name[0] != "b" or found.max() < len(chances))
    assert distance(found, chances, first) < 1.95
    if name[0] == "p":
        rate = float(name.split()[1])
        assert abs(found.mean() - rate) < 4 * math.sqrt(rate / found.size)


def test_counts_of_arrays() -> None:
    n, p = np.asarray([0, 7, 7]), np.asarray([0.5, 0.0, 1.0])
    assert (random.binomial(KEY, n, p, (1000, 3)).numpy() == [0, 0, 7]).all()
    assert np.all(random.geometric(KEY, 1e-20, 3).numpy() == 2**63 - 1)
    few, many = random.binomial(KEY, np.asarray([3, 10**6]), 0.5).tolist()
    assert 0 <= few <= 3 and abs(many - 500_000) < 3000


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
    inside = agrad.jit(draw)(key, *parameters).tolist()
    unknown = name == "binomial" and backend == "jax"  # for a million trials; it may never be another number
    assert inside == ([*right.tolist()[:3], -1] if unknown else right.tolist())
    found = draw(key.raw, *[a.raw for a in parameters], (3, 4))
    assert not isinstance(found, agrad.Tensor)
    assert tuple(found.shape) == (3, 4)


INVALID = {
    "poisson": (random.poisson, [[-1.0, np.nan, 1e19, 0.0]], [-1, -1, -1, 0]),
    "binomial trials": (random.binomial, [[-5.0, 2.5, np.inf, np.nan, 3.0], [0.5, 0.5, 0.5, 0.5, 1.0]], [-1] * 4 + [3]),
    "binomial chance": (random.binomial, [[9.0, 9.0, 9.0, 9.0], [-0.1, 1.1, np.nan, 1.0]], [-1, -1, -1, 9]),
    "geometric": (random.geometric, [[0.0, -0.1, 1.5, np.nan, 1.0]], [-1, -1, -1, -1, 1]),
}


@pytest.mark.parametrize("name", INVALID)
def test_counts_of_invalid_parameters_are_minus_1(name: str, backend: str) -> None:
    draw, given, right = INVALID[name]
    parameters = [agrad.asarray(a, dtype="float64") for a in given]
    assert draw(random.key(0), *parameters).tolist() == right
    assert agrad.jit(draw)(random.key(0), *parameters).tolist() == right
