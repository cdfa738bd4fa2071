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
                raise ValueError(f"numpy.cov: {name} are as many numbers, not negative, as there are observations")
            given = cast(given, agrad.real(x).dtype)
            weights = given if weights is None else weights * given
    if weights is None:
        centred = scaled = x - agrad.mean(x, axis=1, keepdims=True)
        factor: Any = x.shape[1] - ddof
    else:
        total = factor = agrad.sum(weights)
        if ddof and aweights is None:
            factor = total - ddof
        elif ddof:
            factor = total - ddof * agrad.sum(weights * cast(aweights, weights.dtype)) / total
        centred = x - agrad.sum(x * weights, axis=1, keepdims=True) / total
        scaled = centred * weights
    turned_over = agrad.matrix_transpose(scaled)
    out = agrad.matmul(centred, agrad.conj(turned_over) if is_complex(x) else turned_over)
    if not isinstance(factor, Tensor) and factor <= 0:
        factor = constant(np.asarray(0.0, dtype=agrad.real(out).dtype.name), out)
    return agrad.squeeze(out / factor, axis=tuple(i for i, n in enumerate(out.shape) if n == 1))


def _variables(m: Tensor, y: Tensor | None, rowvar: bool, dtype: Any) -> Tensor:
    """Return the variables of a covariance as the rows of a matrix."""
    parts = [m] if y is None else [m, y]
    parts = promoted(*parts, least=np.float64) if dtype is None else [cast(x, dtype) for x in parts]
    rows = []
    for i, x in enumerate(parts):
        if x.ndim > 2:
            raise ValueError("numpy.cov takes arrays of at most two dimensions")
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
    # rounding may go beyond 1
    if is_complex(out):
        return agrad.clip(agrad.real(out), -1.0, 1.0) + 1j * agrad.clip(agrad.imag(out), -1.0, 1.0)
    return agrad.clip(out, -1.0, 1.0)


def _edges(a: Tensor, bins: Any, limits: Any) -> Tensor:
    """Return the edges of a histogram: as given, or even from least to greatest."""
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
def _histogram_bin_edges(a: Tensor, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    return _edges(flat(a), bins, range)


@implements("histogram")
def _histogram(
    a: Tensor, bins: Any = 10, range: Any = None, density: Any = None, weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    a = flat(a)
    edges = _edges(a, bins, range)
    # the bin of an element is constant between the edges; NumPy decides about an element on an edge
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
