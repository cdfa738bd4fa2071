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
    """

    function = staticmethod(functional.lp_pool3d)

    def __init__(
        self, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode
