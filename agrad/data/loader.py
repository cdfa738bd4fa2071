"""`DataLoader`: the batches of a data set, in an order that can be continued."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import numpy as np

from agrad.data.collate import default_collate, example, fetched, moved, named
from agrad.data.datasets import Dataset, IterableDataset, set_epoch
from agrad.data.order import positive, whole
from agrad.data.prefetch import prefetch
from agrad.data.samplers import BatchSampler, RandomSampler, SequentialSampler, batch_count
from agrad.errors import ConfigurationError, DataError, OperandError

_END = object()
"""The result of a thread that finds no more examples."""


@dataclass
class _Position:
    """Position of the next batch. `begun` is True if an iterator continues from it."""

    epoch: int = 0
    batch: int = 0
    begun: bool = False


class DataLoader:
    """The batches of a data set.

    Each `iter(loader)` is one epoch. The order of its examples is a function of the seed and the epoch index.
    `state_dict` contains the position of the loop, at any batch. A loader that loads it continues with the same
    batches, bit for bit.

    Parameters
    ----------
    dataset : Dataset or IterableDataset
        The examples: an object with `__len__` and `__getitem__`, or with `__iter__`.
    batch_size : int or None
        Number of examples per batch. If None, the loader does not build batches: it passes each item of the sampler,
        which may be a list of indices, to `dataset[item]`.
    shuffle : bool
        If True, use a different random order in each epoch. If False, keep the order of the data set.
    sampler : Sampler or iterable of int, optional
        Another order. If it has a method `set_epoch(epoch)`, the loader calls it before each epoch.
    batch_sampler : BatchSampler or iterable of lists of int, optional
        Indices of the examples of each batch. Replaces `batch_size`, `shuffle`, `sampler` and `drop_last`.
    num_workers : int
        Number of threads that load batches ahead. 0 loads each batch when it is requested. Threads help if examples are
        read from files, decoded, or computed by libraries that release the global interpreter lock. An
        `IterableDataset` is read by one thread.
    collate_fn : function, optional
        Function from a list of examples to a batch. By default, `default_collate`.
    drop_last : bool
        If True, omit a smaller last batch.
    prefetch_factor : int, optional
        Number of batches that each thread loads ahead. By default, 2.
    seed : int
        Seed of the random order, from 0 to 2**64 - 1.
    backend : str, optional
        Backend to move the arrays of batches to, such as `agrad.get_backend()`. Threads move them ahead. By default,
        arrays remain where they are.
    device : str or device, optional
        Device of that backend.

    Raises
    ------
    ConfigurationError
        If an option is out of range, or two of them exclude each other.
    OperandError
        If `dataset` is not a data set, or an argument cannot be read again in the next epoch.

    Notes
    -----
    The names and meanings follow `torch.utils.data.DataLoader`, with threads instead of processes. An error in a data
    set is raised unchanged, with a note that identifies the example and the data set.

    Examples
    --------
    >>> X, y = np.arange(10.0).reshape(5, 2), np.arange(5)
    >>> loader = agrad.data.DataLoader(agrad.data.TensorDataset(X, y), batch_size=2)
    >>> for x, labels in loader:
    ...     print(x.shape, labels)
    (2, 2) [0 1]
    (2, 2) [2 3]
    (1, 2) [4]
    """

    def __init__(
        self,
        dataset: Dataset | IterableDataset,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch_factor: int | None = None,
        seed: int = 0,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        self.dataset: Dataset | IterableDataset = dataset
        self.batch_size: int | None = batch_size
        self.drop_last: bool = drop_last
        self.collate_fn = collate_fn
        self.backend: str | None = backend
        self.device: Any = device
        self.num_workers: int = whole(num_workers, "num_workers")
        self.seed: int = whole(seed, "seed", 2**64)
        self._depth = self.num_workers * (
            2 if prefetch_factor is None else positive(prefetch_factor, "prefetch_factor")
        )
        if batch_size is not None:
            positive(batch_size, "batch_size")
        # PyTorch's streams have a __getitem__ that only raises
        self._stream = not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"))
        self._check_exclusive(shuffle, sampler, batch_sampler, prefetch_factor)
        if self._stream:
            check_passes(dataset, "dataset", "an object with __iter__, or one with __len__ and __getitem__")
        for thing, name in ((sampler, "sampler"), (batch_sampler, "batch_sampler")):
            if thing is not None:
                check_passes(thing, name)
        moved(np.zeros(1), backend, device)  # a place that is not there is said now
        self._position = _Position()
        if not self._stream and sampler is None and batch_sampler is None:
            sampler = RandomSampler(dataset, seed=self.seed) if shuffle else SequentialSampler(dataset)
        if sampler is not None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler = sampler
        self.batch_sampler: BatchSampler | Iterable[Any] | None = batch_sampler

    def _check_exclusive(self, shuffle: bool, sampler: Any, batch_sampler: Any, prefetch_factor: Any) -> None:
        """Raise an error for options that exclude each other or have no effect."""
        own = {"shuffle": shuffle, "sampler": sampler is not None, "drop_last": self.drop_last}
        others = ["batch_size"] * (self.batch_size != 1) + [name for name, given in own.items() if given]
        if batch_sampler is not None and others:
            raise ConfigurationError(f"DataLoader: batch_sampler replaces {', '.join(others)}. Pass one or the other.")
        if sampler is not None and shuffle:
            raise ConfigurationError("DataLoader: sampler replaces shuffle. Pass one or the other.")
        if self.batch_size is None and self.drop_last:
            raise ConfigurationError("DataLoader: drop_last requires batches, got batch_size=None")
        if prefetch_factor is not None and not self.num_workers:
            raise ConfigurationError("DataLoader: prefetch_factor requires threads. Pass num_workers=1 or more.")
        if self._stream and (shuffle or sampler is not None or batch_sampler is not None):
            kind = type(self.dataset).__name__
            raise ConfigurationError(
                f"DataLoader: shuffle, sampler and batch_sampler require a data set with __getitem__, got {kind}"
            )

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        if self.batch_size is None:
            return len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        return batch_count(len(self.dataset), self.batch_size, self.drop_last)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        at = self._position
        # an epoch that was left in the middle does not go on by itself
        self._position = _Position(at.epoch + 1, 0, True) if at.begun else _Position(at.epoch, at.batch, True)
        return _Epoch(self, self._position)

    def _batches(self, epoch: int, start: int) -> Iterator[Any]:
        """Return an iterator over the batches of an epoch from one on."""
        set_epoch(self.dataset, epoch)
        if self._stream:
            source = iter(self.dataset)
            deque(islice(source, start * (self.batch_size or 1)), maxlen=0)
            tasks: Iterator[Any] = repeat(source)
        else:
            numbers = self.sampler if self.batch_sampler is None else self.batch_sampler
            set_epoch(numbers, epoch)
            tasks = islice(iter(numbers), start, None)
        if self.num_workers:
            return prefetch(self._load, tasks, 1 if self._stream else self.num_workers, self._depth)
        # a generator makes a StopIteration of the data set's own an error, where map would end the epoch
        return (self._load(task) for task in tasks)

    def _load(self, item: Any) -> Any:
        """Return the batch of an item of the sampler, or the next of a stream, where it should be.

        The result is `_END` at the end of a stream.
        """
        if self._stream:
            with named(self.dataset, "an example"):
                examples = list(islice(item, self.batch_size or 1))
            if not examples or (self.drop_last and len(examples) < self.batch_size):
                return _END
            with named(self.dataset, "a batch"):
                batch = self._collated(examples[0]) if self.batch_size is None else self._collated(examples)
        elif self.batch_sampler is None:
            batch = self._collated(example(self.dataset, item))
        else:
            batch = fetched(self.dataset, item, self.collate_fn)
        return moved(batch, self.backend, self.device)

    def _collated(self, examples: Any) -> Any:
        """Return examples as a batch; a single example, without batches, is changed by `collate_fn` only."""
        default = default_collate if self.batch_size is not None else lambda single: single
        return (self.collate_fn or default)(examples)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the position of the newest iterator, as NumPy arrays on the host.

        Returns
        -------
        dict of str to numpy.ndarray
            `epoch`; `batch`, the number of its batches that were returned; `seed`; `batch_size` (0 without batches);
            `drop_last`; `order`, a number for the kind and the options of the samplers; and `batches` and `examples`,
            the numbers of batches of an epoch and of examples, if they are known. All of shape ().

        Examples
        --------
        >>> loader = agrad.data.DataLoader(np.arange(4.0), batch_size=2)
        >>> batch = next(iter(loader))
        >>> state = loader.state_dict()
        >>> int(state["batch"]), int(state["batches"])
        (1, 2)
        """
        at = self._position
        return {"epoch": np.array(at.epoch), "batch": np.array(at.batch)} | self._facts()

    def _facts(self) -> dict[str, np.ndarray]:
        """Return what must be equal where a state is loaded."""
        facts = {
            "seed": np.array(self.seed, np.uint64),
            "batch_size": np.array(self.batch_size or 0),
            "drop_last": np.array(int(self.drop_last)),
            "order": np.array(zlib.crc32(repr([*map(_kind, (self.sampler, self.batch_sampler))]).encode())),
        }
        for name, thing in (("batches", self), ("examples", self.dataset)):
            with contextlib.suppress(TypeError):
                facts[name] = np.array(len(thing))  # type: ignore[arg-type]
        return facts

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the position of a loader with equal data and options.

        The next `iter(loader)` returns the rest of that epoch, which is empty after its last batch.

        Parameters
        ----------
        state : mapping of str to array
            The arrays of `state_dict`.

        Raises
        ------
        DataError
            If the state is not one of a loader with equal options and the same number of examples. Nothing is changed
            then. A state of an older version has only the seed and the number of batches.

        Examples
        --------
        >>> first, second = (agrad.data.DataLoader(np.arange(4.0), batch_size=2) for _ in range(2))
        >>> batches = iter(first)
        >>> _ = next(batches)
        >>> second.load_state_dict(first.state_dict())
        >>> [batch.tolist() for batch in second]
        [[2.0, 3.0]]
        """
        facts = self._facts()
        try:
            found = {name: int(np.asarray(value)) for name, value in state.items()}
        except (TypeError, ValueError) as error:
            raise DataError(f"the state of a DataLoader: expected integers, found others: {error}") from error
        expected = {name: value for name, value in facts.items() if name in found or name in ("seed", "batches")}
        names = {"epoch", "batch", *expected}
        if found.keys() != names or min(found.values()) < 0:
            raise DataError(
                f"the state of a DataLoader: expected {', '.join(sorted(names))} of 0 or more, found "
                + (", ".join(f"{name} = {value}" for name, value in sorted(found.items())) or "nothing")
            )
        for name, value in expected.items():
            if found[name] != int(value):
                raise DataError(
                    f"the state of a DataLoader: expected {name} = {value} as here, found {found[name]}. It belongs "
                    "to other data or options, which would produce other batches."
                )
        self._position = _Position(found["epoch"], found["batch"])


class _Epoch(Iterator[Any]):
    """An iterator over the rest of an epoch, which notes in a position how far it is."""

    def __init__(self, loader: DataLoader, at: _Position) -> None:
        self._loader, self._at = loader, at
        self._process = os.getpid()
        self._batches: Iterator[Any] | None = loader._batches(at.epoch, at.batch)

    def __next__(self) -> Any:
        if self._batches is None:
            raise StopIteration
        if self._process != os.getpid():
            # the threads stayed in the process that this one was forked from
            self._process, self._batches = os.getpid(), self._loader._batches(self._at.epoch, self._at.batch)
        batches, self._batches = self._batches, None
        # an error, or Ctrl-C, ends the iterator and leaves the position at the batch that failed
        batch = next(batches, _END)
        if batch is _END:
            self._at.epoch, self._at.batch, self._at.begun = self._at.epoch + 1, 0, False
            raise StopIteration
        self._batches = batches
        self._at.batch += 1
        return batch


def _kind(sampler: Any) -> tuple[Any, ...]:
    """Return the class of a sampler and the options that choose its order."""
    names = ("seed", "replacement", "num_samples", "batch_size", "drop_last")
    found = [getattr(sampler, name, None) for name in names]
    inner = getattr(sampler, "sampler", None)
    options = [x if isinstance(x, int) else None for x in found]
    return (type(sampler).__name__, *options, *([] if inner is None else [_kind(inner)]))


def check_passes(thing: Any, name: str, wanted: str = "an object with __iter__") -> None:
    """Raise `OperandError` unless an object can be read in each epoch."""
    kind = type(thing).__name__
    if not hasattr(thing, "__iter__"):
        raise OperandError(f"{name} must be {wanted}, got {kind}")
    if hasattr(thing, "__next__"):
        raise OperandError(
            f"{name}: a {kind} is exhausted after one epoch. Pass a list, or an object whose __iter__ starts again."
        )
