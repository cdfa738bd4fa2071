"""Solve linear systems: triangular, from Cholesky factors, and by least squares."""

from typing import Any, Generic, NamedTuple

from agrad.dtypes import is_complex
from agrad.engine.joining import joined
from agrad.errors import ConfigurationError, OperandError
from agrad.ops.casting import finfo
from agrad.ops.decompositions import svdvals
from agrad.ops.definition import A, primitive, public_of_arrays
from agrad.ops.determinants import pinv
from agrad.ops.elementwise import conj, real
from agrad.ops.linear_algebra import matmul, on_columns, tril, triu, under_triangle
from agrad.ops.manipulation import expand_dims, matrix_transpose, squeeze
from agrad.ops.matrices import adjoint, check_matrices, conjugate, differentiated, identity
from agrad.ops.searching import count_nonzero
from agrad.ops.shared import ndim_of
from agrad.ops.statistical import max as max_
from agrad.ops.statistical import sum as sum_
from agrad.registry import namespace, public

__all__ = ["cholesky_solve", "lstsq", "solve_triangular"]


class LstsqResult(NamedTuple, Generic[A]):
    """The result of ``lstsq``."""

    solution: A
    residuals: A
    rank: A
    singular_values: A


@public_of_arrays("linalg")
def solve_triangular(a: Any, b: Any, /, *, lower: bool = False, trans: Any = 0, unit_diagonal: bool = False) -> Any:
    """Return the solution x of ``a @ x = b`` with triangular matrices.

    Parameters
    ----------
    a : array
        Array of shape (..., n, n) with a floating-point dtype. The other triangle is not read.
    b : array of shape (..., n, k) or (n,)
    lower : bool
        If True, use the lower triangle; otherwise the upper one.
    trans : {0, 1, 2, "N", "T", "C"}
        0 or "N": solve ``a @ x = b``; 1 or "T": with the transpose of ``a``; 2 or "C": with its conjugate transpose.
    unit_diagonal : bool
        If True, the diagonal is assumed to be ones and is not read.

    Returns
    -------
    array of the shape of ``b``, with the batch axes of both

    Notes
    -----
    The names follow ``jax.scipy.linalg.solve_triangular``. For a 0 on the diagonal, the array library raises an error
    or returns a solution that is not finite. Derivatives: M. Giles, "An extended collection of matrix derivative
    results" (2008), section 2.3.1.

    Examples
    --------
    >>> a, b = np.asarray([[2.0, 0.0], [1.0, 1.0]]), np.asarray([[4.0], [3.0]])
    >>> agrad.linalg.solve_triangular(a, b, lower=True)
    array([[2.],
           [1.]])
    """
    check_matrices(a, "solve_triangular", "a", square=True)
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise OperandError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    t = (tril if lower else triu)(a, k=0 if not unit_diagonal else -1 if lower else 1)
    if unit_diagonal:
        t = t + identity(namespace, t)
    if trans in (2, "C"):
        t = adjoint(namespace, t)
    elif trans in (1, "T"):
        t = matrix_transpose(t)
    upper = bool(lower) == (trans not in (0, "N"))

    def solved(columns: Any) -> Any:
        return under_triangle(namespace, columns, t, upper=upper, checked=True)

    return on_columns(solved, b, t.shape[-1], "solve_triangular")


@public_of_arrays("linalg")
def cholesky_solve(c: Any, b: Any, /, *, upper: bool = False) -> Any:
    """Return the solution x of ``a @ x = b`` by the Cholesky factor of ``a``.

    Parameters
    ----------
    c : array
        The result of ``cholesky``, of shape (..., n, n). The other triangle is not read.
    b : array of shape (..., n, k) or (n,)
    upper : bool
        If True, the factor is upper triangular, with ``c.H @ c = a``; otherwise lower triangular, with ``c @ c.H = a``.

    Returns
    -------
    array of the shape of ``b``, with the batch axes of both

    Notes
    -----
    ``upper`` is as in ``cholesky`` and ``torch.cholesky_solve``, which accepts ``b`` first.

    Examples
    --------
    >>> a, b = np.asarray([[4.0, 2.0], [2.0, 5.0]]), np.asarray([8.0, 8.0])
    >>> factor = agrad.linalg.cholesky(a)
    >>> agrad.linalg.cholesky_solve(factor, b)
    array([1.5, 1. ])
    """
    check_matrices(c, "cholesky_solve", "c", square=True)
    t = (triu if upper else tril)(c)
    lower, across = (adjoint(namespace, t), t) if upper else (t, adjoint(namespace, t))

    def solved(columns: Any) -> Any:
        half = under_triangle(namespace, columns, lower, upper=False, checked=True)
        return under_triangle(namespace, half, across, upper=True, checked=True)

    return on_columns(solved, b, t.shape[-1], "cholesky_solve")


@primitive(name="linalg.least_squares", linear="b", constant="p", broadcasts=True, batch="leading", core_axes=2)
def least_squares(xp: Any, a: Any, b: Any, p: Any, /, *, rtol: float) -> Any:
    """Return the minimum-norm least-squares solution from the pseudo-inverse p of a.

    The rules of ``a`` contain the change of ``p``, which is an argument because it is expensive.
    """
    x = xp.matmul(p, b)
    # one step of refinement: otherwise, the residual of an ill-conditioned system would be as large as of the product
    return x + xp.matmul(p, b - xp.matmul(a, x))


def _with_change(a: Any, p: Any, rtol: float) -> Any:
    """Return the pseudo-inverse, with its derivative if rules are differentiated."""
    return pinv(a, rtol=rtol) if differentiated(a) else p


@least_squares.vjp("a", "b")
def least_squares_vjp(xp: Any, g: Any, y: Any, a: Any, b: Any, p: Any, *, rtol: float) -> Any:
    # Golub and Pereyra 1973, equation 4.12, times b
    p = _with_change(a, p, rtol)
    g, ph = conjugate(xp, g), adjoint(xp, p)
    h = xp.matmul(ph, g)
    total = xp.matmul(b - xp.matmul(a, y), adjoint(xp, xp.matmul(p, h))) - xp.matmul(h, adjoint(xp, y))
    total = total + xp.matmul(xp.matmul(ph, y), adjoint(xp, g - xp.matmul(p, xp.matmul(a, g))))
    return conjugate(xp, total), conjugate(xp, h)


@least_squares.jvp("a")
def least_squares_jvp(xp: Any, t: Any, y: Any, a: Any, b: Any, p: Any, *, rtol: float) -> Any:
    p = _with_change(a, p, rtol)
    th, ph = adjoint(xp, t), adjoint(xp, p)
    turned = xp.matmul(th, xp.matmul(ph, y))
    inside = xp.matmul(ph, xp.matmul(th, b - xp.matmul(a, y))) - xp.matmul(t, y)
    return xp.matmul(p, inside - xp.matmul(a, turned)) + turned


@public("linalg")
def lstsq(a: Any, b: Any, /, rcond: float | None = None, *, rtol: float | None = None) -> LstsqResult[Any]:
    """Return the minimum-norm least-squares solution of ``a @ x = b``.

    Parameters
    ----------
    a : array of shape (..., m, n) with a floating-point dtype, of any rank
    b : array of shape (..., m, k) or (m,)
    rcond, rtol : float, optional
        Singular values up to it, relative to the largest one, count as 0. By default, max(m, n) times the precision of
        the dtype. ``rcond`` is the name in array libraries, ``rtol`` the name of the standard in ``pinv``. Pass at most
        one of them.

    Returns
    -------
    LstsqResult
        Named tuple: ``solution`` (..., n, k) or (..., n); ``residuals``, the sums of squared residuals of each column,
        (..., k) or (...), of every shape and rank; ``rank``, integers of shape (...), a constant; and
        ``singular_values`` of ``a``, (..., min(m, n)).

    Raises
    ------
    ConfigurationError
        If both ``rcond`` and ``rtol`` are passed.

    Notes
    -----
    The results are as in ``numpy.linalg.lstsq``, with the names of ``torch.linalg.lstsq``. The solution is the
    pseudo-inverse times ``b``, refined by one step. Its derivative is along changes of ``a`` that preserve the rank. If
    ``a`` does not have full rank, the solution is discontinuous along all others. Derivatives: G. H. Golub and V.
    Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate"
    (1973), equation 4.12.

    Examples
    --------
    >>> a, b = np.asarray([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.asarray([1.0, 2.0, 4.0])
    >>> agrad.linalg.lstsq(a, b).solution.round(4)
    array([0.8333, 1.5   ])
    >>> agrad.grad(lambda b: agrad.linalg.lstsq(a, b).solution[0])(b).round(4)
    array([ 0.8333,  0.3333, -0.1667])
    """
    check_matrices(a, "lstsq", "a")
    a, b = joined("lstsq", (a, b))
    if rcond is not None and rtol is not None:
        raise ConfigurationError(
            f"lstsq: rcond and rtol are the same option, got rcond={rcond!r} and rtol={rtol!r}. Pass only one of them."
        )
    rtol = rcond if rtol is None else rtol
    m = a.shape[-2]
    cut = max(a.shape[-2:]) * finfo(a).eps if rtol is None else rtol
    s = svdvals(a)
    limit = max_(s, axis=-1, keepdims=True) * cut if s.shape[-1] else s
    p = pinv(a, rtol=cut)
    x = on_columns(lambda columns: least_squares(a, columns, p, rtol=cut), b, m, "lstsq")
    vector = ndim_of(b) == 1
    rest = matmul(a, expand_dims(x, -1)) - expand_dims(b, -1) if vector else matmul(a, x) - b
    residuals = sum_(real(rest * conj(rest)) if is_complex(rest.dtype) else rest * rest, axis=-2)
    residuals = squeeze(residuals, axis=-1) if vector else residuals
    return LstsqResult(x, residuals, count_nonzero(s > limit, axis=-1), s)
