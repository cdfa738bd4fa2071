"""Random programs, and the transforms that run them."""

from collections.abc import Iterable

# importing these files the operations
from random_programs import operations, writes  # noqa: F401
from random_programs.outcomes import Outcome, run
from random_programs.program import generate
from random_programs.ways import WAYS

ALWAYS = ("values", "reverse")
TURNS = 3


def ways_of(seed: int) -> list[str]:
    """Return the ways of a seed: two always, and three that take turns."""
    others = [way for way in WAYS if way not in ALWAYS]
    return [*ALWAYS, *[others[(seed * TURNS + i) % len(others)] for i in range(TURNS)]]


def outcomes_of(seed: int, ways: Iterable[str]) -> list[Outcome]:
    """Return the outcomes of a seed's program."""
    program = generate(seed)
    return [run(program, way, seed) for way in ways]
