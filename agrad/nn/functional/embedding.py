"""Rows of a table by number, affine and bilinear maps."""

from operator import index
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError


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
    """
    y = agrad.matmul(x, agrad.permute_dims(weight, (1, 0)) if len(weight.shape) == 2 else weight)
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
