"""Norms of vectors and matrices.

At the zero vector, and at a zero matrix, the derivative of a norm is 0. Its second derivative is NaN there, except for
norms that are sums or extremes of absolute values: a rule does not know if the norm is squared later. ``sum(x * x)`` is
differentiable to all orders.
"""

import math
from typing import Any

from agrad.dtypes import is_complex
from agrad.errors import OperandError
from agrad.ops.casting import astype
from agrad.ops.decompositions import svdvals
from agrad.ops.definition import primitive, public_of_array
from agrad.ops.discrete import not_equal
from agrad.ops.elementwise import abs as abs_
from agrad.ops.elementwise import real, sign
from agrad.ops.lengths import inverse_length, signed_power
from agrad.ops.manipulation import expand_dims
from agrad.ops.matrices import check_matrices, conjugate
from agrad.ops.shared import Axes, axes_of, keep, ndim_of
from agrad.ops.statistical import max as max_
from agrad.ops.statistical import min as min_
from agrad.ops.statistical import sum as sum_

__all__ = ["matrix_norm", "vector_norm"]


@primitive(name="linalg.vector_norm", batch="axis")
def vector_norm_p(xp: Any, x: Any, /, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    if not axis:
        return xp.abs(x)
    if len(axis) == len(x.shape):
        return xp.linalg.vector_norm(x, keepdims=keepdims, ord=ord)
    return xp.linalg.vector_norm(x, axis=axis if len(axis) > 1 else axis[0], keepdims=keepdims, ord=ord)


def _scaled_slope(xp: Any, scale: Any, x: Any, y: Any, axis: tuple[int, ...], ord: float) -> Any:
    """Return ``scale`` times the derivative of the norm by each element.

    ``scale`` and ``y`` have the reduced axes kept.
    """
    if ord == 2 and axis:
        return conjugate(xp, x) * (scale * inverse_length(y))
    rising = axis and 1 < ord < math.inf
    if rising and not is_complex(x.dtype):
        power = xp.full_like(x, ord - 1)
        if ord > 2:
            return signed_power(x * inverse_length(y), power) * scale
        # apart from y, which an infinite derivative at 0 does not reach then
        return signed_power(x, power) * (scale * inverse_length(y) ** (ord - 1))
    # the second derivative of an element that is 0 is infinite between the orders 1 and 2: NaN of complex ones
    direction = conjugate(xp, x) * inverse_length(xp.abs(x)) if rising and ord < 2 else conjugate(xp, sign(x))
    if ord == 1 or not axis:
        return direction * scale
    size = xp.abs(x)
    if math.isinf(ord):
        hit = xp.astype(size == y, y.dtype)
        return direction * (hit * (scale / xp.sum(hit, axis=axis, keepdims=True)))
    # (size / y)**(ord - 1), and 0 for elements that are 0; then y is 0 too if the order is negative
    zero = xp.astype(size == 0, size.dtype)
    ratio = (size * inverse_length(y) if ord > 1 else y / (size + zero)) + zero
    if 0 < ord < 1:
        scale = scale * (y * inverse_length(y))  # 1, and at the zero vector 0
    return direction * ((-zero + 1) * ratio ** abs(ord - 1) * scale)


@vector_norm_p.vjp
def vector_norm_vjp(xp: Any, g: Any, x: Any, y: Any, *, axis: tuple[int, ...], ord: float) -> Any:
    shape = tuple(x.shape)
    return _scaled_slope(xp, keep(xp, g, shape, axis), x, keep(xp, y, shape, axis), axis, ord)


@vector_norm_p.jvp
def vector_norm_jvp(xp: Any, t: Any, x: Any, y: Any, *, axis: tuple[int, ...], keepdims: bool, ord: float) -> Any:
    kept = keep(xp, y, tuple(x.shape), axis)
    change = t * _scaled_slope(xp, xp.ones_like(kept), x, kept, axis, ord)
    return xp.sum(xp.real(change) if is_complex(change.dtype) else change, axis=axis, keepdims=keepdims)


@public_of_array("linalg")
def vector_norm(x: Any, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Return the norm of vectors over axes.

    An element that is 0 gets the derivative 0 whatever the order; between the orders 1 and 2 its second derivative is
    infinite, NaN if it is complex. At the zero vector second derivatives are NaN, also for the squared norm. Use
    ``sum(x * x)`` instead.

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis : int or tuple of ints, optional
        Axes. By default, all.
    keepdims : bool
        If True, keep the reduced axes with length one.
    ord : float
        The order, a number or plus or minus infinity, for which elements that tie share the derivative evenly. The
        order 0, the number of elements that are not 0, is constant.

    Returns
    -------
    array
        Real array without the reduced axes, or with them as axes of length one.

    Examples
    --------
    >>> x = np.asarray([3.0, 4.0])
    >>> agrad.linalg.vector_norm(x), agrad.linalg.vector_norm(x, ord=1)
    (np.float64(5.0), np.float64(7.0))
    >>> agrad.grad(agrad.linalg.vector_norm)(x).round(6)
    array([0.6, 0.8])
    """
    ndim_of(x, "vector_norm")
    if isinstance(ord, complex) or not isinstance(ord, (int, float)) or ord != ord:
        raise OperandError(f"vector_norm: ord must be a number, inf or -inf, got {ord!r}")
    axes = axes_of(axis, x)
    if ord == 0:
        kind = (real(x[..., 0:0]) if x.shape else real(x)).dtype if is_complex(x.dtype) else x.dtype
        return sum_(astype(not_equal(x, 0), kind), axis=axes, keepdims=keepdims)
    return vector_norm_p(x, axis=axes, keepdims=keepdims, ord=ord)


@public_of_array("linalg")
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norm of each matrix.

    If several sums or singular values tie, they share the derivative evenly.

    Parameters
    ----------
    x : array of shape (..., m, n) with a floating-point dtype
    keepdims : bool
        If True, keep the last two axes with length one.
    ord : str or float
        ``"fro"`` (Frobenius), ``"nuc"`` (the sum of the singular values), 1 or -1 (the maximum or minimum sum of
        absolute values over columns), inf or -inf (the same over rows), 2 or -2 (the largest or smallest singular
        value).

    Returns
    -------
    array
        Real, of shape (...).

    Examples
    --------
    >>> a = np.asarray([[3.0, 0.0], [0.0, 4.0]])
    >>> agrad.linalg.matrix_norm(a), agrad.linalg.matrix_norm(a, ord=2)
    (np.float64(5.0), np.float64(4.0))
    >>> agrad.grad(agrad.linalg.matrix_norm)(a)
    array([[0.6, 0. ],
           [0. , 0.8]])
    """
    check_matrices(x, "matrix_norm")
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if isinstance(ord, str):
        extreme = sum_ if ord == "nuc" else None
        along = None
    else:
        extreme = {1: max_, 2: max_, math.inf: max_, -1: min_, -2: min_, -math.inf: min_}.get(ord)
        along = {1: -2, math.inf: -1}.get(abs(ord)) if extreme else None
    if extreme is None:
        raise OperandError(f"matrix_norm: ord must be 'fro', 'nuc', 1, 2, inf, -1, -2 or -inf, got {ord!r}")
    values = svdvals(x) if along is None else sum_(abs_(x), axis=along)
    y = extreme(values, axis=-1)
    return expand_dims(y, (-2, -1)) if keepdims else y
