"""Determinants, the pseudo-inverse and the rank."""

import math
from typing import Any, Generic, NamedTuple

from agrad.dtypes import is_complex
from agrad.engine.tensor import Tensor, raw_of
from agrad.ops.creation import zeros_like
from agrad.ops.definition import A, of_library, primitive, public_of_array
from agrad.ops.elementwise import atan2, from_parts, imag, real
from agrad.ops.linear_algebra import solve_or_nan
from agrad.ops.matrices import adjoint, check_matrices, columns, conjugate, identity, on_diagonal, rows
from agrad.ops.selection import where
from agrad.registry import public

__all__ = ["det", "logdet", "matrix_rank", "pinv", "slogdet"]


class SlogdetResult(NamedTuple, Generic[A]):
    """The result of ``slogdet``."""

    sign: A
    logabsdet: A


@primitive(name="linalg.adjugate", batch="leading", core_axes=2)
def adjugate(xp: Any, x: Any, /) -> Any:
    """Return the transposed matrix of cofactors, det(x) inv(x).

    Also correct for singular matrices. x: (..., n, n) of a floating dtype.
    """
    n = x.shape[-1]
    if n < 2:
        return xp.ones_like(x)
    # adj(QR) = adj(R) adj(Q) = det(R) inv(R) det(Q) Q.H. Where R has a 0 on its diagonal, a number at the limit of
    # precision replaces it: the adjugate is a polynomial, and the number cancels between det(R) and inv(R)
    Q, R = xp.linalg.qr(x)
    d = xp.linalg.diagonal(R)
    size = xp.abs(d)
    scale = xp.sum(size, axis=-1, keepdims=True)
    scale = scale + xp.astype(scale == 0, size.dtype)
    fill = xp.astype(size == 0, size.dtype) * (scale * xp.finfo(x.dtype).eps)
    # divided by their geometric mean, the product of the numbers leaves the range only if the adjugate does
    mean = _mean_size(xp, size + fill)
    fill = xp.astype(fill, x.dtype) if is_complex(x.dtype) else fill
    inverse = xp.linalg.solve_or_nan((R + on_diagonal(xp, fill, n, n)) / mean[..., None], adjoint(xp, Q))
    factor = xp.prod((d + fill) / mean, axis=-1) * xp.linalg.det(Q)
    # in two steps: a factor that overflows would make its products with 0 NaN
    half = n // 2
    return inverse * (factor[..., None, None] * mean[..., None] ** half) * mean[..., None] ** (n - 1 - half)


def _mean_size(xp: Any, s: Any) -> Any:
    """Return the geometric mean of positive vectors, rounded to a power of two.

    A division by it is exact.
    """
    return 2.0 ** xp.round(xp.mean(xp.log2(s), axis=-1, keepdims=True))


@adjugate.jvp
def adjugate_jvp(xp: Any, t: Any, x: Any) -> Any:
    return adjugate_change(x, t)


@adjugate.vjp
def adjugate_vjp(xp: Any, g: Any, x: Any) -> Any:
    # the derivative is its own transpose between transposed matrices
    return xp.matrix_transpose(adjugate_change(x, xp.matrix_transpose(g)))


@primitive(name="linalg.adjugate_change", linear="v", batch="leading", core_axes=2, broadcasts=True)
def adjugate_change(xp: Any, x: Any, v: Any, /) -> Any:
    """Return the derivative of ``adjugate`` at ``x`` along ``v``.

    At singular matrices too. x, v: (..., n, n) of a floating dtype. Its derivative with respect to ``x`` holds for
    regular matrices.
    """
    n = x.shape[-1]
    if n < 2:
        return xp.zeros_like(x + v)  # the batches broadcast
    # With x = U S Vh the adjugate is det(U Vh) V adj(S) U.H, and at a diagonal S the derivative of adj is a polynomial
    # in the products of all singular values except two. Numbers far below the limit of precision count as 0, and the
    # products come by division
    # svd of some libraries raises for matrices that are not finite
    finite = xp.all(xp.isfinite(x), axis=(-2, -1), keepdims=True)
    U, s, Vh = xp.linalg.svd(xp.where(finite, x, xp.zeros_like(x)), full_matrices=False)
    scale = xp.max(s, axis=-1, keepdims=True)
    scale = scale + xp.astype(scale == 0, s.dtype)
    s = xp.maximum(s, scale * xp.finfo(x.dtype).eps ** 2)
    mean = _mean_size(xp, s)
    s = s / mean
    but_two = xp.prod(s, axis=-1)[..., None, None] / columns(xp, s) / rows(xp, s) * mean[..., None] ** (n - 2)
    but_two = but_two - on_diagonal(xp, xp.linalg.diagonal(but_two), n, n)
    inner = xp.matmul(xp.matmul(adjoint(xp, U), v), adjoint(xp, Vh))
    kept = xp.astype(but_two, x.dtype)
    sums = xp.sum(kept * columns(xp, xp.linalg.diagonal(inner)), axis=-1)
    change = on_diagonal(xp, sums, n, n) - kept * inner
    turn = xp.linalg.det(U) * xp.linalg.det(Vh)
    out = turn[..., None, None] * xp.matmul(xp.matmul(adjoint(xp, Vh), change), adjoint(xp, U))
    return xp.where(finite, out, xp.full_like(out, math.nan))


def _second_change(xp: Any, x: Any, v: Any, t: Any) -> Any:
    """Return the derivative of ``adjugate_change(x, v)`` with respect to ``x`` along ``t``.

    Only for regular matrices: the derivative of (tr(y v) y - y v y) / det(x), in which y is the adjugate.
    """
    y = adjugate(x)
    # the determinant is each diagonal element of the product with the adjugate
    det = xp.sum(x[..., 0, :] * y[..., :, 0], axis=-1)[..., None, None]
    dy = adjugate_change(x, t)
    yv, yt, dyv = xp.matmul(y, v), xp.matmul(y, t), xp.matmul(dy, v)
    trace, change = _trace(xp, yv), adjugate_change(x, v)
    return (_trace(xp, dyv) * y + trace * dy - xp.matmul(dyv, y) - xp.matmul(yv, dy) - _trace(xp, yt) * change) / det


def _trace(xp: Any, x: Any) -> Any:
    return xp.linalg.trace(x)[..., None, None]


@adjugate_change.jvp("x")
def adjugate_change_x_jvp(xp: Any, t: Any, x: Any, v: Any) -> Any:
    return _second_change(xp, x, v, t) if x.shape[-1] > 1 else xp.zeros_like(v)


@adjugate_change.vjp("x")
def adjugate_change_x_vjp(xp: Any, g: Any, x: Any, v: Any) -> Any:
    # sum(g * D^2 adj(x)[v, t]) is the third derivative of the determinant along v, g.T and t, in any order
    if x.shape[-1] < 2:
        return xp.zeros_like(x)
    return xp.matrix_transpose(_second_change(xp, x, v, xp.matrix_transpose(g)))


@adjugate_change.vjp("v")
def adjugate_change_v_vjp(xp: Any, g: Any, x: Any) -> Any:
    return xp.matrix_transpose(adjugate_change(x, xp.matrix_transpose(g)))


det_p = of_library("linalg.det(x)", batch="leading", core_axes=2)


@det_p.vjp
def det_vjp(xp: Any, g: Any, x: Any, y: Any) -> Any:
    # Jacobi's formula; Giles 2008, "An extended collection of matrix derivative results", section 2.2.4. y is
    # named for kernels, which take the adjugate by it
    return xp.matrix_transpose(adjugate(x)) * g[..., None, None]


@det_p.jvp
def det_jvp(xp: Any, t: Any, x: Any) -> Any:
    return xp.sum(xp.matrix_transpose(adjugate(x)) * t, axis=(-2, -1))


@public_of_array("linalg")
def det(x: Any, /) -> Any:
    """Return the determinant of each matrix.

    The first and second derivatives are also correct for singular matrices. Higher derivatives divide by the
    determinant, so they are valid only for regular matrices. ``slogdet`` neither overflows nor underflows.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> agrad.linalg.det(a).round(6)
    np.float64(16.0)
    >>> agrad.grad(agrad.linalg.det)(a).round(6)
    array([[ 5., -2.],
           [-2.,  4.]])
    """
    check_matrices(x, "det", square=True)
    return det_p(x)


slogdet_p = of_library("linalg.slogdet(x)", out=("sign", "logabsdet"), batch="leading", core_axes=2)


@slogdet_p.vjp
def slogdet_vjp(xp: Any, g_sign: Any, g_logabsdet: Any, x: Any, sign: Any) -> Any:
    # d log(det(x)) = tr(inv(x) dx): its real part changes logabsdet, its imaginary one turns the sign
    factor = None
    if g_logabsdet is not None:
        factor = xp.astype(g_logabsdet, x.dtype)
    if g_sign is not None and is_complex(x.dtype):
        turn = xp.astype(xp.imag(g_sign * sign), x.dtype) * 1j
        factor = turn if factor is None else factor + turn
    if factor is None:
        return xp.zeros_like(x)  # the sign of a real determinant is constant
    return solve_or_nan(xp.matrix_transpose(x), identity(xp, x)) * factor[..., None, None]


@slogdet_p.jvp
def slogdet_jvp(xp: Any, t: Any, x: Any, sign: Any) -> Any:
    change = xp.linalg.trace(solve_or_nan(x, t))
    if not is_complex(change.dtype):
        return None, change
    return sign * xp.astype(xp.imag(change), sign.dtype) * 1j, xp.real(change)


@public("linalg")
def slogdet(x: A, /) -> SlogdetResult[A]:
    """Return the sign and the logarithm of the size of each determinant.

    The sign of a complex determinant is det / abs(det). The derivative holds for regular matrices and is not finite for
    singular ones.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    SlogdetResult
        Named tuple: ``sign`` and ``logabsdet``, which is real, of shape (...).

    Examples
    --------
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> sign, logarithm = agrad.linalg.slogdet(-a)
    >>> float(sign), round(float(logarithm), 6)
    (1.0, 2.772589)
    """
    check_matrices(x, "slogdet", square=True)
    return SlogdetResult(*slogdet_p(x))


@public_of_array("linalg")
def logdet(x: Any, /) -> Any:
    """Return the logarithm of each determinant.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    array
        Array of shape (...). The logarithm of a negative real determinant is NaN, with the derivative
        of ``logabsdet`` of ``slogdet``. The logarithm of a complex determinant has an imaginary part from -pi to pi,
        and the logarithm of 0 is -inf.

    Notes
    -----
    As ``torch.logdet``. It calls ``slogdet``, so it does not overflow, and the gradient is the transposed inverse.

    Examples
    --------
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> agrad.linalg.logdet(a).round(6)
    np.float64(2.772589)
    >>> agrad.grad(agrad.linalg.logdet)(a).round(6)
    array([[ 0.3125, -0.125 ],
           [-0.125 ,  0.25  ]])
    """
    check_matrices(x, "logdet", square=True)
    sign, size = slogdet_p(x)
    if is_complex(x.dtype):
        return from_parts(size, atan2(imag(sign), real(sign)))
    nothing = zeros_like(size)
    return size + where(sign < 0, nothing + math.nan, nothing)


@primitive(name="linalg.pinv", batch="leading", core_axes=2, raises=True)
def pinv_p(xp: Any, x: Any, /, *, rtol: Any) -> Any:
    return xp.linalg.pinv(x) if rtol is None else xp.linalg.pinv(x, rtol=rtol)


@pinv_p.jvp
def pinv_jvp(xp: Any, t: Any, x: Any, y: Any) -> Any:
    # Golub and Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares", equation 4.12
    th, yh = adjoint(xp, t), adjoint(xp, y)
    left = xp.matmul(xp.matmul(y, yh), th)
    right = xp.matmul(th, xp.matmul(yh, y))
    out = left - xp.matmul(xp.matmul(left, x), y) + right - xp.matmul(y, xp.matmul(x, right))
    return out - xp.matmul(xp.matmul(y, t), y)


@pinv_p.vjp
def pinv_vjp(xp: Any, g: Any, x: Any, y: Any) -> Any:
    gh, yh = xp.matrix_transpose(g), adjoint(xp, y)
    left = xp.matmul(gh, xp.matmul(y, yh))
    right = xp.matmul(xp.matmul(yh, y), gh)
    out = left - xp.matmul(x, xp.matmul(y, left)) + right - xp.matmul(xp.matmul(right, y), x)
    return conjugate(xp, out - xp.matmul(xp.matmul(yh, adjoint(xp, gh)), yh))


@public_of_array("linalg")
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the Moore-Penrose pseudo-inverse.

    The derivative is along changes that preserve the rank.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype
    rtol : float or array, optional
        Singular values below it, relative to the largest one, count as 0. A constant. By default, the array library
        chooses it.

    Returns
    -------
    array of shape (..., n, m)

    Notes
    -----
    Derivatives: G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate" (1973), equation 4.12.

    Examples
    --------
    >>> a = np.asarray([[1.0, 2.0], [2.0, 4.0]])
    >>> agrad.linalg.pinv(a).round(6)
    array([[0.04, 0.08],
           [0.08, 0.16]])
    >>> agrad.grad(lambda a: agrad.linalg.pinv(a)[0, 0])(np.asarray([[2.0], [1.0]])).round(6)
    array([[-0.12],
           [-0.16]])
    """
    check_matrices(x, "pinv")
    if isinstance(rtol, Tensor):
        rtol._check_concrete("pinv's rtol")
    return pinv_p(x, rtol=raw_of(rtol))


@primitive(name="linalg.matrix_rank", constant="x", batch="leading", core_axes=2, raises=True)
def matrix_rank_p(xp: Any, x: Any, /, *, rtol: Any) -> Any:
    # the definition of the standard, because some libraries do not support rtol, or a batch
    S = xp.linalg.svdvals(x)
    if not S.shape[-1]:
        return xp.count_nonzero(S, axis=-1)
    if rtol is None:
        rtol = max(x.shape[-2:]) * xp.finfo(x.dtype).eps
    elif hasattr(rtol, "shape"):
        rtol = rtol[..., None]
    limit = xp.max(S, axis=-1, keepdims=True) * rtol
    return xp.count_nonzero(limit < S, axis=-1)


@public_of_array("linalg")
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the number of singular values that do not count as 0.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype
    rtol : float or array, optional
        Singular values below it, relative to the largest one, count as 0. By default, max(m, n) times the precision of
        the dtype.

    Returns
    -------
    array
        Integers of shape (...), a constant.

    Examples
    --------
    >>> agrad.linalg.matrix_rank(np.asarray([[1.0, 2.0], [2.0, 4.0]]))
    np.int64(1)
    """
    check_matrices(x, "matrix_rank")
    return matrix_rank_p(x, rtol=rtol)
