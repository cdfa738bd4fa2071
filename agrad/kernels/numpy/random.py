"""Random numbers on the host, from the Philox generator of NumPy.

They have the bits that ``agrad.philox`` defines. NumPy has the same generator in C (``numpy.random.Philox``, whose raw
output NumPy promises never to change). It is several times faster than array operations, and serves every backend
whose arrays are in the host's memory.
"""

import math
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from agrad import philox
from agrad.registry import PRIMITIVES, kernel

_BLOCK = 1 << 14
"""Words drawn at a time, a multiple of 4. Arrays of this length fit into the processor's cache."""


class _Own(threading.local):
    """Two generators for each thread.

    Creating a generator needs ten times as long as setting its state.
    """

    def __init__(self) -> None:
        self.pair = np.random.Philox(key=0), np.random.Philox(key=0)


_own = _Own()
_NO_BUFFER = np.zeros(4, np.uint64)


def _generator(
    key: Any, *, first: int = 0, domain: int = philox.DRAWS, data: int = 0, second: bool = False
) -> np.random.Philox:
    """Return one of this thread's generators, set to the word ``first`` of a key.

    ``first`` is a multiple of 4, ``key`` is uint32 of shape (4,).
    """
    words = np.ascontiguousarray(key, dtype="<u4").view("<u8")
    counter = ((first >> 2) | (data << 64) | (domain << 192)) - 1  # NumPy counts up before each block
    parts = [(counter >> shift) & (2**64 - 1) for shift in (0, 64, 128, 192)]
    generator = _own.pair[second]
    generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": np.array(parts, np.uint64), "key": words},
        "buffer": _NO_BUFFER,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return generator


def stream(key: Any, first: int = 0) -> philox.Stream:
    """Return the stream of a key from the word ``first`` on, a multiple of 4."""

    def words(count: int, domain: int = philox.DRAWS, data: int = 0) -> Any:
        return _generator(key, first=first, domain=domain, data=data).random_raw(count).view(np.int64)

    return words


def flat_bits(key: Any, first: int, n: int, dtype: str) -> np.ndarray:
    """Return ``philox.bits`` (n,) from the word ``first`` on, a multiple of 4."""
    words = _generator(key, first=first).random_raw(-(-n * philox.WIDTHS[dtype] // 64))
    cut = words.astype("<u8", copy=False).view(f"<u{philox.WIDTHS[dtype] // 8}")[:n]
    return cut.astype(dtype, copy=False)


def flat_uniform(key: Any, first: int, n: int, dtype: str, interior: bool) -> np.ndarray:
    """Return ``philox.uniform`` (n,) from the word ``first`` on, a multiple of 4."""
    out, generator = np.empty(n, dtype), _generator(key, first=first)
    for start in range(0, n, _BLOCK):
        _fill_uniform(generator, out[start : start + _BLOCK], interior)
    return out


def _fill_uniform(generator: np.random.Philox, out: np.ndarray, interior: bool) -> None:
    shift, offset, scale = philox.scaling(out.dtype.name, interior)
    words = generator.random_raw(out.size)
    np.right_shift(words, np.uint64(shift), out=words)
    # the words are below 2**63 now, and signed integers are converted faster
    np.copyto(out, words.view(np.int64), casting="same_kind")
    if interior:
        out += offset
    out *= scale


def flat_mask(key: Any, first: int, n: int, threshold: int) -> np.ndarray:
    """Return ``philox.mask`` (n,) from the word ``first`` on, a multiple of 4."""
    if threshold >> 32:
        return np.ones(n, np.bool_)
    return flat_bits(key, first, n, "uint32") < np.uint32(threshold)


@kernel("numpy", "random_keys", "forward", gain=53.0)
def keys(key: Any, *, count: int, domain: int, data: int) -> np.ndarray:
    words = _generator(key, domain=domain, data=data).random_raw(2 * count)
    return words.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False).reshape(count, 4)


@kernel("numpy", "random_bits", "forward", gain=51.0)
def bits(key: Any, *, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return flat_bits(key, 0, math.prod(shape), dtype).reshape(shape)


@kernel("numpy", "random_uniform", "forward", gain=25.0)
def uniform(key: Any, *, shape: tuple[int, ...], dtype: str, interior: bool) -> np.ndarray:
    return flat_uniform(key, 0, math.prod(shape), dtype, interior).reshape(shape)


@kernel("numpy", "random_mask", "forward", gain=41.0)
def mask(key: Any, *, shape: tuple[int, ...], threshold: int) -> np.ndarray:
    return flat_mask(key, 0, math.prod(shape), threshold).reshape(shape)


@kernel("numpy", "random_integers", "forward", gain=17.0)
def integers(key: Any, *, low: int, high: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    n = math.prod(shape)
    out = np.empty(n, dtype)
    for start in range(0, n, _BLOCK):
        part = out[start : start + _BLOCK]
        part[...] = philox.integers(np, stream(key, start), low, high, part.shape, dtype)
    return out.reshape(shape)


@kernel("numpy", "random_permutation", "forward", gain=38.0)
def permutation(key: Any, *, n: int) -> np.ndarray:
    return np.argsort(stream(key)(n), stable=True)


def log_gamma(key: Any, alpha: Any) -> np.ndarray:
    """Draw logarithms of gamma-distributed numbers by the generic form on NumPy.

    The form branches on values, which a traced library does not have.
    """
    return PRIMITIVES["random_log_gamma"].raw[np.ndarray](key, alpha)


@kernel("numpy", "random_normal", "forward", gain=1.2)
def normal(key: Any, *, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Draw by the Box-Muller transform, block by block.

    Each pair of uniform numbers is half the words apart.
    """
    n = math.prod(shape)
    half = philox.half(n)
    out = np.empty(n, dtype)
    lengths, angles = _generator(key), _generator(key, first=half, second=True)
    r, angle = np.empty((2, min(_BLOCK, half)), dtype)
    for start in range(0, half, _BLOCK):
        size = min(_BLOCK, half - start)
        r, angle = r[:size], angle[:size]
        _fill_uniform(lengths, r, False)
        _fill_uniform(angles, angle, False)
        np.negative(r, out=r)
        np.log1p(r, out=r)
        r *= -2
        np.sqrt(r, out=r)
        angle *= 2 * math.pi
        for turn, at in ((np.cos, start), (np.sin, half + start)):
            into = out[at : at + size]
            turn(angle[: into.size], out=into)
            into *= r[: into.size]
    return out.reshape(shape)


def file_draws(backend: str, draw: Callable[..., Any], on_host: Callable[..., bool]) -> None:
    """Register ``draw(name, key, **settings)`` for all draws of a backend.

    Composed draws use it only if ``on_host(*arrays)`` is True: the arrays are in the host's memory.
    """
    for function in (keys, bits, uniform, mask, integers, permutation, normal, log_gamma):
        name = function.__name__
        when = on_host if function in (normal, log_gamma) else None
        kernel(backend, f"random_{name}", "forward", when)(wraps(function)(partial(draw, name)))
