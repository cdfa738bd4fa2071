"""Pooling against PyTorch's: values, derivatives in every mode, equal elements, and the modules."""

import itertools
from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.kernels.numpy import pooling
from agrad.shapes import window_places

F = nn.functional
RNG = np.random.default_rng(12)
LINE, IMAGE, VOLUME = RNG.normal(size=(2, 3, 9)), RNG.normal(size=(2, 2, 7, 6)), RNG.normal(size=(1, 2, 5, 4, 6))
CALLS: list[tuple[str, Any, dict[str, Any]]] = [
    ("max_pool1d", LINE, {"kernel_size": 3}),
    ("max_pool1d", LINE[0], {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2}),
    ("max_pool2d", IMAGE, {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}),
    ("max_pool2d", IMAGE, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("max_pool2d", IMAGE, {"kernel_size": 2, "stride": 3, "ceil_mode": True}),
    ("max_pool2d", IMAGE[..., :2], {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ("avg_pool2d", IMAGE[..., :2], {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    ("max_pool3d", VOLUME, {"kernel_size": 2}),
    ("avg_pool1d", LINE, {"kernel_size": 4, "stride": 2}),
    ("avg_pool2d", IMAGE, {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool2d", IMAGE[0], {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    ("avg_pool2d", IMAGE, {"kernel_size": (2, 3), "divisor_override": 5}),
    ("avg_pool3d", VOLUME, {"kernel_size": 2, "padding": 1, "count_include_pad": False}),
    ("avg_pool1d", LINE, {"kernel_size": 4, "stride": 3, "padding": 1, "ceil_mode": True}),
    ("avg_pool2d", IMAGE, {"kernel_size": 3, "stride": (2, 4), "ceil_mode": True, "divisor_override": 4}),
    (
        "avg_pool3d",
        VOLUME,
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    ),
    ("lp_pool1d", np.abs(LINE) + 0.1, {"norm_type": 3.0, "kernel_size": 2}),
    ("lp_pool2d", IMAGE, {"norm_type": 2, "kernel_size": (2, 3), "stride": 2, "ceil_mode": True}),
    ("lp_pool3d", VOLUME, {"norm_type": 2, "kernel_size": 2}),
    ("adaptive_avg_pool1d", LINE, {"output_size": 4}),
    ("adaptive_avg_pool2d", IMAGE, {"output_size": (3, 4)}),
    ("adaptive_avg_pool2d", IMAGE[0], {"output_size": 1}),
    ("adaptive_avg_pool3d", VOLUME, {"output_size": (2, None, 4)}),
    ("adaptive_max_pool1d", LINE, {"output_size": 4}),
    ("adaptive_max_pool2d", IMAGE, {"output_size": (3, 8)}),
    ("adaptive_max_pool3d", VOLUME, {"output_size": 2}),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", [Call(name, [x], how) for name, x, how in CALLS], ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
def test_equal_elements_and_nan(backend: str) -> None:
    equal = np.ones((1, 1, 4, 4))
    check_call(Call("max_pool2d", [equal], {"kernel_size": 2}, smooth=False), modes=False)
    rng = np.random.default_rng(0)
    for name, shape in (("adaptive_max_pool1d", (2, 1, 9)), ("adaptive_max_pool2d", (2, 1, 7, 6)),
                        ("adaptive_max_pool3d", (1, 2, 5, 4, 6))):  # fmt: skip
        few = rng.integers(0, 2, size=shape).astype(float)
        check_call(Call(name, [few], {"output_size": 2}, smooth=False), modes=False)
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    x[0, 0, 0, 1] = np.nan
    value = host(F.max_pool2d(here(x), 2))
    assert np.isnan(value[0, 0, 0, 0]) and np.all(np.isfinite(value.ravel()[1:]))


@pytest.mark.parametrize("stride", [1, 2])
def test_where_the_cotangent_of_a_window_goes(backend: str, stride: int) -> None:
    """To the first of equal elements and the first NaN, row by row; an infinite one makes no NaN elsewhere."""
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 0, 1] = x[0, 0, 1, 0] = np.nan
    x[0, 0, 2:, 2:] = [[5.0, 7.0], [7.0, 7.0]]
    side = 2 // stride + 1
    slope = here(np.ones((1, 1, side, side)))
    y, pull = agrad.vjp(lambda x: F.max_pool2d(x, 2, stride), here(x))
    found = host(pull(slope)[0])[0, 0]
    firsts = np.zeros((4, 4))
    for i, j in np.ndindex(*y.shape[2:]):
        window = x[0, 0, i * stride :, j * stride :][:2, :2]
        row, column = np.unravel_index(np.argmax(window), (2, 2))
        firsts[i * stride + row, j * stride + column] += 1
    np.testing.assert_array_equal(found, firsts)
    infinite = host(pull(here(np.full(y.shape, np.inf)))[0])[0, 0]
    np.testing.assert_array_equal(infinite, np.where(firsts > 0, np.inf, 0.0))


@pytest.mark.needs("torch")
def test_average_lengths() -> None:
    """The windows that reach beyond the end, and what of them counts."""
    import torch

    for n in range(4, 12):
        x = np.arange(1.0, n + 1).reshape(1, 1, -1)
        for k, stride, padding in ((2, 3, 1), (3, 2, 0), (4, 3, 2), (3, 4, 1), (4, 1, 1)):
            for counted in (True, False):
                how = (k, stride, padding, True, counted)
                theirs = torch.nn.functional.avg_pool1d(torch.asarray(x), *how)
                np.testing.assert_allclose(host(F.avg_pool1d(x, *how)), theirs.numpy(), err_msg=f"{n}: {how}")


@pytest.mark.parametrize("block", [1, 1200])
def test_windows_in_blocks_on_threads(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    x = np.random.default_rng(1).integers(0, 3, size=(5, 3, 9, 8)).astype(float)

    def both(name: str) -> list[Any]:
        y, pull = agrad.vjp(lambda x: getattr(F, name)(x, (3, 2), stride=(2, 1)), x)
        return [y, pull(np.cos(np.arange(y.size)).reshape(y.shape))[0]]

    whole = [both(name) for name in ("max_pool2d", "avg_pool2d")]
    monkeypatch.setattr(pooling, "BLOCK_BYTES", block)
    np.testing.assert_equal([both(name) for name in ("max_pool2d", "avg_pool2d")], whole)


def test_windows_that_cover_an_axis_once() -> None:
    """What they do not cover would be memory as it was found."""
    for n, *how in itertools.product(range(1, 10), (1, 2, 3), (1, 2, 3), (1, 2)):
        met = np.zeros(n, int)
        for place in window_places((n,), 0, *how) if (how[0] - 1) * how[2] < n else ():
            met[place] += 1
        assert np.all(met == 1) or not pooling._tiles(n, *how)
    assert pooling._tiles(9, 3, 3, 1)


def test_norms_of_zeros(backend: str) -> None:
    slope = agrad.grad(lambda x: agrad.sum(F.lp_pool1d(x, 2.0, 2)))(here(np.array([[0.0, 0.0, 3.0, 4.0]])))
    np.testing.assert_allclose(host(slope), [[0.0, 0.0, 0.6, 0.8]])
    with pytest.raises(ConfigurationError, match="norm_type"):
        F.lp_pool1d(here(LINE), 0, 2)


def test_refusals() -> None:
    with pytest.raises(ConfigurationError, match="padding"):
        F.max_pool2d(IMAGE, 2, padding=2)
    with pytest.raises(ConfigurationError, match="avg_pool2d: divisor_override must not be 0"):
        F.avg_pool2d(IMAGE, 2, divisor_override=0)
    with pytest.raises(ShapeError, match=r"must fit into an input of \(7, 6\) with padding \(0, 0\)"):
        F.avg_pool2d(IMAGE, 9)
    with pytest.raises(ShapeError, match="spatial axes"):
        F.max_pool2d(LINE[0], 2)
    with pytest.raises(ConfigurationError, match="output_size"):
        F.adaptive_avg_pool2d(IMAGE, (1, 2, 3))
    with pytest.raises(DtypeError, match="real"):
        F.max_pool1d(LINE * 1j, 2)
