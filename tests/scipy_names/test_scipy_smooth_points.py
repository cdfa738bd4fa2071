"""Formulas with ``abs``, ``where`` or ``sqrt`` at points where the function is smooth, to the second order."""

import math
from typing import Any

import numpy as np
import pytest
from crossing import Row, each_row

import agrad
from agrad.scipy import special, stats
from agrad.scipy.spatial import distance

_V, _W = np.asarray([2.0, 0.3, 5.0]), np.asarray([1.0, 2.0, 0.5])
_VI = np.asarray([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]])
_EULER = 0.5772156649015329


def _from(metric: str, **options: Any) -> Any:
    """Return the distance from a point that has one coordinate in common with another."""

    def f(x: Any) -> Any:
        near = agrad.stack([x - x + 1.0, x, x - x + 3.0])
        here = {"backend": near.backend, "device": near.device}
        given = {k: agrad.asarray(a, **here) if hasattr(a, "shape") else a for k, a in options.items()}
        return getattr(distance, metric)(near, agrad.asarray(_V, **here), **given)

    return f


def _top(df: float) -> float:
    return math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)


def _crest(beta: float) -> float:
    return beta / (2 * math.gamma(1 / beta))


_LOG = math.log(2)
_UNIT: tuple[Any, ...] = ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 3.0)
_ASIDE, _SIDE = 0.1**0.5, _crest(2.0) * math.exp(-0.1)
_E = math.exp(0.3)
_INVERSE = -_E * 0.3**2 / 2, _E * (0.3**4 / 4 + 2 * 0.3**3 / 3)
_PDF = 4.5 * math.exp(-3)
# name: function, point, first and second derivative
POINTS: dict[str, tuple[Any, float, float, float]] = {
    "t.logpdf": (lambda x: stats.t.logpdf(x, 5.0), 0.0, 0.0, -1.2),
    "t.logpdf by loc": (lambda m: stats.t.logpdf(m * 0 + 2.0, 5.0, m), 2.0, 0.0, -1.2),
    "t.pdf": (lambda x: stats.t.pdf(x, 3.3), 0.0, 0.0, -4.3 / 3.3 * _top(3.3)),
    "t.pdf, many degrees": (lambda x: stats.t.pdf(x, 1e3), 0.0, 0.0, -1.001 * _top(1e3)),
    "t.cdf": (lambda x: stats.t.cdf(x, 3.3), 0.0, _top(3.3), 0.0),
    "t.logcdf": (lambda x: stats.t.logcdf(x, 3.3), 0.0, 2 * _top(3.3), -((2 * _top(3.3)) ** 2)),
    "t.ppf": (lambda q: stats.t.ppf(q, 5.0), 0.5, 1 / _top(5.0), 0.0),
    "gennorm.logpdf, 2": (lambda x: stats.gennorm.logpdf(x, 2.0), 0.0, 0.0, -2.0),
    "gennorm.logpdf, 4": (lambda x: stats.gennorm.logpdf(x, 4.0), 0.0, 0.0, 0.0),
    "gennorm.logpdf by scale": (lambda s: stats.gennorm.logpdf(s * 0, 3.0, 0.0, s), 1.0, -1.0, 1.0),
    "gennorm.pdf, 2": (lambda x: stats.gennorm.pdf(x, 2.0), 0.0, 0.0, -2 * _crest(2.0)),
    "gennorm.cdf, 0.5": (lambda x: stats.gennorm.cdf(x, 0.5), 0.0, _crest(0.5), 0.0),
    "gennorm.cdf, 1": (lambda x: stats.gennorm.cdf(x, 1.0), 0.0, _crest(1.0), 0.0),
    "gennorm.cdf, 1.5": (lambda x: stats.gennorm.cdf(x, 1.5), 0.0, _crest(1.5), 0.0),
    "gennorm.sf, 2": (lambda x: stats.gennorm.sf(x, 2.0), 0.0, -_crest(2.0), 0.0),
    "gennorm.cdf, 2, off the center": (lambda x: stats.gennorm.cdf(x, 2.0), _ASIDE, _SIDE, -2 * _ASIDE * _SIDE),
    "gennorm.logcdf, 2": (lambda x: stats.gennorm.logcdf(x, 2.0), 0.0, 2 * _crest(2.0), -((2 * _crest(2.0)) ** 2)),
    "gennorm.ppf, 0.5": (lambda q: stats.gennorm.ppf(q, 0.5), 0.5, 4.0, 0.0),
    "gennorm.isf, 2": (lambda q: stats.gennorm.isf(q, 2.0), 0.5, -1 / _crest(2.0), 0.0),
    "cauchy.logpdf": (stats.cauchy.logpdf, 0.0, 0.0, -2.0),
    "cauchy.ppf": (stats.cauchy.ppf, 0.25, 2 * math.pi, -4 * math.pi**2),
    "norm.logsf": (stats.norm.logsf, 0.0, -((2 / math.pi) ** 0.5), -2 / math.pi),
    "laplace.cdf by loc": (lambda m: stats.laplace.cdf(m * 0 + 1.0, m), 0.0, -0.5 / math.e, -0.5 / math.e),
    "gamma.cdf at its mean": (lambda x: stats.gamma.cdf(x, 3.0), 3.0, _PDF, -_PDF / 3),
    "multivariate_t": (lambda x: stats.multivariate_t.logpdf(agrad.stack([x, x * 0]), *_UNIT), 0.0, 0.0, -5 / 3),
    "pseudo_huber": (lambda r: special.pseudo_huber(1.0, r), 0.0, 0.0, 1.0),
    "stdtr": (lambda t: special.stdtr(3.0, t), 0.0, _top(3.0), 0.0),
    "exprel": (special.exprel, 0.0, 1 / 2, 1 / 3),
    "rgamma": (special.rgamma, 0.0, 1.0, 2 * _EULER),
    "zetac": (special.zetac, 0.0, -0.5 * math.log(2 * math.pi), -2.0063564559085849),
    "boxcox by lmbda": (lambda p: special.boxcox(2.0, p), 0.0, _LOG**2 / 2, _LOG**3 / 3),
    "inv_boxcox by lmbda": (lambda p: special.inv_boxcox(0.3, p), 0.0, *_INVERSE),
    "poch, of poles": (lambda z: special.poch(z, 2.0), -3.0, -5.0, 2.0),
    "poch, from 0": (lambda z: special.poch(z, 2.0), 0.0, 1.0, 2.0),
    "euclidean": (_from("euclidean"), 0.3, 0.0, 1 / 5**0.5),
    "euclidean, weighted": (_from("euclidean", w=_W), 0.3, 0.0, 2 / 3**0.5),
    "seuclidean": (_from("seuclidean", V=_W), 0.3, 0.0, 0.5 / 9**0.5),
    "minkowski, 2": (_from("minkowski", p=2, w=_W), 0.3, 0.0, 2 / 3**0.5),
    "minkowski, 4": (_from("minkowski", p=4, w=_W), 0.3, 0.0, 0.0),
}


@each_row(POINTS)
def test_derivatives_where_the_formula_has_a_corner_and_the_function_none(case: Row, place: Any) -> None:
    f, x, first, second = case.value
    at, one = place(np.asarray(x)), place(np.asarray(1.0))

    def forward(g: Any) -> Any:
        return lambda x: agrad.jvp(g, (x,), (one,))[1]

    found = [agrad.grad(f)(at), forward(f)(at)]
    np.testing.assert_allclose([float(v) for v in found], first, rtol=1e-9, atol=1e-12)
    found = [agrad.grad(agrad.grad(f))(at), forward(forward(f))(at), forward(agrad.grad(f))(at)]
    np.testing.assert_allclose([float(v) for v in found], second, rtol=1e-9, atol=1e-12)


# values of parameters at which the terms of a formula cancel, to 40 digits by mpmath
LARGE: dict[str, tuple[Any, tuple[float, ...], float]] = {
    "beta.logpdf": (stats.beta.logpdf, (0.5, 1e8, 1e8), 9.3311226083614285),
    "gamma.logpdf": (stats.gamma.logpdf, (1e8 + 2e4, 1e8), -12.129212259343789),
    "gamma.cdf": (stats.gamma.cdf, (99920000.0, 1e8), 6.11569983219279e-16),
    "gamma.ppf": (stats.gamma.ppf, (1e-10, 1e8), 99936399.745937109),
    "binom.logpmf": (stats.binom.logpmf, (5e7, 1e8, 0.5), -9.436131727120910),
    "poisson.logpmf": (stats.poisson.logpmf, (1e8, 1e8), -10.129278906014188),
}


@each_row(LARGE)
def test_large_parameters_keep_their_digits(case: Row, place: Any) -> None:
    f, values, expected = case.value
    np.testing.assert_allclose(float(f(*(place(np.asarray(v)) for v in values))), expected, rtol=1e-11)


# derivatives at the ends of supports, far out where the density underflows, and of large parameters
SLOPES: dict[str, tuple[Any, float, float]] = {
    "gumbel_r.cdf": (stats.gumbel_r.cdf, -1e10, 0.0),
    "gumbel_r.pdf": (stats.gumbel_r.pdf, -1e10, 0.0),
    "gumbel_l.sf": (stats.gumbel_l.sf, 1e10, 0.0),
    "gennorm.pdf": (lambda x: stats.gennorm.pdf(x, 200.0), 50.0, 0.0),
    "t.cdf": (lambda x: stats.t.cdf(x, 1.0), 1e300, 0.0),
    "truncnorm.cdf": (lambda x: stats.truncnorm.cdf(x, -1.0, 1.0), -1.0, 0.35443745261360351),
    "truncnorm.sf": (lambda x: stats.truncnorm.sf(x, -1.0, 1.0), -1.0, -0.35443745261360351),
    "truncnorm.logcdf": (lambda x: stats.truncnorm.logcdf(x, -1.0, 1.0), 1.0, 0.35443745261360351),
    "chi2.cdf": (lambda x: stats.chi2.cdf(x, 3.0), 1e-300, 3.9894228040143268e-151),
    "gamma.ppf": (lambda q: stats.gamma.ppf(q, 1e8), 0.5, 25066.282697570),
    "beta.ppf": (lambda q: stats.beta.ppf(q, 1e8, 1e8), 0.5, 8.8622692656054242e-05),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each_row(SLOPES)
def test_derivatives_at_edges(case: Row, place: Any) -> None:
    f, x, expected = case.value
    at = place(np.asarray(x))
    if case.name == "beta.ppf" and agrad.asarray(at).backend == "jax":
        expected = np.nan  # JAX's betainc has no digits there
    found = [agrad.grad(f)(at), agrad.jvp(f, (at,), (place(np.asarray(1.0)),))[1]]
    np.testing.assert_allclose([float(v) for v in found], expected, rtol=1e-9)


def test_derivatives_by_large_parameters_keep_their_digits(place: Any) -> None:
    a = place(np.asarray(1e8))
    # log(x) - digamma(a) and (a - 1) / x - 1 at x = a, and of the beta distribution at its mean
    by_x, by_a = agrad.grad(stats.gamma.logpdf, argnums=(0, 1))(a, a)
    np.testing.assert_allclose([float(by_x), float(by_a)], [-1e-8, 5.0000000083333333e-9], rtol=1e-13)
    by_a = agrad.grad(lambda a: stats.beta.logpdf(0.5, a, a * 0 + 1e8))(a)
    np.testing.assert_allclose(float(by_a), 2.5e-9, rtol=1e-7)
