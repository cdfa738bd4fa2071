"""Readers of NumPy archives and CSV tables."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import warnings
from array import array
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from agrad.data.classification import WHOLE, no_classes, number_in
from agrad.data.files import StrPath, open_file, unreadable
from agrad.errors import ConfigurationError, DataError, listed

RATIO = 1032
"""The largest number of bytes that deflate packs into one byte."""

UNNAMED = re.compile(r"|Unnamed: \d+")
"""The header of an unnamed column, also as pandas writes it."""


class Table(NamedTuple):
    """The content of a CSV file.

    Parameters
    ----------
    X : numpy.ndarray
        The numbers, float64 of shape (n, d).
    columns : tuple of str
        The names of their columns.
    y : numpy.ndarray or None
        The labels, int64 or text of shape (n,), if a column holds them.
    """

    X: np.ndarray
    columns: tuple[str, ...]
    y: np.ndarray | None


def read_npz(
    path: StrPath, *, required: Sequence[str] = (), optional: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays of a `.npz` file, all of them or none.

    Parameters
    ----------
    path : str or path
        The file.
    required : sequence of str
        Arrays that must be there.
    optional : sequence of str or None
        Other arrays to read; None for all.

    Returns
    -------
    dict of str to numpy.ndarray
        The arrays by name.

    Raises
    ------
    DataError
        If the file is missing, not an archive, damaged, lacks an array, or holds Python objects (which are never
        unpickled).
    """
    name = repr(os.fspath(path))
    with open_file(path) as file:
        return _npz(file, name, required, optional)


def _npz(file: IO[bytes], name: str, required: Sequence[str], optional: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Return the arrays of an open archive."""
    try:
        start = file.read(4)
        if start[:2] != b"PK":
            raise DataError(
                f"{name}: expected an archive of numpy.savez, which starts with the bytes 50 4b; "
                f"found {start.hex(' ') or 'an empty file'}"
            )
        file.seek(0)
        # NumPy warns of headers written by Python 2, but reads them
        with (
            warnings.catch_warnings(action="ignore"),
            np.load(file, allow_pickle=False) as archive,
        ):
            members = {key.removesuffix(".npy"): key for key in archive.zip.namelist()}
            missing = [key for key in required if key not in members]
            if missing:
                raise DataError(
                    f"{name}: expected the arrays {', '.join(required)}; missing {', '.join(missing)}, "
                    f"found {listed(sorted(members)) or 'none'}"
                )
            wanted = members if optional is None else [k for k in (*required, *optional) if k in members]
            return {key: _member(archive.zip, members[key], f"{name}, array {key!r}") for key in wanted}
    except DataError:
        raise
    except Exception as error:
        # for damage zipfile, zlib and NumPy's header parser raise a dozen types, none of them documented
        reason = str(error) or type(error).__name__
        raise DataError(f"{name}: expected an archive of numpy.savez, found a damaged one: {reason}") from error


def _member(archive: Any, member: str, name: str) -> np.ndarray:
    # checked before it is read, because a damaged header could make NumPy reserve a terabyte
    """Return one array of an archive, checked to have the size that its header says."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in reader:
            raise DataError(f"{name}: expected version 1.0 or 2.0 of the npy format, found {version}")
        shape, _, dtype = reader[version](stream)
        start = stream.tell()
    if dtype.hasobject:
        raise DataError(f"{name}: expected numbers or text, found Python objects; save it with a plain dtype")
    expected = int(np.prod(np.array(shape, dtype=object))) * dtype.itemsize
    info = archive.getinfo(member)
    found = info.file_size - start
    if expected != found:
        raise DataError(f"{name}: expected {expected} bytes for shape {shape} and dtype {dtype}, found {found}")
    if math.prod(shape) and not dtype.itemsize:
        raise DataError(f"{name}: expected numbers or text, found elements of no size, of dtype {dtype}")
    if info.file_size > RATIO * (info.compress_size + 1):
        raise DataError(
            f"{name}: expected {found} bytes for shape {shape} and dtype {dtype}, found {info.compress_size} "
            "compressed ones, which cannot hold so many"
        )
    with archive.open(member) as stream:
        value = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is compared at the end of the stream
    return value


def read_csv(path: StrPath, label: str | int | None = None, *, delimiter: str = ",") -> Table:
    """Read a table with a header row, and numbers in all columns but the labels'.

    Text is UTF-8. Empty lines are skipped. Labels are int64 if all of them are integers, else text.

    Parameters
    ----------
    path : str or path
        The file.
    label : str, int or None
        The name of the labels' column, or its number counted from 0 (from the end if negative). A text that is no
        column's name is read as a number. None for a table without labels.
    delimiter : str
        The character between columns.

    Returns
    -------
    Table
        Numbers, names and labels.

    Raises
    ------
    DataError
        If the file is missing or not text, has no header or no rows, two columns have one name, a row is longer or
        shorter than the header, a feature is not a finite number, or a label is empty or a fractional number. The
        message has line and column.
    ConfigurationError
        If the delimiter cannot be one.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ConfigurationError(f"delimiter: expected one character between columns, found {delimiter!r}")
    name = repr(os.fspath(path))
    try:
        with open_file(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            rows = csv.reader(text, delimiter=delimiter, strict=True)
            return _table(name, rows, label)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{name}: expected comma-separated text in UTF-8, found a damaged file: {error}") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _table(name: str, rows: Any, label: str | int | None) -> Table:
    """Return the table of the rows of a file."""
    lines = ((rows.line_num, row) for row in rows if row)
    header: list[str] = next(lines, (0, []))[1]
    if not header:
        raise DataError(f"{name}: expected a header row and one row of data or more, found an empty file")
    header = [cell.strip() for cell in header]
    if all(number_in(cell) is not None for cell in header):
        raise DataError(
            f"{name}: expected a header row with the columns' names, found only numbers ({listed(header)}); "
            "add a first line with names"
        )
    _check_distinct(name, header)
    at = None if label is None else _column(name, header, label)
    columns = tuple(header if at is None else header[:at] + header[at + 1 :])
    if not columns:
        raise DataError(f"{name}: expected one column of features or more beside the labels, found none")
    values, labels = array("d"), []
    for line, cells in lines:
        if len(cells) != len(header):
            raise DataError(f"{name}: line {line}: expected {len(header)} columns as in the header, found {len(cells)}")
        if at is not None:
            labels.append(cells.pop(at).strip())
            if not labels[-1]:
                raise DataError(f"{name}: line {line}, column {header[at]!r}: expected a label, found nothing")
        try:
            numbers = [float(cell) for cell in cells]
        except ValueError:
            numbers = []
        # float() reads "1_000" as 1000; in a table that is text
        if not numbers or any("_" in cell for cell in cells) or not np.isfinite(numbers).all():
            raise _not_a_number(name, line, cells, columns)
        values.extend(numbers)
    if not values:
        raise DataError(f"{name}: expected one row of data or more under the header, found none")
    X = np.frombuffer(values, np.float64).reshape(-1, len(columns)).copy()
    return Table(X, columns, None if at is None else _labels(name, labels, header[at]))


def _check_distinct(name: str, header: list[str]) -> None:
    """Raise `DataError` if two columns have one name."""
    first: dict[str, int] = {}
    twice = [
        f"{column!r} (columns {first[column]} and {place}, counted from 0)"
        for place, column in enumerate(header)
        if first.setdefault(column, place) != place
    ]
    if twice:
        raise DataError(
            f"{name}: expected a name of its own for each column, found {listed(twice, 3, width=100)}; rename or "
            "remove such columns"
        )


def index_column(table: Table) -> str | None:
    """Return the name of an unnamed column of distinct integers, which number rows.

    pandas reads such a column, whose header is empty, as "Unnamed: 0".
    """
    for place, column in enumerate(table.columns):
        values = table.X[:, place]
        if UNNAMED.fullmatch(column) and (values % 1 == 0).all() and np.unique(values).size == values.size > 1:
            return column
    return None


def _column(name: str, header: list[str], label: str | int) -> int:
    """Return the number of the labels' column."""
    if isinstance(label, str) and label.strip() in header:
        return header.index(label.strip())
    try:
        place = int(label)
    except ValueError:
        place = len(header)
    if not -len(header) <= place < len(header):
        raise DataError(
            f"{name}: expected a column {label!r} for the labels; found the columns {listed(header)} "
            f"(numbered 0 to {len(header) - 1})"
        )
    return place % len(header)


def _not_a_number(name: str, line: int, cells: list[str], columns: tuple[str, ...]) -> DataError:
    """Return the `DataError` for the first cell of a row that is not a finite number."""
    numbers = [number_in(cell) for cell in cells]
    at = next(i for i, number in enumerate(numbers) if number is None or not np.isfinite(number))
    found = repr(cells[at][:40]) if cells[at].strip() else "nothing"
    return DataError(f"{name}: line {line}, column {columns[at]!r}: expected a finite number, found {found}")


def _labels(name: str, labels: list[str], column: str) -> np.ndarray:
    """Return labels as int64 if all of them are integers, else as text."""
    numbers = [number_in(label) for label in labels]
    if any(number is None for number in numbers):
        return np.array(labels)
    whole = []
    for row, (label, number) in enumerate(zip(labels, numbers, strict=True), 1):
        if number is None or not number.is_integer() or abs(number) > WHOLE:
            raise DataError(
                f"{name}: column {column!r}: expected classes as text or as integers of at most 2**53, "
                f"found the number {label[:40]!r} in row {row} of the data; {no_classes(np.array(numbers))}"
            )
        whole.append(int(number))
    return np.array(whole, dtype=np.int64)
