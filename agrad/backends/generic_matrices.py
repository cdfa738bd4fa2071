"""Functions of matrices beyond the standard, by functions of the standard."""

import math
from typing import Any

from agrad.backends.convolution import beside


def solve_or_nan(xp: Any, x1: Any, x2: Any, /) -> Any:
    """Return the solution of ``x1 @ y = x2``, NaN where ``x1`` is singular."""
    singular = xp.expand_dims(xp.expand_dims(xp.linalg.slogdet(x1)[0] == 0, axis=-1), axis=-1)
    identity = xp.zeros_like(x1) + xp.eye(x1.shape[-1], dtype=x1.dtype, **beside(x1))
    y = xp.linalg.solve(xp.where(singular, identity, x1), x2)
    return xp.where(singular, xp.full_like(y, math.nan), y)


def lu(xp: Any, x: Any, /) -> tuple[Any, Any, Any]:
    """Return P, L and U of each matrix, with partial pivoting, one column a step."""
    m, n = x.shape[-2:]
    rows, columns = xp.arange_like(x, m), xp.arange_like(x, n)
    order = xp.zeros(x.shape[:-1], dtype=rows.dtype, **beside(x)) + rows
    for j in range(min(m, n)):
        below = rows > j
        size = xp.abs(x[..., j])
        pivot = xp.argmax(xp.where(rows < j, xp.full_like(size, -1), size), axis=-1, keepdims=True)
        swap = xp.where(rows == j, pivot, xp.where(rows == pivot, xp.full_like(rows, j), rows))
        order = xp.take_along_axis(order, swap, axis=-1)
        x = xp.take_along_axis(x, xp.zeros(x.shape, dtype=swap.dtype, **beside(x)) + swap[..., None], axis=-2)
        head = x[..., j, :]
        first = x[..., j : j + 1, j]
        factor = x[..., j] / xp.where(first == 0, xp.ones_like(first), first)
        factor = xp.where(below, factor, xp.zeros_like(factor))[..., None]
        x = xp.where(columns > j, x - factor * xp.expand_dims(head, axis=-2), x)
        x = xp.where((columns == j) & below[:, None], factor, x)
    k = min(m, n)
    P = xp.astype(xp.expand_dims(order, axis=-2) == rows[:, None], x.dtype)
    L = xp.tril(x[..., :k], k=-1) + xp.eye(m, k, dtype=x.dtype, **beside(x))
    return P, L, xp.triu(x[..., :k, :])
