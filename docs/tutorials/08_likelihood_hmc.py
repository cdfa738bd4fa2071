"""
Fit likelihoods and sample with HMC
===================================

The gradient of a log density finds the most likely parameters, and its Hessian
estimates their uncertainty. Hamiltonian Monte Carlo uses gradients to sample from the
density.
"""

# %%
# Define the model
# ----------------
#
# The data are times between failures of two machines, with a Weibull distribution.
# ``agrad.scipy.stats`` contains the SciPy densities, which are differentiable with
# respect to their parameters.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import agrad
from agrad.scipy import stats

RNG = np.random.default_rng(1)
TIMES = 3.0 * RNG.weibull(1.7, size=60)


def log_density(q: Any) -> Any:
    """Return the log density of q, the logarithms of the Weibull shape and scale."""
    shape, scale = agrad.exp(q[0]), agrad.exp(q[1])
    return agrad.sum(stats.weibull_min.logpdf(TIMES, shape, scale=scale)) + agrad.sum(
        stats.norm.logpdf(q, 0.0, 3.0)
    )


# %%
# Find the most likely parameters
# -------------------------------
#
# Newton's method with exact derivatives needs a few steps.

best = np.asarray([0.3, np.log(TIMES.mean())])
for _ in range(12):
    gradient, hessian = agrad.grad(log_density)(best), agrad.hessian(log_density)(best)
    best = best - np.linalg.solve(hessian, gradient)
print(np.exp(best).round(4), f"largest gradient {np.abs(gradient).max():.0e}")

# %%
# The inverse of the negative Hessian estimates the uncertainty.

covariance = np.linalg.inv(-agrad.hessian(log_density)(best))
print("standard errors of the logarithms:", np.sqrt(np.diag(covariance)).round(3))

# %%
# Sample the posterior
# --------------------
#
# Hamiltonian Monte Carlo moves a point through the parameter space, with the gradient
# of the log density as force. A whole chain is one ``agrad.scan`` with a ``fori_loop``
# inside, compiled by ``agrad.jit``. All random numbers are drawn before.

LENGTH, LEAPS, COUNT = 0.08, 10, 500


@agrad.jit
def chain(start: Any, kicks: Any, chances: Any) -> Any:
    """Return the states of a chain, (steps, 2), and the acceptance rate."""
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

    _, (states, accepted) = agrad.scan(step, start, (kicks, chances))
    return states, agrad.mean(accepted)


states, rate = map(
    np.asarray, chain(best, RNG.normal(size=(COUNT, 2)), RNG.uniform(size=COUNT))
)
print("accepted:", rate.round(2))
print(
    "means:", states.mean(axis=0).round(3), "deviations:", states.std(axis=0).round(3)
)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.plot(np.exp(states[:, 0]), np.exp(states[:, 1]), ".", markersize=2)
left.plot(*np.exp(best), "k+", markersize=12)
left.set(title="samples, and the likeliest", xlabel="shape", ylabel="scale")
right.hist(TIMES, bins=20, density=True, alpha=0.4)
grid = np.linspace(0.01, 9.0, 200)
for shape, scale in np.exp(states[::25]):
    right.plot(
        grid, stats.weibull_min.pdf(grid, shape, scale=scale), color="C1", linewidth=0.5
    )
right.set(title="the data, and densities of samples", xlabel="time")
plt.show()

# %%
# Summary
# -------
#
# * A log density is an ordinary function: use ``grad``, ``hessian`` and ``jit``.
# * Write the loops of samplers with ``agrad.scan`` and ``agrad.fori_loop``, and pass
#   random numbers as arguments.
# * ``agrad.scipy.stats`` and ``agrad.scipy.special`` are differentiable with respect to
#   parameters.
#
# Next: :doc:`control flow </docs/transforms/control_flow>`.
