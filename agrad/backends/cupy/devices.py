"""Device guards for CuPy with several devices.

CuPy launches kernels on the current device, not on the device of the arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from cupy import ndarray
from cupy.cuda import Device
from cupy.cuda.runtime import getDevice, setDevice


def _devices(values: Sequence[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, ndarray):
            yield value.data.device_id
        elif isinstance(value, (tuple, list)):
            yield from _devices(value)


def placed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to run on the device of its arrays.

    The function raises ``ValueError`` if the arrays are on several devices.
    """

    def call(*args: Any, **settings: Any) -> Any:
        current = getDevice()
        devices = set(_devices(args))
        if devices <= {current}:
            return function(*args, **settings)
        if len(devices) > 1:
            raise ValueError(f"arrays must be on one device, got devices {sorted(devices)}")
        with Device(*devices):
            return function(*args, **settings)

    return call


def place_functions(namespace: SimpleNamespace) -> None:
    """Wrap all functions of a namespace by ``placed``."""
    for name, function in vars(namespace).items():
        if isinstance(function, SimpleNamespace):
            place_functions(function)
        elif callable(function) and not isinstance(function, type):
            setattr(namespace, name, placed(function))


class DeviceScope:
    """The guard that makes the device of a node's arrays current in a backward pass."""

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """Restore the current device at the end."""
        before = getDevice()
        try:
            yield
        finally:
            setDevice(before)

    def switch_to(self, *values: Any) -> None:
        """Make the device of the first array among arrays, Tensors and None current."""
        for value in values:
            value = getattr(value, "raw", value)
            if isinstance(value, ndarray):
                setDevice(value.data.device_id)
                return
