"""Random numbers as functions of a key, the same on every backend and device.

The generator is Philox4x64-10 (Salmon et al., SC'11). It is based on a counter: a key and a position give the number,
and no state is kept. Keys are arrays. Draws have the backend and device of the key, and are Tensors for a Tensor and
raw arrays for a raw one::

    key = agrad.random.key(0)
    for_weights, for_noise = agrad.random.split(key)
    x = agrad.random.normal(for_noise, (3, 2), loc=mean, scale=deviation)

Two draws from one key give the same numbers: split it first. ``Generator`` returns a new key at each call.

``dtype`` is float32 or float64, by default that of the parameters that are arrays, else the backend's own. A sample in
one is that in the other, rounded. ``shape`` is an integer or a tuple, by default that of the parameters.
"""

from agrad.random.continuous import (
    beta,
    dirichlet,
    exponential,
    gamma,
    log_gamma,
    normal,
    truncated_normal,
    uniform,
)
from agrad.random.counts import binomial, geometric, poisson, rademacher
from agrad.random.discrete import bernoulli, bits, categorical, choice, permutation, randint
from agrad.random.generator import Generator
from agrad.random.keys import fold_in, key, split
from agrad.random.transformed import (
    cauchy,
    chisquare,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    multivariate_normal,
    pareto,
    rayleigh,
    t,
    weibull_min,
)

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "geometric",
    "gumbel",
    "key",
    "laplace",
    "log_gamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multivariate_normal",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "truncated_normal",
    "uniform",
    "weibull_min",
]
