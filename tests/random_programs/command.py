"""``python tests/random_programs --seeds 0:300``: run random programs, and print a reduced one of each failure."""

import argparse
import multiprocessing
from collections import Counter

from random_programs import outcomes_of, ways_of
from random_programs.outcomes import Outcome
from random_programs.program import generate
from random_programs.reduce import reduce_failure, script
from random_programs.ways import WAYS


def examine(given: tuple[int, list[str], bool]) -> tuple[int, list[Outcome], str]:
    """Return the outcomes of a seed, and the reduced program of its first failure."""
    seed, ways, reducing = given
    outcomes = outcomes_of(seed, ways)
    failing = [outcome for outcome in outcomes if outcome.fails]
    return seed, outcomes, script(*reduce_failure(generate(seed), failing[0], seed)) if failing and reducing else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/random_programs", description=__doc__)
    parser.add_argument("--seeds", default="0:300", metavar="A:B", help="the seeds, from A to B - 1, or one seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--ways", default="turns", help=f"'all', 'turns' (five a seed), or some of {','.join(WAYS)}")
    parser.add_argument("--print", action="store_true", help="print the programs of the seeds, and run nothing")
    parser.add_argument("--no-reduce", action="store_true", help="report failures with their seeds only")
    given = parser.parse_args(arguments)
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last) if last else int(first) + 1)
    if given.print:
        for program in map(generate, seeds):
            print(program.source(), *(line for s in program.inputs for line in s.lines()), sep="\n")
        return 0
    ways = {"all": list(WAYS), "turns": None}.get(given.ways, given.ways.split(","))
    work = [(seed, ways or ways_of(seed), not given.no_reduce) for seed in seeds]
    counts: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for seed, outcomes, reduced in pool.imap(examine, work, chunksize=25):
            counts += Counter(o.verdict + (f": {o.kind}" if o.verdict == "refused" else "") for o in outcomes)
            failing = [f"seed {seed}: {o.way}: {o.verdict}: {o.kind}" for o in outcomes if o.fails]
            if failing:
                print(*failing, reduced, sep="\n", flush=True)
    print(f"seeds {given.seeds}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))
    return 1 if counts["wrong"] or counts["error"] else 0
