"""Readers of tables: text with a delimiter, and Parquet."""

from __future__ import annotations

import csv
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from agrad.data.cells import MARKS, dates, distinct, number_in, numbers, shown
from agrad.data.files import StrPath, encoding_of, opened_text, optional, read_file, unpacked
from agrad.data.tables import Column, Table, column_number, column_of
from agrad.errors import ConfigurationError, DataError, listed

__all__ = ["read_csv", "read_parquet", "read_table"]

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 50
"""The number of lines from which the delimiter and the kinds of columns are guessed."""
BLOCK = 2**24
"""The bytes of text that are read at a time."""

Words = Callable[[Sequence[str]], Sequence[str | int]]


def read_csv(
    path: StrPath, *, words: Sequence[str | int] = (), delimiter: str | None = None, header: bool | None = None
) -> Table:
    """Read a text table with one line per row and a header line.

    The encoding is guessed: UTF-8, UTF-16, UTF-32, otherwise Latin-1 (cp1252). Files may be packed by gzip, bzip2, xz
    or zip. Empty lines are skipped. A column contains numbers or dates if all of its cells do or are missing, otherwise
    strings. An empty cell is missing, and so are NA, N/A, NaN, NULL, None, ?, a hyphen and a point. Numbers may have
    commas between thousands, one currency or a percent sign, and decimal commas if another character is the delimiter.
    Dates are ISO 8601 or of forms such as 2015/01/31 10:00, 1/31/2015, 31.01.2015 and Jan 31 2015. If the package
    pyarrow is installed, it reads the rows, block by block.

    Parameters
    ----------
    path : str or path
        The file.
    words : sequence of str or int
        Columns to keep as strings, by name or by index from 0 (from the end if negative). A string that is not a column
        name is read as an index.
    delimiter : str, optional
        Character between columns. By default, a comma, semicolon, tab or vertical bar, inferred from the first lines.
    header : bool, optional
        True if the first line contains the names of columns; False to name them c0, c1, ... By default, True, but a
        first line that looks like data raises an error.

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
    return _read_text(path, lambda names: words, delimiter, header)


def read_table(path: StrPath, *, words: Words | None = None, header: bool | None = None) -> Table:
    """Read a table: Parquet if the name ends in .parquet, otherwise text.

    Parameters
    ----------
    path : str or path
        The file; see `read_csv` and `read_parquet`.
    words : function, optional
        Function from the names of all columns to the names of the columns to keep as strings. It is called before the
        rows are read.
    header : bool, optional
        See `read_csv`.

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
        return _read_parquet(path, words)
    return _read_text(path, words or (lambda names: ()), None, header)


@dataclass(frozen=True)
class _Text:
    """The layout of a text table."""

    path: StrPath
    encoding: str
    delimiter: str
    names: list[str]
    skip: int
    """Lines of the header."""
    header: bool

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Return an iterator over (line, cells) of the rows of data that are not empty."""
        with opened_text(self.path, self.encoding) as text:
            rows = csv.reader(text, delimiter=self.delimiter, strict=True)
            yield from islice(((rows.line_num, row) for row in rows if row), int(self.header), None)


def _read_text(path: StrPath, words: Words, delimiter: str | None, header: bool | None) -> Table:
    """Return a table of text; see `read_csv`."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ConfigurationError(f"delimiter must be one character, got {delimiter!r}")
    name, encoding = repr(os.fspath(path)), encoding_of(path)
    # a character that is not UTF-8 may come late; Latin-1 has one for each byte
    for guess in dict.fromkeys([encoding, *(("cp1252", "latin-1") if encoding in ("utf-8", "cp1252") else ())]):
        try:
            text, sample = _layout(name, path, guess, delimiter, header)
            kept = {column_number(name, text.names, word) for word in words(text.names)}
            columns = _by_pyarrow(text, sample, kept) or _by_csv(name, text, kept)
            break
        except UnicodeError as error:
            wrong: Exception = error
        except csv.Error as error:
            raise DataError(f"{name}: expected comma-separated text, found a damaged file: {error}") from error
    else:
        raise DataError(f"{name}: expected text in {encoding}, found a damaged file: {wrong}") from wrong

    def cell(row: int, column: int) -> tuple[str, str] | None:
        with suppress(DataError, UnicodeError, csv.Error), closing(text.rows()) as rows:
            there = next(islice(rows, row, None), None)
            return None if there is None or column >= len(there[1]) else (f"line {there[0]}", there[1][column])
        return None

    decimal = "," if any(column.form.startswith("decimal") for column in columns) else "."
    return Table(name, tuple(columns), text.delimiter, cell, decimal, guess, text.header)


def _layout(
    name: str, path: StrPath, encoding: str, delimiter: str | None, header: bool | None
) -> tuple[_Text, list[list[str]]]:
    """Return the layout of a text table, and the first rows of data."""
    with opened_text(path, encoding) as file:
        lines = list(islice(file, 4 * SAMPLE))
    best, most = delimiter or ",", (False, 1)
    # if one gives all lines the same number of columns, the others are not candidates
    for guess in DELIMITERS if delimiter is None else ():
        with suppress(csv.Error):
            widths = [len(row) for _, row in islice(_parsed(lines, guess), SAMPLE)]
            found = (len(set(widths)) == 1, widths[0] if widths else 0)
            if found[1] > 1 and found > most:
                best, most = guess, found
    (line, first), *rest = [*islice(_parsed(lines, best), SAMPLE)] or [(0, [])]
    sample = [row for _, row in rest if len(row) == len(first)]
    if not first:
        raise DataError(f"{name}: expected a header row and one row of data or more, found an empty file")
    if header is None and _like_data(first, sample):
        raise DataError(
            f"{name}: expected a header row with column names, found a row like the data ({listed(first, 4)}). Pass "
            "--no-header (header=False in Python) to name the columns c0, c1, ..., or --header (header=True) to use "
            "it as names."
        )
    if header is False:
        return _Text(path, encoding, best, [f"c{place}" for place in range(len(first))], 0, False), [first, *sample]
    return _Text(path, encoding, best, _checked_names(name, first), line, True), sample


def _parsed(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Return an iterator over (line, cells) of lines, whose last row may be cut."""
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    with suppress(csv.Error):
        yield from ((rows.line_num, row) for row in rows if row)


def _like_data(first: list[str], sample: list[list[str]]) -> bool:
    """Return True if the first row has values like those below it."""
    heads = [number_in(cell) for cell in first]
    if None not in heads and heads:
        return True
    votes = []
    for cell, below in zip(first, zip(*sample, strict=True), strict=False):
        texts = [*{text.strip() for text in below} - {*MARKS}]
        read = next((read for read in (numbers, dates) if texts and None not in read(texts)[0]), None)
        if read is None:
            votes.append(len(sample) > 4 and cell.strip() in texts and len(texts) < len(sample) / 2)
        elif None in read([cell.strip()])[0] or not cell.strip():
            return False
        else:
            votes.append(True)
    steps = np.diff([head for head in heads if head is not None])
    # names such as 2019, 2020, 2021
    named = steps.size > 1 and bool(steps[0]) and bool(np.allclose(steps, steps[0]))
    return not named and 2 * sum(votes) >= len(first)


def _checked_names(name: str, header: Sequence[str]) -> list[str]:
    """Return the names of columns without blanks, or raise `DataError`."""
    header = [cell.strip() for cell in header]
    first: dict[str, int] = {}
    twice = [
        f"{shown(column)} (columns {first[column]} and {place}, counted from 0)"
        for place, column in enumerate(header)
        if first.setdefault(column, place) != place
    ]
    if twice:
        raise DataError(
            f"{name}: expected a different name for each column, found {listed(twice, 2, width=80)}. Rename or "
            "remove such columns, or pass --no-header (header=False in Python) if these are data."
        )
    return header


def _by_csv(name: str, text: _Text, kept: set[int]) -> list[Column]:
    """Return the columns, read by the module `csv`."""
    rows = []
    for line, row in text.rows():
        if len(row) != len(text.names):
            raise DataError(
                f"{name}: line {line}: expected {len(text.names)} columns as in the header, found {len(row)} "
                f"(separated by {text.delimiter!r})"
            )
        rows.append(row)
    if not rows:
        raise DataError(f"{name}: expected one row of data or more under the header, found none")
    columns = enumerate(zip(text.names, zip(*rows, strict=True), strict=True))
    return [column_of(column, *distinct(cells), at in kept, text.delimiter) for at, (column, cells) in columns]


def _by_pyarrow(text: _Text, sample: list[list[str]], kept: set[int]) -> list[Column] | None:
    """Return the same columns as `_by_csv`, faster and block by block.

    Returns None if pyarrow is not installed or cannot read the file. Columns of numbers in the sample are read as such;
    if one contains anything else later, all columns are read as text.
    """
    try:
        import pyarrow
        from pyarrow import csv as reader
    except ImportError:
        return None
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    numeric = [
        place not in kept and any(cells) and all(not cell or number_in(cell) is not None for cell in cells)
        for place, cells in enumerate(zip(*sample, strict=True))
    ]
    for known in (numeric, [False] * len(text.names)):
        kinds = [pyarrow.float64() if known_number else words for known_number in known]
        pieces: list[list[Any]] = [[] for _ in text.names]
        try:
            with (
                unpacked(text.path) as file,
                reader.open_csv(
                    file,
                    read_options=reader.ReadOptions(
                        column_names=text.names, skip_rows=text.skip, block_size=BLOCK, encoding=text.encoding
                    ),
                    parse_options=reader.ParseOptions(delimiter=text.delimiter, newlines_in_values=True),
                    convert_options=reader.ConvertOptions(
                        column_types=dict(zip(text.names, kinds, strict=True)), null_values=["", "nan", "NaN"]
                    ),
                ) as batches,
            ):
                for batch in batches:
                    for piece, array, number in zip(pieces, batch.columns, known, strict=True):
                        piece.append(_floats(pyarrow, array) if number else array)
        except MemoryError:
            raise  # Python's module would need more
        except (pyarrow.ArrowException, ValueError) as error:
            if "invalid UTF8" in str(error):
                raise UnicodeError(str(error)) from error
            continue
        if not pieces[0]:
            return None
        # an open quote swallows the rest of the file; Python's module raises an error for it
        if any(isinstance(cell := array[-1].as_py(), str) and "\n" in cell for array in batch.columns):
            deque(text.rows(), maxlen=0)
        return [
            _column(pyarrow, *given, text.delimiter)
            for given in zip(text.names, pieces, known, (place in kept for place in range(len(kinds))), strict=True)
        ]
    return None


def _floats(pyarrow: Any, array: Any) -> np.ndarray:
    """Return an array of pyarrow, with NaN for nulls.

    Its methods `to_numpy` and `fill_null` would import pandas.
    """
    values = pyarrow.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], offset=array.offset)
    found = np.from_dlpack(values)
    return np.where(np.from_dlpack(array.is_valid().cast("int8")), found, np.nan) if array.null_count else found


def _column(pyarrow: Any, name: str, pieces: list[Any], number: bool, kept: bool, delimiter: str) -> Column:
    """Return a column of its pieces, and empty the list."""
    if number:
        values = np.concatenate(pieces)
        pieces.clear()
        return Column(name, "number", values, np.isnan(values))
    chunks = pyarrow.chunked_array(pieces).unify_dictionaries().chunks
    pieces.clear()
    codes = np.concatenate([np.from_dlpack(chunk.indices) for chunk in chunks])
    return column_of(name, chunks[0].dictionary.to_pylist(), codes, kept, delimiter)


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
    return _read_parquet(path, None)


def _read_parquet(path: StrPath, words: Words | None) -> Table:
    """Return the table of a Parquet file; `words` is called with the names first."""
    name, content = repr(os.fspath(path)), read_file(path)
    pyarrow = optional("pyarrow", "pyarrow", "data", f"{name}: reading Parquet files")
    try:
        from pyarrow import parquet

        file = parquet.ParquetFile(pyarrow.BufferReader(content))
        names = _checked_names(name, file.schema_arrow.names)
        if words is not None:
            words(names)
        table = file.read()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{name}: expected a Parquet file, found a damaged one: {str(error)[:120]}") from error
    if not table.num_rows or not names:
        raise DataError(
            f"{name}: expected one row and one column or more, found {table.num_rows} rows and {len(names)} columns"
        )
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
        numbers = np.array(values.cast(pyarrow.float64(), safe=False).to_numpy(), np.float64)
        return Column(column, "number", numbers, np.isnan(numbers))
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
        return column_of(column, *distinct([text or "" for text in values.to_pylist()]), True, None)
    raise DataError(f"{name}: column {shown(column)}: expected numbers, strings or dates, found {str(kind)[:80]}")
