"""The report of a run of mutants: a table by floor, and the survivors."""

from collections import Counter

from mutation.mutants import FLOORS
from mutation.runner import Verdict

COLUMNS = ("mutants", "equivalent", "by module", "by whole", "survived", "unfinished", "doubtful", "killed %")


def table(verdicts: list[Verdict]) -> str:
    """Return a table of mutants by floor.

    The percentage is of those that ended and are not listed as equivalent.
    """
    rows = [("floor", *COLUMNS)]
    for floor in (*FLOORS, "all"):
        of_floor = [v for v in verdicts if floor in (v.mutant.floor, "all")]
        if of_floor:
            rows.append((floor, *_row(of_floor)))
    return "\n".join("".join(f"{cell:>12}" for cell in row) for row in rows)


def _row(verdicts: list[Verdict]) -> tuple[str, ...]:
    count = Counter("killed" if v.outcome == "timeout" else v.outcome for v in verdicts)
    phase = Counter(v.phase for v in verdicts if v.outcome in ("killed", "timeout"))
    of = count["killed"] + count["survived"]
    numbers = (len(verdicts), count["equivalent"], phase["module"], phase["whole"])
    rest = (count["survived"], count["unfinished"], count["doubtful"])
    return (*map(str, numbers + rest), f"{100 * count['killed'] / of:.1f}" if of else "-")


def survivors(verdicts: list[Verdict]) -> str:
    """Return the surviving mutants with their difference, then unknown ones."""
    found = []
    for outcome in ("survived", "unfinished", "doubtful"):
        for verdict in verdicts:
            if verdict.outcome == outcome:
                found.append("\n".join([verdict.line, *(f"    {line}" for line in verdict.mutant.diff)]))
    return "\n".join(found)
