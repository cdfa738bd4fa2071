"""Solvers, inverses, determinants and norms with the SciPy names."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import OperandError, ShapeError
from agrad.interop.arguments import axes_of, is_complex
from agrad.scipy.linalg.matrices import toeplitz
from agrad.scipy.linalg.shared import matrices, mirrored, square
from agrad.scipy.shared import array, arrays, function

__all__ = ["det", "inv", "lstsq", "norm", "pinv", "solve", "solve_toeplitz", "solve_triangular"]


def _structured(a: Tensor, assume_a: Any, lower: bool, name: str) -> Tensor:
    """Return the matrices with only the elements that a solver for the structure reads."""
    if assume_a in (None, "gen", "general", "banded"):
        return a
    if assume_a in ("her", "hermitian", "pos", "positive definite"):
        return mirrored(a, lower)
    if assume_a in ("sym", "symmetric"):
        return mirrored(a, lower, agrad.matrix_transpose)
    if assume_a in ("upper triangular", "lower triangular"):
        return (agrad.tril if assume_a == "lower triangular" else agrad.triu)(a)
    if assume_a in ("diagonal", "tridiagonal"):
        k = 0 if assume_a == "diagonal" else 1
        return agrad.tril(agrad.triu(a, k=-k), k=k)
    raise OperandError(f"{name}: assume_a={assume_a!r} is not a structure of SciPy. Leave it out.")


@function
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Tensor:
    """Return the solution x of ``a @ x = b``.

    Like ``scipy.linalg.solve``: ``a`` has shape (..., n, n), the result the shape of ``b``. Elements outside of the
    structure ``assume_a`` are not read, but a structure does not make the solution faster. The gradient of a symmetric
    or Hermitian ``a`` is so too. ``transposed=True`` is not supported for complex matrices.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[2.0, 1.0], [1.0, 3.0]]), np.asarray([3.0, 4.0])
    >>> linalg.solve(a, b).round(6)
    array([1., 1.])
    >>> agrad.grad(lambda b: agrad.sum(linalg.solve(a, b)))(b).round(6)
    array([0.4, 0.2])
    """
    a, b = arrays(a, b)
    a = _structured(square(a, "solve"), assume_a, lower, "solve")
    if transposed and is_complex(a):
        raise OperandError("solve: transposed=True is not supported for complex matrices. Transpose a instead.")
    a = agrad.matrix_transpose(a) if transposed else a
    return agrad.linalg.solve(a, b)


@function
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Tensor:
    """Return the solution x of ``toeplitz(c, r) @ x = b``.

    Like ``scipy.linalg.solve_toeplitz``: the column and row have shape (..., n), the result the shape of ``b``. The
    whole matrix is created and solved by elimination, in O(n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> c, b = np.asarray([2.0, 1.0]), np.asarray([3.0, 3.0])
    >>> linalg.solve_toeplitz(c, b).round(6)
    array([1., 1.])
    >>> agrad.grad(lambda c: agrad.sum(linalg.solve_toeplitz(c, b)))(c).round(6)
    array([-0.666667, -0.666667])
    """
    given = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)
    b, *lines = arrays(b, *given)
    return agrad.linalg.solve(square(toeplitz(*lines), "solve_toeplitz"), b)


@function
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Return the solution x of ``a @ x = b`` with a triangular matrix.

    Like ``scipy.linalg.solve_triangular``: ``a`` has shape (..., n, n), the result the shape of ``b``. It is
    ``agrad.linalg.solve_triangular``, which does not read the other triangle.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[2.0, 0.0], [1.0, 1.0]]), np.asarray([4.0, 3.0])
    >>> linalg.solve_triangular(a, b, lower=True)
    array([2., 1.])
    >>> agrad.grad(lambda b: linalg.solve_triangular(a, b, lower=True)[1])(b)
    array([-0.5,  1. ])
    """
    a, b = arrays(a, b)
    return agrad.linalg.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit_diagonal)


@function
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False
) -> Tensor:
    """Return the inverse of each matrix.

    Like ``scipy.linalg.inv``: ``a`` and the result have shape (..., n, n). Elements outside of the structure
    ``assume_a`` are not read.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [1.0, 3.0]])
    >>> linalg.inv(a).round(6)
    array([[ 0.6, -0.2],
           [-0.2,  0.4]])
    >>> agrad.grad(lambda a: linalg.inv(a)[0, 0])(a).round(6)
    array([[-0.36,  0.12],
           [ 0.12, -0.04]])
    """
    return agrad.linalg.inv(_structured(square(a, "inv"), assume_a, lower, "inv"))


@function
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the determinant of each matrix.

    Like ``scipy.linalg.det``: ``a`` has shape (..., n, n), the result shape (...).

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> linalg.det(a).round(6)
    np.float64(16.0)
    >>> agrad.grad(linalg.det)(a).round(6)
    array([[ 5., -2.],
           [-2.,  4.]])
    """
    return agrad.linalg.det(square(a, "det"))


@function
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Tensor:
    """Return the norm of vectors or matrices.

    Like ``scipy.linalg.norm``: real, 0 for empty input. The orders are the same as of ``agrad.linalg.vector_norm`` and
    ``agrad.linalg.matrix_norm``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> x = np.asarray([3.0, 4.0])
    >>> linalg.norm(x), linalg.norm(x, 1)
    (np.float64(5.0), np.float64(7.0))
    >>> agrad.grad(linalg.norm)(x).round(4)
    array([0.6, 0.8])
    """
    a = array(a)
    if axis is None and ord is None:
        return agrad.linalg.vector_norm(a, keepdims=keepdims)
    axes = axes_of(axis, a.ndim)
    if len(axes) <= 2 and not all(a.shape[i] for i in axes):
        return agrad.sum(agrad.abs(a), axis=axes, keepdims=keepdims)
    if len(axes) == 1:
        return agrad.linalg.vector_norm(a, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(f"norm: the norm must be over one or two axes, got {len(axes)}. Pass axis=.")
    out = agrad.linalg.matrix_norm(agrad.moveaxis(a, axes, (-2, -1)), ord="fro" if ord is None else ord)
    return agrad.expand_dims(out, axis=tuple(sorted(axes))) if keepdims else out


def _cutoff(a: Tensor, rtol: Any) -> Any:
    return max(a.shape[-2:]) * float(np.finfo(a.dtype.name).eps) if rtol is None else rtol


@function
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    """Return the Moore-Penrose pseudo-inverse.

    Like ``scipy.linalg.pinv``: ``a`` has shape (..., m, n), the result (..., n, m), and the rank is an integer array of
    shape (...). The derivative is along changes that keep the rank. ``atol`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.pinv(np.asarray([[1.0, 2.0], [2.0, 4.0]])).round(6)
    array([[0.04, 0.08],
           [0.08, 0.16]])
    >>> agrad.grad(lambda a: linalg.pinv(a)[0, 0])(np.asarray([[2.0], [1.0]])).round(6)
    array([[-0.12],
           [-0.16]])
    """
    a = matrices(a, "pinv")
    if atol:
        raise OperandError("pinv: atol is not supported. Pass rtol, which is relative to the largest singular value.")
    rtol = _cutoff(a, rtol)
    out = agrad.linalg.pinv(a, rtol=rtol)
    return (out, agrad.linalg.matrix_rank(a, rtol=rtol)) if return_rank else out


@function
def lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:
    """Return the minimum-norm least-squares solution x of ``a @ x = b``.

    Like ``scipy.linalg.lstsq``: ``a`` has shape (..., m, n), ``b`` (..., m, k) or (m,), the solution (..., n, k) or
    (..., n). ``cond`` is by default the precision of the dtype. If m > n, residuals are returned for every rank,
    whereas SciPy returns none if the rank is less than n. ``lapack_driver`` is ignored.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.asarray([1.0, 2.0, 4.0])
    >>> linalg.lstsq(a, b)[0].round(4)
    array([0.8333, 1.5   ])
    >>> agrad.grad(lambda b: linalg.lstsq(a, b)[0][0])(b).round(4)
    array([ 0.8333,  0.3333, -0.1667])
    """
    a, b = arrays(a, b)
    m, n = matrices(a, "lstsq").shape[-2:]
    found = agrad.linalg.lstsq(a, b, rtol=float(np.finfo(a.dtype.name).eps) if cond is None else cond)
    residuals = found.residuals
    if m <= n:
        residuals = agrad.zeros_like((agrad.expand_dims(residuals, axis=-1) if b.ndim == 1 else residuals)[..., :0])
    return found.solution, residuals, found.rank, found.singular_values
