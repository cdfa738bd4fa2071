"""The selection of backend and device for a command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import agrad
from agrad.backends import selected
from agrad.backends.base import Backend


@dataclass(frozen=True)
class Place:
    """A backend, one of its devices, and the source of the selection."""

    backend: Backend
    device: Any
    why: str

    @property
    def device_name(self) -> str:
        """The device as ``--device`` takes it."""
        return device_name(self.backend.device(self.device))


def device_name(device: Any) -> str:
    """Return a device as ``--device`` takes it, such as ``cuda:0``."""
    text = str(device)
    found = re.fullmatch(r"<CUDA Device (\d+)>", text)
    if found:
        return f"cuda:{found[1]}"
    found = re.fullmatch(r".*Device\('(.+)'\)", text)
    return found[1] if found else text


def has_tensor_float(place: Place) -> bool:
    """Return True for NVIDIA GPUs with TF32 products (compute capability 8 or more)."""
    device = place.backend.device(place.device)
    if place.backend.name == "cupy":
        return int(device.compute_capability) >= 80
    if place.backend.name == "torch" and device.type == "cuda":
        return bool(sys.modules["torch"].cuda.get_device_capability(device) >= (8, 0))
    # JAX does not tell the capability; a TPU uses its own middle precision
    return place.backend.name == "jax" and bool(device.platform != "cpu")


@contextmanager
def chosen(backend: str | None, device: str | None) -> Iterator[Place]:
    """Select backend and device by the options, else the environment, else NumPy.

    Raises ``BackendUnavailableError`` or ``DeviceUnavailableError``; no other is tried instead.
    """
    default = os.environ.get("AGRAD_BACKEND")
    why = "--backend" if backend is not None else "AGRAD_BACKEND" if default else "the default"
    if device is None and backend is not None and backend == default:
        device = os.environ.get("AGRAD_DEVICE") or None
    with ExitStack() as stack:
        if backend is not None or device is not None:
            stack.enter_context(agrad.use_backend(agrad.get_backend() if backend is None else backend, device))
        place = Place(selected().backend, selected().device, why)
        if place.backend.name == "cupy":
            # CuPy launches on its current device, not on that of the arrays
            stack.enter_context(place.backend.device(place.device))
        yield place
