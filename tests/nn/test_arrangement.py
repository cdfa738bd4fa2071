"""Windows as columns, channels as pixels, classes as ones, bilinear maps: against PyTorch's, and the modules."""

import numpy as np
import pytest
from torch_parity import Call, check_call, close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError

F = nn.functional
RNG = np.random.default_rng(23)
IMAGE, WIDE = RNG.normal(size=(2, 3, 5, 6)), RNG.normal(size=(2, 8, 2, 4))
COLUMNS = RNG.normal(size=(2, 12, 12))
CALLS = [
    Call("unfold", [IMAGE], {"kernel_size": 2}),
    Call("unfold", [IMAGE[0]], {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (2, 1), "stride": (2, 3)}),
    Call("fold", [COLUMNS], {"output_size": (5, 4), "kernel_size": 2}),
    Call("fold", [COLUMNS[0]], {"output_size": (6, 8), "kernel_size": 2, "dilation": 2, "padding": 1, "stride": 2}),
    Call("pixel_shuffle", [WIDE], {"upscale_factor": 2}),
    Call("pixel_shuffle", [WIDE[None]], {"upscale_factor": 2}),
    Call("pixel_unshuffle", [WIDE[0]], {"downscale_factor": 2}),
    Call("channel_shuffle", [WIDE], {"groups": 4}),
    Call("bilinear", [IMAGE, WIDE[:, :3, :1].repeat(5, 2), RNG.normal(size=(2, 6, 4)), RNG.normal(size=2)]),
    Call("bilinear", [IMAGE[0, 0], IMAGE[1, 0], RNG.normal(size=(1, 6, 6))]),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
def test_one_hot(backend: str) -> None:
    import torch

    numbers = np.array([[0, 3], [1, 1]])
    for classes in (-1, 5):
        theirs = torch.nn.functional.one_hot(torch.asarray(numbers), classes)
        found = F.one_hot(here(numbers.astype("uint8")), classes)
        close(found, theirs, "the value")
        assert agrad.int64 == found.dtype
    wide = F.one_hot(here(np.arange(255, dtype="uint8")), 300)
    np.testing.assert_array_equal(np.argmax(host(wide), axis=1), np.arange(255))
    for mapped in (agrad.vmap(lambda n: F.one_hot(n, 4)), agrad.jit(lambda n: F.one_hot(n, 4))):
        close(mapped(here(numbers)), torch.nn.functional.one_hot(torch.asarray(numbers), 4), "mapped or jitted")


@pytest.mark.needs("torch")
def test_axes_joined_and_split(backend: str) -> None:
    import torch

    for name, how in (("Flatten", (1, -2)), ("Flatten", (0, 2)), ("Flatten", ()), ("Unflatten", (-1, (3, 2))),
                      ("Unflatten", (1, (3, 1, 1))), ("Softmax2d", ())):  # fmt: skip
        theirs = getattr(torch.nn, name)(*how)(torch.asarray(IMAGE))
        close(getattr(nn, name)(*how)(here(IMAGE)), theirs, name)
    assert nn.Unflatten(3, (-1, 2))(here(IMAGE)).shape == (2, 3, 5, 3, 2)
    for split in ((4, 2), (-1, 4), (-1, -1), (-2, -3), ()):
        with pytest.raises(ShapeError, match=r"the length of axis 3 of shape \(2, 3, 5, 6\) as its product"):
            nn.Unflatten(3, split)(here(IMAGE))
    with pytest.raises(ShapeError, match=r"Flatten: end_dim must be an axis of x, got 4 for shape \(2, 3, 5, 6\)"):
        nn.Flatten(1, 4)(here(IMAGE))
    with pytest.raises(ShapeError, match=r"Flatten: start_dim must be at most 1, got 2 for shape \(2, 3, 5, 6\)"):
        nn.Flatten(2, 1)(here(IMAGE))


@pytest.mark.needs("torch")
def test_the_bilinear_layer(backend: str) -> None:
    import torch

    layer, theirs = nn.Bilinear(6, 4, 3, dtype="float64"), torch.nn.Bilinear(6, 4, 3, dtype=torch.float64)
    assert {k: v.shape for k, v in layer.state_dict().items()} == {k: v.shape for k, v in theirs.state_dict().items()}
    theirs.load_state_dict({k: torch.asarray(v) for k, v in layer.state_dict().items()})
    x = IMAGE[:, 0, :, :]
    close(layer(here(x), here(x[..., :4])), theirs(torch.asarray(x), torch.asarray(x[..., :4])), "the value")
    assert np.max(np.abs(host(layer.weight))) <= 6**-0.5
    assert repr(layer) == "Bilinear(6, 4, 3)  # 75 parameters"
    with pytest.raises(ShapeError, match="bilinear: x1, x2 and weight must have shapes"):
        layer(here(x), here(x))


def test_refusals(backend: str) -> None:
    x = here(IMAGE)
    with pytest.raises(ShapeError, match=r"must fit into an input of \(5, 6\) with padding \(0, 0\)"):
        F.unfold(x, 7)
    with pytest.raises(ShapeError, match=r"must have shape \(n, c \* 4, 16\) or \(c \* 4, 16\), got \(2, 12, 12\)"):
        F.fold(here(COLUMNS), (5, 5), 2)
    for name, value in (("pixel_shuffle", 2), ("pixel_unshuffle", 2), ("channel_shuffle", 2)):
        with pytest.raises(ShapeError, match=name):
            getattr(F, name)(x, value)
        with pytest.raises(ConfigurationError, match=name):
            getattr(F, name)(x, 0)
    with pytest.raises(DtypeError, match="one_hot: x must have an integer dtype, got"):
        F.one_hot(x)


def test_numbers_that_are_no_class() -> None:
    for numbers, classes in (([0, 4], 4), ([-1, 2], -1)):
        with pytest.raises(OperandError, match="one_hot: the classes must be from 0 to"):
            F.one_hot(np.array(numbers), classes)
