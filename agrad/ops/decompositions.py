"""Decompositions of matrices: singular values, QR and LU.

Singular vectors and the factors of QR are unique up to signs and phases. The derivative is the smallest possible
change. It is correct for functions that do not depend on signs and phases. The vectors of equal values are an arbitrary
basis of one space. Their derivative is NaN; only the derivative of the values is correct.
"""

from typing import Any, Generic, Literal, NamedTuple

from agrad.dtypes import is_complex
from agrad.errors import OperandError
from agrad.ops.definition import A, of_library, public_of_array
from agrad.ops.linear_algebra import over_triangle, under_triangle
from agrad.ops.matrices import (
    added,
    adjoint,
    check_matrices,
    columns,
    conjugate,
    diagonal_matrices,
    differentiated,
    imaginary_diagonal,
    inverse_gaps,
    inverse_or_nan,
    on_diagonal,
    real_diagonal,
    rows,
)
from agrad.registry import public

__all__ = ["lu", "qr", "svd", "svdvals"]


class QRResult(NamedTuple, Generic[A]):
    """The result of ``qr``."""

    Q: A
    R: A


class LUResult(NamedTuple, Generic[A]):
    """The result of ``lu``."""

    P: A
    L: A
    U: A


class SVDResult(NamedTuple, Generic[A]):
    """The result of ``svd``."""

    U: A
    S: A
    Vh: A


# ------------------------------------------------------------------ singular values


svd_p = of_library("linalg.svd(x, *, full_matrices)", out=("U", "S", "Vh"), batch="leading", core_axes=2, raises=True)


def _split(basis: Any, k: int) -> tuple[Any, Any]:
    """Return the first k columns, and the other ones, or None if there are none."""
    return (basis[..., :, :k], basis[..., :, k:]) if basis.shape[-1] > k else (basis, None)


def _outside(xp: Any, g: Any, basis: Any, rest: Any, k: int) -> Any:
    """Return the part of a cotangent of orthonormal columns that leaves their span.

    ``basis``: the k columns; ``rest``: the columns that complete them and rotate against them, or None.
    """
    first = g[..., :, :k] if rest is not None else g
    if rest is None:
        return first - xp.matmul(basis, xp.matmul(adjoint(xp, basis), first))
    turn = xp.matmul(adjoint(xp, rest), first) - xp.matmul(adjoint(xp, g[..., :, k:]), basis)
    return xp.matmul(rest, turn)


def _shares(xp: Any, S: Any) -> Any:
    """Return S[k] / (S[j] + S[k]) in row j and column k, and 0 where both are 0.

    By shares the squares of singular values are in no rule: they leave the range long before the values.
    """
    both = columns(xp, S) + rows(xp, S)
    return columns(xp, S) / (both + xp.astype(both == 0, S.dtype))


@svd_p.vjp
def svd_vjp(xp: Any, g_U: Any, g_S: Any, g_Vh: Any, x_meta: Any, U: Any, S: Any, Vh: Any) -> Any:
    # Wan and Zhang 2019, arXiv:1909.02659, with the complex matrices' own term; Giles 2008, section 3.2, for the values
    m, n = x_meta.shape[-2:]
    k = S.shape[-1]
    (U1, U2), (V1, V2) = _split(U, k), _split(adjoint(xp, Vh), k)
    V1h = adjoint(xp, V1)
    if g_S is not None:
        g_S = g_S * (-xp.astype(S == 0, S.dtype) + 1)
    if g_U is None and g_Vh is None:
        return conjugate(xp, xp.matmul(U1 * columns(xp, g_S), V1h))
    gaps, share = inverse_gaps(xp, S), _shares(xp, S)
    inverse = inverse_or_nan(S)
    inner = left = right = None
    if g_U is not None:
        g_U = conjugate(xp, g_U)
        turn = xp.matmul(adjoint(xp, U1), g_U[..., :, :k])
        inner = (turn - adjoint(xp, turn)) * gaps * share
        if is_complex(turn.dtype):
            inner = inner + on_diagonal(xp, imaginary_diagonal(xp, turn) * inverse, k, k)
        if m > k:
            left = _outside(xp, g_U, U1, U2, k) * columns(xp, inverse)
    if g_Vh is not None:
        g_V = xp.matrix_transpose(g_Vh)  # the adjoint of the conjugate
        turn = xp.matmul(V1h, g_V[..., :, :k])
        inner = added(inner, (turn - adjoint(xp, turn)) * gaps * xp.matrix_transpose(share))
        if n > k:
            right = adjoint(xp, _outside(xp, g_V, V1, V2, k) * columns(xp, inverse))
    if g_S is not None:
        inner = added(inner, diagonal_matrices(xp, g_S, U))
    out = xp.matmul(U1, inner)
    if left is not None:
        out = out + left
    out = xp.matmul(out, V1h)
    if right is not None:
        out = out + xp.matmul(U1, right)
    return conjugate(xp, out)


def _turned(xp: Any, basis: Any, rest: Any, turn: Any, out: Any) -> Any:
    """Return the change of orthonormal columns that turn.

    ``turn``: among themselves; ``out``: out of their span.
    """
    change = xp.matmul(basis, turn)
    if out is None:
        return change
    if rest is None:
        return change + out - xp.matmul(basis, xp.matmul(adjoint(xp, basis), out))
    out = xp.matmul(adjoint(xp, rest), out)
    return xp.concat([change + xp.matmul(rest, out), -xp.matmul(basis, adjoint(xp, out))], axis=-1)


@svd_p.jvp
def svd_jvp(xp: Any, t: Any, x_meta: Any, U: Any, S: Any, Vh: Any) -> Any:
    m, n = x_meta.shape[-2:]
    k = S.shape[-1]
    (U1, U2), (V1, V2) = _split(U, k), _split(adjoint(xp, Vh), k)
    from_right, from_left = xp.matmul(t, V1), xp.matmul(adjoint(xp, t), U1)
    inner = xp.matmul(adjoint(xp, U1), from_right)
    gaps, share = inverse_gaps(xp, S), _shares(xp, S)
    inverse = inverse_or_nan(S)
    inner_h, other = adjoint(xp, inner), xp.matrix_transpose(share)
    turn_U = gaps * (inner * share + inner_h * other)
    turn_V = gaps * (inner * other + inner_h * share)
    if is_complex(inner.dtype):
        turn_U = turn_U + on_diagonal(xp, imaginary_diagonal(xp, inner) * inverse, k, k)
    zero = xp.astype(S == 0, S.dtype)
    t_S = real_diagonal(xp, inner) * (-zero + 1)
    t_U = _turned(xp, U1, U2, turn_U, from_right * columns(xp, inverse) if m > k else None)
    t_V = _turned(xp, V1, V2, turn_V, from_left * columns(xp, inverse) if n > k else None)
    return t_U, t_S, adjoint(xp, t_V)


@public("linalg")
def svd(x: A, /, *, full_matrices: bool = True) -> SVDResult[A]:
    """Return the singular value decomposition ``x = U @ diag(S) @ Vh``.

    At a singular value of exactly 0 its own derivative is 0. Where singular values are equal, the derivative is right
    for the values, and NaN for the vectors and for second derivatives, which go through them. The same holds at a 0,
    unless the matrix is real and square.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype
    full_matrices : bool
        Complete the singular vectors to square matrices.

    Returns
    -------
    SVDResult
        Named tuple, with k = min(m, n): ``U`` (..., m, m), ``S`` (..., k), real and descending, and ``Vh`` (..., n, n);
        without ``full_matrices`` (..., m, k), (..., k) and (..., k, n).

    Notes
    -----
    Derivatives: Z.-Q. Wan and S.-X. Zhang (2019), arXiv:1909.02659; M. Giles, "An extended collection of matrix
    derivative results" (2008), section 3.2.

    Examples
    --------
    >>> a = np.asarray([[3.0, 0.0], [0.0, 4.0]])
    >>> u, s, vh = agrad.linalg.svd(a)
    >>> s
    array([4., 3.])
    >>> agrad.grad(lambda a: agrad.sum(agrad.linalg.svd(a)[1]))(a)
    array([[1., 0.],
           [0., 1.]])
    """
    check_matrices(x, "svd")
    return SVDResult(*svd_p(x, full_matrices=bool(full_matrices)))


svdvals_p = of_library("linalg.svdvals(x)", constant="x", batch="leading", core_axes=2, raises=True)


@public_of_array("linalg")
def svdvals(x: Any, /) -> Any:
    """Return the singular values, descending.

    If they are differentiated, they come from ``svd``, because their derivative needs the vectors. The derivative of
    one that is exactly 0 is 0. If some are equal, the first derivative is correct, and higher ones are NaN.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype

    Returns
    -------
    array
        Real, of shape (..., min(m, n)).

    Examples
    --------
    >>> a = np.asarray([[3.0, 0.0], [0.0, 4.0]])
    >>> agrad.linalg.svdvals(a)
    array([4., 3.])
    >>> agrad.grad(lambda a: agrad.linalg.svdvals(a)[0])(a)
    array([[0., 0.],
           [0., 1.]])
    """
    check_matrices(x, "svdvals")
    return svd_p(x, full_matrices=False)[1] if differentiated(x) else svdvals_p(x)


# ------------------------------------------------------------------ QR


qr_p = of_library("linalg.qr(x, *, mode)", out=("Q", "R"), batch="leading", core_axes=2)


def _turn_of(xp: Any, c: Any) -> Any:
    """Return the anti-Hermitian part of ``c`` = anti-Hermitian + upper triangular.

    The upper triangular part has a real diagonal.
    """
    lower = xp.tril(c, k=-1)
    turn = lower - adjoint(xp, lower)
    k = c.shape[-1]
    return turn + on_diagonal(xp, imaginary_diagonal(xp, c), k, k) if is_complex(c.dtype) else turn


@qr_p.jvp
def qr_jvp(xp: Any, t: Any, x_meta: Any, Q: Any, R: Any) -> Any:
    # Walter and Lehmann 2018, arXiv:1009.6112, for tall matrices; wide and complete: Roberts and Roberts 2020,
    # arXiv:2009.10071
    m, n = x_meta.shape[-2:]
    k = min(m, n)
    Q1, Q2 = _split(Q, k)
    R1 = R[..., :k, :k]
    change = over_triangle(t[..., :, :k], R1, upper=True)
    turn = _turn_of(xp, xp.matmul(adjoint(xp, Q1), change))
    t_Q = _turned(xp, Q1, Q2, turn, change if m > k else None)
    t_R = xp.triu(xp.matmul(adjoint(xp, Q1), t) - xp.matmul(turn, R[..., :k, :]))
    if R.shape[-2] > k:
        t_R = xp.concat([t_R, xp.zeros_like(R[..., k:, :])], axis=-2)
    return t_Q, t_R


@qr_p.vjp
def qr_vjp(xp: Any, g_Q: Any, g_R: Any, x_meta: Any, Q: Any, R: Any) -> Any:
    m, n = x_meta.shape[-2:]
    k = min(m, n)
    Q1, Q2 = _split(Q, k)
    R1 = R[..., :k, :k]
    turn = out = None
    if g_R is not None:
        g_R = xp.triu(conjugate(xp, g_R[..., :k, :]))
        turn = -xp.matmul(g_R, adjoint(xp, R[..., :k, :]))
    if g_Q is not None:
        g_Q = conjugate(xp, g_Q)
        turn = added(turn, xp.matmul(adjoint(xp, Q1), g_Q[..., :, :k]))
        out = _outside(xp, g_Q, Q1, Q2, k) if m > k else None
    # the transpose of _turn_of
    inner = xp.tril(turn - adjoint(xp, turn), k=-1)
    if is_complex(inner.dtype):
        inner = inner + on_diagonal(xp, imaginary_diagonal(xp, turn), k, k)
    across = adjoint(xp, R1)
    inner = over_triangle(inner, across, upper=False)
    if n > k:
        inner = xp.concat([inner, xp.zeros_like(R[..., :k, k:])], axis=-1)
    total = xp.matmul(Q1, inner if g_R is None else inner + g_R)
    return conjugate(xp, total if out is None else total + over_triangle(out, across, upper=False))


@public("linalg")
def qr(x: A, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult[A]:
    """Return the decomposition ``x = Q @ R``.

    The derivative exists if the first min(m, n) columns of ``x`` are independent.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype
    mode : str
        ``"reduced"`` or ``"complete"``.

    Returns
    -------
    QRResult
        Named tuple, with k = min(m, n): ``Q`` (..., m, k), with orthonormal columns, and ``R`` (..., k, n), upper
        triangular; in the mode ``"complete"`` (..., m, m) and (..., m, n).

    Notes
    -----
    Derivatives: S. F. Walter and L. Lehmann (2018), arXiv:1009.6112; of wide matrices D. A. O. Roberts and L. R.
    Roberts (2020), arXiv:2009.10071.

    Examples
    --------
    >>> a = np.asarray([[3.0, 1.0], [4.0, 2.0]])
    >>> q, r = agrad.linalg.qr(a)
    >>> agrad.abs(r).round(6)
    array([[5. , 2.2],
           [0. , 0.4]])
    >>> agrad.grad(lambda a: agrad.abs(agrad.linalg.qr(a)[1][0, 0]))(a).round(6)
    array([[0.6, 0. ],
           [0.8, 0. ]])
    """
    check_matrices(x, "qr")
    if mode not in ("reduced", "complete"):
        raise OperandError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return QRResult(*qr_p(x, mode=mode))


# ------------------------------------------------------------------ LU


lu_p = of_library("linalg.lu(x)", out=("P", "L", "U"), batch="leading", core_axes=2)


@lu_p.jvp
def lu_jvp(xp: Any, t: Any, P: Any, L: Any, U: Any) -> Any:
    # of inner = inv(L) P.T dx inv(U) the strictly lower triangle changes L, the rest U; and the same for the rows and
    # columns beyond the square part
    k = L.shape[-1]
    L1 = L[..., :k, :]
    t = xp.matmul(xp.matrix_transpose(P), t)
    from_right = over_triangle(t[..., :, :k], U[..., :, :k], upper=True)
    from_left = under_triangle(xp, t[..., :k, :], L1, upper=False)
    inner = under_triangle(xp, from_right[..., :k, :], L1, upper=False)
    t_L = xp.tril(from_right - xp.matmul(L, xp.triu(inner)), k=-1)
    return None, t_L, xp.triu(from_left - xp.matmul(xp.tril(inner, k=-1), U))


@lu_p.vjp
def lu_vjp(xp: Any, g_L: Any, g_U: Any, P: Any, L: Any, U: Any) -> Any:
    # the transpose of the rule above
    m, k, n = L.shape[-2], L.shape[-1], U.shape[-1]
    Lt, Ut = xp.matrix_transpose(L), xp.matrix_transpose(U)
    L1t, U1t = Lt[..., :, :k], Ut[..., :k, :]
    g_L = xp.zeros_like(L) if g_L is None else xp.tril(g_L, k=-1)
    g_U = xp.zeros_like(U) if g_U is None else xp.triu(g_U)
    inner = -xp.triu(xp.matmul(Lt, g_L)) - xp.tril(xp.matmul(g_U, Ut), k=-1)
    if m < n:
        left = over_triangle(g_L + under_triangle(xp, inner, L1t, upper=True), U1t, upper=False)
        left = xp.concat([left, xp.zeros_like(U[..., :, k:])], axis=-1)
        return xp.matmul(P, left + under_triangle(xp, g_U, L1t, upper=True))
    top = under_triangle(xp, g_U + over_triangle(inner, U1t, upper=False), L1t, upper=True)
    if m > n:
        top = xp.concat([top, xp.zeros_like(L[..., k:, :])], axis=-2)
    return xp.matmul(P, top + over_triangle(g_L, U1t, upper=False))


@public("linalg")
def lu(x: A, /) -> LUResult[A]:
    """Return the decomposition ``x = P @ L @ U`` with partial pivoting.

    The derivative exists if no diagonal element of ``U`` is 0. The derivatives of ``L`` and ``U`` treat ``P`` as a
    constant.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype

    Returns
    -------
    LUResult
        Named tuple, with k = min(m, n): ``P`` (..., m, m), a permutation matrix of the dtype of ``x``; ``L``
        (..., m, k), lower triangular with ones on the diagonal; and ``U`` (..., k, n), upper triangular.

    Raises
    ------
    MissingFunctionError
        If the array library does not define the function.

    Notes
    -----
    As ``torch.linalg.lu`` and ``jax.scipy.linalg.lu``. Derivatives: F. R. de Hoog, R. S. Anderssen and M. A. Lukas,
    "Differentiation of matrix functionals using triangular factorization" (2011), and the same for the rows or columns
    beyond the square part.

    Examples
    --------
    >>> p, l, u = agrad.linalg.lu(np.asarray([[1.0, 2.0], [4.0, 2.0]]))
    >>> l, u
    (array([[1.  , 0.  ],
           [0.25, 1.  ]]), array([[4. , 2. ],
           [0. , 1.5]]))
    >>> agrad.grad(lambda a: agrad.linalg.lu(a)[2][1, 1])(np.asarray([[1.0, 2.0], [4.0, 2.0]]))
    array([[-0.5  ,  1.   ],
           [ 0.125, -0.25 ]])
    """
    check_matrices(x, "lu")
    return LUResult(*lu_p(x))
