"""Probability distributions and statistics by the names of ``scipy.stats``."""

from agrad.scipy.stats.discrete import bernoulli, binom, geom, nbinom, poisson
from agrad.scipy.stats.gammas import beta, chi2, gamma, invgamma, t
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

__all__ = [
    "bernoulli",
    "beta",
    "binom",
    "cauchy",
    "chi2",
    "expon",
    "gamma",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "uniform",
    "weibull_min",
]
