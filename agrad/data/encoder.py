"""The encoder of tables, fitted to a training part and saved with a model."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from agrad.data.cells import FORMS, LIKE_DATES, MARKS, PAIRS, TRUTHS, dates, distinct, numbers, shown, truths
from agrad.data.classification import float_name, scaled, standardisation
from agrad.data.order import whole
from agrad.data.tables import Column, Table, column_number
from agrad.errors import ConfigurationError, DataError, listed

REASONS = {
    "id": "an integer or word of its own in every row, which only names the row",
    "constant": "the same in all rows",
    "empty": "nothing but missing values",
    "rare": "words of which none is frequent enough for a category",
    "dates": "dates in a form that is not known",
    "dropped": "named to be left out",
}
"""The reasons to leave a column out. It warns about ids, rare strings and dates."""

ARTICLES = {"number": "a number", "truth": "a truth value", "date": "a date"}
MOST = 0.95
"""The share of numbers, or of dates, above which a column of strings is one of these with a few wrong cells."""

ENOUGH = 20
"""Number of rows from which on a column with a different integer or string in every row is an id."""

PARTS = ("year", "month", "weekday", "time")
"""The numbers of a date: year, month from 1, days since Monday, and seconds since the first date of training."""

LONGEST = 400
"""Characters of a warning."""


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

    def encode(self, table: Table, out: np.ndarray, notes: Notes) -> None:
        """Write the column of a table to float64 zeros of shape (n, len(names)).

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
            notes.gaps.append(f"{shown(self.column)} ({int(np.count_nonzero(gaps)):,})")
        values = np.where(gaps, self.fill, values)
        if self.missing:
            out[:, -1] = gaps
        for place, part in enumerate(self.parts if self.kind == "date" else ("",)):
            out[:, place] = part_of_date(values, part, self.first) if part else values

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


class Notes:
    """Warnings about a table, as lines of text."""

    def __init__(self, training: bool, marks: Sequence[str]) -> None:
        self.marks, self.lines = marks, list[str]()
        self.gaps: list[str] = []
        self._training = training
        self._unknown: list[str] = []
        self._strays: list[str] = []

    def unknown(self, encoding: Encoding, words: Sequence[str]) -> None:
        """Note strings that training did not have; rare ones of training do not count."""
        if words and not self._training:
            found = listed([shown(word) if word else "nothing" for word in sorted(words)], 3)
            self._unknown.append(f"{shown(encoding.column, 30)} ({found})")

    def strays(self, table: Table, encoding: Encoding, rows: np.ndarray) -> None:
        """Note cells that are not of the column's kind, and the first of them."""
        # the place of a cell is found in the file, row by row
        if len(self.lines) < 3:
            where, text = table.place(int(rows[0]), encoding.column)
            more = f" and {rows.size - 1:,} more such cells" if rows.size > 1 else ""
            kind = ARTICLES[encoding.kind]
            self.lines.append(
                f"column {shown(encoding.column)}: expected {kind}, found {shown(text)} in {where}{more}; taken as "
                "missing"
            )
        else:
            self._strays.append(shown(encoding.column))

    def all(self) -> list[str]:
        """Return all lines."""
        if self._strays:
            self.lines.append(f"other columns with a few wrong cells, taken as missing: {listed(self._strays)}")
        if self.gaps:
            self.lines.append(
                f"missing values, of which training had none, replaced by the median of training: {listed(self.gaps)}"
            )
        if self._unknown:
            texts = listed(self._unknown, 5, width=120)
            self.lines.append(f"words that training did not have (enough of), taken as other: {texts}")
        return self.lines


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
    """Return numbers, Booleans as 1 and 0, or dates in microseconds, NaN if missing, and the rows of other cells.

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
    """Return a column as objects of type str, with empty ones for missing numbers and dates."""
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
    """Return the kind of a column, and the form of its dates; a few strings may be wrong numbers or dates."""
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
    named = kind == "number" and not missing and not keep and known.size >= ENOUGH and (known % 1 == 0).all()
    if named and np.unique(known).size == known.size:
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


class TableEncoder:
    """Encoder of tables as arrays of numbers, fitted to a training part.

    Numbers, Booleans (true and false, yes and no, ...) and dates are standardized by mean and standard deviation. A
    missing value becomes the median of training. If training had missing values, an indicator 0 or 1 is added. A date
    becomes year, month, day of the week, and seconds since the first date. Strings become an indicator for each
    category; rare ones share an indicator, and missing ones have one. Up to one in 20 cells of another kind in a column
    of numbers or dates are treated as missing. Columns with one value are omitted, and columns whose integers or
    strings differ in all of at least 20 rows.

    Parameters
    ----------
    categorical : sequence of str or int
        Numeric columns, such as codes, to treat as categorical.
    keep : sequence of str or int
        Columns to keep although they look like ids.
    min_count : int, optional
        Number of training rows that make a string a category. By default, one in a hundred, but between 2 and 10.
    max_categories : int
        Maximum number of categories of a column. The most frequent ones are kept.
    report : function, optional
        Function that is called with each warning. By default, `warnings.warn`.

    Attributes
    ----------
    encodings : tuple of Encoding
        The columns that are used.
    left_out : dict
        The omitted columns, with the reasons.
    mean, scale : numpy.ndarray
        The numbers of the standardization, float64 of shape (d,); 0 and 1 for indicators.

    Examples
    --------
    >>> sizes = agrad.data.Column("size", "number", np.array([1.0, 2.5, np.nan]), np.array([False, False, True]))
    >>> table = agrad.data.Table("rooms", (sizes,))
    >>> encoder = agrad.data.TableEncoder().fit(table)
    >>> encoder.names
    ('size', 'size missing')
    >>> encoder.transform(table).round(4)
    array([[-1.2247,  0.    ],
           [ 1.2247,  0.    ],
           [ 0.    ,  1.    ]], dtype=float32)
    """

    def __init__(
        self,
        *,
        categorical: Sequence[str | int] = (),
        keep: Sequence[str | int] = (),
        min_count: int | None = None,
        max_categories: int = 100,
        report: Callable[[str], None] | None = None,
    ) -> None:
        for name, value in (("min_count", min_count), ("max_categories", max_categories)):
            if value is not None and whole(value, name) < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {value}")
        self.categorical, self.keep = tuple(categorical), tuple(keep)
        self.min_count, self.max_categories = min_count, max_categories
        self.report = report
        self.encodings: tuple[Encoding, ...] = ()
        self.left_out: dict[str, str] = {}
        self.mean = self.scale = np.zeros(0)
        self.header, self._marks = True, MARKS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers of the result."""
        return tuple(name for encoding in self.encodings for name in encoding.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are used."""
        return tuple(encoding.column for encoding in self.encodings)

    @property
    def words(self) -> tuple[str, ...]:
        """Names of the columns to read as strings, for `read_csv`: categorical, and dates of a fixed form."""
        return tuple(encoding.column for encoding in self.encodings if encoding.kind == "word" or encoding.form)

    @property
    def parts(self) -> dict[str, slice]:
        """Positions of the numbers of each column in the result."""
        ends = np.cumsum([len(encoding.names) for encoding in self.encodings]).tolist()
        return {e.column: slice(end - len(e.names), end) for e, end in zip(self.encodings, ends, strict=True)}

    def fit(self, table: Table) -> TableEncoder:
        """Choose columns, categories, medians and scales from a training part.

        Parameters
        ----------
        table : Table
            The training part, without targets.

        Returns
        -------
        TableEncoder
            Itself.

        Raises
        ------
        DataError
            If no column remains, a named column does not exist, or a number is infinite or too large.
        """
        categorical, keep = (
            {column_number(table.name, table.names, name) for name in names} for names in (self.categorical, self.keep)
        )
        least = min(max(len(table) // 100, 2), 10) if self.min_count is None else self.min_count
        found, left_out = [], {}
        for place, column in enumerate(table.columns):
            encoding, reason = plan(table, column, place in categorical, least, self.max_categories, place in keep)
            if encoding is None:
                left_out[column.name] = reason
            else:
                found.append(encoding)
        if not found:
            why = "; ".join(f"{shown(name, 20)}: {REASONS[reason]}" for name, reason in list(left_out.items())[:2])
            remedy = "; --keep (keep= in Python) uses ids" if "id" in left_out.values() else ""
            raise DataError(f"{table.name}: expected one column of features or more, found none to use ({why}){remedy}")
        notes = Notes(True, self._marks)
        encoded = self._encoded(table, found, notes)
        mean, scale = standardisation(encoded, table.name)
        quantity = np.array([flag for encoding in found for flag in encoding.scaled])
        self.encodings, self.left_out, self.header = tuple(found), left_out, table.header
        self.mean, self.scale = np.where(quantity, mean, 0.0), np.where(quantity, scale, 1.0)
        self._tell(table, [*self._left_out_lines(), *notes.all()])
        return self

    def _left_out_lines(self) -> list[str]:
        """Return a line for each reason to leave columns out that the user should know."""
        lines = []
        for reason, remedy in (
            ("id", "--keep (keep= in Python) uses such a column all the same"),
            ("rare", "group them into categories"),
            ("dates", "write them as 2026-01-31"),
        ):
            names = [shown(name) for name, why in self.left_out.items() if why == reason]
            if names:
                lines.append(f"left out {listed(names)}: {REASONS[reason]}; {remedy}")
        return lines

    def encode(self, table: Table) -> np.ndarray:
        """Return the columns of a table as numbers that are not standardized.

        Columns are found by name, in any order; others are ignored, with a note.

        Parameters
        ----------
        table : Table
            The table.

        Returns
        -------
        numpy.ndarray
            Float64 of shape (n, d).

        Raises
        ------
        DataError
            If a column is missing, contains infinite values or values of another kind than in training, or if the
            encoder is not fitted.
        """
        extra = self.check(table.name, table.names)
        notes = Notes(False, self._marks)
        if extra:
            notes.lines.append(f"ignored, because the training data did not have them: {listed(extra)}")
        result = self._encoded(table, self.encodings, notes)
        self._tell(table, notes.all())
        return result

    def check(self, name: str, names: Sequence[str]) -> list[str]:
        """Check the names of the columns of a table before it is read.

        Parameters
        ----------
        name : str
            The name of the table, for messages.
        names : sequence of str
            The names of its columns.

        Returns
        -------
        list of str
            Columns that the training data did not have.

        Raises
        ------
        DataError
            If a column is missing, or the encoder is not fitted.

        Examples
        --------
        >>> sizes = agrad.data.Column("size", "number", np.array([1.0, 2.5]), np.zeros(2, bool))
        >>> encoder = agrad.data.TableEncoder().fit(agrad.data.Table("rooms", (sizes,)))
        >>> encoder.check("more rooms", ["side", "size"])
        ['side']
        """
        if not self.encodings:
            raise DataError(f"{name}: the encoder is not fitted. Call its method fit with the training part.")
        known, found = {*self.columns, *self.left_out}, {*names}
        missing = [column for column in self.columns if column not in found]
        extra = [column for column in names if column not in known]
        if missing:
            raise DataError(
                f"{name}: expected the columns of the training data ({listed(self.columns, 5)}); missing: "
                + listed(missing, 5)
                + (f"; not expected: {listed(extra, 5)}" if extra else "")
            )
        return extra

    def transform(self, table: Table, dtype: str = "float32") -> np.ndarray:
        """Return the columns of a table as standardized numbers.

        Parameters
        ----------
        table : Table
            The table; see `encode`.
        dtype : str
            float32 or float64.

        Returns
        -------
        numpy.ndarray
            Array of shape (n, d).

        Raises
        ------
        DataError
            As for `encode`, and if a result is not finite.
        ConfigurationError
            If the dtype has another value.

        Examples
        --------
        >>> sides = agrad.data.Column("side", "word", np.array(["n", "s", "s", "n"], object), np.zeros(4, bool))
        >>> table = agrad.data.Table("rooms", (sides,))
        >>> encoder = agrad.data.TableEncoder().fit(table)
        >>> encoder.names, encoder.transform(table)[:2]
        (('side=n', 'side=s'), array([[1., 0.],
               [0., 1.]], dtype=float32))
        """
        return scaled(self.encode(table), self.mean, self.scale, float_name(dtype), table.name)

    def _encoded(self, table: Table, encodings: Sequence[Encoding], notes: Notes) -> np.ndarray:
        """Return the columns as numbers."""
        ends = np.cumsum([0, *(len(encoding.names) for encoding in encodings)]).tolist()
        result = np.zeros((len(table), ends[-1]))
        for encoding, start, end in zip(encodings, ends, ends[1:], strict=False):
            encoding.encode(table, result[:, start:end], notes)
        return result

    def _tell(self, table: Table, lines: Sequence[str]) -> None:
        """Report lines about a table."""
        for line in lines:
            text = f"{table.name}: {line[:LONGEST]}"
            warnings.warn(text, stacklevel=4) if self.report is None else self.report(text)

    def as_metadata(self) -> dict[str, Any]:
        """Return all but `mean` and `scale` as a JSON object.

        Returns
        -------
        dict
            The columns in use, and those left out.
        """
        columns = [{k: v for k, v in asdict(encoding).items() if k != "form" or v} for encoding in self.encodings]
        return {"columns": columns, "left_out": dict(self.left_out), "header": self.header}

    @classmethod
    def from_metadata(cls, saved: Any, mean: np.ndarray, scale: np.ndarray) -> TableEncoder:
        """Return the encoder of a JSON object.

        Parameters
        ----------
        saved : dict
            The result of `as_metadata`, perhaps by way of a file.
        mean, scale : numpy.ndarray
            Its arrays, float64 of shape (d,).

        Returns
        -------
        TableEncoder
            A fitted encoder.

        Raises
        ------
        DataError
            If the object is not such an object, or the arrays do not fit it.
        """
        made = cls()
        good = isinstance(saved, Mapping) and isinstance(saved.get("columns"), list) and _texts(saved.get("left_out"))
        if not good or not saved["columns"] or not all(_is_encoding(entry) for entry in saved["columns"]):
            raise DataError(f"expected the columns of a table as TableEncoder saves them, found {str(saved)[:80]}")
        entries = [{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()} for entry in saved["columns"]]
        made.encodings = tuple(Encoding(**entry) for entry in entries)
        made.left_out, made.header = dict(saved["left_out"]), saved.get("header") is not False
        # in files of earlier versions marks among strings are strings
        made._marks = MARKS if "header" in saved else ("",)
        if len({*made.columns}) != len(made.columns) or not mean.shape == scale.shape == (len(made.names),):
            raise DataError(
                f"expected mean and scale of shape {(len(made.names),)} for the columns of a table, found "
                f"{mean.shape} and {scale.shape}"
            )
        made.mean, made.scale = mean, scale
        return made


def _texts(value: Any) -> bool:
    """Return True for a mapping of texts to reasons."""
    return isinstance(value, Mapping) and all(isinstance(k, str) and v in REASONS for k, v in value.items())


def _is_encoding(entry: Any) -> bool:
    """Return True for the saved form of an `Encoding`."""
    if not isinstance(entry, Mapping) or {*entry, "form"} != {field.name for field in fields(Encoding)}:
        return False
    entry = {"form": "", **entry}
    kinds = {"bool": bool, "float": float, "str": str}
    for field in fields(Encoding):
        value = entry[field.name]
        if field.type in kinds:
            if type(value) is not kinds[field.type] or (field.type == "float" and not np.isfinite(value)):
                return False
        elif not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
            return False
    known = entry["kind"] in ("word", *ARTICLES) and entry["form"] in ("", *FORMS)
    return known and set(entry["parts"]) <= set(PARTS)
