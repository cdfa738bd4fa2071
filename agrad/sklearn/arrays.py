"""Backends and devices of the computation and of the results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array
from scipy.sparse import issparse
from sklearn import get_config

import agrad
from agrad.errors import ConfigurationError

DTYPES = ("float64", "float32")
"""The dtypes that estimators compute in; the first one for input of any other."""


class DeviceSpec(NamedTuple):
    """A backend and a device of it."""

    backend: str
    device: Any

    def put(self, array: Any) -> Any:
        """Return a plain array here."""
        if self.backend == "numpy" and type(array) is np.ndarray:
            return array
        return agrad.asarray(array, backend=self.backend, device=self.device).raw


def dispatched(array: Any) -> bool:
    """Return True for an array that scikit-learn is set to leave in its library."""
    return bool(get_config()["array_api_dispatch"]) and is_array_api_obj(array) and not is_numpy_array(array)


def place_of(array: Any) -> DeviceSpec:
    """Return the backend and device of an array."""
    tensor = agrad.asarray(array)
    return DeviceSpec(tensor.backend, tensor.device)


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
    return agrad.take(array, place_of(array).put(where), axis=0)


class Result(NamedTuple):
    """Library and device of results, as of the input."""

    place: DeviceSpec | None

    @classmethod
    def like(cls, array: Any) -> Result:
        """Return the backend of results for an input: NumPy unless it is ``dispatched``."""
        return cls(place_of(array) if dispatched(array) else None)

    def give(self, value: Any) -> Any:
        """Return an array of any library in the library of the input."""
        if self.place is not None:
            return self.place.put(value)
        return np.asarray(agrad.asarray(value).numpy())
