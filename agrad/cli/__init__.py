"""The command line: ``agrad`` with train, evaluate, predict and info.

Exit codes: 0 for success; 1 for bad data, a file that cannot be written, or a run that diverged; 2 for wrong options
and for a missing backend, device or optional package; 128 + n after signal n (Ctrl-C: 130).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import agrad
from agrad.cli.options import parser
from agrad.errors import (
    AgradError,
    BackendUnavailableError,
    ConfigurationError,
    DeviceUnavailableError,
    MissingExtraError,
    brief,
)
from agrad.starting import command_begins

__all__ = ["main"]

UNUSABLE = (ConfigurationError, BackendUnavailableError, DeviceUnavailableError, MissingExtraError)
"""The errors with exit code 2."""

MODULES = {"train": "train", "evaluate": "inference", "predict": "inference", "info": "info"}
"""The module of each command, which is imported when the command runs. Its function is ``run_<command>``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, by default the process's; return the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: >&-
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    options = parser()
    try:
        args = options.parse_args(argv)
    except SystemExit as leaving:
        # argparse has printed the help, the version or the error
        return leaving.code if isinstance(leaving.code, int) else 2
    if args.command is None:
        options.print_help(sys.stderr)
        return 2
    try:
        command_begins()
        run = getattr(importlib.import_module(f"agrad.cli.{MODULES[args.command]}"), f"run_{args.command}")
        return int(run(args))
    except AgradError as error:
        return _failed(args.command, str(error), 2 if isinstance(error, UNUSABLE) else 1)
    except MemoryError as error:
        fix = "Use fewer rows, leave out columns (--drop), or choose a smaller --batch-size"
        return _failed(args.command, f"out of memory: {error or 'no details'}. {fix}", 1)
    except KeyboardInterrupt:
        return _failed(args.command, "interrupted", 130)
    except BrokenPipeError:
        # the reader (head, say) has closed the pipe
        _drop_output()
        return 141
    except OSError as error:
        # files that agrad writes raise SaveError: this is the standard output, on a full disk say
        _drop_output()
        return _failed(args.command, f"standard output cannot be written: {error.strerror or error}", 1)


def _drop_output() -> None:
    """Discard buffered output, whose flush at exit would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(command: str, message: str, code: int) -> int:
    """Print the error of a command, and return the exit code. Other ranks end too."""
    text, world = f"agrad {command}: error: {brief(message)}", agrad.parallel.world()
    if world.size > 1:
        world.abort(f"{text} ({world.describe()}; all ranks end)", code)
    importlib.import_module("agrad.cli.terminal").complain(text)
    return code
