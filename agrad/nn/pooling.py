"""Pooling layers with PyTorch's names and arguments."""

from collections.abc import Sequence
from typing import Any

from agrad.nn import functional
from agrad.nn.function_module import FunctionModule

Lengths = int | Sequence[int]


class MaxPool1d(FunctionModule):
    """The function ``functional.max_pool1d`` as a module.

    Parameters
    ----------
    kernel_size, stride, padding, dilation : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

    Examples
    --------
    >>> x = np.array([[1.0, 3.0, 9.0, 5.0]])
    >>> pool = agrad.nn.MaxPool1d(2)
    >>> pool(x)
    array([[3., 9.]])
    >>> agrad.grad(lambda x: pool(x).sum())(x)
    array([[0., 1., 1., 0.]])
    """

    function = staticmethod(functional.max_pool1d)

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode


class AvgPool1d(FunctionModule):
    """The function ``functional.avg_pool1d`` as a module.

    Parameters
    ----------
    kernel_size, stride, padding : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.
    count_include_pad : bool
        Count the zeros of the padding.

    Examples
    --------
    >>> agrad.nn.AvgPool1d(2)(np.array([[1.0, 3.0, 5.0, 9.0]]))
    array([[2., 7.]])
    """

    function = staticmethod(functional.avg_pool1d)

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad


class AdaptiveAvgPool1d(FunctionModule):
    """The function ``functional.adaptive_avg_pool1d`` as a module.

    Parameters
    ----------
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

    Examples
    --------
    >>> agrad.nn.AdaptiveAvgPool1d(2)(np.array([[1.0, 3.0, 5.0, 9.0]]))
    array([[2., 7.]])
    """

    function = staticmethod(functional.adaptive_avg_pool1d)

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class AdaptiveMaxPool1d(FunctionModule):
    """The function ``functional.adaptive_max_pool1d`` as a module.

    Parameters
    ----------
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

    Examples
    --------
    >>> agrad.nn.AdaptiveMaxPool1d(2)(np.array([[1.0, 3.0, 9.0, 5.0]]))
    array([[3., 9.]])
    """

    function = staticmethod(functional.adaptive_max_pool1d)

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class MaxPool2d(FunctionModule):
    """The function ``functional.max_pool2d`` as a module.

    Parameters
    ----------
    kernel_size, stride, padding, dilation : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

    Examples
    --------
    >>> agrad.nn.MaxPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 5.,  7.],
            [13., 15.]]])
    """

    function = staticmethod(functional.max_pool2d)

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode


class AvgPool2d(FunctionModule):
    """The function ``functional.avg_pool2d`` as a module.

    Parameters
    ----------
    kernel_size, stride, padding : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.
    count_include_pad : bool
        Count the zeros of the padding.
    divisor_override : float, optional
        The divisor of the sums, in place of the count.

    Examples
    --------
    >>> agrad.nn.AvgPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 2.5,  4.5],
            [10.5, 12.5]]])
    """

    function = staticmethod(functional.avg_pool2d)

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: float | None = None,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override


class AdaptiveAvgPool2d(FunctionModule):
    """The function ``functional.adaptive_avg_pool2d`` as a module.

    Parameters
    ----------
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

    Examples
    --------
    >>> agrad.nn.AdaptiveAvgPool2d(1)(np.arange(16.0).reshape(1, 4, 4))
    array([[[7.5]]])
    """

    function = staticmethod(functional.adaptive_avg_pool2d)

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class AdaptiveMaxPool2d(FunctionModule):
    """The function ``functional.adaptive_max_pool2d`` as a module.

    Parameters
    ----------
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

    Examples
    --------
    >>> agrad.nn.AdaptiveMaxPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 5.,  7.],
            [13., 15.]]])
    """

    function = staticmethod(functional.adaptive_max_pool2d)

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class MaxPool3d(FunctionModule):
    """The function ``functional.max_pool3d`` as a module.

    Parameters
    ----------
    kernel_size, stride, padding, dilation : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

    Examples
    --------
    >>> agrad.nn.MaxPool3d(2)(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 2, 3, 4)
    """

    function = staticmethod(functional.max_pool3d)

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode


class AvgPool3d(FunctionModule):
    """The function ``functional.avg_pool3d`` as a module.

    Parameters
    ----------
    kernel_size, stride, padding : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.
    count_include_pad : bool
        Count the zeros of the padding.
    divisor_override : float, optional
        The divisor of the sums, in place of the count.

    Examples
    --------
    >>> agrad.nn.AvgPool3d(2)(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 2, 3, 4)
    """

    function = staticmethod(functional.avg_pool3d)

    def __init__(
        self,
        kernel_size: Lengths,
        stride: Lengths | None = None,
        padding: Lengths = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: float | None = None,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override


class AdaptiveAvgPool3d(FunctionModule):
    """The function ``functional.adaptive_avg_pool3d`` as a module.

    Parameters
    ----------
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

    Examples
    --------
    >>> agrad.nn.AdaptiveAvgPool3d((1, 2, 2))(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 1, 2, 2)
    """

    function = staticmethod(functional.adaptive_avg_pool3d)

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class AdaptiveMaxPool3d(FunctionModule):
    """The function ``functional.adaptive_max_pool3d`` as a module.

    Parameters
    ----------
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

    Examples
    --------
    >>> agrad.nn.AdaptiveMaxPool3d((1, 2, 2))(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 1, 2, 2)
    """

    function = staticmethod(functional.adaptive_max_pool3d)

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class LPPool1d(FunctionModule):
    """The function ``functional.lp_pool1d`` as a module.

    Parameters
    ----------
    norm_type : float
        The order of the norm, above 0.
    kernel_size, stride : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

    Examples
    --------
    >>> agrad.nn.LPPool1d(2, kernel_size=2)(np.array([[3.0, 4.0, 6.0, 8.0]]))
    array([[ 5., 10.]])
    """

    function = staticmethod(functional.lp_pool1d)

    def __init__(
        self, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode


class LPPool2d(FunctionModule):
    """The function ``functional.lp_pool2d`` as a module.

    Parameters
    ----------
    norm_type : float
        The order of the norm, above 0.
    kernel_size, stride : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

    Examples
    --------
    >>> agrad.nn.LPPool2d(1, kernel_size=2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[10., 18.],
            [42., 50.]]])
    """

    function = staticmethod(functional.lp_pool2d)

    def __init__(
        self, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode


class LPPool3d(FunctionModule):
    """The function ``functional.lp_pool3d`` as a module.

    Parameters
    ----------
    norm_type : float
        The order of the norm, above 0.
    kernel_size, stride : int or tuple of int
        Those of the function.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

    Examples
    --------
    >>> agrad.nn.LPPool3d(2, kernel_size=2)(np.ones((1, 3, 4, 6, 8))).shape
    (1, 3, 2, 3, 4)
    """

    function = staticmethod(functional.lp_pool3d)

    def __init__(
        self, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode
