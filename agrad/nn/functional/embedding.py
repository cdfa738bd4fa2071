"""Embeddings, linear and bilinear maps."""

import math
from operator import index
from typing import Any, Literal

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.expect import one_of
from agrad.nn.functional.real import check_numbers, of_array, of_arrays, places
from agrad.ops.definition import of_first

__all__ = ["bilinear", "embedding", "embedding_bag", "linear"]


@of_first
def linear(x: Any, weight: Any, bias: Any = None) -> agrad.Tensor:
    """Return ``x @ weight.T + bias``.

    Parameters
    ----------
    x : array of shape (..., in_features) and a floating-point dtype
    weight : array
        Array of shape (out_features, in_features), or (in_features,). The layer ``nn.Linear`` stores the transpose.
    bias : array of shape (out_features,), or () with a 1-D weight, optional

    Returns
    -------
    array of shape (..., out_features), or (...) with a 1-D weight

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


@of_first
def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None) -> agrad.Tensor:
    """Return ``x1 @ weight[k] @ x2 + bias[k]`` for each k.

    Parameters
    ----------
    x1, x2 : array
        Arrays of shapes (..., in1_features) and (..., in2_features), which are equal except for the last axis, and the
        same floating-point dtype.
    weight : array of shape (out_features, in1_features, in2_features)
    bias : array of shape (out_features,), optional

    Returns
    -------
    array of shape (..., out_features)

    Examples
    --------
    >>> x1, x2, weight = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([[[1.0, 0.0], [0.0, 10.0]]])
    >>> agrad.nn.functional.bilinear(x1, x2, weight)
    array([83.])
    """
    shapes = tuple(map(tuple, (x1.shape, x2.shape, weight.shape)))
    if len(shapes[2]) != 3 or shapes[0][:-1] != shapes[1][:-1] or (*shapes[0][-1:], *shapes[1][-1:]) != shapes[2][1:]:
        raise ShapeError(
            "bilinear: x1, x2 and weight must have shapes (..., in1_features), (..., in2_features) and (out_features, "
            f"in1_features, in2_features), got {', '.join(map(str, shapes))}"
        )
    out, n1, n2 = shapes[2]
    by_first = agrad.reshape(agrad.permute_dims(weight, (1, 0, 2)), (n1, out * n2))
    maps = agrad.reshape(agrad.matmul(x1, by_first), (*shapes[0][:-1], out, n2))
    y = agrad.squeeze(agrad.matmul(maps, agrad.expand_dims(x2, axis=-1)), axis=-1)
    return y if bias is None else agrad.add(y, bias)


@of_arrays
def embedding(numbers: Any, weight: Any, /, padding_idx: int | None = None) -> Any:
    """Look up rows of a table by their indices.

    Parameters
    ----------
    numbers : array
        Array of any shape and an integer dtype, from 0 to n - 1. Indices in NumPy arrays are checked outside
        ``agrad.jit``.
    weight : array
        Table of shape (n, d).
    padding_idx : int, optional
        Index of a row whose derivative is 0. A negative index counts from the end.

    Returns
    -------
    array of shape (..., d) and the dtype of ``weight``

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
        raise ShapeError(f"embedding: weight must have shape (n, d), got {tuple(weight.shape)}")
    if not agrad.isdtype(numbers.dtype, "integral"):
        raise DtypeError(f"embedding: row indices must have an integer dtype, got {numbers.dtype}")
    n = weight.shape[0]
    raw = numbers.data if isinstance(numbers, agrad.Tensor) else numbers
    if isinstance(raw, np.ndarray) and raw.size and not 0 <= raw.min() <= raw.max() < n:
        raise OperandError(f"embedding: row indices must be from 0 to {n - 1}, got {raw.min()} to {raw.max()}")
    rows = agrad.take(weight, agrad.reshape(numbers, (-1,)), axis=0)
    rows = agrad.reshape(rows, (*numbers.shape, weight.shape[1]))
    if padding_idx is None:
        return rows
    if not -n <= index(padding_idx) < n:
        raise ConfigurationError(f"embedding: padding_idx must be the index of one of {n} rows, got {padding_idx}")
    padded = agrad.expand_dims(agrad.equal(numbers, padding_idx % n), axis=-1)
    return agrad.where(padded, agrad.stop_gradient(rows), rows)


_MODES = ("mean", "sum", "max")


def _bags(numbers: Any, offsets: Any, include_last: bool) -> tuple[Any, int]:
    """Return the bag of each index of a 1-D array, and the number of bags."""
    if len(numbers.shape) != 1 or offsets is None or len(offsets.shape) != 1:
        raise ShapeError(
            "embedding_bag: row indices must have shape (bags, n), or shape (n,) with 1-D offsets, got shape "
            f"{tuple(numbers.shape)} and {'no' if offsets is None else 'other'} offsets"
        )
    starts = offsets[:-1] if include_last else offsets
    check_numbers("embedding_bag", "the first offset", offsets[:1], 0, 0)
    each = places(numbers.shape[0], starts)
    return agrad.searchsorted(agrad.astype(starts, agrad.int64), each, side="right") - 1, starts.shape[0]


@of_array
def embedding_bag(
    numbers: Any,
    weight: Any,
    offsets: Any = None,
    /,
    *,
    mode: Literal["mean", "sum", "max"] = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Compute the means, sums or maxima of bags of rows of a table.

    Parameters
    ----------
    numbers : array
        Row indices: array of shape (bags, n), or (n,) with ``offsets``, and an integer dtype. Indices in NumPy arrays
        are checked outside ``agrad.jit``.
    weight : array
        Table of shape (rows, d).
    offsets : array, optional
        Start index of each bag in ``numbers``, nondecreasing integers that begin with 0.
    mode : {"mean", "sum", "max"}
        Reduction of a bag. The result of an empty bag is 0.
    per_sample_weights : array, optional
        Factor of each row, of the shape of ``numbers``. Only for ``mode="sum"``.
    include_last_offset : bool
        True if ``offsets`` also contains the end of the last bag.
    padding_idx : int, optional
        Index of a row to ignore. A negative index counts from the end.

    Returns
    -------
    array of shape (bags, d) and the dtype of ``weight``

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
            "embedding_bag: per_sample_weights require mode='sum' and the shape of the row indices, "
            f"{tuple(numbers.shape)}, got mode={mode!r} and shape {tuple(per_sample_weights.shape)}"
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
