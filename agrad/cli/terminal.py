"""Output of lines to the terminal, with escapes for unprintable characters."""

from __future__ import annotations

import sys
from typing import IO

from agrad.errors import printable


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    write(line + "\n", sys.stdout)


def complain(line: str) -> None:
    """Print a line on the standard error."""
    write(line + "\n", sys.stderr)


def write(text: str, stream: IO[str]) -> None:
    """Write text, with escapes for characters that cannot be shown.

    These are control characters, and those that the stream cannot encode.
    """
    encoding = stream.encoding or "utf-8"
    stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
