"""NumPy's medians, quantiles and percentiles on Tensors.

A quantile lies between two neighbours in the sorted array. Its place depends on the number of elements alone: it is the
same quantile of 0, 1, 2, ..., where every element equals its own place, and NumPy computes that.
"""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import Floating, cast, constant, inexact, is_complex, merged, values_of
from agrad.interop.table import implements

_ELEMENTS = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""Methods whose result is an element."""


def _places(counts: np.ndarray, q: np.ndarray, method: str) -> np.ndarray:
    """Return the places of quantiles of ``counts`` sorted numbers.

    Shape (quantiles, counts), nan where there are no numbers.
    """
    out = np.full((q.size, counts.size), math.nan)
    for i, count in enumerate(counts.reshape(-1)):
        if count:
            out[:, i] = np.quantile(np.arange(float(count)), q.reshape(-1), method=method)
    return out


_PARAMETERS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Methods whose places are continuous in the quantile, with alpha and beta of Hyndman and Fan (1996)."""


def _slopes(counts: np.ndarray, q: np.ndarray, method: str) -> np.ndarray:
    """Return the derivatives of the places by the quantiles.

    They are 0 beyond the ends and for steps.
    """
    if method not in _PARAMETERS:
        return np.zeros((q.size, counts.size))
    alpha, beta = _PARAMETERS[method]
    slope = np.broadcast_to(counts + (1 - alpha - beta), (q.size, counts.size))
    place = slope * q.reshape(-1, 1) + (alpha - 1)
    return np.where((place >= 0) & (place <= counts - 1), slope, 0.0)


def _at(rows: Tensor, places: np.ndarray, counts: np.ndarray, moved: Tensor | None) -> Tensor:
    """Interpolate the sorted rows at places.

    The first ``counts`` elements of a row are numbers.

    ``moved``: zeros with the derivatives of the places, for differentiated quantiles.
    """
    empty = np.isnan(places)
    places = np.where(empty, 0.0, places)
    last = np.maximum(counts - 1, 0)[:, None]
    low = np.floor(places).astype(np.int64)
    if moved is not None:  # the greatest element moves along the interval below it
        low = np.minimum(low, np.maximum(last - 1, 0))
    high = np.minimum(low + 1, last)
    below = agrad.take_along_axis(rows, constant(low, rows), axis=1)
    above = agrad.take_along_axis(rows, constant(high, rows), axis=1)
    weight = constant((places - low).astype(rows.dtype.name), rows)
    # where the quantile is an element, a neighbour that is infinite has no part in it
    if moved is None:
        out = agrad.where(weight == 0, below, below * (1 - weight) + above * weight)
    else:
        element = ((weight == 0) | (weight == 1)) & ~agrad.isfinite(above - below)
        joint = below * (1 - weight - moved) + above * (weight + moved)
        # the slope of the root at 0 is infinite, as that towards the neighbour is
        out = agrad.where(element, agrad.where(weight == 0, below, above) + agrad.sqrt(moved), joint)
    return agrad.where(constant(~empty, rows), out, agrad.full_like(out, math.nan)) if empty.any() else out


def _quantile(x: Tensor, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool) -> Tensor:
    if is_complex(x):
        raise TypeError("quantiles of complex numbers are not defined, as they have no order")
    where = values_of(q).astype(np.float64)
    x, kept = merged(x, axis)
    lead, n = x.shape[:-1], x.shape[-1]
    rows = agrad.sort(agrad.reshape(x, (math.prod(lead), n)), axis=-1)
    shape = (rows.shape[0], where.size)
    if not n:
        out = agrad.full_like(agrad.broadcast_to(agrad.sum(rows, axis=-1, keepdims=True), shape), math.nan)
    elif skip_nan:
        # how many numbers a row has decides where its quantiles lie
        counts, inverse = np.unique(n - np.isnan(values_of(rows)).sum(axis=1), return_inverse=True)
        moved = _moved(q, where, _slopes(counts, where, method)[:, inverse].T, rows)
        out = _at(rows, _places(counts, where, method)[:, inverse].T, counts[inverse], moved)
    else:
        count = np.asarray([n])
        places = np.broadcast_to(_places(count, where, method).T, shape)
        moved = _moved(q, where, _slopes(count, where, method).T, rows)
        # nan stands last, and makes every quantile of its row one
        out = agrad.where(agrad.isnan(rows[:, -1:]), rows[:, -1:], _at(rows, places, np.full(shape[0], n), moved))
    out = agrad.moveaxis(agrad.reshape(out, (*lead, where.size)), -1, 0)
    return agrad.reshape(out, (*where.shape, *(kept if keepdims else lead)))


def _moved(q: Any, where: np.ndarray, slopes: np.ndarray, rows: Tensor) -> Tensor | None:
    """Return 0 with the derivative ``slopes`` by the quantiles, None if they are 0."""
    if not isinstance(q, Tensor) or not slopes.any():
        return None
    change = agrad.reshape(cast(q, rows.dtype) - constant(where.astype(rows.dtype.name), rows), (1, -1))
    return change * constant(slopes.astype(rows.dtype.name), rows)


def _register(name: str, scale: float, skip_nan: bool) -> None:
    def handler(
        a: Floating,
        q: Any,
        axis: Any = None,
        method: str = "linear",
        keepdims: bool = False,
        interpolation: Any = None,
    ) -> Any:
        method = method if interpolation is None else interpolation
        # an array of quantiles is of float64, and so is what is interpolated by it
        weak = type(q) in (int, float) or method in _ELEMENTS
        q = inexact(q) / scale if isinstance(q, Tensor) else np.asarray(q, dtype=np.float64) / scale
        out = _quantile(a, q, axis, method, keepdims, skip_nan)
        return out if weak else cast(out, np.float64)

    implements(name)(handler)


_register("quantile", 1, False)
_register("percentile", 100, False)
_register("nanquantile", 1, True)
_register("nanpercentile", 100, True)


@implements("median")
def _median(a: Floating, axis: Any = None, keepdims: bool = False) -> Any:
    return _quantile(a, 0.5, axis, "linear", keepdims, False)


@implements("nanmedian")
def _nanmedian(a: Floating, axis: Any = None, keepdims: bool = False) -> Any:
    return _quantile(a, 0.5, axis, "linear", keepdims, True)
