"""Output files: checks that protect other files, and forms of predictions."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence

import numpy as np

import agrad
from agrad.data.files import check_writable, open_file, optional
from agrad.errors import SaveError

REPORT = b'<!doctype html>\n<html lang="en">\n<!-- a report of agrad train -->'
"""The beginning of a report."""
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}

KINDS: dict[str, tuple[str, Callable[[str, bytes], bool]]] = {
    "--save": ("a model of agrad", lambda path, content: content[8:].startswith(b'{"__metadata__":{"agrad":')),
    "--log": ("a log of agrad", lambda path, content: content.startswith(b'{"event": "start"')),
    "--plot": ("a picture that Matplotlib drew", lambda path, content: _drawn(path, content)),
    "--report": ("a report of agrad", lambda path, content: content.startswith(REPORT)),
    "--output": ("predictions of agrad", lambda path, content: _predicted(path, content)),
}
"""The output of each option, and a test of a file's name and first bytes."""

START = 2**20
"""The number of bytes that are read to know the kind of a file."""


def check_output(option: str, path: str) -> None:
    """Raise ``SaveError`` unless ``path`` can be written without loss of another file.

    An empty file may be overwritten. Existing files are not changed.
    """
    check_writable(path)
    if not os.path.exists(path):
        return
    with open_file(path) as file:
        content = file.read(START)
    what, known = KINDS[option]
    if content and not known(path, content):
        raise SaveError(
            f"{option} {path!r}: expected no file, or {what}, found another file, which would be lost. Choose another "
            "path, or remove that file first."
        )


def _drawn(path: str, content: bytes) -> bool:
    """Return True for the beginning of a picture that Matplotlib drew."""
    return content.startswith(MAGIC[os.path.splitext(path)[1].lower()]) and b"Matplotlib" in content


def _predicted(path: str, content: bytes) -> bool:
    """Return True for predictions, as text or Parquet."""
    if not content.startswith(b"PAR1"):
        return content.startswith(b"example,")
    try:
        from pyarrow import parquet

        return b"agrad" in (parquet.read_schema(path).metadata or {})
    except (ImportError, OSError, ValueError):
        return False


Columns = Sequence[tuple[str, np.ndarray]]


def as_csv(columns: Columns, numbers: str) -> bytes:
    """Return columns (name, values) as text, with a format of their fractions."""
    cells = [[f"{v:{numbers}}" for v in a.tolist()] if a.dtype.kind == "f" else a.tolist() for _, a in columns]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[name for name, _ in columns], *zip(*cells, strict=True)])
    return text.getvalue().encode()


def as_parquet(columns: Columns, numbers: str) -> bytes:
    """Return columns (name, values) as a Parquet file. Raises ``MissingExtraError``."""
    pyarrow = optional("pyarrow", "pyarrow", "data", "--output: writing Parquet files")
    from pyarrow import parquet

    arrays = [pyarrow.array(_integers(values.tolist())) for _, values in columns]
    table = pyarrow.Table.from_arrays(arrays, [name for name, _ in columns], metadata={"agrad": agrad.__version__})
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _integers(values: list[object]) -> list[object]:
    """Return texts as integers if all are integers as Python writes them, such as ids."""
    try:
        whole = [int(text) for text in values if isinstance(text, str)]
    except ValueError:
        return values
    exact = [*map(str, whole)] == values and max(map(abs, whole)) < 2**63
    return [*whole] if exact else values
