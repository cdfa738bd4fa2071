"""Interpolation and sampling on grids against PyTorch's: values, derivatives in every mode, and the modules."""

from typing import Any

import numpy as np
import pytest
from torch_parity import Call, check_call, close, here, host

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, ShapeError

F = nn.functional
RNG = np.random.default_rng(22)
LINE, IMAGE, VOLUME = RNG.normal(size=(2, 2, 7)), RNG.normal(size=(2, 2, 4, 5)), RNG.normal(size=(1, 2, 3, 4, 3))
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (LINE, {"scale_factor": 2.0}),
    (IMAGE, {"size": (7, 3), "mode": "nearest"}),
    (VOLUME, {"scale_factor": 1.7, "mode": "nearest-exact"}),
    (LINE, {"size": 12, "mode": "linear"}),
    (LINE, {"scale_factor": 0.6, "mode": "linear", "align_corners": True}),
    (IMAGE, {"scale_factor": (2.0, 1.3), "mode": "bilinear", "align_corners": False}),
    (IMAGE, {"scale_factor": 1.3, "mode": "bilinear", "recompute_scale_factor": True}),
    (IMAGE, {"size": (3, 8), "mode": "bicubic", "align_corners": True}),
    (IMAGE, {"size": (9, 3), "mode": "bicubic"}),
    (IMAGE, {"size": (2, 7), "mode": "bilinear", "antialias": True}),
    (IMAGE, {"size": (3, 2), "mode": "bicubic", "antialias": True}),
    (VOLUME, {"size": (5, 2, 4), "mode": "trilinear"}),
    (IMAGE, {"size": (3, 7), "mode": "area"}),
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", [Call("interpolate", [x], how) for x, how in CALLS], ids=lambda call: call.name)
def test_as_pytorch_in_every_mode(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("mode", "axes", "how"),
    [
        ("nearest", 1, {}), ("nearest", 2, {}), ("nearest-exact", 1, {}), ("linear", 1, {}), ("bicubic", 2, {}),
        ("bilinear", 2, {"antialias": True}), ("bicubic", 2, {"antialias": True, "align_corners": True}),
    ],
)  # fmt: skip
def test_lengths(mode: str, axes: int, how: dict[str, Any]) -> None:
    """Every length to every other, by size and by factor, chooses the elements that PyTorch's chooses."""
    import torch

    more = (1,) * (axes - 1)
    for n in (1, 2, 3, 5, 8, 13):
        x = np.arange(1.0, n + 1).reshape(1, 1, *more, -1) ** 2
        for m in range(1, 30):
            factor = (*more, max(m / 7.3, 1 / n))
            for sizes in ({"size": (*more, m)}, {"scale_factor": factor}):
                theirs = torch.nn.functional.interpolate(torch.asarray(x), mode=mode, **sizes, **how)
                close(F.interpolate(x, mode=mode, **sizes, **how), theirs, f"{n}: {sizes}")


def test_a_value_that_is_not_finite_stays_where_it_is(backend: str) -> None:
    x = np.zeros((1, 1, 8))
    x[..., 2] = np.inf
    found = host(F.interpolate(here(x), 16, mode="linear"))[0, 0]
    assert np.all(found[[0, 1, 2, *range(7, 16)]] == 0)
    assert np.all(np.isinf(found[4:6]))


def test_integers() -> None:
    """Weights of integers are no integers."""
    pixels = np.arange(8, dtype="uint8").reshape(1, 1, 8)
    close(F.interpolate(pixels, 11, mode="linear"), F.interpolate(pixels * 1.0, 11, mode="linear"), "linear")
    assert F.interpolate(pixels, 11).dtype == np.uint8
    theta = np.array([[[1, 0, 0], [0, 1, 0]]])
    close(F.affine_grid(theta, (1, 1, 3, 4)), F.affine_grid(theta * 1.0, (1, 1, 3, 4)), "the grid")


def test_refusals(backend: str) -> None:
    x = here(IMAGE)
    for how in (
        {}, {"size": 3, "scale_factor": 2.0}, {"size": (3, 3, 3)}, {"size": 0}, {"size": 2.5}, {"scale_factor": 0.1},
        {"size": 3, "mode": "cubic"}, {"size": 3, "align_corners": True}, {"size": 3, "antialias": True},
        {"size": 3, "recompute_scale_factor": True},
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="interpolate"):
            F.interpolate(x, **how)
    for mode in ("linear", "trilinear"):
        with pytest.raises(ShapeError, match="spatial axes"):
            F.interpolate(x, 3, mode=mode)


# ------------------------------------------------------------------ grids

GRID = RNG.uniform(-1.6, 1.6, size=(2, 3, 5, 2))
SPACE = RNG.uniform(-1.6, 1.6, size=(1, 2, 3, 2, 3))
GRIDS = [
    Call("grid_sample", [x, grid], {"mode": mode, "padding_mode": padding, "align_corners": align}, smooth=False)
    for x, grid, modes in ((IMAGE, GRID, ("bilinear", "nearest", "bicubic")), (VOLUME, SPACE, ("bilinear", "nearest")))
    for mode in modes
    for padding, align in (("zeros", False), ("border", True), ("reflection", False), ("reflection", True))
]


@pytest.mark.needs("torch")
@pytest.mark.parametrize("call", GRIDS, ids=lambda call: call.name)
def test_grid_sample(backend: str, call: Call) -> None:
    check_call(call)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("align", [False, True])
def test_affine_grid(backend: str, align: bool) -> None:
    for theta, size in ((RNG.normal(size=(2, 2, 3)), (2, 3, 4, 5)), (RNG.normal(size=(1, 3, 4)), (1, 1, 2, 3, 4))):
        check_call(Call("affine_grid", [theta], {"size": size, "align_corners": align}))


def test_second_order_of_grid_sample(backend: str) -> None:
    from agrad import testing

    x, grid = here(IMAGE[:1]), here(RNG.uniform(-0.7, 0.7, size=(1, 2, 2, 2)))
    for mode in ("bilinear", "bicubic"):
        testing.check_grads(lambda x, grid, mode=mode: F.grid_sample(x, grid, mode), (x, grid), order=2)


def test_points_that_are_not_finite(backend: str) -> None:
    grid = np.array([np.nan, np.inf, -np.inf, 0.0]).reshape(1, 1, 4, 1) * np.ones(2)
    for padding, outside in (("zeros", 0.0), ("border", None)):
        found = host(F.grid_sample(here(IMAGE[:1]), here(grid), padding_mode=padding))[0, 0, 0]
        assert np.isnan(found[0]) and np.isfinite(found[3])
        expected = [IMAGE[0, 0, -1, -1], IMAGE[0, 0, 0, 0]] if outside is None else [outside] * 2
        np.testing.assert_allclose(found[1:3], expected)
    for mode in ("nearest", "bicubic", "bilinear"):
        with np.errstate(invalid="ignore"):
            found = host(F.grid_sample(here(IMAGE[:1]), here(grid), mode, "reflection"))[0, 0, 0]
        assert np.all(np.isnan(found[:3])) and np.isfinite(found[3])


def test_refusals_of_grids(backend: str) -> None:
    x, grid = here(IMAGE), here(GRID[:1])
    with pytest.raises(ShapeError, match="grid_sample: input and grid must have shapes"):
        F.grid_sample(x, grid)
    for how in ({"mode": "cubic"}, {"padding_mode": "constant"}):
        with pytest.raises(ConfigurationError, match="grid_sample"):
            F.grid_sample(here(IMAGE[:1]), grid, **how)
    with pytest.raises(ShapeError, match="affine_grid: theta and size must be of shape"):
        F.affine_grid(agrad.ones((2, 2, 2)), (2, 1, 3, 3))
