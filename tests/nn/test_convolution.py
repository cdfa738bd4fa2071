"""Convolutions against PyTorch's: values, derivatives in every mode, every option, and refusals."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.kernels.numpy import convolution as kernels

F = nn.functional
RNG = np.random.default_rng(11)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


PLAIN: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("conv1d", [draw(2, 3, 9), draw(4, 3, 3), draw(4)], {"stride": 2, "padding": 1}),
    ("conv1d", [draw(3, 9), draw(4, 3, 4)], {"padding": "same", "dilation": 2}),
    ("conv2d", [draw(2, 4, 6, 5), draw(6, 4, 3, 2), draw(6)], {}),
    ("conv2d", [draw(2, 4, 6, 5), draw(6, 2, 3, 2)], {"stride": (2, 1), "padding": (1, 2), "groups": 2}),
    ("conv2d", [draw(1, 4, 7, 8), draw(4, 1, 3, 2)], {"dilation": (2, 3), "groups": 4, "stride": 2}),
    ("conv2d", [draw(2, 2, 5, 5), draw(3, 2, 5, 4)], {"padding": "valid"}),
    ("conv3d", [draw(1, 2, 4, 5, 3), draw(2, 2, 2, 3, 2), draw(2)], {"stride": (1, 2, 1), "padding": 1}),
    ("conv_transpose1d", [draw(2, 3, 5), draw(3, 4, 3), draw(4)], {"stride": 2, "output_padding": 1}),
    ("conv_transpose2d", [draw(2, 4, 4, 3), draw(4, 3, 3, 2)], {"stride": (2, 3), "padding": 1, "groups": 2}),
    ("conv_transpose2d", [draw(4, 4, 3), draw(4, 3, 3, 2), draw(3)], {"dilation": (1, 2), "padding": (1, 0)}),
    ("conv_transpose3d", [draw(1, 2, 3, 2, 3), draw(2, 2, 2, 2, 2)], {"stride": 2}),
]  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", [Call(*one) for one in PLAIN], ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("seed", range(20))
def test_any_setting(backend: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, stride, dilation, padding = (int(n) for n in rng.integers(1, 4, size=4))
    n, c, o, k = (int(n) for n in rng.integers(1, 4, size=4))
    sizes = rng.integers(k * dilation, 13, size=2)
    x, w = rng.normal(size=(n, c * groups, *sizes)), rng.normal(size=(o * groups, c, k, k))
    options = {"stride": stride, "dilation": dilation, "groups": groups}
    check_call(Call("conv2d", [x, w], {**options, "padding": padding - 1}), modes=False)
    y = rng.normal(size=(n, o * groups, *(int(s) for s in rng.integers(2, 5, size=2))))
    check_call(Call("conv_transpose2d", [y, w], {**options, "output_padding": stride - 1}), modes=False)


WIDE: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("conv2d", [draw(3, 64, 6, 7), draw(34, 32, 3, 2)], {"padding": 1, "groups": 2}),
    ("conv2d", [draw(2, 33, 7, 6), draw(4, 33, 2, 3)], {"stride": (2, 3), "padding": 1, "dilation": 2}),
    ("conv2d", [draw(5, 33, 4, 3), draw(4, 33, 1, 1)], {}),
    ("conv2d", [draw(2, 1, 5, 20), draw(3, 1, 3, 2)], {"padding": (1, 0)}),
    ("conv2d", [draw(5, 6, 4, 3), draw(4, 3, 1, 1)], {"stride": (1, 2), "groups": 2}),
    ("conv2d", [draw(3, 5, 6, 7), draw(5, 1, 3, 3)], {"padding": 1, "groups": 5}),
    ("conv2d", [draw(3, 4, 7, 7), draw(6, 2, 3, 3)], {"stride": 2, "groups": 2}),
    ("conv_transpose2d", [draw(2, 33, 4, 3), draw(33, 3, 3, 2)], {"stride": (3, 2), "dilation": (2, 3)}),
]  # fmt: skip


@pytest.mark.needs("torch")
@pytest.mark.parametrize("block", [1, 4000, 1 << 20])
@pytest.mark.parametrize("call", [Call(*one) for one in WIDE], ids=lambda call: call.name)
def test_every_way_on_numpy(call: Call, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows copied by channels and by places, in one block and in several."""
    monkeypatch.setattr(kernels, "_BLOCK", block)
    check_call(call, modes=False)


@pytest.mark.parametrize(("c", "groups"), [(40, 1), (4, 4), (3, 1)])
def test_arrays_in_any_memory(c: int, groups: int) -> None:
    x, w = draw(2, c, 6, 10), draw(c, c // groups, 3, 3)
    views = [
        np.broadcast_to(x[:, :1], x.shape), np.broadcast_to(x[:1], x.shape), x[:, ::-1], x[..., ::2], x[:, :, ::-1, 1:],
        np.moveaxis(draw(2, 6, 10, c), 3, 1), np.asfortranarray(x),
    ]  # fmt: skip
    for view in views:
        found = F.conv2d(view, w[..., ::-1], padding=1, groups=groups)
        expected = F.conv2d(np.array(view, order="C"), w[..., ::-1].copy(), padding=1, groups=groups)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_infinities_stay_where_they_are() -> None:
    """Elements beside a window have no part in it, in the derivatives too."""
    x, w = draw(2, 2, 5, 5), draw(3, 2, 3, 3)
    x[1, 0, 2, 0], x[0, 1, 4, 4] = np.inf, np.nan
    y, pull = agrad.vjp(lambda x, w: F.conv2d(x, w), x, w)
    with np.errstate(invalid="ignore"):
        slope = pull(np.ones_like(y))[1]
    assert np.all(np.isfinite(y[1, :, :, 1:])) and np.all(np.isfinite(y[0, :, :2]))
    expected = np.zeros((2, 3, 3))
    for i, j in np.ndindex(3, 3):
        expected[:, i, j] = np.sum(x[:, :, i : i + 3, j : j + 3], axis=(0, 2, 3))
    np.testing.assert_allclose(slope, np.broadcast_to(expected, w.shape), atol=1e-12)
    assert np.isfinite(expected).sum() == 9 - 3 + 9 - 1


def test_no_samples(backend: str) -> None:
    assert F.conv2d(here(np.zeros((0, 2, 5, 5))), here(draw(3, 2, 3, 3))).shape == (0, 3, 3, 3)


def test_a_transposed_convolution_may_leave_nothing(backend: str) -> None:
    """PyTorch returns the empty array too, where its library supports it (batches in float32)."""
    x, w = here(draw(2, 3, 1, 4)), here(draw(3, 2, 2, 2))
    assert F.conv_transpose2d(x, w, padding=(1, 0)).shape == (2, 2, 0, 5)
    for f in (agrad.grad, lambda f: agrad.jit(agrad.grad(f)), lambda f: agrad.vmap(agrad.grad(f), in_axes=(0, None))):
        slope = f(lambda x, w: agrad.sum(F.conv_transpose2d(x, w, padding=(1, 0)) ** 2))(x, w)
        assert slope.shape == x.shape and not host(slope).any()
    with pytest.raises(ShapeError, match=r"lengths of the result must be at least 0, got \(-1, 5\)"):
        F.conv_transpose2d(x, here(draw(3, 2, 1, 2)), padding=(1, 0))


@pytest.mark.parametrize(
    ("error", "match", "shapes", "options"),
    [
        (ShapeError, r"must have 2 channels, got 3 in shape \(1, 3, 5, 5\)", [(1, 3, 5, 5), (2, 2, 3, 3)], {}),
        (ShapeError, "must fit into the padded", [(1, 2, 2, 5), (2, 2, 3, 3)], {}),
        (ShapeError, "spatial axes", [(1, 2, 5), (2, 2, 3, 3, 3)], {}),
        (ShapeError, "multiple", [(1, 4, 5, 5), (3, 2, 3, 3)], {"groups": 2}),
        (ConfigurationError, "stride", [(1, 2, 5, 5), (2, 2, 3, 3)], {"stride": 0}),
        (ConfigurationError, "padding", [(1, 2, 5, 5), (2, 2, 3, 3)], {"padding": (1, 2, 3)}),
        (ConfigurationError, "same", [(1, 2, 5, 5), (2, 2, 3, 3)], {"padding": "same", "stride": 2}),
    ],
)
def test_refusals(error: type[Exception], match: str, shapes: list[tuple[int, ...]], options: dict[str, Any]) -> None:
    with pytest.raises(error, match=match):
        F.conv2d(*[np.zeros(shape) for shape in shapes], **options)


def test_dtypes_are_refused() -> None:
    with pytest.raises(DtypeError, match="floating"):
        F.conv1d(np.zeros((1, 1, 3), int), np.zeros((1, 1, 1)))
    with pytest.raises(DtypeError, match="conv1d: input and weight must have the same dtype, got"):
        F.conv1d(np.zeros((1, 1, 3), np.float32), np.zeros((1, 1, 1)))


LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ("Conv2d", (4, 3, (3, 2)), {"padding": 1, "bias": False}),
    ("Conv3d", (4, 2, 2), {"dilation": (1, 2, 1)}),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1, "groups": 2}),
    ("ConvTranspose2d", (4, 3, (3, 2)), {"padding": 1, "bias": False}),
    ("ConvTranspose3d", (4, 2, 2), {"dilation": (1, 2, 1)}),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "sizes", "options"), LAYERS, ids=[layer[0] for layer in LAYERS])
def test_layers(backend: str, name: str, sizes: Any, options: Any) -> None:
    import torch

    layer = getattr(nn, name)(*sizes, **options, dtype="float64", rng=np.random.default_rng(0))
    theirs = getattr(torch.nn, name)(*sizes, **options, dtype=torch.float64)
    state = {key: torch.asarray(value) for key, value in layer.state_dict().items()}
    theirs.load_state_dict(state)
    bound = float(theirs.weight.abs().max().detach())
    theirs.reset_parameters()
    assert bound <= 1.1 * float(theirs.weight.abs().max().detach())
    theirs.load_state_dict(state)
    x = draw(2, 4, *(5, 6, 4)[: layer.spatial])
    np.testing.assert_allclose(host(layer(here(x))), theirs(torch.asarray(x)).detach().numpy(), atol=1e-12)
    assert repr(layer).startswith(f"{name}(4, {sizes[1]}, kernel_size=")


def test_layers_refuse_groups() -> None:
    with pytest.raises(ConfigurationError, match="multiples of groups=2"):
        nn.Conv2d(3, 4, 3, groups=2)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(1, 2), "same", "valid"])
def test_layers_with_other_padding(mode: str, padding: Any) -> None:
    import torch

    layer = nn.Conv2d(2, 3, (4, 3), padding=padding, dilation=(1, 2), padding_mode=mode, dtype=agrad.float64)
    theirs = torch.nn.Conv2d(2, 3, (4, 3), padding=padding, dilation=(1, 2), padding_mode=mode, dtype=torch.float64)
    theirs.load_state_dict({k: torch.asarray(v) for k, v in nn.torch_state_dict(layer).items()})
    x = draw(2, 2, 7, 8)
    given = torch.asarray(x).requires_grad_()
    expected = theirs(given)
    expected.square().sum().backward()
    np.testing.assert_allclose(host(layer(x)), expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    slope = agrad.grad(lambda x: agrad.sum(layer(x) ** 2))(x)
    np.testing.assert_allclose(host(slope), given.grad.numpy(), rtol=1e-10, atol=1e-10)
    assert f"padding_mode={mode!r}" in repr(layer)


def test_other_padding_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"padding_mode must be one of .*, got 'no'"):
        nn.Conv1d(1, 1, 3, padding_mode="no")
