"""Sampling of images at the points of a grid, and affine grids."""

import itertools
from collections.abc import Sequence
from operator import index
from typing import Any, Literal

import numpy as np

import agrad
from agrad.errors import ShapeError
from agrad.expect import one_of
from agrad.nn.functional.interpolation import far_weight, near_weight
from agrad.nn.functional.real import constant, of_array, of_arrays, real_only

__all__ = ["affine_grid", "grid_sample"]

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _limited(c: Any, n: int) -> Any:
    return agrad.where(c <= 0, 0.0, agrad.where(c >= n - 1, n - 1.0, c))


def _inside(c: Any, n: int, padding: str, align: bool) -> Any:
    """Map coordinates into the image according to the padding mode."""
    if padding == "border":
        return _limited(c, n)
    if padding == "zeros":
        return agrad.where(agrad.isinf(c), -2.0, c)
    low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
    if span == 0:
        return c * 0.0
    c = agrad.where(c < low, low - c, c - low)
    turns = agrad.floor(agrad.stop_gradient(c) / span)
    rest = c - turns * span
    return _limited(agrad.where(agrad.remainder(turns, 2.0) == 0, rest, span - rest) + low, n)


def _taps(c: Any, n: int, mode: str, padding: str, align: bool) -> list[tuple[Any, Any]]:
    """Return the indices and weights of the elements next to coordinates."""
    c = (c + 1.0) * ((n - 1) / 2) if align else ((c + 1.0) * n - 1.0) / 2
    if mode != "bicubic":
        c = _inside(c, n, padding, align)
    still = agrad.stop_gradient(c)
    unknown = agrad.isnan(still)
    still = agrad.where(unknown, 0.0, still)
    low = agrad.round(still) if mode == "nearest" else agrad.floor(still)
    if mode == "nearest":
        # a coordinate that is NaN has the weight NaN
        found = [(low, agrad.where(unknown, c, 1.0))]
    elif mode == "bilinear":
        found = [(low, 1.0 - (c - low)), (low + 1.0, c - low)]
    else:
        t = c - low
        parts = far_weight(t + 1), near_weight(t), near_weight(1 - t), far_weight(2 - t)
        found = [(_inside(low + i - 1.0, n, padding, align), w) for i, w in enumerate(parts)]
    taps = []
    for at, weight in found:
        if padding == "zeros":
            weight = agrad.where(unknown | ((at >= 0) & (at <= n - 1)), weight, 0.0)
        at = agrad.where(agrad.isnan(at), 0.0, at)
        taps.append((agrad.astype(agrad.clip(at, 0, n - 1), agrad.int64), weight))
    return taps


@of_arrays
@real_only
def grid_sample(
    x: Any,
    grid: Any,
    /,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Sample images at the points of a grid.

    Reference: M. Jaderberg et al. (2015), "Spatial transformer networks".

    Parameters
    ----------
    x : array of shape (n, c, h, w) or (n, c, d, h, w), and a real floating-point dtype
    grid : array
        Coordinates, of shape (n, h2, w2, 2) or (n, d2, h2, w2, 3) and the dtype of ``x``: for each point, the
        coordinate along the last axis of ``x`` comes first. -1 and 1 are the ends of an axis. The result at NaN is NaN.
    mode : {"bilinear", "nearest", "bicubic"}
        Interpolation between elements. ``"bilinear"`` is trilinear for three spatial axes, and ``"bicubic"`` supports
        only two.
    padding_mode : {"zeros", "border", "reflection"}
        Values outside the image: zeros, the nearest border element, or the reflected image.
    align_corners : bool, optional
        True if -1 and 1 are the centers of the first and last elements. By default, they are their outer edges.

    Returns
    -------
    array of shape (n, c, h2, w2) or (n, c, d2, h2, w2)

    Examples
    --------
    >>> x = np.array([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> grid = np.array([[[[0.0, 0.0], [1.0, -1.0]]]])
    >>> agrad.nn.functional.grid_sample(x, grid, align_corners=True)
    array([[[[1.5, 1. ]]]])
    >>> agrad.grad(lambda g: agrad.nn.functional.grid_sample(x, g, align_corners=True)[..., 0].sum())(grid)
    array([[[[0.5, 1. ],
             [0. , 0. ]]]])
    """
    shape, points = tuple(x.shape), tuple(grid.shape)
    spatial = len(shape) - 2
    if spatial not in (2, 3) or len(points) != len(shape) or points[0] != shape[0] or points[-1] != spatial:
        raise ShapeError(
            "grid_sample: input and grid must have shapes (n, c, h, w) and (n, h2, w2, 2), or (n, c, d, h, w) and (n, "
            f"d2, h2, w2, 3), got {shape} and {points}"
        )
    if 0 in shape[2:]:
        raise ShapeError(f"grid_sample: input must not be empty, got shape {shape}")
    one_of("grid_sample", "mode", mode, _MODES if spatial == 2 else _MODES[:2])
    one_of("grid_sample", "padding_mode", padding_mode, _PADDINGS)
    taps = [
        _taps(grid[..., spatial - 1 - i], n, mode, padding_mode, bool(align_corners)) for i, n in enumerate(shape[2:])
    ]
    rows = agrad.reshape(agrad.moveaxis(x, 1, -1), (-1, shape[1]))
    images = np.arange(shape[0]).reshape(-1, *(1,) * spatial)
    total: Any = None
    for corner in itertools.product(*taps):
        at: Any = constant(images, x)
        weight: Any = 1.0
        for (place, part), n in zip(corner, shape[2:], strict=True):
            at, weight = agrad.add(at * n, place), part * weight
        values = agrad.reshape(agrad.take(rows, agrad.reshape(at, (-1,)), axis=0), (*points[:-1], shape[1]))
        value = agrad.multiply(values, agrad.expand_dims(weight, axis=-1))
        total = value if total is None else total + value
    return agrad.moveaxis(total, -1, 1)


@of_array
def affine_grid(theta: Any, /, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Create a grid for ``grid_sample`` from affine maps.

    Parameters
    ----------
    theta : array
        Matrices of shape (n, 2, 3) for 2-D images or (n, 3, 4) for 3-D images, and a real floating-point dtype.
    size : tuple of int
        Shape of the sampled images, (n, c, h, w) or (n, c, d, h, w).
    align_corners : bool, optional
        True if -1 and 1 are the centers of the first and last elements. By default, they are their outer edges.

    Returns
    -------
    array of shape (n, h, w, 2) or (n, d, h, w, 3)

    Examples
    --------
    >>> theta = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> agrad.nn.functional.affine_grid(theta, (1, 1, 2, 2), align_corners=True)[0]
    array([[[-1., -1.],
            [ 1., -1.]],
    <BLANKLINE>
           [[-1.,  1.],
            [ 1.,  1.]]])
    """
    lengths = tuple(map(index, size))
    spatial = len(lengths) - 2
    if spatial not in (2, 3) or min(lengths) < 1 or tuple(theta.shape) != (lengths[0], spatial, spatial + 1):
        raise ShapeError(
            "affine_grid: theta and size must be of shape (n, 2, 3) and (n, c, h, w), or (n, 3, 4) and (n, c, d, h, "
            f"w), got {tuple(theta.shape)} and {tuple(size)}"
        )
    ends = [(np.linspace(-1, 1, n) if n > 1 else np.zeros(1)) * (1.0 if align_corners else (n - 1) / n)
            for n in lengths[2:]]  # fmt: skip
    points = np.meshgrid(*ends, indexing="ij")[::-1]
    flat = constant(np.stack([*points, np.ones(lengths[2:])], axis=-1).reshape(-1, spatial + 1), theta)
    moved = agrad.matmul(flat, agrad.permute_dims(theta, (0, 2, 1)))
    return agrad.reshape(moved, (lengths[0], *lengths[2:], spatial))
