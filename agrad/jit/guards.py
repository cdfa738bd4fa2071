"""Guards of captured objects, compared at each call.

The members of containers, the attributes of objects and the contents of cells are to be the very objects that were
there when the function was traced. Where ``==`` can tell, copies of the containers are compared, which is one call
that looks at identity first. Where it cannot, as 2 == 2.0, the members stand in one row that is compared by identity,
and only where that fails by type and value.
"""

import operator
import types
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import chain
from typing import Any

import numpy as np

from agrad.engine.tensor import Tensor

NUMBERS = (bool, int, float, complex, np.generic)
PLAIN = (*NUMBERS, str, bytes, type(None), range, slice, type(...), np.dtype, Enum)
"""Types of values that nothing can change."""

_END = (object(),)
"""Stands behind the members of each container, so that one that grew or shrank is not taken for the next one."""

_EQUAL: Any = object.__eq__
"""That of types whose objects are equal to themselves alone."""

_content = operator.attrgetter("cell_contents")

Look = Callable[[], Sequence[Any]]


class Guards:
    """Objects that must be in their places, and values that must be what they were."""

    def __init__(self) -> None:
        self._live: list[Any] = []
        self._copies: list[Any] = []
        self._looks: list[Look] = []
        self._looked: list[Sequence[Any]] = []
        self._members: list[Iterable[Any]] = []
        self._strict: list[Look] = []
        self._cells: list[types.CellType] = []
        self._row: list[Any] = []
        """The members, what the strict looks find, and the contents of the cells."""
        self._contents: list[tuple[Callable[[], Any], Any]] = []
        self._named: list[tuple[Look, Sequence[Any], Sequence[str] | str]] = []

    # ------------------------------------------------------------------ what is guarded

    def guard_members(self, container: Any, what: str, numbers: bool = False) -> None:
        """Guard the members of a list or a set, or the keys and values of a dict.

        numbers: leave it at ``==`` for numbers, and the order of keys alone.
        """
        mapping = isinstance(container, (dict, types.MappingProxyType))
        parts = (container.keys(), container.values()) if mapping else (container,)
        kept = [*chain(*parts), *_END]
        self._named.append((lambda: [*chain(*parts), *_END], kept, what))
        if (numbers or type(container) is list) and all(_is_exact(v, numbers) for v in kept):
            self._live.append(container)
            self._copies.append(container.copy())
        else:
            self._members += (*parts, _END)

    def guard_values(self, look: Look, what: Sequence[str], numbers: bool = False) -> None:
        """Guard a fixed number of objects, which ``look`` finds and ``what`` names."""
        kept = look()
        self._named.append((look, kept, what))
        if all(_is_exact(v, numbers) for v in kept):
            self._looks.append(look)
            self._looked.append(kept)
        else:
            self._strict.append(look)

    def guard_cell(self, cell: types.CellType, what: str) -> None:
        """Guard the variable of a closure."""
        self._cells.append(cell)
        self._named.append((lambda: (_content(cell),), (_content(cell),), what))

    def guard_content(self, look: Callable[[], Any], what: str) -> None:
        """Guard a value that is made at each look, such as the bytes of an array."""
        self._contents.append((look, look()))
        self._named.append((lambda: (look(),), (look(),), what))

    def close(self) -> None:
        """Take what is guarded so far for all that there is."""
        self._row = self._row_now()

    def _row_now(self) -> list[Any]:
        members = chain(self._members, map(operator.call, self._strict))
        return [*chain(chain.from_iterable(members), map(_content, self._cells))]

    # ------------------------------------------------------------------ whether it holds

    def holds(self) -> bool:
        """Tell if all is as it was."""
        try:
            if self._live != self._copies or [*map(operator.call, self._looks)] != self._looked:
                return False
            members = chain(self._members, map(operator.call, self._strict))
            row = chain(chain.from_iterable(members), map(_content, self._cells))
            if not all(map(operator.is_, row, self._row)) and not self._alike():
                return False
            for look, kept in self._contents:  # noqa: SIM110 - a generator would cost more than the looks
                if look() != kept:
                    return False
            return True
        except Exception:  # what is gone cannot be looked at, and arrays refuse to be compared
            return False

    def _alike(self) -> bool:
        """Compare by type and value, and keep the objects that are there now."""
        row = self._row_now()
        if not _all_alike(row, self._row):
            return False
        self._row = row
        return True

    def changed(self) -> list[str]:
        """Name what is no longer as it was."""
        found = []
        for look, kept, what in self._named:
            try:
                now: Sequence[Any] = look()
            except Exception:
                now = ()
            at = next((i for i, pair in enumerate(zip(now, kept, strict=False)) if not alike(*pair)), len(now))
            if at < len(kept):
                found.append(what if isinstance(what, str) else what[at if now else 0])
        return found


def _is_exact(value: Any, numbers: bool) -> bool:
    """Return True where ``==`` to the value is enough to stand for it.

    Arrays of several elements refuse the question.
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
    return isinstance(a, PLAIN) and not isinstance(a, Enum) and repr(a) == repr(b)  # -0.0 is no 0.0, and NaN is NaN
