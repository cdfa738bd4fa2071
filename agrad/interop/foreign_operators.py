"""Operators of a Tensor and a list, a pandas object or a sparse matrix."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad import Tensor
from agrad.errors import OperandError
from agrad.interop.arguments import like_of, promoted, tensor
from agrad.interop.sparse import combined, library_of


@functools.lru_cache(maxsize=64)
def is_labelled(kind: type) -> bool:
    """Return True for pandas types: tables, columns, indices, extension arrays."""
    return hasattr(kind, "__pandas_priority__") and not issubclass(kind, Tensor)


def values_of_labelled(value: Any) -> Any:
    """Return the values of a pandas object, and other objects unchanged."""
    if not is_labelled(type(value)):
        return value
    values = value.to_numpy()
    if values.dtype.kind not in "biufc":
        raise OperandError(
            f"a {type(value).__name__} used with a Tensor must hold numbers or Booleans, got values of dtype "
            f"{values.dtype}. Convert it first: .to_numpy(dtype=float), or .fillna(False) for a mask."
        )
    return values


def operator_beside(operation: Callable[..., Any], x1: Any, x2: Any) -> Any:
    """Return the result of an operator that does not support one operand.

    Lists and tuples are arrays, as in operators of NumPy arrays. Pandas objects are treated as their values, in their
    order and without labels. Returns NotImplemented if the operand is unknown.
    """
    other, this = (x2, x1) if isinstance(x1, Tensor) else (x1, x2)
    if isinstance(other, (list, tuple)):
        if like_of(other) is None and np.asarray(other).dtype.kind not in "biufc":
            return NotImplemented
        return operation(*promoted(*[tensor(x, this) for x in (x1, x2)]))
    if is_labelled(type(other)):
        return operation(values_of_labelled(x1), values_of_labelled(x2))
    module = library_of(other)
    return NotImplemented if module is None else combined(operation.__name__, x1, x2, module)
