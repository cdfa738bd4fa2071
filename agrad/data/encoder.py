"""The encoder of tables, fitted to a training part and saved with a model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from agrad.data.cells import FORMS, MARKS, shown
from agrad.data.classification import check_finite, float_name, standardisation
from agrad.data.encodings import ARTICLES, PARTS, Encoding, Notes, plan
from agrad.data.order import positive
from agrad.data.tables import Table, column_number
from agrad.errors import DataError, listed

REASONS = {
    "id": "an integer or word of its own in every row, which only names the row",
    "constant": "the same in all rows",
    "empty": "nothing but missing values",
    "rare": "words of which none is frequent enough for a category",
    "dates": "dates in a form that is not known",
    "dropped": "named to be left out",
}
"""The reasons to leave a column out. It warns about ids, rare strings and dates."""

LONGEST = 400
"""Characters of a warning."""
SAMPLE = Encoding("", "word")


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
        Number of training rows that make a string a category. By default, 2.
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
        self.categorical: tuple[str | int, ...] = tuple(categorical)
        self.keep: tuple[str | int, ...] = tuple(keep)
        self.min_count: int | None = None if min_count is None else positive(min_count, "min_count")
        self.max_categories: int = positive(max_categories, "max_categories")
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
        """Columns to read as strings: categorical ones, and dates of a fixed form."""
        return tuple(encoding.column for encoding in self.encodings if encoding.kind == "word" or encoding.form)

    @property
    def parts(self) -> dict[str, slice]:
        """Positions of the numbers of each column in the result."""
        return _parts(self.encodings)

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
        least = 2 if self.min_count is None else self.min_count
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
        numeric = [encoding for encoding in found if encoding.kind != "word"]
        numbers = _encoded(table, numeric, notes)
        moments = standardisation(numbers, table.name, [name for encoding in numeric for name in encoding.names])
        scaled, among = (np.array([f for e in es for f in e.scaled], dtype=bool) for es in (found, numeric))
        self.encodings, self.left_out, self.header = tuple(found), left_out, table.header
        self.mean, self.scale = np.zeros(scaled.size), np.ones(scaled.size)
        self.mean[scaled], self.scale[scaled] = (values[among] for values in moments)
        self._tell(table, [*self._left_out_lines(), *notes.all()])
        return self

    def _left_out_lines(self) -> list[str]:
        """Return a line for each reason to leave columns out that the user should know."""
        lines = []
        for reason, remedy in (
            ("id", "--id lets agrad predict write it, and --keep (keep= in Python) uses it"),
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
        return self._checked(table)

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
        result = self._checked(table, (self.mean, self.scale), float_name(dtype))
        check_finite(f"{table.name}, scaled to {dtype}", result)
        return result

    def _checked(self, table: Table, *options: Any) -> np.ndarray:
        """Return the columns of a table with the right columns as numbers; see `_encoded`."""
        extra = self.check(table.name, table.names)
        notes = Notes(False, self._marks)
        if extra:
            notes.lines.append(f"ignored, because the training data did not have them: {listed(extra)}")
        result = _encoded(table, self.encodings, notes, *options)
        self._tell(table, notes.all())
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
        good = good and isinstance(saved.get("header", True), bool)
        found = [_encoding(entry) for entry in saved["columns"]] if good else []
        made.encodings = tuple(encoding for encoding in found if encoding is not None)
        if not found or None in found:
            raise DataError(f"expected the columns of a table as TableEncoder saves them, found {str(saved)[:80]}")
        made.left_out, made.header = dict(saved["left_out"]), saved.get("header", True)
        # in files of earlier versions marks among strings are strings
        made._marks = MARKS if "header" in saved else ("",)
        if len({*made.columns}) != len(made.columns) or not mean.shape == scale.shape == (len(made.names),):
            raise DataError(
                f"expected mean and scale of shape {(len(made.names),)} for the columns of a table, found "
                f"{mean.shape} and {scale.shape}"
            )
        made.mean, made.scale = mean, scale
        return made


def _parts(encodings: Sequence[Encoding]) -> dict[str, slice]:
    """Return the positions of the numbers of each column."""
    ends = np.cumsum([len(encoding.names) for encoding in encodings]).tolist()
    return {e.column: slice(end - len(e.names), end) for e, end in zip(encodings, ends, strict=True)}


def _encoded(
    table: Table,
    encodings: Sequence[Encoding],
    notes: Notes,
    moments: tuple[np.ndarray, np.ndarray] | None = None,
    dtype: str = "float64",
) -> np.ndarray:
    """Return columns as numbers, standardized with a mean and a scale if these are given.

    Each column is written into an array of the dtype, because an array of all columns in float64 may be large.
    """
    width = sum(len(encoding.names) for encoding in encodings)
    check_memory(table.name, len(table), width, np.dtype(dtype).itemsize)
    result = np.zeros((len(table), width), dtype)
    mean, scale = (np.zeros(width), np.ones(width)) if moments is None else moments
    with np.errstate(over="ignore"):
        for encoding, place in zip(encodings, _parts(encodings).values(), strict=True):
            encoding.encode(table, result[:, place], notes, mean[place], scale[place])
    return result


def check_memory(name: str, rows: int, width: int, size: int) -> None:
    """Raise `DataError` if a table needs more memory than Linux has available.

    Otherwise the system may end the process without an error.
    """
    needed, left = rows * width * size, math.inf
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        left = next((1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:")), left)
    if needed > left:
        raise DataError(
            f"{name}: {rows:,} rows of {width:,} numbers need {needed / 1e9:.1f} GB of memory, but only "
            f"{left / 1e9:.1f} GB are available. Leave out columns (--drop) with many categories, or use fewer rows."
        )


def _texts(value: Any) -> bool:
    """Return True for a mapping of texts to reasons."""
    return isinstance(value, Mapping) and all(isinstance(k, str) and v in REASONS for k, v in value.items())


def _encoding(entry: Any) -> Encoding | None:
    """Return the encoding of its saved form; None for anything else."""
    names = {field.name for field in fields(Encoding)}
    if not isinstance(entry, Mapping) or {*entry, "form"} != names:
        return None
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    found = Encoding(**values)
    # the defaults show the types
    good = all(type(getattr(found, name)) is type(getattr(SAMPLE, name)) for name in names)
    good = good and all(isinstance(text, str) for text in (*found.categories, *found.parts))
    good = good and bool(np.isfinite([found.fill, found.first]).all()) and {*found.parts} <= {*PARTS}
    return found if good and found.kind in ("word", *ARTICLES) and found.form in ("", *FORMS) else None
