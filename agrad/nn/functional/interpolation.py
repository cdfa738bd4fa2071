"""Interpolation of images with one, two or three spatial axes."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import numbers, one_of
from agrad.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from agrad.nn.functional.real import constant, of_array, real_only

Taps = tuple[np.ndarray, np.ndarray | None]
"""Indices and weights of the old elements for each new element: arrays of shape (number of elements, length of the
result), or shape (length,) and None for one element of weight 1."""


def _nearest(n: int, out: int, scale: float, align: bool) -> Taps:
    # PyTorch multiplies in single precision
    places = np.floor(np.arange(out, dtype=np.float32) * np.float32(scale)).astype(np.int64)
    return np.minimum(places, n - 1), None


def _nearest_exact(n: int, out: int, scale: float, align: bool) -> Taps:
    places = np.floor((np.arange(out, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)).astype(np.int64)
    return np.minimum(places, n - 1), None


def _centres(n: int, out: int, scale: float, align: bool) -> np.ndarray:
    """Return the coordinates of the new elements on the old axis."""
    if align:
        return np.arange(out) * ((n - 1) / (out - 1) if out > 1 else 0.0)
    return (np.arange(out) + 0.5) * scale - 0.5


def _linear(n: int, out: int, scale: float, align: bool) -> Taps:
    at = np.maximum(_centres(n, out, scale, align), 0.0)
    low = np.minimum(np.floor(at).astype(np.int64), n - 1)
    part = np.clip(at - low, 0.0, 1.0)
    return np.stack([low, np.minimum(low + 1, n - 1)]), np.stack([1 - part, part])


KEYS = -0.75
"""Parameter of the cubic kernel of Keys, as in PyTorch."""


def near_weight(d: Any, a: float = KEYS) -> Any:
    """Return the cubic kernel of Keys at a distance of at most 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def far_weight(d: Any, a: float = KEYS) -> Any:
    """Return the cubic kernel of Keys at a distance from 1 to 2."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _cubic_weight(distance: np.ndarray, a: float = KEYS) -> np.ndarray:
    d = np.abs(distance)
    return np.where(d < 1, near_weight(d, a), np.where(d < 2, far_weight(d, a), 0.0))


def _cubic(n: int, out: int, scale: float, align: bool) -> Taps:
    at = _centres(n, out, scale, align)
    places = np.floor(at).astype(np.int64) + np.arange(-1, 3)[:, None]
    return np.clip(places, 0, n - 1), _cubic_weight(at - places)


def _smoothed(kernel: Callable[[np.ndarray], np.ndarray], reach: float) -> Callable[..., Taps]:
    """Return the taps of a kernel, stretched for downsampling."""

    def taps(n: int, out: int, scale: float, align: bool) -> Taps:
        scale = ((n - 1) / (out - 1) if out > 1 else 0.0) if align else scale
        stretch = max(scale, 1.0)
        middle = scale * (np.arange(out) + 0.5)
        first = np.maximum((middle - reach * stretch + 0.5).astype(np.int64), 0)
        last = np.minimum((middle + reach * stretch + 0.5).astype(np.int64), n)
        places = first + np.arange(max(int(np.max(last - first, initial=1)), 1))[:, None]
        weights = np.where(places < last, kernel((places - middle + 0.5) / stretch), 0.0)
        return np.clip(places, 0, n - 1), weights / np.sum(weights, axis=0)

    return taps


Mode = Literal["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"]
"""The modes of ``interpolate``."""
_MODES: dict[str, tuple[Callable[..., Taps], tuple[int, ...]]] = {
    "nearest": (_nearest, (1, 2, 3)),
    "nearest-exact": (_nearest_exact, (1, 2, 3)),
    "linear": (_linear, (1,)),
    "bilinear": (_linear, (2,)),
    "trilinear": (_linear, (3,)),
    "bicubic": (_cubic, (2,)),
}
"""Taps of a mode, and the numbers of spatial axes that it supports."""
_SMOOTHED = {
    "bilinear": _smoothed(lambda d: np.maximum(1 - np.abs(d), 0.0), 1.0),
    "bicubic": _smoothed(lambda d: _cubic_weight(d, -0.5), 2.0),
}
"""Taps of a mode with ``antialias``."""
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


def _resampled(x: Any, axis: int, taps: Taps) -> Any:
    """Return an axis resampled from its elements at indices, times weights."""
    places, weights = taps
    x = agrad.take(x, places.reshape(-1), axis=axis)
    if weights is None:
        return x
    shape = tuple(x.shape)
    parts = agrad.reshape(x, (*shape[:axis], *places.shape, *shape[axis + 1 :]))
    weights = weights.reshape(*places.shape, *(1,) * (len(shape) - axis - 1))
    return agrad.sum(agrad.multiply(parts, constant(weights, x)), axis=axis)


def _factors(value: Any, spatial: int) -> tuple[float, ...]:
    found = tuple(value) if isinstance(value, Sequence) else (value,) * spatial
    if len(found) != spatial or not all(isinstance(n, (int, float, np.number)) and n > 0 for n in found):
        raise ConfigurationError(
            f"interpolate: scale_factor must be a positive number, or {spatial} of them, got {value!r}"
        )
    return found


def _lengths(
    shape: tuple[int, ...], size: Any, factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the lengths of the result, and the old step for one new step."""
    spatial = len(shape)
    if (size is None) == (factor is None):
        raise ConfigurationError(f"interpolate: one of size and scale_factor must be None, got {size!r} and {factor!r}")
    if size is not None:
        if recompute:
            raise ConfigurationError("interpolate: recompute_scale_factor requires scale_factor, not size")
        out = numbers("interpolate", "size", size, spatial, 1)
    else:
        factors = _factors(factor, spatial)
        out = tuple(math.floor(n * f) for n, f in zip(shape, factors, strict=True))
        if min(out) < 1:
            raise ConfigurationError(f"interpolate: scale_factor={factor!r} must not reduce lengths to 0, got {shape}")
        if not recompute:
            return out, tuple(1.0 / f for f in factors)
    return out, tuple(n / m for n, m in zip(shape, out, strict=True))


@of_array
@real_only
def interpolate(
    x: Any,
    /,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resize the spatial axes of ``x``.

    Parameters
    ----------
    x : array of shape (n, c, ...) with one, two or three spatial axes, and a real floating-point dtype
    size : int or tuple of int, optional
        Lengths of the spatial axes in the result.
    scale_factor : float or tuple of float, optional
        Factors of the lengths, instead of ``size``. Lengths are rounded down.
    mode : str
        ``"nearest"``, ``"nearest-exact"`` or ``"area"`` (means of blocks) for any number of axes, ``"linear"`` for one,
        ``"bilinear"`` and ``"bicubic"`` for two, ``"trilinear"`` for three. ``"nearest"`` rounds coordinates down, and
        ``"nearest-exact"`` rounds to the nearest center.
    align_corners : bool, optional
        True to align the centers of the first and last elements. By default, their outer edges are aligned. Only for
        the linear and cubic modes.
    recompute_scale_factor : bool, optional
        True to recompute the factors from the rounded lengths. By default, ``scale_factor`` is used.
    antialias : bool
        True to average over more elements for downsampling. Only for ``"bilinear"`` and ``"bicubic"``.

    Returns
    -------
    array of shape (n, c, ...) and the dtype of ``x``

    Notes
    -----
    The cubic kernel is from R. Keys (1981), IEEE Transactions on Acoustics, Speech, and Signal Processing 29, with a =
    -0.75, and with a = -0.5 for ``antialias``.

    Examples
    --------
    >>> x = np.array([[[1.0, 3.0]]])
    >>> agrad.nn.functional.interpolate(x, scale_factor=2)
    array([[[1., 1., 3., 3.]]])
    >>> agrad.nn.functional.interpolate(x, size=4, mode="linear")
    array([[[1. , 1.5, 2.5, 3. ]]])
    """
    shape = tuple(x.shape)
    spatial = len(shape) - 2
    if mode != "area" and mode not in _MODES:
        one_of("interpolate", "mode", mode, (*_MODES, "area"))
    taps, takes = _MODES.get(mode, (None, (1, 2, 3)))
    if spatial not in takes or 0 in shape[2:]:
        axes = " or ".join(map(str, takes))
        raise ShapeError(
            f"interpolate: for mode={mode!r}, x must have shape (n, c, ...) with {axes} spatial axes and not be empty, "
            f"got {shape}"
        )
    if align_corners is not None and (taps is None or "nearest" in mode):
        raise ConfigurationError(f"interpolate: align_corners requires a linear or cubic mode, got {mode!r}")
    if antialias and mode not in _SMOOTHED:
        raise ConfigurationError(f"interpolate: antialias requires mode='bilinear' or 'bicubic', got {mode!r}")
    out, steps = _lengths(shape[2:], size, scale_factor, recompute_scale_factor)
    if taps is None:
        return _AREA[spatial - 1](x, out)
    # as in PyTorch, for any factor: linear modes do not change an axis of the same length, and "nearest" uses the exact
    # quotient for an image of the same or twice the length
    stays = antialias or taps is _linear
    quotients = (1, 2) if mode == "nearest" and spatial == 2 else ()
    taps = _SMOOTHED[mode] if antialias else taps
    for axis, (n, m, step) in enumerate(zip(shape[2:], out, steps, strict=True), 2):
        step = n / m if m / n in quotients else step
        if n != m or (step != 1.0 and not stays):
            x = _resampled(x, axis, taps(n, m, step, bool(align_corners)))
    return x
