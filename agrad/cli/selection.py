"""Which backend and device a command computes on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import agrad
from agrad.backends import Selection, selected
from agrad.backends.base import Backend


@dataclass(frozen=True)
class Place:
    """A backend and one of its devices, and why it is this one."""

    backend: Backend
    device: Any
    why: str

    @property
    def device_name(self) -> str:
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
    # a TPU takes it as a request for its own middle precision
    return place.backend.name == "jax" and bool(device.platform != "cpu")


@contextmanager
def chosen(backend: str | None, device: str | None) -> Iterator[Place]:
    """Select backend and device by the options, else the environment, else NumPy.

    Raises ``BackendUnavailableError`` or ``DeviceUnavailableError``; nothing else is tried in its place.
    """
    if backend is None and device is None:
        why = "AGRAD_BACKEND" if os.environ.get("AGRAD_BACKEND") else "the default"
        with _current(selected(), why) as place:
            yield place
        return
    why = "--backend"
    if backend is None:
        backend, why = (
            agrad.get_backend(),
            "AGRAD_BACKEND" if os.environ.get("AGRAD_BACKEND") else "the default",
        )
    elif device is None and backend == os.environ.get("AGRAD_BACKEND"):
        device = os.environ.get("AGRAD_DEVICE") or None
    with agrad.use_backend(backend, device), _current(selected(), why) as place:
        yield place


@contextmanager
def _current(selection: Selection, why: str) -> Iterator[Place]:
    place = Place(selection.backend, selection.device, why)
    # CuPy launches on its current device, wherever the arrays lie
    on = place.backend.device(place.device) if place.backend.name == "cupy" else nullcontext()
    with on:
        yield place
