"""The derivative of maxima of windows on NumPy.

It is computed from running maxima, in blocks that fit into a cache, on threads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES
from agrad.kernels.numpy.blocks import BITS, for_each_part
from agrad.registry import kernel
from agrad.shapes import window_places

Raw = Any
Steps = tuple[int, ...]


def _is_plain(*arrays: Raw) -> bool:
    return all(type(a) is np.ndarray and a.dtype in BITS and a.size for a in arrays)


def _by_rows(fill: Callable[..., None], out: Raw, *given: Raw, axes: int) -> Raw:
    """Call ``fill`` for blocks of the leading axes of all arrays, and return ``out``."""
    arrays = [a.reshape(-1, *a.shape[a.ndim - axes :]) for a in (out, *given)]
    rows = len(arrays[0])
    step = max(1, BLOCK_BYTES * rows // max(a.nbytes for a in arrays))
    for_each_part(lambda part: fill(*[a[part] for a in arrays]), rows, step)
    return out


def _running(ufunc: np.ufunc, x: Raw, *how: int) -> Raw:
    """Return the maxima or sums of windows along one axis."""
    first, *others = window_places(x.shape, *how)
    y = x[first]
    for i, place in enumerate(others):
        y = ufunc(y, x[place], out=y if i else None)
    return y


@kernel("numpy", "max_pool", "vjp:x", gain=2.5, when=lambda g, x, y: _is_plain(g, x, y) and g.dtype == x.dtype)
def max_pool_vjp(g: Raw, x: Raw, y: Raw, *, kernel: Steps, strides: Steps, dilation: Steps) -> Raw:
    m = len(kernel)
    axes = list(enumerate(zip(kernel, strides, dilation, strict=True), 1))

    def fill(out: Raw, g: Raw, x: Raw, y: Raw) -> None:
        arrays = [x]
        for axis, how in reversed(axes[1:]):
            arrays.append(_running(np.maximum, arrays[-1], axis, *how))
        for (axis, how), before, after in zip(axes, reversed(arrays), [y, *reversed(arrays[1:])], strict=True):
            into = out if before is x else np.empty(before.shape, before.dtype)
            _spread(g, before, after, into, window_places(before.shape, axis, *how), _tiles(before.shape[axis], *how))
            g = into

    return _by_rows(fill, np.empty(x.shape, x.dtype), g, x, y, axes=m)


def _tiles(n: int, length: int, step: int, dilation: int) -> bool:
    """Return True if each element of an axis is in one window."""
    return n % length == 0 and step == length and dilation == 1


def _spread(g: Raw, x: Raw, y: Raw, out: Raw, places: list[Any], tiles: bool) -> None:
    """Write the cotangents of windows into ``out`` at the first element that is the maximum.

    Bits are multiplied, because infinite cotangents times zero are not zero.
    """
    if not tiles:
        out[...] = 0
    bits = BITS[g.dtype]
    rest, nan = g.view(bits), bool(np.isnan(y).any())
    for i, place in enumerate(places):
        part = rest
        if i < len(places) - 1:
            hit = np.equal(x[place], y)
            if nan:
                hit |= np.isnan(x[place])
            part = np.multiply(hit.view(np.int8), rest)
            rest = np.bitwise_xor(rest, part, out=rest if i else None)
        if tiles:
            out[place].view(bits)[...] = part
        else:
            out[place] += part.view(g.dtype)
