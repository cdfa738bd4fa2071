"""Probability distributions and statistics by the names of ``scipy.stats``."""

from agrad.scipy.stats.circular import vonmises, wrapcauchy
from agrad.scipy.stats.discrete import bernoulli, betabinom, binom, geom, nbinom, poisson
from agrad.scipy.stats.gammas import beta, chi2, gamma, gennorm, invgamma, t
from agrad.scipy.stats.kde import gaussian_kde
from agrad.scipy.stats.location import (
    cauchy,
    expon,
    gumbel_l,
    gumbel_r,
    halfnorm,
    laplace,
    logistic,
    lognorm,
    norm,
    pareto,
    uniform,
    weibull_min,
)
from agrad.scipy.stats.multivariate import dirichlet, multinomial, multivariate_normal, multivariate_t
from agrad.scipy.stats.summary import entropy, pearsonr, sem, zscore
from agrad.scipy.stats.truncated import truncnorm

__all__ = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "entropy",
    "expon",
    "gamma",
    "gaussian_kde",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "multinomial",
    "multivariate_normal",
    "multivariate_t",
    "nbinom",
    "norm",
    "pareto",
    "pearsonr",
    "poisson",
    "sem",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "weibull_min",
    "wrapcauchy",
    "zscore",
]
