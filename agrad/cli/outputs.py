"""Checks of output files before the work starts, which protect other files."""

from __future__ import annotations

import os
from collections.abc import Callable

from agrad.data.files import check_writable, open_file
from agrad.errors import SaveError

REPORT = b'<!doctype html>\n<html lang="en">\n<!-- a report of agrad train -->'
"""The beginning of a report."""
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}

KINDS: dict[str, tuple[str, Callable[[str, bytes], bool]]] = {
    "--save": ("a model of agrad", lambda path, content: content[8:].startswith(b'{"__metadata__":{"agrad":')),
    "--log": ("a log of agrad", lambda path, content: content.startswith(b'{"event": "start"')),
    "--plot": ("a picture that Matplotlib drew", lambda path, content: _drawn(path, content)),
    "--report": ("a report of agrad", lambda path, content: content.startswith(REPORT)),
    "--output": ("predictions of agrad", lambda path, content: content.startswith(b"example,")),
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
