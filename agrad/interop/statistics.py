"""NumPy covariances, histograms and quantiles for Tensors.

A quantile lies between two neighbors in the sorted array. Its position there depends only on the number of elements.
NumPy computes this position as the quantile of 0, 1, 2, ...
"""

import functools
import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Floating,
    adjoint,
    cast,
    constant,
    flat,
    inexact,
    is_complex,
    is_concrete,
    may_hold,
    merged,
    picked,
    promoted,
    rejects,
    tensor,
    tensors,
    values_of,
)
from agrad.interop.ordering import summed_at
from agrad.interop.table import implements


@implements("cov")
def _cov(
    m: Tensor,
    y: Tensor | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    x = _variables(m, y, rowvar, dtype)
    ddof = (0 if bias else 1) if ddof is None else int(ddof)
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            if given.shape != (x.shape[1],) or (is_concrete(given) and np.any(values_of(given) < 0)):
                raise ValueError(f"numpy.cov: {name} must be nonnegative and have {x.shape[1]} elements")
            given = cast(given, agrad.real(x).dtype)
            weights = given if weights is None else weights * given
    if weights is None:
        centred = scaled = x - agrad.mean(x, axis=1, keepdims=True)
        factor: Any = max(x.shape[1] - ddof, 0)
    else:
        total = factor = agrad.sum(weights)
        if ddof and aweights is None:
            factor = total - ddof
        elif ddof:
            factor = total - ddof * agrad.sum(weights * cast(aweights, weights.dtype)) / total
        centred = x - agrad.sum(x * weights, axis=1, keepdims=True) / total
        scaled = centred * weights
    out = agrad.matmul(centred, adjoint(scaled))
    return agrad.squeeze(out / factor, axis=tuple(i for i, n in enumerate(out.shape) if n == 1))


def _variables(m: Tensor, y: Tensor | None, rowvar: bool, dtype: Any) -> Tensor:
    """Return the variables of a covariance as the rows of a matrix."""
    parts = [m] if y is None else [m, y]
    parts = promoted(*parts, least=np.float64) if dtype is None else [cast(x, dtype) for x in parts]
    rows = []
    for i, x in enumerate(parts):
        if x.ndim > 2:
            raise ValueError("numpy.cov: arrays must be at most 2-D")
        x = agrad.reshape(x, (1, -1)) if x.ndim < 2 else x
        turned = not rowvar and (x.shape[0] != 1 if i else m.ndim == 2)
        rows.append(agrad.matrix_transpose(x) if turned else x)
    return agrad.concat(rows, axis=0) if len(rows) > 1 else rows[0]


@implements("corrcoef")
def _corrcoef(x: Tensor, y: Tensor | None = None, rowvar: bool = True, dtype: Any = None) -> Tensor:
    c = _cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    spread = agrad.sqrt(agrad.real(agrad.linalg.diagonal(c)))
    out = c / spread[:, None] / spread[None, :]
    # rounding may exceed 1
    if is_complex(out):
        return agrad.clip(agrad.real(out), -1.0, 1.0) + 1j * agrad.clip(agrad.imag(out), -1.0, 1.0)
    return agrad.clip(out, -1.0, 1.0)


def _edges(a: Tensor, bins: Any, limits: Any) -> Tensor:
    """Return the edges of a histogram: given ones, or evenly spaced ones."""
    if isinstance(bins, str):
        raise rejects("histogram", f"bins={bins!r} is not supported for Tensors", "Pass their number or their edges")
    if np.ndim(bins):
        return tensor(bins, a)
    if limits is not None:
        low, high = tensors(*[tensor(v, a) for v in limits])
    elif a.size:
        low, high = agrad.min(a), agrad.max(a)
    else:
        low, high = tensor(0.0, a), tensor(1.0, a)
    low, high = promoted(inexact(low), inexact(high))
    if low == high:
        low, high = low - 0.5, high + 0.5
    share = np.arange(int(bins) + 1) / int(bins)
    steps = constant(share.astype(low.dtype.name), a)
    return low * (1 - steps) + high * steps


@implements("histogram_bin_edges")
def _histogram_bin_edges(a: Tensor, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    return _edges(flat(a), bins, range)


@implements("histogram")
def _histogram(
    a: Tensor, bins: Any = 10, range: Any = None, density: Any = None, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    a = flat(a)
    edges = _edges(a, bins, range)
    # the bin of an element is piecewise constant; NumPy decides for an element on an edge
    host_edges = values_of(edges)
    host_bins = bins if not np.ndim(bins) else host_edges
    host_range = None if range is None else tuple(float(values_of(v)) for v in range)
    count = host_edges.shape[0] - 1
    host = values_of(a)
    if weights is None:
        counts = constant(np.histogram(host, host_bins, host_range)[0], a)
    else:
        low, high = host_edges[0], host_edges[-1]
        inside = (host >= low) & (host <= high)
        places = np.clip(np.searchsorted(host_edges, host[inside], side="right") - 1, 0, count - 1)
        chosen = picked(weights, np.flatnonzero(inside))
        counts = summed_at(inexact(chosen), places, count)
    if density:
        counts, widths = promoted(inexact(counts), agrad.diff(edges))
        return counts / widths / agrad.sum(counts), edges
    return counts, edges


# ------------------------------------------------------------------ quantiles

_ELEMENTS = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")
"""Methods whose results are elements of the array."""


def _places(counts: np.ndarray, q: np.ndarray, method: str) -> np.ndarray:
    """Return the positions of quantiles among ``counts`` sorted numbers.

    An array of shape (quantiles, counts), nan for no numbers.
    """
    return np.stack([_places_among(int(count), q.tobytes(), method) for count in counts.reshape(-1)], axis=1)


@functools.lru_cache(maxsize=64)
def _places_among(count: int, q: bytes, method: str) -> np.ndarray:
    chosen = np.frombuffer(q)
    return np.quantile(np.arange(float(count)), chosen, method=method) if count else np.full(chosen.size, math.nan)


_PARAMETERS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Alpha and beta of Hyndman and Fan (1996), for methods that are continuous in the quantile."""


def _slopes(counts: np.ndarray, q: np.ndarray, method: str) -> np.ndarray:
    """Return the derivatives of the positions with respect to the quantiles.

    They are 0 beyond the ends and for methods that step.
    """
    if method not in _PARAMETERS:
        return np.zeros((q.size, counts.size))
    alpha, beta = _PARAMETERS[method]
    slope = np.broadcast_to(counts + (1 - alpha - beta), (q.size, counts.size))
    place = slope * q.reshape(-1, 1) + (alpha - 1)
    return np.where((place >= 0) & (place <= counts - 1), slope, 0.0)


def _at(rows: Tensor, places: np.ndarray, counts: np.ndarray, moved: Tensor | None) -> Tensor:
    """Interpolate sorted rows at positions.

    There is one row of positions for each row, or one for all. The first ``counts`` elements of a row are numbers, the
    others NaN. For differentiated quantiles, ``moved`` is 0 with the derivatives of the positions.
    """
    empty = np.isnan(places)
    places = np.where(empty, 0.0, places)
    last = np.maximum(counts - 1, 0)[:, None]
    low = np.floor(places).astype(np.int64)
    if moved is not None:  # the largest element has the derivative of the interval below it
        low = np.minimum(low, np.maximum(last - 1, 0))

    def at(place: np.ndarray) -> Tensor:
        return picked(rows, place[0], 1) if len(place) == 1 else _along_rows(rows, place)

    def constants(values: np.ndarray) -> Tensor:
        return constant(values.astype(rows.dtype.name), rows)

    share, below = places - low, at(low)
    if moved is None and not share.any():
        out = below
    else:
        above, weight = at(np.minimum(low + 1, last)), constants(share)
        if moved is None:
            out = below * constants(1 - share) + above * weight
            # an infinite neighbor has no part in a quantile that is an element
            out = out if share.all() else agrad.where(weight == 0, below, out)
        else:
            element = ((weight == 0) | (weight == 1)) & ~agrad.isfinite(above - below)
            joint = below * (1 - weight - moved) + above * (weight + moved)
            # the derivative towards an infinite neighbor is infinite, like the derivative of the square root at 0
            out = agrad.where(element, agrad.where(weight == 0, below, above) + agrad.sqrt(moved), joint)
    return agrad.where(constant(~empty, rows), out, agrad.full_like(out, math.nan)) if empty.any() else out


def _along_rows(rows: Tensor, places: np.ndarray) -> Tensor:
    return agrad.take_along_axis(rows, constant(places, rows), axis=1)


def _quantile(x: Tensor, q: Any, axis: Any, method: str, keepdims: bool, skip_nan: bool) -> Tensor:
    if is_complex(x):
        raise TypeError("quantile: the array must be real, as complex numbers have no order")
    where = values_of(q).astype(np.float64)
    rows, lead, kept = merged(x, axis)
    n = rows.shape[1]
    rows = agrad.sort(rows, axis=-1)
    shape = (rows.shape[0], where.size)
    if not n:
        out = agrad.full_like(agrad.broadcast_to(agrad.sum(rows, axis=-1, keepdims=True), shape), math.nan)
    elif skip_nan:
        # the number of numbers in a row determines the positions of its quantiles
        counts, inverse = np.unique(n - np.isnan(values_of(rows)).sum(axis=1), return_inverse=True)
        moved = _moved(q, where, counts, inverse, method, rows)
        out = _at(rows, _places(counts, where, method)[:, inverse].T, counts[inverse], moved)
    else:
        count = np.asarray([n])
        moved = _moved(q, where, count, slice(None), method, rows)
        out = _at(rows, _places_among(n, where.tobytes(), method)[None], count, moved)
        if may_hold(np.isnan, rows):  # nan is last in its row, and makes all its quantiles nan
            out = agrad.where(agrad.isnan(rows[:, -1:]), rows[:, -1:], out)
    out = out if 1 in out.shape else agrad.matrix_transpose(out)
    return agrad.reshape(out, (*where.shape, *(kept if keepdims else lead)))


def _moved(q: Any, where: np.ndarray, counts: np.ndarray, inverse: Any, method: str, rows: Tensor) -> Tensor | None:
    """Return 0 with the derivatives of the positions, or None if the quantiles are constant."""
    if not isinstance(q, Tensor):
        return None
    slopes = _slopes(counts, where, method)[:, inverse].T
    if not slopes.any():
        return None
    change = agrad.reshape(cast(q, rows.dtype) - constant(where.astype(rows.dtype.name), rows), (1, -1))
    return change * constant(slopes.astype(rows.dtype.name), rows)


def _register(name: str, scale: float, skip_nan: bool) -> None:
    def handler(
        a: Floating, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False, interpolation: Any = None
    ) -> Any:
        method = method if interpolation is None else interpolation
        # an array of quantiles has float64, and NumPy promotes the result to it
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
