"""Averages of weights, and gradient clipping, against PyTorch's."""

import math
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_equal, draw, here, host
from training_steps import step_of

import agrad
from agrad import nn, optim
from agrad.errors import AnomalyError, ConfigurationError, DataError, OperandError, TracedValueError
from agrad.optim import swa_utils


def network() -> nn.Module:
    nn.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()


def torch_network(model: nn.Module) -> Any:
    import torch

    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)).double()
    other.load_state_dict({name: torch.tensor(value) for name, value in nn.torch_state_dict(model).items()})
    return other


AVERAGES: dict[str, dict[str, Any]] = {
    "swa": {},
    "ema": {"multi_avg_fn": "get_ema_multi_avg_fn"},
    "ema of each": {"avg_fn": "get_ema_avg_fn"},
    "swa of all": {"avg_fn": "get_swa_avg_fn", "use_buffers": True},
}


def built(module: Any, options: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for name, value in options.items():
        function = getattr(module, value) if isinstance(value, str) else None
        made[name] = value if function is None else function(0.9) if "ema" in value else function()
    return made


def same_averages(averaged: Any, theirs: Any) -> None:
    found = nn.torch_state_dict(averaged.module)
    for key, value in theirs.module.state_dict().items():
        if "num_batches" not in key:
            np.testing.assert_allclose(found[key], value.numpy(), rtol=1e-9, atol=1e-11, err_msg=key)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_pytorchs(backend: str, name: str, jitted: bool, torch: Any) -> None:
    model = network()
    other = torch_network(model)
    averaged = swa_utils.AveragedModel(model, **built(swa_utils, AVERAGES[name]))
    theirs = torch.optim.swa_utils.AveragedModel(other, **built(torch.optim.swa_utils, AVERAGES[name]))
    one = step_of(optim.SGD(model.parameters(), 0.05), lambda x: agrad.mean(agrad.square(model(x) - 1.0)))
    torchs = torch.optim.SGD(other.parameters(), 0.05)

    def step(x: Any) -> None:
        one(x)
        averaged.update_parameters(model)

    run = agrad.jit(step) if jitted else step
    for n in range(4):
        x = draw(6, 3, seed=n)
        run(here(x).raw)
        torch.mean(torch.square(other(torch.tensor(x)) - 1.0)).backward()
        torchs.step()
        torchs.zero_grad()
        theirs.update_parameters(other)
    assert not jitted or run.cache_info().misses == 1
    same_averages(averaged, theirs)
    assert averaged.state_dict()["n_averaged"] == [4]
    x = draw(5, 3, seed=9)
    averaged.eval()
    theirs.eval()
    y = averaged(here(x))
    np.testing.assert_allclose(host(y), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-9)
    batches = [draw(4, 3, seed=20 + n) for n in range(3)]
    swa_utils.update_bn([(here(b),) for b in batches], averaged)
    torch.optim.swa_utils.update_bn([torch.tensor(b) for b in batches], theirs)
    same_averages(averaged, theirs)
    assert (averaged.module[1].momentum, averaged.module[1].training) == (0.1, False)


def test_a_resumed_average_goes_on() -> None:
    model = network()
    first, second = (swa_utils.AveragedModel(model) for _ in range(2))
    for n in range(3):
        if n == 2:
            second.load_state_dict(first.state_dict())
        for p in model.parameters():
            p.assign((p.detach() + 0.1 * n).raw)
        first.update_parameters(model)
        if n == 2:
            second.update_parameters(model)
    all_equal(first.parameters(), second.parameters())
    part = {n: v for n, v in first.state_dict().items() if n != "n_averaged"}
    fails(DataError, "n_averaged: must be int64", second.load_state_dict, part)


def test_wrong_use_of_averages_is_an_error() -> None:
    model = network()
    fails(OperandError, "a Module with parameters", lambda: swa_utils.AveragedModel(nn.ReLU()))
    both = {"avg_fn": max, "multi_avg_fn": max}
    fails(ConfigurationError, "avg_fn and multi_avg_fn cannot be combined", swa_utils.AveragedModel, model, **both)
    fails(ConfigurationError, r"decay must be a number from 0 to 1, got 1\.5", lambda: swa_utils.get_ema_avg_fn(1.5))
    averaged = swa_utils.AveragedModel(model)
    match = r"got differences in 0\.weight, 0\.bias, 1\.weight, 1\.bias, 2\.weight"
    fails(OperandError, match, averaged.update_parameters, nn.Sequential(nn.Linear(2, 2)))
    assert averaged.n_averaged.tolist() == [0]


# ------------------------------------------------------------------ clipping


def leaves(place: Any) -> tuple[list[agrad.Tensor], list[np.ndarray]]:
    grads = [draw(4, 3), np.asarray(0.3), draw(2, seed=1) + 1j * draw(2, seed=2)]
    tensors = [agrad.asarray(place(np.zeros_like(g)), requires_grad=True) for g in grads]
    for tensor, g in zip(tensors, grads, strict=True):
        tensor.grad = agrad.asarray(place(g.copy()))
    return tensors, grads


@pytest.mark.parametrize("norm_type", [1, 2, 3.5, math.inf])
def test_norms_are_pytorchs(place: Any, norm_type: float, torch: Any) -> None:
    ours, grads = leaves(place)
    theirs = [torch.zeros(g.shape, dtype=torch.tensor(g).dtype, requires_grad=True) for g in grads]
    for tensor, g in zip(theirs, grads, strict=True):
        tensor.grad = torch.tensor(g)
    for bound in (0.5, 100.0):
        norm = optim.clip_grad_norm(ours, bound, norm_type)
        other = torch.nn.utils.clip_grad_norm_(theirs, bound, norm_type)
        np.testing.assert_allclose(norm.item(), other.item(), rtol=1e-12)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(host(a.grad), b.grad.numpy(), rtol=1e-12)


def test_values_are_limited(place: Any) -> None:
    ours, grads = leaves(place)
    optim.clip_grad_value([*ours, agrad.asarray(place(np.ones(2)), requires_grad=True)], 0.4)
    for tensor, g in zip(ours, grads, strict=True):
        limited = np.clip(g.real, -0.4, 0.4)
        limited = limited + 1j * np.clip(g.imag, -0.4, 0.4) if np.iscomplexobj(g) else limited
        np.testing.assert_array_equal(host(tensor.grad), limited)
    optim.clip_grad_value(ours[0], 0.1)
    assert np.max(np.abs(host(ours[0].grad))) == 0.1
    fails(ConfigurationError, "clip_value", lambda: optim.clip_grad_value(ours, -1.0))


def test_norms_that_are_not_finite() -> None:
    w = agrad.asarray(np.ones(2), requires_grad=True)
    w.grad = agrad.asarray(np.asarray([1.0, np.nan]))
    assert math.isnan(optim.clip_grad_norm([w], 1.0).item())
    w.grad = agrad.asarray(np.asarray([1.0, np.inf]))
    finite = "clip_grad_norm: the norm of the gradients must be finite, got inf"
    fails(AnomalyError, finite, optim.clip_grad_norm, [w], 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(host(w.grad), [1.0, np.inf])
    match = r"must be a number greater than 0 or math\.inf, got 0"
    fails(ConfigurationError, match, optim.clip_grad_norm, [w], 1.0, norm_type=0)

    @agrad.jit
    def clipped() -> Any:
        return optim.clip_grad_norm([w], 1.0, error_if_nonfinite=True)

    fails(TracedValueError, r"item\(\)", clipped)
