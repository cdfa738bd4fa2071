"""Functions of matrices, differentiated as functions of block matrices."""

import math
from typing import Any

import numpy as np

from agrad.engine.notation import PrimitiveFunction
from agrad.ops.definition import primitive, public_of_array
from agrad.ops.matrices import check_matrices, identity


def _norm(xp: Any, x: Any) -> Any:
    """Return the 1-norm of each matrix, with two axes of length one."""
    return xp.max(xp.sum(xp.abs(x), axis=-2), axis=-1)[..., None, None]


def _length(xp: Any, x: Any) -> Any:
    """Return the 1-norm of each matrix, and 1 where it is 0."""
    norm = _norm(xp, x)
    return norm + xp.astype(norm == 0, norm.dtype)


def by_blocks(operation: PrimitiveFunction, **settings: Any) -> PrimitiveFunction:
    """Register the derivative rules of an analytic function f of each matrix.

    f([[x, t], [0, x]]) = [[f(x), L], [0, f(x)]], in which L is the derivative along t. Its transpose is the derivative
    at the transposed matrix. R. Mathias, "A chain rule for matrix functions and applications" (1996). ``settings`` are
    the options of the operation on block matrices.
    """

    def change(xp: Any, x: Any, t: Any) -> Any:
        n = x.shape[-1]
        if not n:
            return t
        # a direction much longer or shorter than x would cost digits; the factor is a power of two, and constant
        factor = 2.0 ** xp.round(xp.log2(_length(xp, t) / _length(xp, x)))
        blocks = xp.concat([xp.concat([x, t / factor], axis=-1), xp.concat([xp.zeros_like(x), x], axis=-1)], axis=-2)
        return operation(blocks, **settings)[..., :n, n:] * factor

    @operation.jvp
    def jvp(xp: Any, t: Any, x: Any) -> Any:
        return change(xp, x, t)

    @operation.vjp
    def vjp(xp: Any, g: Any, x: Any) -> Any:
        return change(xp, xp.matrix_transpose(x), g)

    return operation


# ------------------------------------------------------------------ the exponential

_PADE = [
    math.factorial(26 - k) * math.factorial(13) / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
]
"""Coefficients of the diagonal Pade approximant of exp of degree 13."""

_REACH = 5.371920351148152
"""The 1-norm up to which its error is below the precision of float64 (Higham 2005, table 2.3)."""


def _pade(xp: Any, x: Any) -> Any:
    c, one = _PADE, identity(xp, x)
    x2 = xp.matmul(x, x)
    x4 = xp.matmul(x2, x2)
    x6 = xp.matmul(x2, x4)
    odd = xp.matmul(x6, c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one
    odd = xp.matmul(x, odd)
    even = xp.matmul(x6, c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    return xp.linalg.solve(even - odd, even + odd)


@primitive(name="linalg.matrix_exp", batch="leading", core_axes=2)
def matrix_exp_p(xp: Any, x: Any, /) -> Any:
    if not math.prod(x.shape):
        return xp.zeros_like(x)
    norm = _norm(xp, x)
    count = xp.ceil(xp.log2(xp.maximum(norm / _REACH, xp.ones_like(norm))))
    # no finite number is beyond 2**1024
    count = xp.where(count <= 1100, count, xp.zeros_like(count))
    most = xp.max(count)

    def going(y: Any, k: Any) -> Any:
        return k < most

    def squared(y: Any, k: Any) -> tuple[Any, Any]:
        # matrices that are done are not squared: their squares may overflow
        more = k < count
        root = xp.where(more, y, xp.zeros_like(y))
        return xp.where(more, xp.matmul(root, root), y), k + 1

    return xp.iterate(going, squared, _pade(xp, x * 2.0**-count), xp.zeros_like(most))[0]


by_blocks(matrix_exp_p)


@public_of_array("linalg")
def matrix_exp(x: Any, /) -> Any:
    """Return the exponential of each matrix.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    array of the shape of ``x``

    Notes
    -----
    As ``torch.linalg.matrix_exp`` and ``jax.scipy.linalg.expm``. N. J. Higham, "The scaling and squaring method for the
    matrix exponential revisited" (2005), with degree 13 for every matrix. A derivative is the exponential of matrices
    of twice the size: R. Mathias, "A chain rule for matrix functions and applications" (1996).

    Examples
    --------
    >>> a = np.asarray([[0.0, 1.0], [0.0, 0.0]])
    >>> agrad.linalg.matrix_exp(a)
    array([[1., 1.],
           [0., 1.]])
    >>> agrad.grad(lambda t: agrad.linalg.matrix_exp(t * a)[0, 1])(2.0)
    np.float64(1.0)
    """
    check_matrices(x, "matrix_exp", square=True)
    return matrix_exp_p(x)


# ------------------------------------------------------------------ roots and logarithms

_STEPS = 25
"""Steps of Newton's method for square roots. It needs fewer unless an eigenvalue is very close to the branch cut."""


def _principal_root(xp: Any, x: Any, checked: bool) -> Any:
    """Return the principal square roots, and NaN if there is none.

    ``checked``: NaN also if half of the digits of the square are lost.

    By the product form of the Denman-Beavers iteration with scaling: N. J. Higham, "Functions of Matrices" (2008),
    equation 6.29.
    """
    n, one, eps = x.shape[-1], identity(xp, x), float(xp.finfo(x.dtype).eps)

    def off(m: Any) -> Any:
        return _norm(xp, m - one)

    def going(y: Any, m: Any, rest: Any, k: Any) -> Any:
        return (rest > 4 * n * eps) & (k < _STEPS)

    def step(y: Any, m: Any, rest: Any, k: Any) -> tuple[Any, ...]:
        sign, size = xp.linalg.slogdet(m)
        # a step of a matrix with a negative eigenvalue may be singular; inv of some libraries then raises
        m = xp.where(((sign == 0) & (k > 0))[..., None, None], xp.full_like(m, math.nan), m)
        scale = xp.exp(size / (-2 * n))[..., None, None]
        inverse = xp.linalg.inv(m) / scale**2
        y = xp.matmul(y, one + inverse) * (scale / 2)
        m = (one + (m * scale**2 + inverse) / 2) / 2
        return y, m, xp.max(off(m)), k + 1

    rest = xp.max(_length(xp, x))
    y, m, *_ = xp.iterate(going, step, x, x, xp.full_like(rest, math.inf), xp.zeros_like(rest))
    found = off(m) <= eps**0.5
    if checked:
        found = found & (_norm(xp, xp.matmul(y, y) - x) <= eps**0.5 * _norm(xp, x))
    return xp.where(found, y, xp.full_like(y, math.nan))


@primitive(name="linalg.sqrtm", batch="leading", core_axes=2)
def sqrtm(xp: Any, x: Any, /, *, checked: bool) -> Any:
    """Return the principal square root of each matrix, as in SciPy."""
    return _principal_root(xp, x, checked) if math.prod(x.shape) else xp.zeros_like(x)


_NODES = 8
"""Nodes of the quadrature of a logarithm: the order of its Pade approximant."""

_NEAR = 0.34
"""The distance from the identity, in the 1-norm, up to which its error is below the precision of float64 (Higham 2008,
table 11.1)."""

_ROOTS = 60
"""Maximum number of square roots: more than any number needs."""


@primitive(name="linalg.logm", batch="leading", core_axes=2)
def logm(xp: Any, x: Any, /, *, checked: bool) -> Any:
    """Return the principal logarithm of each matrix, as in SciPy.

    By inverse scaling and squaring: N. J. Higham, "Functions of Matrices" (2008), section 11.5. With nodes p and
    weights w of a Gauss-Legendre quadrature, the logarithm of 1 + d is the sum of ``w * inv(1 + p * d) @ d``.
    """
    if not math.prod(x.shape):
        return xp.zeros_like(x)
    one = identity(xp, x)

    def far(y: Any) -> Any:
        return _norm(xp, y - one) > _NEAR

    def going(y: Any, count: Any, k: Any) -> Any:
        return xp.any(far(y)) & (k < _ROOTS)

    def step(y: Any, count: Any, k: Any) -> tuple[Any, ...]:
        # matrices that are done are replaced by roots of the identity: a further root would cost a digit
        more = far(y)
        root = _principal_root(xp, xp.where(more, y, one), checked)
        return xp.where(more, root, y), count + xp.astype(more, count.dtype), k + 1

    count = xp.zeros_like(_norm(xp, x))
    y, count, _ = xp.iterate(going, step, x, count, xp.max(count))
    d = y - one
    nodes = zip(*np.polynomial.legendre.leggauss(_NODES), strict=True)
    parts = [xp.linalg.solve(one + d * float((p + 1) / 2), d * float(w / 2)) for p, w in nodes]
    return sum(parts[1:], parts[0]) * 2.0**count


# roots of block matrices lose more digits than the roots of their blocks, and more than the roots of the derivative
by_blocks(sqrtm, checked=False)
by_blocks(logm, checked=False)
