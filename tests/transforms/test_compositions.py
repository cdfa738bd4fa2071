"""Random towers of transforms over random functions, by agrad on NumPy and by JAX."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad

pytestmark = pytest.mark.needs("jax")

N = 3
SEEDS = 30
DEPTH = 3

Function = Callable[[Any], Any]
"""From vectors of N elements to vectors of N elements, and smooth."""

_rng = np.random.default_rng(7)
W, V, U = _rng.standard_normal((N, N)) * 0.6, _rng.standard_normal(N), _rng.standard_normal(N)
ROWS = _rng.standard_normal((4, N)) * 0.5
PICKS = np.asarray([[2, 0, 2], [1, 1, 0]])

STEPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda xp, x: xp.sin(x),
    lambda xp, x: xp.tanh(W @ x),
    lambda xp, x: x * xp.flip(x) * 0.5,
    lambda xp, x: x / (1.5 + xp.sum(x * x)),
    lambda xp, x: xp.exp(-x * x) + 0.1 * x,
    lambda xp, x: xp.concat([x[1:], x[:1] ** 2]),
    lambda xp, x: xp.where(x > 0.1, x * x, 0.2 * x),
    lambda xp, x: xp.cumulative_sum(x) * 0.4,
    lambda xp, x: xp.linalg.solve(2.5 * xp.eye(N) + 0.2 * x[:, None] * x[None, :], x),
    lambda xp, x: xp.prod(1 + 0.3 * x) * V,
    lambda xp, x: xp.stack([xp.max(x), xp.sum(x), xp.mean(x * x)]),
    lambda xp, x: x[xp.asarray([2, 0, 2])] * x,
    lambda xp, x: xp.sqrt(1 + xp.sum((x[:, None] - x[None, :]) ** 2, axis=1)),
)

# a namespace of transforms (agrad's or JAX's), an array one, and a function; gives a function of the same kind
TRANSFORMS: dict[str, Callable[[Any, Any, Function], Function]] = {
    "grad": lambda tr, xp, f: tr.grad(lambda x: xp.sum(f(x))),
    "value_and_grad": lambda tr, xp, f: lambda x: (lambda y, g: y * g)(*tr.value_and_grad(lambda x: xp.sum(f(x)))(x)),
    "jvp": lambda tr, xp, f: lambda x: tr.jvp(f, (x,), (xp.asarray(V),))[1],
    "jvp along x": lambda tr, xp, f: lambda x: xp.sum(xp.stack(tr.jvp(f, (x,), (xp.sin(x),))), axis=0),
    "vjp": lambda tr, xp, f: lambda x: tr.vjp(f, x)[1](xp.asarray(U))[0],
    "vjp of its value": lambda tr, xp, f: lambda x: (lambda y, pull: pull(xp.tanh(y))[0])(*tr.vjp(f, x)),
    "jacfwd": lambda tr, xp, f: lambda x: tr.jacfwd(f)(x) @ V,
    "jacrev": lambda tr, xp, f: lambda x: U @ tr.jacrev(f)(x),
    "hessian": lambda tr, xp, f: lambda x: tr.hessian(lambda x: xp.sum(xp.sin(f(x))))(x) @ V,
    "hvp": lambda tr, xp, f: lambda x: tr.jvp(tr.grad(lambda x: xp.sum(f(x) ** 2)), (x,), (xp.asarray(U),))[1],
    "vmap": lambda tr, xp, f: lambda x: xp.sum(tr.vmap(lambda r: f(r * x))(xp.asarray(ROWS)), axis=0),
    "vmap of both": lambda tr, xp, f: (
        lambda x: xp.mean(
            tr.vmap(lambda r, s: f(r + s) * r, in_axes=(0, 1), out_axes=1)(xp.asarray(ROWS), x[:, None] * ROWS.T),
            axis=1,
        )
    ),
    "vmap of grad": lambda tr, xp, f: (
        lambda x: xp.sum(
            tr.vmap(tr.grad(lambda r, x: xp.sum(f(r * x)), argnums=1), in_axes=(0, None))(xp.asarray(ROWS), x), axis=0
        )
    ),
    "vmap of scalars": lambda tr, xp, f: lambda x: tr.vmap(lambda a: xp.sum(f(a * x)))(x),
    "vmap of picks": lambda tr, xp, f: lambda x: xp.sum(tr.vmap(lambda i: f(x[i]))(xp.asarray(PICKS)), axis=0),
    "vmap of vmap": lambda tr, xp, f: (
        lambda x: xp.sum(
            tr.vmap(lambda r: tr.vmap(lambda s: f(s * x + r))(xp.asarray(ROWS)))(xp.asarray(ROWS)), axis=(0, 1)
        )
    ),
    "linearize": lambda tr, xp, f: lambda x: tr.linearize(f, x)[1](xp.cos(x)),
}


def drawn(seed: int) -> tuple[list[int], list[tuple[str, int]]]:
    """The steps of a function, and a tower of transforms with the step that follows each."""
    rng = np.random.default_rng(seed)
    steps = [int(i) for i in rng.integers(len(STEPS), size=2)]
    names = list(TRANSFORMS)
    tower = [(names[int(rng.integers(len(names)))], int(rng.integers(len(STEPS)))) for _ in range(DEPTH)]
    return steps, tower


def build(seed: int, tr: Any, xp: Any) -> Function:
    steps, tower = drawn(seed)

    def start(x: Any) -> Any:
        for step in steps:
            x = STEPS[step](xp, x)
        return x

    f: Function = start
    for name, step in tower:
        transformed = TRANSFORMS[name](tr, xp, f)
        f = lambda x, g=transformed, step=step: xp.tanh(g(x)) + 0.3 * STEPS[step](xp, x)  # noqa: E731
    return f


def test_every_transform_and_step_is_drawn() -> None:
    towers = [drawn(seed) for seed in range(SEEDS)]
    assert {name for _, tower in towers for name, _ in tower} == set(TRANSFORMS)
    assert {step for steps, tower in towers for step in [*steps, *(s for _, s in tower)]} == set(range(len(STEPS)))


@pytest.fixture(scope="module", autouse=True)
def sixty_four_bits() -> None:
    with agrad.use_backend("jax"):
        pass  # selecting it is what turns JAX's 64-bit mode on


@pytest.mark.parametrize("seed", range(SEEDS))
def test_towers_of_transforms(seed: int) -> None:
    import jax

    x = np.random.default_rng(100 + seed).standard_normal(N)
    ours, theirs = build(seed, agrad, agrad), jax.jit(build(seed, jax, jax.numpy))
    expected = np.asarray(theirs(x))
    assert np.isfinite(expected).all()
    assert_close(ours(agrad.asarray(x)), expected, f"{drawn(seed)[1]}", 1e-8, 10.0)
