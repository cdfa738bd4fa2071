"""Random programs of the operations with CUDA kernels of their own: CuPy computes what NumPy does, eager and jitted.

FUSED_PROGRAMS=500 pytest --backend cupy tests/kernels/test_cupy_programs.py
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import host

import agrad
from agrad import nn
from agrad.backends import load

SEEDS = range(int(os.environ.get("FUSED_PROGRAMS", "12")))
Step = Callable[[Any, Any], Any]
"""From the state, an array of shape (rows, columns), and a weight of shape (columns, columns) to the next state."""


def slices(rng: np.random.Generator) -> Step:
    a, b = sorted(rng.integers(1, 5, 2))
    parts = [(..., slice(a)), (..., slice(int(b), None)), (..., slice(None, None, -1)), (slice(0, 1),), (..., int(a))]
    chosen = [parts[k] for k in rng.permutation(len(parts))[: rng.integers(1, 5)]]

    def step(x: Any, w: Any) -> Any:
        return x * 0.5 + sum(agrad.sum(agrad.tanh(x[index])) * (k + 1) for k, index in enumerate(chosen)) * 0.1

    return step


def windows(rng: np.random.Generator) -> Step:
    kernel, stride = (int(n) for n in rng.integers(1, 4, 2))

    def step(x: Any, w: Any) -> Any:
        rows, columns = x.shape
        pooled = nn.functional.max_pool2d(agrad.reshape(agrad.concat([x, x @ w], axis=0), (1, 2, rows, columns)),
                                          (min(kernel, rows), kernel), stride)  # fmt: skip
        return x + agrad.mean(pooled) + pooled[0, 0, 0, 0]

    return step


def masked(rng: np.random.Generator) -> Step:
    limit, kind = float(rng.normal()), int(rng.integers(4))
    inner = [agrad.log, agrad.sqrt, lambda y: 1 / y, lambda y: agrad.exp(y * 800)][kind]
    return lambda x, w: agrad.where(x > abs(limit), agrad.tanh(inner(agrad.where(x > abs(limit), x, -x))) * x, x)


STEPS: list[Callable[[np.random.Generator], Step]] = [
    slices, windows, masked,
    lambda rng: lambda x, w: agrad.linear(x, w, w[0]),
    lambda rng: lambda x, w: agrad.linear(x, agrad.permute_dims(w, (1, 0)), w[:, 1]) * x,
    lambda rng: lambda x, w: agrad.tanh(x) * agrad.sigmoid(x @ w),
    lambda rng: lambda x, w: agrad.exp(-x * x) / (1 + w[1] ** 2),
    lambda rng: lambda x, w: agrad.softmax(x, axis=0) + agrad.relu(x),
    lambda rng: lambda x, w: agrad.softmax(x * w[2], axis=1) / agrad.sqrt(x * x + w[:, 0] ** 2 + 0.1),
    lambda rng: lambda x, w: x - nn.functional.layer_norm(x, x.shape[1]),
]  # fmt: skip


def program(seed: int) -> tuple[Callable[..., Any], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.choice([1, 3, 8, 40])), int(rng.integers(5, 9))
    steps = [STEPS[k](rng) for k in rng.integers(0, len(STEPS), rng.integers(2, 6))]
    integers = rng.choice(["int64", "int32", "uint8", "int16"])
    labels = rng.integers(0, columns, rows).astype(integers)
    ignored = int(labels[rng.integers(rows)]) if rows > 1 and rng.random() < 0.5 else -100
    how = {"ignore_index": ignored, "label_smoothing": float(rng.choice([0.0, 0.0, 0.1])),
           "reduction": str(rng.choice(["mean", "sum", "none"]))}  # fmt: skip

    def loss(x: Any, w: Any, labels: Any) -> Any:
        for step in steps:
            x = step(x, w)
        return agrad.sum(nn.functional.cross_entropy(x, labels, **how) * 0.5) + agrad.mean(x * x) * 0.01

    return loss, [rng.normal(size=(rows, columns)), rng.normal(size=(columns, columns)) / columns, labels]


@pytest.mark.needs("cupy")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program(seed: int) -> None:
    loss, inputs = program(seed)
    right = agrad.value_and_grad(loss, argnums=(0, 1))(*inputs)
    given = [load("cupy").from_host(a, None) for a in inputs]
    for call in (agrad.value_and_grad(loss, argnums=(0, 1)), agrad.jit(agrad.value_and_grad(loss, argnums=(0, 1)))):
        for _ in range(2):
            value, gradients = call(*given)
            np.testing.assert_allclose(host(value), right[0], rtol=1e-9)
            for mine, other in zip(gradients, right[1], strict=True):
                np.testing.assert_allclose(host(mine), other, rtol=1e-7, atol=1e-9)
