"""``agrad.scipy.stats``: ends of supports, tails, parameters, kinds of arrays, errors."""

import importlib
import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_jvp
from refusals import Refusal, refuses
from scipy_calls import MINOR
from scipy_stats_calls import CONTINUOUS, DISCRETE

import agrad
from agrad.errors import DetachError, MissingFunctionError, OperandError, RefusedFunctionError, ShapeError
from agrad.scipy import stats
from agrad.testing import check_grads

INF = np.inf
PLACES = np.asarray([-INF, -40.0, -1.0, -1e-5, 0.0, 0.01, 0.1, 0.5, 1.0, 1.5, 3.0, 8.0, 40.0, np.nan])
PROBABILITIES = np.asarray([-0.1, 0.0, 1e-20, 1e-5, 0.1, 0.5, 0.9, 1 - 1e-10, 1.0, 1.1, np.nan])
PARAMETERS: dict[str, list[tuple[float, ...]]] = {
    "lognorm": [(0.1,), (5.0,), (-1.0,)],
    "pareto": [(0.3,), (100.0,), (0.0,)],
    "weibull_min": [(0.2,), (1.0,), (2.0,), (0.0,)],
    "gamma": [(0.5,), (1.0,), (2.0,), (100.0,), (0.0,)],
    "chi2": [(0.1,), (2.0,), (300.0,)],
    "invgamma": [(0.5,), (100.0,), (-1.0,)],
    "beta": [(0.5, 0.5), (1.0, 1.0), (1.0, 3.0), (100.0, 200.0), (-1.0, 2.0)],
    "gennorm": [(0.4,), (1.0,), (2.0,), (8.0,), (0.0,)],
    "t": [(0.4,), (1.0,), (30.0,), (1e5,), (0.0,)],
    "truncnorm": [(-1.0, 2.0), (-INF, 1.0), (3.0, INF), (10.0, 11.0), (2.0, 1.0)],
    "poisson": [(0.0,), (5.0,), (300.0,), (-1.0,)],
    "binom": [(0, 0.5), (40, 0.5), (40, 0.0), (40, 1.0), (3.5, 0.5)],
    "bernoulli": [(0.0,), (1.0,), (1.2,)],
    "nbinom": [(0.5, 0.3), (100.0, 0.01), (3.0, 1.0), (3.0, 0.0)],
    "geom": [(0.01,), (1.0,), (0.0,)],
}
NAMES = [*CONTINUOUS, "truncnorm", *DISCRETE]
QUIET = ("ignore:divide by zero encountered in power",)


@pytest.mark.needs("scipy")
@pytest.mark.filterwarnings(*QUIET)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "t" or MINOR > 16])  # 1.17 corrects its tails
def test_edges_are_those_of_scipy(name: str) -> None:
    theirs, ours = getattr(importlib.import_module("scipy.stats"), name), getattr(stats, name)
    methods = ["cdf", "sf", "logcdf", "logsf"]
    methods += ["pmf", "logpmf"] if name in DISCRETE else ["pdf", "logpdf"]
    methods += ["ppf", "isf"] if name in CONTINUOUS else []
    compared = 0
    for method in methods:
        places = PROBABILITIES if method in ("ppf", "isf") else PLACES
        for shapes in PARAMETERS.get(name, [()]):
            with np.errstate(all="ignore"):
                expected = getattr(theirs, method)(places, *shapes)
            found = getattr(ours, method)(places, *shapes)
            if np.all(np.isnan(found)) and np.isnan(expected[6]):
                # SciPy has values of some distributions beyond the support, whatever the parameters are
                expected = found
            # SciPy's formulas have NaNs at infinite places, logarithms of what underflows, and 1 + q for a small q
            lost = np.isnan(expected) & np.isinf(places)
            if method.startswith("log"):
                lost |= (expected == -INF) & (found < -600)
            lost |= (method == "ppf") & (expected == 0) & (found < 1e-15)
            expected = np.where(lost, found, expected)
            # SciPy's logarithms of probabilities near 1 are rounded for integers
            atol = 1e-15 if method.startswith("log") else 1e-300
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=atol, err_msg=f"{method} {shapes}")
            compared += 1
    assert compared >= len(methods)


@pytest.mark.filterwarnings(*QUIET)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in DISCRETE])
def test_outside_of_the_support_derivatives_are_zero(name: str) -> None:
    shapes = {"truncnorm": (-1.0, 2.0)}.get(name, tuple(float(s[0]) for s in CONTINUOUS.get(name, ((),))[0]))
    x = np.asarray([-INF, -3.0, -1e-3, 0.5, 7.0, 300.0, INF])
    for method, tail in (("pdf", 0.0), ("logpdf", -INF), ("cdf", None), ("sf", None)):
        f = getattr(getattr(stats, name), method)
        values = f(x, *shapes)
        slopes = agrad.elementwise_grad(lambda v, f=f: f(v, *shapes))(x)
        assert np.all(np.isfinite(slopes)), method
        if tail is not None:
            assert np.all(slopes[values == tail] == 0)
        parameters = [np.asarray(s) for s in (*shapes, 0.3, 1.2)]
        smooth = agrad.exp if method == "logpdf" else agrad.positive

        def total(*p: Any, f: Any = f, smooth: Any = smooth) -> Any:
            return agrad.sum(smooth(f(x[1:-1], *p)))

        found = agrad.grad(total, argnums=tuple(range(len(parameters))))(*parameters)
        assert all(np.all(np.isfinite(g)) for g in found), (method, found)


COUNTS, CHANCES = np.asarray([[1, 1, 1], [-1, 4, 1], [1.5, 1.5, 1.0]]), np.asarray([0.2, 0.5, 0.3])
ENDS = np.asarray([0.0, 1.0])
SINGLE = np.asarray([0.1, 0.3, 0.9], np.float32)
# logarithms of tails that underflow: SciPy's log_ndtr(-40), and -log1p(exp(900))
VALUES: dict[str, tuple[Any, Any, float]] = {
    "norm far out": (lambda: stats.norm.logcdf(-40.0), -804.6084420137538, 1e-11),
    "logistic far out": (lambda: stats.logistic.logsf(900.0), -900.0, 1e-11),
    "norm without a scale": (lambda: stats.norm.pdf(0.3, 0.0, np.asarray([0.0, -1.0, np.nan])), [np.nan] * 3, 0.0),
    "the mean without a scale": (lambda: stats.norm.mean(0.0, np.asarray([0.0, -1.0])), [np.nan] * 2, 0.0),
    "norm of infinite scale": (lambda: [stats.norm.std(0.0, INF), stats.norm.var(0.0, INF)], [INF] * 2, 0.0),
    "laplace of infinite scale": (lambda: [stats.laplace.std(0.0, INF), stats.laplace.var(0.0, INF)], [INF] * 2, 0.0),
    "expon of infinite scale": (lambda: [stats.expon.std(0.0, INF), stats.expon.var(0.0, INF)], [INF] * 2, 0.0),
    "lognorm of infinite scale": (lambda: stats.lognorm.std(0.5, 0.0, np.asarray(INF)), INF, 0.0),
    "dirichlet off the simplex": (lambda: stats.dirichlet.pdf([0.5, 0.6], [1.0, 1.0]), np.nan, 0.0),
    "dirichlet below 0": (lambda: stats.dirichlet.pdf([0.5, 0.5], [1.0, -1.0]), np.nan, 0.0),
    "dirichlet at an end": (lambda: stats.dirichlet.pdf([0.0, 1.0], [1.0, 2.0]), 2.0, 0.0),
    "multinomial outside": (lambda: stats.multinomial.logpmf(COUNTS, 4, CHANCES), [-INF] * 3, 0.0),
    "multinomial, chances above 1": (lambda: stats.multinomial.pmf([1, 1, 2], 4, [0.9, 0.5, 0.1]), np.nan, 0.0),
    # the last chance is what the others leave, as in SciPy
    "multinomial, the last chance": (lambda: stats.multinomial.pmf([1, 1, 2], 4, [0.2, 0.5, 0.0]), 0.108, 1e-12),
    "truncnorm at its ends": (lambda: stats.truncnorm.ppf(ENDS, -1.0, 2.0), [-1, 2], 0.0),
    "beta in single precision": (lambda: stats.beta.cdf(SINGLE, np.float32(20), np.float32(1e3)), [1.0] * 3, 1e-6),
    "t in single precision": (lambda: stats.t.cdf(SINGLE, np.float32(1e6)), stats.norm.cdf(SINGLE * 1.0), 1e-6),
    "beta.sf near 0": (lambda: stats.beta.sf(1e-17, 0.05, 2.0), 1 - 1.05 * 1e-17**0.05, 1e-12),
    "beta.logcdf near 0": (lambda: stats.beta.logcdf(1e-17, 0.05, 2.0), math.log(1.05 * 1e-17**0.05), 1e-12),
    "beta.logcdf of a small a": (lambda: stats.beta.logcdf(1e-17, 0.001, 1.0), 0.001 * math.log(1e-17), 1e-12),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    call, expected, rtol = VALUES[name]
    np.testing.assert_allclose(np.asarray(call(), float), expected, rtol=rtol)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a: stats.gamma.logcdf(x, a), lambda x, a: stats.gamma.logsf(1 / x, a),
        lambda x, a: stats.beta.logcdf(x, a, 2.0), lambda x, a: stats.t.logcdf(-1 / x, a),
        lambda x, a: stats.poisson.logsf(150.0, x) + 0 * a, lambda x, a: stats.expon.logcdf(x, scale=a),
    ],
)  # fmt: skip
def test_tails_that_underflow_have_derivatives(f: Any) -> None:
    # a step of the logarithm of x is a step of the tail, by either side of where it underflows
    x, a = np.asarray([1e-3, 1e-4, 1e-60]), np.asarray(7.5)
    assert np.all(np.isfinite(f(x, a)))
    by_x, by_a = agrad.grad(lambda x, a: agrad.sum(f(x, a)), argnums=(0, 1))(x, a)
    assert np.all(np.isfinite(by_x)) and np.isfinite(by_a)
    twice = agrad.grad(agrad.grad(lambda a: agrad.sum(f(x[1:], a))))(a)
    assert np.isfinite(twice)


def test_quantiles_invert() -> None:
    q = np.asarray([1e-300, 1e-100, 1e-12, 0.02, 0.3, 0.4999, 0.5, 0.5001, 0.97, 1 - 1e-12])
    for name, shapes in (("gamma", (1.1,)), ("gamma", (250.0,)), ("beta", (1.1, 3.0)), ("t", (3.0,)), ("t", (1e9,))):
        d = getattr(stats, name)
        np.testing.assert_allclose(d.cdf(d.ppf(q, *shapes), *shapes), q, rtol=1e-9, err_msg=name)
        # no float64 is near enough to 1 for the smallest of beta's
        some = q[2:] if name == "beta" else q
        np.testing.assert_allclose(
            d.sf(d.isf(some, *shapes), *shapes), some, rtol=1e-3 if name == "beta" else 1e-9, err_msg=name
        )


@pytest.mark.parametrize("name", NAMES)
def test_kinds_and_shapes(name: str, place: Any) -> None:
    d = getattr(stats, name)
    shapes = {"truncnorm": (-1.0, 2.0)}.get(name) or {**CONTINUOUS, **DISCRETE}[name]
    shapes = shapes[0] if isinstance(shapes[0], tuple) else shapes
    shapes = tuple(float(np.ravel(s)[0]) for s in shapes)
    method = "logpmf" if name in DISCRETE else "logpdf"
    single = place(np.asarray([1.0, 2.0], dtype=np.float32))
    out = getattr(d, method)(single, *shapes)
    assert type(out) is type(single) and out.dtype == single.dtype
    assert "float64" in str(getattr(d, method)(place(np.asarray([1, 2])), *shapes).dtype)
    assert tuple(d.cdf(place(np.zeros((0, 3))), *shapes).shape) == (0, 3)
    loc = place(np.zeros((3, 1), dtype=np.float32))
    assert tuple(getattr(d, method)(single, *shapes, loc).shape) == (3, 2)


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log")
def test_entropy_at_a_class_without_probability(place: Any) -> None:
    p, q = np.asarray([0.0, 1.0, 3.0]), np.asarray([0.25, 0.75])
    found = agrad.asarray(agrad.grad(stats.entropy)(place(p))).numpy()
    np.testing.assert_allclose(found, [INF, *(-np.log(q) - stats.entropy(q)) / 4], rtol=1e-12)
    even = place(np.ones(3))
    found = agrad.asarray(agrad.grad(lambda p: stats.entropy(p, even))(place(p))).numpy()
    np.testing.assert_allclose(found, [-INF, *(np.log(q) + stats.entropy(q)) / 4], rtol=1e-12)


def test_a_scale_below_0_is_masked() -> None:
    slope = agrad.grad(lambda s: agrad.sum(agrad.where(s > 0, stats.norm.pdf(0.3, 0.0, s), 0.0)))
    assert np.all(np.isfinite(slope(np.asarray([-1.0, 0.5]))))


NORMAL = stats.multivariate_normal
REFUSED: list[Refusal] = [
    (OperandError, "'df' is missing", lambda: stats.t.pdf(0.3)),
    (OperandError, "'size' must be one of loc, scale", lambda: stats.norm.pdf(0.3, size=3)),
    (OperandError, "'loc' is given twice", lambda: stats.norm(0.3, loc=0.2)),
    (OperandError, "the parameters mu, loc", lambda: stats.poisson.pmf(3, 1.0, 0, 1.0)),
    (MissingFunctionError, "truncnorm does not support mean", lambda: stats.truncnorm.mean(-1.0, 1.0)),
    *[
        (MissingFunctionError, "does not support ...", lambda d=d, f=f, p=p: getattr(d, f)(0.3, *p))
        for d, p in ((stats.vonmises, (2.0,)), (stats.betabinom, (5, 1.0, 2.0)))
        for f in ("cdf", "sf", "logcdf", "ppf", "isf")
    ],
    (AttributeError, "expect", lambda: stats.norm().expect(3)),
    (ShapeError, "must have length 1, like the mean, got 3", lambda: NORMAL.logpdf([0.0, 1.0], cov=[1.0, 2.0, 3.0])),
    (ShapeError, "x must have shape (..., 2)", lambda: NORMAL.logpdf([0.0, 1.0, 2.0], [0.0, 0.0])),
    (ShapeError, "must have length 3 or 2", lambda: stats.dirichlet.pdf([0.3], [1.0, 2.0, 3.0])),
    (OperandError, "bw_method", lambda: stats.gaussian_kde([0.0, 1.0], "wide")),
    (ShapeError, "points must have shape (1, m)", lambda: stats.gaussian_kde([0.0, 1.0])(np.zeros((2, 3)))),
    (OperandError, "two points", lambda: stats.gaussian_kde([0.0])),
    (OperandError, "nan_policy", lambda: stats.zscore([0.0, 1.0], nan_policy="omit")),
    (OperandError, "base", lambda: stats.entropy([0.5, 0.5], base=-1.0)),
    (ShapeError, "two samples", lambda: stats.pearsonr([0.5], [1.0])),
]
test_errors = refuses(REFUSED)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("poisson", (2e3,)), ("binom", (100, 0.75)), ("bernoulli", (0.2,)), ("nbinom", (2.5, 0.05)), ("geom", (1e-4,))],
)
def test_discrete_quantiles_are_steps(name: str, parameters: tuple[Any, ...]) -> None:
    dist = getattr(stats, name)(*parameters)
    q = np.asarray([1e-9, 0.02, 0.3, 0.5, 0.97, 1 - 1e-12])
    k = dist.ppf(q)
    assert np.all((dist.cdf(k) >= q) & (dist.cdf(k - 1) < q))
    k = dist.isf(q)
    assert np.all((dist.sf(k) <= q) & (dist.sf(k - 1) > q))
    low, high = (1 if name == "geom" else 0), {"binom": 100, "bernoulli": 1}.get(name, np.inf)
    assert np.array_equal(dist.ppf(np.asarray([0.0, 1.0])), [low - 1, high])
    assert np.array_equal(dist.isf(np.asarray([0.0, 1.0])), [high, low - 1])
    assert np.all(np.isnan(dist.ppf(np.asarray([-0.1, 1.1, np.nan]))))


def test_quantiles_of_a_truncated_tail() -> None:
    a = np.asarray([-40.0, 20.0, 45.0])
    for q in (1e-12, 0.3, 1 - 1e-12):
        np.testing.assert_allclose(stats.truncnorm.sf(stats.truncnorm.isf(q, a, np.inf), a, np.inf), q, rtol=1e-9)


@pytest.mark.parametrize(
    ("f", "xs"),
    [(stats.gamma.ppf, (0.3, 1.7)), (stats.t.isf, (0.2, 3.7)), (stats.truncnorm.ppf, (0.3, -0.7, 1.2))],
    ids=["gamma", "t", "truncnorm"],
)
def test_second_derivatives_of_quantiles(f: Any, xs: tuple[float, ...]) -> None:
    slopes = agrad.grad(f, argnums=tuple(range(len(xs))))
    check_jvp(slopes, list(map(np.asarray, xs)), np.random.default_rng(0))


@pytest.mark.parametrize("scale", [1e160, 1e-170])
def test_pearsonr_of_large_and_small_numbers(scale: float) -> None:
    x, y = np.asarray([1.0, 2.0, 4.0]), np.asarray([1.0, 3.0, 2.0])
    assert_close(stats.pearsonr(x * scale, y).statistic, stats.pearsonr(x, y).statistic, "pearsonr")
    check_grads(lambda x: stats.pearsonr(x, y).statistic, (x,))


def test_t_of_infinitely_many_degrees_of_freedom_is_normal() -> None:
    x, q = np.asarray([-3.0, 0.1, 1.0]), np.asarray([1e-9, 0.3, 0.9])
    for method, at in (("logpdf", x), ("cdf", x), ("logcdf", x), ("sf", x), ("ppf", q), ("isf", q)):
        assert_close(getattr(stats.t, method)(at, np.inf), getattr(stats.norm, method)(at), method)
    point = [1.0, 2.0]
    normal = stats.multivariate_normal.logpdf(point, [1.0, 2.0], [1.0, 2.0])
    assert_close(stats.multivariate_t.logpdf(point, [1.0, 2.0], [1.0, 2.0], np.inf), normal, "multivariate_t")


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_singular_matrices(rank: int) -> None:
    theirs = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(rank)
    root, mean = rng.normal(size=(3, rank)), rng.normal(size=3)
    matrix = root @ root.T
    places = np.concatenate([rng.normal(size=(4, 3)), mean + rng.normal(size=(4, rank)) @ root.T])
    for name in ("logpdf", "pdf"):
        expected = getattr(theirs.multivariate_normal, name)(places, mean, matrix, allow_singular=True)
        found = getattr(stats.multivariate_normal, name)(places, mean, matrix, allow_singular=True)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
        assert (rank < 3) == bool(np.any(np.isin(expected, [-np.inf, 0.0])))
    expected = theirs.multivariate_t.logpdf(places, mean, matrix, 2.5)
    np.testing.assert_allclose(
        stats.multivariate_t.logpdf(places, mean, matrix, 2.5, allow_singular=True), expected, rtol=1e-8
    )


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("name", NAMES)
def test_formulas_in_docstrings_are_those_of_the_densities(name: str) -> None:
    special = importlib.import_module("scipy.special")
    distribution = getattr(stats, name)
    head, _, rest = (type(distribution).__doc__ or "").partition("::\n\n")
    formula, _, where = rest.split("\n")[0].strip().partition(" for ")
    values: dict[str, Any] = {n: getattr(special, n) for n in ("gamma", "beta", "i0", "ndtr", "binom", "factorial")}
    values |= {n: getattr(np, n) for n in ("exp", "log", "sqrt", "cos", "pi")}
    known = {"n": 5, "p": 0.3, "mu": 2.5, "df": 3.0, "s": 0.7, "kappa": 1.3, "c": 0.6, "beta": 1.7, "a": 1.4, "b": 2.2}
    given = {key: known[key] for key in distribution.shapes}
    counts = "``pmf(" in head
    settings = {"loc": 1.0} if counts else {"loc": 1.0, "scale": 1.5}
    for x in np.arange(8.0) if counts else (-2.3, -0.4, 1.3, 1.8, 2.6):
        z = (x - 1.0) / settings.get("scale", 1.0)
        there = {**values, "z": z, "k": z, **settings, **given}
        expected = eval(formula, {}, there) if eval(where or "True", {}, there) else 0.0
        found = getattr(distribution, "pmf" if counts else "pdf")(x, *given.values(), **settings)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


DRAWN: list[tuple[str, tuple[Any, ...]]] = [
    *[(name, ()) for name in ("cauchy", "expon", "gumbel_l", "gumbel_r", "halfnorm", "laplace", "logistic")],
    ("norm", ()), ("uniform", ()),
    ("bernoulli", (0.3,)), ("beta", (2.0, 3.0)), ("betabinom", (5, 2.0, 3.0)), ("binom", (5, 0.3)), ("chi2", (2.0,)),
    ("dirichlet", ([2.0, 3.0],)), ("gamma", (2.0,)), ("gennorm", (1.5,)), ("geom", (0.3,)), ("invgamma", (3.0,)),
    ("lognorm", (0.5,)), ("multinomial", (5, [0.3, 0.7])),
    ("multivariate_normal", ([1.0, 2.0], [[2.0, 1.0], [1.0, 2.0]])),
    ("multivariate_t", ([1.0, 2.0], [[2.0, 1.0], [1.0, 2.0]], 3)), ("nbinom", (5, 0.3)), ("pareto", (2.0,)),
    ("poisson", (3.0,)), ("t", (3.0,)), ("truncnorm", (-1.0, 2.0)), ("vonmises", (2.0,)), ("weibull_min", (1.5,)),
    ("wrapcauchy", (0.4,)),
]  # fmt: skip


@pytest.mark.needs("scipy")
@pytest.mark.parametrize(("name", "args"), DRAWN, ids=[name for name, _ in DRAWN])
def test_draws_are_those_of_scipy(name: str, args: tuple[Any, ...]) -> None:
    expected = getattr(pytest.importorskip("scipy.stats"), name).rvs(*args, size=4, random_state=3)
    found = getattr(stats, name).rvs(*args, size=4, random_state=3)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(getattr(stats, name)(*args).rvs(4, 3), expected)


def test_every_distribution_draws() -> None:
    assert {name for name in stats.__all__ if hasattr(getattr(stats, name), "logcdf")} <= {name for name, _ in DRAWN}


@pytest.mark.needs("scipy")
def test_draws_are_where_the_parameters_are(place: Any, backend: str) -> None:
    loc = place(np.asarray([1.0, 2.0]))
    expected = stats.norm.rvs(np.asarray([1.0, 2.0]), size=(3, 2), random_state=3)
    for given, kind in ((loc, type(loc)), (agrad.asarray(loc), agrad.Tensor)):
        found = stats.norm.rvs(given, size=(3, 2), random_state=3)
        assert isinstance(found, np.ndarray if backend == "numpy" and given is loc else kind)
        np.testing.assert_allclose(agrad.asarray(found).numpy(), expected)
    # in a transform, written into an array that is created there
    with agrad.use_backend("numpy"):
        draws = stats.norm.rvs(size=2, random_state=3)
        slope = agrad.grad(lambda x: agrad.sum(x * stats.norm.rvs(size=2, random_state=3)))(loc)
    np.testing.assert_allclose(agrad.asarray(slope).numpy(), draws)


@pytest.mark.needs("scipy")
def test_draws_that_are_refused() -> None:
    x = np.asarray([1.0, 2.0])
    with pytest.raises(RefusedFunctionError, match=r"stats\.norm\.rvs must not be called.*agrad\.random"):
        agrad.jit(lambda x: x + stats.norm.rvs(size=2))(x)
    for transform in (agrad.grad, lambda f: agrad.jvp(f, (x,), (x,))):
        with pytest.raises(DetachError, match="detach"):
            found = transform(lambda x: agrad.sum(stats.norm(x).rvs(size=2)))
            found(x)
