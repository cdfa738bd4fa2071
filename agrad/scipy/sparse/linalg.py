"""Linear systems with a sparse matrix, by the names of SciPy.

The functions have the names of ``scipy.sparse.linalg`` and require SciPy. They are differentiable with respect to the
right-hand side, in every mode and order. The matrix is a constant, and must be a square sparse SciPy matrix. Arrays
must be on NumPy. A singular matrix raises ``RuntimeError``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import SparseArray, Tensor
from agrad.errors import MixedBackendsError, OperandError, ShapeError
from agrad.interop.sparse import check_operands, library_of
from agrad.scipy.shared import function


class _Factors:
    """LU factors of a sparse matrix, for each requested dtype.

    They are a keyword argument of an operation, equal only to themselves.
    """

    def __init__(self, matrix: Any, options: dict[str, Any]) -> None:
        self.matrix = matrix.tocsc()
        self.options = options
        self.by_dtype: dict[Any, Any] = {}

    def of(self, dtype: Any) -> Any:
        """Return the factors of the matrix in a dtype, computed at the first call."""
        if dtype not in self.by_dtype:
            from scipy.sparse.linalg import splu

            self.by_dtype[dtype] = splu(self.matrix.astype(dtype), **self.options)
        return self.by_dtype[dtype]

    def solve(self, b: np.ndarray, transposed: bool) -> np.ndarray:
        """Return the solution for the columns of ``b``."""
        common = np.result_type(self.matrix.dtype, b.dtype, np.float32)
        how = "T" if transposed else "N"
        if b.dtype.kind == "c" and self.matrix.dtype.kind != "c":
            factors, real = self.of(np.empty(0, common).real.dtype), np.empty(0, common).real.dtype
            parts = [factors.solve(np.ascontiguousarray(part, dtype=real), how) for part in (b.real, b.imag)]
            return (parts[0] + 1j * parts[1]).astype(common)
        return self.of(common).solve(np.ascontiguousarray(b, dtype=common), how)


@agrad.primitive(name="sparse.solve", linear="b", batch="leading", core_axes=2)
def _solve(xp: Any, b: Any, /, *, factors: Any, transposed: Any) -> Any:
    # the axes before the last two are columns too
    columns = xp.reshape(xp.moveaxis(b, -2, 0), (b.shape[-2], -1))
    x = factors.solve(columns, transposed)
    return xp.moveaxis(xp.reshape(x, (x.shape[0], *b.shape[:-2], b.shape[-1])), 0, -2)


@_solve.vjp
def _solve_vjp(xp: Any, g: Any, *, factors: Any, transposed: Any) -> Any:
    return _solve(g, factors=factors, transposed=not transposed)


@agrad.primitive(name="sparse.solve_values", linear="b", batch="loop")
def _solve_values(xp: Any, values: Any, b: Any, /, *, where: Any, transposed: Any) -> Any:
    from scipy.sparse import csr_array

    matrix = csr_array((values, where.columns, where.indptr), where.shape)
    return _Factors(matrix, {}).solve(b, transposed)


def _coordinates(where: Any, transposed: bool) -> tuple[Any, Any]:
    return (where.columns, where.rows) if transposed else (where.rows, where.columns)


@_solve_values.vjp("b")
def _solve_values_b(xp: Any, g: Any, values: Any, *, where: Any, transposed: Any) -> Any:
    return _solve_values(values, g, where=where, transposed=not transposed)


@_solve_values.vjp("values")
def _solve_values_values(xp: Any, g: Any, values: Any, y: Any, *, where: Any, transposed: Any) -> Any:
    rows, columns = _coordinates(where, transposed)
    w = _solve_values(values, g, where=where, transposed=not transposed)
    return -xp.sum(xp.take(w, xp.asarray(rows), axis=0) * xp.take(y, xp.asarray(columns), axis=0), axis=1)


@_solve_values.jvp("values")
def _solve_values_tangent(xp: Any, t: Any, values: Any, y: Any, *, where: Any, transposed: Any) -> Any:
    rows, columns = _coordinates(where, transposed)
    terms = t[:, None] * xp.take(y, xp.asarray(columns), axis=0)
    moved = agrad.segment_sum(terms, rows, where.shape[0])
    return -_solve_values(values, moved, where=where, transposed=transposed)


@function
def _solved_with_values(A: Any, b: Any) -> Any:
    values, b = (x if isinstance(x, Tensor) else agrad.asarray(x) for x in (A.values, b))
    _check_square(A)
    if b.backend != "numpy":
        raise MixedBackendsError(
            f"spsolve: the operands must be on 'numpy', got {b.backend!r}. Move them: x.to('numpy')."
        )
    if b.ndim not in (1, 2) or b.shape[0] != A.shape[0]:
        raise ShapeError(f"spsolve: b must have {A.shape[0]} rows, like A, got shape {b.shape}")
    x = _solve_values(values, b[:, None] if b.ndim == 1 else b, where=A.where, transposed=False)
    return x[:, 0] if b.ndim == 1 else x


def _check_square(A: Any) -> None:
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"splu and spsolve: A must be square, got shape {A.shape}")


class SuperLU:
    """LU factors of a sparse matrix, as ``splu`` returns them.

    Like ``scipy.sparse.linalg.SuperLU``, for a copy of ``A``.

    Examples
    --------
    >>> import scipy.sparse
    >>> from agrad.scipy.sparse import linalg
    >>> factors = linalg.splu(scipy.sparse.csc_array(np.asarray([[4.0, 1.0], [1.0, 3.0]])))
    >>> isinstance(factors, linalg.SuperLU)
    True
    >>> factors.solve(np.asarray([1.0, 2.0])).round(4)
    array([0.0909, 0.6364])
    """

    def __init__(self, A: Any, **options: Any) -> None:
        if library_of(A) is None:
            fix = "Call spsolve(A, b)" if isinstance(A, SparseArray) else "Pass a dense matrix to agrad.linalg.solve"
            raise OperandError(f"splu and spsolve: A must be a sparse matrix of SciPy, got {type(A).__name__}. {fix}.")
        _check_square(A)
        self._factors = _Factors(A.copy(), options)
        self._factors.of(np.result_type(A.dtype, np.float32))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return tuple(self._factors.matrix.shape)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve a system, or one for each column.

        Like the SciPy method, for ``rhs`` of shape (n,), (n, k) or (..., n, k), which is also the shape of the result.

        Examples
        --------
        >>> import scipy.sparse
        >>> from agrad.scipy.sparse import linalg
        >>> factors = linalg.splu(scipy.sparse.csc_array(np.asarray([[4.0, 1.0], [1.0, 3.0]])))
        >>> factors.solve(np.asarray([1.0, 2.0])).round(4)
        array([0.0909, 0.6364])
        """
        return _solved(self._factors, rhs, trans)


@function
def _solved(factors: _Factors, rhs: Any, trans: str) -> Any:
    if trans not in ("N", "T", "H"):
        raise OperandError(f"solve: trans must be 'N', 'T' or 'H', got {trans!r}")
    b = rhs if isinstance(rhs, Tensor) else agrad.asarray(rhs)
    check_operands("solve", factors.matrix, b)
    if not b.ndim or b.shape[max(b.ndim - 2, 0)] != factors.matrix.shape[0]:
        raise ShapeError(f"solve: b must have {factors.matrix.shape[0]} rows, like the matrix, got shape {b.shape}")
    columns = b[:, None] if b.ndim == 1 else b
    if trans == "H":
        columns = agrad.conj(columns)
    x = _solve(columns, factors=factors, transposed=trans != "N")
    if trans == "H":
        x = agrad.conj(x)
    return x[:, 0] if b.ndim == 1 else x


def splu(
    A: Any,
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: dict[str, Any] | None = None,
) -> SuperLU:
    """Compute the LU factors of a sparse square matrix, a constant.

    Like ``scipy.sparse.linalg.splu``. The method ``solve`` of the result accepts Tensors.

    Examples
    --------
    >>> import scipy.sparse
    >>> from agrad.scipy.sparse import linalg
    >>> factors = linalg.splu(scipy.sparse.csc_array(np.asarray([[4.0, 1.0], [1.0, 3.0]])))
    >>> agrad.grad(lambda b: factors.solve(b)[0])(np.asarray([1.0, 2.0])).round(4)
    array([ 0.2727, -0.0909])
    """
    return SuperLU(
        A,
        permc_spec=permc_spec,
        diag_pivot_thresh=diag_pivot_thresh,
        relax=relax,
        panel_size=panel_size,
        options=options,
    )


def factorized(A: Any) -> Callable[[Any], Any]:
    """Return a function that solves systems with a sparse matrix, a constant.

    Like ``scipy.sparse.linalg.factorized``: ``solve(b)`` accepts arrays of shape (n,) or (n, k).

    Examples
    --------
    >>> import scipy.sparse
    >>> from agrad.scipy.sparse import linalg
    >>> solve = linalg.factorized(scipy.sparse.csc_array(np.asarray([[4.0, 1.0], [1.0, 3.0]])))
    >>> solve(np.asarray([1.0, 2.0])).round(4)
    array([0.0909, 0.6364])
    >>> agrad.grad(lambda b: solve(b)[0])(np.asarray([1.0, 2.0])).round(4)
    array([ 0.2727, -0.0909])
    """
    return splu(A).solve


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = True) -> Any:
    """Solve ``A x = b`` for a sparse square matrix.

    Like ``scipy.sparse.linalg.spsolve``: ``b`` and the result have shape (n,) or (n, k), and a single column is
    returned with shape (n,). ``use_umfpack`` is ignored: the factors are SuperLU factors.

    The cotangent of b solves the system with the transposed matrix, by the same factors. For a derivative with respect
    to the matrix, pass an ``agrad.SparseArray``, or write it as a function: ``agrad.linear_solve``.

    Examples
    --------
    >>> import scipy.sparse
    >>> from agrad.scipy.sparse import linalg
    >>> a = scipy.sparse.csc_array(np.asarray([[4.0, 1.0], [1.0, 3.0]]))
    >>> linalg.spsolve(a, np.asarray([1.0, 2.0])).round(4)
    array([0.0909, 0.6364])
    >>> agrad.grad(lambda b: linalg.spsolve(a, b)[0])(np.asarray([1.0, 2.0])).round(4)
    array([ 0.2727, -0.0909])
    """
    x = _solved_with_values(A, b) if isinstance(A, SparseArray) else splu(A, permc_spec=permc_spec).solve(b)
    return x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x


__all__ = ["SuperLU", "factorized", "splu", "spsolve"]
