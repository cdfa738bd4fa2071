"""Eigenvalues and eigenvectors.

Eigenvectors are unique up to signs and phases. The derivative is the smallest possible change. It is correct for
functions that do not depend on signs and phases. The vectors of equal values are an arbitrary basis of one space. Their
derivative is NaN; only the derivative of the values is correct.
"""

from typing import Any, Generic, NamedTuple

from agrad.backends import backend_of
from agrad.engine.tensor import Tensor
from agrad.ops.definition import A, of_library, primitive, public_of_array
from agrad.ops.linear_algebra import solve_or_nan
from agrad.ops.matrices import (
    added,
    adjoint,
    check_matrices,
    columns,
    conjugate,
    diagonal_matrices,
    differentiated,
    hermitian_part,
    inverse_gaps,
    real_diagonal,
)
from agrad.registry import public

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


class EighResult(NamedTuple, Generic[A]):
    """The result of ``eigh`` and of ``eig``."""

    eigenvalues: A
    eigenvectors: A


# ------------------------------------------------------------------ Hermitian matrices


@primitive(name="linalg.eigh", out=("w", "V"), batch="leading", core_axes=2, raises=True)
def eigh_p(xp: Any, x: Any, /, *, upper: bool) -> Any:
    """Decompose Hermitian matrices, with ``upper`` by their upper triangle.

    If a library offers the choice, the triangle determines the signs of the vectors.
    """
    return tuple(xp.linalg.eigh(x, UPLO="U") if upper else xp.linalg.eigh(x))


@eigh_p.vjp
def eigh_vjp(xp: Any, g_w: Any, g_V: Any, w: Any, V: Any) -> Any:
    # Giles 2008, "An extended collection of matrix derivative results", section 3.1; for complex matrices Boeddeker
    # et al. 2017, arXiv:1701.00392, section 4
    if g_V is None:
        return conjugate(xp, xp.matmul(V * columns(xp, g_w), adjoint(xp, V)))
    # of nearly equal values only the skew part is divided by their gap: the rest would cancel after it, with its digits
    turn = xp.matmul(adjoint(xp, V), conjugate(xp, g_V))
    inner = (turn - adjoint(xp, turn)) / 2 * inverse_gaps(xp, w)
    if g_w is not None:
        inner = inner + diagonal_matrices(xp, g_w, V)
    return conjugate(xp, hermitian_part(xp, xp.matmul(xp.matmul(V, inner), adjoint(xp, V))))


@eigh_p.jvp
def eigh_jvp(xp: Any, t: Any, w: Any, V: Any) -> Any:
    inner = hermitian_part(xp, xp.matmul(xp.matmul(adjoint(xp, V), t), V))
    return real_diagonal(xp, inner), xp.matmul(V, inner * inverse_gaps(xp, w))


@public("linalg")
def eigh(x: A, /) -> EighResult[A]:
    """Return the eigenvalues and eigenvectors of Hermitian matrices.

    The derivative is along Hermitian changes of ``x``, returned as a Hermitian gradient. For equal eigenvalues it is
    correct for the eigenvalues, and NaN for the eigenvectors and for second derivatives, which depend on them.

    Parameters
    ----------
    x : array
        Hermitian matrices of shape (..., n, n) and a floating dtype. The array library determines which triangle is
        read.

    Returns
    -------
    EighResult
        Named tuple: ``eigenvalues`` (..., n), real and ascending, and ``eigenvectors`` (..., n, n), orthonormal
        columns.

    Notes
    -----
    Derivatives: M. Giles, "An extended collection of matrix derivative results" (2008), section 3.1; of complex
    matrices C. Boeddeker et al. (2017), arXiv:1701.00392.

    Examples
    --------
    >>> a = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> values, vectors = agrad.linalg.eigh(a)
    >>> values.round(6)
    array([1., 3.])
    >>> agrad.grad(lambda a: agrad.linalg.eigh(a)[0][1])(a).round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    check_matrices(x, "eigh", square=True)
    return EighResult(*eigh_p(x, upper=False))


eigvalsh_p = of_library("linalg.eigvalsh(x)", constant="x", batch="leading", core_axes=2, raises=True)


@public_of_array("linalg")
def eigvalsh(x: Any, /) -> Any:
    """Return the eigenvalues of Hermitian matrices, ascending.

    If they are differentiated, they come from ``eigh``, because their derivative needs the vectors. If some are equal,
    the first derivative is correct, and higher ones are NaN.

    Parameters
    ----------
    x : array
        Hermitian matrices of shape (..., n, n) and a floating dtype. The array library determines which triangle is
        read.

    Returns
    -------
    array
        Real, of shape (..., n).

    Examples
    --------
    >>> a = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> agrad.linalg.eigvalsh(a).round(6)
    array([1., 3.])
    >>> agrad.grad(lambda a: agrad.linalg.eigvalsh(a)[1])(a).round(6)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    check_matrices(x, "eigvalsh", square=True)
    return eigh_p(x, upper=False)[0] if differentiated(x) else eigvalsh_p(x)


# ------------------------------------------------------------------ general square matrices


eig_p = of_library("linalg.eig(x)", out=("w", "V"), batch="leading", core_axes=2, raises=True)


@eig_p.vjp
def eig_vjp(xp: Any, g_w: Any, g_V: Any, w: Any, V: Any) -> Any:
    # Boeddeker et al. 2017, section 4.2, for eigenvectors of length one
    adjoint_V = adjoint(xp, V)
    inner = None
    if g_V is not None:
        g_V = conjugate(xp, g_V)
        lengths = xp.real(xp.sum(conjugate(xp, V) * g_V, axis=-2))
        g_V = g_V - V * columns(xp, xp.astype(lengths, V.dtype))
        inner = xp.matmul(adjoint_V, g_V) * conjugate(xp, inverse_gaps(xp, w))
    if g_w is not None:
        inner = added(inner, diagonal_matrices(xp, conjugate(xp, g_w), V))
    return conjugate(xp, solve_or_nan(adjoint_V, xp.matmul(inner, adjoint_V)))


@eig_p.jvp
def eig_jvp(xp: Any, t: Any, w: Any, V: Any) -> Any:
    inner = solve_or_nan(V, xp.matmul(xp.astype(t, V.dtype), V))
    turned = xp.matmul(V, inner * inverse_gaps(xp, w))
    lengths = xp.real(xp.sum(conjugate(xp, V) * turned, axis=-2))
    return xp.linalg.diagonal(inner), turned - V * columns(xp, xp.astype(lengths, V.dtype))


@public("linalg")
def eig(x: A, /) -> EighResult[A]:
    """Return the eigenvalues and eigenvectors of square matrices.

    If eigenvalues are equal, the derivative of the eigenvectors is NaN.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    EighResult
        Named tuple: ``eigenvalues`` (..., n), in any order, and ``eigenvectors`` (..., n, n), columns of length one;
        both complex.

    Raises
    ------
    MissingFunctionError
        If the array library does not define ``eig``.

    Notes
    -----
    Derivatives: C. Boeddeker et al. (2017), arXiv:1701.00392, section 4.2.

    Examples
    --------
    >>> values, vectors = agrad.linalg.eig(np.asarray([[0.0, 1.0], [-4.0, 0.0]]))
    >>> agrad.imag(values).round(6)
    array([ 2., -2.])
    >>> agrad.grad(lambda a: agrad.sum(agrad.abs(agrad.linalg.eig(a)[0])))(np.diag([3.0, 2.0]))
    array([[1., 0.],
           [0., 1.]])
    """
    check_matrices(x, "eig", square=True)
    return EighResult(*eig_p(x))


@public_of_array("linalg")
def eigvals(x: Any, /) -> Any:
    """Return the eigenvalues of square matrices, in any order.

    For a Tensor, they come from ``eig``, because their derivative needs the vectors.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    array
        Complex, of shape (..., n).

    Raises
    ------
    MissingFunctionError
        If the array library defines neither.

    Examples
    --------
    >>> agrad.imag(agrad.linalg.eigvals(np.asarray([[0.0, 1.0], [-4.0, 0.0]]))).round(6)
    array([ 2., -2.])
    >>> agrad.grad(lambda a: agrad.real(agrad.linalg.eigvals(a)[0]))(np.diag([3.0, 2.0]))
    array([[1., 0.],
           [0., 0.]])
    """
    check_matrices(x, "eigvals", square=True)
    return eig_p(x)[0] if isinstance(x, Tensor) else backend_of(x).xp.linalg.eigvals(x)
