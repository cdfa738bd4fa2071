"""Normalizations against PyTorch's: values, derivatives in every mode, running values, and the modules."""

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
    ("name", "shape"), [("BatchNorm1d", (5, 4)), ("BatchNorm2d", (3, 4, 3, 2)), ("BatchNorm3d", (2, 4, 2, 3, 2))]
)
def test_batch_norm_layers(backend: str, name: str, shape: tuple[int, ...], jitted: bool) -> None:
    import torch

    layer = getattr(nn, name)(4, momentum=0.3, dtype="float64")
    theirs = getattr(torch.nn, name)(4, momentum=0.3, dtype=torch.float64)
    step = agrad.jit(layer) if jitted else layer
    for _ in range(4):
        x = draw(*shape)
        close(step(here(x)), theirs(torch.asarray(x)), "the value in training")
        close(layer.running_mean, theirs.running_mean, "the running mean")
        close(layer.running_var, theirs.running_var, "the running variance")
    layer.eval(), theirs.eval()
    close(layer(here(x)), theirs(torch.asarray(x)), "the value in evaluation")
    assert set(layer.state_dict()) == set(theirs.state_dict()) - {"num_batches_tracked"}
    assert [name for name, _ in layer.named_buffers()] == ["running_mean", "running_var"]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("layer", "x"),
    [(nn.LayerNorm((4, 5)), X), (nn.RMSNorm(5), X), (nn.GroupNorm(2, 6), IMAGE), (nn.LayerNorm(5, bias=False), X)],
    ids=lambda one: type(one).__name__ if isinstance(one, nn.Module) else "",
)
def test_modules(layer: Any, x: np.ndarray) -> None:
    import torch

    sizes = (2, 6) if isinstance(layer, nn.GroupNorm) else (layer.normalized_shape,)
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
    with pytest.raises(ShapeError, match="end with"):
        F.layer_norm(here(X), (4,))
    with pytest.raises(ConfigurationError, match="num_groups"):
        F.group_norm(here(IMAGE), 4)
    with pytest.raises(ConfigurationError, match="running_mean"):
        F.batch_norm(here(IMAGE))
    with pytest.raises(ConfigurationError, match="momentum"):
        nn.BatchNorm2d(3, momentum=2.0)
