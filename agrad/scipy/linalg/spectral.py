"""Functions by eigenvalues and singular values, by SciPy's names."""

from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, OperandError, ShapeError
from agrad.interop.arguments import is_complex
from agrad.scipy.linalg.shared import adjoint, gathered, matrices
from agrad.scipy.shared import arrays, function


@function
def polar(a: Any, side: str = "right") -> Any:
    """Return the polar factors: a unitary matrix and a positive one.

    Parameters
    ----------
    a : array
        Of shape (..., m, n).
    side : {"right", "left"}
        ``a = u @ p``, or ``a = p @ u``.

    Returns
    -------
    tuple of arrays
        ``u``, of the shape of ``a``, and the Hermitian ``p``.

    Raises
    ------
    ConfigurationError
        For another side.
    ShapeError
        For fewer than two axes.

    Notes
    -----
    By the singular values. Where two of them are equal, the derivative is NaN.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [0.0, 2.0]])
    >>> unitary, positive = linalg.polar(a)
    >>> unitary.round(4), positive.round(4)
    (array([[ 0.9701,  0.2425],
           [-0.2425,  0.9701]]), array([[1.9403, 0.4851],
           [0.4851, 2.1828]]))
    >>> agrad.grad(lambda a: linalg.polar(a)[1][0, 0])(a).round(4)
    array([[ 0.9987, -0.1141],
           [-0.1284,  0.0285]])
    """
    if side not in ("right", "left"):
        raise ConfigurationError(f"polar: side is 'right' or 'left', not {side!r}")
    w, s, vh = agrad.linalg.svd(matrices(a, "polar"), full_matrices=False)
    base = vh if side == "right" else adjoint(w)
    return w @ vh, adjoint(base) @ (agrad.expand_dims(s, axis=-1) * base)


@function
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False, select: str = "a", **options: Any) -> Any:
    """Return the eigenvalues and eigenvectors of symmetric tridiagonal matrices.

    Parameters
    ----------
    d : array
        The diagonal, real, of shape (..., n).
    e : array
        The numbers beside it, real, of shape (..., n - 1).
    eigvals_only : bool
        Return the eigenvalues alone.
    select : {"a"}
        All: SciPy's "i" and "v" are not supported.
    **options
        SciPy's ``check_finite``, ``tol`` and ``lapack_driver``, without effect.

    Returns
    -------
    tuple of arrays, or array
        The eigenvalues, ascending, and the eigenvectors as columns.

    Raises
    ------
    OperandError
        For complex arrays, and options that are not supported.
    ShapeError
        For lengths that do not fit.

    Notes
    -----
    By ``agrad.linalg.eigh`` of the whole matrices: O(n**3) operations.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> d, e = np.asarray([2.0, 2.0]), np.asarray([1.0])
    >>> linalg.eigh_tridiagonal(d, e)[0].round(6)
    array([1., 3.])
    >>> agrad.grad(lambda e: linalg.eigh_tridiagonal(d, e)[0][1])(e).round(6)
    array([1.])
    """
    if select != "a" or set(options) - {"check_finite", "tol", "lapack_driver"}:
        raise OperandError(
            "eigh_tridiagonal returns all eigenvalues: leave out select and select_range, and index them"
        )
    d, e = arrays(d, e)
    n = d.shape[-1] if d.ndim else 0
    if not d.ndim or not e.ndim or e.shape[-1] != n - 1:
        raise ShapeError(f"eigh_tridiagonal: diagonals of shapes {tuple(d.shape)} and {tuple(e.shape)} do not fit")
    if is_complex(d):
        raise OperandError("eigh_tridiagonal takes real arrays; give complex Hermitian matrices to eigh")
    places, beside = np.full((n, n), -1), np.full((n, n), -1)
    i = np.arange(n - 1)
    places[np.arange(n), np.arange(n)] = np.arange(n)
    beside[i, i + 1] = beside[i + 1, i] = i
    x = gathered(d, places) + (gathered(e, beside) if n > 1 else 0.0)
    return agrad.linalg.eigvalsh(x) if eigvals_only else tuple(agrad.linalg.eigh(x))
