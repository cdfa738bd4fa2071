"""A Gaussian process that finds its kernel
========================================

Fit the kernel of a Gaussian process by maximizing the marginal likelihood.

``python examples/gaussian_process.py --backend NAME --plot FILE.png``

The data are 150 noisy points of a curve with a slow trend and a period, with a gap. The
covariance is the sum of a smooth and a periodic kernel. The marginal likelihood
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equations 2.23,
2.24, 2.30 and 4.31) is maximized over five parameters and the noise. Its gradient
passes through the Cholesky factor. The likelihood has a maximum near many periods, so
the best of 60 is the start. The number is the mean log density of 100 test points, most
of them in the gap. With only the smooth kernel, it is -0.9.
"""

from typing import Any

import numpy as np

import agrad
from agrad.scipy import linalg, stats
from common import Draw, here, run

LEAST = 0.3
"""The mean log density. With the curve itself known it is 0.5."""

START = {
    "log smooth size": 0.0,
    "log smooth length": 0.0,
    "log periodic size": 0.0,
    "log width": 0.0,
    "log period": 0.0,
    "log noise": -1.0,
}


def curve(x: np.ndarray) -> np.ndarray:
    return np.sin(0.6 * x) + 0.8 * np.sin(2 * np.pi * x) + 0.4 * np.cos(4 * np.pi * x)


def points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, noisy values, and a mask of the omitted ones."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 250))
    left_out = (x > 4.5) & (x < 7.5)
    left_out[
        rng.choice(np.flatnonzero(~left_out), 100 - left_out.sum(), replace=False)
    ] = True
    return x, curve(x) + 0.15 * rng.normal(size=250), left_out


def kernel(p: dict[str, Any], a: Any, b: Any) -> Any:
    """Return the covariances of the curve at points a and b."""
    distance = a[:, None] - b[None, :]
    smooth = (distance * agrad.exp(-p["log smooth length"])) ** 2 / 2
    turn = (
        2
        * (
            agrad.sin(np.pi * agrad.exp(-p["log period"]) * distance)
            * agrad.exp(-p["log width"])
        )
        ** 2
    )
    return agrad.exp(2 * p["log smooth size"] - smooth) + agrad.exp(
        2 * p["log periodic size"] - turn
    )


def factor(p: dict[str, Any], x: Any) -> Any:
    """Return the lower Cholesky factor of the covariance of noisy values."""
    noise = agrad.exp(2 * p["log noise"]) * agrad.eye(x.shape[0], dtype=x.dtype)
    return linalg.cholesky(kernel(p, x, x) + noise, lower=True)


def negative_log_likelihood(p: dict[str, Any], x: Any, y: Any) -> Any:
    lower = factor(p, x)
    white = linalg.solve_triangular(lower, y, lower=True)
    return -agrad.sum(stats.norm.logpdf(white)) + agrad.sum(
        agrad.log(agrad.linalg.diagonal(lower))
    )


def predicted(p: dict[str, Any], x: Any, y: Any, new: Any) -> tuple[Any, Any]:
    """Return mean and standard deviation of noisy values at new points."""
    lower = factor(p, x)
    to_new = linalg.solve_triangular(lower, kernel(p, x, new), lower=True)
    mean = linalg.solve_triangular(lower, y, lower=True) @ to_new
    variance = agrad.linalg.diagonal(kernel(p, new, new)) - agrad.sum(to_new**2, axis=0)
    return mean, agrad.sqrt(variance + agrad.exp(2 * p["log noise"]))


def main() -> tuple[float, Draw]:
    places, values, left_out = points()
    x, y = here(places[~left_out]), here(values[~left_out])
    start, periods = (
        {name: here(value) for name, value in START.items()},
        here(np.log(np.linspace(0.4, 1.6, 60))),
    )
    tried = agrad.vmap(
        lambda period: negative_log_likelihood(start | {"log period": period}, x, y)
    )(periods)
    start["log period"] = periods[agrad.argmin(tried)]
    p = {
        name: agrad.asarray(value, requires_grad=True) for name, value in start.items()
    }
    optimizer = agrad.optim.LBFGS(
        p.values(), max_iter=100, line_search_fn="strong_wolfe"
    )

    @agrad.jit
    def loss() -> agrad.Tensor:
        optimizer.zero_grad()
        value = negative_log_likelihood(p, x, y)
        value.backward()
        return value

    before = optimizer.step(loss).item()
    print(
        f"log marginal likelihood {-before:.1f} before, "
        f"{-loss().item():.1f} after {optimizer.iterations} steps"
    )
    for name, value in p.items():
        print(f"{name.removeprefix('log '):14} {np.exp(value.item()):8.4f}")

    with agrad.no_grad():
        mean, deviation = predicted(p, x, y, here(places[left_out]))
        density = agrad.mean(
            stats.norm.logpdf(here(values[left_out]), mean, deviation)
        ).item()
        grid = np.linspace(-1, 11, 600)
        line, band = (a.numpy() for a in predicted(p, x, y, here(grid)))

    def draw(plt: Any) -> None:
        _, axes = plt.subplots(figsize=(10, 4))
        axes.fill_between(
            grid,
            line - 2 * band,
            line + 2 * band,
            alpha=0.25,
            label="predicted, with two deviations",
        )
        axes.plot(grid, line)
        axes.plot(grid, curve(grid), "k--", lw=0.8, label="the curve")
        axes.plot(places[~left_out], values[~left_out], "k.", ms=4, label="seen")
        axes.plot(places[left_out], values[left_out], "r.", ms=4, label="left out")
        axes.set(
            xlabel="x", ylabel="y", title="A Gaussian process with a fitted kernel"
        )
        axes.legend(ncols=4, loc="lower center", fontsize=8)

    return density, draw


if __name__ == "__main__":
    run(main, __doc__, least=LEAST)
