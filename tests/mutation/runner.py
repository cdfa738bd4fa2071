"""Runs mutants side by side, each through its phases, and says how each ended."""

import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutation.mutants import Mutant, mutants_of, source_of
from mutation.tests_of import Phase, phases
from mutation.worker import Result, Run

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass
class Verdict:
    """The end of a mutant: test, phase, seconds."""

    mutant: Mutant
    outcome: str
    by: str = ""
    phase: str = ""
    seconds: float = 0.0
    arguments: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return f"{self.mutant.id}  {self.outcome}  {self.seconds:.1f}s  {self.by}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        return found | {"mutant": self.mutant.id, "floor": self.mutant.floor, "diff": self.mutant.diff}


@dataclass
class Limits:
    test: int
    phase: int
    whole: bool
    options: tuple[str, ...]


def listed(file: Path = EQUIVALENT) -> dict[tuple[str, str, str], str]:
    """Return the reasons of mutants that change nothing, by file and lines."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("equivalent", [])
    return {(entry["file"], entry["line"], entry["mutant"]): entry["reason"] for entry in entries}


def key(mutant: Mutant) -> tuple[str, str, str]:
    """Return the key of a mutant in the list.

    Its file, the lines it changes and their new text, without indentation.
    """
    sides = ["\n".join(line[1:].strip() for line in mutant.diff if line[0] == mark) for mark in "-+"]
    return mutant.file, sides[0], sides[1]


def stale(reasons: dict[tuple[str, str, str], str]) -> list[tuple[str, str, str]]:
    """Those of the list whose line, or whose mutant, is not in the package any more."""
    wanted: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for entry in reasons:
        wanted[entry[0]].append(entry)
    gone = []
    for file, entries in wanted.items():
        first_lines = {entry[1].partition("\n")[0] for entry in entries}
        try:
            text = source_of(file).text.splitlines()
        except OSError:
            gone += entries
            continue
        near = {number for number, line in enumerate(text, 1) if line.strip() in first_lines}
        found = {key(m) for m in mutants_of(file) if m.line in near}
        gone += [entry for entry in entries if entry not in found]
    return gone


Steps = Generator[tuple[Mutant, Phase], Result, Verdict]


def examined(mutant: Mutant, limits: Limits) -> Steps:
    """Run the phases of a mutant, until one of them ends it."""
    spent, outcome, by = 0.0, "survived", ""
    for phase in phases(mutant, limits.whole):
        result = yield mutant, phase
        spent += result.seconds
        if result.outcome in ("killed", "timeout"):
            return Verdict(mutant, result.outcome, result.by, phase.name, spent, phase.arguments)
        if result.outcome == "unfinished":
            outcome, by = "unfinished", f"out of time in {result.by}"
    return Verdict(mutant, outcome, by, "", spent)


def run_all(mutants: list[Mutant], jobs: int, limits: Limits, work: Path, tell: Callable[[Verdict], None]) -> None:
    """Run every mutant through its phases, ``jobs`` of them at a time."""
    waiting, running = list(reversed(mutants)), list[tuple[Steps, Run]]()

    def forward(steps: Steps, result: Result | None) -> None:
        try:
            mutant, phase = next(steps) if result is None else steps.send(result)
        except StopIteration as end:
            tell(end.value)
        else:
            options = () if phase.name == "whole" else limits.options
            running.append((steps, Run(work, (*phase.arguments, *options), (limits.test, limits.phase), mutant)))

    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                forward(examined(waiting.pop(), limits), None)
            time.sleep(0.05)
            for steps, run in list(running):
                result = run.poll()
                if result is not None:
                    running.remove((steps, run))
                    forward(steps, result)
    finally:
        for _, run in running:
            run.end()


def control(verdicts: list[Verdict], limits: Limits, work: Path) -> None:
    """Run the tests that killed again, without mutants.

    One that fails then too has killed nothing.
    """
    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.outcome in ("killed", "timeout") and "::" in verdict.by and " in tests/" not in verdict.by:
            alone = (verdict.by,) if verdict.outcome == "timeout" else ()
            groups[tuple(a for a in verdict.arguments if a.startswith("--")) + alone].append(verdict)
    for options, group in groups.items():
        tests = dict.fromkeys(verdict.by for verdict in group)
        arguments = (*dict.fromkeys((*tests, *options)), "--maxfail=1000")
        result = _finished(Run(work, arguments, (limits.test, 10 * limits.phase), None))
        for verdict in group:
            if verdict.by in result.failed or (result.outcome != "survived" and not result.failed):
                verdict.outcome = "doubtful"


def collects(mutants: list[Mutant], limits: Limits, work: Path) -> str:
    """Return why the tests of these mutants cannot be collected, or ""."""
    files = {a for m in mutants for phase in phases(m, False) for a in phase.arguments if a.startswith("tests/")}
    run = Run(work, (*sorted(files), "--collect-only"), (10 * limits.test, 10 * limits.phase), None)
    log = run.files["log"]
    result = _finished(run, keep=log)
    text = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    return "" if result.outcome == "survived" else text[-3000:] or result.by


def _finished(run: Run, keep: Path | None = None) -> Result:
    if keep:
        run.files.pop("log")
    while (result := run.poll()) is None:
        time.sleep(0.05)
    return result
