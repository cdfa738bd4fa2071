"""Examples on the device: all at once where they fit, else batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.base import Backend
from agrad.cli.selection import Place

LAZY = ("dask",)
"""Backends whose arrays are promises: a batch of a large one would be worked out anew by every use of it."""

SHARE = 0.5
"""How much of a device's free memory the data may take; the rest is for the network and its gradients."""


def free_bytes(backend: Backend, device: Any) -> int | None:
    """Return the free memory of a device, or None where it is not known."""
    if backend.name == "cupy":
        with backend.device(device) as chosen:
            return int(chosen.mem_info[0])
    library = sys.modules.get(backend.name)
    place = backend.device(device)
    if backend.name == "torch" and library is not None and place.type == "cuda":
        return int(library.cuda.mem_get_info(place)[0])
    if backend.name == "jax" and place.platform != "cpu":
        told = place.memory_stats() or {}
        return int(told["bytes_limit"]) - int(told["bytes_in_use"]) if "bytes_limit" in told else None
    return None


class Feed:
    """Examples X (n, d) and labels y (n,), in batches of a backend's arrays.

    Where `resident`, all of them lie there from the start, and a batch is gathered on the device.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, place: Place) -> None:
        backend, device = place.backend, place.device
        self.n = int(X.shape[0])
        self._move: Callable[[np.ndarray], Any] = lambda host: backend.from_host(host, device)
        self._xp = backend.xp
        free = free_bytes(backend, device)
        self.resident = backend.name not in LAZY and (free is None or X.nbytes + y.nbytes <= SHARE * free)
        self._host = backend.name == "numpy" or not self.resident
        self._X: Any
        self._y: Any
        self._X, self._y = (X, y) if self._host else (self._move(X), self._move(y))

    def order(self, rows: np.ndarray) -> Any:
        """Return the order of an epoch, int64 (k,), on the device.

        It is moved once, not at every step.
        """
        return rows if self._host else self._move(rows)

    def batch(self, order: Any, start: int, stop: int) -> tuple[Any, Any]:
        """Return the examples and labels numbered order[start:stop]."""
        rows = order[start:stop]
        if not self._host:
            return self._xp.take(self._X, rows, axis=0), self._xp.take(self._y, rows, axis=0)
        X, y = self._X.take(rows, axis=0), self._y.take(rows, axis=0)
        return (X, y) if self.resident else (self._move(X), self._move(y))

    def stretch(self, start: int, stop: int) -> tuple[Any, Any]:
        """Return the examples and labels from start to stop, in the order of memory."""
        X, y = self._X[start:stop, ...], self._y[start:stop]
        return (X, y) if self.resident else (self._move(X), self._move(y))
