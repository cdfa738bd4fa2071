"""Output of lines to the terminal, with escapes for unprintable characters."""

from __future__ import annotations

import contextlib
import sys

from agrad.parallel import world
from agrad.train.display import write

__all__ = ["complain", "say", "write"]


def say(line: str) -> None:
    """Print a line at once, also into a pipe; only rank 0 does."""
    if not world().rank:
        write(line + "\n", sys.stdout)


def complain(line: str) -> None:
    """Print a line on the standard error, if it can be written; only rank 0 does."""
    if world().rank:
        return
    with contextlib.suppress(OSError):  # a terminal that was closed
        write(line + "\n", sys.stderr)
