"""Cross entropy that ignores labels, in jitted functions: another call has other labels."""

from typing import Any

import numpy as np
import pytest

import agrad
from agrad import nn, optim

RNG = np.random.default_rng(4)
X = RNG.standard_normal((6, 5)).astype(np.float32)
BATCHES = [np.array([0, 1, 2, 3, 4, 0]), np.array([0, -100, 2, -100, 4, 1]), np.array([-100, 4, 4, 0, 1, -100])]


@pytest.mark.parametrize("wrap", [agrad.asarray, lambda labels: labels], ids=["tensors", "arrays"])
@pytest.mark.parametrize("kind", ["cross_entropy", "nll_loss"])
def test_labels_of_later_calls_may_be_ignored(wrap: Any, kind: str) -> None:
    def loss(x: Any, labels: Any) -> Any:
        return getattr(nn.functional, kind)(agrad.log_softmax(x), labels)

    def value_and_grad(x: Any, labels: Any) -> Any:
        return agrad.value_and_grad(lambda x: loss(x, labels))(x)

    jitted = agrad.jit(value_and_grad)
    for labels in BATCHES:
        got, expected = jitted(X, wrap(labels)), value_and_grad(X, wrap(labels))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(agrad.asarray(a).numpy(), agrad.asarray(b).numpy(), rtol=1e-5, atol=1e-7)


def train(jit: bool, rows: int, parts: int) -> list[float]:
    rng = np.random.default_rng(1)
    nn.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    def step(*pairs: Any) -> Any:
        total = sum(criterion(model(x), labels) for x, labels in zip(pairs[::2], pairs[1::2], strict=True))
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        return total

    run = agrad.jit(step) if jit else step
    losses = []
    for turn in range(6):
        pairs: list[Any] = []
        for _ in range(parts):
            labels = rng.integers(0, 5, rows)
            labels[turn % rows :: 3] = -100 if rows > 1 and turn > 2 else labels[turn % rows :: 3]
            pairs += [agrad.asarray(rng.standard_normal((rows, 4)).astype(np.float32)), agrad.asarray(labels)]
        losses.append(run(*pairs).item())
    if jit:
        assert "softmax_cross_entropy and its rule" in str(run.lower(*pairs))
    return losses


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (7, 1), (7, 3)])
def test_the_loss_and_its_rule_are_one_instruction(rows: int, parts: int) -> None:
    np.testing.assert_allclose(train(True, rows, parts), train(False, rows, parts), rtol=1e-5)


def test_relu_behind_a_mask_has_no_guard() -> None:
    def loss(x: Any) -> Any:
        return agrad.sum(agrad.where(x > 1, agrad.relu(x), 0.0))

    x = np.asarray([-1.0, 0.0, 0.5, 2.0, np.nan, np.inf])
    assert agrad.grad(loss)(x).tolist() == [0, 0, 0, 1, 0, 1]
    assert agrad.jit(agrad.grad(loss))(x).tolist() == [0, 0, 0, 1, 0, 1]
    assert "mask_unused" not in str(agrad.jit(agrad.grad(loss)).lower(x))
