"""Activation functions of each element."""

from typing import Any, Literal

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.nn.functional.real import elementwise, real_elementwise, real_only
from agrad.ops.composites import gated

__all__ = [
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish",
    "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold",
]  # fmt: skip


@elementwise
def relu(x: Any, /) -> Any:
    """Return the positive part of each element; its derivative at 0 is 0.

    Parameters
    ----------
    x : array of any shape and a real dtype

    Examples
    --------
    >>> x = np.array([-1.0, 0.0, 2.0])
    >>> agrad.nn.functional.relu(x)
    array([0., 0., 2.])
    >>> agrad.grad(lambda x: agrad.nn.functional.relu(x).sum())(x)
    array([0., 0., 1.])
    """
    return agrad.relu(x)


@elementwise
def tanh(x: Any, /) -> Any:
    """Return the hyperbolic tangent of each element.

    Examples
    --------
    >>> agrad.nn.functional.tanh(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7616])
    """
    return agrad.tanh(x)


@elementwise
def sigmoid(x: Any, /) -> Any:
    """Return the logistic function 1 / (1 + exp(-x)) of each element.

    Examples
    --------
    >>> agrad.nn.functional.sigmoid(np.array([0.0, 1.0])).round(4)
    array([0.5   , 0.7311])
    """
    return agrad.sigmoid(x)


@real_elementwise
def logsigmoid(x: Any, /) -> Any:
    """Return the logarithm of the logistic function of each element.

    Examples
    --------
    >>> x = np.array([-1000.0, 0.0])
    >>> agrad.grad(lambda x: agrad.nn.functional.logsigmoid(x).sum())(x)
    array([1. , 0.5])
    """
    return -agrad.logaddexp(-x, 0.0)


@real_elementwise
def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Any:
    """Return each element, negative ones multiplied by ``negative_slope``.

    Reference: A. Maas, A. Hannun and A. Ng (2013), ICML Workshop on Deep Learning.

    Parameters
    ----------
    negative_slope : float
        Derivative for elements of at most 0.

    Examples
    --------
    >>> agrad.nn.functional.leaky_relu(np.array([-2.0, 3.0]), 0.1)
    array([-0.2,  3. ])
    """
    return agrad.where(x > 0, x, x * negative_slope)


@real_only
def prelu(x: Any, weight: Any, /) -> Any:
    """Return each element, negative ones multiplied by a learnable weight.

    Reference: K. He et al. (2015), arXiv:1502.01852.

    Parameters
    ----------
    x : array of shape (n, c, ...), (n,) or (), and a real floating-point dtype
    weight : array
        Factors of negative elements, of shape (1,) or (), or (c,) for one factor per channel.

    Returns
    -------
    array of the shape and dtype of ``x``

    Examples
    --------
    >>> x, weight = np.array([-2.0, 3.0]), np.array([0.25])
    >>> agrad.nn.functional.prelu(x, weight)
    array([-0.5,  3. ])
    >>> agrad.grad(lambda w: agrad.nn.functional.prelu(x, w).sum())(weight)
    array([-2.])
    """
    shape, slopes = tuple(x.shape), tuple(weight.shape)
    channels = shape[1] if len(shape) > 1 else 1
    if slopes not in ((), (1,), (channels,)):
        raise ShapeError(f"prelu: weight must have shape (1,) or ({channels},), one value per channel, got {slopes}")
    weight = agrad.reshape(weight, (-1, *(1,) * (len(shape) - 2)) if len(shape) > 1 else (1,) * len(shape))
    return agrad.where(x > 0, x, agrad.multiply(x, weight))


def _exponential(x: Any, alpha: float, rate: float = 1.0) -> Any:
    """Return alpha * (exp(x * rate) - 1) for elements of at most 0, otherwise 0."""
    return agrad.expm1(agrad.where(x > 0, 0.0, x) * rate) * alpha


@real_elementwise
def elu(x: Any, /, alpha: float = 1.0) -> Any:
    """Return ``alpha * (exp(x) - 1)`` for x < 0, otherwise ``x``.

    Reference: D. Clevert, T. Unterthiner and S. Hochreiter (2016), arXiv:1511.07289.

    Parameters
    ----------
    alpha : float
        Negative of the limit as x approaches minus infinity.

    Examples
    --------
    >>> agrad.nn.functional.elu(np.array([-1.0, 2.0])).round(4)
    array([-0.6321,  2.    ])
    """
    return agrad.where(x > 0, x, _exponential(x, alpha))


@real_elementwise
def celu(x: Any, /, alpha: float = 1.0) -> Any:
    """Return ``alpha * (exp(x / alpha) - 1)`` for x < 0, otherwise ``x``.

    Reference: J. Barron (2017), arXiv:1704.07483.

    Parameters
    ----------
    alpha : float
        Negative of the limit as x approaches minus infinity. It must not be 0.

    Examples
    --------
    >>> agrad.nn.functional.celu(np.array([-2.0, 2.0]), alpha=2.0).round(4)
    array([-1.2642,  2.    ])
    """
    if alpha == 0:
        raise ConfigurationError("celu: alpha must not be 0")
    return agrad.where(x > 0, x, _exponential(x, alpha, 1 / alpha))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@real_elementwise
def selu(x: Any, /) -> Any:
    """Return the scaled exponential linear unit of each element.

    Reference: G. Klambauer et al. (2017), arXiv:1706.02515.

    Examples
    --------
    >>> agrad.nn.functional.selu(np.array([-1.0, 1.0])).round(4)
    array([-1.1113,  1.0507])
    """
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


@elementwise
def silu(x: Any, /) -> Any:
    """Return each element times its logistic function.

    Reference: S. Elfwing, E. Uchibe and K. Doya (2018), arXiv:1702.03118.

    Examples
    --------
    >>> agrad.nn.functional.silu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7311])
    """
    return gated(x, agrad.sigmoid(x))


@real_elementwise
def mish(x: Any, /) -> Any:
    """Return ``x * tanh(softplus(x))`` for each element.

    Reference: D. Misra (2020), arXiv:1908.08681.

    Examples
    --------
    >>> agrad.nn.functional.mish(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.3034,  0.    ,  0.8651])
    """
    return x * agrad.tanh(agrad.logaddexp(x, 0.0))


@real_elementwise
def softplus(x: Any, /, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Return ``log(1 + exp(beta * x)) / beta`` for each element.

    Parameters
    ----------
    beta : float
        Sharpness of the transition at 0. It must not be 0.
    threshold : float
        The result is ``x`` if ``beta * x`` is greater than this value.

    Examples
    --------
    >>> x = np.array([-1000.0, 0.0, 1000.0])
    >>> agrad.grad(lambda x: agrad.nn.functional.softplus(x).sum())(x)
    array([0. , 0.5, 1. ])
    """
    if beta == 0:
        raise ConfigurationError("softplus: beta must not be 0")
    scaled = x * beta
    linear = scaled > threshold
    return agrad.where(linear, x, agrad.logaddexp(agrad.where(linear, 0.0, scaled), 0.0) / beta)


@elementwise
def softsign(x: Any, /) -> Any:
    """Return ``x / (1 + abs(x))`` for each element.

    Examples
    --------
    >>> agrad.nn.functional.softsign(np.array([-1.0, 0.0, 3.0]))
    array([-0.5 ,  0.  ,  0.75])
    """
    return x / (agrad.abs(x) + 1.0)


@elementwise
def tanhshrink(x: Any, /) -> Any:
    """Return ``x - tanh(x)`` for each element.

    Examples
    --------
    >>> agrad.nn.functional.tanhshrink(np.array([-2.0, 0.0, 2.0])).round(4)
    array([-1.036,  0.   ,  1.036])
    """
    return x - agrad.tanh(x)


@real_elementwise
def hardtanh(x: Any, /, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Return each element clipped to an interval.

    The derivative at the limits is 0.

    Parameters
    ----------
    min_val, max_val : float
        Limits of the interval.

    Examples
    --------
    >>> agrad.nn.functional.hardtanh(np.array([-3.0, 0.5, 3.0]))
    array([-1. ,  0.5,  1. ])
    """
    if min_val > max_val:
        raise ConfigurationError(f"hardtanh: min_val must be at most max_val={max_val!r}, got {min_val!r}")
    return agrad.where(x <= min_val, min_val, agrad.where(x >= max_val, max_val, x))


@real_elementwise
def relu6(x: Any, /) -> Any:
    """Return each element clipped to the interval from 0 to 6.

    Examples
    --------
    >>> agrad.nn.functional.relu6(np.array([-1.0, 3.0, 8.0]))
    array([0., 3., 6.])
    """
    return hardtanh(x, 0.0, 6.0)


@real_elementwise
def hardsigmoid(x: Any, /) -> Any:
    """Return ``relu6(x + 3) / 6`` for each element.

    Examples
    --------
    >>> agrad.nn.functional.hardsigmoid(np.array([-4.0, 0.0, 1.5]))
    array([0.  , 0.5 , 0.75])
    """
    return relu6(x + 3.0) / 6.0


@real_elementwise
def hardswish(x: Any, /) -> Any:
    """Return ``x * relu6(x + 3) / 6`` for each element.

    Reference: A. Howard et al. (2019), arXiv:1905.02244.

    Examples
    --------
    >>> agrad.nn.functional.hardswish(np.array([-4.0, 1.5, 4.0]))
    array([0.   , 1.125, 4.   ])
    """
    return agrad.where(x <= -3.0, 0.0, agrad.where(x >= 3.0, x, x * (x + 3.0) / 6.0))


@real_elementwise
def hardshrink(x: Any, /, lambd: float = 0.5) -> Any:
    """Return each element, or 0 for elements from ``-lambd`` to ``lambd``.

    Parameters
    ----------
    lambd : float
        Largest absolute value that becomes 0.

    Examples
    --------
    >>> agrad.nn.functional.hardshrink(np.array([-1.0, 0.3, 0.8]))
    array([-1. ,  0. ,  0.8])
    """
    return agrad.where(agrad.abs(x) <= lambd, 0.0, x)


@real_elementwise
def softshrink(x: Any, /, lambd: float = 0.5) -> Any:
    """Return each element moved toward 0 by at most ``lambd``.

    Parameters
    ----------
    lambd : float
        Distance, at least 0.

    Examples
    --------
    >>> agrad.nn.functional.softshrink(np.array([-1.0, 0.3, 0.75]))
    array([-0.5 ,  0.  ,  0.25])
    """
    if not lambd >= 0:
        raise ConfigurationError(f"softshrink: lambd must be at least 0, got {lambd!r}")
    return agrad.where(agrad.abs(x) <= lambd, 0.0, x - agrad.where(x > 0, lambd, -lambd))


@real_elementwise
def threshold(x: Any, /, threshold: float, value: float) -> Any:
    """Return each element greater than a threshold, otherwise a constant.

    Parameters
    ----------
    threshold : float
        Threshold.
    value : float
        Result for elements that are not greater than the threshold.

    Examples
    --------
    >>> agrad.nn.functional.threshold(np.array([0.2, 0.5, 0.8]), 0.5, -1.0)
    array([-1. , -1. ,  0.8])
    """
    return agrad.where(x <= threshold, value, x)


@elementwise
def gelu(x: Any, /, approximate: Literal["none", "tanh"] = "none") -> Any:
    """Return each element times its standard normal distribution function.

    Reference: D. Hendrycks and K. Gimpel (2016), arXiv:1606.08415.

    Parameters
    ----------
    approximate : {"none", "tanh"}
        ``"tanh"`` for the approximation with tanh.

    Examples
    --------
    >>> agrad.nn.functional.gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise ConfigurationError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return agrad.gelu(x, approximate=approximate == "tanh")
