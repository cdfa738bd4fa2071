"""Random numbers for Dask: each chunk is a task that starts NumPy's Philox at the chunk's own place in the stream."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np

from agrad.backends import host_random
from agrad.backends.dask_words import reshape
from agrad.philox import WIDTHS
from agrad.registry import kernel

_CHUNK = 1 << 20
"""Words of the generator in a chunk, a multiple of 4."""


def _in_chunks(key: Any, shape: tuple[int, ...], dtype: Any, per_word: int, draw: Callable[..., np.ndarray]) -> Any:
    """``draw(key, first word, count)`` for each chunk, put together and brought to ``shape``."""
    n = math.prod(shape)
    task = dask.delayed(draw, pure=True)
    parts = [
        da.from_delayed(task(key, start // per_word, min(_CHUNK * per_word, n - start)), (count,), dtype=dtype)
        for start in range(0, n, _CHUNK * per_word)
        for count in (min(_CHUNK * per_word, n - start),)
    ]
    return reshape(da.concatenate(parts) if parts else da.zeros((0,), dtype=dtype), shape)


def _whole(key: Any, shape: tuple[int, ...], dtype: Any, draw: Callable[..., np.ndarray]) -> Any:
    return da.from_delayed(dask.delayed(draw, pure=True)(key), shape, dtype=dtype)


@kernel("dask", "random_keys", "forward")
def keys(key: Any, *, count: int, domain: int, data: int) -> Any:
    return _whole(key, (count, 4), np.uint32, partial(host_random.keys, count=count, domain=domain, data=data))


@kernel("dask", "random_bits", "forward")
def bits(key: Any, *, shape: tuple[int, ...], dtype: str) -> Any:
    return _in_chunks(key, shape, dtype, 64 // WIDTHS[dtype], partial(host_random.flat_bits, dtype=dtype))


@kernel("dask", "random_uniform", "forward")
def uniform(key: Any, *, shape: tuple[int, ...], dtype: str, interior: bool) -> Any:
    draw = partial(host_random.flat_uniform, dtype=dtype, interior=interior)
    return _in_chunks(key, shape, dtype, 1, draw)


@kernel("dask", "random_mask", "forward")
def mask(key: Any, *, shape: tuple[int, ...], threshold: int) -> Any:
    return _in_chunks(key, shape, np.bool_, 2, partial(host_random.flat_mask, threshold=threshold))


@kernel("dask", "random_integers", "forward")
def integers(key: Any, *, low: int, high: int, shape: tuple[int, ...], dtype: str) -> Any:
    draw = partial(host_random.integers, low=low, high=high, shape=shape, dtype=dtype)
    return _whole(key, shape, dtype, draw)


@kernel("dask", "random_permutation", "forward")
def permutation(key: Any, *, n: int) -> Any:
    return _whole(key, (n,), np.intp, partial(host_random.permutation, n=n))
