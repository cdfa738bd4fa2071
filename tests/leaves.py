"""Leaves of tests of the engine, and which backends have views."""

from typing import Any

import agrad

WITH_VIEWS = ("numpy", "torch", "array_api_strict", "cupy")


def leaf(values: Any, dtype: Any = agrad.float64) -> agrad.Tensor:
    """Return a Tensor on the selected backend that requires a gradient."""
    return agrad.asarray(values, dtype=dtype, requires_grad=True)


def shares(backend: str) -> bool:
    """Return whether the arrays of a backend have views."""
    return backend in WITH_VIEWS
