"""The mutants of the package: which there are, and which a seed chooses."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from mutation.kinds import KINDS
from mutation.source import ROOT, Source, difference, same_code, visited

FLOORS = ("base", "backends", "engine", "ops", "transforms", "jit", "interop", "nn", "optim", "random", "data")
"""``base`` is what stands in no folder: shapes, dtypes and the like."""

DATA = {"agrad/ops/special/coefficients.py"}
"""Files of numbers that a program wrote."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file. ``number`` counts the changes of its kind on its line."""

    file: str
    line: int
    kind: str
    number: int
    edit: tuple[int, int, str] = field(compare=False, repr=False)

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}:{self.kind}:{self.number}"

    @property
    def floor(self) -> str:
        parts = self.file.split("/")
        return parts[1] if len(parts) > 2 else "base"

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    @property
    def text(self) -> str:
        """Return the text of the whole file, changed."""
        return source_of(self.file).replaced(*self.edit)

    @property
    def diff(self) -> list[str]:
        return difference(source_of(self.file).text, self.text)

    @property
    def is_change(self) -> bool:
        """Return True if it compiles, and to other code than the original."""
        try:
            mine = compile(self.text, self.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return not same_code(mine, compile(source_of(self.file).text, self.file, "exec", dont_inherit=True))


@cache
def source_of(file: str) -> Source:
    return Source.of(file)


@cache
def mutants_of(file: str) -> tuple[Mutant, ...]:
    return tuple(mutants_in(source_of(file), file))


def mutants_in(source: Source, file: str) -> Iterator[Mutant]:
    """Return every mutant of a source, numbered by line and kind in text order."""
    found: dict[tuple[int, str], set[tuple[int, int, str]]] = defaultdict(set)
    for node in visited(source.tree):
        for name, kind in KINDS.items():
            for start, end, replacement in kind(source, node):
                if source.text[start:end] != replacement:
                    found[source.line_of(start), name].add((start, end, replacement))
    for (line, name), edits in sorted(found.items()):
        for number, edit in enumerate(sorted(edits)):
            yield Mutant(file, line, name, number, edit)


def files(floor: str) -> list[str]:
    top = ROOT / "agrad"
    inside = top.glob("*.py") if floor == "base" else (top / floor).rglob("*.py")
    names = [path.relative_to(ROOT).as_posix() for path in inside]
    return sorted(name for name in names if name not in DATA | {"agrad/__init__.py", "agrad/__main__.py"})


def chosen(seed: int, count: int, floors: tuple[str, ...], absent: tuple[str, ...] = ()) -> list[Mutant]:
    """Return ``count`` mutants, spread over the floors; more begin with the same.

    A line is drawn first, then one of the kinds on it, so that a line full of numbers counts no more than another.
    """
    lines = {floor: _by_line(floor, absent) for floor in floors}
    sizes = _shares(count, {floor: len(found) for floor, found in lines.items()})
    return [
        mutant for floor in floors for mutant in _drawn(random.Random(f"{seed} {floor}"), lines[floor], sizes[floor])
    ]


Lines = dict[tuple[str, int], dict[str, list[Mutant]]]


def _by_line(floor: str, absent: tuple[str, ...]) -> Lines:
    lines: Lines = defaultdict(lambda: defaultdict(list))
    for file in files(floor):
        if not file.startswith(absent):
            for mutant in mutants_of(file):
                lines[file, mutant.line][mutant.kind].append(mutant)
    return lines


def _shares(count: int, sizes: dict[str, int]) -> dict[str, int]:
    """Return ``count`` in parts proportional to ``sizes``.

    The remainders go to the largest.
    """
    whole = sum(sizes.values()) or 1
    shares = {name: count * size // whole for name, size in sizes.items()}
    rest = sorted(sizes, key=lambda name: count * sizes[name] % whole, reverse=True)
    for name in rest[: count - sum(shares.values())]:
        shares[name] += 1
    return shares


def _drawn(rng: random.Random, lines: Lines, count: int) -> list[Mutant]:
    found: dict[str, Mutant] = {}
    places = sorted(lines)
    while len(found) < count and places:
        kinds = lines[rng.choice(places)]
        mutant = rng.choice(kinds[rng.choice(sorted(kinds))])
        if mutant.id not in found and mutant.is_change:
            found[mutant.id] = mutant
    return list(found.values())


def named(pattern: str) -> list[Mutant]:
    """Return the mutants of a name.

    ``FILE``, ``FILE:LINE``, ``FILE:LINE:KIND`` or ``FILE:LINE:KIND:NUMBER``.
    """
    file = re.split(":", pattern)[0]
    if not (ROOT / file).is_file():
        raise SystemExit(f"no file {file} in {ROOT}")
    return [m for m in mutants_of(file) if f"{m.id}:".startswith(f"{pattern}:") and m.is_change]
