"""Calls of ``scipy.stats``."""

from typing import Any

import numpy as np
from scipy_calls import Calls

CALLS = Calls("stats")
add = CALLS.add
_X = np.asarray([[0.3, -1.2, 2.0], [1.1, 0.4, -6.0]])
_POSITIVE = np.asarray([[0.3, 1.2, 2.0], [7.0, 0.45, 0.05]])
_UNIT = np.asarray([[0.3, 0.12, 0.95], [0.5, 0.45, 0.02]])
_Q = np.asarray([0.03, 0.3, 0.52, 0.9, 0.999])
_K = np.asarray([[0, 3, 1], [2, 7, 5]])
_LOC, _SCALE = np.asarray([0.2, -0.4, 0.1]), np.asarray([1.5, 0.7, 1.1])

# name: shape parameters, places in the support of the standard form
CONTINUOUS: dict[str, tuple[tuple[np.ndarray, ...], np.ndarray]] = {
    **dict.fromkeys(("norm", "laplace", "logistic", "cauchy", "gumbel_r", "gumbel_l"), ((), _X)),
    "expon": ((), _POSITIVE),
    "uniform": ((), _UNIT),
    "halfnorm": ((), _POSITIVE),
    "lognorm": ((np.asarray([0.7, 1.3, 0.4]),), _POSITIVE),
    "pareto": ((np.asarray([2.7, 2.3, 3.4]),), 1 + _POSITIVE),
    "weibull_min": ((np.asarray([0.7, 1.3, 2.4]),), _POSITIVE),
    "gamma": ((np.asarray([0.7, 1.3, 8.4]),), _POSITIVE),
    "chi2": ((np.asarray([0.7, 3.3, 9.4]),), _POSITIVE),
    "invgamma": ((np.asarray([2.7, 3.3, 4.4]),), _POSITIVE),
    "beta": ((np.asarray([0.7, 1.3, 8.4]), np.asarray([2.0, 0.6, 3.5])), _UNIT),
    "gennorm": ((np.asarray([0.7, 1.3, 3.4]),), _X / 3),
    "t": ((np.asarray([2.5, 4.3, 30.0]),), _X),
}
DISCRETE: dict[str, tuple[np.ndarray, ...]] = {
    "poisson": (np.asarray([0.7, 2.5, 9.0]),),
    "binom": (np.asarray(8), np.asarray([0.2, 0.5, 0.75])),
    "bernoulli": (np.asarray([0.2, 0.5, 0.75]),),
    "nbinom": (np.asarray([0.7, 2.5, 9.0]), np.asarray([0.2, 0.5, 0.75])),
    "geom": (np.asarray([0.2, 0.5, 0.75]),),
}
_LOW, _HIGH = np.asarray([-1.3, 1.5, 0.2]), np.asarray([0.6, 4.0, 3.0])
SOLVED = ("gamma", "chi2", "gennorm", "invgamma", "beta", "t")
"""Distributions whose quantiles are found by iterations."""


def _add(names: str, methods: str, *given: Any, **how: Any) -> None:
    """File calls of methods of distributions."""
    for name in names.split():
        for method in methods.split():
            add(f"{name} {method}", lambda m, *xs, n=name, f=method: getattr(getattr(m, n), f)(*xs), *given, **how)


_DENSITIES, _TAILS, _QUANTILES, _MOMENTS = "logpdf pdf", "cdf sf logcdf logsf", "ppf isf", "mean var std"
for _name, (_shapes, _z) in CONTINUOUS.items():
    _all, _solved = (*_shapes, _LOC, _SCALE), _name in SOLVED
    _add(_name, _DENSITIES, _LOC + _SCALE * _z, *_all, slow=_solved)
    _add(_name, _TAILS, _LOC + _SCALE * _z, *_all, slow=_solved, order=1 if _solved else 2)
    _some, _shown = (_Q[1::2], 2) if _solved else (_Q, 1)
    _add(_name, "ppf", _some, *[p[:_shown] for p in _all], slow=_solved, order=1 if _solved else 2)
    _add(_name, "isf", _some, *[p[:_shown] for p in _all], slow=_solved, order=1)
    _add(_name, "entropy" if _name == "cauchy" else f"entropy {_MOMENTS}", *_all)
_add("truncnorm", f"{_DENSITIES} {_TAILS}", _LOW + (_HIGH - _LOW) * _UNIT, _LOW, _HIGH, slow=True)
_add("truncnorm", _QUANTILES, _Q[1::2], _LOW[:2], _HIGH[:2], _LOC[:2], _SCALE[:2], slow=True)
add("truncnorm quantile", lambda m, q, a: m.truncnorm.ppf(q, a, np.inf), _Q[:2], _LOW[:2] + 30, slow=True)
add("truncnorm tails", lambda m, x, a: m.truncnorm.logpdf(x, a, np.inf), np.asarray([31.0, 43.0]), _LOW[:2] + 30)
add("truncnorm scale", lambda m, x, c, s: m.truncnorm.cdf(x, -1, 2, c, s), _X[0], _LOC, _SCALE)
for _name, _shapes in DISCRETE.items():
    _k, _two = np.minimum(_K, 1) if _name == "bernoulli" else _K + (_name == "geom"), _name in ("binom", "nbinom")
    _add(_name, "logpmf pmf", _k, *_shapes, slow=_two)
    _add(_name, "cdf sf logcdf", _k, *_shapes, slow=_two, order=1 if _two else 2)
    _add(_name, "logsf", 0 * _k if _name == "bernoulli" else _k, *_shapes, slow=_two, order=1 if _two else 2)
    _add(_name, _MOMENTS, *_shapes)
    _add(_name, _QUANTILES, np.asarray([0.04, 0.63, 0.981]), *_shapes, _LOC, slow=True, order=1)
_C, _ANGLES = np.asarray([0.2, 0.5, 0.8]), np.asarray([[0.3, 1.2, 2.0], [4.0, 0.45, 6.1]])
_KAPPA, _BETAS = np.asarray([0.3, 2.0, 40.0]), (np.asarray(8), _SCALE, _SCALE[::-1] + 1)
_add("wrapcauchy", f"{_DENSITIES} {_TAILS}", _LOC + _SCALE * _ANGLES, _C, _LOC, _SCALE)
_add("wrapcauchy", _QUANTILES, _Q, _C[:1], _LOC[:1], _SCALE[:1])
_add("wrapcauchy", "entropy", _C, _LOC, _SCALE)
_add("vonmises", _DENSITIES, _X, _KAPPA, _LOC, _SCALE)
_add("vonmises", "entropy", _KAPPA)
_add("betabinom", "logpmf", _K, *_BETAS)
_add("betabinom", "pmf", _K, *_BETAS, order=1)
_add("betabinom", _MOMENTS, *_BETAS)
_COUNTS, _CHANCES = np.asarray([[3, 2, 1], [2, 0, 4], [1, 1, 1]]), np.asarray([0.2, 0.5, 0.3])
_add("multinomial", "logpmf", _COUNTS[:2], np.asarray(6), _CHANCES)
_add("multinomial", "pmf", _COUNTS, np.asarray(6), _CHANCES)
add("poisson median", lambda m, mu: m.poisson.median(mu), np.asarray([0.3, 7.3]), slow=True, order=1)
_add("bernoulli", "entropy", *DISCRETE["bernoulli"])
add("gamma quantile", lambda m, q, a: m.gamma.ppf(q, a), np.asarray(0.3), np.asarray(1.7), slow=True)
add("t quantile", lambda m, q, a: m.t.ppf(q, a), np.asarray(0.3), np.asarray(3.7), slow=True)
add("norm frozen", lambda m, x, a, b: m.norm(a, scale=b).logpdf(x), _X, _LOC, _SCALE)
add("gamma frozen", lambda m, x, a, b: m.gamma(a, scale=b).cdf(x), _POSITIVE, _SCALE, _SCALE[:1])
add("norm tails", lambda m, x, a: m.norm.logcdf(x, a), np.asarray([-40.0, -300.0, 9.0]), np.asarray(0.5))
add("poisson frozen", lambda m, mu: m.poisson(mu, loc=1).logpmf(3), np.asarray([0.5, 2.0]))

_COV = np.asarray([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 0.9]])


def _symmetric(c: Any) -> Any:
    # SciPy checks the symmetry
    return 0.5 * (c + c.T)


add("multivariate_normal logpdf", lambda m, x, a, c: m.multivariate_normal.logpdf(x, a, _symmetric(c)), _X, _LOC, _COV)
add("multivariate_normal pdf", lambda m, x, a, c: m.multivariate_normal(a, _symmetric(c)).pdf(x), _X, _LOC, _COV)
add("multivariate_normal diagonal", lambda m, x, a, c: m.multivariate_normal.logpdf(x, a, c), _X, _LOC, _SCALE)
add("multivariate_normal number", lambda m, x, c: m.multivariate_normal.logpdf(x, cov=c), _X[0], np.asarray(1.3))
add("multivariate_normal entropy", lambda m, c: m.multivariate_normal.entropy(cov=_symmetric(c))[None], _COV)
add("multivariate_t logpdf", lambda m, x, a, c: m.multivariate_t.logpdf(x, a, _symmetric(c), df=2.5), _X, _LOC, _COV)
add("multivariate_t pdf", lambda m, x, a: m.multivariate_t.pdf(x, a, shape=2.0, df=3), _X, _LOC)
_THIN = np.asarray([[1.2, -0.3], [0.4, 0.8], [-0.7, 0.5]])
for _method in ("logpdf", "pdf"):
    add(
        f"multivariate_normal {_method} singular",
        lambda m, z, a, b, f=_method: getattr(m.multivariate_normal, f)(a + z @ b.T, a, _symmetric(b @ b.T), True),
        _X[:, :2], _LOC, _THIN, rtol=1e-8,
    )  # fmt: skip
add(
    "multivariate_t pdf singular",
    lambda m, x, a, b: m.multivariate_t.pdf(x, a, _symmetric(b @ b.T), 2.5, allow_singular=True), _X, _LOC, _THIN,
    rtol=1e-8,
)  # fmt: skip
_SHARES = np.asarray([[0.2, 0.1], [0.3, 0.6]])
add("dirichlet logpdf", lambda m, x, a: m.dirichlet.logpdf(x, a), _SHARES, np.asarray([0.7, 2.0, 1.4]))
add("dirichlet pdf", lambda m, x, a: m.dirichlet(a).pdf(x), _SHARES, np.asarray([0.7, 2.0, 1.4]))
add("dirichlet mean", lambda m, a: m.dirichlet.mean(a), np.asarray([0.7, 2.0, 1.4]))
add("dirichlet var", lambda m, a: m.dirichlet.var(a), np.asarray([0.7, 2.0, 1.4]))
_DATA = np.asarray([[0.3, -1.2, 2.0, 0.7, 1.6], [1.1, 0.4, -1.0, 0.2, 0.9]])
_WEIGHTS = np.asarray([0.2, 1.0, 0.7, 2.0, 0.4])
add("gaussian_kde evaluate", lambda m, d, x: m.gaussian_kde(d)(x), _DATA[0], _X[0])
add("gaussian_kde logpdf", lambda m, d, x: m.gaussian_kde(d, "silverman").logpdf(x), _DATA, _X[:, :2])
add("gaussian_kde pdf", lambda m, d, x: m.gaussian_kde(d, 0.4).pdf(x), _DATA, _X[:, 0])
add("gaussian_kde weights", lambda m, d, w, x: m.gaussian_kde(d, weights=w).evaluate(x), _DATA, _WEIGHTS, _X)
add("gaussian_kde covariance", lambda m, d, w: m.gaussian_kde(d, weights=w).covariance, _DATA, _WEIGHTS)
add("pearsonr", lambda m, x, y: m.pearsonr(x, y).statistic[None], _DATA[0], _DATA[1])
add("pearsonr axis", lambda m, x, y: m.pearsonr(x, y, axis=1).statistic, _DATA, _DATA**2)
add("sem", lambda m, x: m.sem(x), _DATA)
add("sem axis", lambda m, x: m.sem(x, axis=None, ddof=0)[None], _DATA)
add("zscore", lambda m, x: m.zscore(x), _DATA)
add("zscore axis", lambda m, x: m.zscore(x, axis=1, ddof=1), _DATA)
add("entropy", lambda m, p: m.entropy(p), _POSITIVE)
add("entropy relative", lambda m, p, q: m.entropy(p, q, base=2, axis=1), _POSITIVE, _UNIT)
