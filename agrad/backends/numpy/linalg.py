"""Linear algebra that NumPy lacks: LU factors, solutions with singular matrices."""

import math
from typing import Any

import numpy as np

from agrad.backends.base import broadcast_batches

Raw = Any


def solve_or_nan(x1: Raw, x2: Raw, /) -> Raw:
    """Return the solutions y of ``x1 @ y = x2``, NaN for singular matrices.

    For one singular matrix, NumPy raises for the whole batch.
    """
    try:
        return np.linalg.solve(x1, x2)
    except np.linalg.LinAlgError:
        if x1.ndim == x2.ndim == 2:
            return np.full(x2.shape, math.nan, np.result_type(x1, x2))
        many, sides = broadcast_batches(np, x1, x2)
        return np.stack([solve_or_nan(many[i], sides[i]) for i in np.ndindex(many.shape[:-2])]).reshape(sides.shape)


_PANEL = 32
"""The number of columns that are factored before the columns to their right are updated by one product."""


def lu(x: Raw, /) -> tuple[Raw, Raw, Raw]:
    """Return P, L and U of each matrix, with partial pivoting, as ``getrf`` of LAPACK."""
    m, n = x.shape[-2:]
    k = min(m, n)
    # integers become float64, as in NumPy linear algebra
    a = np.array(x, dtype=x.dtype if x.dtype.kind in "fc" else np.float64).reshape(math.prod(x.shape[:-2]), m, n)
    member, order = np.arange(len(a)), np.tile(np.arange(m), (len(a), 1))
    with np.errstate(all="ignore"):
        for start in range(0, k, _PANEL):
            stop = min(start + _PANEL, k)
            for j in range(start, stop):
                below = a[:, j:, j]
                pivot = j + np.argmax(np.abs(below.real) + np.abs(below.imag), axis=1)
                for rows in (a, order):
                    held = rows[member, pivot]
                    rows[member, pivot] = rows[:, j]
                    rows[:, j] = held
                below[:, 1:] /= np.where(below[:, :1] == 0, 1, below[:, :1])
                a[:, j + 1 :, j + 1 : stop] -= below[:, 1:, None] * a[:, j, None, j + 1 : stop]
            square, right = a[:, start:stop, start:stop], a[:, start:stop, stop:]
            right[...] = np.linalg.solve(np.tril(square, -1) + np.eye(stop - start, dtype=a.dtype), right)
            a[:, stop:, stop:] -= a[:, stop:, start:stop] @ right
    return unpacked(np, a.reshape(x.shape), order.reshape(*x.shape[:-2], m))


def unpacked(xp: Any, packed: Raw, order: Raw) -> tuple[Raw, Raw, Raw]:
    """Return P, L and U from factors in one matrix and rows in the pivots' order."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    P = (order[..., None, :] == xp.arange(m)[:, None]).astype(packed.dtype)
    L = xp.tril(packed[..., :, :k], -1) + xp.eye(m, k, dtype=packed.dtype)
    return P, L, xp.triu(packed[..., :k, :])
