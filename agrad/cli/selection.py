"""The selection of backend and device for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import agrad
from agrad.backends import selected
from agrad.backends.base import DeviceSpec as BaseSpec
from agrad.backends.base import device_name

__all__ = ["DeviceSpec", "chosen", "device_name"]


@dataclass(frozen=True)
class DeviceSpec(BaseSpec):
    """A backend, one of its devices, and the source of the selection."""

    why: str


@contextmanager
def chosen(backend: str | None, device: str | None) -> Iterator[DeviceSpec]:
    """Select backend and device: from options, the environment, or NumPy.

    Raises ``BackendUnavailableError`` or ``DeviceUnavailableError``; no other is tried instead.
    """
    default = os.environ.get("AGRAD_BACKEND")
    why = "--backend" if backend is not None else "AGRAD_BACKEND" if default else "the default"
    if device is None and backend is not None and backend == default:
        device = os.environ.get("AGRAD_DEVICE") or None
    with ExitStack() as stack:
        if backend is not None or device is not None:
            stack.enter_context(agrad.use_backend(agrad.get_backend() if backend is None else backend, device))
        place = DeviceSpec(selected().backend, selected().device, why)
        if place.backend.name == "cupy":
            # CuPy launches on its current device, not on that of the arrays
            stack.enter_context(place.backend.device(place.device))
        yield place
