"""NumPy's covariances and histograms on Tensors."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    cast,
    constant,
    flat,
    inexact,
    is_complex,
    is_concrete,
    like_of,
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
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tensor:
    m, y, fweights, aweights = tensors(m, y, fweights, aweights)
    parts = [x for x in (m, y) if x is not None]
    parts = promoted(*parts, least=np.float64) if dtype is None else [cast(x, dtype) for x in parts]
    rows = []
    for i, x in enumerate(parts):
        if x.ndim > 2:
            raise ValueError("numpy.cov takes arrays of at most two dimensions")
        x = agrad.reshape(x, (1, -1)) if x.ndim < 2 else x
        turned = not rowvar and (x.shape[0] != 1 if i else parts[0].ndim == 2)
        rows.append(agrad.matrix_transpose(x) if turned else x)
    x = agrad.concat(rows, axis=0) if len(rows) > 1 else rows[0]
    ddof = (0 if bias else 1) if ddof is None else int(ddof)
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            if given.shape != (x.shape[1],) or (is_concrete(given) and np.any(values_of(given) < 0)):
                raise ValueError(f"numpy.cov: {name} are as many numbers, not negative, as there are observations")
            given = cast(given, agrad.real(x).dtype.name if is_complex(x) else x.dtype.name)
            weights = given if weights is None else weights * given
    if weights is None:
        centre = agrad.mean(x, axis=1, keepdims=True)
        factor: Any = x.shape[1] - ddof
        centred = x - centre
        scaled = centred
    else:
        total = agrad.sum(weights)
        centre = agrad.sum(x * weights, axis=1, keepdims=True) / total
        factor = total
        if ddof and aweights is None:
            factor = total - ddof
        elif ddof:
            factor = total - ddof * agrad.sum(weights * cast(aweights, weights.dtype)) / total
        centred = x - centre
        scaled = centred * weights
    turned_over = agrad.matrix_transpose(scaled)
    out = agrad.matmul(centred, agrad.conj(turned_over) if is_complex(x) else turned_over)
    if not isinstance(factor, Tensor) and factor <= 0:
        factor = constant(np.asarray(0.0, dtype=agrad.real(out).dtype.name), out)
    return agrad.squeeze(out / factor, axis=tuple(i for i, n in enumerate(out.shape) if n == 1))


@implements("corrcoef")
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    c = _cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    spread = agrad.sqrt(agrad.real(agrad.linalg.diagonal(c)))
    out = c / spread[:, None] / spread[None, :]
    # rounding may go beyond 1, where the coefficient stays
    if is_complex(out):
        return agrad.clip(agrad.real(out), -1.0, 1.0) + 1j * agrad.clip(agrad.imag(out), -1.0, 1.0)
    return agrad.clip(out, -1.0, 1.0)


def _edges(a: Tensor, bins: Any, limits: Any) -> Tensor:
    """The edges of a histogram: those that are given, or evenly between the least and the greatest element."""
    if isinstance(bins, str):
        raise rejects("histogram", f"chooses no bins by {bins!r} for Tensors", "give their number or their edges")
    if np.ndim(bins):
        return tensor(bins, a)
    if limits is not None:
        low, high = tensors(*[tensor(v, a) for v in limits])
    elif a.size:
        low, high = agrad.min(a), agrad.max(a)
    else:
        low, high = tensor(0.0, a), tensor(1.0, a)
    low, high = promoted(inexact(low), inexact(high))
    if low.item() == high.item():
        low, high = low - 0.5, high + 0.5
    share = np.arange(int(bins) + 1) / int(bins)
    steps = constant(share.astype(low.dtype.name), a)
    return low * (1 - steps) + high * steps


@implements("histogram_bin_edges")
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    return _edges(flat(tensor(a, like_of(bins, range))), bins, range)


@implements("histogram")
def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    a, weights = tensors(tensor(a, like_of(bins, range, weights)), weights)
    a = flat(a)
    edges = _edges(a, bins, range)
    # which bin an element falls into is a constant between the edges; NumPy's way with the edges is its own
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
        chosen = agrad.take(flat(weights), constant(np.flatnonzero(inside), a), axis=0)
        counts = summed_at(inexact(chosen), places, count)
    if density:
        counts, widths = promoted(inexact(counts), agrad.diff(edges))
        return counts / widths / agrad.sum(counts), edges
    return counts, edges
