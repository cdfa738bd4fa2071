"""Updates of parameters as one kernel in CUDA graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad import optim

pytestmark = pytest.mark.needs("cupy")

SHAPES = [(3,), (5, 4), (), (257,), (2, 3, 4)]
MADE: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda ps: optim.SGD(ps, lr=0.1),
    "SGD, decay, maximize": lambda ps: optim.SGD(ps, lr=0.1, weight_decay=0.1, maximize=True),
    "momentum": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.2),
    "nesterov": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda ps: optim.Adam(ps, lr=0.1),
    "AdamW": lambda ps: optim.AdamW(ps, lr=lambda n: 0.1 / (n + 1), weight_decay=0.1),
    "two groups": lambda ps: optim.Adam([{"params": ps[:2], "lr": 0.2, "weight_decay": 0.1}, {"params": ps[2:]}]),
}


def parameters(dtypes: tuple[str, ...], shapes: list[tuple[int, ...]]) -> list[agrad.Tensor]:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape).astype(dtypes[k % len(dtypes)]) for k, shape in enumerate(shapes)]
    return [agrad.asarray(value, backend="cupy", requires_grad=True) for value in values]


def run(made: Callable[[Any], Any], leaves: list[agrad.Tensor], jit: bool, steps: int = 6) -> Any:
    optimizer = made(leaves)

    def step(x: Any) -> Any:
        loss: Any = 0.0
        for p in leaves:
            loss = loss + agrad.sum(agrad.astype(agrad.sin(p * x) ** 2, agrad.float64))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    fast = agrad.jit(step) if jit else step
    for k in range(steps):
        fast(agrad.asarray(np.float64(1.0 + k % 3), backend="cupy"))
    return fast, [p.detach().numpy() for p in leaves]


def instructions(fast: Any) -> list[Any]:
    """Return the instructions of the last program: a first step without momentum is another one."""
    *_, (*_, entry) = fast._entries.values()
    return entry.run.program.instructions


@pytest.mark.parametrize("dtypes", [("float32",), ("float64", "float32")], ids="-".join)
@pytest.mark.parametrize("name", MADE)
def test_a_joint_update_is_that_of_each_parameter(name: str, dtypes: tuple[str, ...]) -> None:
    _, right = run(MADE[name], parameters(dtypes, SHAPES), jit=False)
    fast, found = run(MADE[name], parameters(dtypes, SHAPES), jit=True)
    (update,) = [i for i in instructions(fast) if i.name == "updates"]
    assert len(update.operation.updates) >= len(SHAPES) - 1  # numbers of a parameter without axes stay with it
    for a, b in zip(found, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6 if a.dtype == np.float32 else 1e-12, atol=1e-7)


def test_more_parameters_than_a_launch_takes() -> None:
    shapes = [(k % 5 + 1,) for k in range(70)]
    _, right = run(MADE["Adam"], parameters(("float64",), shapes), jit=False, steps=4)
    fast, found = run(MADE["Adam"], parameters(("float64",), shapes), jit=True, steps=4)
    assert any(i.name == "updates" for i in instructions(fast))
    for a, b in zip(found, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_two_steps_in_one_call_stay_in_order() -> None:
    (leaf,), (like,) = parameters(("float64",), [(4,)]), parameters(("float64",), [(4,)])

    def twice(p: agrad.Tensor, optimizer: Any) -> Callable[[], Any]:
        def step() -> Any:
            total: Any = 0.0
            for _ in range(2):
                loss = agrad.sum(p**2)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total = total + loss
            return total

        return step

    eager = twice(like, optim.Adam([like], lr=0.1))
    fast = agrad.jit(twice(leaf, optim.Adam([leaf], lr=0.1)))
    for _ in range(5):
        np.testing.assert_allclose(float(fast().detach()), float(eager().detach()), rtol=1e-12)
    np.testing.assert_allclose(leaf.detach().numpy(), like.detach().numpy(), rtol=1e-12)


def test_a_parameter_in_another_order_of_memory() -> None:
    import cupy

    found = []
    for jit in (False, True):
        leaves = parameters(("float64",), SHAPES)
        leaves[1].data = cupy.asfortranarray(leaves[1].data)
        found.append(run(MADE["momentum"], leaves, jit)[1])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
