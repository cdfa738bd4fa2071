"""Views: random programs of views and writes on Tensors of each backend, with the values and derivatives of NumPy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from leaves import WITH_VIEWS
from random_programs.comparing import Wrong, host, same
from random_programs.outcomes import OK, UNDECIDED, run
from random_programs.program import FREQUENT, OPERATIONS, Program, generate
from random_programs.ways import Case

import agrad

STEPS = 16
ALIKE = [*FREQUENT, *[op for op in FREQUENT if not OPERATIONS[op].writes] * 6]
"""Writes, and as many views."""
NO_VIEWS = ("[0]", "::-1", "flip")
"""Parts of texts that have other views on PyTorch, or if no axis is left, than on NumPy."""


def program_of(seed: int, backend: str) -> Program:
    """Return a program of views and writes, all of whose arrays are results."""
    among = [op for op in ALIKE if backend == "numpy" or not any(part in op for part in NO_VIEWS)]
    program = generate(seed, among, STEPS)
    return replace(program, outputs=tuple(step.name for step in program.steps if not step.writes))


def as_on_numpy(case: Case, backend: str) -> bool:
    """Return whether a backend has the views of NumPy in a program: those of no axes are scalars on NumPy alone."""
    return all(map(np.ndim, case.expected)) and (backend != "torch" or "::-1" not in case.program.source())


def compare(case: Case, place: Any) -> None:
    """Raise ``Wrong`` unless a program has the values and gradients of NumPy on the selected backend."""
    given = [place(x) for x in case.fresh()]
    same("values", case.function(*map(agrad.asarray, given)), case.expected, case.exact)
    same("what was given", [*map(agrad.asarray, given)], case.inputs, 0.0)
    with agrad.use_backend("numpy"):
        expected = [host(g) for g in case.gradient]
    gradients = agrad.grad(case.loss, case.argnums)(*given)
    same("gradients", [*map(agrad.asarray, gradients)], expected, case.close)


def faults(program: Program, backend: str, place: Any) -> list[str]:
    if backend == "numpy":
        outcomes = [run(program, way) for way in ("values", "reverse", "forward", "imperative")]
        return [f"{outcome}\n{program.source()}" for outcome in outcomes if outcome.verdict not in (OK, UNDECIDED)]
    try:
        if as_on_numpy(case := Case(program), backend):
            compare(case, place)
    except Wrong as error:
        return [f"{error}\n{program.source()}"]
    return []


@pytest.mark.parametrize("first", range(0, 60, 4))
def test_programs_of_views_and_writes(first: int, backend: str, place: Any) -> None:
    if backend not in WITH_VIEWS:
        pytest.skip(f"{backend} has no views")
    found = [faults(program_of(seed, backend), backend, place) for seed in range(first, first + 4)]
    assert not any(found), "\n".join(text for texts in found for text in texts)
