"""``optim.LossScale``: what a step does with gradients that overflow, eagerly and in a traced step."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close, all_equal
from training_steps import OPTIMIZERS

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, DataError, OperandError

# Dask computes in threads that know nothing of ``numpy.errstate``
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")

MADE: dict[str, Callable[[Any], optim.Optimizer]] = {
    **{name: lambda p, kind=kind, how=how: kind(p, lr=0.1, **how) for name, (kind, how) in OPTIMIZERS.items()},
    "adam": lambda p: optim.Adam(p, lr=0.1, betas=(0.0, 0.99)),
    "schedule": lambda p: optim.AdamW(p, lr=lambda step: 0.1 / (1 + step), maximize=True),
}


class Problem:
    """Two parameters of float32, of which the second has a gradient only if asked; and a loss that may overflow."""

    def __init__(self, make: Callable[[Any], optim.Optimizer], place: Callable[[Any], Any]) -> None:
        rng = np.random.default_rng(0)
        values = [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (4,))]
        self.place = place
        self.parameters = [agrad.asarray(place(v), requires_grad=True) for v in values]
        self.optimizer = make(self.parameters)

    def loss(self, factor: Any, both: bool = True) -> Any:
        p, q = self.parameters
        loss = agrad.sum(p**4) * factor
        return loss + agrad.sum(agrad.square(q)) if both else loss

    def step(self, factor: Any, scale: optim.LossScale | None, both: bool = True) -> Any:
        loss = self.loss(factor, both)
        if scale is None:
            loss.backward()
            self.optimizer.step()
        else:
            scale(loss).backward()
            scale.step()
        self.optimizer.zero_grad()
        return loss

    def values(self) -> list[np.ndarray]:
        state = self.optimizer.state_dict()
        return [p.detach().numpy() for p in self.parameters] + [
            v for name, v in sorted(state.items()) if name not in ("steps", "lr")
        ]


HUGE, ONE = np.float32(1e10), np.float32(1)
"""Times 2**120 the first one is beyond float32."""


@pytest.mark.parametrize("name", ["plain", "dampening", "adam", "schedule"])
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_steps_that_overflow_are_left_out(place: Any, name: str, jitted: bool) -> None:
    scaled, plain = (Problem(MADE[name], place) for _ in range(2))
    scale = optim.LossScale(scaled.optimizer, init_scale=2.0**120, backoff_factor=0.25, growth_interval=3)
    step = agrad.jit(scaled.step, static_argnums=(1, 2)) if jitted else scaled.step
    huge, one = (place(np.asarray(x)) for x in (HUGE, ONE))
    size, taken = 120, 0
    for factor in (huge, huge, one, one, huge, one, one, one, one):
        before = scaled.values()
        step(factor, scale)
        if factor is huge:
            size, taken = size - 2, 0
            all_equal(scaled.values(), before)
            plain.optimizer.steps += 1  # schedules count all steps
        else:
            taken += 1
            size, taken = (size + 1, 0) if taken == 3 else (size, taken)
            plain.step(one, None)
            all_close(scaled.values(), plain.values(), rtol=3e-6, atol=1e-7)
        assert scale.scale == 2.0**size
    assert (scaled.optimizer.steps, scale.state_dict()["good_steps"], taken) == (9, 1, 1)
    assert not jitted or step.cache_info()[:2] == (8, 1)


@pytest.mark.parametrize(
    ("scaled_steps", "both"),
    [((True, True, True, True), (False, True, False, True)), ((False, True, False, True), (True, True, True, True))],
    ids=["a parameter without a gradient", "steps without the scale"],
)
def test_some_steps_of_some_parameters(place: Any, scaled_steps: Any, both: Any) -> None:
    scaled, plain = (Problem(MADE["adam"], place) for _ in range(2))
    scale, one = optim.LossScale(scaled.optimizer), place(np.asarray(ONE))
    for use, all_ in zip(scaled_steps, both, strict=True):
        scaled.step(one, scale if use else None, all_)
        plain.step(one, None, all_)
    all_close(scaled.values(), plain.values(), rtol=1e-5, atol=1e-7)
    assert [int(scaled.optimizer.state_dict()[f"{i}.step"]) for i in range(2)] == [4, sum(both)]


def test_complex_parameters_and_several_optimizers() -> None:
    z = [agrad.asarray(np.array([1 + 2j, -0.5j]), requires_grad=True) for _ in range(2)]
    p = [agrad.asarray(np.array([1.0, 2.0]), requires_grad=True) for _ in range(2)]
    made = [(optim.Adam([a], lr=0.1), optim.SGD([b], lr=0.1)) for a, b in zip(z, p, strict=True)]
    scale = optim.LossScale(*made[0])
    for k in range(4):
        for i, optimizers in enumerate(made):
            loss = agrad.sum(agrad.square(agrad.abs(z[i]))) + agrad.sum(p[i] ** 2) * (np.inf if k == 1 else 1.0)
            if i == 0:
                scale(loss).backward()
                scale.step()
            elif k != 1:
                loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
    all_close(z[:1] + p[:1], z[1:] + p[1:], rtol=1e-6)
    assert scale.scale == 2.0**15


def test_gradients_can_be_clipped_in_between(place: Any) -> None:
    problem = Problem(MADE["plain"], place)
    scale = optim.LossScale(problem.optimizer)
    one = place(np.asarray(ONE))
    problem.loss(one).backward()
    right = [p.grad.numpy() for p in problem.parameters]
    problem.optimizer.zero_grad()
    scale(problem.loss(one)).backward()
    scale.unscale()
    all_equal([p.grad for p in problem.parameters], right)
    fails(ConfigurationError, "already", scale.unscale)
    before = problem.values()[0]
    optim.clip_grad_norm(problem.parameters, 1e-3)
    scale.step()
    assert 0 < np.abs(problem.values()[0] - before).max() < 2e-4


def test_the_scale_stays_a_number(place: Any) -> None:
    problem = Problem(MADE["plain"], place)
    scale = optim.LossScale(problem.optimizer, init_scale=2.0**-125, backoff_factor=0.25)
    for _ in range(3):
        problem.step(place(np.asarray(np.float32(np.nan))), scale)
    assert scale.scale == 2.0**-126
    scale = optim.LossScale(problem.optimizer, init_scale=2.0**125, growth_factor=8.0, growth_interval=1)
    for p in problem.parameters:
        p.grad = agrad.zeros_like(p.detach())
    scale.step()
    assert scale.scale == 2.0**126


def test_a_traced_step_finds_a_scale_that_nothing_leads_to(place: Any) -> None:
    problem = Problem(MADE["plain"], place)
    scale = optim.LossScale(problem.optimizer, init_scale=4.0, growth_interval=1)
    hidden = weakref.ref(scale)

    @agrad.jit
    def step(factor: Any) -> None:
        problem.optimizer.zero_grad()
        (problem.loss(factor) * 4.0).backward()
        hidden().step()  # type: ignore[union-attr]

    found = []
    for _ in range(3):
        step(place(np.asarray(ONE)))
        found.append(scale.scale)
    assert found == [8.0, 16.0, 32.0]


def test_refusals() -> None:
    optimizer = optim.SGD([agrad.asarray(np.ones(2), requires_grad=True)], lr=0.1)
    fails(OperandError, "optimizers", optim.LossScale)
    fails(OperandError, "optimizers", optim.LossScale, 2.0**16)
    for options in (
        {"init_scale": 0.0}, {"init_scale": 2.0**127}, {"growth_factor": 0.5}, {"backoff_factor": 0.0},
        {"backoff_factor": 1.0}, {"growth_interval": 0}, {"growth_interval": 1.5},
    ):  # fmt: skip
        fails(ConfigurationError, "LossScale", optim.LossScale, optimizer, **options)
    scale = optim.LossScale(optimizer)
    fails(ConfigurationError, "no parameter has a gradient", scale.step)
    fails(DataError, "good_steps", scale.load_state_dict, {"scale": np.array(1.0)})


def test_counts_that_no_run_reaches_are_refused() -> None:
    optimizer = optim.Adam(nn.Linear(2, 1).parameters())
    scale = optim.LossScale(optimizer)
    zeros = {f"{i}.{slot}": np.zeros(shape, "f4") for i, shape in enumerate([(2, 1), (1,)]) for slot in "mv"}
    for steps, taken in ((2**40, 2**40), (3, 4)):
        counts = {name: np.array(taken) for name in ("0.step", "1.step")}
        state = zeros | counts | {"steps": np.array(steps), "lr": np.array(0.1)}
        fails(DataError, r"steps must be below 2\*\*31", optimizer.load_state_dict, state)
    for value, good in ((np.nan, 0), (0.0, 0), (np.inf, 0), (1.0, 2**40)):
        state = {"scale": np.array(value), "good_steps": np.array(good)}
        fails(DataError, r"scale must be from 2\*\*-126", scale.load_state_dict, state)
    assert scale.scale == 2.0**16
