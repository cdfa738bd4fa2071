"""``python tests/hunt``: run tests with random seeds until the time is over, and print what fails.

A landing is decided by fixed seeds. This command takes others: parts of the table of cases on every backend, random
programs, and random training steps. It prints a reduced program or the failing tests, with the command that repeats
them.
"""

import argparse
import importlib.util
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FEW = {"numpy,array_api_strict": 16, "torch": 24, "jax": 400, "dask": 400, "cupy": 60}
"""Backends of a part of the table, and how small the part is (``--few``)."""
FAILURE = re.compile(r"\b\d+ (failed|errors?)\b")
"""A failure in the output of a command that was stopped."""


class Job(NamedTuple):
    """A command with its name; None stands for a library that is not installed."""

    name: str
    command: list[str]


def table_of_cases() -> list[str]:
    """Return the test files that take a part of the table of cases."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "@each(" in file.read_text(encoding="utf-8")]


def jobs(round_: int, processes: int) -> list[Job]:
    """Return the commands of one round."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(processes), "--round", str(round_)]
    found = []
    for names, few in FEW.items():
        if all(importlib.util.find_spec(name) is not None for name in names.split(",")):
            rest = ["--backend", names, "--only", names, "--few", str(few), *table_of_cases()]
            found.append(Job(f"the table on {names}", pytest + rest))
    found.append(Job("random programs", [*pytest, "tests/transforms/test_random_programs.py"]))
    return found


def rounds(first: int, processes: int) -> Iterator[tuple[int, Job]]:
    for round_ in itertools.count(first):
        for job in jobs(round_, processes):
            yield round_, job


def run(job: Job, seconds: float) -> tuple[int | None, str]:
    """Return the exit status of a command, None if its time was over, and its output."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    process = subprocess.Popen(
        job.command, cwd=ROOT, env=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = process.communicate(timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # pytest ends its workers, and says what failed so far
        output, _ = process.communicate()
        return None, output
    return process.returncode, output


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/hunt", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="when to stop (default: 10)")
    parser.add_argument("--round", type=int, metavar="N", help="the first round (default: by the clock)")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="processes of a command (default: 2)")
    given = parser.parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    # by the clock: no two hunts take the same rounds
    first = int(time.time()) // 60 % 1_000_000 if given.round is None else given.round
    failed = 0
    for round_, job in rounds(first, given.processes):
        start = time.monotonic()
        if start >= end:
            break
        status, output = run(job, end - start)
        last = output.strip().rpartition("\n")[2]
        bad = FAILURE.search(output) is not None if status is None else status != 0
        failed += bad
        outcome = "FAILED" if bad else "stopped" if status is None else "passed"
        print(f"round {round_}, {job.name}: {outcome} ({time.monotonic() - start:.0f} s): {last}", flush=True)
        if bad:
            print(output, f"To repeat: {' '.join(job.command)}", sep="\n", flush=True)
    print(f"{failed} of the commands failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
