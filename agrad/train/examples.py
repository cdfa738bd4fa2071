"""User data: checked pytrees of arrays, their parts, and batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

import agrad
from agrad import data, tree
from agrad.backends import backend_of_type
from agrad.backends.base import DeviceSpec
from agrad.data.loader import check_passes
from agrad.data.order import SPLITS, permutation
from agrad.errors import ConfigurationError, DataError, DtypeError, OperandError, ShapeError
from agrad.parallel import World
from agrad.train.batches import Feed

FLOATING = "real floating"
ALONE = World()


def is_examples(value: Any) -> bool:
    """Return True for an array or a pytree of arrays, False for batches."""
    if isinstance(value, dict) or hasattr(value, "shape") or hasattr(value, "__array__"):
        return True
    return isinstance(value, list | tuple) and bool(value) and not any(isinstance(entry, tuple) for entry in value)


def checked(value: Any, name: str, dtype: Any) -> Any:
    """Return examples as plain arrays (n, ...), the floating-point ones in a dtype.

    Raises an error with the name of the argument.
    """
    leaves = tree.leaves(value)
    if isinstance(value, list | tuple) and not any(hasattr(x, "__array__") or hasattr(x, "shape") for x in leaves):
        return _array(np.asarray(value), name, dtype)
    if not leaves:
        raise DataError(f"{name} must contain an array of examples, got none")
    return tree.map(lambda leaf: _array(leaf, name, dtype), value)


def _array(leaf: Any, name: str, dtype: Any) -> Any:
    """Return one array, checked and cast."""
    if isinstance(leaf, agrad.Tensor):
        leaf = leaf.detach().raw
    if backend_of_type(type(leaf)) is None:
        if not hasattr(leaf, "__array__"):
            raise OperandError(f"{name} must be an array, got {type(leaf).__name__}. Convert it with numpy.asarray.")
        leaf = np.asarray(leaf)
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "biufc":
        remedy = "Encode classes as integers, for example with numpy.unique(y, return_inverse=True)[1]."
        raise DtypeError(f"{name} must be numeric, got dtype {leaf.dtype}. {remedy}")
    if not leaf.shape:
        raise ShapeError(f"{name} must have the examples along its first axis, got shape ()")
    if isinstance(leaf, np.ndarray):
        wanted = np.dtype(dtype) if leaf.dtype.kind == "f" else leaf.dtype.newbyteorder("=")
        return leaf.astype(wanted, copy=False)
    return cast(leaf, dtype)


def cast(leaf: Any, dtype: Any) -> Any:
    """Return a plain array, in a dtype if it is a floating-point one."""
    like = agrad.asarray(leaf)
    if not agrad.isdtype(like.dtype, FLOATING) or like.dtype.name == dtype:
        return leaf
    return agrad.astype(like, getattr(agrad, dtype)).raw


def length(value: Any, name: str) -> int:
    """Return the number of examples. Raises an error for none, or unequal lengths."""
    counts = [int(leaf.shape[0]) for leaf in tree.leaves(value)]
    if len(set(counts)) > 1:
        raise ShapeError(
            f"{name} must consist of arrays of the same length, got {', '.join(map(str, counts))} examples"
        )
    if not counts[0]:
        raise DataError(f"{name} must contain at least one example, got an array of length 0")
    return counts[0]


def pair(X: Any, y: Any, dtype: Any, names: tuple[str, str] = ("X", "y")) -> tuple[Any, Any]:
    """Return examples and targets, checked: equal lengths, no NaN among the targets."""
    if y is None:
        raise OperandError(f"{names[1]} must be the targets of {names[0]}, got None. Pass both, or batches (x, y).")
    X, y = checked(X, names[0], dtype), checked(y, names[1], dtype)
    n, m = length(X, names[0]), length(y, names[1])
    if n != m:
        raise ShapeError(
            f"{names[1]} must contain one target for each example, got {m} for the {n} examples of {names[0]}"
        )
    for leaf in tree.leaves(y):
        array = agrad.asarray(leaf)
        if agrad.isdtype(array.dtype, FLOATING):
            bad = agrad.isnan(array).numpy().reshape(n, -1).any(axis=1)
            if bad.any():
                raise DataError(
                    f"{names[1]} is NaN in {int(bad.sum())} of {n} examples, first in example {int(np.argmax(bad))}. "
                    "Remove these examples."
                )
    return X, y


def split(y: Any, fraction: Any, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the examples to train on and of the held-out ones.

    1-D class labels are split by class. Raises ``ConfigurationError`` for a fraction out of range.
    """
    number = isinstance(fraction, int | float | np.floating | np.integer) and not isinstance(fraction, bool)
    if not number or not math.isfinite(fraction) or not 0 <= fraction < 1:
        raise ConfigurationError(
            f"validation must be a fraction of at least 0 and less than 1, a pair (X, y) or a loader, got {fraction!r}"
        )
    if not fraction:
        return np.arange(n), np.arange(0)
    labels = agrad.asarray(y).numpy() if hasattr(y, "shape") else np.zeros((0, 0))
    numbers = labels.ndim == 1 and labels.dtype.kind in "iu" and labels.min() >= 0
    if numbers and np.bincount(labels).max() > 1:
        return data.stratified_split(labels, float(fraction), seed)
    held = min(max(int(n * fraction + 0.5), 1), n - 1)
    if not held:
        raise DataError(
            f"validation: a data set of {n} example is too small to hold one out. Pass more examples, or omit "
            "validation."
        )
    order = permutation(n, seed, SPLITS)
    return np.sort(order[held:]), np.sort(order[:held])


class Arrays:
    """The batches of arrays: `rows` of a feed of (X, y).

    The order is a function of the seed and the epoch.
    """

    def __init__(
        self, feed: Feed, rows: np.ndarray, batch_size: int, seed: int, shuffle: bool, world: World = ALONE
    ) -> None:
        self.feed: Feed = feed
        self.rows: np.ndarray = rows
        self.batch_size: int = batch_size
        self.seed: int = seed
        self.shuffle: bool = shuffle
        self.world = world
        self.examples: int | None = int(rows.shape[0])
        self.batches: int | None = -(-rows.shape[0] // batch_size)

    def epoch(self, epoch: int, start: int) -> Iterator[tuple[Any, Any, int]]:
        """Return an iterator over x, y and size of the batches of an epoch, from one on.

        On several ranks, x and y belong to this rank, or to rank 0 if this one has none.
        """
        n, size, world = self.rows.shape[0], self.batch_size, self.world
        rows = self.rows[data.epoch_order(self.seed, epoch, n)] if self.shuffle else self.rows
        order = self.feed.order(rows)
        for first in range(start * size, n, size):
            stop = min(first + size, n)
            own = first + world.rank * (first + world.rank < stop)
            x, y = self.feed.batch(order, own, stop, world.size)
            yield x, y, stop - first


class Batches:
    """The batches (x, y) of a `DataLoader` or another reusable iterable."""

    def __init__(
        self, loader: Iterable[Any], place: DeviceSpec, dtype: str, name: str = "X", world: World = ALONE
    ) -> None:
        check_passes(loader, name, "arrays or batches")
        self.loader: Iterable[Any] = loader
        self.place: DeviceSpec = place
        self.dtype: str = dtype
        self.name: str = name
        self.world: World = world
        self.examples: int | None = None
        try:
            self.batches: int | None = len(loader)  # type: ignore[arg-type]
        except TypeError:
            self.batches = None

    def epoch(self, epoch: int, start: int) -> Iterator[tuple[Any, Any, int]]:
        """Return an iterator over x, y and size of the batches; see `Arrays.epoch`."""
        loader: Any = self.loader
        world = self.world
        if hasattr(loader, "load_state_dict") and hasattr(loader, "state_dict"):
            loader.load_state_dict({**loader.state_dict(), "epoch": np.array(epoch), "batch": np.array(start)})
            start = 0
        for batch in islice(loader, start, None):
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise OperandError(f"{self.name} must contain batches (x, y), got {type(batch).__name__}")
            x, y = self.moved(batch[0]), self.moved(batch[1])
            size = length((x, y), f"a batch of {self.name}")
            if world.size > 1:
                own = world.rank * (world.rank < size)
                x, y = (tree.map(lambda leaf, own=own: leaf[own :: world.size, ...], part) for part in (x, y))
            yield x, y, size

    def moved(self, part: Any) -> Any:
        """Return a part of a batch on the device of the model."""
        backend, device = self.place.backend, self.place.device

        def move(leaf: Any) -> Any:
            return agrad.asarray(_array(leaf, self.name, self.dtype), backend=backend.name, device=device).raw

        return tree.map(move, part)
