"""Namespaces by the type of an array; a dictionary that makes its entries."""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.tensor import Tensor
from agrad.registry import namespace

NUMBERS = frozenset({bool, int, float})
"""Python's weak scalars, without complex: one may turn a real array complex."""


class Memo(dict[Any, Any]):
    """A dictionary that makes an entry from its key when it is first asked for."""

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
"""The namespaces for rules, by argument type: a backend's, or agrad's for Tensors."""


def namespace_of(values: Sequence[Any]) -> Any:
    """Return agrad's namespace if any value is a Tensor, else that of their backend."""
    space = None
    for value in values:
        if isinstance(value, Tensor):
            return namespace
        if space is None and hasattr(value, "shape"):
            space = NAMESPACES[type(value)]
    return space
