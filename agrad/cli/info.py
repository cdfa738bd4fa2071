"""``agrad info``: installed backends, and the selected one."""

from __future__ import annotations

import argparse
import sys

import agrad
from agrad.backends.base import device_name
from agrad.cli.selection import chosen, source
from agrad.errors import BackendUnavailableError, DeviceUnavailableError

INSTALLED = "installed; agrad info --check imports it and lists its devices"


def run_info(args: argparse.Namespace) -> int:
    """Print every backend: its version, and its devices or why it cannot run."""
    # the list helps to correct an unusable selection, so it is printed before the error
    failure = None
    line = ""
    try:
        with chosen(args.backend, args.device) as place:
            line = f"selected: {place.backend.name} on {place.device_name} (by {source(args.backend)})"
    except (BackendUnavailableError, DeviceUnavailableError) as error:
        failure = error
    rows = [
        (name, report.version or "", report.reason or ", ".join(map(device_name, report.devices)) or INSTALLED)
        for name, report in agrad.available_backends(check=args.check).items()
    ]
    print(f"agrad {agrad.__version__}, Python {sys.version.split()[0]}")
    if not (sys.stdout.isatty() and _table(rows)):
        for name, version, rest in rows:
            print(f"{name:<18}{version or '-':<14}{rest}")
    if failure is None:
        print(line)
    elif args.backend is None and args.device is None:
        # the environment names an unusable backend: a result of this command, not an error
        print(f"selected: none: {failure}")
    else:
        raise failure
    return 0


def _table(rows: list[tuple[str, str, str]]) -> bool:
    """Print the rows as a table; return False if rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table("backend", "version", "devices, or why it cannot run")
    for row in rows:
        # as Text, because 'agrad[torch]' would be read as markup
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
    return True
