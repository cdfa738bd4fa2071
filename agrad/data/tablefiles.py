"""Readers of tables: text with a delimiter, and Parquet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from agrad.data.classification import number_in
from agrad.data.files import StrPath, read_file
from agrad.data.tables import MARKS, Column, Table, column_number, column_of, number_column, with_points, word_column
from agrad.errors import ConfigurationError, DataError, MissingExtraError, listed

__all__ = ["read_csv", "read_parquet", "read_table"]

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 50
"""The number of lines from which the delimiter and the kinds of columns are guessed."""


def read_csv(path: StrPath, *, words: Sequence[str | int] = (), delimiter: str | None = None) -> Table:
    """Read a text table with one line per row and a header line.

    Text is UTF-8. Empty lines are skipped. A column contains numbers or dates (ISO 8601, without a time zone) if all of
    its cells do or are missing, otherwise strings. An empty cell is missing; in a column of numbers or dates so are NA,
    N/A, NaN, NULL, None, ?, a hyphen and a point. Numbers may have decimal commas if another character is the
    delimiter, unless each has three digits after it. If the package pyarrow is installed, it reads rows without quotes.

    Parameters
    ----------
    path : str or path
        The file.
    words : sequence of str or int
        Columns to keep as strings, by name or by index from 0 (from the end if negative). A string that is not a column
        name is read as an index.
    delimiter : str, optional
        Character between columns. By default, a comma, semicolon, tab or vertical bar, inferred from the first lines.

    Returns
    -------
    Table
        The columns, and the delimiter.

    Raises
    ------
    DataError
        If the file is missing or not text, has no header or no rows, two columns have the same name, or a row is longer
        or shorter than the header. The message includes the line.
    ConfigurationError
        If the delimiter is not valid.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "people.csv")
    ...     np.savetxt(path, ["name;age", "Ada;36,5", "Max;"], fmt="%s")
    ...     table = agrad.data.read_csv(path)
    >>> table.names, table.delimiter, table["age"].values
    (('name', 'age'), ';', array([36.5,  nan]))
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ConfigurationError(f"delimiter must be one character, got {delimiter!r}")
    name, content = repr(os.fspath(path)), read_file(path)
    try:
        found = delimiter or _guessed(content)
        line, names = _header(name, content, found)
        kept = {column_number(name, names, word) for word in words}
        columns = _by_pyarrow(content, found, line, names, kept)
        if columns is None:
            columns = _by_csv(name, content, found, names, kept)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{name}: expected comma-separated text in UTF-8, found a damaged file: {error}") from error

    def cell(row: int, column: int) -> tuple[str, str] | None:
        there = next(islice(_rows(read_file(path), found), row + 1, None), None)
        return None if there is None or column >= len(there[1]) else (f"line {there[0]}", there[1][column])

    pointed = [None if found == "," else with_points(c, place in kept) for place, c in enumerate(columns)]
    decimal = "," if any(column is not None for column in pointed) else "."
    columns = [old if new is None else new for old, new in zip(columns, pointed, strict=True)]
    return Table(name, tuple(columns), found, cell, decimal)


def _rows(content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Return an iterator over (line, cells) of the rows that are not empty."""
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    return ((rows.line_num, row) for row in rows if row)


def _header(name: str, content: bytes, delimiter: str) -> tuple[int, list[str]]:
    """Return the last line of the header and its names, or raise `DataError`."""
    line, names = next(_rows(content, delimiter), (0, []))
    names = _checked_names(name, names)
    if all(number_in(cell) is not None for cell in names):
        raise DataError(
            f"{name}: expected a header row with column names, found only numbers ({listed(names)}). Add a first line "
            "with names."
        )
    return line, names


def _guessed(content: bytes) -> str:
    """Return the delimiter that splits the first lines into the most columns.

    If one gives all lines the same number of columns, the others are not candidates.
    """
    best, most = ",", (False, 1)
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for _, row in islice(_rows(content, delimiter), SAMPLE)]
        except csv.Error:
            continue
        found = (len(set(widths)) == 1, widths[0] if widths else 0)
        if found[1] > 1 and found > most:
            best, most = delimiter, found
    return best


def _checked_names(name: str, header: list[str]) -> list[str]:
    """Return the names of columns without blanks, or raise `DataError`."""
    if not header:
        raise DataError(f"{name}: expected a header row and one row of data or more, found an empty file")
    header = [cell.strip() for cell in header]
    first: dict[str, int] = {}
    twice = [
        f"{column!r} (columns {first[column]} and {place}, counted from 0)"
        for place, column in enumerate(header)
        if first.setdefault(column, place) != place
    ]
    if twice:
        raise DataError(
            f"{name}: expected a different name for each column, found {listed(twice, 3, width=100)}. Rename or "
            "remove such columns."
        )
    return header


def _by_csv(name: str, content: bytes, delimiter: str, names: list[str], kept: set[int]) -> list[Column]:
    """Return the columns, read by the module `csv`."""
    rows = []
    for line, row in islice(_rows(content, delimiter), 1, None):
        if len(row) != len(names):
            raise DataError(
                f"{name}: line {line}: expected {len(names)} columns as in the header, found {len(row)} "
                f"(separated by {delimiter!r})"
            )
        rows.append(row)
    if not rows:
        raise DataError(f"{name}: expected one row of data or more under the header, found none")
    return [
        column_of(column, cells, place in kept)
        for place, (column, cells) in enumerate(zip(names, zip(*rows, strict=True), strict=True))
    ]


def _by_pyarrow(
    content: bytes, delimiter: str, header_line: int, names: list[str], kept: set[int]
) -> list[Column] | None:
    """Return the same columns as `_by_csv`, faster.

    Returns None if pyarrow is not installed, cannot read the file, or would read it differently.
    """
    # below the header, because quotes in the wrong place are an error of Python's module, and text for pyarrow
    if b'"' in content.split(b"\n", header_line)[-1]:
        return None
    try:
        import pyarrow
        from pyarrow import csv as reader
    except ImportError:
        return None
    sample = [row for _, row in islice(_rows(content, delimiter), 1, SAMPLE)]
    if not sample or any(len(row) != len(names) for row in sample):
        return None
    numeric = [
        place not in kept and all(cell in MARKS or number_in(cell) is not None for cell in cells)
        for place, cells in enumerate(zip(*sample, strict=True))
    ]
    types = [pyarrow.float64() if is_number else pyarrow.string() for is_number in numeric]
    kinds = dict(zip(names, types, strict=True))
    try:
        table = reader.read_csv(
            pyarrow.BufferReader(content),
            read_options=reader.ReadOptions(column_names=names, skip_rows=header_line),
            parse_options=reader.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=reader.ConvertOptions(column_types=kinds, null_values=list(MARKS)),
        )
    except (pyarrow.ArrowException, ValueError):
        return None
    columns = []
    for place, (name, is_number) in enumerate(zip(names, numeric, strict=True)):
        values = table.column(place)
        if is_number:
            columns.append(number_column(name, np.array(values.to_numpy(), dtype=np.float64)))
        else:
            columns.append(column_of(name, values.to_pylist(), place in kept))
    # a column without a number may be one of words
    return (
        None if any(is_number and c.missing.all() for c, is_number in zip(columns, numeric, strict=True)) else columns
    )


def read_table(path: StrPath, *, words: Callable[[Sequence[str]], Sequence[str]] | None = None) -> Table:
    """Read a table: Parquet if the name ends in .parquet, otherwise text.

    Parameters
    ----------
    path : str or path
        The file; see `read_csv` and `read_parquet`.
    words : function, optional
        Function from the names of all columns to the names of the columns to keep as strings.

    Returns
    -------
    Table
        The columns.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "people.csv")
    ...     np.savetxt(path, ["name,born", "Ada,1815-12-10", "Max,1858-04-23"], fmt="%s")
    ...     table = agrad.data.read_table(path)
    >>> [(column.name, column.kind) for column in table.columns]
    [('name', 'word'), ('born', 'date')]
    """
    if os.fspath(path).lower().endswith(".parquet"):
        return read_parquet(path)
    if words is None:
        return read_csv(path)
    name, content = repr(os.fspath(path)), read_file(path)
    try:
        _, names = _header(name, content, _guessed(content))
    except (UnicodeDecodeError, csv.Error):
        names = []  # reading all of it tells what is wrong
    return read_csv(path, words=words(names))


def read_parquet(path: StrPath) -> Table:
    """Read a Parquet file of numbers, Booleans, strings and dates.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Table
        The columns. Numbers are float64, Booleans are 0 and 1, and null or NaN is missing.

    Raises
    ------
    MissingExtraError
        If the package pyarrow is not installed.
    DataError
        If the file is missing or damaged, has no columns or rows, or a column contains other types.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyarrow
    >>> from pyarrow import parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "people.parquet")
    ...     parquet.write_table(pyarrow.table({"name": ["Ada", "Max"], "age": [36.0, None]}), path)
    ...     table = agrad.data.read_parquet(path)
    >>> table.names, table["age"].missing
    (('name', 'age'), array([False,  True]))
    """
    name, content = repr(os.fspath(path)), read_file(path)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            f"{name}: reading Parquet files needs the package pyarrow, which is not installed. Install it with: pip "
            "install 'agrad[data]'"
        ) from error
    try:
        table = parquet.read_table(pyarrow.BufferReader(content))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{name}: expected a Parquet file, found a damaged one: {error}") from error
    if not table.num_rows or not table.num_columns:
        raise DataError(
            f"{name}: expected one row and one column or more, found {table.num_rows} rows and {table.num_columns} "
            "columns"
        )
    names = _checked_names(name, table.column_names)
    return Table(name, tuple(_arrow_column(name, n, table.column(k)) for k, n in enumerate(names)))


def _arrow_column(name: str, column: str, values: Any) -> Column:
    """Return a column of a Parquet file."""
    import pyarrow
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return number_column(column, np.array(values.cast(pyarrow.float64(), safe=False).to_numpy(), np.float64))
    if types.is_date(kind) or types.is_timestamp(kind):
        unit = "us"
        if types.is_date(kind) or kind.unit == "ms":  # the format has no seconds
            # microseconds end 292,000 years from 1970, where a cast would wrap
            days = values.cast(pyarrow.timestamp("s"), safe=False).to_numpy().astype("datetime64[s]").astype(np.int64)
            most = np.abs(days[days != np.iinfo(np.int64).min]).max(initial=0)
            unit = "us" if most < 2**63 // 10**6 else "ms"
        dates = np.array(values.cast(pyarrow.timestamp(unit), safe=False).to_numpy(), f"datetime64[{unit}]")
        return Column(column, "date", dates, np.isnat(dates))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return word_column(column, [text or "" for text in values.to_pylist()])
    raise DataError(f"{name}: column {column!r}: expected numbers, strings or dates, found {kind}")
