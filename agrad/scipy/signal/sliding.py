"""Sums of products of a kernel with every window of an array."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import axis_of, is_complex
from agrad.scipy.fft import next_fast_len

LONGEST = 64
"""Elements of the smaller array up to which a convolution is direct if the caller does not set the method."""

MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}
"""Modes of ``agrad.pad`` by mode of ``scipy.ndimage``."""


def padded(x: Tensor, axis: int, before: int, after: int, mode: str, cval: Any = 0.0) -> Tensor:
    """Return ``x`` continued along an axis by a mode of ``scipy.ndimage``."""
    if not before and not after:
        return x
    widths = [(before, after) if i == axis else (0, 0) for i in range(x.ndim)]
    if MODES[mode] == "constant":
        return agrad.pad(x, widths, constant_values=cval)
    return agrad.pad(x, widths, MODES[mode])


EXTENSIONS = {"odd": "mirror", "even": "mirror", "constant": "nearest", "zeros": "constant"}
"""The modes that continue a signal, by the names of ``scipy.signal``; "odd" mirrors at the end's value too."""


def extended(x: Tensor, axis: int, edge: int, kind: str) -> Tensor:
    """Return a signal continued at both ends by an extension of ``scipy.signal``."""
    out = padded(x, axis, edge, edge, EXTENSIONS[kind])
    return 2.0 * padded(x, axis, edge, edge, "nearest") - out if edge and kind == "odd" else out


def windows(x: Tensor, length: int, axis: int) -> Tensor:
    """Return all windows along an axis, their elements on a new last axis."""
    x = agrad.moveaxis(x, axis, -1)
    n = x.shape[-1] - length + 1
    places = np.arange(n)[:, None] + np.arange(length)
    rows = agrad.reshape(agrad.take(x, places.reshape(-1), axis=-1), (*x.shape[:-1], n, length))
    return agrad.moveaxis(rows, -2, axis - 1 if axis < 0 else axis)


def correlated(x: Tensor, kernel: Tensor) -> Tensor:
    """Return the sums of products with ``kernel`` at positions inside the last axes.

    The kernel has as many axes as the windows. Axes of ``x`` before them are batch axes. Nothing is conjugated.
    """
    ndim = kernel.ndim
    # one matrix product for each index of the other axes, so that their number is small
    axis = int(np.argmax(kernel.shape))
    x, kernel = agrad.moveaxis(x, axis - ndim, -1), agrad.moveaxis(kernel, axis, -1)
    *others, length = kernel.shape
    rows = windows(x, length, -1)
    counts = [n - k + 1 for n, k in zip(x.shape[x.ndim - ndim : -1], others, strict=True)]
    total: Any = None
    for place in np.ndindex(*others):
        cut = tuple(slice(i, i + n) for i, n in zip(place, counts, strict=True))
        part = agrad.matmul(rows[(..., *cut, slice(None), slice(None))], kernel[(*place, slice(None))])
        total = part if total is None else total + part
    return agrad.moveaxis(total, -1, axis - ndim)


def transformed(x: Tensor, y: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the full convolution along axes by the Fourier transform.

    The other axes are broadcast.
    """
    if not axes:
        return x * y
    counts = {axis_of(i, x.ndim): x.shape[i] + y.shape[i] - 1 for i in axes}
    axes, lengths = tuple(counts), tuple(next_fast_len(n, real=True) for n in counts.values())
    if is_complex(x):
        out = agrad.fft.ifftn(
            agrad.fft.fftn(x, s=lengths, axes=axes) * agrad.fft.fftn(y, s=lengths, axes=axes), s=lengths, axes=axes
        )
    else:
        product = agrad.fft.rfftn(x, s=lengths, axes=axes) * agrad.fft.rfftn(y, s=lengths, axes=axes)
        out = agrad.fft.irfftn(product, s=lengths, axes=axes)
    return out[tuple(slice(0, counts.get(i)) for i in range(out.ndim))]


def convolved(x: Tensor, kernel: Tensor, method: str = "auto") -> Tensor:
    """Return the full convolution on as many last axes as the kernel has."""
    ndim = kernel.ndim
    if method == "fft" or (method == "auto" and min(x.size, kernel.size) > LONGEST):
        kernel = agrad.reshape(kernel, (*(1,) * (x.ndim - ndim), *kernel.shape))
        return transformed(x, kernel, range(-ndim, 0))
    widths = [(0, 0)] * (x.ndim - ndim) + [(k - 1, k - 1) for k in kernel.shape]
    return correlated(agrad.pad(x, widths), agrad.flip(kernel))


def centered(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the part of ``shape`` in the middle."""
    starts = [(n - k) // 2 for n, k in zip(x.shape, shape, strict=True)]
    return x[tuple(slice(i, i + k) for i, k in zip(starts, shape, strict=True))]


def neighbours(x: Tensor, kernel: Tensor, axes: Sequence[int], mode: str, cval: Any, origins: Sequence[int]) -> Tensor:
    """Return the sums of products of a kernel with the neighbors along axes.

    The result has the shape of ``x``. Nothing is conjugated.
    """
    for axis, n, origin in zip(axes, kernel.shape, origins, strict=True):
        x = padded(x, axis, n // 2 + origin, n - n // 2 - 1 - origin, mode, cval)
    ends = range(-len(axes), 0)
    return agrad.moveaxis(correlated(agrad.moveaxis(x, tuple(axes), tuple(ends)), kernel), tuple(ends), tuple(axes))
