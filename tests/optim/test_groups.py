"""Groups of parameters: PyTorch's, read and set between steps, saved, and in a jitted step."""

from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close, all_equal, draw, host, leaf
from training_steps import same_jitted, step_of

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, DataError, TracedValueError


def pairs() -> tuple[list[agrad.Tensor], list[dict[str, Any]]]:
    """Two parameters, and the groups that they are."""
    tensors = [leaf(draw(3, 2)), leaf(draw(2, seed=1))]
    return tensors, [{"params": tensors[:1]}, {"params": tensors[1:], "lr": 0.2, "weight_decay": 0.3}]


def descent(optimizer: optim.Optimizer) -> Any:
    """Return a step of two parameters down the gradient of a loss."""
    one, two = optimizer.parameters
    return step_of(optimizer, lambda: agrad.sum(agrad.square(agrad.sum(one**2, axis=0) + two)))


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"lr": 0.05, "momentum": 0.9}), ("AdamW", {"lr": 0.05}), ("RMSprop", {"momentum": 0.5})],
)
def test_groups_are_pytorchs(backend: str, name: str, options: dict[str, Any], torch: Any) -> None:
    ours, groups = pairs()
    theirs = [torch.tensor(host(t), requires_grad=True) for t in ours]
    optimizer = getattr(optim, name)(groups, **options)
    other = getattr(torch.optim, name)(
        [{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.2, "weight_decay": 0.3}], **options
    )
    late = leaf(draw(2, seed=4)), torch.tensor(draw(2, seed=4), requires_grad=True)
    for step in range(12):
        if step == 4:
            optimizer.add_param_group({"params": late[0], "lr": 0.01})
            other.add_param_group({"params": late[1], "lr": 0.01})
        for g in (*optimizer.param_groups, *other.param_groups):
            g["lr"] *= 0.9
            g["weight_decay"] = 0.1 / (1 + step)
        for i, (a, b) in enumerate(zip([*ours, late[0]], [*theirs, late[1]], strict=True)):
            g = draw(*a.shape, seed=10 * step + i)
            a.grad, b.grad = agrad.asarray(g, backend=a.backend, device=a.device), torch.tensor(g)
        optimizer.step()
        other.step()
    assert [g["lr"] for g in optimizer.param_groups] == [g["lr"] for g in other.param_groups]
    all_close([*ours, late[0]], [t.detach().numpy() for t in (*theirs, late[1])], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "nesterov": True}), ("SGD", {"momentum": 0.9, "dampening": 0.5}), ("Adam", {}),
        ("AdamW", {"amsgrad": True}), ("RMSprop", {"momentum": 0.5, "centered": True}), ("NAdam", {}), ("RAdam", {}),
        ("Lion", {}),
    ],
    ids=str,
)  # fmt: skip
def test_changed_numbers_trace_nothing_anew(backend: str, name: str, options: dict[str, Any]) -> None:
    """The rate never does; another number the first time that it changes."""

    def train(jit: Any) -> list[agrad.Tensor]:
        tensors, groups = pairs()
        optimizer = getattr(optim, name)(groups, **{"lr": 0.01, **options})
        run = jit(descent(optimizer))
        for n in range(9 if backend == "numpy" else 6):
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
                group["weight_decay"] = 0.01 * (2 + n)
                if "betas" in group:
                    group["betas"] = (0.5 + 0.01 * n, 0.9 + 0.001 * n)
                else:
                    group["momentum"] = 0.6 + 0.01 * n
            run()
        # dampening does not hold at the first step, and RAdam is rectified from the sixth on with betas near 0.9
        most = 2 if name == "RAdam" or "dampening" in options else 1
        assert jit is not agrad.jit or run.cache_info().misses <= most
        return tensors

    same_jitted(train)


def test_an_option_that_changes_after_a_trace_traces_once(backend: str) -> None:
    w = leaf(draw(3))
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9, weight_decay=0.1)
    step = agrad.jit(step_of(optimizer, lambda: agrad.sum(w**2)))
    for n, count in enumerate([1, 1, 2, 2, 2, 2]):
        if n > 1:
            optimizer.momentum = 0.9 / n
        step()
        assert step.cache_info().misses == count


@pytest.mark.parametrize("jit", [lambda step: step, agrad.jit], ids=["eager", "jit"])
def test_state_of_a_later_first_step_has_the_options_of_that_step(backend: str, jit: Any) -> None:
    # the sizes of Rprop begin as the rate
    w, late = leaf(np.ones(2)), leaf(np.ones(2))
    optimizer = optim.Rprop([w, late], lr=0.1)
    late.requires_grad = False
    run = jit(step_of(optimizer, lambda: agrad.sum(w**2 + late**2)))
    run()
    optimizer.lr, late.requires_grad = 0.01, True
    run()
    np.testing.assert_allclose(host(late), [0.99, 0.99])


def test_a_traced_function_may_set_the_rate() -> None:
    w = leaf(np.ones(2))
    optimizer = optim.SGD([w], lr=0.1)

    @agrad.jit
    def step(rate: float) -> None:
        agrad.sum(w).backward()
        optimizer.param_groups[0]["lr"] = rate * 2
        optimizer.step()
        optimizer.zero_grad()

    step(0.1)
    step(0.3)
    assert (step.cache_info().misses, optimizer.lr) == (1, 0.6)
    np.testing.assert_allclose(host(w), [0.2, 0.2])
    fails(ConfigurationError, r"SGD: lr must be a finite number of at least 0, got -2\.0", lambda: step(-1.0))


def test_schedules_and_truth_values_that_change_after_a_trace() -> None:
    def train(jit: Any) -> list[agrad.Tensor]:
        w = leaf(np.ones(3))
        optimizer = optim.SGD([w], lr=0.1, momentum=0.9)
        run = jit(step_of(optimizer, lambda: agrad.sum(w**2)))
        for name, value in (
            ("lr", optim.Step(0.2, 2, 0.5)), ("lr", optim.Step(0.3, 3, 0.5)), ("lr", 0.05), ("nesterov", True),
            ("maximize", True), ("maximize", False),
        ):  # fmt: skip
            run()
            run()
            optimizer.param_groups[0][name] = value
        run()
        return [w]

    same_jitted(train, rtol=1e-12)


def test_a_traced_function_may_not_set_truth_values() -> None:
    optimizer = optim.SGD([leaf(np.ones(2))], lr=0.1)
    step = agrad.jit(lambda: setattr(optimizer, "maximize", True))
    fails(TracedValueError, "SGD: maximize=True set inside", step)
    assert not optimizer.maximize


def test_what_a_group_has() -> None:
    tensors, groups = pairs()
    optimizer = optim.SGD(groups, lr=0.05, momentum=0.9)
    first, second = optimizer.param_groups
    assert list(first) == ["params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"]
    assert (len(first), dict(second)["lr"], second["params"]) == (7, 0.2, tensors[1:])
    assert (optimizer.momentum, optimizer.nesterov) == (0.9, False)
    fails(ConfigurationError, "SGD: groups differ in lr", lambda: optimizer.lr)
    fails(ConfigurationError, r"groups have different learning rates: \[0\.05, 0\.2\]", lambda: optimizer.rate)
    optimizer.lr = 0.5
    assert optimizer.lr == optimizer.rate == 0.5
    first["name"] = "weights"
    assert first.pop("name") == "weights" and "name" not in optimizer.param_groups[0]
    assert "Group(1 parameters, lr=0.5" in repr(optimizer)
    second["lr"] = schedule = optim.Step(1.0, 2)
    first["nesterov"] = "yes"
    assert second["lr"] is schedule and first["nesterov"] is True
    for name, value, match in (
        ("lr", -1.0, "lr must be a finite number"),
        ("params", [], "add_param_group"),
        ("dampening", 0.5, "SGD: nesterov=True requires momentum greater than 0 and dampening=0"),
    ):
        fails(ConfigurationError, match, first.__setitem__, name, value)
    fails(ConfigurationError, "SGD: the option 'lr' of a group cannot be deleted", first.__delitem__, "lr")
    fails(KeyError, "learning_rate", first.__getitem__, "learning_rate")


def test_names_beside_parameters() -> None:
    model = nn.Linear(2, 3)
    named = model.named_parameters()
    optimizer = optim.Adam(named)
    assert optimizer.param_groups[0]["param_names"] == [name for name, _ in named]
    assert optimizer.parameters == model.parameters()
    grouped = optim.Adam([{"params": named[:1], "lr": 0.1}, {"params": named[1:]}])
    assert [g["param_names"] for g in grouped.param_groups] == [["weight"], ["bias"]]


def test_a_group_that_is_refused_leaves_the_optimizer_as_it_was() -> None:
    tensors, groups = pairs()
    optimizer = optim.Adam(groups)
    before = repr(optimizer)
    wrong = {"params": [leaf(np.ones(1)), tensors[0]]}
    fails(ConfigurationError, "group 2: parameter 1 is already in another group", optimizer.add_param_group, wrong)
    assert repr(optimizer) == before and optimizer.parameters == tensors
    masked = optim.RMSprop(tensors)
    descent(masked)()
    match = r"RMSprop: momentum=0\.9 requires another state"
    fails(ConfigurationError, match, setattr, masked, "momentum", 0.9)
    assert masked.momentum == 0.0


def test_the_state_of_groups_is_saved(backend: str) -> None:
    tensors, groups = pairs()
    optimizer = optim.Adam(groups)
    for n in range(3):
        optimizer.param_groups[1]["lr"] *= 0.5
        optimizer.param_groups[0]["betas"] = (0.5 + 0.1 * n, 0.9)
        descent(optimizer)()
    state = optimizer.state_dict()
    assert state["groups.0.betas"].tolist() == [0.7, 0.9] and state["groups.1.betas"].tolist() == [0.9, 0.999]
    other_tensors, other_groups = pairs()
    for a, b in zip(other_tensors, tensors, strict=True):
        a.assign((b.detach() + 0).raw)
    other = optim.Adam(other_groups)
    other.load_state_dict(state)
    assert repr(other) == repr(optimizer)
    for _ in range(2):
        descent(optimizer)()
        descent(other)()
    all_equal(tensors, other_tensors)
    before = repr(other)
    for wrong, error, match in (
        ({**state, "groups.2.lr": state["groups.0.lr"]}, DataError, "groups.2.lr: not expected"),
        ({**state, "groups.0.betas": np.array(0.5)}, DataError, "groups.0.betas: must be float64 of shape"),
        ({**state, "groups.1.lr": np.array(-1.0)}, ConfigurationError, "lr must be a finite number"),
        ({**state, "groups.0.betas": np.array([0.5, 1.0])}, ConfigurationError, "betas"),
    ):
        fails(error, match, other.load_state_dict, wrong)
    assert repr(other) == before


def test_a_state_says_whose_it_is() -> None:
    def made(*names: str, **options: Any) -> optim.Optimizer:
        return optim.SGD([(name, leaf(draw(2))) for name in names], lr=0.1, **options)

    first = made("a", "b", momentum=0.9)
    first.step()
    state = first.state_dict()
    for other, match in (
        (made("b", "a", momentum=0.9), "0.name: must be b, got a"),
        (made("a", momentum=0.9), r"groups: must be \[0\], got \[0, 0\]"),
        (made("a", "b", momentum=0.9, nesterov=True), r"groups.0.nesterov: must be True, got False"),
    ):
        fails(DataError, match, other.load_state_dict, state)
    second = made("a", "b", momentum=0.5)
    second.load_state_dict(state)
    assert second.momentum == 0.9
    # a file of an older version has no option that had never been changed
    second.load_state_dict({"steps": state["steps"], "lr": state["lr"]})
    assert second.momentum == 0.5


def test_a_group_joins_where_steps_are_left_out(place: Any) -> None:
    one, two = (agrad.asarray(place(draw(2, seed=s)), requires_grad=True) for s in (0, 1))
    optimizer = optim.Adam([one])
    scale = optim.LossScale(optimizer, init_scale=2.0)
    for n in range(3):
        if n == 1:
            optimizer.add_param_group({"params": [two], "lr": 0.1})
        scale(agrad.sum(one**2) + agrad.sum(two**2)).backward()
        scale.step()
        optimizer.zero_grad()
        two.grad = None
    assert [int(optimizer.state_dict()[f"{i}.step"]) for i in range(2)] == [3, 2]
