"""Pytrees: nested dicts, lists, tuples, namedtuples and dataclasses."""

import dataclasses
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import optree

from agrad.backends import backend_of_type
from agrad.engine.namespaces import Memo
from agrad.engine.tensor import Tensor
from agrad.errors import OperandError

NAMESPACE = "agrad"
"""The namespace of registrations of agrad with optree."""

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
"""Types of leaves that are not dataclasses."""


def _is_array(kind: type) -> bool:
    try:
        return (issubclass(kind, Tensor) or backend_of_type(kind) is not None) and not dataclasses.is_dataclass(kind)
    except OperandError:  # an array that operations do not support
        return False


ARRAYS = Memo(_is_array)
"""Flags by type: True for arrays and Tensors, which are leaves."""

ONE = optree.tree_structure(cast(Any, 0), namespace=NAMESPACE)
TUPLE_OF_ONE = optree.tree_structure(cast(Any, (0,)), namespace=NAMESPACE)
"""The structures of most arguments: an array, and a tuple of one array."""


def _unknown(kind: type) -> bool:
    """Return True for a dataclass that is not registered with optree."""
    if dataclasses.is_dataclass(kind):
        return kind not in _registered
    _leaves.add(kind)
    return False


def flatten(tree: Any) -> tuple[list[Any], optree.PyTreeSpec]:
    """Return the leaves and the structure of a pytree. None has no leaves."""
    if ARRAYS[type(tree)]:
        return [tree], ONE
    if type(tree) is tuple and len(tree) == 1 and ARRAYS[type(tree[0])]:
        return [*tree], TUPLE_OF_ONE
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
    """Return the leaves of a pytree, including None, and its structure."""
    flatten(tree)  # registers the dataclasses in it
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=NAMESPACE)
    return leaves, spec


def unflatten(spec: optree.PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Return the pytree with a structure and leaves."""
    if spec is ONE:
        return next(iter(leaves))
    return tuple(leaves) if spec is TUPLE_OF_ONE else optree.tree_unflatten(spec, leaves)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a pytree like ``tree``, with ``function`` applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [function(leaf) for leaf in leaves])


def replaced(values: Sequence[Any], places: Iterable[int], new: Iterable[Any]) -> list[Any]:
    """Return values with new ones at some positions."""
    out = list(values)
    for place, value in zip(places, new, strict=True):
        out[place] = value
    return out


def paths(tree: Any, none_is_leaf: bool = False) -> list[str]:
    """Return the path of each leaf in Python's notation: ``['layers'][0]``."""
    accessors, _, _ = optree.tree_flatten_with_accessor(tree, none_is_leaf=none_is_leaf, namespace=NAMESPACE)
    return [accessor.codify("") for accessor in accessors]


def argument_names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """Return the parameter names of positional arguments.

    The list is empty if the signature is unknown or rejects the arguments.
    """
    try:
        bound = inspect.signature(f).bind_partial(*args)
    except (TypeError, ValueError):
        return []
    names = []
    for name, value in bound.arguments.items():
        variadic = bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}[{i}]" for i in range(len(value))] if variadic else [name]
    return names


class TreePath:
    """The path of a leaf in an argument or a result, as text for an error message.

    The text is computed only if the message is. ``what`` describes the children of ``tree``, ``keys`` are their names
    (by default their indices), and ``whole`` describes a tree that is a leaf.
    """

    __slots__ = ("_how", "_number", "_tree")

    def __init__(
        self, tree: Any, number: int, what: str, whole: str = "", keys: Sequence[Any] = (), none_is_leaf: bool = False
    ) -> None:
        self._tree, self._number, self._how = tree, number, (what, whole, keys, none_is_leaf)

    def __str__(self) -> str:
        what, whole, keys, none_is_leaf = self._how
        path = paths(self._tree, none_is_leaf)[self._number]
        if not path:
            return whole or what
        head, _, rest = path.partition("]")
        number = head[1:]
        if not number.isdigit():
            return f"{what} {path}"
        return f"{what} {repr(keys[int(number)]) if keys else number}{rest}"
