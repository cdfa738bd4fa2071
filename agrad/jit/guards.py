"""Guards: comparisons of captured objects with their state in the trace.

The elements of containers, the attributes of objects and the contents of cells must be the same objects as when the
function was traced. If ``==`` is sufficient, one call compares a container with a copy, and identities first. If it is
not, because 2 == 2.0, the elements of all containers are compared in one list: by identity, then by type and value.
"""

import functools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import chain
from typing import Any

import numpy as np

from agrad.engine.tensor import Tensor

NUMBERS = (bool, int, float, complex, np.generic)
PLAIN = (*NUMBERS, str, bytes, type(None), range, slice, type(...), np.dtype, Enum)
"""Types of immutable values."""


def is_value(value: Any) -> bool:
    """Return True for an immutable value of a library's class."""
    return isinstance(value, PLAIN) and is_library(type(value))


def is_library(kind: type) -> bool:
    """Return True for classes of the array libraries and of the standard library.

    A class that ``types.new_class`` or ``ABCMeta`` makes for a user has their module's name, but is not in the module.
    """
    if not is_library_module(kind.__module__):
        return False
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind or "<locals>" in kind.__qualname__ or not kind.__flags__ & _HEAP


def is_library_module(module: str | None) -> bool:
    """Return True for modules of the array libraries and of the standard library."""
    root = root_of(module)
    return root in _LIBRARIES or root in sys.stdlib_module_names


def root_of(module: str | None) -> str:
    """Return the name of the package of a module."""
    return (module or "").partition(".")[0]


_LIBRARIES = {"numpy", "torch", "jax", "jaxlib", "dask", "cupy", "array_api_strict", "array_api_compat", "optree"}

_HEAP = 1 << 9
"""The flag of heap types. Every class that is written in Python has it."""

_END = (object(),)
"""Visits the elements of all containers in one sequence, as one container may grow and the next one shrink."""

_EQUAL: Any = object.__eq__
"""The ``__eq__`` of types whose objects are equal only to themselves."""

_content = operator.attrgetter("cell_contents", "cell_contents")  # two, because one would not return a tuple


class Contents(str):
    """The description of a value whose contents are compared but not shown."""

    __slots__ = ()


class Items(str):
    """The description of a container whose elements are indexed with brackets."""

    __slots__ = ()

    def of_member(self, kept: Sequence[Any], at: int) -> str:
        """Return the description of the element at a position of a list."""
        return f"{self}[{at}]"


class Keys(Items):
    """The description of a mapping, compared by its keys and then its values."""

    __slots__ = ()

    def of_member(self, kept: Sequence[Any], at: int) -> str:
        """Return the description of the value at a position of the list."""
        count = len(kept) // 2
        return f"{self}[{kept[at - count]!r}]" if at >= count else str(self)


Look = Callable[[], Iterable[Any]]


class RetraceGuards:
    """Objects and values that must be unchanged for a program to be valid."""

    def __init__(self) -> None:
        self._containers: list[Any] = []
        self._copies: list[Any] = []
        self._looks: list[Callable[[], Any]] = []
        self._looked: list[Any] = []
        """The results of the looks, for which ``==`` is enough."""
        self._strict: list[Look] = []
        self._row: list[Any] = []
        """The objects that the strict looks return."""
        self._named: list[tuple[Look, Sequence[Any], Sequence[str] | str]] = []

    # ------------------------------------------------------------------ what is guarded

    def guard_members(self, container: Any, what: str, numbers: bool = False) -> None:
        """Guard the elements of a list or a set, or the keys and values of a dict.

        numbers: ``==`` is sufficient for numbers, and the order is guarded only for keys.
        """
        mapping = isinstance(container, (dict, types.MappingProxyType))
        parts = (container.keys(), container.values()) if mapping else (container,)
        look = functools.partial(chain, *parts, _END)
        kept = self._named_look(look, what)
        if (numbers or type(container) is list) and False not in [_is_exact(v, numbers) for v in kept]:
            self._containers.append(container)
            self._copies.append(container.copy())
        else:
            self._strict.append(look)

    def guard_values(self, look: Look, what: Sequence[str] | str, numbers: bool = False) -> None:
        """Guard the tuple of objects that ``look`` returns and ``what`` describes."""
        kept = self._named_look(look, what)
        if False not in [_is_exact(v, numbers) for v in kept]:
            self._looks.append(look)
            self._looked.append(look())
        else:
            self._strict.append(look)

    def guard_each(self, look: Look, what: Sequence[str]) -> None:
        """Guard the objects of an iterator, by identity."""
        self._named_look(look, what)
        self._strict.append(look)

    def guard_cell(self, cell: types.CellType, what: str) -> None:
        """Guard the variable of a closure."""
        self.guard_values(functools.partial(_content, cell), what)

    def guard_content(self, look: Callable[[], Any], what: str) -> None:
        """Guard a value that each look creates, such as the bytes of an array."""
        self._named_look(lambda: (look(),), what)
        self._looks.append(look)
        self._looked.append(look())

    def _named_look(self, look: Look, what: Sequence[str] | str) -> Sequence[Any]:
        kept = tuple(look())
        self._named.append((look, kept, what))
        return kept

    def close(self) -> None:
        """Record the present objects, once all guards are set."""
        self._row = [*chain.from_iterable(map(operator.call, self._strict))]

    # ------------------------------------------------------------------ comparisons

    def holds(self) -> bool:
        """Return True if nothing has changed."""
        try:
            if self._containers != self._copies or [*map(operator.call, self._looks)] != self._looked:
                return False
            row = [*chain.from_iterable(map(operator.call, self._strict))]
            if not all(map(operator.is_, row, self._row)):
                if not _all_alike(row, self._row):
                    return False
                self._row = row
            return True
        except Exception:  # an object may no longer exist, and arrays may raise in comparisons
            return False

    def differences(self) -> list[tuple[str, Any, Any]]:
        """Return the descriptions of what has changed, with the old and the new value."""
        found: list[tuple[str, Any, Any]] = []
        for look, kept, what in self._named:
            try:
                now = tuple(look())
            except Exception:
                now = ()
            at = next((i for i, pair in enumerate(zip(now, kept, strict=False)) if not alike(*pair)), len(now))
            if at < len(kept):
                name = what if isinstance(what, str) else what[at if now else 0]
                if len(now) != len(kept):
                    found.append((name, kept[:-1], now[:-1]))
                else:
                    name = name.of_member(kept, at) if isinstance(name, Items) else name
                    found.append((name, kept[at], now[at]))
        return found

    def changed(self) -> list[str]:
        """Return the descriptions of what has changed."""
        return [what for what, *_ in self.differences()]


def _is_exact(value: Any, numbers: bool) -> bool:
    """Return True if ``==`` is sufficient for the value.

    ``==`` of arrays with several elements is not a Boolean.
    """
    kind = type(value)
    if kind.__eq__ is _EQUAL or kind in (str, bytes, types.CodeType):
        return True
    if isinstance(value, NUMBERS):
        return numbers
    return isinstance(value, Tensor) and value.size > 1


def _all_alike(row: Sequence[Any], kept: Sequence[Any]) -> bool:
    return len(row) == len(kept) and all(map(alike, row, kept))


def alike(a: Any, b: Any) -> bool:
    """Return True for the same object, and for equal plain values of one type."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in (tuple, frozenset):
        return _all_alike(tuple(a), tuple(b))
    return is_value(a) and not isinstance(a, Enum) and repr(a) == repr(b)  # -0.0 is not 0.0, and NaN is NaN
