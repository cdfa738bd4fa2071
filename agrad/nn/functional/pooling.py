"""Pooling: maxima and means of windows along one, two or three axes."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.nn.functional.convolution import numbers
from agrad.nn.functional.padding import padded
from agrad.nn.functional.real import constant, of_array, real_only
from agrad.ops.pooling import max_pool, sum_pool

Lengths = int | Sequence[int]


def _check(name: str, x: Any, spatial: int) -> None:
    if len(x.shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{name} takes an array of shape (n, c, ...) or (c, ...) with {spatial} spatial axes, not {tuple(x.shape)}"
        )


def _padded(
    name: str, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, spatial: int, fill: float
) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """Return ``x`` with its padding, and the settings of its windows."""
    _check(name, x, spatial)
    lengths = tuple(x.shape)[-spatial:]
    kernels = numbers(name, "kernel_size", kernel, spatial, 1)
    strides = kernels if stride is None else numbers(name, "stride", stride, spatial, 1)
    pads, steps = numbers(name, "padding", padding, spatial, 0), numbers(name, "dilation", dilation, spatial, 1)
    if any(2 * p > k for p, k in zip(pads, kernels, strict=True)):
        raise ConfigurationError(f"{name}: padding {pads} is at most half the kernel's lengths, {kernels}")
    around = []
    for n, k, s, p, d in zip(lengths, kernels, strides, pads, steps, strict=True):
        free = n + 2 * p - d * (k - 1) - 1
        out = (-(-free // s) if ceil else free // s) + 1
        if out < 1:
            raise ShapeError(f"{name}: windows of {kernels} do not fit into {lengths} with padding {pads}")
        if ceil and (out - 1) * s >= n + p:  # the last window would begin in the padding behind the array
            out -= 1
        around.append((p, max(p, (out - 1) * s + d * (k - 1) + 1 - n - p)))
    if any(map(any, around)):
        x = padded(x, [(0, 0)] * (len(x.shape) - spatial) + around, constant_values=fill)
    return x, {"kernel": kernels, "strides": strides, "dilation": steps}


def _max_pool(
    name: str, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, spatial: int
) -> Any:
    x, how = _padded(name, x, kernel, stride, padding, dilation, ceil, spatial, -math.inf)
    return max_pool(x, **how)


def _avg_pool(
    name: str, x: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, counted: bool, divisor: Any, spatial: int
) -> Any:
    if divisor == 0:
        raise ConfigurationError(f"{name}: divisor_override is not 0, by which it divides")
    padded_x, how = _padded(name, x, kernel, stride, padding, 1, ceil, spatial, 0.0)
    kernels, strides = how["kernel"], how["strides"]
    total, pads = sum_pool(padded_x, kernel=kernels, strides=strides), numbers(name, "padding", padding, spatial, 0)
    if divisor is not None or (not ceil and (counted or not any(pads))):
        return total / (math.prod(kernels) if divisor is None else divisor)
    counts = np.ones(())
    for n, k, s, p, out in zip(x.shape[-spatial:], kernels, strides, pads, total.shape[-spatial:], strict=True):
        first = np.arange(out) * s - p
        last = np.minimum(first + k, n + p)  # places behind the padding do not count
        if not counted:
            first, last = np.maximum(first, 0), np.minimum(last, n)
        counts = np.multiply.outer(counts, last - first)
    return agrad.divide(total, constant(counts, x))


def _adaptive(name: str, x: Any, size: Any, spatial: int, reduce: Callable[..., Any]) -> Any:
    """Reduce the parts from floor(i * n / m) to ceil((i + 1) * n / m) of each axis."""
    _check(name, x, spatial)
    wanted = size if isinstance(size, Sequence) else (size,) * spatial
    if len(wanted) != spatial:
        raise ConfigurationError(f"{name}: output_size is an integer or None, or {spatial} of them, not {size!r}")
    for axis, m in reversed(list(enumerate(wanted, len(x.shape) - spatial))):  # finds the first maximum by rows
        if m is None:
            continue
        (m,), n = numbers(name, "output_size", m, 1, 1), x.shape[axis]
        if not n:
            raise ShapeError(f"{name} takes axes with elements, not {tuple(x.shape)}")
        places = [(slice(None),) * axis + (slice(i * n // m, -(-(i + 1) * n // m)), ...) for i in range(m)]
        x = agrad.concat([reduce(x[place], axis) for place in places], axis=axis)
    return x


def _first_max(x: Any, axis: int) -> Any:
    # a mean of equal elements would get parts of the cotangent; PyTorch gives all of it to the first
    first = agrad.argmax(x, axis=axis, keepdims=True)
    return agrad.take_along_axis(x, first, axis=axis)


def _mean(x: Any, axis: int) -> Any:
    return agrad.mean(x, axis=axis, keepdims=True)


@of_array
@real_only
def max_pool1d(
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
) -> Any:
    """Return the maxima of windows along 1 spatial axis.

    The first of equal elements gets the derivative.

    Parameters
    ----------
    x : array
        Array of shape (n, c, l) or (c, l), and a real floating dtype.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    padding : int or tuple of int
        The places of minus infinity on both sides, at most half of ``kernel_size``.
    dilation : int or tuple of int
        The steps between the elements of a window.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

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
    >>> x = np.array([[1.0, 3.0, 9.0, 5.0]])
    >>> agrad.nn.functional.max_pool1d(x, 2)
    array([[3., 9.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.max_pool1d(x, 2).sum())(x)
    array([[0., 1., 1., 0.]])
    """
    return _max_pool("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, 1)


@of_array
def avg_pool1d(
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the means of windows along 1 spatial axis.

    Parameters
    ----------
    x : array
        Array of shape (n, c, l) or (c, l), and a real floating dtype.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    padding : int or tuple of int
        The zeros on both sides, at most half of ``kernel_size``.
    ceil_mode : bool
        Take also the windows that reach beyond the end; what is behind the padding does not count.
    count_include_pad : bool
        Count the zeros of the padding.

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
    >>> x = np.array([[1.0, 3.0, 5.0, 9.0]])
    >>> agrad.nn.functional.avg_pool1d(x, 2)
    array([[2., 7.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.avg_pool1d(x, 2).sum())(x)
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    return _avg_pool("avg_pool1d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


@of_array
def adaptive_avg_pool1d(x: Any, /, output_size: Any) -> Any:
    """Return the means of as many parts of each spatial axis as asked for.

    Parameters
    ----------
    x : array
        Array of shape (n, c, l) or (c, l), and a real floating dtype.
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

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
    >>> x = np.array([[1.0, 3.0, 5.0, 9.0]])
    >>> agrad.nn.functional.adaptive_avg_pool1d(x, 2)
    array([[2., 7.]])
    """
    return _adaptive("adaptive_avg_pool1d", x, output_size, 1, _mean)


@of_array
@real_only
def adaptive_max_pool1d(x: Any, /, output_size: Any) -> Any:
    """Return the maxima of as many parts of each spatial axis as asked for.

    The first of equal elements gets the derivative.

    Parameters
    ----------
    x : array
        Array of shape (n, c, l) or (c, l), and a real floating dtype.
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

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
    >>> x = np.array([[1.0, 3.0, 9.0, 5.0]])
    >>> agrad.nn.functional.adaptive_max_pool1d(x, 2)
    array([[3., 9.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.adaptive_max_pool1d(x, 2).sum())(x)
    array([[0., 1., 1., 0.]])
    """
    return _adaptive("adaptive_max_pool1d", x, output_size, 1, _first_max)


@of_array
@real_only
def max_pool2d(
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
) -> Any:
    """Return the maxima of windows along 2 spatial axes.

    The first of equal elements gets the derivative.

    Parameters
    ----------
    x : array
        Array of shape (n, c, h, w) or (c, h, w), and a real floating dtype.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    padding : int or tuple of int
        The places of minus infinity on both sides, at most half of ``kernel_size``.
    dilation : int or tuple of int
        The steps between the elements of a window.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

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
    >>> agrad.nn.functional.max_pool2d(x, 2, stride=1)
    array([[[ 5.,  6.,  7.],
            [ 9., 10., 11.],
            [13., 14., 15.]]])
    """
    return _max_pool("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, 2)


@of_array
def avg_pool2d(
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> Any:
    """Return the means of windows along 2 spatial axes.

    Parameters
    ----------
    x : array
        Array of shape (n, c, h, w) or (c, h, w), and a real floating dtype.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    padding : int or tuple of int
        The zeros on both sides, at most half of ``kernel_size``.
    ceil_mode : bool
        Take also the windows that reach beyond the end; what is behind the padding does not count.
    count_include_pad : bool
        Count the zeros of the padding.
    divisor_override : float, optional
        The divisor of the sums, in place of the count.

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
    >>> agrad.nn.functional.avg_pool2d(x, 2)
    array([[[ 2.5,  4.5],
            [10.5, 12.5]]])
    """
    return _avg_pool("avg_pool2d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


@of_array
def adaptive_avg_pool2d(x: Any, /, output_size: Any) -> Any:
    """Return the means of as many parts of each spatial axis as asked for.

    Parameters
    ----------
    x : array
        Array of shape (n, c, h, w) or (c, h, w), and a real floating dtype.
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

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
    >>> agrad.nn.functional.adaptive_avg_pool2d(x, (2, 1))
    array([[[ 3.5],
            [11.5]]])
    """
    return _adaptive("adaptive_avg_pool2d", x, output_size, 2, _mean)


@of_array
@real_only
def adaptive_max_pool2d(x: Any, /, output_size: Any) -> Any:
    """Return the maxima of as many parts of each spatial axis as asked for.

    The first of equal elements gets the derivative.

    Parameters
    ----------
    x : array
        Array of shape (n, c, h, w) or (c, h, w), and a real floating dtype.
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

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
    >>> agrad.nn.functional.adaptive_max_pool2d(x, (2, 1))
    array([[[ 7.],
            [15.]]])
    """
    return _adaptive("adaptive_max_pool2d", x, output_size, 2, _first_max)


@of_array
@real_only
def max_pool3d(
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
) -> Any:
    """Return the maxima of windows along 3 spatial axes.

    The first of equal elements gets the derivative.

    Parameters
    ----------
    x : array
        Array of shape (n, c, d, h, w) or (c, d, h, w), and a real floating dtype.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    padding : int or tuple of int
        The places of minus infinity on both sides, at most half of ``kernel_size``.
    dilation : int or tuple of int
        The steps between the elements of a window.
    ceil_mode : bool
        Take also the windows that reach beyond the end.

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
    >>> agrad.nn.functional.max_pool3d(np.ones((1, 3, 4, 6, 8)), 2).shape
    (1, 3, 2, 3, 4)
    """
    return _max_pool("max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, 3)


@of_array
def avg_pool3d(
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> Any:
    """Return the means of windows along 3 spatial axes.

    Parameters
    ----------
    x : array
        Array of shape (n, c, d, h, w) or (c, d, h, w), and a real floating dtype.
    kernel_size : int or tuple of int
        The lengths of a window.
    stride : int or tuple of int, optional
        The steps between windows, by default ``kernel_size``.
    padding : int or tuple of int
        The zeros on both sides, at most half of ``kernel_size``.
    ceil_mode : bool
        Take also the windows that reach beyond the end; what is behind the padding does not count.
    count_include_pad : bool
        Count the zeros of the padding.
    divisor_override : float, optional
        The divisor of the sums, in place of the count.

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
    >>> agrad.nn.functional.avg_pool3d(np.ones((1, 3, 4, 6, 8)), 2).shape
    (1, 3, 2, 3, 4)
    """
    return _avg_pool("avg_pool3d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


@of_array
def adaptive_avg_pool3d(x: Any, /, output_size: Any) -> Any:
    """Return the means of as many parts of each spatial axis as asked for.

    Parameters
    ----------
    x : array
        Array of shape (n, c, d, h, w) or (c, d, h, w), and a real floating dtype.
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

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
    >>> x = np.ones((1, 3, 4, 6, 8))
    >>> agrad.nn.functional.adaptive_avg_pool3d(x, (1, 2, 2)).shape
    (1, 3, 1, 2, 2)
    """
    return _adaptive("adaptive_avg_pool3d", x, output_size, 3, _mean)


@of_array
@real_only
def adaptive_max_pool3d(x: Any, /, output_size: Any) -> Any:
    """Return the maxima of as many parts of each spatial axis as asked for.

    The first of equal elements gets the derivative.

    Parameters
    ----------
    x : array
        Array of shape (n, c, d, h, w) or (c, d, h, w), and a real floating dtype.
    output_size : int, None or tuple of them
        The length of each axis in the result; None keeps it.

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
    >>> x = np.ones((1, 3, 4, 6, 8))
    >>> agrad.nn.functional.adaptive_max_pool3d(x, (1, 2, 2)).shape
    (1, 3, 1, 2, 2)
    """
    return _adaptive("adaptive_max_pool3d", x, output_size, 3, _first_max)
