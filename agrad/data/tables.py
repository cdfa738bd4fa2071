"""Tables: named columns of numbers, strings and dates, with missing values marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agrad.data.classification import WHOLE, doubtful, no_classes, number_in
from agrad.errors import DataError, listed

__all__ = ["Column", "Table"]

MARKS = ("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "Null", "null", "None", "none", "?", "-", ".")
"""The cells of a column of numbers or dates that mark a missing value."""

DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")

COMMA = re.compile(r"[+-]?\d+(,\d+)?")
"""A number with a decimal comma."""

UNNAMED = re.compile(r"|Unnamed: \d+")
"""The header of an unnamed column, also as pandas writes it."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"number", "word", "date"}
        The kind of its values.
    values : numpy.ndarray
        Array of shape (n,): numbers as float64, with NaN for missing ones; strings as objects of type str, with an
        empty one for missing ones; dates as datetime64 in microseconds, with NaT for missing ones, or in milliseconds
        if one is more than 292,000 years from 1970.
    missing : numpy.ndarray
        Booleans of shape (n,), True for missing values.

    Examples
    --------
    >>> ages = agrad.data.Column("age", "number", np.array([31.0, np.nan]), np.array([False, True]))
    >>> ages.kind, int(ages.missing.sum())
    ('number', 1)
    """

    name: str
    kind: str
    values: np.ndarray
    missing: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """The content of a file with a table.

    `len(table)` is the number of rows, and `table[name]` or `table[number]` a `Column`. Its text lists the columns.

    Parameters
    ----------
    name : str
        The name of the file, for messages.
    columns : tuple of Column
        The columns, at least one, of equal length.
    delimiter : str or None
        The character between the cells of a line; None for a file that is not text.
    cell : function, optional
        Function from the indices of a row and a column to the position of that cell in the file and its text, for
        messages.
    decimal : str
        Decimal separator: a point or a comma.

    Examples
    --------
    >>> ages = agrad.data.Column("age", "number", np.array([31.0, np.nan]), np.array([False, True]))
    >>> names = agrad.data.Column("name", "word", np.array(["Ada", "Max"], object), np.array([False, False]))
    >>> agrad.data.Table("people", (names, ages))
    table people: 2 rows, 2 columns
      name  word
      age   number, 1 missing
    """

    name: str
    columns: tuple[Column, ...]
    delimiter: str | None = None
    cell: Callable[[int, int], tuple[str, str] | None] | None = None
    decimal: str = "."

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return int(self.columns[0].values.shape[0])

    def __getitem__(self, column: str | int) -> Column:
        return self.columns[column_number(self.name, self.names, column)]

    def __repr__(self) -> str:
        text = "" if self.delimiter is None else f", separated by {self.delimiter!r}"
        lines = [f"table {self.name}: {len(self):,} rows, {len(self.columns)} columns{text}"]
        width = max(len(name) for name in self.names)
        for column in self.columns:
            count = int(np.count_nonzero(column.missing))
            lines.append(f"  {column.name:<{width}}  {column.kind}" + (f", {count:,} missing" if count else ""))
        return "\n".join(lines)

    def numbers(self, names: Sequence[str | int] | None = None) -> np.ndarray:
        """Return columns of finite numbers as one array.

        Parameters
        ----------
        names : sequence of str or int, optional
            Columns, in the order of the result. By default, all.

        Returns
        -------
        numpy.ndarray
            Float64 of shape (n, number of columns).

        Raises
        ------
        DataError
            If the column does not exist, or a value is missing, a string, a date, or not finite. The message includes
            the position.

        Examples
        --------
        >>> sizes = agrad.data.Column("size", "number", np.array([1.0, 2.5]), np.zeros(2, bool))
        >>> agrad.data.Table("rooms", (sizes,)).numbers(["size"])
        array([[1. ],
               [2.5]])
        """
        places = [column_number(self.name, self.names, name) for name in (self.names if names is None else names)]
        if not places:
            raise DataError(
                f"{self.name}: expected one column of features or more in addition to the labels, found none"
            )
        result = np.empty((len(self), len(places)))
        for at, place in enumerate(places):
            column = self.columns[place]
            if column.kind == "number":
                result[:, at] = column.values
            else:
                result[:, at] = [np.nan if (x := number_in(str(value))) is None else x for value in column.values]
        if doubtful(result):
            wrong = np.argwhere(~np.isfinite(result))
            if wrong.size:
                row, at = (int(k) for k in wrong[0])
                raise DataError(self.message(row, places[at], "a finite number"))
        return result

    def labels(self, name: str | int) -> np.ndarray:
        """Return a column as the labels of classes.

        Parameters
        ----------
        name : str or int
            The column.

        Returns
        -------
        numpy.ndarray
            Int64 of shape (n,) if all labels are integers, otherwise strings.

        Raises
        ------
        DataError
            If the column does not exist, a label is missing, or all labels are numbers and one is fractional or at
            least 2**53.

        Examples
        --------
        >>> sides = agrad.data.Column("side", "word", np.array(["n", "s"], object), np.zeros(2, bool))
        >>> agrad.data.Table("rooms", (sides,)).labels("side")
        array(['n', 's'], dtype='<U1')
        """
        place = column_number(self.name, self.names, name)
        column = self.columns[place]
        if column.missing.any():
            raise DataError(self.message(int(np.argmax(column.missing)), place, "a label"))
        texts = [str(value) for value in column.values]
        numbers = [number_in(text) for text in texts]
        if any(number is None for number in numbers):
            return np.array(texts)
        for row, (text, number) in enumerate(zip(texts, numbers, strict=True), 1):
            if number is None or not number.is_integer() or abs(number) >= WHOLE:
                raise DataError(
                    f"{self.name}: column {column.name!r}: expected classes as text or as integers below 2**53, "
                    f"found the number {text[:40]!r} in row {row} of the data; {no_classes(np.array(numbers))}"
                )
        return np.array(numbers).astype(np.int64)

    def select(self, names: Sequence[str | int] | None = None, rows: np.ndarray | None = None) -> Table:
        """Return a table of some columns and rows.

        Parameters
        ----------
        names : sequence of str or int, optional
            Columns, in the order of the result. By default, all.
        rows : numpy.ndarray, optional
            Row indices, int64. By default, all.

        Returns
        -------
        Table
            The part, whose messages include positions in the file.

        Raises
        ------
        DataError
            If the column does not exist, or no column remains.

        Examples
        --------
        >>> sizes = agrad.data.Column("size", "number", np.array([1.0, 2.5, 4.0]), np.zeros(3, bool))
        >>> len(agrad.data.Table("rooms", (sizes,)).select(rows=np.array([0, 2])))
        2
        """
        places = [column_number(self.name, self.names, name) for name in (self.names if names is None else names)]
        if not places:
            raise DataError(
                f"{self.name}: expected one column of features or more in addition to the labels, found none"
            )
        columns = [self.columns[place] for place in places]
        if rows is not None:
            columns = [Column(c.name, c.kind, c.values[rows], c.missing[rows]) for c in columns]
        whole = self.cell

        def cell(row: int, column: int) -> tuple[str, str] | None:
            assert whole is not None
            return whole(row if rows is None else int(rows[row]), places[column])

        return Table(self.name, tuple(columns), self.delimiter, None if whole is None else cell, self.decimal)

    def message(self, row: int, column: str | int, expected: str) -> str:
        """Return the message for a cell that is not as expected.

        Parameters
        ----------
        row : int
            Row index, from 0.
        column : str or int
            The column.
        expected : str
            The expected content.

        Returns
        -------
        str
            Text with the file, the position and the cell.
        """
        where, text = self.place(row, column)
        shown = repr(text[:40]) if text.strip() else "nothing"
        return f"{self.name}: {where}, column {self[column].name!r}: expected {expected}, found {shown}"

    def place(self, row: int, column: str | int) -> tuple[str, str]:
        """Return the position of a cell, such as line 7, and its text.

        Parameters
        ----------
        row : int
            Row index, from 0.
        column : str or int
            The column.

        Returns
        -------
        tuple of str
            Position in the file if it is known, otherwise the row of the data, from 1; and the text.
        """
        place = column_number(self.name, self.names, column)
        found = None if self.cell is None else self.cell(row, place)
        if found is not None:
            return found
        there = self.columns[place]
        return f"row {row + 1} of the data", "" if there.missing[row] else str(there.values[row])


def column_of(name: str, cells: Sequence[str], as_words: bool = False) -> Column:
    """Return a column: numbers or dates if all cells are, or else strings."""
    values = None if as_words else _numbers(cells)
    if values is not None:
        return number_column(name, values)
    texts = [cell.strip() for cell in cells]
    dates = None if as_words else _dates(texts)
    if dates is not None:
        return Column(name, "date", dates, np.isnat(dates))
    return word_column(name, texts)


def with_points(column: Column, as_words: bool) -> Column | None:
    """Return a column of strings with decimal points instead of commas, or None.

    Three digits behind each comma may be thousands: such columns are unchanged.
    """
    texts = column.values.tolist() if column.kind == "word" else []
    given = [text for text in texts if text not in MARKS]
    behind = {len(text.partition(",")[2]) for text in given if "," in text}
    if not behind or behind == {3} or not all(COMMA.fullmatch(text) for text in given):
        return None
    return column_of(column.name, [text.replace(",", ".") for text in texts], as_words)


def word_column(name: str, texts: Sequence[str]) -> Column:
    """Return a column of strings, of which empty ones are missing."""
    return Column(name, "word", np.array(texts, dtype=object), np.array([not text for text in texts]))


def number_column(name: str, values: np.ndarray) -> Column:
    """Return a column of numbers, of which NaN are missing."""
    return Column(name, "number", values, np.isnan(values))


def _numbers(cells: Sequence[str]) -> np.ndarray | None:
    """Return cells as float64, with NaN for missing ones, or None."""
    # float() reads "1_000" as 1000; in a table that is text
    if "_" in "".join(cells):
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        pass
    known = {cell: np.nan if cell.strip() in MARKS else number_in(cell) for cell in set(cells)}
    if None in known.values():
        return None
    values = np.array([known[cell] for cell in cells], dtype=np.float64)
    # marks without a number may be words
    return values if not np.isnan(values).all() or not any(cell.strip() for cell in known) else None


def _dates(texts: Sequence[str]) -> np.ndarray | None:
    """Return texts in the form of ISO 8601, without a time zone, as dates, or None."""
    known = {text: "NaT" if text in MARKS else text for text in set(texts)}
    given = [text for text in known.values() if text != "NaT"]
    if not given or not all(DATE.fullmatch(text) for text in given):
        return None
    try:
        return np.array([known[text] for text in texts], dtype="datetime64[us]")
    except ValueError:
        return None


def column_number(name: str, names: Sequence[str], column: str | int) -> int:
    """Return the index of a column, given its name or index.

    A string that is not a column name is read as an index. Raises `DataError` if there is none.
    """
    if isinstance(column, str) and column.strip() in names:
        return list(names).index(column.strip())
    try:
        place = int(column)
    except ValueError:
        place = len(names)
    if not -len(names) <= place < len(names):
        raise DataError(
            f"{name}: expected a column {column!r}, found the columns {listed(names)} (numbered 0 to {len(names) - 1})"
        )
    return place % len(names)


def index_column(table: Table, names: Sequence[str]) -> str | None:
    """Return the name of an unnamed column of distinct integers, which number rows.

    pandas reads such a column, whose header is empty, as "Unnamed: 0".
    """
    for name in names:
        values = table[name].values
        if UNNAMED.fullmatch(name) and (values % 1 == 0).all() and np.unique(values).size == values.size > 1:
            return name
    return None
