"""Shared checks and constants."""

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

import agrad
from agrad.errors import DtypeError, OperandError, ShapeError
from agrad.faces import complete_docstring

if TYPE_CHECKING:
    from agrad.engine.typed import OfArray, OfArrays

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def of_array(function: Callable[Concatenate[Any, P], Any]) -> "OfArray[P]":
    """Return the function with a type: a Tensor if the first array is a Tensor."""
    return cast("OfArray[P]", function)


def of_arrays(function: Callable[Concatenate[Any, Any, P], Any]) -> "OfArrays[P]":
    """Return the function with a type: a Tensor if one of two arrays is a Tensor."""
    return cast("OfArrays[P]", function)


def real_only(function: F) -> F:
    """Return the function with a check that its positional arrays are not complex.

    Comparisons of complex numbers are not defined, but NumPy evaluates them.
    """

    @wraps(function)
    def checked(*arrays: Any, **options: Any) -> Any:
        for array in arrays:
            dtype = getattr(array, "dtype", None)
            if dtype is not None and "complex" in str(dtype):
                raise DtypeError(
                    f"{function.__name__}: arrays must be real, got {agrad.asarray(array).dtype}. Pass agrad.real(x) "
                    "or agrad.imag(x)."
                )
        return function(*arrays, **options)

    return checked  # type: ignore[return-value]


def elementwise(function: Callable[Concatenate[Any, P], Any]) -> "OfArray[P]":
    """Return a function of each element with a type and a complete docstring.

    Parameters
    ----------
    x : array of any shape and a floating-point dtype

    Returns
    -------
    array of the same shape and dtype
    """
    return of_array(complete_docstring(function, elementwise))


def real_elementwise(function: F) -> F:
    """Return a function of each real element with a check and a complete docstring.

    Parameters
    ----------
    x : array of any shape and a real floating-point dtype
    """
    return real_only(complete_docstring(function, real_elementwise, elementwise))


_AXES = {1: ("l", "k"), 2: ("h, w", "kh, kw"), 3: ("d, h, w", "kd, kh, kw")}
"""Names of the axes of an array and of a kernel, by the number of spatial axes."""


def on_axes(family: Callable[Concatenate[int, P], R], *counts: int, shared: Any = None) -> Iterator[Callable[P, R]]:
    """Yield the functions of a family, by default for 1, 2 and 3 spatial axes.

    The number is the first argument of ``family``. The function for 2 axes of ``_conv`` is named ``conv2d``. The
    docstring, completed by the docstring of ``shared``, contains ``{n}`` for the number, and ``{axes}`` and
    ``{kernel}`` for the names of axes.
    """
    signature = inspect.signature(family)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    for n in counts or (1, 2, 3):
        yield _member(family, n, signature, shared)


def _member(family: Any, n: int, signature: inspect.Signature, shared: Any) -> Any:
    @wraps(family)
    def member(*args: Any, **options: Any) -> Any:
        return family(n, *args, **options)

    member.__name__ = member.__qualname__ = f"{family.__name__.lstrip('_')}{n}d"
    member.__signature__ = signature  # type: ignore[attr-defined]
    axes, kernel = _AXES[n]
    text = complete_docstring(member, *[shared] * bool(shared)).__doc__ or ""  # None under -OO
    member.__doc__ = text.replace("{n}", str(n)).replace("{axes}", axes).replace("{kernel}", kernel)
    return member


def check_spatial(name: str, x: Any, spatial: int) -> None:
    """Raise ``ShapeError`` unless the shape is (n, c, ...) or (c, ...)."""
    if len(x.shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{name}: x must have shape (n, c, ...) or (c, ...) with {spatial} spatial axes, got {tuple(x.shape)}"
        )


def constant(values: np.ndarray, like: Any) -> Any:
    """Return host values on the device of an array; floats get its dtype."""
    place = like if isinstance(like, agrad.Tensor) else agrad.asarray(like)
    dtype = place.dtype if values.dtype.kind == "f" and "floating" in place.dtype.kind else None
    made = agrad.asarray(values, dtype=dtype, backend=place.backend, device=place.device)
    return made if place is like else made.raw


def places(count: int, like: Any) -> Any:
    """Return the integers from 0 to ``count`` - 1 on the device of an array."""
    x = agrad.asarray(like)
    made = agrad.arange(count, dtype=agrad.int64, backend=x.backend, device=x.device)
    return made if isinstance(like, agrad.Tensor) else made.raw


def check_numbers(name: str, what: str, numbers: Any, first: int, last: int) -> None:
    """Raise ``OperandError`` for integers out of range in an untraced NumPy array."""
    raw = numbers.data if isinstance(numbers, agrad.Tensor) else numbers
    if isinstance(raw, np.ndarray) and raw.size and not first <= raw.min() <= raw.max() <= last:
        raise OperandError(f"{name}: {what} must be from {first} to {last}, got {raw.min()} to {raw.max()}")
