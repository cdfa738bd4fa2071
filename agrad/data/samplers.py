"""Orders of example indices, with the names of `torch.utils.data`.

The order of an epoch is a function of the seed and the epoch index, so a run can be resumed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

import numpy as np

from agrad.data.datasets import set_epoch
from agrad.data.order import DRAWS, EPOCHS, bits, permutation, positive, whole
from agrad.errors import ConfigurationError

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip


class Sampler(ABC):
    """Base class of samplers: an order of example indices.

    A custom sampler defines `__iter__`, and `__len__` if the number is known. For equal `self.epoch` it should return
    an equal order, because a resumed loader reads it again. Any iterable can replace a sampler.

    Examples
    --------
    >>> class Evens(agrad.data.Sampler):
    ...     def __iter__(self):
    ...         return iter(range(0, 6, 2))
    >>> loader = agrad.data.DataLoader(np.arange(6.0), batch_size=2, sampler=Evens())
    >>> [batch.tolist() for batch in loader]
    [[0.0, 2.0], [4.0]]
    """

    epoch = 0

    @abstractmethod
    def __iter__(self) -> Iterator[int]:
        """Return an iterator over the example indices of an epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch whose order `__iter__` returns; a `DataLoader` does this.

        Parameters
        ----------
        epoch : int
            Epoch index, from 0.

        Examples
        --------
        >>> sampler = agrad.data.RandomSampler(range(100))
        >>> first = list(sampler)
        >>> sampler.set_epoch(1)
        >>> list(sampler) == first
        False
        """
        self.epoch: int = whole(epoch, "epoch")


class SequentialSampler(Sampler):
    """The order of the data set.

    Parameters
    ----------
    data_source : Dataset
        The data set.

    Examples
    --------
    >>> list(agrad.data.SequentialSampler(["a", "b", "c"]))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))


class RandomSampler(Sampler):
    """A random order of the data set, different in each epoch.

    Parameters
    ----------
    data_source : Dataset
        The data set.
    replacement : bool
        If True, draw with replacement. If False, draw a permutation.
    num_samples : int, optional
        Number of indices to draw. By default, the length of the data set. If a permutation is too short, more follow.
    seed : int
        An integer from 0 to 2**64 - 1.

    Raises
    ------
    ConfigurationError
        If a number is out of range, or the data set is empty and `num_samples` is not 0.

    Examples
    --------
    >>> sampler = agrad.data.RandomSampler(range(100), seed=0)
    >>> sorted(sampler) == list(range(100)), list(sampler) == list(range(100))
    (True, False)
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, *, seed: int = 0
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples: int = len(data_source) if num_samples is None else whole(num_samples, "num_samples")
        self.seed: int = whole(seed, "seed", 2**64)
        if self.num_samples and not len(data_source):
            raise ConfigurationError(f"num_samples must be 0 for an empty data set, got {num_samples}")

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        n, count, epoch = len(self.data_source), self.num_samples, self.epoch
        if self.replacement:
            drawn = bits(self.seed, DRAWS, epoch).random_raw(count) % np.uint64(max(n, 1))
            return iter(drawn.tolist())
        rounds = range(-(-count // n) if n else 0)
        # the first round is `epoch_order`
        orders = (permutation(n, self.seed, EPOCHS, epoch, *([k] if k else [])).tolist() for k in rounds)
        return islice((row for order in orders for row in order), count)


class WeightedRandomSampler(Sampler):
    """Random example indices, drawn in proportion to weights.

    Parameters
    ----------
    weights : sequence of float
        Nonnegative weight of each example, of shape (n,).
    num_samples : int
        Number of indices to draw.
    replacement : bool
        If False, draw no index twice.
    seed : int
        An integer from 0 to 2**64 - 1.

    Raises
    ------
    ConfigurationError
        If a weight is negative or not finite, all are 0, or there are too few for draws without replacement.

    Notes
    -----
    Without replacement, the examples with the smallest e_i / w_i are drawn, where e_i has an exponential distribution:
    Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006, https://doi.org/10.1016/j.ipl.2005.11.003.

    Examples
    --------
    >>> sampler = agrad.data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000, seed=0)
    >>> counts = np.bincount(list(sampler))
    >>> int(counts[0]), bool(2.5 < counts[2] / counts[1] < 3.5)
    (0, True)
    """

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True, *, seed: int = 0) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.num_samples: int = whole(num_samples, "num_samples")
        self.replacement = replacement
        self.seed: int = whole(seed, "seed", 2**64)
        if self.weights.ndim != 1 or not (np.isfinite(self.weights) & (self.weights >= 0)).all():
            raise ConfigurationError(
                f"weights must be finite numbers of 0 or more of shape (n,), got shape {self.weights.shape}"
                + (f" and the smallest {self.weights.min()}" if self.weights.size else "")
            )
        drawable = int(np.count_nonzero(self.weights))
        if self.num_samples > (0 if not drawable else self.num_samples if replacement else drawable):
            raise ConfigurationError(
                f"num_samples: cannot draw {num_samples} examples {'with' if replacement else 'without'} replacement: "
                f"{drawable} have a weight above 0"
            )

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        source = bits(self.seed, DRAWS, self.epoch)
        if not self.replacement:
            with np.errstate(divide="ignore", invalid="ignore"):
                keys = -np.log1p(-_uniform(source, self.weights.size)) / self.weights
            keys[self.weights == 0] = np.inf
            return iter(np.argsort(keys, kind="stable")[: self.num_samples].tolist())
        ends = np.cumsum(self.weights)
        if not ends.size:
            return iter(())
        rows = np.searchsorted(ends, _uniform(source, self.num_samples) * ends[-1], side="right")
        # a product that rounds up to the sum belongs to the last weight above 0
        return iter(np.minimum(rows, np.searchsorted(ends, ends[-1])).tolist())


def _uniform(source: Any, n: int) -> np.ndarray:
    """Return n numbers from 0 to below 1, of 53 random bits each."""
    return np.asarray((source.random_raw(n) >> np.uint64(11)) * 2.0**-53)


class SubsetRandomSampler(Sampler):
    """A random order of some of the examples, different in each epoch.

    Parameters
    ----------
    indices : sequence of int
        The numbers.
    seed : int
        An integer from 0 to 2**64 - 1.

    Examples
    --------
    >>> sorted(agrad.data.SubsetRandomSampler([3, 5, 8]))
    [3, 5, 8]
    """

    def __init__(self, indices: Sequence[int], *, seed: int = 0) -> None:
        self.indices = indices
        self.seed: int = whole(seed, "seed", 2**64)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        order = permutation(len(self), self.seed, EPOCHS, self.epoch).tolist()
        return iter([int(self.indices[place]) for place in order])


class BatchSampler(Sampler):
    """The indices of another sampler, in lists of equal length.

    Parameters
    ----------
    sampler : Sampler or iterable of int
        The order.
    batch_size : int
        Number of indices per list, at least 1.
    drop_last : bool
        If True, omit a shorter last list.

    Raises
    ------
    ConfigurationError
        If `batch_size` is not an integer of at least 1.

    Examples
    --------
    >>> list(agrad.data.BatchSampler(agrad.data.SequentialSampler(range(5)), batch_size=2))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        self.batch_size: int = positive(batch_size, "batch_size")
        self.sampler: Iterable[int] = sampler
        self.drop_last: bool = drop_last

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the sampler, if it defines `set_epoch`.

        Parameters
        ----------
        epoch : int
            Epoch index, from 0.
        """
        super().set_epoch(epoch)
        set_epoch(self.sampler, epoch)

    def __len__(self) -> int:
        return batch_count(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[list[int]]:  # type: ignore[override]
        # begun here and not at the first list, because the sampler may be told another epoch until then
        return in_batches(iter(self.sampler), self.batch_size, self.drop_last)


def batch_count(n: int, batch_size: int, drop_last: bool) -> int:
    """Return the number of batches of n examples."""
    return n // batch_size if drop_last else -(-n // batch_size)


def in_batches(items: Iterator[Any], batch_size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Yield the items in lists of equal length; the last one may be shorter."""
    while batch := list(islice(items, batch_size)):
        if len(batch) == batch_size or not drop_last:
            yield batch
