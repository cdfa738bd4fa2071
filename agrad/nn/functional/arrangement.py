"""Unfolding, pixel and channel shuffles, and one-hot encoding."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import numbers
from agrad.nn.functional.padding import padded
from agrad.nn.functional.real import check_numbers, of_array, places
from agrad.ops.indexing import scatter_sum

__all__ = ["channel_shuffle", "fold", "one_hot", "pixel_shuffle", "pixel_unshuffle", "unfold"]

Lengths = int | Sequence[int]


def _windows(
    name: str, lengths: tuple[int, ...], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[list[tuple[Any, ...]], tuple[int, ...], tuple[int, ...]]:
    """Return the indices of the elements of windows, the numbers of windows, and the padding."""
    spatial = len(lengths)
    kernels, steps = numbers(name, "kernel_size", kernel, spatial, 1), numbers(name, "dilation", dilation, spatial, 1)
    pads, strides = numbers(name, "padding", padding, spatial, 0), numbers(name, "stride", stride, spatial, 1)
    counts = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(lengths, kernels, steps, pads, strides, strict=True)
    )
    if min(counts) < 1:
        raise ShapeError(f"{name}: windows of {kernels} must fit into an input of {lengths} with padding {pads}")
    starts = [
        [slice(i * d, i * d + s * (m - 1) + 1, s) for i in range(k)]
        for k, d, s, m in zip(kernels, steps, strides, counts, strict=True)
    ]
    return [(..., *window) for window in product(*starts)], counts, pads


@of_array
def unfold(x: Any, /, kernel_size: Lengths, dilation: Lengths = 1, padding: Lengths = 0, stride: Lengths = 1) -> Any:
    """Return the windows of images as columns.

    Parameters
    ----------
    x : array of shape (n, c, h, w) or (c, h, w)
    kernel_size : int or tuple of int
        Window size.
    dilation : int or tuple of int
        Spacing between the elements of a window.
    padding : int or tuple of int
        Number of zeros on both sides.
    stride : int or tuple of int
        Stride between windows.

    Returns
    -------
    array of shape (n, c * k, windows) or (c * k, windows), for windows of k elements

    Examples
    --------
    >>> agrad.nn.functional.unfold(np.arange(9.0).reshape(1, 1, 3, 3), (2, 2))[0]
    array([[0., 1., 3., 4.],
           [1., 2., 4., 5.],
           [3., 4., 6., 7.],
           [4., 5., 7., 8.]])
    """
    shape = tuple(x.shape)
    if len(shape) not in (3, 4):
        raise ShapeError(f"unfold: x must have shape (n, c, h, w) or (c, h, w), got {shape}")
    windows, counts, pads = _windows("unfold", shape[-2:], kernel_size, dilation, padding, stride)
    if any(pads):
        x = padded(x, [(0, 0)] * (len(shape) - 2) + [(p, p) for p in pads])
    columns = agrad.stack([x[window] for window in windows], axis=-3)
    return agrad.reshape(columns, (*shape[:-3], shape[-3] * len(windows), math.prod(counts)))


@of_array
def fold(
    x: Any,
    /,
    output_size: Lengths,
    kernel_size: Lengths,
    dilation: Lengths = 1,
    padding: Lengths = 0,
    stride: Lengths = 1,
) -> Any:
    """Sum columns into the windows of images, the adjoint of ``unfold``.

    Parameters
    ----------
    x : array of shape (n, c * k, windows) or (c * k, windows), for windows of k elements
    output_size : int or tuple of int
        Lengths of the last two axes of the result.
    kernel_size : int or tuple of int
        Window size.
    dilation : int or tuple of int
        Spacing between the elements of a window.
    padding : int or tuple of int
        Number of elements on both sides that are cropped.
    stride : int or tuple of int
        Stride between windows.

    Returns
    -------
    array of shape (n, c, h, w) or (c, h, w)

    Examples
    --------
    >>> agrad.nn.functional.fold(np.ones((1, 4, 4)), (3, 3), (2, 2))[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]])
    """
    shape, lengths = tuple(x.shape), numbers("fold", "output_size", output_size, 2, 1)
    windows, counts, pads = _windows("fold", lengths, kernel_size, dilation, padding, stride)
    k, count = len(windows), math.prod(counts)
    if len(shape) not in (2, 3) or shape[-2] % k or shape[-1] != count:
        raise ShapeError(
            f"fold: for windows of {k} elements and output_size={lengths}, x must have shape (n, c * {k}, {count}) "
            f"or (c * {k}, {count}), got {shape}"
        )
    lead = (*shape[:-2], shape[-2] // k)
    parts = agrad.unstack(agrad.reshape(x, (*lead, k, *counts)), axis=-3)
    wide = tuple(n + 2 * p for n, p in zip(lengths, pads, strict=True))
    whole = scatter_sum(*parts, indices=tuple(windows), shape=(*lead, *wide))
    return whole[(..., *(slice(p, p + n) for n, p in zip(lengths, pads, strict=True)))] if any(pads) else whole


def _image(name: str, x: Any, factor: Any, what: str) -> tuple[tuple[int, ...], int]:
    shape = tuple(x.shape)
    if len(shape) < 3:
        raise ShapeError(f"{name}: x must have shape (..., c, h, w), got {shape}")
    return shape, numbers(name, what, factor, 1, 1)[0]


@of_array
def pixel_shuffle(x: Any, /, upscale_factor: int) -> Any:
    """Rearrange groups of r**2 channels into images of r times the size.

    Reference: W. Shi et al. (2016), arXiv:1609.05158.

    Parameters
    ----------
    x : array of shape (..., c * r**2, h, w)
    upscale_factor : int
        Factor r.

    Returns
    -------
    array of shape (..., c, h * r, w * r)

    Examples
    --------
    >>> agrad.nn.functional.pixel_shuffle(np.array([[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]), 2)[0, 0]
    array([[1., 2.],
           [3., 4.]])
    """
    (*lead, c, h, w), r = _image("pixel_shuffle", x, upscale_factor, "upscale_factor")
    if c % r**2:
        raise ShapeError(f"pixel_shuffle: number of channels must be a multiple of upscale_factor**2={r**2}, got {c}")
    n = len(lead)
    x = agrad.reshape(x, (*lead, c // r**2, r, r, h, w))
    x = agrad.permute_dims(x, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return agrad.reshape(x, (*lead, c // r**2, h * r, w * r))


@of_array
def pixel_unshuffle(x: Any, /, downscale_factor: int) -> Any:
    """Rearrange blocks of r * r pixels into r**2 channels.

    It is the inverse of ``pixel_shuffle``.

    Parameters
    ----------
    x : array of shape (..., c, h * r, w * r)
    downscale_factor : int
        Factor r.

    Returns
    -------
    array of shape (..., c * r**2, h, w)

    Examples
    --------
    >>> agrad.nn.functional.pixel_unshuffle(np.array([[[[1.0, 2.0], [3.0, 4.0]]]]), 2).ravel()
    array([1., 2., 3., 4.])
    """
    (*lead, c, h, w), r = _image("pixel_unshuffle", x, downscale_factor, "downscale_factor")
    if h % r or w % r:
        raise ShapeError(f"pixel_unshuffle: height and width must be multiples of {r}, got {h} and {w}")
    n = len(lead)
    x = agrad.reshape(x, (*lead, c, h // r, r, w // r, r))
    x = agrad.permute_dims(x, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return agrad.reshape(x, (*lead, c * r**2, h // r, w // r))


@of_array
def channel_shuffle(x: Any, /, groups: int) -> Any:
    """Interleave the channels of all groups.

    Reference: X. Zhang et al. (2018), arXiv:1707.01083.

    Parameters
    ----------
    x : array of shape (n, c, ...) with at least three axes
    groups : int
        Number of groups, of ``c // groups`` channels each.

    Returns
    -------
    array of the same shape

    Examples
    --------
    >>> agrad.nn.functional.channel_shuffle(np.array([[[1.0], [2.0], [3.0], [4.0]]]), 2).ravel()
    array([1., 3., 2., 4.])
    """
    shape, groups = _image("channel_shuffle", x, groups, "groups")
    n, c = shape[:2]
    if c % groups:
        raise ShapeError(f"channel_shuffle: the number of channels must be a multiple of groups={groups}, got {c}")
    x = agrad.reshape(x, (n, groups, c // groups, *shape[2:]))
    return agrad.reshape(agrad.permute_dims(x, (0, 2, 1, *range(3, len(shape) + 1))), shape)


@of_array
def one_hot(x: Any, /, num_classes: int = -1) -> Any:
    """Return the one-hot encoding of class labels.

    Parameters
    ----------
    x : array
        Class labels from 0 to ``num_classes - 1``, of any shape and an integer dtype. Labels in NumPy arrays are
        checked outside ``agrad.jit``. Any other label returns a row of zeros.
    num_classes : int
        Number of classes. By default, the largest label plus 1. It is required under ``jit`` and ``vmap``, because
        shapes cannot depend on values there.

    Returns
    -------
    array of shape (..., num_classes), int64

    Examples
    --------
    >>> agrad.nn.functional.one_hot(np.array([0, 2, 1]))
    array([[1, 0, 0],
           [0, 0, 1],
           [0, 1, 0]])
    """
    if not agrad.isdtype(x.dtype, "integral"):
        raise DtypeError(f"one_hot: x must have an integer dtype, got {x.dtype}")
    if num_classes == -1:
        if 0 in x.shape:
            raise ConfigurationError("one_hot: num_classes must be an integer if x is empty, got None")
        num_classes = int(agrad.max(x)) + 1
    (num_classes,) = numbers("one_hot", "num_classes", num_classes, 1, 1)
    check_numbers("one_hot", "the classes", x, 0, num_classes - 1)
    x = agrad.astype(agrad.expand_dims(x, axis=-1), agrad.int64)
    return agrad.astype(agrad.equal(x, places(num_classes, x)), agrad.int64)
