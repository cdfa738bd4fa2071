"""Backends and devices of the computation and of the results."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array
from scipy.sparse import issparse
from sklearn import get_config

import agrad
from agrad.errors import ConfigurationError
from agrad.train import batches
from agrad.train.batches import DeviceSpec

DTYPES = ("float64", "float32")
"""The dtypes that estimators compute in; the first one for input of any other."""


def dispatched(array: Any) -> bool:
    """Return True for an array that scikit-learn is set to leave in its library."""
    return bool(get_config()["array_api_dispatch"]) and is_array_api_obj(array) and not is_numpy_array(array)


def place_of(array: Any) -> DeviceSpec:
    """Return the backend and device of an array."""
    return batches.place_of(agrad.asarray(array))


def placed(array: Any, place: DeviceSpec) -> Any:
    """Return a plain array on a backend and device."""
    if place.backend.name == "numpy" and type(array) is np.ndarray:
        return array
    return agrad.asarray(array, backend=place.backend.name, device=place.device).raw


def place_for(array: Any, backend: str | None, device: Any) -> DeviceSpec:
    """Return the backend and device by name, of the input, or the selected ones."""
    if backend is None and device is None and dispatched(array):
        return place_of(array)
    if backend is None:
        return place_of(agrad.zeros((1,), device=device))
    with agrad.use_backend(backend, device):  # which turns 64-bit numbers of JAX on
        return place_of(agrad.zeros((1,)))


def dtypes_for(array: Any, dtype: Any) -> list[Any]:
    """Return the dtypes that an estimator accepts, in the library of the input."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype
    if name is not None and name not in DTYPES:
        raise ConfigurationError(
            f"dtype must be 'float32', 'float64', or None for the dtype of the data, got {dtype!r}"
        )
    xp = array_namespace(array) if dispatched(array) else np
    return [getattr(xp, found) for found in (DTYPES if name is None else (name,))]


def dtype_name(array: Any) -> str:
    """Return the name of a dtype of ``DTYPES``."""
    return str(array.dtype).rpartition(".")[2]


def host(array: Any) -> np.ndarray:
    """Return an array of any library as a NumPy array."""
    return agrad.asarray(array).numpy() if dispatched(array) else np.asarray(array)


def rows(array: Any, where: slice | np.ndarray) -> Any:
    """Return rows, by a slice or by integers, on the host or with the array."""
    if issparse(array) or (isinstance(where, slice) and isinstance(array, np.ndarray)):
        return array[where]
    if isinstance(where, slice):
        return array[where, ...]
    if isinstance(array, np.ndarray):
        return np.take(array, where, axis=0)
    return agrad.take(array, placed(where, place_of(array)), axis=0)


def home(array: Any) -> DeviceSpec | None:
    """Return the backend and device of results for an input; None for NumPy arrays.

    They are those of the input only if it is ``dispatched``.
    """
    return place_of(array) if dispatched(array) else None


def as_input(value: Any, array: Any) -> Any:
    """Return an array of any library in the library of an input."""
    place = home(array)
    return np.asarray(agrad.asarray(value).numpy()) if place is None else placed(value, place)
