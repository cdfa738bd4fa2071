"""Memory of gradients that nobody holds: a program writes the next ones there."""

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.numpy.backend import donatable

FEWEST = 1 << 13
"""The fewest elements of a gradient whose memory is reused."""


class _Holder:
    __slots__ = ("_grad",)


def _calibrate() -> int:
    # interpreters count different numbers of their own temporaries; for one that does not count it is 0
    holder: Any = _Holder()
    holder._grad = _Holder()
    gradient = holder._grad
    return sys.getrefcount(gradient) if hasattr(sys, "getrefcount") else 0


_ALONE = _calibrate()


def reusable_gradient_function(shape: tuple[int, ...], dtype: Any) -> Callable[[Any], np.ndarray | None]:
    """Return the function from a Tensor to the array of its gradient.

    It returns None if somebody else holds the gradient or the array, or if a gradient of this shape and dtype cannot be
    written there.
    """

    def find(tensor: Any) -> np.ndarray | None:
        gradient = tensor._grad
        if getattr(gradient, "node", gradient) is not None or sys.getrefcount(gradient) > _ALONE:
            return None
        if weakref.getweakrefcount(gradient) or not donatable(gradient):
            return None
        found: np.ndarray = gradient.data
        return found if found.shape == shape and found.dtype == dtype and found.flags.c_contiguous else None

    return find
