"""The order of examples in training, a function of (seed, epoch) without state.

The orders come from PCG64's raw 64-bit output and a stable sort. NumPy promises that this output never
changes (it makes no such promise for `Generator.permutation`), so a run is resumed, or repeated years
later, on the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import index

import numpy as np

from agrad.errors import ConfigurationError

EPOCHS, SPLITS = 0, 1  # one stream of numbers for each use of a seed


def permutation(n: int, seed: int, *stream: int) -> np.ndarray:
    """Return a permutation of range(n), int64, that `seed` and `stream` fix for ever."""
    n, seed = _whole(n, "n"), _whole(seed, "seed")
    if seed >= 2**64:
        raise ConfigurationError(f"seed: expected an integer below 2**64, found {seed}")
    bits = np.random.PCG64(np.random.SeedSequence(entropy=seed, spawn_key=stream))
    return np.argsort(bits.random_raw(n), kind="stable").astype(np.int64, copy=False)


def epoch_order(seed: int, epoch: int, n: int) -> np.ndarray:
    """Return the order of `n` examples in one epoch, int64 of shape (n,).

    The same (seed, epoch, n) gives the same order on every machine, so there is no state to save.
    Raises `ConfigurationError` for a negative number, or a seed of more than 64 bits.
    """
    return permutation(n, seed, EPOCHS, _whole(epoch, "epoch"))


def batches(
    n: int, batch_size: int, *, seed: int, epoch: int, start: int = 0, drop_last: bool = False
) -> Iterator[np.ndarray]:
    """Return an iterator of the shuffled mini-batches of one epoch, int64 indices.

    Every example comes once; the last batch is smaller where `batch_size` does not divide `n`, or is
    left out with `drop_last`. `start` skips that many batches, to go on in the middle of an epoch.
    Raises `ConfigurationError` (at the call, before the first batch) for a number out of range.
    """
    if _whole(batch_size, "batch_size") == 0:
        raise ConfigurationError("batch_size: expected 1 or more, found 0")
    start = _whole(start, "start")
    order = epoch_order(seed, epoch, n)
    end = n - n % batch_size if drop_last else n
    return (order[i : i + batch_size] for i in range(start * batch_size, end, batch_size))


def _whole(value: int, name: str) -> int:
    try:
        number = index(value)
    except TypeError:
        raise ConfigurationError(f"{name}: expected an integer, found {value!r}") from None
    if number < 0:
        raise ConfigurationError(f"{name}: expected 0 or more, found {number}")
    return number
