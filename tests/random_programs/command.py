"""Runs of many seeds: counts of outcomes, and a reduced program a failure."""

import argparse
import json
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from random_programs.generate import generate
from random_programs.outcomes import Outcome, run
from random_programs.program import Program, names_of
from random_programs.reduce import reduce_failure, script
from random_programs.ways import WAYS

ALWAYS = ("values", "reverse")
TURNS = 3
PIECE = 25


def ways_of(seed: int, ways: Iterable[str] = tuple(WAYS)) -> list[str]:
    """Return the ways of a seed if not all are asked for.

    Two always, and three that take turns.
    """
    others = [way for way in ways if way not in ALWAYS]
    turning = [others[(seed * TURNS + i) % len(others)] for i in range(min(TURNS, len(others)))]
    return [way for way in ways if way in ALWAYS] + turning


def run_seed(seed: int, ways: Iterable[str]) -> list[Outcome]:
    """Return the outcomes of a seed's program."""
    program = generate(seed)
    return [run(program, way, seed) for way in ways]


def explain(seed: int, outcomes: Iterable[Outcome]) -> Iterator[dict[str, Any]]:
    """Return each failure of a seed with its reduced program.

    Ways that fail on the same one share it.
    """
    shared: list[Program] = []
    for outcome in outcomes:
        for program in shared:
            last = run(program, outcome.way, seed)
            if last.verdict == outcome.verdict:
                break
        else:
            program, last = reduce_failure(generate(seed), outcome, seed)
            shared.append(program)
        used = " ".join(sorted(names_of(program.steps)))
        yield {"seed": seed, **asdict(outcome), "operations": used, "reduced": script(program, last)}


def _piece(given: tuple[range, tuple[str, ...] | None, bool]) -> tuple[Counter[str], list[dict[str, Any]]]:
    seeds, ways, reducing = given
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    for seed in seeds:
        outcomes = run_seed(seed, ways or ways_of(seed))
        for outcome in outcomes:
            counts[outcome.verdict + (f": {outcome.kind}" if outcome.verdict == "refused" else "")] += 1
            counts[f"{outcome.verdict} in {outcome.way}"] += 1
        failing = [outcome for outcome in outcomes if outcome.fails]
        failures += explain(seed, failing) if reducing else ({"seed": seed, **asdict(o)} for o in failing)
        failures += ({"seed": seed, **asdict(o)} for o in outcomes if o.verdict == "undecided")
    return counts, failures


def run_seeds(
    seeds: range, ways: tuple[str, ...] | None = None, jobs: int = 1, reducing: bool = True
) -> Iterator[tuple[Counter[str], list[dict[str, Any]]]]:
    """Return counts and failures, by pieces of seeds.

    ``ways`` None: those that take turns.
    """
    pieces = [(seeds[i : i + PIECE], ways, reducing) for i in range(0, len(seeds), PIECE)]
    if jobs == 1:
        yield from map(_piece, pieces)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_piece, pieces)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/random_programs", description=__doc__)
    parser.add_argument("--seeds", default="0:300", metavar="A:B", help="the seeds, from A to B - 1, or one seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--ways", default="all", help=f"'all', 'turns' (five a seed), or some of {','.join(WAYS)}")
    parser.add_argument("--json", metavar="FILE", help="write counts and failures")
    parser.add_argument("--print", action="store_true", help="print the programs of the seeds, and run nothing")
    parser.add_argument("--no-reduce", action="store_true", help="report failures with their seeds only")
    given = parser.parse_args(arguments)
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    if given.print:
        for seed in seeds:
            program = generate(seed)
            print(f"# seed {seed}", program.source(), *(line for s in program.inputs for line in s.lines()), sep="\n")
        return 0
    ways = {"all": tuple(WAYS), "turns": None}.get(given.ways, tuple(given.ways.split(",")))
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    shown: set[tuple[str, ...]] = set()
    for more, found in run_seeds(seeds, ways, given.jobs, not given.no_reduce):
        counts += more
        failures += found
        for failure in found:
            _show(failure, shown)
        if given.json:
            with open(given.json, "w") as file:
                json.dump({"seeds": given.seeds, "counts": counts, "failures": failures}, file, indent=1)
    print(
        f"seeds {given.seeds}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if " in " not in name)
    )
    return 1 if counts["wrong"] or counts["error"] else 0


def _show(failure: dict[str, Any], shown: set[tuple[str, ...]]) -> None:
    """Print a failure.

    Of those whose reduced programs use the same operations only the first in full.
    """
    if failure["verdict"] == "undecided":
        return
    head = f"seed {failure['seed']}: {failure['way']}: {failure['verdict']}: {failure['kind']}"
    key = (failure["verdict"], failure.get("operations", failure["kind"]))
    if "reduced" in failure and key not in shown:
        print(f"{head}\n{failure['reduced']}\n", flush=True)
    else:
        print(f"{head} [{failure.get('operations', '')}]", flush=True)
    shown.add(key)
