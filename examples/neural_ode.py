"""A neural ordinary differential equation
=======================================

Learn the motion of a pendulum from short noisy recordings.

``python examples/neural_ode.py --backend NAME --plot FILE.png``

The right-hand side of dy/dt = f(y) is a network. Its gradient passes through the solver
(Chen et al., Neural Ordinary Differential Equations, NeurIPS 2018). The training data
are 40 recordings of 2 seconds with 11 noisy angles and speeds. Training also finds the
true initial state of each recording. The number is the largest error of an angle, in
radians, in 10 seconds from a new initial state.
"""

from typing import Any

import numpy as np

import agrad
from agrad import nn
from common import Draw, here, run

MOST = 0.1
NOISE = 0.02


def pendulum(y: Any, t: Any) -> Any:
    """Return the derivatives of angles and speeds (the last axis), with friction."""
    angle, speed = y[..., 0], y[..., 1]
    return agrad.stack([speed, -4 * agrad.sin(angle) - 0.2 * speed], axis=-1)


def main() -> tuple[float, Draw]:
    rng = np.random.default_rng(0)
    times = np.linspace(0, 2, 11)
    films = agrad.odeint(
        pendulum, rng.uniform(-2, 2, (40, 2)), times, rtol=1e-8, atol=1e-8
    )
    seen = here(
        films + NOISE * rng.normal(size=films.shape)
    )  # of shape (times, films, 2)

    nn.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)).double()
    starts = agrad.asarray(seen[0], requires_grad=True)
    optimizer = agrad.optim.LBFGS(
        [*model.parameters(), starts], max_iter=100, line_search_fn="strong_wolfe"
    )
    here_times = here(times)

    @agrad.jit
    def loss() -> agrad.Tensor:
        optimizer.zero_grad()
        found = agrad.odeint(
            lambda y, t: model(y), starts, here_times, method="rk4", steps=1
        )
        value = agrad.mean((found - seen) ** 2)
        value.backward()
        return value

    for _ in range(3):
        optimizer.step(loss)
        print(
            f"{optimizer.iterations} steps: mean square error {loss().item():.2e}, "
            f"of the noise {NOISE**2:.1e}"
        )

    long, start = np.linspace(0, 10, 201), np.asarray([2.2, 0.0])
    truth = agrad.odeint(pendulum, start, long, rtol=1e-8, atol=1e-8)
    with agrad.no_grad():
        found = agrad.odeint(lambda y, t: model(y), here(start), here(long)).numpy()
        sides = np.stack(
            np.meshgrid(np.linspace(-2.8, 2.8, 15), np.linspace(-4.5, 4.5, 15)), axis=-1
        )
        slopes = model(here(sides)).numpy()

    def draw(plt: Any) -> None:
        _, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4))
        left.quiver(
            sides[..., 0], sides[..., 1], slopes[..., 0], slopes[..., 1], color="0.6"
        )
        left.plot(seen[..., 0].numpy(), seen[..., 1].numpy(), lw=0.8)
        left.set(
            xlabel="angle",
            ylabel="speed",
            title="films that were seen, and the slopes learned",
        )
        for i, name in enumerate(("angle", "speed")):
            (line,) = right.plot(long, found[:, i], label=f"{name}, learned")
            right.plot(
                long[::4], truth[::4, i], ".", color=line.get_color(), label=name
            )
        right.axvspan(0, 2, color="0.9")
        right.set(
            xlabel="seconds (grey: as long as the films)", title="from a new start"
        )
        right.legend(fontsize=8, ncols=2)

    return float(np.max(np.abs(found[:, 0] - truth[:, 0]))), draw


if __name__ == "__main__":
    run(main, __doc__, most=MOST)
