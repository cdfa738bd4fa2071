"""The function ``convolution`` on NumPy: copied windows, multiplied by BLAS.

Windows are copied in blocks that fit into a cache. Adjacent in memory are the channels of an element, or runs of
output positions if these are longer. One product of a block with the kernel computes all output positions of the block.
The derivative with respect to the kernel has few output positions with many elements each. It is a sum of products of
the same blocks.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from agrad.backends.convolution import Windows
from agrad.registry import kernel

_BLOCK = 1 << 20
"""The bytes of windows that are copied at once, half of a second-level cache."""

Raw = Any


@kernel("numpy", "convolution", "namespace", gain=2.4)
def convolution(x: Raw, w: Raw, /, *, how: Windows) -> Raw:
    """Correlate ``x`` of shape (n, c, ...) with ``w`` of shape (o, c // groups, ...)."""
    strides, padding, x_dilation, w_dilation, groups = how
    kernel, out = w.shape[2:], how.lengths(x.shape, w.shape)
    dtype = np.result_type(x, w)
    y = np.empty((x.shape[0], w.shape[0], *out), dtype)
    if not y.size or not w.size or not x.size:
        y[...] = 0
        return y
    for axis, (s, d) in enumerate(zip(strides, x_dilation, strict=True)):
        if d > 1 == s:
            _by_residues(x, w, y, axis, how)
            return y
    low = [p for p, _ in padding]
    if any(d > 1 for d in x_dilation):
        x = _spread(x, x_dilation)
    taps, places, c = math.prod(kernel), math.prod(out), w.shape[1]
    if taps == 1 and not any(chain.from_iterable(padding)):
        part = x[(..., *[slice(None, None, s) for s in strides])].reshape(x.shape[0], groups, c, places)
        np.matmul(w.reshape(groups, -1, c), part, out=y.reshape(x.shape[0], groups, -1, places))
    else:
        fill = _few_places if taps > places else _many_places
        fill(x, w, y, strides, low, w_dilation, groups)
    return y


def _spread(x: Raw, dilation: Sequence[int]) -> Raw:
    """Return ``x`` with zeros between its elements."""
    whole = np.zeros((*x.shape[:2], *((n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation, strict=True))), x.dtype)
    whole[(..., *(slice(None, None, d) for d in dilation))] = x
    return whole


def _by_residues(x: Raw, w: Raw, y: Raw, axis: int, how: Windows) -> None:
    """Fill ``y`` by one convolution for each residue of its positions along an axis.

    None of them reads the zeros between the elements of ``x``.
    """
    n, k, d, e = x.shape[axis + 2], w.shape[axis + 2], how.x_dilation[axis], how.w_dilation[axis]
    low = how.padding[axis][0]
    step = d // math.gcd(d, e)
    for r in range(d):
        part = y[(slice(None),) * (axis + 2) + (slice(r, None, d),)]
        count = part.shape[axis + 2]
        first = next((i for i in range(min(step, k)) if (r + i * e - low) % d == 0), None)
        if first is None or not count:
            part[...] = 0
            continue
        taps, before = -((first - k) // step), -(r + first * e - low) // d
        after = count - n - before + (taps - 1) * (step * e // d)

        def with_axis(values: Sequence[Any], value: Any) -> tuple[Any, ...]:
            return (*values[:axis], value, *values[axis + 1 :])

        each = how._replace(
            padding=with_axis(how.padding, (before, after)),
            x_dilation=with_axis(how.x_dilation, 1),
            w_dilation=with_axis(how.w_dilation, step * e // d),
        )
        part[...] = convolution(x, w[(slice(None),) * (axis + 2) + (slice(first, None, step),)], how=each)


def _windows(
    x: Raw, dtype: Any, low: Sequence[int], outer: Sequence[int], outer_steps: Any, inner: Sequence[int], steps: Any
) -> Iterator[tuple[tuple[slice, slice], Raw]]:
    """Yield the windows of ``x`` in blocks, as matrices for each group, with the slices of a block.

    ``x`` has the axes (groups, n, ..., channels), and a row of a matrix is one window of ``inner`` elements and their
    channels. The slices are of n and of the first axis of the output positions ``outer``.
    """
    spans = zip(outer, outer_steps, inner, steps, strict=True)
    lengths = [(a - 1) * s + (b - 1) * d + 1 for a, s, b, d in spans]
    groups, n, c = x.shape[0], x.shape[1], x.shape[-1]
    into, of = [slice(None)] * 2, [slice(None)] * 2
    for size, before, length in zip(x.shape[2:-1], low, lengths, strict=True):
        start = max(-before, 0)
        stop = max(min(size, length - before), start)
        into.append(slice(start + before, stop + before))
        of.append(slice(start, stop))
    width = math.prod(inner) * c
    each = groups * math.prod(outer) * width * np.dtype(dtype).itemsize
    some = max(1, min(_BLOCK // each, n))
    lines = outer[0] if each <= _BLOCK else max(1, _BLOCK * outer[0] // each)
    by_element = c * inner[-1] < outer[-1]  # the longer runs
    frame = np.zeros((groups, some, c, *lengths) if by_element else (groups, some, *lengths, c), dtype)
    frame = np.moveaxis(frame, 2, -1) if by_element else frame
    columns = np.empty(groups * some * lines * math.prod(outer[1:]) * width, dtype)
    first, second, *strides, last = frame.strides
    strides = [s * k for k, s in zip((*outer_steps, *steps), strides * 2, strict=True)]
    every = as_strided(frame, (groups, some, *outer, *inner, c), (first, second, *strides, last))
    if by_element:
        m = len(outer)
        every = np.moveaxis(every, range(1, m + 2), range(m + 2, 2 * m + 3))
    for i in range(0, n, some):
        part = x[:, i : i + some][tuple(of)]
        count = part.shape[1]
        frame[:, :count][tuple(into)] = part
        for j in range(0, outer[0], lines):
            place = (slice(count), slice(j, j + lines))
            found = every[(..., *place, *[slice(None)] * (m - 1))] if by_element else every[:, *place]
            block = columns[: found.size].reshape(found.shape)
            block[...] = found
            matrices = block.reshape(groups, width, -1).mT if by_element else block.reshape(groups, -1, width)
            yield (slice(i, i + some), place[1]), matrices


def _many_places(
    x: Raw, w: Raw, y: Raw, strides: Sequence[int], low: Sequence[int], w_dilation: Sequence[int], groups: int
) -> None:
    """Fill ``y`` by products of the windows at its positions with the kernel."""
    n, rows, kernel, out = x.shape[0], w.shape[0] // groups, w.shape[2:], y.shape[2:]
    w = np.moveaxis(w.reshape(groups, rows, -1, *kernel), 2, -1).reshape(groups, rows, -1).astype(y.dtype, copy=False)
    x = np.moveaxis(x.reshape(n, groups, -1, *x.shape[2:]), (1, 2), (0, -1))
    whole = np.moveaxis(y.reshape(n, groups, rows, *out), 0, 2)
    for (some, lines), windows in _windows(x, y.dtype, low, out, strides, kernel, w_dilation):
        block = whole[:, :, some, lines]
        block[...] = np.matmul(w, windows.mT).reshape(block.shape)


def _few_places(
    x: Raw, w: Raw, y: Raw, strides: Sequence[int], low: Sequence[int], w_dilation: Sequence[int], groups: int
) -> None:
    """Fill ``y``, as the derivative with respect to a kernel: sum products over the elements of ``w``."""
    n, rows, kernel, out = x.shape[0], w.shape[0] // groups, w.shape[2:], y.shape[2:]
    w = w.reshape(groups, rows, -1, *kernel).astype(y.dtype, copy=False)
    x = np.moveaxis(x.reshape(n, groups, -1, *x.shape[2:]), (1, 2, 0), (0, 1, -1))
    total = np.zeros((groups, rows, math.prod(out) * n), y.dtype)
    for (some, lines), windows in _windows(x, y.dtype, low, kernel, w_dilation, out, strides):
        total += np.matmul(w[:, :, some, lines].reshape(groups, rows, -1), windows)
    y.reshape(n, groups, rows, *out)[...] = np.moveaxis(total.reshape(groups, rows, *out, n), -1, 0)
