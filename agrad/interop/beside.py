"""Operators of a Tensor and an object that is no array: a sparse matrix."""

from collections.abc import Callable
from typing import Any

from agrad import Tensor
from agrad.interop.sparse import combined, library_of


def operator_beside(operation: Callable[..., Any], x1: Any, x2: Any) -> Any:
    """Return the result of an operator that refused one of its two operands.

    Returns NotImplemented if the operand is unknown here too.
    """
    other = x2 if isinstance(x1, Tensor) else x1
    module = library_of(other)
    if module is not None:
        return combined(operation.__name__, x1, x2, module)
    return NotImplemented
