"""Columns of a table as numbers: how one column is encoded, and its kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agrad.data.cells import LIKE_DATES, MARKS, PAIRS, TRUTHS, dates, distinct, numbers, shown, truths
from agrad.data.tables import Column, Table
from agrad.errors import DataError, listed

ARTICLES = {"number": "a number", "truth": "a truth value", "date": "a date"}
MOST = 0.95
"""The share of numbers, or of dates, above which a column of strings is one of these with a few wrong cells."""

ENOUGH = 20
"""Number of rows from which on a column with a different integer or string in every row is an id."""

PARTS = ("year", "month", "weekday", "time")
"""The numbers of a date: year, month from 1, days since Monday, and seconds since the first date of training."""


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
    form : str
        The form of the dates of training if it is not ISO 8601, as `datetime.strptime` reads it.
    """

    column: str
    kind: str
    missing: bool = False
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    other: bool = False
    parts: tuple[str, ...] = ()
    first: float = 0.0
    form: str = ""

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

    def encode(self, table: Table, out: np.ndarray, notes: Notes, mean: np.ndarray, scale: np.ndarray) -> None:
        """Write the column of a table to zeros of shape (n, len(names)), standardized.

        `notes` is told of values that training did not have.
        """
        column = table[self.column]
        if self.kind == "word":
            return self._words(column, out, notes)
        values, strays = values_of(table, column, self.kind, self.form)
        gaps = np.isnan(values)
        if strays.size:
            if not _few(strays.size, values.size - int(np.count_nonzero(gaps)) + strays.size):
                raise DataError(table.message(int(strays[0]), self.column, ARTICLES[self.kind]))
            notes.strays(table, self, strays)
        elif gaps.any() and not self.missing:
            notes.gaps(self, int(np.count_nonzero(gaps)))
        values = np.where(gaps, self.fill, values)
        if self.missing:
            out[:, -1] = gaps
        for place, part in enumerate(self.parts if self.kind == "date" else ("",)):
            numbers = part_of_date(values, part, self.first) if part else values
            out[:, place] = (numbers - mean[place]) / scale[place]

    def _words(self, column: Column, out: np.ndarray, notes: Notes) -> None:
        """Write an indicator per category, for unknown and for missing strings."""
        texts, codes = distinct(words_of(column).tolist())
        places = {word: at for at, word in enumerate(self.categories)}
        if self.missing:
            places |= {mark: out.shape[1] - 1 for mark in notes.marks if mark not in places}
        # without rare words in training nothing stands for an unknown one: all its marks are 0
        other = len(self.categories) if self.other else -1
        known = np.array([places.get(text, other) for text in texts])
        at = known[codes]
        rows = np.flatnonzero(at >= 0)
        out[rows, at[rows]] = 1.0
        notes.unknown(self, [text for text in texts if text not in places])


STRAYS = "other columns with a few wrong cells, taken as missing"
GAPS = "missing values, of which training had none, replaced by the median of training"
UNKNOWN = "words that training did not have (enough of), taken as other"


class Notes:
    """Warnings about a table, as lines of text."""

    def __init__(self, training: bool, marks: Sequence[str]) -> None:
        self.marks, self.lines = marks, list[str]()
        self._training = training
        self._columns: dict[str, list[str]] = {STRAYS: [], GAPS: [], UNKNOWN: []}

    def gaps(self, encoding: Encoding, count: int) -> None:
        """Note missing values, of which training had none."""
        self._columns[GAPS].append(f"{shown(encoding.column)} ({count:,})")

    def unknown(self, encoding: Encoding, words: Sequence[str]) -> None:
        """Note strings that training did not have; rare ones of training do not count."""
        if words and not self._training:
            found = listed([shown(word) if word else "nothing" for word in sorted(words)], 3)
            self._columns[UNKNOWN].append(f"{shown(encoding.column, 30)} ({found})")

    def strays(self, table: Table, encoding: Encoding, rows: np.ndarray) -> None:
        """Note cells that are not of the column's kind, and the first of them."""
        # the place of a cell is found in the file, row by row
        if len(self.lines) >= 3:
            return self._columns[STRAYS].append(shown(encoding.column))
        where, text = table.place(int(rows[0]), encoding.column)
        more = f" and {rows.size - 1:,} more such cells" if rows.size > 1 else ""
        self.lines.append(
            f"column {shown(encoding.column)}: expected {ARTICLES[encoding.kind]}, found {shown(text)} in {where}{more}"
            f"; taken as missing{'; --categorical (categorical= in Python) uses it as words' * self._training}"
        )

    def all(self) -> list[str]:
        """Return all lines."""
        texts = {about: listed(names, 5, width=120) for about, names in self._columns.items() if names}
        return [*self.lines, *(f"{about}: {names}" for about, names in texts.items())]


def part_of_date(values: np.ndarray, part: str, first: float) -> np.ndarray:
    """Return a part of dates in microseconds since 1970 as float64."""
    if part == "time":
        return (values - first) / 1e6
    dates = values.astype(np.int64).astype("datetime64[us]")
    if part == "year":
        return dates.astype("datetime64[Y]").astype(np.int64) + 1970.0
    if part == "month":
        return dates.astype("datetime64[M]").astype(np.int64) % 12 + 1.0
    # 1970 began on a Thursday
    return (dates.astype("datetime64[D]").astype(np.int64) + 3) % 7 + 0.0


def values_of(table: Table, column: Column, kind: str, form: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Return a column as float64, NaN if missing, and the rows of other cells.

    Booleans are 1 and 0, and dates microseconds since 1970.

    Raises `DataError` for a column of another kind, infinity, and a date too far from 1970.
    """
    values, strays, wanted = column.values, np.zeros(0, np.int64), "a finite number"
    if column.kind == "word":
        texts, codes = distinct(values.tolist())
        # truth values that a Parquet file of training had as numbers
        if kind == "truth" or (kind == "number" and {text.lower() for text in texts if text not in MARKS} <= {*TRUTHS}):
            found = truths(texts)
        else:
            found = numbers(texts, table.delimiter)[0] if kind == "number" else dates(texts, form)[0]
        values = np.array([np.nan if number is None else number for number in found], np.float64)[codes]
        strays = np.flatnonzero(np.array([number is None for number in found], bool)[codes])
    elif (column.kind == "date") != (kind == "date"):
        if column.kind == "date" or not column.missing.all():
            plural = "dates" if kind == "date" else "numbers"
            raise DataError(
                f"{table.name}: column {shown(column.name)}: expected {plural} as in training, found {column.kind}s"
            )
    elif kind == "date":
        fine = values.astype("datetime64[us]")
        wild, wanted = (fine.astype(values.dtype) != values) & ~column.missing, "a date within 292,000 years of 1970"
        values = np.where(column.missing, np.nan, fine.astype(np.int64).astype(np.float64))
        values[wild] = np.inf
    wild = np.flatnonzero(np.isinf(values))
    if wild.size:
        raise DataError(table.message(int(wild[0]), column.name, wanted))
    return values, strays


def words_of(column: Column) -> np.ndarray:
    """Return a column as objects of type str, empty for missing numbers and dates."""
    if column.kind == "word":
        return column.values
    if column.kind == "date":
        texts = np.datetime_as_string(column.values, unit="auto")
    else:
        texts = [str(int(x)) if x == np.trunc(x) and abs(x) < 2**53 else repr(x) for x in column.values.tolist()]
    return np.array([("" if gap else str(text)) for text, gap in zip(texts, column.missing, strict=True)], dtype=object)


def _few(wrong: int, total: int) -> bool:
    """Return True if so few cells of a column are wrong that they count as missing."""
    return total >= ENOUGH and wrong <= (1 - MOST) * total


def kind_of(table: Table, column: Column) -> tuple[str, str]:
    """Return the kind of a column, and the form of its dates.

    A few strings may be wrong numbers or dates.
    """
    if column.kind != "word":
        return column.kind, column.form if column.kind == "date" else ""
    counts = Counter(text for text in column.values.tolist() if text not in MARKS)
    texts = list(counts)
    if {text.lower() for text in texts} in PAIRS:
        return "truth", ""
    total = sum(counts.values())
    for kind, (found, form) in (("number", numbers(texts, table.delimiter)), ("date", dates(texts))):
        if _few(sum(counts[text] for text, value in zip(texts, found, strict=True) if value is None), total):
            return kind, form if kind == "date" else ""
    return "word", ""


def plan(table: Table, column: Column, words: bool, least: int, most: int, keep: bool) -> tuple[Encoding | None, str]:
    """Return the encoding of a training column, or None and why it is left out.

    A string in at least `least` rows is a separate category; there are at most `most` categories. A column to `keep`
    may name rows.
    """
    kind, form = ("word", "") if words else kind_of(table, column)
    if kind == "word":
        return _plan_words(column, words_of(column), least, most, keep)
    values, _ = values_of(table, column, kind, form)
    known = values[~np.isnan(values)]
    missing = bool(known.size < values.size)
    if known.size == 0:
        return None, "empty"
    if known.min() == known.max() and not missing:
        return None, "constant"
    # an id has no sign, unit or commas, and has 64 bits; all larger floats are integers
    named = kind == "number" and not (missing or keep or column.form) and known.size >= ENOUGH
    if named and ((known % 1 == 0) & (known >= 0) & (known < 2.0**64)).all() and np.unique(known).size == known.size:
        return None, "id"
    fill = float(np.median(known))
    if kind != "date":
        return Encoding(column.name, kind, missing, fill), ""
    first, fill = float(known.min()), float(np.trunc(fill))
    parts = tuple(part for part in PARTS if np.ptp(part_of_date(known, part, first)) > 0) or ("time",)
    return Encoding(column.name, kind, missing, fill, parts=parts, first=first, form=form), ""


def _plan_words(column: Column, words: np.ndarray, least: int, most: int, keep: bool) -> tuple[Encoding | None, str]:
    """Return the encoding of strings, see `plan`."""
    counts = Counter(words.tolist())
    missing = sum(counts.pop(mark, 0) for mark in MARKS) > 0
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
