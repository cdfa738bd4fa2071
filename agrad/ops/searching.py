"""Searching and tests over elements: integers and booleans, with no derivative."""

from typing import Any

from agrad.engine.notation import primitive
from agrad.ops.shared import axes_of


@primitive(constant="x")
def argmax(xp: Any, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the greatest element along ``axis`` (None: of the flattened array). Integers; no derivative."""
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@primitive(constant="x")
def argmin(xp: Any, x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The index of the least element along ``axis`` (None: of the flattened array). Integers; no derivative."""
    return xp.argmin(x, axis=axis, keepdims=keepdims)


@primitive(constant="x", normalize={"axis": axes_of})
def all(xp: Any, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements over ``axis`` are true. Booleans; no derivative."""
    return xp.all(x, axis=axis, keepdims=keepdims)


@primitive(constant="x", normalize={"axis": axes_of})
def any(xp: Any, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element over ``axis`` is true. Booleans; no derivative."""
    return xp.any(x, axis=axis, keepdims=keepdims)


__all__ = ["all", "any", "argmax", "argmin"]
