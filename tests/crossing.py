"""Choose the cases of the table that a run takes, and the backend of each.

A test marked with ``each(cases)`` takes of every row one case in ``FEW``, and at least two, each on one backend. The
choice depends on the names of test and case and on the round: over ``FEW`` times as many rounds as there are backends
each case runs on each backend; of rows that take long over ``SLOW`` times as many. ``--thorough`` takes all cases on
all backends.
"""

import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from agrad.backends import load
from agrad.errors import BackendUnavailableError

FEW = 4
LEAST = 2
SLOW = 4
"""How many times fewer cases of a slow row are taken; a round may have none of it."""
SECOND_DEVICE = {"array_api_strict": "array_api_strict:device1"}
"""Backends with a second device on any machine, whose arrays refuse to mix with the first's."""


class Named(Protocol):
    """A case of a table: its name, its row's name, and True if the row takes long.

    ``item``: cases of one name are one item of a test, by default those of a row.
    """

    name: str
    group: str
    slow: bool


@dataclass(frozen=True)
class Bundle:
    """Cases on one backend that are one item of a test: an item costs as much time as a small case."""

    group: str
    cases: tuple[Named, ...]


def each(
    cases: Sequence[Named], *, whole: bool = False, elsewhere: bool = False, on_numpy: bool = False, least: int = LEAST
) -> Callable[[Callable[..., None]], Any]:
    """Run a test of ``case`` on a part of the cases, at least ``least`` of each row, or on all with ``whole``.

    The cases of a row are one item.

    A test that has the fixture ``backend`` or ``place`` is given a backend too; with ``elsewhere`` any but NumPy, with
    ``on_numpy`` NumPy too.
    """
    mark = pytest.mark.cases(tuple(cases), whole=whole, elsewhere=elsewhere, on_numpy=on_numpy, least=least)

    def marked(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def run(case: Bundle, **fixtures: Any) -> None:
            skipped = []
            for one in case.cases:
                try:
                    test(case=one, **fixtures)
                except pytest.skip.Exception as reason:
                    skipped.append(reason)
                except BaseException as error:
                    error.add_note(f"case: {one.name}")
                    raise
            if len(skipped) == len(case.cases):
                raise skipped[0]

        return mark(run)

    return marked


@dataclass(frozen=True, eq=False)
class Row:
    """A named value of a table."""

    name: str
    value: Any
    slow: bool = False

    @property
    def group(self) -> str:
        return self.name


def each_row(rows: Mapping[str, Any], *, elsewhere: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Run a test of ``case`` on all values of a table, each on one backend in a round, and on NumPy."""
    made = [Row(name, value) for name, value in rows.items()]
    return each(made, whole=True, elsewhere=elsewhere, on_numpy=not elsewhere)


def places(backends: Sequence[Any], elsewhere: bool = False) -> list[Any]:
    """Return the backends that cases run on.

    Of two devices it is the second, for which an array of the first is an error.
    """
    return [b for b in backends if b not in tuple(SECOND_DEVICE) and not (elsewhere and b == "numpy")]


def turn(name: str, round_: int, length: int) -> int:
    """Return the place, from 0 to ``length`` - 1, of a name in a round.

    It moves by one from round to round.
    """
    return (zlib.crc32(name.encode()) + round_) % length


def part(names: Sequence[str], round_: int, one_in: int) -> set[str]:
    """Return the names that a round takes: one in ``one_in``, at least one.

    Each comes within ``one_in`` rounds.
    """
    places = {name: turn(name, round_, one_in) for name in names}
    return {name for name, place in places.items() if place == min(places.values())}


def crossed(
    test: str,
    cases: Sequence[Named],
    backends: Sequence[str],
    round_: int | None,
    whole: bool = False,
    few: int = FEW,
    least: int = LEAST,
) -> Iterator[tuple[str, Named]]:
    """Return backends and cases of a test in a round; all if ``round_`` is None.

    few: take one case in ``few``; beyond ``FEW``, as of a slow row, a round may have none.
    """
    if round_ is None:
        yield from ((backend, case) for backend in backends for case in cases)
        return
    groups: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        groups.setdefault(case.group, []).append(i)
    chosen: dict[int, str] = {}
    for members in groups.values():
        slow = cases[members[0]].slow
        one_in = few * SLOW if slow else few
        fewest = 0 if slow or few > FEW else least
        places = {i: turn(f"{test} {cases[i].name}", round_, one_in * len(backends)) for i in members}
        members.sort(key=lambda i, one_in=one_in, places=places: places[i] % one_in)
        for rank, i in enumerate(members):
            if rank < fewest or places[i] % one_in == 0 or (whole and not slow):
                chosen[i] = backends[places[i] // one_in]
    for i in sorted(chosen):
        yield chosen[i], cases[i]


def runs(name: str) -> bool:
    """Return whether a library is installed and has a device."""
    try:
        return bool(load(name))
    except BackendUnavailableError:
        return False
