"""``python tests/mutation``: change the package by a seed, list unseen changes."""

import argparse
import importlib
import importlib.util
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parents[1])
sys.path.insert(1, str(HERE.parent))

from mutation.mutants import FLOORS, Mutant, chosen, named  # noqa: E402
from mutation.report import survivors, table  # noqa: E402
from mutation.runner import Limits, Verdict, collects, control, key, listed, run_all, stale  # noqa: E402
from mutation.tests_of import LIBRARIES  # noqa: E402

WARM = ("numpy", "numpy.testing", "hypothesis", "hypothesis.extra.numpy", "array_api_strict", "array_api_compat.numpy")
"""Imported once, before the forks. The package itself is not among them."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which mutants are chosen (default: 1)")
    parser.add_argument("--count", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N of those")
    parser.add_argument("--floor", action="append", choices=FLOORS, help="of these floors alone; may be repeated")
    parser.add_argument("--only", action="append", metavar="FILE[:LINE[:KIND[:N]]]", help="these, and none by seed")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--no-whole", action="store_true", help="spare survivors the whole suite")
    parser.add_argument("--limit", type=int, default=120, help="processor seconds of a test that hangs (default: 120)")
    parser.add_argument("--phase-limit", type=int, default=1800, help="seconds for one run of pytest (default: 1800)")
    parser.add_argument("--pytest", action="append", default=[], metavar="OPTION", help="for the tests of the module")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all verdicts there")
    parser.add_argument("--diff", action="store_true", help="print the difference of every mutant")
    parser.add_argument("--list", action="store_true", help="run nothing")
    return parser.parse_args()


def asked(given: argparse.Namespace) -> list[Mutant]:
    if given.only:
        return [mutant for pattern in given.only for mutant in named(pattern)]
    absent = tuple(file for file, library in LIBRARIES.items() if importlib.util.find_spec(library) is None)
    if absent:
        print(f"left out, for want of their libraries: {', '.join(absent)}")
    found = chosen(given.seed, given.count, tuple(given.floor or FLOORS), absent)
    return found[given.skip :]


def prepare(work: Path) -> None:
    """Prepare the state of all forks: libraries, compiled tests, and a hook.

    The hook serves the processes that they start.
    """
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(HERE / "site"), str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(work / "hypothesis")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(work / "compiled")
    for name in WARM:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    assert "agrad" not in sys.modules


def run(given: argparse.Namespace, mutants: list[Mutant], work: Path) -> list[Verdict]:
    reasons = listed()
    for file, line, mutant in stale(reasons):
        print(f"listed as equivalent, but not in {file}: {line!r} as {mutant!r}")
    limits = Limits(given.limit, given.phase_limit, not given.no_whole, tuple(given.pytest))
    verdicts: list[Verdict] = []

    def tell(verdict: Verdict) -> None:
        verdicts.append(verdict)
        print(verdict.line, flush=True)
        if given.diff:
            print("\n".join(f"    {line}" for line in verdict.mutant.diff), flush=True)

    for mutant in mutants:
        if key(mutant) in reasons:
            tell(Verdict(mutant, "equivalent", reasons[key(mutant)]))
    rest = [mutant for mutant in mutants if key(mutant) not in reasons]
    problem = collects(rest, limits, work) if rest else ""
    if problem:
        raise SystemExit(f"the tests cannot be collected without any change:\n{problem}")
    run_all(rest, given.jobs, limits, work, tell)
    control(verdicts, limits, work)
    return verdicts


def main() -> int:
    given = options()
    mutants = asked(given)
    if given.list:
        for mutant in mutants:
            print("\n".join([mutant.id, *(f"    {line}" for line in mutant.diff)] if given.diff else [mutant.id]))
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that forks are ended too
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        verdicts = run(given, mutants, Path(folder))
    print(f"\n{table(verdicts)}\n\n{survivors(verdicts)}")
    if given.json:
        given.json.write_text(json.dumps([verdict.as_dict() for verdict in verdicts], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
