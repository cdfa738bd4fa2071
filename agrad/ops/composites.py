"""Functions of neural networks: activations, softmax, linear maps.

Functions whose derivative is simpler than the derivative of their body are separate primitives: the tape stores less,
and a backend may register one fused kernel.
"""

import inspect
import math
from typing import Any

from agrad.backends.base import in_digits_of
from agrad.dtypes import as_dtype, is_complex
from agrad.engine.batching import with_rank
from agrad.errors import DtypeError
from agrad.ops.definition import elementwise, primitive, public_of_array
from agrad.ops.elementwise import add
from agrad.ops.shared import Axes, axes_of, axis_of, floated, keep
from agrad.ops.special.entropy_forms import expit
from agrad.ops.special.normal import erfc
from agrad.registry import public
from agrad.shapes import size

__all__ = ["gelu", "linear", "log_softmax", "logsumexp", "relu", "sigmoid", "softmax"]


def check_real(name: str, x: Any) -> None:
    if is_complex(x.dtype):
        raise DtypeError(f"{name}: arguments must be real, got {as_dtype(x.dtype)}. Use agrad.real or agrad.imag.")


def _relu(xp: Any, x: Any, /) -> Any:
    check_real("relu", x)
    return xp.maximum(x, xp.zeros_like(x))


relu = elementwise(
    "relu",
    lambda xp, g, y: xp.where(y > 0, g, xp.zeros_like(g)),
    forward=_relu,
    no_alias=True,
    finite_slopes=True,
    rule_traits={"vjp:x": {"no_alias": True}},
    doc="Return the positive part of each element. The derivative at 0 is 0.",
    example="""
>>> agrad.relu(np.asarray([-1.0, 0.0, 2.0]))
array([0., 0., 2.])
>>> agrad.elementwise_grad(agrad.relu)(np.asarray([-1.0, 0.0, 2.0]))
array([0., 0., 1.])
""",
)


def _sigmoid(xp: Any, x: Any, /) -> Any:
    x = floated(xp, x)
    if not is_complex(x.dtype):
        return expit(xp, x)
    right = xp.real(x) >= 0
    z = xp.exp(xp.where(right, -x, x))
    return xp.where(right, xp.ones_like(z), z) / (1 + z)


sigmoid = elementwise(
    "sigmoid",
    lambda g, y: g * (y * (1 - y)),
    forward=_sigmoid,
    no_alias=True,
    doc="Return the logistic function 1 / (1 + exp(-x)) of each element.",
    example="""
>>> agrad.sigmoid(np.asarray([-1000.0, 0.0, 1.0]))
array([0.        , 0.5       , 0.73105858])
""",
)


def _gated_curve(xp: Any, g: Any, x: Any) -> Any:
    below, above = sigmoid(x), sigmoid(-x)
    return g * (below * above * (2 + x * (above - below)))


gated_slope = elementwise(
    "gated_slope",
    _gated_curve,  # 1 - gate would have no digits left at 37
    None,
    forward=lambda xp, x, gate, /: gate * (1 + x * (1 - gate)),
    doc="Return the derivative of ``gated``; ``gate`` is a constant to the rules here too.",
    decompose=True,
    public=False,
)
gated = elementwise(
    "gated",
    lambda g, x, gate: g * gated_slope(x, gate),
    None,
    forward=lambda xp, x, gate, /: x * gate,
    doc="""Return x times ``gate``, which is sigmoid(x).

    ``gate`` is a constant to the rules, which include its derivative in the one with respect to ``x``.
    """,
    decompose=True,
    public=False,
)


def _constants(x: Any) -> tuple[Any, Any]:
    """Return sqrt(2 / pi) and 0.044715, the numbers of gelu's form with tanh."""
    scale = in_digits_of(x, math.sqrt(2 / math.pi), lambda xp, one: xp.sqrt(2 / xp.acos(-one)))
    return scale, in_digits_of(x, 0.044715, lambda xp, one: 44715 * one / 1000000)


_FAR = (-6e4, 6e4)
"""Numbers of every floating dtype that replace infinities in ``gelu``: infinity times 0 is NaN."""


def _gelu(xp: Any, x: Any, /, *, approximate: bool = False) -> Any:
    """Return each element times the standard normal distribution function of it.

    Parameters
    ----------
    x : array of any shape with a real floating-point dtype
    approximate : bool
        If True, use the tanh approximation.

    Returns
    -------
    array of the shape of ``x``

    Notes
    -----
    D. Hendrycks and K. Gimpel (2016), arXiv:1606.08415.

    Examples
    --------
    >>> agrad.gelu(np.asarray([-1.0, 0.0, 1.0]))
    array([-0.15865525,  0.        ,  0.84134475])
    """
    check_real("gelu", x)
    x = xp.maximum(x, _FAR[0])
    if approximate:
        scale, cubic = _constants(x)
        return 0.5 * x * (1 + xp.tanh((x + x * cubic * x * x) * scale))
    return 0.5 * x * erfc(x * -math.sqrt(0.5))  # 1 + erf has no digits left at -9


def _gelu_rule(xp: Any, g: Any, x: Any, y: Any, *, approximate: bool) -> Any:  # a kernel divides y by x
    if approximate:
        x = xp.clip(x, -30.0, 30.0)  # beyond, 0 times an infinite derivative
        scale, cubic = _constants(x)
        u = xp.tanh((x + x * cubic * x * x) * scale)
        return g * (0.5 * (1 + u) + 0.5 * x * (1 - u * u) * ((1 + x * (3 * cubic) * x) * scale))
    x = xp.clip(x, *_FAR)
    density = xp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return g * (0.5 * erfc(x * -math.sqrt(0.5)) + x * density)


gelu = elementwise("gelu", _gelu_rule, forward=_gelu, decompose=True)
gelu.__doc__ = inspect.getdoc(_gelu)


def _finite_or_zero(xp: Any, m: Any) -> Any:
    return xp.where(xp.isfinite(m), m, xp.zeros_like(m))


def _greatest(xp: Any, x: Any, axis: Any) -> Any:
    """Return the maximum over ``axis``, which is kept.

    For complex elements, the maximum real part; for an empty axis, minus infinity.
    """
    x = xp.real(x) if is_complex(x.dtype) else x
    if not size(x.shape[i] for i in (axis if isinstance(axis, tuple) else (axis,))):
        return xp.sum(x, axis=axis, keepdims=True) - math.inf
    return xp.max(x, axis=axis, keepdims=True)


@primitive(name="logsumexp", batch="axis", rows="axis", decompose=True)
def logsumexp_p(xp: Any, x: Any, /, *, axis: Any, keepdims: bool) -> Any:
    x = floated(xp, x)
    m = _finite_or_zero(xp, _greatest(xp, x, axis))
    y = xp.log(xp.sum(xp.exp(x - m), axis=axis, keepdims=True)) + m
    return y if keepdims else xp.squeeze(y, axis=axis)


@primitive(constant="x", batch="leading")
def weight_total(xp: Any, x: Any, /) -> Any:
    """Replace sums of weights that are 0 or not finite by 1.

    A sum is 1 except for rounding errors, which a large logarithm amplifies.
    """
    return xp.where(xp.isfinite(x) & (x != 0), x, xp.ones_like(x))


def softmax_weights(xp: Any, x: Any, y: Any, axis: Any) -> tuple[Any, Any]:
    """Return weights that are proportional to the derivatives, and their sum."""
    weights = xp.exp(x - keep(xp, y, tuple(x.shape), axis))
    return weights, weight_total(xp.sum(weights, axis=axis, keepdims=True))


@logsumexp_p.vjp
def logsumexp_vjp(xp: Any, g: Any, x: Any, y: Any, *, axis: Any) -> Any:
    weights, total = softmax_weights(xp, x, y, axis)
    return keep(xp, g, tuple(x.shape), axis) / total * weights


@logsumexp_p.jvp
def logsumexp_jvp(xp: Any, t: Any, x: Any, y: Any, *, axis: Any, keepdims: bool) -> Any:
    weights, total = softmax_weights(xp, x, y, axis)
    return xp.sum(t * weights / total, axis=axis, keepdims=keepdims)


@public_of_array
def logsumexp(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(x))) over axes, without overflow.

    The result is minus infinity for no elements. If it is infinite, its derivatives in infinite elements are NaN.

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array
        Complex results are on the principal branch.

    Examples
    --------
    >>> agrad.logsumexp(np.asarray([1000.0, 1000.0])).round(4)
    np.float64(1000.6931)
    >>> agrad.grad(agrad.logsumexp)(np.asarray([0.0, 0.0, np.log(2.0)])).round(4)
    array([0.25, 0.25, 0.5 ])
    """
    return logsumexp_p(x, axis=axes_of(axis, x), keepdims=keepdims)


@primitive(name="softmax", batch="axis", rows="axis", decompose=True)
def softmax_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    x = floated(xp, x)
    e = xp.exp(x - _greatest(xp, x, axis))
    return e / xp.sum(e, axis=axis, keepdims=True)


@softmax_p.vjp
@softmax_p.jvp
def softmax_both(xp: Any, g: Any, y: Any, *, axis: int) -> Any:  # the Jacobian is symmetric
    return y * (g - xp.sum(g * y, axis=axis, keepdims=True))


@public_of_array
def softmax(x: Any, /, *, axis: int = -1) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis, without overflow.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    axis : int
        Axis. By default, the last.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.softmax(np.asarray([0.0, 0.0, np.log(2.0)]))
    array([0.25, 0.25, 0.5 ])
    >>> agrad.jacobian(agrad.softmax)(np.asarray([0.0, 0.0]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    return softmax_p(x, axis=axis_of(axis, x))


@primitive(name="log_softmax", batch="axis", rows="axis", decompose=True)
def log_softmax_p(xp: Any, x: Any, /, *, axis: int) -> Any:
    x = floated(xp, x)
    x = x - _greatest(xp, x, axis)
    return x - xp.log(xp.sum(xp.exp(x), axis=axis, keepdims=True))


@log_softmax_p.vjp
def log_softmax_vjp(xp: Any, g: Any, y: Any, *, axis: int) -> Any:
    return g - xp.exp(y) * xp.sum(g, axis=axis, keepdims=True)


@log_softmax_p.jvp
def log_softmax_jvp(xp: Any, t: Any, y: Any, *, axis: int) -> Any:
    return t - xp.sum(xp.exp(y) * t, axis=axis, keepdims=True)


@public_of_array
def log_softmax(x: Any, /, *, axis: int = -1) -> Any:
    """Return log(softmax(x)) along an axis, without overflow.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    axis : int
        Axis. By default, the last.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.log_softmax(np.asarray([1.0, 1.0, 1001.0]))
    array([-1000., -1000.,     0.])
    """
    return log_softmax_p(x, axis=axis_of(axis, x))


# ------------------------------------------------------------------ the affine map


_ROW_SUM = {"kind": "row_sum", "combine": add}


@public
@primitive(broadcasts=True, core_axes=(1, 1, 0), kind="product", decompose=True, rule_traits={"vjp:bias": _ROW_SUM})
def linear(xp: Any, x: Any, weight: Any, bias: Any, /) -> Any:
    """Return ``x @ weight + bias``, as one operation.

    Parameters
    ----------
    x : array of shape (..., k) with a floating-point dtype
    weight : array of shape (k, n)
    bias : array of shape (n,)

    Returns
    -------
    array of shape (..., n)

    Examples
    --------
    >>> x, weight, bias = np.asarray([[1.0, 2.0]]), np.asarray([[3.0, 4.0], [5.0, 6.0]]), np.asarray([0.5, 1.0])
    >>> agrad.linear(x, weight, bias)
    array([[13.5, 17. ]])
    """
    return xp.matmul(x, weight) + bias


@linear.vjp("x")
def linear_x(xp: Any, g: Any, weight: Any) -> Any:
    return xp.matmul(g, xp.matrix_transpose(weight))


@linear.vjp("weight")
def linear_weight(xp: Any, g: Any, x: Any) -> Any:
    if len(x.shape) != 2:
        x, g = xp.reshape(x, (-1, x.shape[-1])), xp.reshape(g, (-1, g.shape[-1]))
    return xp.matmul(xp.matrix_transpose(x), g)


@linear.vjp("bias")
def linear_bias(xp: Any, g: Any, bias_meta: Any) -> Any:
    if bias_meta.shape != tuple(g.shape)[-1:] or len(g.shape) < 2:
        return g  # a bias of another shape is fitted
    return xp.sum(g, axis=tuple(range(len(g.shape) - 1)))


@linear.jvp("x")
def linear_x_jvp(xp: Any, t: Any, weight: Any) -> Any:
    return xp.matmul(t, weight)


@linear.jvp("weight")
def linear_weight_jvp(xp: Any, t: Any, x: Any) -> Any:
    return xp.matmul(x, t)


@linear.jvp("bias")
def linear_bias_jvp(t: Any) -> Any:
    return t


@linear.batch
def linear_batch(
    xp: Any, x: Any, weight: Any, bias: Any, x_mapped: bool, weight_mapped: bool, bias_mapped: bool
) -> Any:
    if not weight_mapped and not bias_mapped:
        return linear(x, weight, bias)
    # the rules of ``linear`` are for one matrix: here a product and a sum. Each batch element gets rows and columns
    is_row, is_column = len(x.shape) - x_mapped < 2, len(weight.shape) - weight_mapped < 2
    x = xp.expand_dims(x, axis=-2) if is_row else x
    weight = xp.expand_dims(weight, axis=-1) if is_column else weight
    y = xp.matmul(x, with_rank(xp, weight, len(x.shape) - x_mapped) if weight_mapped else weight)
    dropped = (-2,) * is_row + (-1,) * is_column
    y = xp.squeeze(y, axis=dropped) if dropped else y
    y_mapped = x_mapped or weight_mapped
    ndim = max(len(y.shape) - y_mapped, len(bias.shape) - bias_mapped)
    return xp.add(with_rank(xp, y, ndim) if y_mapped else y, with_rank(xp, bias, ndim) if bias_mapped else bias)
