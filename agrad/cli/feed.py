"""Examples on the device: all at once if they fit, else batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.base import Backend
from agrad.cli.selection import Place

LAZY = ("dask",)
"""Backends with lazy arrays: each use of a batch would compute it again."""

SHARE = 0.5
"""The share of a device's free memory for data; the rest is for the network."""


def free_bytes(backend: Backend, device: Any) -> int | None:
    """Return the free memory of a device in bytes, or None if it is not known."""
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

    If `resident`, all of them are on the device from the start, and a batch is gathered there.
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

        It is moved once, and not at every step.
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
