"""The word ``convolution`` on NumPy: copies of windows, and BLAS."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from agrad.backends.convolution import Pads, out_lengths

_BLOCK = 1 << 21
"""The bytes of windows that are copied at once, of the order of a second-level cache."""


def _placed(x: Any, padding: Pads, dilation: Sequence[int]) -> Any:
    """Return ``x`` with zeros between its elements and around them; negative paddings cut."""
    if all(d == 1 for d in dilation) and all(low <= 0 and high <= 0 for low, high in padding):
        cuts = [slice(-low, n + high) for n, (low, high) in zip(x.shape[2:], padding, strict=True)]
        return x[(slice(None), slice(None), *cuts)]
    spans = [max((n - 1) * d + 1, 0) for n, d in zip(x.shape[2:], dilation, strict=True)]
    lengths = [n + low + high for n, (low, high) in zip(spans, padding, strict=True)]
    whole = np.zeros((*x.shape[:2], *lengths), x.dtype)
    into: list[Any] = [slice(None)] * 2
    of: list[Any] = [slice(None)] * 2
    for n, (low, high), d in zip(x.shape[2:], padding, dilation, strict=True):
        first = max(-(low // d), 0)
        last = n - max(-(high // d), 0)
        into.append(slice(low + first * d, low + (last - 1) * d + 1, d) if last > first else slice(0, 0))
        of.append(slice(first, last) if last > first else slice(0, 0))
    whole[tuple(into)] = x[tuple(of)]
    return whole


def convolution(
    x: Any,
    w: Any,
    /,
    *,
    strides: Sequence[int],
    padding: Pads,
    x_dilation: Sequence[int],
    w_dilation: Sequence[int],
    groups: int,
) -> Any:
    """Correlate ``x`` of shape (n, c, ...) with ``w`` of shape (o, c // groups, ...)."""
    kernel, out = w.shape[2:], out_lengths(x.shape[2:], w.shape[2:], strides, padding, x_dilation, w_dilation)
    dtype = np.result_type(x, w)
    n, c, rows = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    taps, places = math.prod(kernel), math.prod(out)
    y = np.zeros((n, groups, rows, places), dtype)
    if not y.size or not c * taps:
        return y.reshape(n, groups * rows, *out)
    x = _placed(x, padding, x_dilation)
    step = x.strides[2:]
    windows = as_strided(
        x,
        (n, groups, c, *kernel, *out),
        (
            x.strides[0],
            c * x.strides[1],
            x.strides[1],
            *(s * d for s, d in zip(step, w_dilation, strict=True)),
            *(s * d for s, d in zip(step, strides, strict=True)),
        ),
        writeable=False,
    )
    kernels = w.reshape(groups, rows, c * taps)
    size = max(1, _BLOCK // (groups * c * taps * places * dtype.itemsize))
    if taps > places or (size == 1 and taps * places > 0 and c * taps * places * dtype.itemsize > 64 * _BLOCK):
        return _by_channels(windows, w.reshape(groups, rows, c, taps), y, out)
    m = len(kernel)
    for i in range(0, n, size):
        block = windows[i : i + size]
        if len(block) == 1:
            np.matmul(kernels, block.reshape(groups, c * taps, places), out=y[i])
        else:
            columns = np.moveaxis(block, 0, 3 + m - 1).reshape(groups, c * taps, len(block) * places)
            found = np.matmul(kernels, columns).reshape(groups, rows, len(block), places)
            y[i : i + size] = np.moveaxis(found, 2, 0)
    return y.reshape(n, groups * rows, *out)


def _by_channels(windows: Any, w: Any, y: Any, out: Sequence[int]) -> Any:
    """Add the products of a few channels at a time, for kernels larger than the result."""
    n, groups, rows, places = y.shape
    c, taps = w.shape[2:]
    m = len(out)
    total = np.zeros((groups, rows, n * places), y.dtype)
    size = max(1, _BLOCK // (groups * n * taps * places * y.dtype.itemsize))
    for i in range(0, c, size):
        block = windows[:, :, i : i + size]
        k = block.shape[2]
        # the axes (group, n, place, channel, tap): the taps are the longest runs
        order = (1, 0, *range(3 + m, 3 + 2 * m), 2, *range(3, 3 + m))
        columns = block.transpose(order).reshape(groups, n * places, k * taps)
        total += np.matmul(w[:, :, i : i + size].reshape(groups, rows, k * taps), columns.mT)
    y[...] = np.moveaxis(total.reshape(groups, rows, n, places), 2, 0)
    return y.reshape(n, groups * rows, *out)
