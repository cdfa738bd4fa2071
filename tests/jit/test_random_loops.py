"""Random steps of loops: compiled by jit, they return what eager code returns, with gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad

N = 3
"""The lengths of the axes."""

OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    agrad.add,
    lambda a, b: a * b,
    lambda a, b: agrad.tanh(a),
    lambda a, b: agrad.sin(a) - b,
    lambda a, b: agrad.matmul(a, b) if a.ndim == b.ndim == 2 else a + 1,
    lambda a, b: a.T if a.ndim == 2 else agrad.reshape(a, (-1,))[0],
    lambda a, b: agrad.sum(a),
    lambda a, b: agrad.matmul(a, b) if a.ndim == 2 and b.shape[:1] == (N,) else -a,
    lambda a, b: agrad.where(a > b, a, b),
    lambda a, b: agrad.exp(-a * a),
    lambda a, b: agrad.subtract(a, b),
)


def drawn(seed: int) -> tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]:
    """Return a function of carried values and slices that scans, and these."""
    rng = np.random.default_rng(seed)
    shapes, length, square = ((N, N), (N,), ()), int(rng.integers(0, 7)), rng.random() < 0.5

    def arrays(*lead: int) -> tuple[Any, ...]:
        found = [(N, N) if square else shapes[rng.integers(3)] for _ in range(rng.integers(1, 4))]
        return tuple([0.5 * rng.standard_normal((*lead, *shape)) for shape in found])

    carry, slices, captured = arrays(), arrays(length), 0.4 * rng.standard_normal((N, N))
    plan = rng.integers(0, 1000, (rng.integers(1, 8), 3)).tolist()
    updates, rows = rng.integers(0, 1000, (len(carry), 3)).tolist(), rng.integers(0, 1000, rng.integers(3)).tolist()

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        values = [*c, *x, captured]
        for operation, a, b in plan:
            values.append(OPERATIONS[operation % len(OPERATIONS)](values[a % len(values)], values[b % len(values)]))
        new = []
        for old, (kind, a, b) in zip(c, updates, strict=True):
            v, w = values[a % len(values)], values[b % len(values)]
            fits = np.broadcast_shapes(v.shape, old.shape) == old.shape
            v = agrad.broadcast_to(v, old.shape) if fits else agrad.full_like(old, 0.3) * agrad.mean(v)
            product = agrad.matmul(v, w) if v.shape == w.shape == (N, N) else v
            new.append((v, old + v, v + old, old + product)[kind % 4])
        return tuple(new), tuple([values[k % len(values)] for k in rows])

    return lambda c, x: agrad.scan(step, c, x, reverse=seed % 2 == 1), carry, slices


@pytest.mark.parametrize("seeds", [range(k, k + 15) for k in range(0, 150, 15)], ids=str)
def test_jitted_loops_are_eager_ones(seeds: range) -> None:
    for seed in seeds:
        f, carry, slices = drawn(seed)
        total = lambda c, x, f=f: sum([agrad.sum(agrad.sin(v)) for v in agrad.tree.leaves(f(c, x))], 0.0)  # noqa: E731
        for g in (f, agrad.grad(total, argnums=(0, 1))):
            compiled, expected = agrad.jit(g), g(carry, slices)
            for _ in range(2):
                for a, b in zip(*map(agrad.tree.leaves, (compiled(carry, slices), expected)), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10, err_msg=f"seed {seed}")
