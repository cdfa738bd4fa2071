"""The selection of backend and device for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import agrad
from agrad.backends import selected
from agrad.backends.base import DeviceSpec


def source(backend: str | None) -> str:
    """Return what selects the backend, for ``--backend``."""
    return "--backend" if backend is not None else "AGRAD_BACKEND" if os.environ.get("AGRAD_BACKEND") else "the default"


@contextmanager
def chosen(backend: str | None, device: str | None) -> Iterator[DeviceSpec]:
    """Select backend and device: from options, the environment, or NumPy.

    Raises ``BackendUnavailableError`` or ``DeviceUnavailableError``; no other is tried instead.
    """
    if device is None and backend is not None and backend == os.environ.get("AGRAD_BACKEND"):
        device = os.environ.get("AGRAD_DEVICE") or None
    with ExitStack() as stack:
        if backend is not None or device is not None:
            stack.enter_context(agrad.use_backend(agrad.get_backend() if backend is None else backend, device))
        place = DeviceSpec(selected().backend, selected().device)
        if place.backend.name == "cupy":
            # CuPy launches on its current device, not on that of the arrays
            stack.enter_context(place.backend.device(place.device))
        yield place
