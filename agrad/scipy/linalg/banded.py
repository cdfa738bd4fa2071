"""Banded matrices in the diagonal ordered form of SciPy.

The functions build dense matrices. They need O(n**3) operations and O(n**2) memory for n rows.
"""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ShapeError
from agrad.interop.linear_algebra import completed
from agrad.scipy.linalg.shared import gathered, matrices
from agrad.scipy.shared import arrays, function

__all__ = ["cho_solve_banded", "cholesky_banded", "solve_banded", "solveh_banded"]


def _full(ab: Tensor, above: int) -> Tensor:
    """Return square matrices by their diagonals, ``above`` of them above the main one."""
    count, n = ab.shape[-2:]
    place = np.arange(n)
    row = above + place[:, None] - place
    index = np.where((row >= 0) & (row < count), row * n + place, -1)
    return gathered(agrad.reshape(ab, (*ab.shape[:-2], count * n)), index)


def _diagonals(a: Tensor, above: int, count: int) -> Tensor:
    """Return ``count`` diagonals of square matrices, from the one at ``above`` on.

    Elements outside of the matrices are 0.
    """
    n = a.shape[-1]
    place = np.arange(n)
    row = np.arange(count)[:, None] - above + place
    index = np.where((row >= 0) & (row < n), row * n + place, -1)
    return gathered(agrad.reshape(a, (*a.shape[:-2], n * n)), index)


def _above(ab: Tensor, lower: bool) -> int:
    return 0 if lower else ab.shape[-2] - 1


@function
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Return the solution x of ``a @ x = b`` with a banded matrix.

    Like ``scipy.linalg.solve_banded``: ``ab`` has shape (..., l + u + 1, n), the result the shape of ``b``. It needs
    O(n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> banded, b = np.asarray([[0.0, 1.0], [2.0, 3.0], [1.0, 0.0]]), np.asarray([3.0, 4.0])
    >>> linalg.solve_banded((1, 1), banded, b).round(6)
    array([1., 1.])
    >>> agrad.grad(lambda b: agrad.sum(linalg.solve_banded((1, 1), banded, b)))(b).round(6)
    array([0.4, 0.2])
    """
    ab, b = arrays(ab, b)
    ab, (below, above) = matrices(ab, "solve_banded"), map(int, l_and_u)
    if ab.shape[-2] != below + above + 1:
        raise ShapeError(f"solve_banded: ab must have l + u + 1 = {below + above + 1} rows, got {ab.shape[-2]}")
    return agrad.linalg.solve(_full(ab, above), b)


@function
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Solve ``a @ x = b`` with a banded positive definite matrix.

    Like ``scipy.linalg.solveh_banded``: ``ab`` has shape (..., u + 1, n), the result the shape of ``b``. It needs
    O(n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> banded, b = np.asarray([[0.0, 2.0], [4.0, 5.0]]), np.asarray([8.0, 8.0])
    >>> linalg.solveh_banded(banded, b)
    array([1.5, 1. ])
    >>> agrad.grad(lambda b: linalg.solveh_banded(banded, b)[0])(b).round(4)
    array([ 0.3125, -0.125 ])
    """
    ab, b = arrays(ab, b)
    c = _factor(matrices(ab, "solveh_banded"), lower)
    return agrad.linalg.cholesky_solve(c, b, upper=not lower)


def _factor(ab: Tensor, lower: bool) -> Tensor:
    return agrad.linalg.cholesky(completed(_full(ab, _above(ab, lower)), lower), upper=not lower)


@function
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Tensor:
    """Return the Cholesky factor of a banded positive definite matrix.

    Like ``scipy.linalg.cholesky_banded``: ``ab`` and the result have shape (..., u + 1, n). Elements outside of the
    matrix are 0. It needs O(n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.cholesky_banded(np.asarray([[0.0, 2.0], [4.0, 5.0]]))
    array([[0., 1.],
           [2., 2.]])
    """
    ab = matrices(ab, "cholesky_banded")
    return _diagonals(_factor(ab, lower), _above(ab, lower), ab.shape[-2])


@function
def cho_solve_banded(cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Solve ``a @ x = b`` by the Cholesky factor of a banded matrix.

    Like ``scipy.linalg.cho_solve_banded``: the result has the shape of ``b``. It needs O(n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> banded, b = np.asarray([[0.0, 2.0], [4.0, 5.0]]), np.asarray([8.0, 8.0])
    >>> factor = linalg.cholesky_banded(banded)
    >>> linalg.cho_solve_banded((factor, False), b)
    array([1.5, 1. ])
    >>> agrad.grad(lambda b: linalg.cho_solve_banded((factor, False), b)[0])(b).round(4)
    array([ 0.3125, -0.125 ])
    """
    cb, lower = cb_and_lower
    cb, b = arrays(cb, b)
    c = _full(matrices(cb, "cho_solve_banded"), _above(cb, lower))
    return agrad.linalg.cholesky_solve(c, b, upper=not lower)
