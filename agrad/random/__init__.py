"""Random numbers as functions of a key, the same on every backend and device.

The generator is Philox4x64-10 (Salmon et al., SC'11), counter-based: a key and a place give the number, and no state is
kept. Keys are arrays; what is drawn is born where the key is, as a Tensor for a Tensor and a raw array for a raw one::

    key = agrad.random.key(0)
    for_weights, for_noise = agrad.random.split(key)
    x = agrad.random.normal(for_noise, (3, 2), loc=mean, scale=deviation)

A key drawn from twice gives the same numbers twice: split it first. ``Generator`` hands out a new key at each call.

``dtype`` is float32 or float64, by default that of the parameters that are arrays, else the backend's own; the sample
in one is that in the other, rounded. ``shape`` is an integer or a tuple, by default that of the parameters.
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
from agrad.random.discrete import bernoulli, bits, categorical, choice, permutation, randint
from agrad.random.generator import Generator
from agrad.random.keys import fold_in, key, split

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "key",
    "log_gamma",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]
