"""Products on CuPy: ``matmul`` of many rows, and ``convolution``.

A convolution is a copy of all windows, and a product.

CuPy has no cuDNN. The groups of a convolution are a batch of the product.
"""

import math
from collections.abc import Sequence
from typing import Any

import cupy
from cupy.lib.stride_tricks import as_strided

from agrad.backends.convolution import Pads, Windows
from agrad.kernels.cupy.products import product_in_capture
from agrad.registry import kernel

_BLOCK = 1 << 28
"""The bytes of windows that are copied at once."""


def _placed(x: Any, padding: Pads, dilation: Sequence[int]) -> Any:
    """Return ``x`` with zeros between its elements and around them. Negative paddings remove elements."""
    if all(d == 1 for d in dilation) and not any(map(any, padding)):
        return x
    spans = [(n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation, strict=True)]
    whole = cupy.zeros((*x.shape[:2], *(n + a + b for n, (a, b) in zip(spans, padding, strict=True))), x.dtype)
    into, of = [slice(None)] * 2, [slice(None)] * 2
    for n, (low, high), d in zip(x.shape[2:], padding, dilation, strict=True):
        first, last = max(-(low // d), 0), n - max(-(high // d), 0)
        into.append(slice(low + first * d, low + (last - 1) * d + 1, d) if last > first else slice(0, 0))
        of.append(slice(first, last) if last > first else slice(0, 0))
    whole[tuple(into)] = x[tuple(of)]
    return whole


@kernel("cupy", "matmul", "namespace", gain=4.0)
def matmul(x1: Any, x2: Any, /) -> Any:
    """Multiply by one matrix in one product. CuPy would broadcast it to a batch."""
    if x1.ndim > 2 and x2.ndim == 2 and x1.size and x1.shape[-1] == x2.shape[0] and x1.flags.c_contiguous:
        return cupy.matmul(x1.reshape(-1, x1.shape[-1]), x2).reshape(*x1.shape[:-1], x2.shape[1])
    return cupy.matmul(x1, x2)


@kernel("cupy", "convolution", "namespace", gain=16.0)
def convolution(x: Any, w: Any, /, *, how: Windows) -> Any:
    """Correlate ``x`` of shape (n, c, ...) with ``w`` of shape (o, c // groups, ...)."""
    strides, padding, x_dilation, w_dilation, groups = how
    kernel, out = w.shape[2:], how.lengths(x.shape, w.shape)
    dtype, n = cupy.result_type(x, w), x.shape[0]
    if not (x.size and w.size and math.prod(out)):
        return cupy.zeros((n, w.shape[0], *out), dtype)
    x = _placed(x, padding, x_dilation)
    c, rows = x.shape[1] // groups, w.shape[0] // groups
    steps = x.strides[2:]
    windows = as_strided(
        x,
        (groups, c, *kernel, n, *out),
        (
            c * x.strides[1],
            x.strides[1],
            *(s * d for s, d in zip(steps, w_dilation, strict=True)),
            x.strides[0],
            *(s * d for s, d in zip(steps, strides, strict=True)),
        ),
    )
    kernels, taps, places = w.reshape(groups, rows, -1), math.prod(kernel), math.prod(out)
    size = max(1, _BLOCK // (groups * c * taps * places * dtype.itemsize))
    found = []
    for i in range(0, n, size):
        block = windows[(slice(None),) * (2 + len(kernel)) + (slice(i, i + size),)]
        y = product_in_capture(kernels, block.reshape(groups, c * taps, -1))
        found.append(cupy.moveaxis(y.reshape(groups, rows, -1, places), 2, 0).reshape(-1, groups * rows, *out))
    return cupy.ascontiguousarray(found[0]) if len(found) == 1 else cupy.concatenate(found)
