"""1-D, 2-D and 3-D pooling: maxima and means of windows."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import numbers
from agrad.nn.functional.padding import padded
from agrad.nn.functional.real import check_spatial, constant, of_array, on_axes, real_only
from agrad.ops.pooling import max_pool, sum_pool

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

Lengths = int | Sequence[int]


def _padded(
    name: str, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, spatial: int, fill: float
) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """Return the padded ``x``, and the options of its windows."""
    check_spatial(name, x, spatial)
    lengths = tuple(x.shape)[-spatial:]
    kernels = numbers(name, "kernel_size", kernel, spatial, 1)
    strides = kernels if stride is None else numbers(name, "stride", stride, spatial, 1)
    pads, steps = numbers(name, "padding", padding, spatial, 0), numbers(name, "dilation", dilation, spatial, 1)
    if any(2 * p > k for p, k in zip(pads, kernels, strict=True)):
        raise ConfigurationError(f"{name}: padding must be at most half of the kernel size {kernels}, got {pads}")
    around = []
    for n, k, s, p, d in zip(lengths, kernels, strides, pads, steps, strict=True):
        free = n + 2 * p - d * (k - 1) - 1
        out = (-(-free // s) if ceil else free // s) + 1
        if out < 1:
            raise ShapeError(f"{name}: windows of {kernels} must fit into an input of {lengths} with padding {pads}")
        if ceil and (out - 1) * s >= n + p:  # the last window would begin in the padding behind the array
            out -= 1
        around.append((p, max(p, (out - 1) * s + d * (k - 1) + 1 - n - p)))
    if any(map(any, around)):
        x = padded(x, [(0, 0)] * (len(x.shape) - spatial) + around, constant_values=fill)
    return x, {"kernel": kernels, "strides": strides, "dilation": steps}


class Pooling:
    """Parameters and result of pooling.

    Parameters
    ----------
    x : array of shape (n, c, {axes}) or (c, {axes}), and a real floating-point dtype
    kernel_size : int or tuple of int
        Window size.
    stride : int or tuple of int, optional
        Stride between windows. By default, ``kernel_size``.
    padding : int or tuple of int
        Number of zeros on both sides, at most half of ``kernel_size``.
    output_size : int, None or tuple of them
        Length of each axis of the result; None keeps it.

    Returns
    -------
    array of shape (n, c, ...) or (c, ...)
    """


def _max_pool(
    spatial: int,
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    dilation: Lengths = 1,
    ceil_mode: bool = False,
) -> Any:
    """Compute the maxima of {n}-D windows.

    If elements are equal, the first one receives the derivative.

    Parameters
    ----------
    padding : int or tuple of int
        Number of elements of minus infinity added on both sides, at most half of ``kernel_size``.
    dilation : int or tuple of int
        Spacing between the elements of a window.
    ceil_mode : bool
        True to include the windows that reach beyond the end.

    Examples
    --------
    >>> x = np.array([[1.0, 3.0, 9.0, 5.0]])
    >>> agrad.nn.functional.max_pool1d(x, 2)
    array([[3., 9.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.max_pool1d(x, 2).sum())(x)
    array([[0., 1., 1., 0.]])
    >>> agrad.nn.functional.max_pool2d(np.arange(16.0).reshape(1, 4, 4), 2, stride=1)
    array([[[ 5.,  6.,  7.],
            [ 9., 10., 11.],
            [13., 14., 15.]]])
    >>> agrad.nn.functional.max_pool3d(np.ones((1, 3, 4, 6, 8)), 2).shape
    (1, 3, 2, 3, 4)
    """
    name = f"max_pool{spatial}d"
    x, how = _padded(name, x, kernel_size, stride, padding, dilation, ceil_mode, spatial, -math.inf)
    return max_pool(x, **how)


def _avg_pool(
    spatial: int,
    x: Any,
    /,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    padding: Lengths = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> Any:
    """Compute the means of {n}-D windows.

    Parameters
    ----------
    ceil_mode : bool
        True to include the windows that reach beyond the end. Elements beyond the padding do not count.
    count_include_pad : bool
        True to count the zeros of the padding.
    divisor_override : float, optional
        Divisor of the sums. By default, the number of elements.

    Examples
    --------
    >>> agrad.nn.functional.avg_pool2d(np.arange(16.0).reshape(1, 4, 4), 2)
    array([[[ 2.5,  4.5],
            [10.5, 12.5]]])
    >>> agrad.nn.functional.avg_pool3d(np.ones((1, 3, 4, 6, 8)), 2).shape
    (1, 3, 2, 3, 4)
    """
    name = f"avg_pool{spatial}d"
    if divisor_override == 0:
        raise ConfigurationError(f"{name}: divisor_override must not be 0")
    padded_x, how = _padded(name, x, kernel_size, stride, padding, 1, ceil_mode, spatial, 0.0)
    kernels, strides = how["kernel"], how["strides"]
    total, pads = sum_pool(padded_x, kernel=kernels, strides=strides), numbers(name, "padding", padding, spatial, 0)
    if divisor_override is not None or (not ceil_mode and (count_include_pad or not any(pads))):
        return total / (math.prod(kernels) if divisor_override is None else divisor_override)
    counts = np.ones(())
    for n, k, s, p, out in zip(x.shape[-spatial:], kernels, strides, pads, total.shape[-spatial:], strict=True):
        first = np.arange(out) * s - p
        last = np.minimum(first + k, n + p)  # positions beyond the padding do not count
        if not count_include_pad:
            first, last = np.maximum(first, 0), np.minimum(last, n)
        counts = np.multiply.outer(counts, last - first)
    return agrad.divide(total, constant(counts, x))


def _adaptive(name: str, x: Any, size: Any, spatial: int, reduce: Callable[..., Any]) -> Any:
    """Reduce the parts from floor(i * n / m) to ceil((i + 1) * n / m) of each axis."""
    check_spatial(name, x, spatial)
    wanted = size if isinstance(size, Sequence) else (size,) * spatial
    if len(wanted) != spatial:
        raise ConfigurationError(f"{name}: output_size must be an integer or None, or {spatial} of them, got {size!r}")
    for axis, m in reversed(list(enumerate(wanted, len(x.shape) - spatial))):  # finds the first maximum by rows
        if m is None:
            continue
        (m,), n = numbers(name, "output_size", m, 1, 1), x.shape[axis]
        if not n:
            raise ShapeError(f"{name}: x must not have spatial axes of length 0, got {tuple(x.shape)}")
        lead = (slice(None),) * axis
        parts = [reduce(x[(*lead, slice(i * n // m, -(-(i + 1) * n // m)), ...)], axis) for i in range(m)]
        x = agrad.concat(parts, axis=axis)
    return x


def _first_max(x: Any, axis: int) -> Any:
    # a mean of equal elements would get parts of the cotangent; PyTorch assigns all of it to the first
    first = agrad.argmax(x, axis=axis, keepdims=True)
    return agrad.take_along_axis(x, first, axis=axis)


def _mean(x: Any, axis: int) -> Any:
    return agrad.mean(x, axis=axis, keepdims=True)


def _adaptive_avg_pool(spatial: int, x: Any, /, output_size: Any) -> Any:
    """Compute {n}-D adaptive average pooling to a given size.

    Examples
    --------
    >>> agrad.nn.functional.adaptive_avg_pool1d(np.array([[1.0, 3.0, 5.0, 9.0]]), 2)
    array([[2., 7.]])
    >>> agrad.nn.functional.adaptive_avg_pool2d(np.arange(16.0).reshape(1, 4, 4), (2, 1))
    array([[[ 3.5],
            [11.5]]])
    >>> agrad.nn.functional.adaptive_avg_pool3d(np.ones((1, 3, 4, 6, 8)), (1, 2, 2)).shape
    (1, 3, 1, 2, 2)
    """
    return _adaptive(f"adaptive_avg_pool{spatial}d", x, output_size, spatial, _mean)


def _adaptive_max_pool(spatial: int, x: Any, /, output_size: Any) -> Any:
    """Compute {n}-D adaptive max pooling to a given size.

    If elements are equal, the first one receives the derivative.

    Examples
    --------
    >>> x = np.array([[1.0, 3.0, 9.0, 5.0]])
    >>> agrad.nn.functional.adaptive_max_pool1d(x, 2)
    array([[3., 9.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.adaptive_max_pool1d(x, 2).sum())(x)
    array([[0., 1., 1., 0.]])
    >>> agrad.nn.functional.adaptive_max_pool2d(np.arange(16.0).reshape(1, 4, 4), (2, 1))
    array([[[ 7.],
            [15.]]])
    >>> agrad.nn.functional.adaptive_max_pool3d(np.ones((1, 3, 4, 6, 8)), (1, 2, 2)).shape
    (1, 3, 1, 2, 2)
    """
    return _adaptive(f"adaptive_max_pool{spatial}d", x, output_size, spatial, _first_max)


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
    """Compute the means of 1-D windows.

    Parameters
    ----------
    x : array of shape (n, c, l) or (c, l), and a real floating-point dtype
    kernel_size, stride, padding, ceil_mode, count_include_pad
        Same as for ``avg_pool2d``.

    Returns
    -------
    array of shape (n, c, ...) or (c, ...)

    Examples
    --------
    >>> agrad.nn.functional.avg_pool1d(np.array([[1.0, 3.0, 5.0, 9.0]]), 2)
    array([[2., 7.]])
    """
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


avg_pool2d, avg_pool3d = (of_array(f) for f in on_axes(_avg_pool, 2, 3, shared=Pooling))
max_pool1d, max_pool2d, max_pool3d = (of_array(real_only(f)) for f in on_axes(_max_pool, shared=Pooling))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    of_array(f) for f in on_axes(_adaptive_avg_pool, shared=Pooling)
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    of_array(real_only(f)) for f in on_axes(_adaptive_max_pool, shared=Pooling)
)
