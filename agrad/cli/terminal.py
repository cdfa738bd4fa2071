"""Output of lines to the terminal, with escapes for unprintable characters."""

from __future__ import annotations

import contextlib
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import NamedTuple, TextIO
from unicodedata import east_asian_width

from agrad.errors import printable
from agrad.parallel import world
from agrad.train.display import write

__all__ = ["Column", "complain", "cut", "say", "table", "width", "write"]

NARROW = 11
"""The length up to which names are not cut, as long as other columns can be left out."""


def width() -> int:
    """Return the columns of the terminal, or 80."""
    return shutil.get_terminal_size().columns


def say(line: str) -> None:
    """Print a line at once, also into a pipe; only rank 0 does."""
    if not world().rank:
        _write(line, sys.stdout)


def complain(line: str) -> None:
    """Print a line on the standard error, if it can be written; only rank 0 does."""
    if not world().rank:
        with contextlib.suppress(OSError):  # a terminal that was closed
            _write(line, sys.stderr)


def _write(line: str, stream: TextIO) -> None:
    """Write a line; a terminal gets no line that breaks within a word."""
    if stream.isatty() and len(line) > width():
        line = textwrap.fill(line, width(), subsequent_indent="  ", break_on_hyphens=False)
    write(line + "\n", stream)


class Column(NamedTuple):
    """A column of a table, with text above; low ranks are left out first."""

    title: str
    cells: list[str]
    rank: int
    above: str = ""

    @property
    def width(self) -> int:
        """The width with the space in front."""
        return 2 + max(map(breadth, (self.title, *self.cells)))


def breadth(text: str) -> int:
    """Return the width of a text on a terminal; Chinese characters have two."""
    return len(text) + sum(east_asian_width(character) in "WF" for character in text)


def cut(name: str, length: int = 24, ends: bool = False) -> str:
    """Return a name in the width of a column, perhaps with its end."""
    name = printable(name).replace("\n", " ").replace("\t", " ")
    if breadth(name) <= length:
        return name
    if ends and name.isascii() and length > 3:
        return f"{name[: length // 2 - 1]}…{name[length // 2 - length :]}"
    name = name[: max(length, 0)]
    while name and breadth(name) >= length:
        name = name[:-1]
    return name + "…"


def table(title: str, names: Sequence[str], columns: Sequence[Column]) -> list[str]:
    """Return lines with the columns for which the terminal has room."""
    names = [title, *names]
    wide = max(breadth(cut(name)) for name in names)
    room, kept = width() - min(wide, NARROW), set[str]()
    for column in sorted(columns, key=lambda column: -column.rank):
        if column.width <= room:
            room -= column.width
            kept.add(column.title)
    shown = [column for column in columns if column.title in kept]
    wide = min(wide, NARROW + max(room, 0))
    alike = len({cut(name, wide) for name in names}) < len(names)
    above, lines = "", [name + " " * (wide - breadth(name)) for name in (cut(name, wide, alike) for name in names)]
    for column in shown:
        if column.above and column.above not in above:
            above = f"{above:<{min(breadth(lines[0]) + 2, width() - len(column.above))}}{column.above}"
        texts = (column.title, *column.cells)
        lines = [f"{a}{' ' * (column.width - breadth(b))}{b}" for a, b in zip(lines, texts, strict=True)]
    return [above, *lines] if above else lines
