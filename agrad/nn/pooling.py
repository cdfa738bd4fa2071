"""Pooling layers with the PyTorch names and arguments."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

from agrad.nn import functional
from agrad.nn.function_module import FunctionModule

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d",
]  # fmt: skip

Lengths = int | Sequence[int]


class _MaxPool(FunctionModule):
    kernel_size: Lengths
    stride: Lengths | None = None
    padding: Lengths = 0
    dilation: Lengths = 1
    _: KW_ONLY
    ceil_mode: bool = False


class _AvgPool(FunctionModule):
    kernel_size: Lengths
    stride: Lengths | None = None
    padding: Lengths = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: float | None = None


class _AdaptivePool(FunctionModule):
    output_size: Any


class _LPPool(FunctionModule):
    norm_type: float
    kernel_size: Lengths
    stride: Lengths | None = None
    ceil_mode: bool = False


class MaxPool1d(_MaxPool, function=functional.max_pool1d):
    """Max pooling of arrays of shape (n, c, l) or (c, l).

    Examples
    --------
    >>> agrad.nn.MaxPool1d(2)(np.array([[1.0, 3.0, 9.0, 5.0]]))
    array([[3., 9.]])
    """


class MaxPool2d(_MaxPool, function=functional.max_pool2d):
    """Max pooling of arrays of shape (n, c, h, w) or (c, h, w).

    Examples
    --------
    >>> agrad.nn.MaxPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 5.,  7.],
            [13., 15.]]])
    """


class MaxPool3d(_MaxPool, function=functional.max_pool3d):
    """Max pooling of arrays of shape (n, c, d, h, w) or (c, d, h, w).

    Examples
    --------
    >>> agrad.nn.MaxPool3d(2)(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 2, 3, 4)
    """


class AvgPool1d(FunctionModule, function=functional.avg_pool1d):
    """Average pooling of arrays of shape (n, c, l) or (c, l).

    Examples
    --------
    >>> agrad.nn.AvgPool1d(2)(np.array([[1.0, 3.0, 5.0, 9.0]]))
    array([[2., 7.]])
    """

    kernel_size: Lengths
    stride: Lengths | None = None
    padding: Lengths = 0
    ceil_mode: bool = False
    count_include_pad: bool = True


class AvgPool2d(_AvgPool, function=functional.avg_pool2d):
    """Average pooling of arrays of shape (n, c, h, w) or (c, h, w).

    Examples
    --------
    >>> agrad.nn.AvgPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 2.5,  4.5],
            [10.5, 12.5]]])
    """


class AvgPool3d(_AvgPool, function=functional.avg_pool3d):
    """Average pooling of arrays of shape (n, c, d, h, w) or (c, d, h, w).

    Examples
    --------
    >>> agrad.nn.AvgPool3d(2)(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 2, 3, 4)
    """


class AdaptiveAvgPool1d(_AdaptivePool, function=functional.adaptive_avg_pool1d):
    """Adaptive average pooling of arrays of shape (n, c, l) or (c, l).

    Examples
    --------
    >>> agrad.nn.AdaptiveAvgPool1d(2)(np.array([[1.0, 3.0, 5.0, 9.0]]))
    array([[2., 7.]])
    """


class AdaptiveAvgPool2d(_AdaptivePool, function=functional.adaptive_avg_pool2d):
    """Adaptive average pooling of arrays of shape (n, c, h, w) or (c, h, w).

    Examples
    --------
    >>> agrad.nn.AdaptiveAvgPool2d(1)(np.arange(16.0).reshape(1, 4, 4))
    array([[[7.5]]])
    """


class AdaptiveAvgPool3d(_AdaptivePool, function=functional.adaptive_avg_pool3d):
    """Adaptive average pooling of arrays of shape (n, c, d, h, w) or (c, d, h, w).

    Examples
    --------
    >>> agrad.nn.AdaptiveAvgPool3d((1, 2, 2))(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 1, 2, 2)
    """


class AdaptiveMaxPool1d(_AdaptivePool, function=functional.adaptive_max_pool1d):
    """Adaptive max pooling of arrays of shape (n, c, l) or (c, l).

    Examples
    --------
    >>> agrad.nn.AdaptiveMaxPool1d(2)(np.array([[1.0, 3.0, 9.0, 5.0]]))
    array([[3., 9.]])
    """


class AdaptiveMaxPool2d(_AdaptivePool, function=functional.adaptive_max_pool2d):
    """Adaptive max pooling of arrays of shape (n, c, h, w) or (c, h, w).

    Examples
    --------
    >>> agrad.nn.AdaptiveMaxPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 5.,  7.],
            [13., 15.]]])
    """


class AdaptiveMaxPool3d(_AdaptivePool, function=functional.adaptive_max_pool3d):
    """Adaptive max pooling of arrays of shape (n, c, d, h, w) or (c, d, h, w).

    Examples
    --------
    >>> agrad.nn.AdaptiveMaxPool3d((1, 2, 2))(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 1, 2, 2)
    """


class LPPool1d(_LPPool, function=functional.lp_pool1d):
    """Power-average pooling of arrays of shape (n, c, l) or (c, l).

    Examples
    --------
    >>> agrad.nn.LPPool1d(2, kernel_size=2)(np.array([[3.0, 4.0, 6.0, 8.0]]))
    array([[ 5., 10.]])
    """


class LPPool2d(_LPPool, function=functional.lp_pool2d):
    """Power-average pooling of arrays of shape (n, c, h, w) or (c, h, w).

    Examples
    --------
    >>> agrad.nn.LPPool2d(1, kernel_size=2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[10., 18.],
            [42., 50.]]])
    """


class LPPool3d(_LPPool, function=functional.lp_pool3d):
    """Power-average pooling of arrays of shape (n, c, d, h, w) or (c, d, h, w).

    Examples
    --------
    >>> agrad.nn.LPPool3d(2, kernel_size=2)(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 2, 3, 4)
    """
