"""Elementwise functions of long arrays in blocks, and checks for kernels.

A block remains in the processor's cache, in which each operation finds the results of the previous one.
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
    """Return True for an array with axes (not a scalar) and a native floating dtype."""
    return x.dtype in BITS and x.ndim > 0


def are_alike(x: Raw, y: Raw) -> bool:
    """Return True if both are such arrays, of the same shape and dtype."""
    return x.dtype in BITS and x.ndim > 0 and y.dtype == x.dtype and y.shape == x.shape


def in_blocks(function: Callable[..., np.ndarray], first: np.ndarray, *others: Raw) -> np.ndarray:
    """Return ``function`` of alike arrays and numbers, in blocks if they are long.

    Threads share the blocks.
    """
    if first.size <= BLOCK:
        return function(first, *others)
    given: list[Raw] = [first, *others]
    arrays = [a for a in given if type(a) is np.ndarray]
    whole = out = np.empty(first.shape, first.dtype)
    if all(a.flags.c_contiguous for a in arrays):
        out, *given = (a.reshape(-1) if type(a) is np.ndarray else a for a in (out, *given))
    # arrays that are not contiguous, because elements repeat along an axis, are cut into whole rows
    elif first.size > BLOCK * first.shape[0] or any(a.strides[0] < max(a.strides) for a in arrays):
        return function(first, *others)
    rows = out.shape[0]

    def fill(part: slice) -> None:
        out[part] = function(*[a[part] if type(a) is np.ndarray else a for a in given])

    at_least = max(2, THREADED * BLOCK_BYTES // (BLOCK * first.dtype.itemsize))
    for_each_part(fill, rows, max(1, BLOCK * rows // out.size), at_least)
    return whole


def for_each_part(fill: Callable[[slice], None], rows: int, step: int, at_least: int = THREADED) -> None:
    """Call ``fill`` with slices of ``step`` rows, on threads if they are many."""

    def work(take: Callable[[], int]) -> None:
        while (start := take() * step) < rows:
            fill(slice(start, start + step))

    run_blocks(work, -(-rows // step), at_least)


def blockwise(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Wrap an elementwise function, with options as keywords, to run by ``in_blocks``."""

    @wraps(function)
    def call(*arrays: Raw, **settings: Any) -> np.ndarray:
        return in_blocks(partial(function, **settings) if settings else function, *arrays)

    return call
