"""Steps with ``where``: those that are left out leave every bit, and those that are not are ordinary ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import host
from test_optimizers import KINDS
from training_steps import OPTIMIZERS, same_jitted, step_of

import agrad
from agrad import optim

MADE: dict[str, Callable[[Any], optim.Optimizer]] = {
    **{name: lambda p, kind=kind, how=how: kind(p, lr=0.1, **how) for name, (kind, how) in OPTIMIZERS.items()},
    "schedule": lambda p: optim.AdamW(p, lr=lambda n: 0.1 / (1 + n), weight_decay=0.1),
    "two groups": lambda p: optim.SGD([{"params": p[:1], "momentum": 0.9}, {"params": p[1:], "lr": 0.2}]),
}
OTHERS = {
    f"{name}-{'-'.join(options) or 'plain'}": lambda p, name=name, options=options: getattr(optim, name)(p, **options)
    for name, options in KINDS
    if name not in ("SGD", "Adam", "AdamW")
}
WAYS = [("float32", True), ("float64", False), ("complex128", True)]
CASES = [(name, dtype, jit) for name in MADE for dtype, jit in WAYS] + [(name, "float64", False) for name in OTHERS]
TAKEN = (True, False, True, False, True)
SHAPES = [(3, 4), (257,), (1,), ()]


class Problem:
    """Parameters of one dtype, an optimizer of them, and a step that ``where`` may leave out."""

    def __init__(self, make: Callable[[Any], optim.Optimizer], dtype: str, place: Callable[[Any], Any]) -> None:
        rng = np.random.default_rng(1)
        values = [rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype[0] == "c" else 0) for shape in SHAPES]
        arrays = [place(np.asarray(value, dtype)) for value in values]
        self.parameters = [agrad.asarray(x, requires_grad=True) for x in arrays]
        self.optimizer = make(self.parameters)

        self.step = step_of(self.optimizer, self.loss)

    def loss(self, x: Any) -> Any:
        is_complex = self.parameters[0].dtype.kind == "complex floating"
        kinds = (agrad.real, agrad.imag) if is_complex else (agrad.positive,)
        parts = [part(p) for p in self.parameters for part in kinds]
        return sum(agrad.sum(agrad.square(part - x)) for part in parts)

    def values(self) -> dict[str, np.ndarray]:
        state = {name: x for name, x in self.optimizer.state_dict().items() if name not in ("steps", "lr")}
        return {**state, **{f"parameter {i}": np.array(host(p)) for i, p in enumerate(self.parameters)}}


@pytest.mark.parametrize(("name", "dtype", "jitted"), CASES)
def test_a_step_is_taken_or_left_out(place: Any, name: str, dtype: str, jitted: bool) -> None:
    masked, plain = (Problem((MADE | OTHERS)[name], dtype, place) for _ in range(2))
    step = agrad.jit(masked.step) if jitted else masked.step
    for k, taken in enumerate(TAKEN):
        x = place(np.asarray(0.5 + 0.1 * k, "float32" if dtype == "float32" else "float64"))
        before = masked.values()
        step(x if taken else x * np.nan, where=place(np.asarray(taken)))
        after = masked.values()
        assert after.keys() >= before.keys()
        if taken:
            plain.step(x)
            for key, right in plain.values().items():
                digits = 3e-5 if dtype == "float32" else 1e-11
                np.testing.assert_allclose(after[key], right, rtol=digits, atol=digits, err_msg=f"{key}, step {k}")
        else:
            plain.optimizer.steps += 1  # schedules count all steps
            for key, right in before.items():
                np.testing.assert_array_equal(after[key].tobytes(), right.tobytes(), err_msg=f"{key}, step {k}")
    assert int(masked.optimizer.state_dict()["0.step"]) == sum(TAKEN)


def product(p: Any, q: Any) -> Any:
    """A loss whose gradients are the parameters themselves."""
    return agrad.sum(p * q)


def with_itself(p: Any, q: Any) -> Any:
    """A loss whose gradients are parameters in another order of elements."""
    return agrad.sum(p * agrad.flip(p)) / 4 + agrad.sum(q * agrad.flip(p))


@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "where"])
@pytest.mark.parametrize("loss", [product, with_itself])
@pytest.mark.parametrize("name", ["plain", "momentum", "Adam"])
def test_gradients_in_the_memory_of_parameters(place: Any, name: str, loss: Callable[..., Any], masked: bool) -> None:
    def train(jit: Any) -> list[agrad.Tensor]:
        rng = np.random.default_rng(2)
        p, q = (agrad.asarray(place(rng.normal(size=3001)), requires_grad=True) for _ in range(2))
        run = jit(step_of(MADE[name]([p, q]), lambda: loss(p, q)))
        for k in range(4):
            run(**({"where": place(np.asarray(k != 2))} if masked else {}))
        return [p, q]

    same_jitted(train, rtol=1e-10)


@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "where"])
def test_two_steps_in_one_call(place: Any, masked: bool) -> None:
    def train(jit: Any) -> list[Any]:
        w = agrad.asarray(place(np.linspace(-1.0, 2.0, 1001)), requires_grad=True)
        one = step_of(optim.Adam([w], lr=0.1), lambda: agrad.sum(agrad.square(w)))

        def step(first: Any) -> Any:
            old = w.detach() * 1.0
            for where in (first, agrad.logical_not(first)):
                one(where=agrad.asarray(where).raw if masked else None)
            return agrad.sum(agrad.abs(w.detach() - old))

        run = jit(step)
        return [run(place(np.asarray(k % 2 == 0))) for k in range(4)] + [w]

    same_jitted(train)


@pytest.mark.parametrize("masked", [False, True], ids=["all steps", "where"])
@pytest.mark.parametrize("name", ["plain", "momentum", "Adam"])
def test_a_jitted_step_is_in_place(backend: str, place: Any, name: str, masked: bool) -> None:
    if backend != "cupy" and (backend != "numpy" or masked):
        pytest.skip("in place are NumPy's ordinary steps, and all of CuPy's")
    problem = Problem(MADE[name], "float32", place)
    run = agrad.jit(problem.step)
    x, where = place(np.float32(0.5)), place(np.asarray(True)) if masked else None
    held = []
    for _ in range(5):
        run(x, where=where)
        state = [*[p.data for p in problem.parameters[:3]], *[a for some in problem.optimizer.arrays[:3] for a in some]]
        held.append([a.ctypes.data if backend == "numpy" else a.data.ptr for a in (*state, *problem.optimizer._taken)])
        del state
    assert held[1] == held[-1]
