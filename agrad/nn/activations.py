"""Activation modules with the PyTorch names."""

from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.nn import functional
from agrad.nn.function_module import FunctionModule
from agrad.nn.init import parameter
from agrad.nn.module import ArrayModule, Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin",
    "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class ReLU(FunctionModule, function=functional.relu):
    """ReLU activation: the positive part of each element, max(x, 0).

    Examples
    --------
    >>> agrad.nn.ReLU()(np.array([-1.0, 0.5, 2.0]))
    array([0. , 0.5, 2. ])
    """


class Tanh(FunctionModule, function=functional.tanh):
    """Hyperbolic tangent activation.

    Examples
    --------
    >>> agrad.nn.Tanh()(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7616])
    """


class Sigmoid(FunctionModule, function=functional.sigmoid):
    """Sigmoid activation: the logistic function 1 / (1 + exp(-x)).

    Examples
    --------
    >>> agrad.nn.Sigmoid()(np.array([0.0, 1.0])).round(4)
    array([0.5   , 0.7311])
    """


class LogSigmoid(FunctionModule, function=functional.logsigmoid):
    """LogSigmoid activation: the logarithm of the logistic function.

    Examples
    --------
    >>> agrad.nn.LogSigmoid()(np.array([-1000.0, 0.0])).round(4)
    array([-1.000e+03, -6.931e-01])
    """


class SELU(FunctionModule, function=functional.selu):
    """SELU activation: the scaled exponential linear unit.

    Examples
    --------
    >>> agrad.nn.SELU()(np.array([-1.0, 1.0])).round(4)
    array([-1.1113,  1.0507])
    """


class SiLU(FunctionModule, function=functional.silu):
    """SiLU (swish) activation: each element times its logistic function.

    Examples
    --------
    >>> agrad.nn.SiLU()(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7311])
    """


class Mish(FunctionModule, function=functional.mish):
    """Mish activation: x * tanh(softplus(x)).

    Examples
    --------
    >>> agrad.nn.Mish()(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.3034,  0.    ,  0.8651])
    """


class Softsign(FunctionModule, function=functional.softsign):
    """Softsign activation: x / (1 + abs(x)).

    Examples
    --------
    >>> agrad.nn.Softsign()(np.array([-1.0, 0.0, 3.0]))
    array([-0.5 ,  0.  ,  0.75])
    """


class Tanhshrink(FunctionModule, function=functional.tanhshrink):
    """Tanhshrink activation: x - tanh(x).

    Examples
    --------
    >>> agrad.nn.Tanhshrink()(np.array([-2.0, 0.0, 2.0])).round(4)
    array([-1.036,  0.   ,  1.036])
    """


class ReLU6(FunctionModule, function=functional.relu6):
    """ReLU6 activation: each element clipped to the interval from 0 to 6.

    Examples
    --------
    >>> agrad.nn.ReLU6()(np.array([-1.0, 3.0, 8.0]))
    array([0., 3., 6.])
    """


class Hardsigmoid(FunctionModule, function=functional.hardsigmoid):
    """Hardsigmoid activation: relu6(x + 3) / 6.

    Examples
    --------
    >>> agrad.nn.Hardsigmoid()(np.array([-4.0, 0.0, 1.5]))
    array([0.  , 0.5 , 0.75])
    """


class Hardswish(FunctionModule, function=functional.hardswish):
    """Hardswish activation: x * relu6(x + 3) / 6.

    Examples
    --------
    >>> agrad.nn.Hardswish()(np.array([-4.0, 1.5, 4.0]))
    array([0.   , 1.125, 4.   ])
    """


class LeakyReLU(FunctionModule, function=functional.leaky_relu):
    """Leaky ReLU activation: negative elements are multiplied by ``negative_slope``.

    Examples
    --------
    >>> agrad.nn.LeakyReLU(0.1)(np.array([-2.0, 3.0]))
    array([-0.2,  3. ])
    """

    negative_slope: float = 0.01


class ELU(FunctionModule, function=functional.elu):
    """ELU activation: alpha * (exp(x) - 1) for x < 0, otherwise x.

    Examples
    --------
    >>> agrad.nn.ELU()(np.array([-1.0, 2.0])).round(4)
    array([-0.6321,  2.    ])
    """

    alpha: float = 1.0


class CELU(FunctionModule, function=functional.celu):
    """CELU activation: alpha * (exp(x / alpha) - 1) for x < 0, otherwise x.

    Examples
    --------
    >>> agrad.nn.CELU(alpha=2.0)(np.array([-2.0, 2.0])).round(4)
    array([-1.2642,  2.    ])
    """

    alpha: float = 1.0


class GELU(FunctionModule, function=functional.gelu):
    """GELU activation: x * Phi(x), with the normal distribution function Phi.

    Examples
    --------
    >>> agrad.nn.GELU()(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """

    approximate: str = "none"


class Softplus(FunctionModule, function=functional.softplus):
    """Softplus activation: log(1 + exp(beta * x)) / beta, a smooth ReLU.

    Examples
    --------
    >>> agrad.nn.Softplus()(np.array([-1000.0, 0.0, 1000.0])).round(4)
    array([0.000e+00, 6.931e-01, 1.000e+03])
    """

    beta: float = 1.0
    threshold: float = 20.0


class Hardtanh(FunctionModule, function=functional.hardtanh):
    """Hardtanh activation: each element clipped to an interval.

    Examples
    --------
    >>> agrad.nn.Hardtanh(-2.0, 2.0)(np.array([-3.0, 0.5, 3.0]))
    array([-2. ,  0.5,  2. ])
    """

    min_val: float = -1.0
    max_val: float = 1.0


class Hardshrink(FunctionModule, function=functional.hardshrink):
    """Hardshrink activation: elements from ``-lambd`` to ``lambd`` become 0.

    Examples
    --------
    >>> agrad.nn.Hardshrink()(np.array([-1.0, 0.3, 0.8]))
    array([-1. ,  0. ,  0.8])
    """

    lambd: float = 0.5


class Softshrink(FunctionModule, function=functional.softshrink):
    """Softshrink activation: each element moved toward 0 by at most ``lambd``.

    Examples
    --------
    >>> agrad.nn.Softshrink()(np.array([-1.0, 0.3, 0.75]))
    array([-0.5 ,  0.  ,  0.25])
    """

    lambd: float = 0.5


class Threshold(FunctionModule, function=functional.threshold):
    """Threshold activation: a constant replaces elements up to a threshold.

    Examples
    --------
    >>> agrad.nn.Threshold(0.5, -1.0)(np.array([0.2, 0.5, 0.8]))
    array([-1. , -1. ,  0.8])
    """

    threshold: float
    value: float


class _AlongAxis(FunctionModule):
    dim: int = -1


class GLU(_AlongAxis, function=functional.glu):
    """Gated linear unit: first half along an axis times the sigmoid of the second.

    Examples
    --------
    >>> agrad.nn.GLU()(np.array([[1.0, 2.0, 0.0, 1000.0]]))
    array([[0.5, 2. ]])
    """


class Softmax(_AlongAxis, function=functional.softmax):
    """Softmax activation along an axis: exp(x) / sum(exp(x)).

    Examples
    --------
    >>> agrad.nn.Softmax(dim=1)(np.array([[0.0, 0.0], [0.0, 1.0]])).round(4)
    array([[0.5   , 0.5   ],
           [0.2689, 0.7311]])
    """


class LogSoftmax(_AlongAxis, function=functional.log_softmax):
    """LogSoftmax activation along an axis: x - log(sum(exp(x))).

    Examples
    --------
    >>> agrad.nn.LogSoftmax(dim=1)(np.array([[0.0, 0.0], [0.0, 1.0]])).round(4)
    array([[-0.6931, -0.6931],
           [-1.3133, -0.3133]])
    """


class Softmin(_AlongAxis, function=functional.softmin):
    """Softmin activation: the softmax of -x along an axis.

    Examples
    --------
    >>> agrad.nn.Softmin(dim=1)(np.array([[0.0, 0.0], [0.0, 1.0]])).round(4)
    array([[0.5   , 0.5   ],
           [0.7311, 0.2689]])
    """


class Softmax2d(ArrayModule):
    """Softmax over the channels of images of shape (n, c, h, w) or (c, h, w).

    Examples
    --------
    >>> agrad.nn.Softmax2d()(np.zeros((1, 4, 2, 2)))[0, :, 0, 0]
    array([0.25, 0.25, 0.25, 0.25])
    """

    def forward(self, x: Any, /) -> Any:
        """Return the softmax over the channels."""
        if len(x.shape) not in (3, 4):
            raise ShapeError(f"Softmax2d: x must have shape (n, c, h, w) or (c, h, w), got {tuple(x.shape)}")
        return functional.softmax(x, -3)


class PReLU(Module):
    """PReLU activation: negative elements are multiplied by a learnable weight.

    Parameters
    ----------
    num_parameters : int
        1, or the number of channels (the length of the second axis).
    init : float
        Initial value of the weight.

    Examples
    --------
    >>> layer = agrad.nn.PReLU()
    >>> layer(np.array([-2.0, 3.0])).sum().backward()
    >>> layer.weight.grad
    Tensor([-2.0], dtype=float32, backend=numpy, device=cpu)
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        if num_parameters < 1:
            raise ConfigurationError(f"PReLU: num_parameters must be at least 1, got {num_parameters!r}")
        values = np.full(num_parameters, float(init))
        self.weight: agrad.Tensor = parameter(values, dtype=dtype, backend=backend, device=device)

    def forward(self, x: Any, /) -> agrad.Tensor:
        """Return ``functional.prelu`` of an array of shape (n, c, ...)."""
        return functional.prelu(x, self.weight)

    def settings(self) -> str:
        return f"num_parameters={self.weight.size}"
