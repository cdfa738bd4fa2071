"""Elementwise functions of long arrays in blocks, and checks for kernels' guards.

A block stays in the processor's cache, where each operation finds the results of the previous one.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES, THREADED, run_blocks

Raw = Any

BITS = {np.dtype(f"f{n}"): np.dtype(f"i{n}") for n in (2, 4, 8)}
"""The integer dtype of the width of each native floating dtype."""

BLOCK = 1 << 15
"""The number of elements in a block. Three blocks of float64 fit a level 2 cache of 1 MiB."""


def is_floating(x: Raw) -> bool:
    """Return whether an array has axes (no scalar) and a native floating dtype."""
    return x.dtype in BITS and x.ndim > 0


def are_alike(x: Raw, y: Raw) -> bool:
    """Return whether both are such arrays, of the same shape and dtype."""
    return x.dtype in BITS and x.ndim > 0 and y.dtype == x.dtype and y.shape == x.shape


def in_blocks(function: Callable[..., np.ndarray], first: np.ndarray, *others: Raw) -> np.ndarray:
    """Return ``function`` of alike arrays and numbers, computed in blocks where long."""
    if first.size <= BLOCK:
        return function(first, *others)
    arrays = [a for a in (first, *others) if type(a) is np.ndarray]
    # arrays that are not contiguous, because elements repeat along an axis, are cut into whole rows
    rows = first.size <= BLOCK * first.shape[0] and all(a.strides[0] >= max(a.strides) for a in arrays)
    if not rows and not all(a.flags.c_contiguous for a in arrays):
        return function(first, *others)

    def fill(out: np.ndarray, *parts: np.ndarray) -> None:
        out[...] = function(*parts)

    out = np.empty(first.shape, first.dtype)
    return fill_in_blocks(fill, out, first, *others, block_bytes=BLOCK * first.dtype.itemsize)


def blockwise(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Wrap an elementwise function to run by ``in_blocks``. Settings are its keywords."""

    @wraps(function)
    def call(*arrays: Raw, **settings: Any) -> np.ndarray:
        return in_blocks(partial(function, **settings) if settings else function, *arrays)

    return call


def fill_in_blocks(
    fill: Callable[..., Any], out: np.ndarray, *given: Raw, block_bytes: int = BLOCK_BYTES
) -> np.ndarray:
    """Call ``fill(part of out, *parts of given)`` for all parts, and return ``out``.

    Threads share the parts. ``given`` are numbers and arrays that broadcast to ``out``, which is not empty.
    """
    whole, arrays = out, list(given)
    if all(np.shape(a) in (out.shape, ()) and (not np.ndim(a) or a.flags.c_contiguous) for a in arrays):
        out, *arrays = (a.reshape(-1) if np.ndim(a) else a for a in (out, *arrays))
    while out.shape[0] == 1 < out.ndim:
        arrays = [a[0] if np.ndim(a) == out.ndim else a for a in arrays]
        out = out[0]
    rows = out.shape[0]
    step = max(1, block_bytes * rows // out.nbytes)
    cut = [np.ndim(a) == out.ndim and a.shape[0] == rows for a in arrays]

    def work(take: Callable[[], int]) -> None:
        while (start := take() * step) < rows:
            part = slice(start, start + step)
            fill(out[part], *[a[part] if is_cut else a for a, is_cut in zip(arrays, cut, strict=True)])

    run_blocks(work, -(-rows // step), max(2, THREADED * BLOCK_BYTES // block_bytes))
    return whole
