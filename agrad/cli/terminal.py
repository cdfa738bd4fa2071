"""The one way in which the command line prints text that may come from files: as printable characters."""

from __future__ import annotations

import sys
from typing import IO

from agrad.errors import printable


def say(line: str) -> None:
    """Print a line now: whoever reads a pipe wants to see the run as it goes."""
    write(line + "\n", sys.stdout)


def complain(line: str) -> None:
    """Print a line on the standard error."""
    write(line + "\n", sys.stderr)


def write(text: str, stream: IO[str]) -> None:
    """Write text with an escape for each character that a terminal acts on, or that the stream has no code for."""
    encoding = stream.encoding or "utf-8"
    stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
