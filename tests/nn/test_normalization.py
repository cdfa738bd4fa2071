"""Normalizations against PyTorch's: values, derivatives in every mode, running values, and the modules."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from torch_parity import check_same, close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, ShapeError

F = nn.functional
RNG = np.random.default_rng(13)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) * 1.5 + 0.5


X, IMAGE = draw(3, 4, 5), draw(2, 6, 3, 2)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_layer_norm_and_rms_norm(backend: str, shape: tuple[int, ...], affine: bool) -> None:
    import torch

    more = [draw(*shape), draw(*shape)] if affine else []
    layer = torch.nn.functional.layer_norm
    check_same(lambda x, *wb: F.layer_norm(x, shape, *wb), lambda x, *wb: layer(x, shape, *wb), [X, *more])
    rms = torch.nn.functional.rms_norm
    check_same(lambda x, *w: F.rms_norm(x, shape, *w), lambda x, *w: rms(x, shape, *w), [X, *more[:1]])


@pytest.mark.needs("torch")
def test_group_instance_and_batch_norm(backend: str) -> None:
    import torch

    w, b = draw(6), draw(6)
    theirs = torch.nn.functional
    check_same(lambda x, *wb: F.group_norm(x, 3, *wb), lambda x, *wb: theirs.group_norm(x, 3, *wb), [IMAGE, w, b])
    check_same(
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        lambda x, w, b: theirs.instance_norm(x, weight=w, bias=b),
        [IMAGE, w, b],
    )
    for n in (1, 4, 5):
        how = (n, 0.3, 0.6, 1.5)
        check_same(
            lambda x, how=how: F.local_response_norm(x, *how),
            lambda x, how=how: theirs.local_response_norm(x, *how),
            [IMAGE],
        )
    check_same(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: theirs.batch_norm(x, None, None, w, b, True),
        [IMAGE, w, b],
    )
    mean, variance = draw(6), np.abs(draw(6))
    check_same(
        lambda x, w, b: F.batch_norm(x, here(mean), here(variance), w, b),
        lambda x, w, b: theirs.batch_norm(x, torch.asarray(mean), torch.asarray(variance), w, b),
        [IMAGE, w, b],
    )


@pytest.mark.needs("torch")
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("name", "shape", "momentum"),
    [
        ("BatchNorm1d", (5, 4), 0.3), ("BatchNorm1d", (5, 4), None), ("BatchNorm2d", (3, 4, 3, 2), None),
        ("BatchNorm3d", (2, 4, 2, 3, 2), 0.3),
    ],
)  # fmt: skip
def test_batch_norm_layers(
    backend: str, name: str, shape: tuple[int, ...], momentum: float | None, jitted: bool
) -> None:
    import torch

    layer = getattr(nn, name)(4, momentum=momentum, dtype="float64")
    theirs = getattr(torch.nn, name)(4, momentum=momentum, dtype=torch.float64)
    step = agrad.jit(layer) if jitted else layer
    for _ in range(4):
        x = draw(*shape)
        close(step(here(x)), theirs(torch.asarray(x)), "the value in training")
        close(layer.running_mean, theirs.running_mean, "the running mean")
        close(layer.running_var, theirs.running_var, "the running variance")
    layer.eval(), theirs.eval()
    close(layer(here(x)), theirs(torch.asarray(x)), "the value in evaluation")
    close(layer(here(x)), theirs(torch.asarray(x)), "the value in evaluation again")
    state = theirs.state_dict()
    assert set(layer.state_dict()) == set(state)
    assert layer.state_dict()["num_batches_tracked"] == state["num_batches_tracked"] == 4
    assert [name for name, _ in layer.named_buffers()] == ["running_mean", "running_var"]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5), (3, 4, 3, 2), (4, 3, 2), (2, 4, 2, 3, 2), (4, 2, 3, 2)])
def test_instance_norm_layers(backend: str, shape: tuple[int, ...], tracked: bool) -> None:
    import torch

    spatial = len(shape) - (1 if shape[0] == 4 else 2)
    name = f"InstanceNorm{spatial}d"
    layer = getattr(nn, name)(4, 1e-4, 0.3, tracked, tracked, dtype="float64")
    theirs = getattr(torch.nn, name)(4, 1e-4, 0.3, tracked, tracked, dtype=torch.float64)
    for step in (layer, agrad.jit(layer)):
        x = draw(*shape)
        close(step(here(x)), theirs(torch.asarray(x)), "the value in training")
    assert set(layer.state_dict()) == set(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        close(layer.state_dict()[key], value, key)
    layer.eval(), theirs.eval()
    close(layer(here(x)), theirs(torch.asarray(x)), "the value in evaluation")


def test_the_mean_over_batches_goes_on_where_it_was_saved(backend: str) -> None:
    batches = [draw(5, 4) for _ in range(4)]
    whole, first, second = (nn.BatchNorm1d(4, momentum=None, dtype="float64") for _ in range(3))
    for x in batches:
        whole(here(x))
    for x in batches[:2]:
        first(here(x))
    second.load_state_dict(first.state_dict())
    step = agrad.jit(second)
    for x in batches[2:]:
        step(here(x))
    close(second.running_mean, np.mean([x.mean(axis=0) for x in batches], axis=0), "the mean")
    close(second.running_var, host(whole.running_var), "the variance")
    assert second.num_batches_tracked == 4 and step.cache_info().misses == 1


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.LayerNorm((4, 5)), X),
        (nn.RMSNorm(5), X),
        (nn.GroupNorm(2, 6), IMAGE),
        (nn.LayerNorm(5, bias=False), X),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, nn.Module) else "",
)
def test_modules(layer: Any, x: np.ndarray) -> None:
    import torch

    sizes = (2, 6) if type(layer) is nn.GroupNorm else (layer.normalized_shape,)
    theirs = getattr(torch.nn, type(layer).__name__)(*sizes)
    value = theirs(torch.asarray(x.astype(np.float32))).detach().numpy()
    np.testing.assert_allclose(host(layer(x.astype(np.float32))), value, atol=1e-5)


def test_refusals(backend: str) -> None:
    layer = nn.BatchNorm1d(4, dtype="float64")
    before = host(layer.running_mean)
    with pytest.raises(ConfigurationError, match="vmap"):
        agrad.vmap(layer)(here(draw(2, 5, 4)))
    np.testing.assert_array_equal(host(layer.running_mean), before)
    with pytest.raises(ShapeError, match="more than one value"):
        layer(here(draw(1, 4)))
    with pytest.raises(ShapeError, match="axes"):
        layer(here(draw(4)))
    with pytest.raises(ShapeError, match=r"must end with the normalized shape \(4,\), got \(3, 4, 5\)"):
        F.layer_norm(here(X), (4,))
    with pytest.raises(ConfigurationError, match="num_groups"):
        F.group_norm(here(IMAGE), 4)
    with pytest.raises(ConfigurationError, match="running_mean"):
        F.batch_norm(here(IMAGE))
    with pytest.raises(ConfigurationError, match="momentum"):
        nn.BatchNorm2d(3, momentum=2.0)
    with pytest.raises(ConfigurationError, match="momentum"):
        nn.InstanceNorm2d(3, momentum=None)
    with pytest.raises(ShapeError, match="more than one value"):
        F.instance_norm(here(draw(2, 3)))
    with pytest.raises(ConfigurationError, match="use_input_stats"):
        F.instance_norm(here(IMAGE), use_input_stats=False)
    with pytest.raises(ShapeError, match=r"InstanceNorm2d: x must have 3 channels, got shape \(2, 6, 3, 2\)"):
        nn.InstanceNorm2d(3)(here(IMAGE))
    with pytest.raises(ShapeError, match=r"InstanceNorm1d: x must have 2 or 3 axes, got shape \(2, 6, 3, 2\)"):
        nn.InstanceNorm1d(6)(here(IMAGE))
    with pytest.raises(ConfigurationError, match="cannot be updated under vmap, because"):
        agrad.vmap(nn.InstanceNorm1d(4, track_running_stats=True, dtype="float64"))(here(draw(2, 3, 4, 5)))
    with pytest.raises(ShapeError, match="local_response_norm"):
        F.local_response_norm(here(draw(2, 3)), 2)


@pytest.mark.parametrize("make", [nn.BatchNorm1d, partial(nn.InstanceNorm1d, track_running_stats=True)])
def test_a_recomputation_changes_no_running_values(backend: str, make: Any) -> None:
    layers = [make(3, momentum=0.5, dtype="float64") for _ in range(2)]
    x = here(draw(2, 3, 4))
    for f in (agrad.checkpoint(layers[0]), layers[1]):
        gradient = agrad.grad(lambda x, f=f: agrad.sum(f(x) ** 3))
        gradient(x)
        agrad.jit(gradient)(x)
    for name, value in layers[1].state_dict().items():
        np.testing.assert_allclose(layers[0].state_dict()[name], value, rtol=1e-12, err_msg=name)
