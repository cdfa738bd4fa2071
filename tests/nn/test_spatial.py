"""Convolutions, interpolation and pooling: sizes, memory layouts, values that are not finite, and kernels in blocks."""

import itertools
from typing import Any

import numpy as np
import pytest
from tensors import draw
from torch_parity import Call, check_call, close, here, host

import agrad
from agrad import nn, testing
from agrad.kernels.numpy import convolution, pooling
from agrad.shapes import window_places

F = nn.functional
RNG = np.random.default_rng(22)
IMAGE = RNG.normal(size=(1, 2, 4, 5))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("seed", range(12))
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
    monkeypatch.setattr(convolution, "_BLOCK", block)
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


def test_convolutions_of_nothing_and_with_nothing_left(backend: str) -> None:
    """PyTorch returns the empty array too, where its library supports it (batches in float32)."""
    assert F.conv2d(here(np.zeros((0, 2, 5, 5))), here(draw(3, 2, 3, 3))).shape == (0, 3, 3, 3)
    x, w = here(draw(2, 3, 1, 4)), here(draw(3, 2, 2, 2))
    assert F.conv_transpose2d(x, w, padding=(1, 0)).shape == (2, 2, 0, 5)
    for f in (agrad.grad, lambda f: agrad.jit(agrad.grad(f)), lambda f: agrad.vmap(agrad.grad(f), in_axes=(0, None))):
        slope = f(lambda x, w: agrad.sum(F.conv_transpose2d(x, w, padding=(1, 0)) ** 2))(x, w)
        assert slope.shape == x.shape and not host(slope).any()


# ------------------------------------------------------------------ interpolation


@pytest.mark.parametrize(
    ("mode", "axes", "how"),
    [
        ("nearest", 1, {}), ("nearest", 2, {}), ("nearest-exact", 1, {}), ("linear", 1, {}), ("bicubic", 2, {}),
        ("bilinear", 2, {"antialias": True}), ("bicubic", 2, {"antialias": True, "align_corners": True}),
    ],
)  # fmt: skip
def test_lengths(mode: str, axes: int, how: dict[str, Any], torch: Any) -> None:
    """Every length to every other, by size and by factor, chooses the elements that PyTorch's chooses."""
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


def test_second_order_of_grid_sample(backend: str) -> None:
    x, grid = here(IMAGE[:, :1, :2, :2]), here(RNG.uniform(-0.7, 0.7, size=(1, 1, 1, 2)))
    few = {"order": 2 if backend == "numpy" else 1, "directions": 1}
    for mode in ("bilinear", "bicubic") if backend == "numpy" else ("bilinear",):
        testing.check_grads(lambda x, grid, mode=mode: F.grid_sample(x, grid, mode), (x, grid), **few)


def test_points_that_are_not_finite(backend: str) -> None:
    grid = np.array([np.nan, np.inf, -np.inf, 0.0]).reshape(1, 1, 4, 1) * np.ones(2)
    for padding, outside in (("zeros", 0.0), ("border", None)):
        found = host(F.grid_sample(here(IMAGE), here(grid), padding_mode=padding))[0, 0, 0]
        assert np.isnan(found[0]) and np.isfinite(found[3])
        expected = [IMAGE[0, 0, -1, -1], IMAGE[0, 0, 0, 0]] if outside is None else [outside] * 2
        np.testing.assert_allclose(found[1:3], expected)
    for mode in ("nearest", "bicubic", "bilinear"):
        with np.errstate(invalid="ignore"):
            found = host(F.grid_sample(here(IMAGE), here(grid), mode, "reflection"))[0, 0, 0]
        assert np.all(np.isnan(found[:3])) and np.isfinite(found[3])


# ------------------------------------------------------------------ pooling


@pytest.mark.parametrize("stride", [1, 2])
def test_where_the_cotangent_of_a_window_goes(backend: str, stride: int) -> None:
    """To the first of equal elements and the first NaN, row by row; an infinite one makes no NaN elsewhere."""
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 0, 1] = x[0, 0, 1, 0] = np.nan
    x[0, 0, 2:, 2:] = [[5.0, 7.0], [7.0, 7.0]]
    y, pull = agrad.vjp(lambda x: F.max_pool2d(x, 2, stride), here(x))
    assert np.isnan(host(y)[0, 0, 0, 0])  # the maximum of NaN
    firsts = np.zeros((4, 4))
    for i, j in np.ndindex(*y.shape[2:]):
        window = x[0, 0, i * stride :, j * stride :][:2, :2]
        row, column = np.unravel_index(np.argmax(window), (2, 2))
        firsts[i * stride + row, j * stride + column] += 1
    for cotangent, expected in ((1.0, firsts), (np.inf, np.where(firsts > 0, np.inf, 0.0))):
        found = host(pull(here(np.full(y.shape, cotangent)))[0])[0, 0]
        np.testing.assert_array_equal(found, expected)


def test_average_lengths(torch: Any) -> None:
    """The windows that reach beyond the end, and what of them counts."""
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
