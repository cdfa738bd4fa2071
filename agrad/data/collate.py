"""Examples to batches, and batches to a backend."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import agrad
from agrad import tree
from agrad.data.datasets import Subset, TensorDataset, checked, rows_of
from agrad.errors import OperandError, ShapeError

NUMBERS = (bool, int, float, complex, np.generic)
TEXT = (str, bytes)


def default_collate(batch: Sequence[Any]) -> Any:
    """Return examples as one batch: a pytree of arrays with an additional first axis.

    Parameters
    ----------
    batch : sequence
        At least one example. Examples are pytrees (dict, list, tuple, namedtuple, dataclass) of the same structure,
        with leaves that are arrays of any backend, Tensors, numbers, strings or None.

    Returns
    -------
    pytree
        Arrays are stacked by their library. Numbers become an array on the backend and device of the first array of an
        example (NumPy if there is none), with the NumPy dtype for such numbers. Strings become a list.

    Raises
    ------
    ShapeError
        If the examples differ in structure or shape.
    OperandError
        If the batch is empty, or a leaf has another type.

    Examples
    --------
    >>> agrad.data.default_collate([(np.array([1.0, 2.0]), 0, "a"), (np.array([3.0, 4.0]), 1, "b")])
    (array([[1., 2.],
           [3., 4.]]), array([0, 1]), ['a', 'b'])
    """
    if not len(batch):
        raise OperandError("default_collate: examples must contain at least one example, got none")
    leaves, structure = tree.flatten(batch[0])
    rows = [leaves]
    for number, other in enumerate(batch[1:], 1):
        more, found = tree.flatten(other)
        if found != structure:
            raise ShapeError(
                f"default_collate: examples must have the same structure, got {_brief(structure)} at index 0 of the "
                f"batch and {_brief(found)} at index {number}. Make them equal, or pass a collate_fn that builds a "
                "batch from them."
            )
        rows.append(more)
    first = next((agrad.asarray(leaf) for leaf in leaves if _is_array(leaf)), None)
    columns = zip(*rows, strict=True)
    return tree.unflatten(structure, [_column(values, batch, place, first) for place, values in enumerate(columns)])


def _brief(structure: Any) -> str:
    """Return the text of a pytree with * for leaves, truncated if it is long."""
    text = str(structure).removeprefix("PyTreeSpec(").removesuffix(")").partition(", NoneIsLeaf")[0]
    return text if len(text) < 200 else f"{text[:200]}..."


def _column(values: tuple[Any, ...], batch: Sequence[Any], place: int, first: Any) -> Any:
    """Return the leaves at one position of all examples as an array or a list."""
    if all(isinstance(value, TEXT) for value in values):
        return list(values)
    if isinstance(values[0], NUMBERS):
        numbers = np.asarray(values)
        if numbers.ndim == 1 and numbers.dtype.kind in "biufc":
            return numbers if first is None else agrad.asarray(numbers, backend=first.backend, device=first.device).raw
    elif _is_array(values[0]):
        shapes = [tuple(getattr(value, "shape", ())) for value in values]
        if len(set(shapes)) == 1:
            return np.stack(values) if isinstance(values[0], np.ndarray) else agrad.stack(values)
    path = tree.flatten_with_path(batch[0])[0][place][0]
    where = f"default_collate: the leaves at {path}" if path else "default_collate: the examples"
    kinds = [f"a {type(value).__name__} of shape {tuple(getattr(value, 'shape', ()))}" for value in values]
    number = next((number for number, kind in enumerate(kinds) if kind != kinds[0]), None)
    if number is None:
        raise OperandError(
            f"{where} must be arrays, numbers or strings, got {type(values[0]).__name__}. Pass a collate_fn that "
            "builds a batch from other types."
        )
    raise ShapeError(
        f"{where} cannot be stacked: example 0 of the batch has {kinds[0]}, example {number} {kinds[number]}. Pad the "
        "examples, or pass a collate_fn that builds a batch from them."
    )


def _is_array(leaf: Any) -> bool:
    """Return True for an array of a library, which a scalar of NumPy is not."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, np.generic)


def moved(batch: Any, backend: str | None, device: Any) -> Any:
    """Return a batch with its arrays on a backend and device; None for where they are."""
    if backend is None and device is None:
        return batch

    def move(leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        there = agrad.asarray(leaf, backend=backend, device=device)
        return there if isinstance(leaf, agrad.Tensor) else there.raw

    return tree.map(move, batch)


def fetched(dataset: Any, indices: Any, collate_fn: Any) -> Any:
    """Return the batch of the examples with these indices.

    If `collate_fn` is None, use `default_collate`, or one operation for each array of a `TensorDataset`.
    """
    while _has(dataset, Subset):
        dataset, indices = dataset.dataset, dataset.indices[np.asarray(indices, dtype=np.int64)].tolist()
    if collate_fn is None and _has(dataset, TensorDataset):
        with named(dataset, f"the examples {_short(indices)}"):
            rows = checked(indices, len(dataset))
            return tuple(rows_of(x, rows) for x in dataset.tensors)
    if hasattr(dataset, "__getitems__"):
        with named(dataset, f"the examples {_short(indices)}"):
            examples = list(dataset.__getitems__(list(indices)))
    else:
        examples = [example(dataset, index) for index in indices]
    with named(dataset, f"the batch of the examples {_short(indices)}"):
        return (collate_fn or default_collate)(examples)


def _has(dataset: Any, kind: type) -> bool:
    """Return True for a data set that reads its examples as `kind` does."""
    return isinstance(dataset, kind) and type(dataset).__getitem__ is kind.__getitem__


def example(dataset: Any, index: Any) -> Any:
    """Return one example; an error names it."""
    # a context manager would take longer than many an example
    try:
        return dataset[index]
    except Exception as error:
        note(error, dataset, f"example {index}")
        raise


def _short(indices: Any) -> str:
    """Return the first of some numbers as text."""
    shown = ", ".join(map(str, list(indices)[:8]))
    return f"{shown}, ... ({len(indices)} in all)" if len(indices) > 8 else shown


@contextlib.contextmanager
def named(dataset: Any, what: str) -> Iterator[None]:
    """Add to an error which part of which data set it is about."""
    try:
        yield
    except Exception as error:
        note(error, dataset, what)
        raise


def note(error: Exception, dataset: Any, what: str) -> None:
    """Add to an error which part of which data set it is about."""
    error.add_note(f"DataLoader: raised by {what} of the data set {type(dataset).__name__}")
