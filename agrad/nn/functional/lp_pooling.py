"""Pooling by norms of windows along one, two or three axes."""

import math
from collections.abc import Sequence
from typing import Any

import agrad
from agrad.errors import ConfigurationError
from agrad.nn.functional.convolution import numbers
from agrad.nn.functional.pooling import avg_pool1d, avg_pool2d, avg_pool3d
from agrad.nn.functional.real import of_array, real_only

Lengths = int | Sequence[int]
_MEANS = (avg_pool1d, avg_pool2d, avg_pool3d)


def _lp_pool(name: str, x: Any, p: float, kernel: Any, stride: Any, ceil: bool, spatial: int) -> Any:
    if not p > 0 or math.isinf(p):
        raise ConfigurationError(f"{name}: norm_type is above 0 and finite, not {p!r}")
    count = math.prod(numbers(name, "kernel_size", kernel, spatial, 1))
    total = _MEANS[spatial - 1](agrad.pow(x, p), kernel, stride, ceil_mode=ceil) * float(count)
    some = total != 0
    # the derivative of a norm at a window of zeros is 0
    return agrad.where(some, agrad.pow(agrad.where(some, total, 1.0), 1.0 / p), 0.0)


@of_array
@real_only
def lp_pool1d(
    x: Any, /, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
) -> Any:
    """Return the norms of windows along 1 spatial axis.

    A norm is ``sum(x**p) ** (1 / p)``, without absolute values, as in PyTorch. The derivative of one that is 0 is 0.

    Parameters
    ----------
    x : array
        Array of shape (n, c, l) or (c, l), and a real floating dtype.
    norm_type : float
        The order p, above 0.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    ceil_mode : bool
        Take also the windows that reach beyond the end, with the norm as if their mean power were that of a whole one.

    Returns
    -------
    array
        Array of shape (n, c, ...) or (c, ...).

    Raises
    ------
    ShapeError, ConfigurationError
        If the shape does not fit, or for a setting that is none.

    Examples
    --------
    >>> x = np.array([[3.0, 4.0, 6.0, 8.0]])
    >>> agrad.nn.functional.lp_pool1d(x, 2, 2)
    array([[ 5., 10.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.lp_pool1d(x, 2, 2).sum())(x)
    array([[0.6, 0.8, 0.6, 0.8]])
    """
    return _lp_pool("lp_pool1d", x, norm_type, kernel_size, stride, ceil_mode, 1)


@of_array
@real_only
def lp_pool2d(
    x: Any, /, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
) -> Any:
    """Return the norms of windows along 2 spatial axes.

    A norm is ``sum(x**p) ** (1 / p)``, without absolute values, as in PyTorch. The derivative of one that is 0 is 0.

    Parameters
    ----------
    x : array
        Array of shape (n, c, h, w) or (c, h, w), and a real floating dtype.
    norm_type : float
        The order p, above 0.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    ceil_mode : bool
        Take also the windows that reach beyond the end, with the norm as if their mean power were that of a whole one.

    Returns
    -------
    array
        Array of shape (n, c, ...) or (c, ...).

    Raises
    ------
    ShapeError, ConfigurationError
        If the shape does not fit, or for a setting that is none.

    Examples
    --------
    >>> x = np.arange(16.0).reshape(1, 4, 4)
    >>> agrad.nn.functional.lp_pool2d(x, 1, 2)
    array([[[10., 18.],
            [42., 50.]]])
    """
    return _lp_pool("lp_pool2d", x, norm_type, kernel_size, stride, ceil_mode, 2)


@of_array
@real_only
def lp_pool3d(
    x: Any, /, norm_type: float, kernel_size: Lengths, stride: Lengths | None = None, ceil_mode: bool = False
) -> Any:
    """Return the norms of windows along 3 spatial axes.

    A norm is ``sum(x**p) ** (1 / p)``, without absolute values, as in PyTorch. The derivative of one that is 0 is 0.

    Parameters
    ----------
    x : array
        Array of shape (n, c, d, h, w) or (c, d, h, w), and a real floating dtype.
    norm_type : float
        The order p, above 0.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    ceil_mode : bool
        Take also the windows that reach beyond the end, with the norm as if their mean power were that of a whole one.

    Returns
    -------
    array
        Array of shape (n, c, ...) or (c, ...).

    Raises
    ------
    ShapeError, ConfigurationError
        If the shape does not fit, or for a setting that is none.

    Examples
    --------
    >>> agrad.nn.functional.lp_pool3d(np.ones((1, 3, 4, 6, 8)), 2, 2).shape
    (1, 3, 2, 3, 4)
    """
    return _lp_pool("lp_pool3d", x, norm_type, kernel_size, stride, ceil_mode, 3)
