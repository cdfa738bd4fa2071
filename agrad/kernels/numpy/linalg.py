"""Triangular systems, outer products and adjugates on NumPy.

NumPy functions solve and invert only by a general factorization. One solve with a whole matrix costs OpenBLAS as much
as five products. Here most of the work is products.
"""

import functools
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.backends.numpy.linalg import solve_or_nan
from agrad.registry import PRIMITIVES, kernel

Raw = Any

_MANY, _WIDE = 8, 64
"""Blocks are up to 16 wide for fewer than ``_MANY`` matrices and for wider ones than ``_WIDE``, otherwise 8."""


def _is_array(x: Raw) -> bool:
    return type(x) is np.ndarray and x.dtype.char in "fdFD"


# ------------------------------------------------------------------ triangular systems


def _worth(x1: Raw, x2: Raw) -> bool:
    return _is_array(x1) and _is_array(x2) and x2.ndim > 1 and x2.shape[-1] > 8 and bool(x1.size and x2.size)


@kernel("numpy", "linalg.over_triangle", "forward", gain=2.9, when=_worth)
def over_triangle(x1: Raw, x2: Raw, *, upper: bool, checked: bool = False) -> Raw:
    try:
        return _substituted(x1, x2, upper)
    except np.linalg.LinAlgError:
        if checked:
            raise
        return solve_or_nan(x2.swapaxes(-1, -2), x1.swapaxes(-1, -2)).swapaxes(-1, -2)


def _substituted(x1: Raw, x2: Raw, upper: bool) -> Raw:
    """Solve by substitution. Only the blocks on the diagonal are inverted, at once."""
    n = x2.shape[-1]
    width = 16 if n > _WIDE or (n > 16 and x2.size < _MANY * n * n) else 8
    first = n % width
    starts = range(first, n, width)
    inverses = np.linalg.inv(np.stack([x2[..., s : s + width, s : s + width] for s in starts], axis=-3))
    blocks = [(s, s + width, inverses[..., i, :, :]) for i, s in enumerate(starts)]
    if first:
        blocks.insert(0, (0, first, np.linalg.inv(x2[..., :first, :first])))
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = np.empty((*batch, *x1.shape[-2:]), np.result_type(x1, x2))
    for start, stop, inverse in blocks if upper else reversed(blocks):
        part = x1[..., start:stop]
        known = slice(0, start) if upper else slice(stop, n)
        if known.start < known.stop:
            part = part - np.matmul(out[..., known], x2[..., known, start:stop])
        np.matmul(part, inverse, out=out[..., start:stop])
    return out


# ------------------------------------------------------------------ triangles

_SMALL = 4096
"""Elements of matrices whose triangle is remembered: for small ones, NumPy spends most of the time creating it."""


@functools.lru_cache(64)
def _triangle(m: int, n: int, k: int) -> Any:
    return np.tri(m, n, k, bool)


@kernel("numpy", "tril", "namespace", gain=2.0)
def tril(x: Any, /, *, k: int = 0) -> Any:
    if (m := x.shape[-2]) * (n := x.shape[-1]) > _SMALL:
        return np.tril(x, k)
    return np.where(_triangle(m, n, k), x, x.dtype.type(0))


@kernel("numpy", "triu", "namespace", gain=2.0)
def triu(x: Any, /, *, k: int = 0) -> Any:
    if (m := x.shape[-2]) * (n := x.shape[-1]) > _SMALL:
        return np.triu(x, k)
    return np.where(_triangle(m, n, k - 1), x.dtype.type(0), x)


# ------------------------------------------------------------------ outer products


def _are_batches(x1: Raw, x2: Raw) -> bool:
    return x1.ndim > 1 and x2.ndim > 1 and x1.dtype == x2.dtype and x1.dtype.char in "fd"


@kernel("numpy", "linalg.outer", "forward", gain=2.6, when=_are_batches)
def outer(x1: Raw, x2: Raw) -> Raw:
    # for many short vectors: the inner loops of einsum start in half the time of multiply
    return np.einsum("...i,...j->...ij", x1, x2)


# ------------------------------------------------------------------ adjugates


def _squared_size(x: Raw) -> Raw:
    flat = x.reshape(x.shape[0], x.shape[-1] ** 2)
    return np.vecdot(flat, flat).real


def _wide(x: Raw) -> bool:
    return _is_array(x) and x.shape[-1] > 1 and x.size > 0


@kernel("numpy", "linalg.adjugate", "forward", gain=2.8, when=_wide)
def adjugate(x: Raw) -> Raw:
    with np.errstate(all="ignore"):
        return _adjugate(x, np.linalg.det(x))


@kernel("numpy", "linalg.det", "vjp:x", gain=1.5, when=lambda g, x, y: _wide(x) and g.dtype == x.dtype)
def det_vjp(g: Raw, x: Raw, y: Raw) -> Raw:
    out = _adjugate(x, y)
    return np.multiply(out, g[..., None, None], out=out).swapaxes(-1, -2)


def _adjugate(x: np.ndarray, det: Raw) -> np.ndarray:
    """Return det(x) inv(x) if x is far from singular, otherwise the generic form.

    LAPACK computes determinant and inverse from the same factorization, and the error of the last pivot, the largest
    one, cancels. With two factorizations, half of the digits would be lost at the limit of this test.
    """
    matrices, det = x.reshape(-1, *x.shape[-2:]), det.reshape(-1)
    info = np.finfo(x.dtype)
    with np.errstate(all="ignore"):
        size = np.abs(det)
        regular = (size > info.tiny / info.eps) & (size < np.inf)
        chosen = matrices if regular.all() else matrices[regular]
        inverse = np.linalg.inv(chosen)
        near = _squared_size(chosen) * _squared_size(inverse) < 1 / info.eps  # by the Frobenius norm
        regular[regular] = near
        if regular.all():
            return np.multiply(inverse, det[:, None, None], out=inverse).reshape(x.shape)
        out = np.empty_like(matrices)
        out[regular] = inverse[near] * det[regular][:, None, None]
    out[~regular] = PRIMITIVES["linalg.adjugate"].forward(load("numpy").xp, matrices[~regular])
    return out.reshape(x.shape)
