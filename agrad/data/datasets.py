"""Data sets of single examples, their parts and joins, with PyTorch names."""

from __future__ import annotations

import bisect
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

import agrad
from agrad.data.order import SPLITS, permutation
from agrad.errors import ConfigurationError, DtypeError, IndexRangeError, OperandError, ShapeError

__all__ = ["ConcatDataset", "Dataset", "IterableDataset", "Subset", "TensorDataset", "random_split"]


@runtime_checkable
class Dataset(Protocol):
    """Base class of data sets: objects with a length and an example per index.

    A list is a data set. A custom data set may derive from this class but need not. An example is a number, a string,
    an array of any backend or a pytree of these. If it has a method `__getitems__(indices)`, which returns a list of
    examples, the loader requests all examples of a batch at once. If it has a method `set_epoch(epoch)`, the loader
    calls it before each epoch.

    Examples
    --------
    >>> class Squares(agrad.data.Dataset):
    ...     def __len__(self):
    ...         return 5
    ...     def __getitem__(self, index):
    ...         return float(index**2)
    >>> [batch.tolist() for batch in agrad.data.DataLoader(Squares(), batch_size=2)]
    [[0.0, 1.0], [4.0, 9.0], [16.0]]
    """

    if not TYPE_CHECKING:  # which would take it for a part of the protocol

        def __init__(self) -> None:
            """Do nothing; a protocol's own would take any arguments."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of examples."""

    @abstractmethod
    def __getitem__(self, index: int, /) -> Any:
        """Return the example with a number."""


@runtime_checkable
class IterableDataset(Protocol):
    """Any iterable that returns its examples one after the other, such as a stream.

    `__iter__` starts again at each call: an epoch is one pass. A custom data set may derive from this class but need
    not. If it has a method `set_epoch(epoch)`, the loader calls it before each epoch.

    Examples
    --------
    >>> class Halves(agrad.data.IterableDataset):
    ...     def __iter__(self):
    ...         return (0.5**n for n in range(4))
    >>> [batch.tolist() for batch in agrad.data.DataLoader(Halves(), batch_size=2)]
    [[1.0, 0.5], [0.25, 0.125]]
    """

    if not TYPE_CHECKING:  # which would take it for a part of the protocol

        def __init__(self) -> None:
            """Do nothing; a protocol's own would take any arguments."""

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the examples."""


class TensorDataset:
    """A data set of arrays: example i is the tuple of their entries i.

    A `DataLoader` with the default `collate_fn` reads a batch with one operation for each array.

    Parameters
    ----------
    *tensors : array or Tensor
        Arrays of any backend, of shapes (n, ...) with the same n.

    Raises
    ------
    OperandError
        If an argument is not an array.
    ShapeError
        If one has no axes, or another length than the first.

    Examples
    --------
    >>> data = agrad.data.TensorDataset(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1]))
    >>> x, label = data[1]
    >>> x, int(label)
    (array([3., 4.]), 1)
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise OperandError("TensorDataset: at least one array must be passed, got none")
        for place, x in enumerate(tensors):
            if not hasattr(x, "shape") or not hasattr(x, "dtype"):
                raise OperandError(
                    f"TensorDataset: argument {place} must be an array, got {type(x).__name__}. Convert it, for "
                    "example with numpy.asarray."
                )
            if not x.shape or x.shape[0] != tensors[0].shape[0]:
                raise ShapeError(
                    "TensorDataset: arrays must have the same length, got argument 0 of shape "
                    f"{tuple(tensors[0].shape)} and argument {place} of shape {tuple(x.shape)}"
                )
        self.tensors = tensors

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(x[index, ...] if x.ndim > 1 else x[index] for x in self.tensors)


def rows_of(x: Any, rows: np.ndarray) -> Any:
    """Return the entries of an array with these indices, as a new array."""
    if isinstance(x, np.ndarray):
        return x.take(rows, axis=0)
    like = agrad.asarray(x)
    return agrad.take(x, agrad.asarray(rows, backend=like.backend, device=like.device).raw, axis=0)


def checked(indices: Any, n: int) -> np.ndarray:
    """Return example indices as int64 from 0 to n - 1.

    Negative ones count from the end. Raises `IndexRangeError` for others, which some libraries would clip, and
    `DtypeError` for indices that are not integers.
    """
    rows = np.asarray(indices)
    if rows.size and rows.dtype.kind not in "iu":
        raise DtypeError(f"example indices must be integers, got dtype {rows.dtype}")
    rows = rows.astype(np.int64, copy=False)
    wrong = (rows < -n) | (rows >= n)
    if wrong.any():
        raise IndexRangeError(f"example indices must be less than {n}, got {rows[wrong][0]}")
    return np.where(rows < 0, rows + n, rows)


class Subset:
    """A part of a data set: example i is example `indices[i]` of the whole.

    Parameters
    ----------
    dataset : Dataset
        The whole.
    indices : sequence of int
        Indices of the examples, of shape (n,).

    Raises
    ------
    IndexRangeError
        If an index is out of range.
    DtypeError
        If an index is not an integer.

    Examples
    --------
    >>> part = agrad.data.Subset(["a", "b", "c"], [2, 0])
    >>> len(part), part[0]
    (2, 'c')
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices: np.ndarray = checked(indices, len(dataset))

    def __len__(self) -> int:
        return int(self.indices.shape[0])

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch index to the whole data set, if it defines `set_epoch`.

        Parameters
        ----------
        epoch : int
            Epoch index, from 0.
        """
        set_epoch(self.dataset, epoch)


class ConcatDataset:
    """Several data sets as one, one after the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        At least one data set.

    Raises
    ------
    ConfigurationError
        If there is none.

    Examples
    --------
    >>> both = agrad.data.ConcatDataset([["a", "b"], ["c"]])
    >>> len(both), both[2]
    (3, 'c')
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets: list[Dataset] = list(datasets)
        if not self.datasets:
            raise ConfigurationError("ConcatDataset: datasets must contain at least one data set, got none")
        self.cumulative_sizes: list[int] = list(itertools.accumulate(len(part) for part in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        row = int(checked(index, len(self)))
        part = bisect.bisect_right(self.cumulative_sizes, row)
        return self.datasets[part][row - (self.cumulative_sizes[part - 1] if part else 0)]

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch index to the data sets that define `set_epoch`.

        Parameters
        ----------
        epoch : int
            Epoch index, from 0.
        """
        for part in self.datasets:
            set_epoch(part, epoch)


def set_epoch(thing: Any, epoch: int) -> None:
    """Pass the epoch index to an object that defines `set_epoch`."""
    set_epoch = getattr(thing, "set_epoch", None)
    if set_epoch is not None:
        set_epoch(epoch)


def random_split(dataset: Dataset, lengths: Sequence[float], *, seed: int = 0) -> list[Subset]:
    """Split a data set into parts of given sizes, at random and without overlap.

    The split depends only on the number of examples, `lengths` and `seed`.

    Parameters
    ----------
    dataset : Dataset
        The whole.
    lengths : sequence of int or of float
        Lengths of the parts, which add up to the length of `dataset`, or their fractions, which add up to 1. Fractions
        are rounded down, and the remainder goes to the first parts, one example each.
    seed : int
        An integer from 0 to 2**64 - 1.

    Returns
    -------
    list of Subset
        The parts.

    Raises
    ------
    ConfigurationError
        If a length is negative, or the sum has another value.

    Examples
    --------
    >>> train, test = agrad.data.random_split(list(range(10)), [0.8, 0.2], seed=0)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    n = len(dataset)
    sizes = list(lengths)
    shares = bool(sizes) and math.isclose(sum(sizes), 1.0, abs_tol=1e-9) and not all(isinstance(s, int) for s in sizes)
    if any(not size >= 0 for size in sizes):
        raise ConfigurationError(f"random_split: lengths must not be negative, got {sizes}")
    if shares:
        sizes = [math.floor(n * share) for share in sizes]
        left = n - sum(sizes)
        sizes = [size + (place < left) for place, size in enumerate(sizes)]
    if sum(sizes) != n or not all(float(size).is_integer() for size in sizes):
        raise ConfigurationError(
            f"random_split: lengths must add up to {n}, the number of examples, or be fractions that add up to 1, got "
            f"{list(lengths)}"
        )
    ends = np.cumsum([int(size) for size in sizes])
    return [Subset(dataset, rows) for rows in np.split(permutation(n, seed, SPLITS), ends[:-1])]
