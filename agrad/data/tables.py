"""Tables: named columns of numbers, strings and dates, with missing values marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from agrad.data.cells import MARKS, dates, number_in, numbers, shown
from agrad.data.classification import WHOLE, class_labels, doubtful, no_classes
from agrad.errors import DataError, listed

__all__ = ["Column", "Table"]

UNNAMED = re.compile(r"|Unnamed: \d+")
"""The header of an unnamed column, also as pandas writes it."""
WIDTH = 40
"""The longest name of a column that a message suggests."""


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
        Array of shape (n,): numbers as float64, with NaN for missing ones; strings as objects of type str, as the file
        has them; dates as datetime64 in microseconds, with NaT for missing ones, or in milliseconds
        if one is more than 292,000 years from 1970.
    missing : numpy.ndarray
        Booleans of shape (n,), True for missing values.
    marks : tuple of str
        The marks of missing values that the file has in the column, such as NA.
    form : str
        The form of dates that are not ISO 8601, as `datetime.strptime` reads it, or what was removed from numbers.

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
    marks: tuple[str, ...] = ()
    form: str = ""


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
    encoding : str
        Encoding of the text.
    header : bool
        False if the columns have the names c0, c1, ... because the file has none.

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
    encoding: str = "utf-8"
    header: bool = True

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return int(self.columns[0].values.shape[0])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in reversed([*enumerate(self.names)])}

    def _number(self, column: str | int) -> int:
        """Return the index of a column, given its name or index."""
        found = self._places.get(column) if isinstance(column, str) else None
        return column_number(self.name, self.names, column) if found is None else found

    def __getitem__(self, column: str | int) -> Column:
        return self.columns[self._number(column)]

    def __repr__(self) -> str:
        text = "" if self.delimiter is None else f", separated by {self.delimiter!r}"
        text += f", encoding {self.encoding}" * (self.encoding != "utf-8")
        lines = [f"table {self.name}: {len(self):,} rows, {len(self.columns)} columns{text}"]
        width = max(len(name) for name in self.names)
        for column in self.columns:
            count = int(np.count_nonzero(column.missing))
            marks = f" ({listed([repr(mark) for mark in column.marks])})" if column.marks else ""
            lines.append(f"  {column.name:<{width}}  {column.kind}" + (f", {count:,} missing{marks}" if count else ""))
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
        part = self.select(names)
        result = np.empty((len(self), len(part.columns)))
        for at, column in enumerate(part.columns):
            if column.kind == "number":
                result[:, at] = column.values
            else:
                result[:, at] = [np.nan if (x := number_in(str(value))) is None else x for value in column.values]
        if doubtful(result):
            wrong = np.argwhere(~np.isfinite(result))
            if wrong.size:
                row, at = (int(k) for k in wrong[0])
                raise DataError(part.message(row, at, "a finite number"))
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
        column = self[name]
        if column.missing.any():
            raise DataError(self.message(int(np.argmax(column.missing)), name, "a label"))
        texts = [str(value) for value in column.values]
        labels = class_labels(texts)
        numbers = [] if labels.dtype.kind == "i" else [number_in(text) for text in texts]
        if numbers and None not in numbers:
            row = next(row for row, x in enumerate(numbers) if x % 1 or abs(x) >= WHOLE)
            raise DataError(
                f"{self.name}: column {column.name!r}: expected classes as text or as integers below 2**53, "
                f"found the number {shown(texts[row])} in row {row + 1} of the data; {no_classes(np.array(numbers))}"
            )
        return labels

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
        places = [self._number(name) for name in (self.names if names is None else names)]
        if not places:
            raise DataError(
                f"{self.name}: expected one column of features or more in addition to the labels, found none"
            )
        columns = [self.columns[place] for place in places]
        if rows is not None:
            columns = [replace(c, values=c.values[rows], missing=c.missing[rows]) for c in columns]
        whole = self.cell

        def cell(row: int, column: int) -> tuple[str, str] | None:
            assert whole is not None
            return whole(row if rows is None else int(rows[row]), places[column])

        return replace(self, columns=tuple(columns), cell=None if whole is None else cell)

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
        found = shown(text) if text.strip() else "nothing"
        return f"{self.name}: {where}, column {shown(self[column].name)}: expected {expected}, found {found}"

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
        place = self._number(column)
        found = None if self.cell is None else self.cell(row, place)
        if found is not None:
            return found
        there = self.columns[place]
        return f"row {row + 1} of the data", "" if there.missing[row] else str(there.values[row])


def column_of(name: str, texts: Sequence[str], codes: np.ndarray, as_words: bool, delimiter: str | None) -> Column:
    """Return a column of cells `texts[codes]`: numbers, dates or strings."""
    texts = [text.strip() for text in texts]
    marks = () if as_words else tuple(sorted({text for text in texts if text in MARKS} - {""}))
    given = any(text not in MARKS for text in texts) or not any(texts)
    found, form = numbers(texts, delimiter)
    if as_words and form and None not in found:
        texts = [text if x is None or text in MARKS else f"{x:.15g}" for text, x in zip(texts, found, strict=True)]
    if not as_words and given:
        if None not in found:
            values = np.array(found, dtype=np.float64)[codes]
            return Column(name, "number", values, np.isnan(values), marks, form)
        found, form = dates(texts)
        if None not in found:
            values = np.array(found, dtype=np.float64)
            days = np.where(np.isnan(values), np.datetime64("NaT", "us"), np.nan_to_num(values).astype("<M8[us]"))[
                codes
            ]
            return Column(name, "date", days, np.isnat(days), marks, form)
    gaps = np.array([not text or text in marks for text in texts], dtype=bool)
    return Column(name, "word", np.array(texts, dtype=object)[codes], gaps[codes], marks)


def column_number(name: str, names: Sequence[str], column: str | int) -> int:
    """Return the index of a column, given its name or index.

    A string that is not a column name is read as an index. Raises `DataError` if there is none.
    """
    with suppress(ValueError):
        return list(names).index(column.strip() if isinstance(column, str) else "\0")
    with suppress(ValueError):
        if -len(names) <= (place := int(column)) < len(names):
            return place % len(names)
    known = f"found the columns {listed(names)} (numbered 0 to {len(names) - 1})" if names else "found no columns"
    if len(names) == 1:
        known = (
            f"found only {shown(names[0])}. Write the names of columns into the first line, separated by commas, "
            "semicolons, tabs or vertical bars"
        )
    near = difflib.get_close_matches(str(column), [name for name in names if len(name) <= WIDTH], 1)
    known += f". Did you mean {near[0]!r}?" if near and len(names) > 1 else ""
    raise DataError(f"{name}: expected a column {shown(str(column)) if isinstance(column, str) else column}, {known}")


def index_column(table: Table, names: Sequence[str]) -> str | None:
    """Return the name of an unnamed column of distinct integers, which number rows.

    pandas reads such a column, whose header is empty, as "Unnamed: 0".
    """
    for name in names:
        values = table[name].values
        if UNNAMED.fullmatch(name) and (values % 1 == 0).all() and np.unique(values).size == values.size > 1:
            return name
    return None
