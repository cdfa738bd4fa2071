"""Examples on the device: all at once if they fit, otherwise in batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import agrad
from agrad import tree
from agrad.backends import load
from agrad.backends.base import Backend, DeviceSpec

SHARE = 0.5
"""The share of a device's free memory for data; the rest is for the network."""


def place_of(tensor: agrad.Tensor) -> DeviceSpec:
    """Return the backend and device of a Tensor."""
    return DeviceSpec(load(tensor.backend), tensor.device)


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
        stats = place.memory_stats() or {}
        return int(stats["bytes_limit"]) - int(stats["bytes_in_use"]) if "bytes_limit" in stats else None
    return None


class Feed:
    """Examples, a pytree of arrays (n, ...), in batches of backend arrays.

    If `resident`, all of them are on the device from the start, and a batch is gathered there.
    """

    def __init__(self, examples: Any, place: DeviceSpec) -> None:
        self.place = place
        backend, device = place.backend, place.device
        arrays, self._structure = tree.flatten(examples)
        self.n: int = int(arrays[0].shape[0])
        self._move: Callable[[Any], Any] = lambda x: (
            agrad.asarray(x, backend=backend.name, device=device, copy=True).raw
        )
        self._xp = backend.xp
        free = free_bytes(backend, device)
        size = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
        self.resident: bool = not backend.lazy and (free is None or size <= SHARE * free)
        self._host = [isinstance(x, np.ndarray) and (backend.name == "numpy" or not self.resident) for x in arrays]
        pairs = zip(arrays, self._host, strict=True)
        self._arrays = [array if host else self._move(array) for array, host in pairs]
        self._moves = backend.name != "numpy" and any(self._host)

    def order(self, rows: np.ndarray) -> Any:
        """Return the order of an epoch for `batch`, int64 (k,).

        It is moved once, and not at every step.
        """
        return rows if all(self._host) else (rows, self._move(rows))

    def batch(self, order: Any, start: int, stop: int, step: int = 1) -> Any:
        """Return the examples numbered order[start:stop:step]."""
        if not isinstance(order, tuple):
            rows = order[start:stop:step]
            return self._made([x.take(rows, axis=0) for x in self._arrays])
        here, there = (rows[start:stop:step] for rows in order)
        pairs = zip(self._arrays, self._host, strict=True)
        return self._made([x.take(here, axis=0) if h else self._xp.take(x, there, axis=0) for x, h in pairs])

    def stretch(self, start: int, stop: int) -> Any:
        """Return the examples from start to stop, in the order of memory."""
        return self._made([x[start:stop, ...] if x.ndim > 1 else x[start:stop] for x in self._arrays])

    def stretches(self, size: int) -> Iterator[Any]:
        """Return an iterator over all examples in stretches of `size`."""
        return (self.stretch(start, min(start + size, self.n)) for start in range(0, self.n, size))

    def _made(self, parts: list[Any]) -> Any:
        if self._moves:
            parts = [self._move(part) if isinstance(part, np.ndarray) else part for part in parts]
        return tree.unflatten(self._structure, parts)
