"""Hamiltonian Monte Carlo against an exact posterior
==================================================

Compare Hamiltonian Monte Carlo with a posterior that is known exactly.

``python examples/hamiltonian.py --backend NAME --plot FILE.png``

The model is a linear regression with three weights and an unknown variance. With
conjugate priors, each weight has a t distribution, and the variance has an inverse
gamma distribution (Gelman et al., Bayesian Data Analysis, section 14.2). The sampler
(Neal, MCMC Using Hamiltonian Dynamics, 2011) uses the log density of the weights and
the log variance, and its gradient. ``vmap`` runs 256 chains together. The steps are a
``scan``, and the leapfrog steps a ``fori_loop``. The number is the largest error of the
four means and four standard deviations, in standard deviations of the posterior.
"""

from typing import Any

import numpy as np

import agrad
from agrad.scipy import special, stats
from common import Draw, here, run

MOST = 0.03
CHAINS, STEPS, WARMUP, LEAPS, LENGTH = 256, 400, 100, 10, 0.05
SHAPE, SCALE, SPREAD = 2.0, 0.5, 10.0
"""Priors: variance v inverse gamma (SHAPE, SCALE), weights normal (0, v * SPREAD)."""


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 3))
    x[:, 2] += 0.5 * x[:, 1]
    return x, x @ np.asarray([1.0, -0.5, 0.3]) + 0.5 * rng.normal(size=25)


def log_density(q: Any, x: Any, y: Any) -> Any:
    """Return the log density of three weights and the log variance, plus a constant."""
    weights, log_variance = q[:-1], q[-1]
    squares = (
        agrad.sum((y - x @ weights) ** 2) + agrad.sum(weights**2) / SPREAD + 2 * SCALE
    )
    count = y.shape[0] + weights.shape[0] + 2 * SHAPE
    return -count / 2 * log_variance - squares / 2 * agrad.exp(-log_variance)


def exact(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Return the exact means, deviations and densities of each unknown."""
    precision = x.T @ x + np.eye(3) / SPREAD
    mean = np.linalg.solve(precision, x.T @ y)
    shape, scale = SHAPE + len(y) / 2, SCALE + (y @ y - mean @ precision @ mean) / 2
    spread = np.sqrt(np.diag(np.linalg.inv(precision)) * scale / shape)
    means = np.append(mean, np.log(scale) - special.digamma(np.asarray(shape)))
    deviations = np.append(
        spread * np.sqrt(shape / (shape - 1)),
        np.sqrt(special.polygamma(1, np.asarray(shape))),
    )
    densities = [
        lambda q, m=m, s=s: stats.t.pdf(q, 2 * shape, m, s)
        for m, s in zip(mean, spread, strict=True)
    ]
    return (
        means,
        deviations,
        [
            *densities,
            lambda q: stats.invgamma.pdf(np.exp(q), shape, scale=scale) * np.exp(q),
        ],
    )


@agrad.jit
def sample(q: Any, moves: Any, chances: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Sample from q, (chains, 4). Return all states and the acceptance rate."""
    value_and_force = agrad.vmap(agrad.value_and_grad(lambda q: log_density(q, x, y)))

    def leap(_: Any, state: Any) -> Any:
        q, momentum, force, _ = state
        momentum = momentum + LENGTH / 2 * force
        q = q + LENGTH * momentum
        value, force = value_and_force(q)
        return q, momentum + LENGTH / 2 * force, force, value

    def step(state: Any, drawn: Any) -> Any:
        q, value, force = state
        momentum, chance = drawn
        new, turned, new_force, new_value = agrad.fori_loop(
            0, LEAPS, leap, (q, momentum, force, value)
        )
        gain = new_value - value + agrad.sum(momentum**2 - turned**2, axis=1) / 2
        taken = agrad.log(chance) < gain
        q, force = (
            agrad.where(taken[:, None], a, b) for a, b in ((new, q), (new_force, force))
        )
        return (q, agrad.where(taken, new_value, value), force), (
            q,
            agrad.mean(agrad.astype(taken, q.dtype)),
        )

    _, (places, rates) = agrad.scan(step, (q, *value_and_force(q)), (moves, chances))
    return places, agrad.mean(rates)


def main() -> tuple[float, Draw]:
    x, y = data()
    for_start, for_moves, for_chances = agrad.random.split(agrad.random.key(0), 3)
    start = agrad.random.normal(for_start, (CHAINS, 4), dtype=agrad.float64)
    moves = agrad.random.normal(for_moves, (STEPS, CHAINS, 4), dtype=agrad.float64)
    chances = agrad.random.uniform(for_chances, (STEPS, CHAINS), dtype=agrad.float64)
    places, rate = sample(start, moves, chances, here(x), here(y))
    draws = places[WARMUP:].numpy().reshape(-1, 4)
    print(f"{len(draws)} draws, {rate.item():.1%} of the moves accepted")

    means, deviations, densities = exact(x, y)
    names = ("weight 1", "weight 2", "weight 3", "log variance")
    found = draws.mean(axis=0), draws.std(axis=0)
    for i, name in enumerate(names):
        print(
            f"{name:12} {found[0][i]:8.4f} +- {found[1][i]:.4f}   "
            f"exactly {means[i]:8.4f} +- {deviations[i]:.4f}"
        )
    errors = np.abs(np.stack([found[0] - means, found[1] - deviations])) / deviations

    def draw(plt: Any) -> None:
        _, axes = plt.subplots(1, 4, figsize=(13, 3.2))
        for i, axis in enumerate(axes):
            axis.hist(draws[:, i], bins=80, density=True, alpha=0.5, label="draws")
            low, high = axis.get_xlim()
            grid = np.linspace(low, high, 200)
            axis.plot(grid, densities[i](grid), "k", lw=1, label="exact")
            axis.set(xlabel=names[i], yticks=[])
            axis.locator_params("x", nbins=5)
        axes[0].set_ylabel("density")
        axes[0].legend()

    return float(errors.max()), draw


if __name__ == "__main__":
    run(main, __doc__, most=MOST)
