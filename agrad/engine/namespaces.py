"""Namespaces by the type of an array, and dictionaries that compute their entries."""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.tensor import Tensor
from agrad.registry import namespace

NUMBERS = frozenset({bool, int, float})
"""The types of Python numbers that keep the dtype of an array, without complex."""


class Memo(dict[Any, Any]):
    """A dictionary that computes an entry from its key at the first lookup."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, key: Any) -> Any:
        return self.setdefault(key, self.make(key))


def _namespace(kind: type) -> Any:
    if issubclass(kind, Tensor):
        return namespace
    backend = backend_of_type(kind)
    if backend is None:
        raise KeyError(kind)
    return backend.xp


NAMESPACES = Memo(_namespace)
"""The namespaces for rules by array type: of a backend, or the agrad namespace for Tensors."""


def namespace_of(values: Sequence[Any]) -> Any:
    """Return the agrad namespace if any value is a Tensor, otherwise of the backend."""
    space = None
    for value in values:
        if isinstance(value, Tensor):
            return namespace
        if space is None and hasattr(value, "shape"):
            space = NAMESPACES[type(value)]
    return space
