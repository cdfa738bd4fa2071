"""1-D, 2-D and 3-D convolutions and transposed convolutions."""

from collections.abc import Sequence
from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import numbers
from agrad.nn.functional.real import on_axes
from agrad.ops.convolution import Windows, convolution
from agrad.ops.definition import of_first

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Lengths = int | Sequence[int]


def _checked(name: str, x: Any, weight: Any, groups: Any, spatial: int, channels: int) -> int:
    """Check shapes and dtypes and return the groups; ``channels`` is the axis of the weight for ``x``."""
    groups = numbers(name, "groups", groups, 1, 1)[0]
    shape, kernel = tuple(x.shape), tuple(weight.shape)
    if len(shape) not in (spatial + 1, spatial + 2) or len(kernel) != spatial + 2:
        raise ShapeError(
            f"{name}: input must have shape (n, c, ...) or (c, ...) and weight (o, c, ...) with {spatial} spatial axes "
            f"each, got {shape} and {kernel}"
        )
    if kernel[0] % groups:
        raise ShapeError(f"{name}: the first axis of weight must be a multiple of groups={groups}, got {kernel[0]}")
    takes = kernel[0] if channels == 0 else kernel[1] * groups
    if shape[-spatial - 1] != takes:
        raise ShapeError(
            f"{name}: for a weight of shape {kernel} and groups={groups}, input must have {takes} channels, got "
            f"{shape[-spatial - 1]} in shape {shape}"
        )
    for array in (x, weight):
        if "float" not in str(array.dtype) and "complex" not in str(array.dtype):
            raise DtypeError(f"{name}: arrays must be floating-point, got {array.dtype}. Cast them with agrad.astype.")
    if str(x.dtype).rsplit(".")[-1] != str(weight.dtype).rsplit(".")[-1]:
        raise DtypeError(f"{name}: input and weight must have the same dtype, got {x.dtype} and {weight.dtype}")
    return groups


def _pads(name: str, padding: Any, spans: list[int], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    if padding == "same":
        if any(s != 1 for s in strides):
            raise ConfigurationError(f"{name}: padding='same' requires stride 1, got {strides}")
        return [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in spans]
    if padding == "valid":
        return [(0, 0)] * len(spans)
    return [(p, p) for p in numbers(name, "padding", padding, len(spans), 0)]


def _correlated(x: Any, weight: Any, bias: Any, spatial: int, how: Windows) -> Any:
    """Return the correlation of a batch, or of one input, plus a bias."""
    single = len(x.shape) == spatial + 1
    y = convolution(agrad.expand_dims(x, axis=0) if single else x, weight, how=how)
    if bias is not None:
        y = agrad.add(y, agrad.reshape(bias, (-1, *(1,) * spatial)))
    return y[0, ...] if single else y


def _conv(
    spatial: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Lengths = 1,
    padding: Any = 0,
    dilation: Lengths = 1,
    groups: int = 1,
) -> agrad.Tensor:
    """Compute the {n}-D cross-correlation of an input with kernels.

    Parameters
    ----------
    x : array of shape (n, c, {axes}) or (c, {axes}), and a floating-point dtype
    weight : array
        Kernels of shape (o, c // groups, {kernel}) and the dtype of ``x``.
    bias : array of shape (o,), added to each channel, optional
    stride : int or tuple of int
        Stride between the positions of a kernel.
    padding : int, tuple of int, "valid" or "same"
        Number of zeros on both sides. ``"same"`` keeps the lengths and requires stride 1.
    dilation : int or tuple of int
        Spacing between the elements of a kernel.
    groups : int
        Number of groups of channels, each with separate kernels.

    Returns
    -------
    array
        Array of shape (n, o, ...) or (o, ...), of lengths
        ``(length + 2 * padding - dilation * (k - 1) - 1) // stride + 1``.

    Examples
    --------
    >>> x, weight = np.array([[[1.0, 2.0, 4.0, 8.0]]]), np.array([[[-1.0, 1.0]]])
    >>> agrad.nn.functional.conv1d(x, weight)
    array([[[1., 2., 4.]]])
    >>> x, weight = np.arange(9.0).reshape(1, 1, 3, 3), np.ones((1, 1, 2, 2))
    >>> agrad.nn.functional.conv2d(x, weight)[0, 0]
    array([[ 8., 12.],
           [20., 24.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.conv2d(x, weight).sum())(x)[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]])
    >>> agrad.nn.functional.conv3d(np.ones((1, 2, 4, 5, 6)), np.ones((3, 2, 2, 2, 2))).shape
    (1, 3, 3, 4, 5)
    """
    name = f"conv{spatial}d"
    groups = _checked(name, x, weight, groups, spatial, 1)
    strides = numbers(name, "stride", stride, spatial, 1)
    dilations = numbers(name, "dilation", dilation, spatial, 1)
    spans = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    pads = _pads(name, padding, spans, strides)
    lengths = tuple(x.shape)[-spatial:]
    if any(n + low + high < k for n, k, (low, high) in zip(lengths, spans, pads, strict=True)):
        raise ShapeError(f"{name}: the dilated kernel {tuple(spans)} must fit into the padded input of {lengths}")
    how = Windows(strides, tuple(pads), (1,) * spatial, dilations, groups)
    return _correlated(x, weight, bias, spatial, how)


def _conv_transpose(
    spatial: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Lengths = 1,
    padding: Lengths = 0,
    output_padding: Lengths = 0,
    groups: int = 1,
    dilation: Lengths = 1,
) -> agrad.Tensor:
    """Compute the {n}-D transposed convolution of an input with kernels.

    It is the VJP function of ``conv{n}d`` with respect to its input.

    Parameters
    ----------
    x : array of shape (n, c, {axes}) or (c, {axes}), and a floating-point dtype
    weight : array
        Kernels of shape (c, o // groups, {kernel}) and the dtype of ``x``.
    bias : array of shape (o,), added to each channel, optional
    stride, padding : int or tuple of int
        Same as for ``conv{n}d``.
    output_padding : int or tuple of int
        Number of elements to add at the end of each axis, less than the stride or the dilation.
    groups : int
        Number of groups of channels, each with separate kernels.
    dilation : int or tuple of int
        Same as for ``conv{n}d``.

    Returns
    -------
    array
        Array of shape (n, o, ...) or (o, ...), of lengths
        ``(length - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1``.

    Examples
    --------
    >>> x, weight = np.array([[[1.0, 10.0]]]), np.array([[[1.0, 2.0]]])
    >>> agrad.nn.functional.conv_transpose1d(x, weight, stride=2)
    array([[[ 1.,  2., 10., 20.]]])
    >>> x, weight = np.ones((1, 1, 2, 2)), np.ones((1, 1, 2, 2))
    >>> agrad.nn.functional.conv_transpose2d(x, weight)[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]])
    >>> x, weight = np.ones((1, 2, 2, 3, 4)), np.ones((2, 5, 2, 2, 2))
    >>> agrad.nn.functional.conv_transpose3d(x, weight, stride=2).shape
    (1, 5, 4, 6, 8)
    """
    name = f"conv_transpose{spatial}d"
    groups = _checked(name, x, weight, groups, spatial, 0)
    strides, dilations = numbers(name, "stride", stride, spatial, 1), numbers(name, "dilation", dilation, spatial, 1)
    paddings, extra = (
        numbers(name, "padding", padding, spatial, 0),
        numbers(name, "output_padding", output_padding, spatial, 0),
    )
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise ConfigurationError(f"{name}: output_padding must be less than stride={strides} or dilation, got {extra}")
    spans = [(k - 1) * d for k, d in zip(weight.shape[2:], dilations, strict=True)]
    c, rows, *kernel = weight.shape
    weight = agrad.moveaxis(agrad.reshape(weight, (groups, c // groups, rows, *kernel)), 2, 1)
    weight = agrad.flip(agrad.reshape(weight, (groups * rows, c // groups, *kernel)), axis=tuple(range(2, spatial + 2)))
    lengths = [
        (n - 1) * s - 2 * p + k + e + 1
        for n, s, p, k, e in zip(tuple(x.shape)[-spatial:], strides, paddings, spans, extra, strict=True)
    ]
    if any(n < 0 for n in lengths):
        raise ShapeError(f"{name}: lengths of the result must be at least 0, got {tuple(lengths)}. Reduce the padding.")
    # an axis of length 0 is computed with length 1, because libraries do not support empty results
    extra = tuple([e + (n == 0) for e, n in zip(extra, lengths, strict=True)])
    pads = tuple((k - p, k - p + e) for k, p, e in zip(spans, paddings, extra, strict=True))
    y = _correlated(x, weight, bias, spatial, Windows((1,) * spatial, pads, strides, dilations, groups))
    return y if all(lengths) else y[(..., *map(slice, lengths))]


conv1d, conv2d, conv3d = map(of_first, on_axes(_conv))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(of_first, on_axes(_conv_transpose))
