"""Random compositions of operations, differentiated by agrad on NumPy and by JAX, to the second order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad

pytestmark = pytest.mark.needs("jax")

SHAPE = (3, 4)
SEEDS = 24
STEPS = 9

UNARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda xp, x: xp.sin(x),
    lambda xp, x: xp.tanh(x),
    lambda xp, x: xp.exp(-x * x),
    lambda xp, x: xp.log1p(x * x),
    lambda xp, x: xp.sqrt(1 + x * x),
    lambda xp, x: x / (1 + xp.abs(x)),
    lambda xp, x: xp.where(x > 0.1, x * x, xp.sin(x)),
    lambda xp, x: xp.maximum(x, 0.3 * x),
    lambda xp, x: x - xp.mean(x, axis=1, keepdims=True),
    lambda xp, x: x / xp.sqrt(0.5 + xp.var(x, axis=0, keepdims=True)),
    lambda xp, x: xp.cumulative_sum(x, axis=1) * 0.3,
    lambda xp, x: xp.flip(x, axis=0),
    lambda xp, x: xp.reshape(xp.permute_dims(xp.reshape(x, (4, 3)), (1, 0)), SHAPE),
    lambda xp, x: xp.concat([x[:, 2:], x[:, :2] * 2], axis=1),
    lambda xp, x: xp.stack([x[0], x[2], x[1]]),
    lambda xp, x: x[xp.asarray([2, 0, 2])],
    lambda xp, x: x + xp.max(x, axis=1, keepdims=True),
    lambda xp, x: x * xp.sum(x) * 0.1,
    lambda xp, x: xp.matmul(xp.matmul(x, xp.matrix_transpose(x)) * 0.2, x),
    lambda xp, x: xp.linalg.solve(4 * xp.eye(3) + 0.1 * xp.matmul(x, xp.matrix_transpose(x)), x),
    lambda xp, x: x + 0.1 * xp.prod(x, axis=0),
    lambda xp, x: (x * x + 1) ** 0.7,
    lambda xp, x: xp.broadcast_to(x[:1], SHAPE) + x,
    lambda xp, x: xp.tril(x) - 0.5 * xp.triu(x, k=1),
)
BINARY: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda xp, a, b: a + b,
    lambda xp, a, b: a * b,
    lambda xp, a, b: a - 0.5 * b,
    lambda xp, a, b: a / (1.5 + b * b),
    lambda xp, a, b: xp.where(a > b, a, b * 0.9),
    lambda xp, a, b: (0.5 + a * a) ** xp.tanh(b),
)


def composition(seed: int) -> Callable[[Any, Any], Any]:
    """A random expression graph, with values used several times."""
    rng = np.random.default_rng(seed)
    steps = [
        (bool(rng.random() < 0.35), int(rng.integers(1000)), int(rng.integers(1000)), int(rng.integers(1000)))
        for _ in range(STEPS)
    ]

    def f(xp: Any, x: Any) -> Any:
        made = [x]
        for two, op, i, j in steps:
            a, b = made[-1 - i % min(2, len(made))], made[j % len(made)]
            made.append(BINARY[op % len(BINARY)](xp, a, b) if two else UNARY[op % len(UNARY)](xp, a))
        return xp.sum(xp.tanh(made[-1] + 0.3 * made[-2]))

    return f


def test_every_step_is_drawn() -> None:
    drawn = set()
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        for _ in range(STEPS):
            two, op = bool(rng.random() < 0.35), int(rng.integers(1000))
            rng.integers(1000), rng.integers(1000)
            drawn.add((two, op % len(BINARY if two else UNARY)))
    assert len(drawn) == len(UNARY) + len(BINARY)


@pytest.fixture(scope="module", autouse=True)
def sixty_four_bits() -> None:
    with agrad.use_backend("jax"):
        pass  # selecting it is what turns JAX's 64-bit mode on


@pytest.mark.parametrize("seed", range(SEEDS))
def test_gradients_and_second_derivatives(seed: int) -> None:
    import jax
    import jax.numpy as jnp

    f = composition(seed)
    rng = np.random.default_rng(1000 + seed)
    x, v = rng.standard_normal(SHAPE), rng.standard_normal(SHAPE)
    ours, theirs = (lambda x: f(agrad, x)), (lambda x: f(jnp, x))
    value, gradient = agrad.value_and_grad(ours)(x)
    expected_value, expected = jax.value_and_grad(theirs)(x)
    scale = 1 + float(np.max(np.abs(expected)))
    assert_close(value, np.asarray(expected_value), "value", 1e-9)
    assert_close(gradient, np.asarray(expected), "gradient", 1e-9, scale)
    _, t = agrad.jvp(ours, (x,), (v,))
    assert_close(t, np.sum(np.asarray(expected) * v), "tangent", 1e-9, scale * 10)
    leaf = agrad.asarray(x, requires_grad=True)
    ours(leaf).backward()
    assert_close(leaf.grad, np.asarray(expected), "imperative gradient", 1e-9, scale)
    wanted = np.asarray(jax.jvp(jax.grad(theirs), (jnp.asarray(x),), (jnp.asarray(v),))[1])
    larger = 1 + float(np.max(np.abs(wanted)))
    product = agrad.grad(lambda x: agrad.sum(agrad.grad(ours)(x) * v))(x)
    assert_close(product, wanted, "reverse over reverse", 1e-8, larger)
    assert_close(agrad.jvp(agrad.grad(ours), (x,), (v,))[1], wanted, "forward over reverse", 1e-8, larger)
    assert np.isfinite(host(product)).all()
