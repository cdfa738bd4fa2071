"""The check of functions that take real numbers only."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import agrad
from agrad.errors import DtypeError

F = TypeVar("F", bound=Callable[..., Any])


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
