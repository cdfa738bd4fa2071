"""LU factorizations with the SciPy names."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import OperandError, ShapeError
from agrad.interop.arguments import constant, is_complex
from agrad.scipy.linalg.shared import matrices, square
from agrad.scipy.shared import arrays, function

__all__ = ["lu", "lu_factor", "lu_solve"]


def _order(P: Tensor) -> Tensor:
    """Return the rows of ``a``, as numbers, in the order of the pivots."""
    place = constant(np.arange(P.shape[-1])[:, None], P)
    return agrad.sum(agrad.where(agrad.not_equal(P, 0.0), place, agrad.zeros_like(place)), axis=-2)


@function
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """Return the decomposition ``a = P @ L @ U`` with partial pivoting.

    Like ``scipy.linalg.lu``: ``a`` has shape (..., m, n). With k = min(m, n), L has shape (..., m, k), U (..., k, n),
    and the constant P (..., m, m), or (..., m) as integers. It is ``agrad.linalg.lu``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> p, l, u = linalg.lu(np.asarray([[1.0, 2.0], [4.0, 2.0]]))
    >>> l, u
    (array([[1.  , 0.  ],
           [0.25, 1.  ]]), array([[4. , 2. ],
           [0. , 1.5]]))
    >>> agrad.grad(lambda a: linalg.lu(a)[2][1, 1])(np.asarray([[1.0, 2.0], [4.0, 2.0]]))
    array([[-0.5  ,  1.   ],
           [ 0.125, -0.25 ]])
    """
    P, L, U = agrad.linalg.lu(matrices(a, "lu"))
    if permute_l:
        return P @ L, U
    if p_indices:
        return _order(agrad.matrix_transpose(P)), L, U
    return agrad.real(P) if is_complex(P) else P, L, U


@function
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the LU factors of each matrix in one matrix, for ``lu_solve``.

    Like ``scipy.linalg.lu_factor``: ``a`` and the factors have shape (..., m, n), and the integer pivots (..., min(m,
    n)). They require min(m, n) steps. A singular matrix does not raise a warning.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[2.0, 1.0], [1.0, 3.0]]), np.asarray([3.0, 4.0])
    >>> factors = linalg.lu_factor(a)
    >>> linalg.lu_solve(factors, b)
    array([1., 1.])
    """
    P, L, U = agrad.linalg.lu(matrices(a, "lu_factor"))
    (m, k), n = L.shape[-2:], U.shape[-1]
    below, above = [(0, 0)] * (L.ndim - 1) + [(0, n - k)], [(0, 0)] * (L.ndim - 2) + [(0, m - k), (0, 0)]
    packed = agrad.pad(agrad.tril(L, k=-1), below) + agrad.pad(U, above)
    order = _order(P)
    place = constant(np.arange(m), P)
    current, pivots = agrad.broadcast_to(place, order.shape), []
    for j in range(k):
        # the rows before row j are in their final order
        hit = (current == order[..., j : j + 1]) & (place >= j)
        pivots.append(agrad.sum(agrad.where(hit, place, agrad.zeros_like(place)), axis=-1))
        current = agrad.where(hit, current[..., j : j + 1], current)
    return packed, agrad.stack(pivots, axis=-1) if k else order[..., :0]


@function
def lu_solve(lu_and_piv: Any, b: Any, trans: Any = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return the solution x of ``a @ x = b`` by the LU factors of ``a``.

    Like ``scipy.linalg.lu_solve``: the factors have shape (..., n, n), the result the shape of ``b``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[2.0, 1.0], [1.0, 3.0]]), np.asarray([3.0, 4.0])
    >>> linalg.lu_solve(linalg.lu_factor(a), b)
    array([1., 1.])
    >>> agrad.grad(lambda b: linalg.lu_solve(linalg.lu_factor(a), b)[0])(b).round(4)
    array([ 0.6, -0.2])
    """
    lu, piv = lu_and_piv
    lu, b = arrays(lu, b)
    n = square(lu, "lu_solve").shape[-1]
    if trans not in (0, 1, 2):
        raise OperandError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}")
    columns = agrad.expand_dims(b, axis=-1) if b.ndim == 1 else b
    if columns.ndim == 0 or columns.shape[-2] != n:
        raise ShapeError(f"lu_solve: b must have {n} rows, like the matrix, got shape {tuple(b.shape)}")
    P = _permutation(agrad.asarray(piv), lu)
    lower = {"lower": True, "unit_diagonal": True}
    if not trans:
        half = agrad.linalg.solve_triangular(lu, agrad.matrix_transpose(P) @ columns, **lower)
        out = agrad.linalg.solve_triangular(lu, half)
    else:
        half = agrad.linalg.solve_triangular(lu, columns, trans=trans)
        out = P @ agrad.linalg.solve_triangular(lu, half, trans=trans, **lower)
    return agrad.squeeze(out, axis=-1) if b.ndim == 1 else out


def _permutation(piv: Tensor, like: Tensor) -> Tensor:
    """Return P, of which the transpose exchanges rows by pivots."""
    n = piv.shape[-1]
    place = constant(np.arange(n), like)
    current, rows = agrad.broadcast_to(place, piv.shape), []
    for j in range(n):
        hit = place == piv[..., j : j + 1]
        rows.append(agrad.sum(agrad.where(hit, current, agrad.zeros_like(current)), axis=-1))
        current = agrad.where(hit, current[..., j : j + 1], current)
    order = agrad.stack(rows, axis=-1) if n else current
    return agrad.astype(agrad.expand_dims(place, axis=-1) == agrad.expand_dims(order, axis=-2), like.dtype)
