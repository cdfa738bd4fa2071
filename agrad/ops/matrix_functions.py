"""Functions of square matrices, with derivatives by the same function of block matrices."""

import math
from typing import Any

from agrad.engine.notation import PrimitiveFunction
from agrad.ops.definition import primitive
from agrad.ops.matrices import check_matrices, identity
from agrad.registry import public


def by_blocks(operation: PrimitiveFunction) -> PrimitiveFunction:
    """File the derivative rules of an analytic function f of each matrix.

    f([[x, t], [0, x]]) = [[f(x), L], [0, f(x)]], where L is the derivative along t; its transpose is the derivative at
    the transposed matrix. R. Mathias, "A chain rule for matrix functions and applications" (1996).
    """

    def change(xp: Any, x: Any, t: Any) -> Any:
        n = x.shape[-1]
        if not n:
            return t
        # a large or small direction would cost digits; the factor is a power of two, and constant
        length = xp.max(xp.sum(xp.abs(t), axis=-2), axis=-1)[..., None, None]
        factor = 2.0 ** xp.round(xp.log2(length + xp.astype(length == 0, length.dtype)))
        blocks = xp.concat([xp.concat([x, t / factor], axis=-1), xp.concat([xp.zeros_like(x), x], axis=-1)], axis=-2)
        return operation(blocks)[..., :n, n:] * factor

    @operation.jvp
    def jvp(xp: Any, t: Any, x: Any) -> Any:
        return change(xp, x, t)

    @operation.vjp
    def vjp(xp: Any, g: Any, x: Any) -> Any:
        return change(xp, xp.matrix_transpose(x), g)

    return operation


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


@primitive(name="linalg.matrix_exp", batch="leading")
def matrix_exp_p(xp: Any, x: Any, /) -> Any:
    if not math.prod(x.shape):
        return xp.zeros_like(x)
    norm = xp.max(xp.sum(xp.abs(x), axis=-2), axis=-1)[..., None, None]
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


@public("linalg")
def matrix_exp(x: Any, /) -> Any:
    """Return the exponential of each matrix.

    Parameters
    ----------
    x : array
        Of shape (..., n, n) and a floating dtype.

    Returns
    -------
    array
        Of the shape of ``x``.

    Raises
    ------
    ShapeError
        For matrices that are not square.

    Notes
    -----
    As ``torch.linalg.matrix_exp`` and ``jax.scipy.linalg.expm``. N. J. Higham, "The scaling and squaring method for the
    matrix exponential revisited" (2005), with degree 13 for every matrix. A derivative is the exponential of matrices
    of twice the size: R. Mathias, "A chain rule for matrix functions and applications" (1996).
    """
    check_matrices(x, "matrix_exp", square=True)
    return matrix_exp_p(x)
