"""Memory that a program reuses: buffers, and the arrays of the last gradients."""

import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.numpy.backend import donatable

LARGEST = 1 << 23
"""Bytes of the largest buffer that is kept. For larger arrays, the C library reuses memory."""

MOST = 1 << 26
"""The most bytes of the buffers of one call."""

_LINE = 64
"""The alignment of buffers in bytes."""


class Workspace:
    """The buffers of a program, planned once.

    A call gets a set of arrays from ``borrow()`` and puts it back into ``idle`` at its end. A simultaneous call on
    another thread uses another set. The set of a call that raises is garbage collected.
    """

    def __init__(self) -> None:
        self.idle: list[tuple[np.ndarray, ...]] = []
        self._sizes: list[int] = []
        self._free: list[int] = []
        self._arrays: list[tuple[int, tuple[int, ...], np.dtype] | tuple[int, Callable[[np.ndarray], Any]]] = []
        self._samples: list[np.ndarray] = []
        self._known: dict[Any, int] = {}
        """The numbers of arrays by buffer, shape and dtype."""

    def __len__(self) -> int:
        return len(self._arrays)

    def take(self, count: int) -> int | None:
        """Return the number of a free buffer of ``count`` bytes, or None above the limits."""
        if count > LARGEST:
            return None
        # among equals the most recently used, which is probably in the cache
        latest, sizes = self._free[::-1], self._sizes
        best = next((i for i in latest if sizes[i] == count), None)
        if best is None and latest:  # the smallest that is large enough; if there is none, the largest
            best = min(latest, key=lambda i: (sizes[i] < count, abs(sizes[i] - count)))
        if (best is None or self._sizes[best] < count) and sum(self._sizes) + count > MOST:
            return None
        if best is None:
            self._sizes.append(count)
            return len(self._sizes) - 1
        self._free.remove(best)
        self._sizes[best] = max(self._sizes[best], count)
        return best

    def give(self, buffer: int) -> None:
        """Mark a buffer as free."""
        self._free.append(buffer)

    def array(self, buffer: int, shape: tuple[int, ...], dtype: np.dtype) -> int:
        """Return the number of the array of a shape and dtype at the start of a buffer."""
        key = (buffer, shape, dtype)
        if key not in self._known:
            self._known[key] = self._add(key, np.empty(shape, dtype))
        return self._known[key]

    def view(self, array: int, function: Callable[[np.ndarray], Any]) -> int | None:
        """Return the number of the view that a function returns for an array, or None."""
        sample = function(self._samples[array])
        if type(sample) is not np.ndarray or not np.may_share_memory(sample, self._samples[array]):
            return None
        return self._add((array, function), sample)

    def sample(self, array: int) -> np.ndarray:
        """Return an array with the shape, dtype and layout of a kept one, for planning."""
        return self._samples[array]

    def _add(self, recipe: Any, sample: np.ndarray) -> int:
        self._arrays.append(recipe)
        self._samples.append(sample)
        return len(self._arrays) - 1

    def close(self) -> None:
        """Free the arrays that were needed for planning."""
        self._samples.clear()
        self._known.clear()

    def borrow(self) -> tuple[np.ndarray, ...]:
        """Return a set of arrays for one call."""
        try:
            return self.idle.pop()
        except IndexError:
            return self._make()

    def _make(self) -> tuple[np.ndarray, ...]:
        buffers = [_aligned(count) for count in self._sizes]
        made: list[np.ndarray] = []
        for recipe in self._arrays:
            if len(recipe) == 2:
                at, function = recipe
                made.append(function(made[at]))
            else:
                at, shape, dtype = recipe
                count = math.prod(shape) * dtype.itemsize
                made.append(buffers[at][:count].view(dtype).reshape(shape))
        return tuple(made)


def _aligned(count: int) -> np.ndarray:
    raw = np.empty(count + _LINE, np.uint8)
    start = -raw.__array_interface__["data"][0] % _LINE
    return raw[start : start + count]


# ------------------------------------------------------------------ gradients


FEWEST = 1 << 13
"""The fewest elements of a gradient whose memory is reused."""


class _Holder:
    __slots__ = ("_grad",)


def _calibrate() -> int:
    # interpreters differ in counting references from their own temporaries; 0 for one that does not count them
    holder: Any = _Holder()
    holder._grad = _Holder()
    gradient = holder._grad
    return sys.getrefcount(gradient) if hasattr(sys, "getrefcount") else 0


_ALONE = _calibrate()


def reusable_gradient_function(shape: tuple[int, ...], dtype: Any) -> Callable[[Any], np.ndarray | None]:
    """Return the function from a Tensor to the array of its gradient.

    It returns None if something else holds the gradient or the array, or if a gradient of this shape and dtype cannot
    be written there.
    """

    def find(tensor: Any) -> np.ndarray | None:
        gradient = tensor._grad
        if getattr(gradient, "node", gradient) is not None or sys.getrefcount(gradient) > _ALONE:
            return None
        if weakref.getweakrefcount(gradient) or not donatable(gradient)[0]:
            return None
        found: np.ndarray = gradient.data
        return found if found.shape == shape and found.dtype == dtype and found.flags.c_contiguous else None

    return find
