"""Schedulers: PyTorch's rates step by step, resumed, and in a jitted step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails
from training_steps import same_jitted, step_of

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, DataError, TracedValueError
from agrad.optim import lr_scheduler as S

Made = Callable[[Any, Any], Any]
"""From a module of schedulers, agrad's or PyTorch's, and an optimizer to a scheduler."""

SCHEDULERS: dict[str, Made] = {
    "StepLR": lambda s, o: s.StepLR(o, 7, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [5, 20, 20, 41], 0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 9),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.8, 17),
    "LinearLR to 0": lambda s, o: s.LinearLR(o, 1.0, 0.0, 17),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 25, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 13, 0.001),
    "CosineAnnealingLR to 0": lambda s, o: s.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7, eta_min=0.01),
    "growing restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, 61),
    "OneCycleLR in three": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.7], epochs=7, steps_per_epoch=9, three_phase=True, anneal_strategy="linear", pct_start=0.4,
        base_momentum=0.7, max_momentum=[0.9, 0.8], div_factor=10, final_div_factor=100,
    ),
    "OneCycleLR alone": lambda s, o: s.OneCycleLR(o, 0.5, 70, cycle_momentum=False),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 7, 4),
    "triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.3, 6, mode="triangular2", base_momentum=0.6),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 6, mode="exp_range", gamma=0.97, scale_mode="iterations"),
    "scale_fn": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 6, scale_fn=lambda n: 1 / n, cycle_momentum=False),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda n: 0.9**n, lambda n: 1 / (1 + n)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.9 + 0.2 * (n % 2)),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=9), s.CosineAnnealingLR(o, 15), s.ExponentialLR(o, 0.8)], [10, 31]
    ),
    "SequentialLR of Lambda": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 100), s.LambdaLR(o, lambda n: 0.5**n), s.StepLR(o, 3)], [7, 20]
    ),
    "fractions of epochs": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2),
    "plateau": lambda s, o: s.ReduceLROnPlateau(o, patience=2, factor=0.5),
    "plateau max": lambda s, o: s.ReduceLROnPlateau(o, "max", patience=1, cooldown=3, threshold=0.1),
    "plateau abs": lambda s, o: s.ReduceLROnPlateau(o, "min", 0.1, 0, 0.3, "abs", min_lr=[0.05, 0.01]),
    "plateau max abs": lambda s, o: s.ReduceLROnPlateau(o, "max", 0.1, 0, 0.3, "abs", eps=0.01),
    "SWALR": lambda s, o: s.SWALR(o, [0.05, 0.02]),
    "SWALR linear": lambda s, o: s.SWALR(o, [0.05, 0.02], anneal_strategy="linear", anneal_epochs=7),
    "SWALR at once": lambda s, o: s.SWALR(o, [0.05, 0.02], anneal_epochs=0),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 6), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 20)]
    ),
}  # fmt: skip


def parameters() -> list[agrad.Tensor]:
    return [nn.init.parameter(np.ones(2), dtype="float64") for _ in range(2)]


def optimizer_of(kind: str = "SGD") -> optim.Optimizer:
    one, two = parameters()
    return getattr(optim, kind)([{"params": [one]}, {"params": [two], "lr": 0.4}], lr=0.2)


def torch_optimizer_of(kind: str = "SGD") -> Any:
    import torch

    one, two = (torch.ones(2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return getattr(torch.optim, kind)([{"params": [one]}, {"params": [two], "lr": 0.4}], lr=0.2)


def momenta(optimizer: Any) -> list[Any]:
    return [group["betas"] if "betas" in group else group["momentum"] for group in optimizer.param_groups]


METRICS = 3 / (1 + np.arange(60) % 20) + 0.3 * np.random.default_rng(0).normal(size=60)


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_sixty_steps_are_pytorchs(name: str, kind: str, torch: Any) -> None:
    module = "swa_utils" if name.startswith("SWALR") else "lr_scheduler"
    ours, theirs = optimizer_of(kind), torch_optimizer_of(kind)
    mine, other = (SCHEDULERS[name](getattr(s, module), o) for s, o in ((optim, ours), (torch.optim, theirs)))
    for n in range(60):
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(momenta(ours), momenta(theirs), rtol=1e-10)
        assert [g["lr"] for g in ours.param_groups] == mine.get_last_lr()
        if name.startswith("plateau"):
            mine.step(agrad.asarray(METRICS[n], requires_grad=True) if n % 2 else METRICS[n])
            other.step(METRICS[n])
        else:
            epoch = (n / 3,) if name == "fractions of epochs" else ()
            mine.step(*epoch)
            other.step(*epoch)
        if n == 30 and name.startswith("plateau"):
            again = SCHEDULERS[name](S, ours)
            again.load_state_dict(mine.state_dict())
            mine = again
    assert mine.last_epoch == (19 if name == "fractions of epochs" else 60)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", ["ExponentialLR", "OneCycleLR", "SequentialLR", "CyclicLR"])
def test_a_jitted_step_is_traced_once(backend: str, name: str, kind: str) -> None:
    def train(jit: Any) -> list[agrad.Tensor]:
        optimizer = optimizer_of(kind)
        scheduler, (one, two) = SCHEDULERS[name](S, optimizer), optimizer.parameters
        run = jit(step_of(optimizer, lambda: agrad.sum(agrad.square(one * two - 3.0))))
        for _ in range(8):
            run()
            scheduler.step()
        assert jit is not agrad.jit or run.cache_info().misses == 1
        return [one, two]

    same_jitted(train, rtol=1e-10)


def test_schedulers_that_multiply_may_be_used_together() -> None:
    optimizer = optimizer_of()
    step, power = S.StepLR(optimizer, 2, 0.5), S.ExponentialLR(optimizer, 0.9)
    for n in range(1, 7):
        step.step()
        power.step()
        np.testing.assert_allclose(optimizer.param_groups[1]["lr"], 0.4 * 0.5 ** (n // 2) * 0.9**n)
    assert "last_epoch=6" in repr(power)


def test_a_run_goes_on_from_a_number_of_steps() -> None:
    optimizer = optimizer_of()
    match = "group 0 must have initial_lr if last_epoch is passed"
    fails(ConfigurationError, match, S.CosineAnnealingLR, optimizer, 10, last_epoch=3)
    first = S.CosineAnnealingLR(optimizer, 10)
    for _ in range(4):
        first.step()
    second = S.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    np.testing.assert_allclose(second.get_last_lr(), first.get_last_lr())
    assert second.last_epoch == 4
    cycle = S.CyclicLR(optimizer_of(), 0.01, 0.05, 4, last_epoch=1)  # it takes its first rate as given
    np.testing.assert_allclose(cycle.get_last_lr(), 0.03)


def test_wrong_use_later_is_an_error() -> None:
    scheduled = optim.SGD(parameters(), lr=optim.Constant(0.1))
    fails(ConfigurationError, "lr of group 0 must be a number in the optimizer, got a schedule", S.StepLR, scheduled, 2)
    adagrad = optim.Adagrad(parameters())
    fails(ConfigurationError, "OneCycleLR: Adagrad has no momentum", S.OneCycleLR, adagrad, 0.1, 9)
    optimizer = optimizer_of()
    cycle = S.OneCycleLR(optimizer, 0.1, 3)
    for _ in range(3):
        cycle.step()
    fails(ConfigurationError, "OneCycleLR: the step must be at most 3, got 4", cycle.step)
    more = optimizer_of()
    grown = [S.StepLR(more, 1), S.ReduceLROnPlateau(more)]
    groups = len(more.param_groups)
    more.add_param_group({"params": parameters()})
    for late, arguments in zip(grown, ((), (1.0,)), strict=True):
        fails(ConfigurationError, f"must have {groups} groups, .* got {groups + 1}", late.step, *arguments)
        assert late.last_epoch == 0
    scheduler = S.StepLR(optimizer_of(), 2)

    fails(TracedValueError, r"StepLR\.step inside .* is not repeated", agrad.jit(lambda: scheduler.step()))
    assert scheduler.last_epoch == 0
    both = S.ChainedScheduler([scheduler, S.ExponentialLR(scheduler.optimizer, 0.9)])
    state = both.state_dict()
    assert {"0.base_lrs", "0.last_epoch", "0.step_size", "1.last_lr", "1.gamma", "last_epoch", "last_lr"} < set(state)
    for wrong in ({**state, "1.last_lr": np.ones(3)}, {**state, "2.last_epoch": np.array(1)}, {}):
        fails(DataError, "was not loaded", both.load_state_dict, wrong)
    assert both.last_epoch == 0
