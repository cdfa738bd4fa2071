"""A comparison of two runs of a suite: ``python -m bench diff OLD.json NEW.json``.

The processor may not be equally fast in both runs. The candidates other than agrad measure its change: their median
ratio, new / old, is removed from the ratios of agrad, unless ``--absolute`` is passed. A row is slower if its ratio is
above the threshold, and if its lower quartile exceeds the old upper quartile by at least half of the threshold. One of
these alone is noise.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import common

THRESHOLD = 1.25
FEW = 3
"""Minimum number of rows of peers whose median describes the change of the machine."""


class BadRun(Exception):
    """A file that does not contain a run; the message says which and why."""


@dataclass(frozen=True)
class Change:
    """A row of both runs: seconds, and new / old without the change of the machine."""

    name: str
    old: float
    new: float
    ratio: float
    apart: bool
    """True if the quartiles do not overlap, so that the change is not noise."""


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[float]]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value and all(isinstance(v, (int, float)) for v in value):
        yield path, value


def read(file: Path) -> dict[tuple[str, ...], list[float]]:
    """Return the samples of a run by their path in it. Raises ``BadRun``.

    The candidate is the last element of the path.
    """
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRun(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise BadRun(f"{file}: no JSON ({error})") from None
    samples = dict(_leaves(record.get("seconds", {}))) if isinstance(record, dict) else {}
    if not samples:
        raise BadRun(f"{file}: no run of a suite: it has no samples under 'seconds'")
    return samples


def _ours(path: tuple[str, ...]) -> bool:
    return path[-1].startswith("agrad")


def compare(
    old: dict[tuple[str, ...], list[float]],
    new: dict[tuple[str, ...], list[float]],
    *,
    threshold: float = THRESHOLD,
    absolute: bool = False,
) -> tuple[list[Change], float]:
    """Return the rows of agrad in both runs, and the change of the machine.

    The change is 1 if it is not removed or cannot be determined.
    """
    both = [path for path in old if path in new]
    ratios = [statistics.median(new[path]) / statistics.median(old[path]) for path in both if not _ours(path)]
    machine = 1.0 if absolute or len(ratios) < FEW else statistics.median(ratios)
    found = []
    for path in filter(_ours, both):
        before, now = statistics.median(old[path]), statistics.median(new[path])
        above = common.quartiles(old[path])[1] * (1 + (threshold - 1) / 2)
        apart = common.quartiles(new[path])[0] / machine > above
        found.append(Change(" / ".join(path), before, now, now / before / machine, apart))
    return sorted(found, key=lambda change: -change.ratio), machine


def slower(changes: list[Change], threshold: float) -> list[Change]:
    """Return the rows that got slower by more than noise."""
    return [change for change in changes if change.ratio > threshold and change.apart]


def text(changes: list[Change], machine: float, threshold: float, absent: int) -> str:
    """Return the comparison as Markdown."""
    bad = slower(changes, threshold)
    faster = [change for change in changes if change.ratio < 1 / threshold]
    lines = [f"{len(changes)} rows of agrad compared; {absent} are in one run only."]
    lines.append(
        f"The times of the other candidates changed by a factor of {machine:.2f}, which is removed."
        if machine != 1.0
        else "No change of the machine is removed."
    )
    parts = [" ".join(lines)]
    for title, chosen in ((f"Slower than {threshold} x", bad), (f"Faster than 1/{threshold} x", faster)):
        if chosen:
            rows = [[c.name, common.microseconds(c.old), common.microseconds(c.new), f"{c.ratio:.2f}"] for c in chosen]
            parts.append(f"## {title}\n\n" + common.table(["row", "old, us", "new, us", "ratio"], rows))
        else:
            parts.append(f"{title}: none.")
    return "\n\n".join(parts)


def main(arguments: list[str]) -> int:
    """Compare two files, and return the exit code.

    It is 1 if something got slower, 2 if they cannot be compared.
    """
    parser = argparse.ArgumentParser(prog="python -m bench diff", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, metavar="OLD.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD, help="what counts as slower (default %(default)s)"
    )
    parser.add_argument("--absolute", action="store_true", help="compare seconds, whatever the machine was doing")
    given = parser.parse_args(arguments)
    try:
        if not given.threshold > 1:
            raise BadRun(f"--threshold {given.threshold}: it is a ratio above 1")
        old, new = read(given.old), read(given.new)
        changes, machine = compare(old, new, threshold=given.threshold, absolute=given.absolute)
        if not changes:
            raise BadRun(f"{given.old} and {given.new} have no row of agrad in common: are they of one suite?")
    except BadRun as error:
        print(f"bench diff: {error}", file=sys.stderr)
        return 2
    absent = len({path for path in {**old, **new} if _ours(path)}) - len(changes)
    print(text(changes, machine, given.threshold, absent))
    return 1 if slower(changes, given.threshold) else 0
