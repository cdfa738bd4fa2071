"""The order of examples in training, a function of (seed, epoch) without state.

The orders come from PCG64's raw 64-bit output and a stable sort. NumPy guarantees this output (but not the output of
`Generator.permutation`), so a run can be resumed, or repeated years later, on the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import index

import numpy as np

from agrad.errors import ConfigurationError

__all__ = ["batches", "epoch_order"]

EPOCHS, SPLITS, DRAWS = 0, 1, 2
"""The streams of random numbers, one for each use of a seed."""


def permutation(n: int, seed: int, *stream: int) -> np.ndarray:
    """Return a permutation of range(n), int64, fixed by `seed` and `stream`."""
    raw = bits(seed, *stream).random_raw(whole(n, "n"))
    return np.argsort(raw, kind="stable").astype(np.int64, copy=False)


def bits(seed: int, *stream: int) -> np.random.PCG64:
    """Return a source of random 64-bit integers, fixed by `seed` and `stream`."""
    return np.random.PCG64(np.random.SeedSequence(entropy=whole(seed, "seed", 2**64), spawn_key=stream))


def epoch_order(seed: int, epoch: int, n: int) -> np.ndarray:
    """Return the order of the examples in one epoch.

    It is the same on every machine, so no state needs to be saved.

    Parameters
    ----------
    seed : int
        An integer from 0 to 2**64 - 1.
    epoch : int
        Epoch index, from 0.
    n : int
        Number of examples.

    Returns
    -------
    numpy.ndarray
        A permutation of range(n), int64 of shape (n,).

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> first, second = agrad.data.epoch_order(0, 0, 100), agrad.data.epoch_order(0, 1, 100)
    >>> bool((np.sort(first) == np.arange(100)).all()), bool((first == second).all())
    (True, False)
    """
    return permutation(n, seed, EPOCHS, whole(epoch, "epoch"))


def batches(
    n: int, batch_size: int, *, seed: int, epoch: int, start: int = 0, drop_last: bool = False
) -> Iterator[np.ndarray]:
    """Return an iterator of the shuffled mini-batches of one epoch.

    Every example is in one batch. The last batch is smaller if `batch_size` does not divide `n`.

    Parameters
    ----------
    n : int
        The number of examples.
    batch_size : int
        Number of examples per batch, at least 1.
    seed : int
        An integer from 0 to 2**64 - 1.
    epoch : int
        Epoch index, from 0.
    start : int
        Number of batches to skip, to continue in the middle of an epoch.
    drop_last : bool
        If True, omit a smaller last batch.

    Returns
    -------
    iterator of numpy.ndarray
        Example indices of each batch, int64.

    Raises
    ------
    ConfigurationError
        If a number is out of range. Raised at the call, before the first batch.

    Examples
    --------
    >>> lots = list(agrad.data.batches(5, 2, seed=0, epoch=0))
    >>> [len(lot) for lot in lots], sorted(np.concatenate(lots).tolist())
    ([2, 2, 1], [0, 1, 2, 3, 4])
    """
    positive(batch_size, "batch_size")
    start = whole(start, "start")
    order = epoch_order(seed, epoch, n)
    end = n - n % batch_size if drop_last else n
    return (order[i : i + batch_size] for i in range(start * batch_size, end, batch_size))


def whole(value: int, name: str, end: int | None = None) -> int:
    """Return an integer, checked to be 0 or more and below `end`."""
    try:
        number = index(value)
    except TypeError:
        raise ConfigurationError(f"{name} must be an integer, got {value!r}") from None
    if number < 0:
        raise ConfigurationError(f"{name} must not be negative, got {number}")
    if end is not None and number >= end:
        raise ConfigurationError(f"{name} must be an integer below {end}, got {number}")
    return number


def positive(value: int, name: str) -> int:
    """Return an integer, checked to be 1 or more."""
    if (number := whole(value, name)) == 0:
        raise ConfigurationError(f"{name} must be at least 1, got 0")
    return number
