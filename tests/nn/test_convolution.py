"""Convolutions against PyTorch's: values, derivatives in every mode, every option, and refusals."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, here, host

from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, ShapeError

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


def test_no_samples(backend: str) -> None:
    assert F.conv2d(here(np.zeros((0, 2, 5, 5))), here(draw(3, 2, 3, 3))).shape == (0, 3, 3, 3)


@pytest.mark.parametrize(
    ("error", "match", "shapes", "options"),
    [
        (ShapeError, "has 3 channels", [(1, 3, 5, 5), (2, 2, 3, 3)], {}),
        (ShapeError, "spans", [(1, 2, 2, 5), (2, 2, 3, 3)], {}),
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
    with pytest.raises(DtypeError, match="one dtype"):
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
