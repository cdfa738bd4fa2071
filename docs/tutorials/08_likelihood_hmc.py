"""
Likelihoods and Hamiltonian Monte Carlo
=======================================

A model of data is a density. Its gradient finds the likeliest parameters, its Hessian their uncertainty, and both
together lead a sampler through all that are plausible.
"""

# %%
# Data and a model
# ----------------
#
# Times between failures of two machines, which follow Weibull's distribution. ``agrad.scipy.stats`` has SciPy's
# densities by SciPy's names, differentiable by their parameters.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad
from agrad.scipy import stats

RNG = np.random.default_rng(1)
TIMES = 3.0 * RNG.weibull(1.7, size=60)


def log_density(q: Any) -> Any:
    """Return the log density of q: the logarithms of Weibull's shape and scale, with wide normal priors."""
    shape, scale = agrad.exp(q[0]), agrad.exp(q[1])
    return agrad.sum(stats.weibull_min.logpdf(TIMES, shape, scale=scale)) + agrad.sum(stats.norm.logpdf(q, 0.0, 3.0))


# %%
# The likeliest parameters
# ------------------------
#
# Newton's method with exact derivatives needs a few steps.

best, slope = np.asarray([0.3, np.log(TIMES.mean())]), np.ones(2)
for _ in range(12):
    slope, curvature = agrad.grad(log_density)(best), agrad.hessian(log_density)(best)
    best = best - np.linalg.solve(curvature, slope)
print(np.exp(best), np.abs(slope).max() < 1e-8)

# %%
# The inverse of the negative Hessian says how sure they are.

covariance = np.linalg.inv(-agrad.hessian(log_density)(best))
print("standard errors of the logarithms:", np.sqrt(np.diag(covariance)).round(3))

# %%
# Sampling
# --------
#
# Hamiltonian Monte Carlo moves a point like a ball in the landscape of the density: gradients are its forces. A whole
# chain is one ``agrad.scan`` with a ``fori_loop`` inside, traced once by ``agrad.jit``; all random numbers are drawn
# before.

LENGTH, LEAPS, COUNT = 0.08, 10, 2000


@agrad.jit
def chain(start: Any, kicks: Any, chances: Any) -> Any:
    """Return the places of a chain, (steps, 2), and the share of accepted moves."""
    force = agrad.grad(log_density)

    def leap(_: Any, state: Any) -> Any:
        q, p = state
        p = p + LENGTH / 2 * force(q)
        q = q + LENGTH * p
        return q, p + LENGTH / 2 * force(q)

    def step(q: Any, drawn: Any) -> Any:
        kick, chance = drawn
        new, turned = agrad.fori_loop(0, LEAPS, leap, (q, kick))
        gain = log_density(new) - log_density(q) + agrad.sum(kick**2 - turned**2) / 2
        accepted = agrad.log(chance) < gain
        q = agrad.where(accepted, new, q)
        return q, (q, agrad.astype(accepted, q.dtype))

    _, (places, accepted) = agrad.scan(step, start, (kicks, chances))
    return places, agrad.mean(accepted)


places, rate = map(np.asarray, chain(best, RNG.normal(size=(COUNT, 2)), RNG.uniform(size=COUNT)))
print("accepted:", rate.round(2))
print("means:", places.mean(axis=0).round(3), "deviations:", places.std(axis=0).round(3))

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot(np.exp(places[:, 0]), np.exp(places[:, 1]), ".", markersize=2)
left.plot(*np.exp(best), "k+", markersize=12)
left.set(title="samples, and the likeliest", xlabel="shape", ylabel="scale")
right.hist(TIMES, bins=20, density=True, alpha=0.4)
grid = np.linspace(0.01, 9.0, 200)
for shape, scale in np.exp(places[::100]):
    right.plot(grid, stats.weibull_min.pdf(grid, shape, scale=scale), color="C1", linewidth=0.5)
right.set(title="the data, and densities of samples", xlabel="time")
plt.show()

# %%
# To remember
# -----------
#
# * A log density is a function like any other: ``grad``, ``hessian``, ``jit``.
# * Loops of samplers are ``agrad.scan`` and ``agrad.fori_loop``; random numbers are arguments.
# * ``agrad.scipy.stats`` and ``agrad.scipy.special`` have derivatives by parameters.
#
# Read on: :doc:`loops </docs/transforms/control_flow>`.
