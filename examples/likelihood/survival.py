"""Times until an event, some censored: a regression with gamma distributed times.

Nothing here knows of agrad.
"""

import numpy as np
from scipy import special


def negative_log_likelihood(parameters, times, observed, covariates):
    """Return minus the log likelihood, of a subject on average.

    ``parameters``: coefficients of the log of the mean, then the log of the shape of
    the gamma distribution. ``observed``: 1 if the event was observed at ``times``, 0 if
    the subject was last seen without it.
    """
    coefficients, log_shape = parameters[:-1], parameters[-1]
    shape = np.exp(log_shape)
    rate = shape / np.exp(covariates @ coefficients)
    scaled = rate * times
    log_density = (
        special.xlogy(shape, scaled) - scaled - np.log(times) - special.gammaln(shape)
    )
    log_survival = np.log(special.gammaincc(shape, scaled))
    return -np.mean(np.where(observed == 1, log_density, log_survival))


def simulate(subjects=400, seed=0):
    """Return times, observed events, covariates, and the true parameters."""
    rng = np.random.default_rng(seed)
    truth = np.array([1.0, 0.5, -0.8, np.log(1.7)])
    covariates = np.column_stack([np.ones(subjects), rng.normal(size=(subjects, 2))])
    mean = np.exp(covariates @ truth[:-1])
    times = rng.gamma(np.exp(truth[-1]), mean / np.exp(truth[-1]))
    censored = rng.exponential(6.0, size=subjects)
    return (
        np.minimum(times, censored),
        (times <= censored).astype(int),
        covariates,
        truth,
    )
