"""Schedulers: PyTorch's rates step by step, resumed, and in a jitted step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, DataError, OperandError, TracedValueError
from agrad.optim import lr_scheduler, swa_utils

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


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_sixty_steps_are_pytorchs(name: str, kind: str) -> None:
    import torch

    ours, theirs = optimizer_of(kind), torch_optimizer_of(kind)
    mine, other = SCHEDULERS[name](lr_scheduler, ours), SCHEDULERS[name](torch.optim.lr_scheduler, theirs)
    for _ in range(60):
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(momenta(ours), momenta(theirs), rtol=1e-10)
        assert [g["lr"] for g in ours.param_groups] == mine.get_last_lr()
        mine.step()
        other.step()
    assert mine.last_epoch == 60


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2, "factor": 0.5},
        {"patience": 1, "mode": "max", "cooldown": 3, "threshold": 0.1},
        {"patience": 0, "threshold_mode": "abs", "threshold": 0.3, "min_lr": [0.05, 0.01]},
        {"patience": 0, "mode": "max", "threshold_mode": "abs", "threshold": 0.3, "eps": 0.01},
    ],
)
def test_plateaus_are_pytorchs(options: dict[str, Any]) -> None:
    import torch

    ours, theirs = optimizer_of(), torch_optimizer_of()
    mine = lr_scheduler.ReduceLROnPlateau(ours, **options)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    rng = np.random.default_rng(0)
    for step in range(60):
        metric = 3 / (1 + step % 20) + 0.3 * rng.normal()
        mine.step(agrad.asarray(metric, requires_grad=True) if step % 2 else metric)
        other.step(metric)
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-12)
        if step == 30:
            again = lr_scheduler.ReduceLROnPlateau(ours, **options)
            again.load_state_dict(mine.state_dict())
            mine = again
    assert len({mine.get_last_lr()[0], 0.2}) == 2


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("options", [{}, {"anneal_strategy": "linear", "anneal_epochs": 7}, {"anneal_epochs": 0}])
def test_swalr_is_pytorchs(options: dict[str, Any]) -> None:
    import torch

    ours, theirs = optimizer_of(), torch_optimizer_of()
    mine = swa_utils.SWALR(ours, [0.05, 0.02], **options)
    other = torch.optim.swa_utils.SWALR(theirs, [0.05, 0.02], **options)
    for _ in range(20):
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-12)
        mine.step()
        other.step()
    assert mine.get_last_lr() == [0.05, 0.02]


@pytest.mark.needs("torch")
def test_fractions_of_epochs_are_pytorchs() -> None:
    import torch

    ours, theirs = optimizer_of(), torch_optimizer_of()
    mine = lr_scheduler.CosineAnnealingWarmRestarts(ours, 3, 2)
    other = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, 3, 2)
    for epoch in np.linspace(0, 14, 43):
        mine.step(float(epoch))
        other.step(float(epoch))
        np.testing.assert_allclose(mine.get_last_lr(), other.get_last_lr(), rtol=1e-10)
    assert mine.last_epoch == other.last_epoch == 14


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", ["ExponentialLR", "OneCycleLR", "SequentialLR", "CyclicLR"])
def test_a_jitted_step_is_traced_once(backend: str, name: str, kind: str) -> None:
    found = []
    for jitted in (False, True):
        optimizer = optimizer_of(kind)
        scheduler = SCHEDULERS[name](lr_scheduler, optimizer)

        def step(optimizer: Any = optimizer) -> None:
            one, two = optimizer.parameters
            agrad.sum(agrad.square(one * two - 3.0)).backward()
            optimizer.step()
            optimizer.zero_grad()

        run = agrad.jit(step) if jitted else step
        for _ in range(8):
            run()
            scheduler.step()
        found.append([np.array(p.detach().numpy()) for p in optimizer.parameters])
        if jitted:
            assert run.cache_info().misses == 1
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_schedulers_that_multiply_may_be_used_together() -> None:
    optimizer = optimizer_of()
    step, power = lr_scheduler.StepLR(optimizer, 2, 0.5), lr_scheduler.ExponentialLR(optimizer, 0.9)
    for n in range(1, 7):
        step.step()
        power.step()
        np.testing.assert_allclose(optimizer.param_groups[1]["lr"], 0.4 * 0.5 ** (n // 2) * 0.9**n)
    assert "last_epoch=6" in repr(power)


def test_a_run_goes_on_from_a_number_of_steps() -> None:
    optimizer = optimizer_of()
    with pytest.raises(ConfigurationError, match="group 0 must have initial_lr if last_epoch is passed"):
        lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    first = lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(4):
        first.step()
    second = lr_scheduler.CosineAnnealingLR(optimizer, 10, last_epoch=3)
    np.testing.assert_allclose(second.get_last_lr(), first.get_last_lr())
    assert second.last_epoch == 4
    cycle = lr_scheduler.CyclicLR(optimizer_of(), 0.01, 0.05, 4, last_epoch=1)  # it takes its first rate as given
    np.testing.assert_allclose(cycle.get_last_lr(), 0.03)


S = lr_scheduler


@pytest.mark.parametrize(
    ("error", "match", "make"),
    [
        (OperandError, "StepLR: optimizer must be an agrad optimizer, got list", lambda o: S.StepLR([o], 3)),
        (OperandError, "LambdaLR: optimizer must be an agrad optimizer, got int", lambda o: S.LambdaLR(3, abs)),
        (ConfigurationError, "StepLR: step_size must be an integer of at least 1, got 0", lambda o: S.StepLR(o, 0)),
        (ConfigurationError, "milestones", lambda o: S.MultiStepLR(o, [1.5])),
        (ConfigurationError, "factor must be a number from 0 to 1, got 1.5", lambda o: S.ConstantLR(o, 1.5)),
        (ConfigurationError, "LinearLR: start_factor must be greater than 0, got 0", lambda o: S.LinearLR(o, 0.0)),
        (ConfigurationError, "T_max", lambda o: S.CosineAnnealingLR(o, 0)),
        (ConfigurationError, "must have one value for each of 2 groups, got 1", lambda o: S.LambdaLR(o, [abs])),
        (ConfigurationError, "lr_lambda must be a function of the step", lambda o: S.MultiplicativeLR(o, 0.9)),
        (ConfigurationError, "both epochs and steps_per_epoch", lambda o: S.OneCycleLR(o, 0.1, epochs=3)),
        (ConfigurationError, "one of 'cos', .*, got 'sin'", lambda o: S.OneCycleLR(o, 0.1, 9, anneal_strategy="sin")),
        (ConfigurationError, "mode must be one of 'triangular'", lambda o: S.CyclicLR(o, 0.1, 0.2, mode="square")),
        (ConfigurationError, "factor must be a finite number", lambda o: S.ReduceLROnPlateau(o, factor=1.0)),
        (ConfigurationError, "schedulers must be a non-empty list", lambda o: S.ChainedScheduler([])),
        (ConfigurationError, "must not require a metric", lambda o: S.ChainedScheduler([S.ReduceLROnPlateau(o)])),
        (ConfigurationError, "must have the same", lambda o: S.SequentialLR(o, [S.StepLR(optimizer_of(), 2)], [])),
        (ConfigurationError, "must be 0 increasing integers", lambda o: S.SequentialLR(o, [S.StepLR(o, 2)], [4])),
        (OperandError, r"schedulers\[0\] must be a scheduler, got int", lambda o: S.SequentialLR(o, [3], [])),
        (ConfigurationError, "anneal_epochs", lambda o: swa_utils.SWALR(o, 0.1, anneal_epochs=-1)),
    ],
)
def test_wrong_use_is_an_error(error: type[Exception], match: str, make: Any) -> None:
    fails(error, match, lambda: make(optimizer_of()))


def test_wrong_use_later_is_an_error() -> None:
    scheduled = optim.SGD(parameters(), lr=optim.Constant(0.1))
    fails(ConfigurationError, "lr of group 0 must be a number in the optimizer, got a schedule", S.StepLR, scheduled, 2)
    with pytest.raises(ConfigurationError, match="OneCycleLR: Adagrad has no momentum"):
        S.OneCycleLR(optim.Adagrad(parameters()), 0.1, 9)
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

    @agrad.jit
    def step(x: Any) -> Any:
        scheduler.step()
        return x

    fails(TracedValueError, r"StepLR\.step inside step is not repeated", lambda: step(np.ones(2)))
    assert scheduler.last_epoch == 0
    both = S.ChainedScheduler([scheduler, S.ExponentialLR(scheduler.optimizer, 0.9)])
    state = both.state_dict()
    assert {"0.base_lrs", "0.last_epoch", "0.step_size", "1.last_lr", "1.gamma", "last_epoch", "last_lr"} < set(state)
    for wrong in ({**state, "1.last_lr": np.ones(3)}, {**state, "2.last_epoch": np.array(1)}, {}):
        fails(DataError, "was not loaded", both.load_state_dict, wrong)
    assert both.last_epoch == 0
