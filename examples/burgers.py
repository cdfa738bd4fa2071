"""A physics-informed network for Burgers' equation
================================================

Solve Burgers' equation with a network that is trained only on the equation.

``python examples/burgers.py --backend NAME --plot FILE.png``

The equation is u_t + u u_x = v u_xx for -1 <= x <= 1. The initial value is -sin(pi x),
and the boundary values are 0 (Raissi, Perdikaris and Karniadakis, J. Comput. Phys. 378,
2019). The form of the solution satisfies these conditions exactly. The loss is the mean
square of the residual. Derivatives with respect to x and t use forward mode, and the
gradient with respect to the weights uses reverse mode over it. The number is the
relative error of u at 100 x 50 points, compared with the exact solution (the Cole-Hopf
integral, by Gauss-Hermite quadrature).
"""

from typing import Any

import numpy as np

import agrad
from agrad import nn
from common import Draw, here, run

MOST = 0.01
VISCOSITY = 0.03
POINTS = 2000


def exact(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the solution at points x and times t > 0."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x[..., None] - np.sqrt(4 * VISCOSITY * t[..., None]) * nodes
    share = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -np.sum(share * np.sin(np.pi * y), axis=-1) / np.sum(share, axis=-1)


class Solution(nn.Module):
    """Return the solution at x and t, with the initial and boundary values."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(2):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.network = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x: Any, t: Any) -> Any:
        free = self.network(agrad.stack([x, t], axis=-1))[..., 0]
        return -agrad.sin(np.pi * x) + t * (1 - x**2) * free


def residual(u: Solution, x: Any, t: Any) -> Any:
    ones = agrad.ones_like(x)

    def slope(x: Any) -> Any:
        return agrad.jvp(lambda x: u(x, t), (x,), (ones,))[1]

    value, u_t = agrad.jvp(lambda t: u(x, t), (t,), (ones,))
    u_x, u_xx = agrad.jvp(slope, (x,), (ones,))
    return u_t + value * u_x - VISCOSITY * u_xx


def main() -> tuple[float, Draw]:
    nn.manual_seed(0)
    rng = np.random.default_rng(0)
    x, t = here(rng.uniform(-1, 1, POINTS)), here(rng.uniform(0, 1, POINTS))
    u = Solution().double()
    optimizer = agrad.optim.LBFGS(
        u.parameters(), max_iter=100, history_size=50, line_search_fn="strong_wolfe"
    )

    @agrad.jit
    def loss() -> agrad.Tensor:
        optimizer.zero_grad()
        value = agrad.mean(residual(u, x, t) ** 2)
        value.backward()
        return value

    grid_t, grid_x = np.meshgrid(
        np.linspace(0.02, 1, 50), np.linspace(-1, 1, 100), indexing="ij"
    )
    truth, error = exact(grid_x, grid_t), np.inf
    for _ in range(5):
        optimizer.step(loss)
        with agrad.no_grad():
            found = u(here(grid_x), here(grid_t)).numpy()
        error = float(np.linalg.norm(found - truth) / np.linalg.norm(truth))
        print(
            f"{optimizer.iterations} steps: "
            f"mean square of the residual {loss().item():.2e}, error {error:.2%}"
        )

    def draw(plt: Any) -> None:
        _, (left, right) = plt.subplots(1, 2, figsize=(12, 4))
        colours = left.pcolormesh(grid_t, grid_x, found, cmap="RdBu", shading="gouraud")
        plt.colorbar(colours, ax=left)
        left.set(xlabel="t", ylabel="x", title="u by the network")
        for k in (0, 12, 24, 49):
            (line,) = right.plot(grid_x[k], found[k], label=f"t = {grid_t[k, 0]:.2f}")
            right.plot(grid_x[k, ::4], truth[k, ::4], ".", color=line.get_color())
        right.set(
            xlabel="x",
            ylabel="u",
            title="the network (lines) and the exact solution (dots)",
        )
        right.legend()

    return error, draw


if __name__ == "__main__":
    run(main, __doc__, most=MOST)
