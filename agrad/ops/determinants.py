"""Determinants, the pseudo-inverse and the rank."""

from typing import Any, NamedTuple

from agrad.dtypes import is_complex
from agrad.engine.notation import primitive
from agrad.ops.matrices import adjoint, check_matrices, conjugate, on_diagonal
from agrad.ops.shared import raw_of


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Any
    logabsdet: Any


@primitive(name="linalg.adjugate")
def adjugate(xp: Any, x: Any, /) -> Any:
    """The transposed matrix of cofactors, det(x) inv(x), of singular matrices too. x: (..., n, n), floating.

    Its own derivative is that of regular matrices.
    """
    n = x.shape[-1]
    if n < 2:
        return xp.ones_like(x)
    # adj(QR) = adj(R) adj(Q) = det(R) inv(R) det(Q) Q.H. Where R has a 0 on its diagonal, a number at the limit of
    # precision stands for it: the adjugate is a polynomial, and the number cancels between det(R) and inv(R)
    Q, R = xp.linalg.qr(x)
    d = xp.linalg.diagonal(R)
    size = xp.abs(d)
    scale = xp.sum(size, axis=-1, keepdims=True)
    scale = scale + xp.astype(scale == 0, size.dtype)
    fill = xp.astype(size == 0, size.dtype) * (scale * xp.finfo(x.dtype).eps)
    fill = xp.astype(fill, x.dtype) if is_complex(x.dtype) else fill
    inverse = xp.linalg.solve(R + on_diagonal(xp, fill, n, n), adjoint(xp, Q))
    factor = xp.prod(d + fill, axis=-1) * xp.linalg.det(Q)
    return inverse * factor[..., None, None]


def _adjugate_change(xp: Any, v: Any, x: Any, y: Any, det: Any) -> Any:
    """(tr(y v) y - y v y) / det, the derivative of det(x) inv(x) along ``v``."""
    inner = xp.matmul(y, v)
    change = xp.linalg.trace(inner)[..., None, None] * y - xp.matmul(inner, y)
    return change / det[..., None, None]


def _det_by(xp: Any, x: Any, y: Any) -> Any:
    """The determinant from a matrix and its adjugate: each diagonal element of their product."""
    return xp.sum(x[..., 0, :] * y[..., :, 0], axis=-1)


@adjugate.jvp
def adjugate_jvp(xp: Any, t: Any, x: Any, y: Any) -> Any:
    if x.shape[-1] < 2:
        return xp.zeros_like(t)
    return _adjugate_change(xp, t, x, y, _det_by(xp, x, y))


@adjugate.vjp
def adjugate_vjp(xp: Any, g: Any, x: Any, y: Any) -> Any:
    if x.shape[-1] < 2:
        return xp.zeros_like(g)
    # the derivative is its own transpose between transposed matrices
    out = _adjugate_change(xp, xp.matrix_transpose(g), x, y, _det_by(xp, x, y))
    return xp.matrix_transpose(out)


@primitive(name="linalg.det")
def det(xp: Any, x: Any, /) -> Any:
    return xp.linalg.det(x)


@det.vjp
def det_vjp(xp: Any, g: Any, x: Any) -> Any:
    # Jacobi's formula; Giles 2008, "An extended collection of matrix derivative results", section 2.2.4
    return xp.matrix_transpose(adjugate.bind(x)) * g[..., None, None]


@det.jvp
def det_jvp(xp: Any, t: Any, x: Any) -> Any:
    return xp.sum(xp.matrix_transpose(adjugate.bind(x)) * t, axis=(-2, -1))


_det = det.bind


@det.door
def det(x: Any, /) -> Any:
    """The determinant of each matrix. x: (..., n, n) of a floating dtype; gives (...).

    The first derivative is right for singular matrices too. Later ones divide by the determinant, so they are those of
    regular matrices; ``slogdet`` spares their range.
    """
    check_matrices(x, "det", square=True)
    return _det(x)


@primitive(name="linalg.slogdet", out=("sign", "logabsdet"))
def slogdet(xp: Any, x: Any, /) -> Any:
    return tuple(xp.linalg.slogdet(x))


@slogdet.vjp
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
    return xp.matrix_transpose(xp.linalg.inv(x)) * factor[..., None, None]


@slogdet.jvp
def slogdet_jvp(xp: Any, t: Any, x: Any, sign: Any) -> Any:
    change = xp.linalg.trace(xp.linalg.solve(x, t))
    if not is_complex(change.dtype):
        return None, change
    return sign * xp.astype(xp.imag(change), sign.dtype) * 1j, xp.real(change)


_slogdet = slogdet.bind


@slogdet.door
def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant (for complex matrices det / abs(det)) and the logarithm of its size.

    x: (..., n, n) of a floating dtype. Gives the named tuple (sign, logabsdet (real)), of shape (...). The derivative
    is that of regular matrices.
    """
    check_matrices(x, "slogdet", square=True)
    return SlogdetResult(*_slogdet(x))


@primitive(name="linalg.pinv")
def pinv(xp: Any, x: Any, /, *, rtol: Any) -> Any:
    return xp.linalg.pinv(x) if rtol is None else xp.linalg.pinv(x, rtol=rtol)


@pinv.jvp
def pinv_jvp(xp: Any, t: Any, x: Any, y: Any) -> Any:
    # Golub and Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares", equation 4.12
    th, yh = adjoint(xp, t), adjoint(xp, y)
    left = xp.matmul(xp.matmul(y, yh), th)
    right = xp.matmul(th, xp.matmul(yh, y))
    out = left - xp.matmul(xp.matmul(left, x), y) + right - xp.matmul(y, xp.matmul(x, right))
    return out - xp.matmul(xp.matmul(y, t), y)


@pinv.vjp
def pinv_vjp(xp: Any, g: Any, x: Any, y: Any) -> Any:
    gh, yh = xp.matrix_transpose(g), adjoint(xp, y)
    left = xp.matmul(gh, xp.matmul(y, yh))
    right = xp.matmul(xp.matmul(yh, y), gh)
    out = left - xp.matmul(x, xp.matmul(y, left)) + right - xp.matmul(xp.matmul(right, y), x)
    return conjugate(xp, out - xp.matmul(xp.matmul(yh, adjoint(xp, gh)), yh))


_pinv = pinv.bind


@pinv.door
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The Moore-Penrose pseudo-inverse. x: (..., m, n) of a floating dtype; gives (..., n, m).

    ``rtol``: singular values below it, relative to the greatest, count as 0 (None: the array library's own choice); a
    number or an array of shape (...), which is constant. The derivative is that along changes that keep the rank.
    """
    check_matrices(x, "pinv")
    return _pinv(x, rtol=raw_of(rtol))


@primitive(name="linalg.matrix_rank", constant="x")
def matrix_rank(xp: Any, x: Any, /, *, rtol: Any) -> Any:
    # the standard's own definition, as not every library takes rtol, or a batch
    S = xp.linalg.svdvals(x)
    if not S.shape[-1]:
        return xp.count_nonzero(S, axis=-1)
    if rtol is None:
        rtol = max(x.shape[-2:]) * xp.finfo(x.dtype).eps
    elif hasattr(rtol, "shape"):
        rtol = rtol[..., None]
    limit = xp.max(S, axis=-1, keepdims=True) * rtol
    return xp.count_nonzero(limit < S, axis=-1)


_matrix_rank = matrix_rank.bind


@matrix_rank.door
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """The number of singular values above ``rtol`` times the greatest. x: (..., m, n), floating. Integers; constant."""
    check_matrices(x, "matrix_rank")
    return _matrix_rank(x, rtol=rtol)


__all__: list[str] = []
LINALG = ["det", "matrix_rank", "pinv", "slogdet"]
