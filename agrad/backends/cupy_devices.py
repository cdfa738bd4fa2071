"""Where CuPy has several devices: operations run where their arrays are, as CuPy itself works on the current device."""

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
    """The function, run on the device of the arrays it is given; an error where these are several."""

    def call(*args: Any, **settings: Any) -> Any:
        current = getDevice()
        devices = set(_devices(args))
        if devices <= {current}:
            return function(*args, **settings)
        if len(devices) > 1:
            raise ValueError(f"the arrays lie on several devices: {sorted(devices)}")
        with Device(*devices):
            return function(*args, **settings)

    return call


def place_words(namespace: SimpleNamespace) -> None:
    """Let all functions of a namespace run on the device of their arrays."""
    for name, word in vars(namespace).items():
        if isinstance(word, SimpleNamespace):
            place_words(word)
        elif callable(word) and not isinstance(word, type):
            setattr(namespace, name, placed(word))


class Follower:
    """Lets CuPy's current device go with the arrays of a backward pass, from one node to the next."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """The current device is afterwards what it was before."""
        before = getDevice()
        try:
            yield
        finally:
            setDevice(before)

    def go_to(self, *values: Any) -> None:
        """Work where the first array among some values is, from here on; they may be Tensors, and None."""
        for value in values:
            value = getattr(value, "raw", value)
            if isinstance(value, ndarray):
                setDevice(value.data.device_id)
                return
