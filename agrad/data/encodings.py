"""Columns of a table as numbers: how one column is encoded, and its kinds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agrad.data.classification import number_in
from agrad.data.tables import DATE, MARKS, Column, Table
from agrad.errors import DataError, listed

KINDS = ("number", "truth", "word", "date")
TRUTHS = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0}
PAIRS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})
"""The strings for Booleans, and the ones that make a column Boolean, in any case."""

ARTICLES = {"number": "a number", "truth": "a truth value", "date": "a date"}
MOST = 0.95
"""The share of numbers, or of dates, above which a column of strings is one of these with a few wrong cells."""

ENOUGH = 20
"""Number of rows from which on a column with a different integer or string in every row is an id."""

PARTS = ("year", "month", "weekday", "time")
"""The numbers of a date: year, month from 1, days since Monday, and seconds since the first date of training."""

LIKE_DATES = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*")
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Encoding:
    """Numbers for a column: its kind, and what training had in it.

    Parameters
    ----------
    column : str
        Its name in the table.
    kind : {"number", "truth", "word", "date"}
        The kind of its values.
    missing : bool
        True if values were missing in training. Then one number of the result is an indicator for them.
    fill : float
        The value that replaces a missing one: the median of training (of dates, in microseconds since 1970).
    categories : tuple of str
        Categories with a separate number.
    other : bool
        True if training had rare strings, which share a number.
    parts : tuple of str
        The parts of a date that varied in training.
    first : float
        The first date of training, in microseconds since 1970.
    """

    column: str
    kind: str
    missing: bool = False
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    other: bool = False
    parts: tuple[str, ...] = ()
    first: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers of the result."""
        if self.kind == "word":
            groups = ["(other)"] * self.other + ["(missing)"] * self.missing
            return tuple(f"{self.column}={word}" for word in (*self.categories, *groups))
        parts = tuple(f"{self.column} {part}" for part in self.parts) if self.kind == "date" else (self.column,)
        return (*parts, *[f"{self.column} missing"] * self.missing)

    @property
    def scaled(self) -> tuple[bool, ...]:
        """True for each numeric value, False for indicators 0 and 1."""
        if self.kind == "word":
            return (False,) * len(self.names)
        return (True,) * (len(self.names) - self.missing) + (False,) * self.missing

    def encode(self, table: Table, notes: Notes) -> np.ndarray:
        """Return the column of a table as float64 of shape (n, len(names)).

        `notes` is told of values that training did not have.
        """
        column = table[self.column]
        if self.kind == "word":
            return self._words(words_of(column), notes)
        read = {"number": numbers_of, "truth": truths_of, "date": dates_of}[self.kind]
        values, strays = read(table, column)
        gaps = np.isnan(values)
        if strays:
            if not _few(len(strays), values.size - int(np.count_nonzero(gaps)) + len(strays)):
                raise DataError(table.message(strays[0], self.column, ARTICLES[self.kind]))
            notes.strays(self, len(strays), *table.place(strays[0], self.column))
        elif gaps.any() and not self.missing:
            notes.gaps(self, int(np.count_nonzero(gaps)))
        values = np.where(gaps, self.fill, values)
        result = self._dates(values) if self.kind == "date" else [values]
        return np.stack([*result, gaps.astype(np.float64)] if self.missing else result, axis=1)

    def _words(self, words: np.ndarray, notes: Notes) -> np.ndarray:
        """Return an indicator per category, for unknown and for missing strings."""
        places = {word: at for at, word in enumerate(self.categories)}
        width = len(self.names)
        if self.missing:
            places[""] = width - 1
        # without rare words in training nothing stands for an unknown one: all its marks are 0
        other = len(self.categories) if self.other else width
        marks = np.zeros((words.shape[0], width + 1))
        at = np.array([places.get(word, other) for word in words.tolist()], dtype=np.int64)
        marks[np.arange(words.shape[0]), at] = 1.0
        notes.unknown(self, [str(words[row]) for row in np.flatnonzero(at == other)])
        return marks[:, :width]

    def _dates(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the parts of dates in microseconds."""
        return [part_of_date(values, part, self.first) for part in self.parts]


class Notes:
    """Warnings about a table, as lines of text."""

    def __init__(self, training: bool) -> None:
        self.lines: list[str] = []
        self._training = training
        self._unknown: list[str] = []

    def unknown(self, encoding: Encoding, words: Sequence[str]) -> None:
        """Note strings that training did not have; rare ones of training do not count."""
        if words and not self._training:
            shown = listed([repr(word) if word else "nothing" for word in sorted(set(words))], 3)
            self._unknown.append(f"{encoding.column!r} ({shown})")

    def strays(self, encoding: Encoding, count: int, where: str, text: str) -> None:
        """Note cells that are not of the column's kind, and the first of them."""
        kind = ARTICLES[encoding.kind]
        self.lines.append(
            f"column {encoding.column!r}: expected {kind}, found {text[:40]!r} in {where}"
            f"{f' and {count - 1:,} more such cells' if count > 1 else ''}; taken as missing"
        )

    def gaps(self, encoding: Encoding, count: int) -> None:
        """Note missing values of a column that had none in training."""
        self.lines.append(
            f"column {encoding.column!r}: {count:,} missing {'value' if count == 1 else 'values'}, of which training "
            "had none, replaced by the median of training"
        )

    def all(self) -> list[str]:
        """Return all lines, with one for all unknown strings."""
        if not self._unknown:
            return self.lines
        return [*self.lines, f"words that training did not have (enough of), taken as other: {listed(self._unknown)}"]


def part_of_date(values: np.ndarray, part: str, first: float) -> np.ndarray:
    """Return a part of dates in microseconds since 1970 as float64."""
    if part == "time":
        return (values - first) / MICROSECONDS
    dates = values.astype(np.int64).astype("datetime64[us]")
    if part == "year":
        return dates.astype("datetime64[Y]").astype(np.int64) + 1970.0
    if part == "month":
        return dates.astype("datetime64[M]").astype(np.int64) % 12 + 1.0
    # 1970 began on a Thursday
    return (dates.astype("datetime64[D]").astype(np.int64) + 3) % 7 + 0.0


def numbers_of(table: Table, column: Column) -> tuple[np.ndarray, list[int]]:
    """Return a column as float64, NaN where missing, and rows of other cells.

    Raises `DataError` for a date, and for infinity.
    """
    if column.kind == "date":
        raise DataError(f"{table.name}: column {column.name!r}: expected numbers as in training, found dates")
    if column.kind == "number":
        values, strays = column.values, []
    elif {text.lower() for text in column.values.tolist() if text not in MARKS} <= TRUTHS.keys():
        # truth values that a Parquet file of training had as such
        values, strays = truths_of(table, column)
    else:
        values, strays = _read(column, number_in)
    wild = np.flatnonzero(np.isinf(values))
    if wild.size:
        raise DataError(table.message(int(wild[0]), column.name, "a finite number"))
    return values, strays


def truths_of(table: Table, column: Column) -> tuple[np.ndarray, list[int]]:
    """Return truth as 1 and 0, NaN where missing, and rows of other cells."""
    if column.kind == "number":
        return numbers_of(table, column)
    return _read(column, lambda text: TRUTHS.get(text.lower()))


def dates_of(table: Table, column: Column) -> tuple[np.ndarray, list[int]]:
    """Return dates in microseconds, NaN where missing, and rows of other cells."""
    if column.kind == "date":
        values = column.values.astype("datetime64[us]")
        wild = np.flatnonzero((values.astype(column.values.dtype) != column.values) & ~np.isnat(column.values))
        if wild.size:
            raise DataError(table.message(int(wild[0]), column.name, "a date within 292,000 years of 1970"))
        return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64)), []
    if column.kind == "number" and not column.missing.all():
        raise DataError(f"{table.name}: column {column.name!r}: expected dates as in training, found numbers")
    if column.kind == "number":
        return column.values, []
    return _read(column, date_in)


def words_of(column: Column) -> np.ndarray:
    """Return a column as objects of type str, with empty ones for missing ones."""
    if column.kind == "word":
        return column.values
    if column.kind == "date":
        texts = np.datetime_as_string(column.values, unit="auto")
    else:
        texts = [str(int(x)) if x == np.trunc(x) and abs(x) < 2**53 else repr(x) for x in column.values.tolist()]
    return np.array([("" if gap else str(text)) for text, gap in zip(texts, column.missing, strict=True)], dtype=object)


def date_in(text: str) -> float | None:
    """Return the date in a text, in microseconds since 1970, or None."""
    if not DATE.fullmatch(text):
        return None
    try:
        return float(np.datetime64(text, "us").astype(np.int64))
    except ValueError:
        return None


def _read(column: Column, read: Callable[[str], float | None]) -> tuple[np.ndarray, list[int]]:
    """Return texts as numbers (NaN if missing), and the rows of other texts."""
    texts = column.values.tolist()
    known = {text: np.nan if text in MARKS else read(text) for text in set(texts)}
    strays = [row for row, text in enumerate(texts) if known[text] is None]
    return np.array([np.nan if (x := known[text]) is None else x for text in texts], dtype=np.float64), strays


def kind_of(column: Column) -> str:
    """Return the kind of a column; a few strings may be wrong numbers or dates."""
    if column.kind != "word":
        return column.kind
    counts = Counter(text for text in column.values.tolist() if text not in MARKS)
    if {text.lower() for text in counts} in PAIRS:
        return "truth"
    total = sum(counts.values())
    for kind, read in (("number", number_in), ("date", date_in)):
        fitting = sum(count for text, count in counts.items() if read(text) is not None)
        if _few(total - fitting, total):
            return kind
    return "word"


def _few(wrong: int, total: int) -> bool:
    """Return True if so few cells of a column are wrong that they count as missing."""
    return total >= ENOUGH and wrong <= (1 - MOST) * total


def plan(table: Table, column: Column, kind: str, least: int, most: int, keep: bool) -> tuple[Encoding | None, str]:
    """Return the encoding of a training column, or None and why it is left out.

    A string in at least `least` rows is a separate category; there are at most `most` categories. A column to `keep`
    may name rows.
    """
    if kind == "word":
        return _plan_words(column, words_of(column), least, most, keep)
    read: Any = {"number": numbers_of, "truth": truths_of, "date": dates_of}[kind]
    values, _ = read(table, column)
    known = values[~np.isnan(values)]
    missing = bool(known.size < values.size)
    if known.size == 0:
        return None, "empty"
    distinct = np.unique(known).size
    if distinct == 1 and not missing:
        return None, "constant"
    if kind == "number" and not missing and distinct == known.size >= ENOUGH and (known % 1 == 0).all() and not keep:
        return None, "id"
    fill = float(np.median(known))
    if kind != "date":
        return Encoding(column.name, kind, missing, fill), ""
    first, fill = float(known.min()), float(np.trunc(fill))
    parts = tuple(part for part in PARTS if np.ptp(part_of_date(known, part, first)) > 0) or ("time",)
    return Encoding(column.name, kind, missing, fill, parts=parts, first=first), ""


def _plan_words(column: Column, words: np.ndarray, least: int, most: int, keep: bool) -> tuple[Encoding | None, str]:
    """Return the encoding of strings, see `plan`."""
    counts = Counter(words.tolist())
    missing = counts.pop("", 0) > 0
    if not counts:
        return None, "empty"
    if len(counts) == 1 and not missing:
        return None, "constant"
    if len(counts) == words.shape[0] >= ENOUGH and not keep:
        return None, "dates" if all(LIKE_DATES.fullmatch(word) for word in counts) else "id"
    common = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    if not common:
        return None, "dates" if all(LIKE_DATES.fullmatch(word) for word in counts) else "rare"
    kept = tuple(sorted(common[:most]))
    return Encoding(column.name, "word", missing, categories=kept, other=len(kept) < len(counts)), ""
