"""Matrix functions by eigenvalues and singular values with the SciPy names."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, OperandError, ShapeError
from agrad.interop.arguments import adjoint, as_complex, is_complex
from agrad.scipy.linalg.shared import gathered, matrices, square
from agrad.scipy.shared import arrays, function, unsupported

__all__ = ["eigh_tridiagonal", "funm", "polar", "schur"]


@agrad.primitive(name="scipy.linalg.unitary", batch="leading", core_axes=2)
def _unitary(xp: Any, a: Any, /) -> Any:
    """Return the unitary polar factor."""
    w, _, vh = xp.linalg.svd(a, full_matrices=False)
    return xp.matmul(w, vh)


def _change(xp: Any, t: Any, a: Any) -> Any:
    """Return the change of the unitary factor along ``t``, which is its own adjoint.

    W ((M - M.H)_ij / (s_i + s_j)) V.H with M = W.H t V, and the part of t outside of the singular vectors over s.
    """
    w, s, vh = xp.linalg.svd(a, full_matrices=False)
    wh, v = xp.conj(xp.matrix_transpose(w)), xp.conj(xp.matrix_transpose(vh))
    both = xp.expand_dims(s, axis=-1) + xp.expand_dims(s, axis=-2)
    inner = xp.matmul(xp.matmul(wh, t), v)
    inner = (inner - xp.conj(xp.matrix_transpose(inner))) * _over(xp, both)
    m, n = a.shape[-2:]
    over = xp.expand_dims(_over(xp, s), axis=-2)
    found = xp.matmul(xp.matmul(w, inner), vh)
    if m > n:
        found = found + xp.matmul(xp.matmul(t - xp.matmul(w, xp.matmul(wh, t)), v * over), vh)
    if m < n:
        found = found + xp.matmul(w * over, xp.matmul(wh, t - xp.matmul(xp.matmul(t, v), vh)))
    return found


def _over(xp: Any, x: Any) -> Any:
    """Return 1 / x, and NaN if x is 0."""
    return xp.where(x == 0, xp.full_like(x, math.nan), 1 / xp.where(x == 0, xp.ones_like(x), x))


@_unitary.jvp
def _unitary_jvp(xp: Any, t: Any, a: Any) -> Any:
    return _change(xp, t, a)


@_unitary.vjp
def _unitary_vjp(xp: Any, g: Any, a: Any) -> Any:
    return xp.conj(_change(xp, xp.conj(g), a))


@function
def polar(a: Any, side: str = "right") -> Any:
    """Return the polar factors: a unitary matrix and a positive one.

    Like ``scipy.linalg.polar``: ``a`` and the unitary factor have shape (..., m, n). The factors come from the singular
    values. If one of them is 0, the derivative does not exist and is NaN. If two of them are equal, second derivatives
    are NaN.

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
        raise ConfigurationError(f"polar: side must be 'right' or 'left', got {side!r}")
    a = matrices(a, "polar")
    u = _unitary(a)
    p = adjoint(u) @ a if side == "right" else a @ adjoint(u)
    return u, (p + adjoint(p)) / 2


def _within(good: Any, values: Any) -> Any:
    """Return the matrices for which ``good`` is true, and NaN for the others."""
    return agrad.where(agrad.reshape(good, (*good.shape, 1, 1)), values, values * math.nan)


def _few(rest: Any, a: Tensor) -> Any:
    """Return True for matrices ``rest`` that are at most half of the digits of ``a``."""
    eps = float(np.finfo(a.dtype.name).eps)
    return agrad.linalg.matrix_norm(agrad.stop_gradient(rest)) <= eps**0.5 * agrad.linalg.matrix_norm(a)


@unsupported("sort", fix="Leave it out, and sort the eigenvalues", error=OperandError)
@function
def schur(
    a: Any,
    output: str = "real",
    lwork: None = None,
    overwrite_a: bool = False,
    sort: None = None,
    check_finite: bool = True,
) -> Any:
    """Return the Schur decomposition.

    Like ``scipy.linalg.schur``: ``a``, ``t`` and ``z`` have shape (..., n, n), and ``a = z @ t @ adjoint(z)``. ``sort``
    is not supported, and ``lwork`` is ignored.

    The factors come from the QR decomposition of the eigenvectors. They are NaN if less than half of the digits are
    correct, as the eigenvectors are almost dependent. Real factors are NaN if an eigenvalue is not real, whereas SciPy
    returns blocks of size 2. The columns of ``z`` are unique up to signs and phases. The derivative is correct for
    functions that do not depend on these, and NaN if eigenvalues are equal.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [0.0, 3.0]])
    >>> t, z = linalg.schur(a)
    >>> t.round(6)
    array([[2., 1.],
           [0., 3.]])
    >>> agrad.grad(lambda a: linalg.schur(a)[0][1, 1])(a).round(6)
    array([[0., 0.],
           [1., 1.]])
    """
    if output not in ("real", "complex"):
        raise ConfigurationError(f"schur: output must be 'real' or 'complex', got {output!r}")
    a = square(a, "schur")
    values, vectors = agrad.linalg.eig(a)
    z = agrad.linalg.qr(vectors)[0]
    found = adjoint(z) @ as_complex(a) @ z
    good = _few(agrad.tril(found, k=-1), a)
    t, z = _within(good, agrad.triu(found)), _within(good, z)
    if is_complex(a) or output == "complex":
        return t, z
    good = agrad.all(agrad.imag(values) == 0, axis=-1)
    return _within(good, agrad.real(t)), _within(good, agrad.real(z))


@unsupported("disp", error=OperandError)
@function
def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Tensor:
    """Return the function of each matrix that a function of numbers defines.

    Like ``scipy.linalg.funm``: ``A`` and the result have shape (..., n, n) and one dtype. ``func`` is applied to the
    complex eigenvalues, of shape (..., n). ``disp=False`` is not supported.

    The result is NaN if less than half of its digits are correct, as the eigenvectors are almost dependent, and for a
    real matrix if the result is not real. The derivative is NaN if eigenvalues are equal. ``expm``, ``logm`` and
    ``sqrtm`` do not have this limit.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> a = np.asarray([[2.0, 1.0], [1.0, 2.0]])
    >>> linalg.funm(a, agrad.sqrt).round(4)
    array([[1.366, 0.366],
           [0.366, 1.366]])
    >>> agrad.grad(lambda a: linalg.funm(a, agrad.sqrt)[0, 0])(a).round(4)
    array([[ 0.3802, -0.0528],
           [-0.0528,  0.0142]])
    """
    A = square(A, "funm")
    values, vectors = agrad.linalg.eig(A)

    def of_values(x: Any) -> Any:
        scaled = agrad.matrix_transpose(vectors * agrad.expand_dims(x, axis=-2))
        return agrad.matrix_transpose(agrad.linalg.solve(agrad.matrix_transpose(vectors), scaled))

    found = of_values(func(values))
    good = _few(of_values(values) - A, A)
    if not is_complex(A):
        good = good & _few(agrad.imag(found), agrad.real(found))
        found = agrad.real(found)
    return _within(good, found)


@function
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False, select: str = "a", **options: Any) -> Any:
    """Return the eigenvalues and eigenvectors of symmetric tridiagonal matrices.

    Like ``scipy.linalg.eigh_tridiagonal``, for real ``d`` of shape (..., n) and ``e`` of shape (..., n - 1). It uses
    ``agrad.linalg.eigh`` of the whole matrices, with O(n**3) operations. ``select`` is not supported, ``tol`` and
    ``lapack_driver`` are ignored.

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
            "eigh_tridiagonal: select and select_range are not supported. Leave them out, and index the eigenvalues."
        )
    d, e = arrays(d, e)
    n = d.shape[-1] if d.ndim else 0
    if not d.ndim or not e.ndim or e.shape[-1] != n - 1:
        raise ShapeError(f"eigh_tridiagonal: e must be one shorter than d, got {tuple(d.shape)}, {tuple(e.shape)}")
    if is_complex(d):
        raise OperandError("eigh_tridiagonal: d and e must be real. Pass a complex Hermitian matrix to eigh.")
    places, beside = np.full((n, n), -1), np.full((n, n), -1)
    i = np.arange(n - 1)
    places[np.arange(n), np.arange(n)] = np.arange(n)
    beside[i, i + 1] = beside[i + 1, i] = i
    x = gathered(d, places) + (gathered(e, beside) if n > 1 else 0.0)
    return agrad.linalg.eigvalsh(x) if eigvals_only else tuple(agrad.linalg.eigh(x))
