"""Checks and constants that functions share."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

import agrad
from agrad.errors import DtypeError, OperandError

if TYPE_CHECKING:
    from agrad.engine.typed import OfArray, OfArrays

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


def of_array(function: Callable[Concatenate[Any, P], Any]) -> "OfArray[P]":
    """Return the function, typed: a Tensor as the first array gives a Tensor."""
    return cast("OfArray[P]", function)


def of_arrays(function: Callable[Concatenate[Any, Any, P], Any]) -> "OfArrays[P]":
    """Return the function, typed: a Tensor among the first two gives a Tensor."""
    return cast("OfArrays[P]", function)


def real_only(function: F) -> F:
    """Return the function with a check that its positional arrays are not complex.

    Raises
    ------
    DtypeError
        From the function, if an array is complex. Comparisons of complex numbers have no meaning, but NumPy makes them.
    """

    @wraps(function)
    def checked(*arrays: Any, **options: Any) -> Any:
        for array in arrays:
            dtype = getattr(array, "dtype", None)
            if dtype is not None and "complex" in str(dtype):
                raise DtypeError(
                    f"{function.__name__} takes real numbers, not {agrad.asarray(array).dtype}; "
                    "agrad.real and agrad.imag give them"
                )
        return function(*arrays, **options)

    return checked  # type: ignore[return-value]


def constant(values: np.ndarray, like: Any) -> Any:
    """Return values of the host beside an array; floats get its floating dtype."""
    place = like if isinstance(like, agrad.Tensor) else agrad.asarray(like)
    dtype = place.dtype if values.dtype.kind == "f" and "floating" in place.dtype.kind else None
    made = agrad.asarray(values, dtype=dtype, backend=place.backend, device=place.device)
    return made if place is like else made.raw


def check_numbers(name: str, what: str, numbers: Any, first: int, last: int) -> None:
    """Raise ``OperandError`` for NumPy's integers out of range, outside of a trace."""
    raw = numbers.data if isinstance(numbers, agrad.Tensor) else numbers
    if isinstance(raw, np.ndarray) and raw.size and not first <= raw.min() <= raw.max() <= last:
        raise OperandError(f"{name}: {what} are {first} to {last}, and numbers are {raw.min()} to {raw.max()}")
