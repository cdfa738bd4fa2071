"""Matrix factorizations with the SciPy names.

As in ``agrad.linalg``, factors are unique up to signs and phases. Derivatives are correct for functions that do not
depend on these.
"""

from typing import Any

import agrad
from agrad import Tensor
from agrad.errors import OperandError
from agrad.interop.arguments import adjoint
from agrad.scipy.linalg.shared import matrices, mirrored, square
from agrad.scipy.shared import arrays, function, unsupported

__all__ = ["cho_factor", "cho_solve", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


@function
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the triangular factor of each positive definite matrix.

    Like ``scipy.linalg.cholesky``: ``a`` and the result have shape (..., n, n). Only the triangle of the factor is
    read. The derivative is along Hermitian changes of ``a``, and the gradient is Hermitian.

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

    Like ``scipy.linalg.cho_factor``: ``a`` and the factor have shape (..., n, n). The other triangle of the factor is
    0, and SciPy leaves elements of ``a`` there.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a, b = np.asarray([[4.0, 2.0], [2.0, 5.0]]), np.asarray([8.0, 8.0])
    >>> factor = linalg.cho_factor(a)
    >>> linalg.cho_solve(factor, b)
    array([1.5, 1. ])
    """
    return cholesky(a, lower), lower


@function
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return the solution x of ``a @ x = b`` by the Cholesky factor of ``a``.

    Like ``scipy.linalg.cho_solve``: the factor has shape (..., n, n), the result the shape of ``b``.

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
    c, lower = c_and_lower
    c, b = arrays(c, b)
    return agrad.linalg.cholesky_solve(c, b, upper=not lower)


@unsupported("pivoting", fix="Permute the columns of a before the call", error=OperandError)
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

    Like ``scipy.linalg.qr``: ``a`` has shape (..., m, n). ``mode`` must be "full", "economic" or "r". ``pivoting`` is
    not supported, and ``lwork`` is ignored.

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

    Like ``scipy.linalg.svd``: ``a`` has shape (..., m, n), the values have shape (..., min(m, n)) and descend.
    ``lapack_driver`` is ignored.

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

    Like ``scipy.linalg.svdvals``: ``a`` has shape (..., m, n), the result shape (..., min(m, n)).

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


@unsupported("type", fix="Multiply the problem by the inverse of a or b", error=OperandError)
@unsupported("subset_by_value", fix="Select from all eigenvalues by a mask", error=OperandError)
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

    Like ``scipy.linalg.eigh``: ``a`` and ``b`` have shape (..., n, n), and only one triangle is read. The eigenvalues
    are real and ascend, the eigenvectors are columns. The gradient is Hermitian: it describes Hermitian changes. For
    ``b = L @ L.H``, the eigenvalues of ``inv(L) @ a @ inv(L).H`` are computed. ``subset_by_value`` and other ``type``
    than 1 are not supported, and ``driver`` is ignored.

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

    Like ``scipy.linalg.eigvalsh``: real, of shape (..., n), with the limits of ``eigh``.

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


_not_generalized = unsupported(
    "b", "homogeneous_eigvals", fix="Pass solve(b, a), whose eigenvalues are the generalized ones", error=OperandError
)


@_not_generalized
@unsupported("left", fix="Compute the eigenvectors of the conjugate transpose", error=OperandError)
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

    Like ``scipy.linalg.eig``: ``a`` has shape (..., n, n). Eigenvalues and eigenvectors are complex, and eigenvectors
    have norm 1. ``b``, ``left`` and ``homogeneous_eigvals`` are not supported: pass ``solve(b, a)``, or the adjoint of
    ``a``.

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
    return tuple(agrad.linalg.eig(a)) if right else agrad.linalg.eigvals(a)


@_not_generalized
@function
def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Tensor:
    """Return the eigenvalues of square matrices, in any order.

    Like ``scipy.linalg.eigvals``: complex, of shape (..., n). ``b`` and ``homogeneous_eigvals`` are not supported.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> agrad.real(linalg.eigvals(np.diag([3.0, 2.0])))
    array([3., 2.])
    >>> agrad.grad(lambda a: agrad.real(linalg.eigvals(a)[0]))(np.diag([3.0, 2.0]))
    array([[1., 0.],
           [0., 0.]])
    """
    return agrad.linalg.eigvals(square(a, "eigvals"))
