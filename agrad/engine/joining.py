"""Arrays of several libraries in one operation.

NumPy arrays move to the selected backend, or to a backend whose library accepts them, with their derivatives. Any other
mixture raises.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of_type, load, selected
from agrad.dtypes import is_floating
from agrad.engine.tape import no_grad
from agrad.engine.tensor import Tensor
from agrad.errors import MixedBackendsError
from agrad.registry import CALLS

NUMPYS = frozenset({np.ndarray, *(kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool))})
"""The types of NumPy arrays and NumPy scalars, which operations may mix."""


def joined(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with NumPy arrays moved to the backend of the other arrays.

    Any other mixture raises ``MixedBackendsError``. NumPy scalars outside of Tensors count as numbers.
    """
    arrays = [arg for arg in args if not isinstance(arg, np.generic)]
    found = _by_backend(arrays)
    if len(found) < 2:
        return args
    if not moves(*arrays):
        raise mixed(name, *arrays)
    (there,) = [raw for backend, raw in found.items() if backend != "numpy"]
    return tuple([beside(arg, there) if is_numpys(arg) else arg for arg in args])


def _by_backend(values: Iterable[Any]) -> dict[str, Any]:
    """Return a plain array for each backend among the values."""
    raws = [value.raw if isinstance(value, Tensor) else value for value in values]
    return {backend.name: raw for raw in raws if (backend := backend_of_type(type(raw))) is not None}


def moves(*arrays: Any) -> bool:
    """Return True if operations move the NumPy arrays among some arrays to the others.

    The backend of the others is the selected one, or one with ``accepts_numpy``.
    """
    found = _by_backend(arrays).keys()
    if len(found) != 2 or "numpy" not in found:
        return False
    (other,) = found - {"numpy"}
    return other == selected().backend.name or load(other).accepts_numpy


def beside(array: Any, like: Any) -> Any:
    """Return an array on the backend and device of another one, with its derivatives."""
    return CALLS["move_beside"](array, like)


def moved_beside(values: Sequence[Any], others: Iterable[Any]) -> list[Any]:
    """Move the NumPy arrays among values if ``others`` are on the selected backend."""
    here = selected().backend.name
    if here == "numpy" or not any(map(is_numpys, values)) or (like := _by_backend(others).get(here)) is None:
        return list(values)
    return [beside(value, like) if is_numpys(value) else value for value in values]


def started(values: Sequence[Any], function: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """Return the initial arguments of a function that is called with its results.

    The function is called only if NumPy arrays may move to the selected backend.
    """
    if selected().backend.name == "numpy" or not any(map(is_numpys, values)):
        return list(values)
    with no_grad():
        found = function([CALLS["lift"](value) for value in values])
    return moved_beside(values, (*values, *found))


def returned(cotangent: Any, array: Any) -> Any:
    """Return the cotangent of a NumPy array on NumPy."""
    if cotangent is None or not is_numpys(array) or is_numpys(cotangent):
        return cotangent
    return beside(cotangent, array)


def is_numpys(value: Any) -> bool:
    """Return True for a NumPy array and for a Tensor of one."""
    return type(value.raw if isinstance(value, Tensor) else value) in NUMPYS


def mixed(name: str, *arrays: Any) -> MixedBackendsError:
    """Return the error of an operation on arrays of several backends."""
    first, *others = _by_backend(arrays)
    text = f'{name} was given arrays of {" and of ".join((first, *others))}. Move a Tensor by x.to("{first}"), '
    text += f'an array by agrad.asarray(x, backend="{first}") or, with agrad.numpy, np.asarray(x).'
    if [*others, first].count("numpy") and len(others) == 1:
        there = others[0] if first == "numpy" else first
        text += f' After agrad.set_backend("{there}"), operations move NumPy arrays there.'
    return MixedBackendsError(text)


def without_scalars(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert NumPy scalars to numbers if the first array is of another library.

    With an integer array, a floating-point scalar becomes an array of its dtype, as in NumPy.
    """
    for arg in args:
        if hasattr(arg, "shape") and not isinstance(arg, np.generic):
            if is_numpys(arg):
                return args
            whole = not is_floating(arg.dtype)
            return tuple([_number(a, arg, whole) if isinstance(a, np.generic) else a for a in args])
    return args


def _number(scalar: np.generic, like: Any, whole: bool) -> Any:
    return beside(np.asarray(scalar), like) if whole and isinstance(scalar, np.inexact) else scalar.item()
