"""Rows of a table by number, affine and bilinear maps."""

import math
from operator import index
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.nn.expect import one_of
from agrad.nn.functional.real import check_numbers, of_array, of_arrays

__all__ = ["bilinear", "embedding", "embedding_bag", "linear"]


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``x @ weight.T + bias``.

    Parameters
    ----------
    x : array
        Array of shape (..., in_features) and a floating dtype.
    weight : array
        Array of shape (out_features, in_features), or (in_features,). The layer ``nn.Linear`` holds the transpose.
    bias : array, optional
        Array of shape (out_features,), or () with a weight of one axis.

    Returns
    -------
    array
        Array of shape (..., out_features), or (...) with a weight of one axis.

    Examples
    --------
    >>> x, weight = np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> agrad.nn.functional.linear(x, weight, np.array([0.0, 0.0, 10.0]))
    array([ 1.,  2., 13.])
    """
    if len(weight.shape) == 2:
        weight = agrad.permute_dims(weight, (1, 0))
        if bias is not None:
            return agrad.linear(x, weight, bias)
    y = agrad.matmul(x, weight)
    return y if bias is None else agrad.add(y, bias)


def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``x1 @ weight[k] @ x2 + bias[k]`` for each k.

    Parameters
    ----------
    x1, x2 : array
        Arrays of shapes (..., in1_features) and (..., in2_features), equal but for the last axis, and one floating
        dtype.
    weight : array
        Array of shape (out_features, in1_features, in2_features).
    bias : array, optional
        Array of shape (out_features,).

    Returns
    -------
    array
        Array of shape (..., out_features).

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> x1, x2, weight = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([[[1.0, 0.0], [0.0, 10.0]]])
    >>> agrad.nn.functional.bilinear(x1, x2, weight)
    array([83.])
    """
    shapes = tuple(map(tuple, (x1.shape, x2.shape, weight.shape)))
    if len(shapes[2]) != 3 or shapes[0][:-1] != shapes[1][:-1] or (*shapes[0][-1:], *shapes[1][-1:]) != shapes[2][1:]:
        raise ShapeError(
            "bilinear takes arrays of shapes (..., in1_features) and (..., in2_features) and a weight of shape "
            f"(out_features, in1_features, in2_features), not {', '.join(map(str, shapes))}"
        )
    out, n1, n2 = shapes[2]
    by_first = agrad.reshape(agrad.permute_dims(weight, (1, 0, 2)), (n1, out * n2))
    maps = agrad.reshape(agrad.matmul(x1, by_first), (*shapes[0][:-1], out, n2))
    y = agrad.squeeze(agrad.matmul(maps, agrad.expand_dims(x2, axis=-1)), axis=-1)
    return y if bias is None else agrad.add(y, bias)


@of_arrays
def embedding(numbers: Any, weight: Any, /, padding_idx: int | None = None) -> Any:
    """Return the rows of a table that integers name.

    Parameters
    ----------
    numbers : array
        Array of any shape and an integer dtype, from 0 to n - 1. NumPy's are checked outside of ``agrad.jit``.
    weight : array
        The table, of shape (n, d).
    padding_idx : int, optional
        A row that gets no derivative; a negative one counts from the end.

    Returns
    -------
    array
        Array of shape (..., d) and the dtype of ``weight``.

    Raises
    ------
    ShapeError, DtypeError, ConfigurationError, OperandError
        If the table has other axes, the numbers are no integers, or a number or ``padding_idx`` names no row.

    Examples
    --------
    >>> weight = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
    >>> agrad.nn.functional.embedding(np.array([2, 1, 2]), weight)
    array([[ 2., 20.],
           [ 1., 10.],
           [ 2., 20.]])
    >>> agrad.grad(lambda w: agrad.nn.functional.embedding(np.array([2, 1, 2]), w).sum())(weight)
    array([[0., 0.],
           [1., 1.],
           [2., 2.]])
    """
    if len(weight.shape) != 2:
        raise ShapeError(f"embedding takes a table of shape (n, d), not {tuple(weight.shape)}")
    if not agrad.isdtype(numbers.dtype, "integral"):
        raise DtypeError(f"embedding takes integers as numbers of rows, not {numbers.dtype}")
    n = weight.shape[0]
    raw = numbers.data if isinstance(numbers, agrad.Tensor) else numbers
    if isinstance(raw, np.ndarray) and raw.size and not 0 <= raw.min() <= raw.max() < n:
        raise OperandError(
            f"embedding: the table has the rows 0 to {n - 1}, and numbers are {raw.min()} to {raw.max()}"
        )
    rows = agrad.take(weight, agrad.reshape(numbers, (-1,)), axis=0)
    rows = agrad.reshape(rows, (*numbers.shape, weight.shape[1]))
    if padding_idx is None:
        return rows
    if not -n <= index(padding_idx) < n:
        raise ConfigurationError(f"embedding: padding_idx is one of {n} rows, not {padding_idx}")
    padded = agrad.expand_dims(agrad.equal(numbers, padding_idx % n), axis=-1)
    return agrad.where(padded, agrad.stop_gradient(rows), rows)


_MODES = ("mean", "sum", "max")


def _bags(numbers: Any, offsets: Any, include_last: bool) -> tuple[Any, int]:
    """Return the bag of each number of one axis, and the number of bags."""
    if len(numbers.shape) != 1 or offsets is None or len(offsets.shape) != 1:
        raise ShapeError(
            "embedding_bag takes numbers of shape (bags, n), or numbers of shape (n,) and the offsets of bags, of one "
            f"axis, not numbers of shape {tuple(numbers.shape)} and {'no' if offsets is None else 'other'} offsets"
        )
    starts = offsets[:-1] if include_last else offsets
    check_numbers("embedding_bag", "the first offset", offsets[:1], 0, 0)
    place = agrad.asarray(numbers)
    each = agrad.arange(numbers.shape[0], dtype=agrad.int64, backend=place.backend, device=place.device)
    each = each if isinstance(starts, agrad.Tensor) else each.raw
    return agrad.searchsorted(agrad.astype(starts, agrad.int64), each, side="right") - 1, starts.shape[0]


@of_array
def embedding_bag(
    numbers: Any,
    weight: Any,
    offsets: Any = None,
    /,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Return the means, sums or maxima of bags of rows of a table.

    Parameters
    ----------
    numbers : array
        Numbers of rows: array of shape (bags, n), or (n,) with ``offsets``, and an integer dtype. NumPy's are checked
        outside of ``agrad.jit``.
    weight : array
        The table, of shape (rows, d).
    offsets : array, optional
        The first place of each bag in ``numbers``, integers that do not fall and begin with 0.
    mode : {"mean", "sum", "max"}
        The reduction of a bag. That of an empty bag is 0.
    per_sample_weights : array, optional
        A factor of each row, of the shape of ``numbers``; for sums alone.
    include_last_offset : bool
        True if ``offsets`` has the end of the last bag, too.
    padding_idx : int, optional
        A row that does not count; a negative one counts from the end.

    Returns
    -------
    array
        Array of shape (bags, d) and the dtype of ``weight``.

    Raises
    ------
    ShapeError, DtypeError, ConfigurationError, OperandError
        If a shape or a dtype does not fit, or for an option or a number that is none.

    Examples
    --------
    >>> weight = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
    >>> agrad.nn.functional.embedding_bag(np.array([2, 1, 2]), weight, np.array([0, 2]), mode="sum")
    array([[ 3., 30.],
           [ 2., 20.]])
    """
    one_of("embedding_bag", "mode", mode, _MODES)
    if per_sample_weights is not None and (mode != "sum" or tuple(per_sample_weights.shape) != tuple(numbers.shape)):
        raise ConfigurationError(
            "embedding_bag: per_sample_weights are for mode='sum', and have the shape of the numbers, "
            f"{tuple(numbers.shape)}, not {tuple(per_sample_weights.shape)} for mode={mode!r}"
        )
    rows = embedding(numbers, weight, padding_idx)
    left_out = -1 if padding_idx is None else padding_idx % weight.shape[0]
    kept = agrad.expand_dims(agrad.not_equal(agrad.astype(numbers, agrad.int64), left_out), axis=-1)
    if per_sample_weights is not None:
        rows = agrad.multiply(rows, agrad.expand_dims(per_sample_weights, axis=-1))
    whole = len(numbers.shape) == 2 and offsets is None
    ids, bags = (None, 0) if whole else _bags(numbers, offsets, include_last_offset)

    def reduced(x: Any, greatest: bool) -> Any:
        if whole:
            return agrad.max(x, axis=1) if greatest else agrad.sum(x, axis=1)
        return (agrad.segment_max if greatest else agrad.segment_sum)(x, ids, bags)

    found = reduced(agrad.where(kept, rows, -math.inf if mode == "max" else 0.0), mode == "max")
    if mode == "sum":
        return found
    count = reduced(agrad.astype(kept, weight.dtype), False)
    return agrad.where(count > 0, found, 0.0) if mode == "max" else agrad.divide(found, agrad.maximum(count, 1.0))
