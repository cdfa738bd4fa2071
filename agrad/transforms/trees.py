"""Nested containers of dict, list, tuple, namedtuple and dataclass: pytrees."""

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Any

import optree

NAMESPACE = "agrad"
"""The namespace of agrad's registrations with optree."""

_registered: set[type] = set()
_registering = threading.Lock()


def _register(kind: type) -> None:
    """Register a dataclass with optree: its fields are its children, by name."""
    names = tuple(field.name for field in dataclasses.fields(kind))

    def flatten(value: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(value, name) for name in names), None, names

    def unflatten(_: Any, children: Iterable[Any]) -> Any:
        # without __init__, which may have other parameters, or checks that a leaf would fail
        value: Any = object.__new__(kind)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        return value

    with _registering:
        if kind not in _registered:
            optree.register_pytree_node(kind, flatten, unflatten, namespace=NAMESPACE)
            _registered.add(kind)


_leaves: set[type] = set()
"""Types of leaves known not to be dataclasses."""


def _unknown(kind: type) -> bool:
    """Return True for a dataclass that is not registered with optree."""
    if dataclasses.is_dataclass(kind):
        return kind not in _registered
    _leaves.add(kind)
    return False


def flatten(tree: Any) -> tuple[list[Any], optree.PyTreeSpec]:
    """Return a container's leaves and structure. None has no leaves."""
    while True:
        leaves, spec = optree.tree_flatten(tree, namespace=NAMESPACE)
        kinds = set(map(type, leaves))
        if kinds <= _leaves:
            return leaves, spec
        unknown = [kind for kind in kinds if _unknown(kind)]
        if not unknown:
            return leaves, spec
        for kind in unknown:
            _register(kind)


def flatten_all(tree: Any) -> tuple[list[Any], Any]:
    """Return a container's leaves, None among them, and its structure."""
    flatten(tree)  # registers the dataclasses in it
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
    return leaves, spec


def unflatten(spec: optree.PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Return the container with a structure and leaves."""
    return optree.tree_unflatten(spec, leaves)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a container like ``tree``, with ``function`` of each leaf."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [function(leaf) for leaf in leaves])


def paths(tree: Any, none_is_leaf: bool = False) -> list[str]:
    """Return the path of each leaf in Python's notation: ``['layers'][0]``."""
    accessors, _, _ = optree.tree_flatten_with_accessor(tree, none_is_leaf=none_is_leaf, namespace=NAMESPACE)
    return [accessor.codify("") for accessor in accessors]


class Place:
    """The place of a leaf, in words for an error text.

    The words are computed when the text is.
    """

    __slots__ = ("_number", "_words")

    def __init__(self, words: Callable[[], list[str]], number: int) -> None:
        self._words = words
        self._number = number

    def __str__(self) -> str:
        return self._words()[self._number]


def place_of(path: str, what: str, whole: str | None = None) -> str:
    """Return ``argument 0['w']`` for the path ``[0]['w']``, ``whole`` for no path."""
    if not path:
        return whole or what
    head, _, rest = path.partition("]")
    number = head[1:]
    return f"{what} {number}{rest}" if number.isdigit() else f"{what} {path}"
