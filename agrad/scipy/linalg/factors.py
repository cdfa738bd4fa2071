"""Matrix factorizations with the SciPy names.

As in ``agrad.linalg``, factors are unique up to signs and phases. Derivatives are correct for functions that do not
depend on these.
"""

from typing import Any

import agrad
from agrad import Tensor
from agrad.errors import OperandError
from agrad.scipy.linalg.shared import adjoint, matrices, mirrored, refuse, square
from agrad.scipy.shared import arrays, function

__all__ = ["cho_factor", "cho_solve", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


@function
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the triangular factor of each positive definite matrix.

    It is U with ``U.H @ U = a``, or with ``lower`` L with ``L @ L.H = a``.

    Parameters
    ----------
    a : array
        Hermitian matrices of shape (..., n, n). Only the triangle of the factor is read.
    lower : bool
        Return the lower factor.
    overwrite_a, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.

    Returns
    -------
    array
        Array with the shape of ``a``.

    Raises
    ------
    ShapeError
        If a matrix is not square. For a matrix that is not positive definite, the array library raises its error.

    Notes
    -----
    The derivative is that along Hermitian changes of ``a``, given as a Hermitian gradient.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> linalg.cholesky(a)
    array([[2., 1.],
           [0., 2.]])
    >>> agrad.grad(lambda a: linalg.cholesky(a)[1, 1])(a).round(4)
    array([[ 0.0625, -0.125 ],
           [-0.125 ,  0.25  ]])
    """
    return agrad.linalg.cholesky(mirrored(square(a, "cholesky"), lower), upper=not lower)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the Cholesky factor of each matrix, for ``cho_solve``.

    Parameters
    ----------
    a : array
        Hermitian matrices of shape (..., n, n). Only the triangle of the factor is read.
    lower : bool
        If True, return the lower factor. Otherwise, the upper one.
    overwrite_a, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.

    Returns
    -------
    tuple
        The factor, of the shape of ``a``, and ``lower``.

    Raises
    ------
    ShapeError
        If a matrix is not square. For a matrix that is not positive definite, the array library raises its error.

    Notes
    -----
    The other triangle of the factor is 0, where SciPy leaves elements of ``a``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[4.0, 2.0], [2.0, 5.0]]), np.asarray([8.0, 8.0])
    >>> factor = linalg.cho_factor(a)
    >>> linalg.cho_solve(factor, b)
    array([1.5, 1. ])
    """
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return the solution x of ``a @ x = b`` by the Cholesky factor of ``a``.

    Parameters
    ----------
    c_and_lower : tuple
        The result of ``cho_factor``.
    b : array
        Array of shape (..., n, k) or (n,).
    overwrite_b, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.

    Returns
    -------
    array
        Array with the shape of ``b``, with the batch axes of both.

    Raises
    ------
    ShapeError
        If shapes do not match.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[4.0, 2.0], [2.0, 5.0]]), np.asarray([8.0, 8.0])
    >>> linalg.cho_solve(linalg.cho_factor(a), b)
    array([1.5, 1. ])
    >>> agrad.grad(lambda a: linalg.cho_solve(linalg.cho_factor(a), b)[0])(a).round(4)
    array([[-0.4688, -0.0625],
           [-0.0625,  0.125 ]])
    """
    return _cho_solve(*c_and_lower, b)


@function
def _cho_solve(c: Any, lower: bool, b: Any) -> Any:
    c, b = arrays(c, b)
    return agrad.linalg.cholesky_solve(c, b, upper=not lower)


@function
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the decomposition ``a = Q @ R``.

    Parameters
    ----------
    a : array
        Array of shape (..., m, n).
    overwrite_a : bool
        Ignored: arguments are not overwritten.
    lwork : int, optional
        Without effect: the size of a work array.
    mode : {"full", "economic", "r"}
        "full": square Q. "economic": Q with min(m, n) columns. "r": only R, as in "full".
    pivoting : bool
        Not supported.
    check_finite : bool
        Ignored: values are not checked.

    Returns
    -------
    tuple of arrays
        Q and R, and with the mode "r" only R.

    Raises
    ------
    OperandError
        If ``mode`` is not supported, or if ``pivoting`` is True.
    ShapeError
        If an array has fewer than two axes.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[3.0, 1.0], [4.0, 2.0]])
    >>> q, r = linalg.qr(a)
    >>> agrad.abs(r).round(6)
    array([[5. , 2.2],
           [0. , 0.4]])
    >>> agrad.grad(lambda a: agrad.abs(linalg.qr(a)[1][1, 1]))(a).round(4)
    array([[ 0.352, -0.8  ],
           [-0.264,  0.6  ]])
    """
    a = matrices(a, "qr")
    refuse("qr", {"pivoting": pivoting}, "Permute the columns of a before the call")
    if mode not in ("full", "economic", "r"):
        raise OperandError(f"qr: mode must be 'full', 'economic' or 'r', got {mode!r}")
    Q, R = agrad.linalg.qr(a, mode="reduced" if mode == "economic" else "complete")
    return (R,) if mode == "r" else (Q, R)


@function
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return the singular values and vectors.

    Parameters
    ----------
    a : array
        Array of shape (..., m, n).
    full_matrices : bool
        If True, return square matrices of vectors. Otherwise, min(m, n) vectors.
    compute_uv : bool
        If True, return vectors too. Otherwise, only the values.
    overwrite_a, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.
    lapack_driver : str
        Without effect: the array library has its own.

    Returns
    -------
    tuple of arrays, or array
        U, the values in descending order, and V.H, with ``a = U @ diag(s) @ V.H``.

    Raises
    ------
    ShapeError
        If an array has fewer than two axes.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> u, s, vh = linalg.svd(np.asarray([[3.0, 0.0], [0.0, 4.0]]))
    >>> s
    array([4., 3.])
    >>> agrad.grad(lambda a: agrad.sum(linalg.svd(a)[1]))(np.asarray([[3.0, 0.0], [0.0, 4.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    a = matrices(a, "svd")
    return tuple(agrad.linalg.svd(a, full_matrices=full_matrices)) if compute_uv else agrad.linalg.svdvals(a)


@function
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the singular values, in descending order.

    Parameters
    ----------
    a : array
        Array of shape (..., m, n).
    overwrite_a, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.

    Returns
    -------
    array
        Array of shape (..., min(m, n)).

    Raises
    ------
    ShapeError
        If an array has fewer than two axes.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[3.0, 0.0], [0.0, 4.0]])
    >>> linalg.svdvals(a)
    array([4., 3.])
    >>> agrad.grad(lambda a: linalg.svdvals(a)[0])(a)
    array([[0., 0.],
           [0., 1.]])
    """
    return agrad.linalg.svdvals(matrices(a, "svdvals"))


@function
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """Return the eigenvalues and eigenvectors of Hermitian matrices.

    Parameters
    ----------
    a : array
        Array of shape (..., n, n). Only one triangle is read.
    b : array, optional
        Positive definite matrices: solve ``a @ v = w * b @ v``, with vectors for which ``v.H @ b @ v`` is 1.
    lower : bool
        If True, read the lower triangles. Otherwise, the upper ones.
    eigvals_only : bool
        If True, return only the eigenvalues.
    overwrite_a, overwrite_b : bool
        Ignored: arguments are not overwritten.
    type : int
        1: the other generalized problems are not supported.
    check_finite : bool
        Ignored: values are not checked.
    subset_by_index : pair of ints, optional
        Return the eigenvalues from the first to the second index, both included.
    subset_by_value : None
        Not supported, as the number of the eigenvalues would depend on values.
    driver : str, optional
        Without effect: the array library has its own.

    Returns
    -------
    tuple of arrays, or array
        The eigenvalues, real and ascending, and the eigenvectors as columns.

    Raises
    ------
    OperandError
        If an option is not supported.
    ShapeError
        If a matrix is not square.

    Notes
    -----
    The gradient is Hermitian: it describes Hermitian changes. For ``b`` = L @ L.H, the eigenvalues of inv(L) @ a @
    inv(L).H are computed.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> values, vectors = linalg.eigh(a)
    >>> values.round(6)
    array([1., 3.])
    >>> agrad.grad(lambda a: linalg.eigh(a)[0][1])(a).round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    refuse("eigh", {"type": None if type == 1 else type}, "Multiply the problem by the inverse of a or b")
    refuse("eigh", {"subset_by_value": subset_by_value}, "Select from all eigenvalues by a mask")
    chosen = slice(None) if subset_by_index is None else slice(int(subset_by_index[0]), int(subset_by_index[1]) + 1)
    if b is None:
        x = mirrored(square(a, "eigh"), lower)
        if eigvals_only:
            return agrad.linalg.eigvalsh(x)[..., chosen]
        w, V = agrad.linalg.eigh(x)
        return w[..., chosen], V[..., chosen]
    a, b = arrays(a, b)
    L = agrad.linalg.cholesky(mirrored(square(b, "eigh"), lower))
    half = agrad.linalg.solve_triangular(L, mirrored(square(a, "eigh"), lower), lower=True)
    inner = adjoint(agrad.linalg.solve_triangular(L, adjoint(half), lower=True))
    inner = (inner + adjoint(inner)) / 2
    if eigvals_only:
        return agrad.linalg.eigvalsh(inner)[..., chosen]
    w, V = agrad.linalg.eigh(inner)
    return w[..., chosen], agrad.linalg.solve_triangular(L, V, lower=True, trans="C")[..., chosen]


@function
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, ascending.

    Parameters
    ----------
    a : array
        Array of shape (..., n, n). Only one triangle is read.
    b : array, optional
        Positive definite matrices: solve ``a @ v = w * b @ v``.
    lower : bool
        If True, read the lower triangles. Otherwise, the upper ones.
    overwrite_a, overwrite_b : bool
        Ignored: arguments are not overwritten.
    type : int
        1: the other generalized problems are not supported.
    check_finite : bool
        Ignored: values are not checked.
    subset_by_index : pair of ints, optional
        Return the eigenvalues from the first to the second index, both included.
    subset_by_value : None
        Not supported, as the number of the eigenvalues would depend on values.
    driver : str, optional
        Without effect: the array library has its own.

    Returns
    -------
    array
        Real.

    Raises
    ------
    OperandError
        If an option is not supported.
    ShapeError
        If a matrix is not square.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> linalg.eigvalsh(a).round(6)
    array([1., 3.])
    >>> agrad.grad(lambda a: linalg.eigvalsh(a)[1])(a).round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    how = {"type": type, "subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
    return eigh(a, b, lower=lower, eigvals_only=True, **how)


_GENERALIZED = "give solve(b, a), whose eigenvalues are the generalized ones"


@function
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return the eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    a : array
        Array of shape (..., n, n).
    b : None
        Not supported: pass ``solve(b, a)``.
    left : bool
        Not supported: the left eigenvectors are the eigenvectors of the adjoint.
    right : bool
        Return the eigenvectors too.
    overwrite_a, overwrite_b, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.
    homogeneous_eigvals : bool
        Not supported.

    Returns
    -------
    tuple of arrays, or array
        Complex eigenvalues, in any order, and complex eigenvectors as columns of norm 1.

    Raises
    ------
    OperandError
        If an option is not supported.
    ShapeError
        If a matrix is not square.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> values, vectors = linalg.eig(np.asarray([[0.0, 1.0], [-4.0, 0.0]]))
    >>> agrad.imag(values).round(6)
    array([ 2., -2.])
    >>> agrad.grad(lambda a: agrad.sum(agrad.abs(linalg.eig(a)[0])))(np.diag([3.0, 2.0]))
    array([[1., 0.],
           [0., 1.]])
    """
    a = square(a, "eig")
    refuse("eig", {"b": b, "homogeneous_eigvals": homogeneous_eigvals}, _GENERALIZED)
    refuse("eig", {"left": left}, "Compute the eigenvectors of the conjugate transpose")
    return tuple(agrad.linalg.eig(a)) if right else agrad.linalg.eigvals(a)


@function
def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Tensor:
    """Return the eigenvalues of square matrices, in any order.

    Parameters
    ----------
    a : array
        Array of shape (..., n, n).
    b : None
        Not supported: pass ``solve(b, a)``.
    overwrite_a, check_finite : bool
        Ignored: arguments are not overwritten, and values are not checked.
    homogeneous_eigvals : bool
        Not supported.

    Returns
    -------
    array
        Complex, of shape (..., n).

    Raises
    ------
    OperandError
        If an option is not supported.
    ShapeError
        If a matrix is not square.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> agrad.real(linalg.eigvals(np.diag([3.0, 2.0])))
    array([3., 2.])
    >>> agrad.grad(lambda a: agrad.real(linalg.eigvals(a)[0]))(np.diag([3.0, 2.0]))
    array([[1., 0.],
           [0., 0.]])
    """
    refuse("eigvals", {"b": b, "homogeneous_eigvals": homogeneous_eigvals}, _GENERALIZED)
    return agrad.linalg.eigvals(square(a, "eigvals"))
