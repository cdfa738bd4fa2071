"""Handle Ctrl-C while the command ``agrad`` is imported: exit code 130."""

import contextlib
import os
import signal
import sys
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process. No work that requires cleanup has started."""
    os.write(2, b"agrad: interrupted\n")
    os._exit(130)


def await_command() -> None:
    """Handle Ctrl-C until ``main`` runs, if this process is the command."""
    first = os.path.basename(next(iter(getattr(sys, "argv", ())), ""))
    # python -m imports the package before it sets the name of the program
    words = sys.orig_argv[sys.orig_argv.index("-m") :][:2] if "-m" in sys.orig_argv else []
    if first in ("agrad", "agrad.exe") or (first == "-m" and words == ["-m", "agrad"]):
        with contextlib.suppress(ValueError):  # in another thread than the main one
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, _leave)


def command_begins() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


await_command()
