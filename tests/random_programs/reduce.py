"""Smaller programs that fail in the same way: the first failure that a smaller program keeps is taken, and so on."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from random_programs.outcomes import Outcome, run
from random_programs.plain import PLAIN, special
from random_programs.program import CONSTANT, INPUT, Program, Step, run_step

MOST_RUNS = 400


def reduce_failure(program: Program, first: Outcome, turn: int) -> tuple[Program, Outcome]:
    """Return the reduced program of a failure, and its outcome."""
    seen: set[str] = set()
    last, found = first, True
    while found and len(seen) < MOST_RUNS:
        found = False
        for smaller in _smaller(program):
            text = repr([(s.name, s.lines()) for s in smaller.steps]) + repr(smaller.outputs)
            if text in seen or len(seen) >= MOST_RUNS or not _bounded(smaller):
                continue
            seen.add(text)
            outcome = run(smaller, first.way, turn)
            if outcome.verdict == first.verdict and outcome.kind.split(":")[0] == first.kind.split(":")[0]:
                program, last, found = smaller, outcome, True
                break
    return program.numbered(), last


def _bounded(program: Program) -> bool:
    """Return True if NumPy runs the program with finite outputs, not all of them integers."""
    if not program.inputs or not program.outputs:
        return False
    try:
        with np.errstate(all="ignore"):
            ys = program.function(PLAIN, plain=True)(*program.values())
    except Exception:
        return False
    fine = all(isinstance(y, np.ndarray | np.generic) and bool(np.all(np.abs(y) <= 1e3)) for y in ys)
    return fine and any(y.dtype.kind in "fc" for y in ys)


def _smaller(program: Program) -> Iterator[Program]:
    """Return programs that have less: outputs, steps, elements."""
    steps, values = program.steps, _values(program)
    yield from (replace(program, outputs=(name,)) for name in program.outputs if len(program.outputs) > 1)
    for i in range(len(steps) - 1, -1, -1):
        step, rest = steps[i], (*steps[:i], *steps[i + 1 :])
        used = step.name in program.outputs or any(step.name in other.operands for other in steps)
        if step.writes or not used:
            yield replace(program, steps=rest)
        elif not step.leads:
            yield Program(steps[: i + 1], (step.name,))
            yield from (_renamed(replace(program, steps=rest), step.name, operand) for operand in step.operands)
        for op in (INPUT, CONSTANT):
            value = values.get(step.name)
            if step.op not in (op, CONSTANT) and value is not None and value.dtype.kind in "fc":
                yield _with(program, i, replace(step, op=op, operands=(), settings={"value": value}))
    for i, step in enumerate(steps):
        if step.leads and step.settings["value"].size > 1:
            value = step.settings["value"]
            for axis in range(value.ndim):
                yield _with(program, i, replace(step, settings={"value": np.take(value, [0], axis)}))
            yield _with(program, i, replace(step, settings={"value": np.array(value[0])}))


def _with(program: Program, i: int, step: Step) -> Program:
    return replace(program, steps=(*program.steps[:i], step, *program.steps[i + 1 :]))


def _renamed(program: Program, old: int, new: int) -> Program:
    """Return the program with another value in the place of one."""
    steps = (replace(s, operands=tuple(new if n == old else n for n in s.operands)) for s in program.steps)
    return Program(tuple(steps), tuple(dict.fromkeys(new if n == old else n for n in program.outputs)))


def _values(program: Program) -> dict[int, Any]:
    """Return each step's value when it was made."""
    scope: dict[str, Any] = {"np": np, "A": PLAIN, "S": special}
    values: dict[int, Any] = {}
    for step in program.steps:
        try:
            with np.errstate(all="ignore"):
                run_step(step, scope)
            values[step.name] = None if step.writes else np.array(scope[f"v{step.name}"])
        except Exception:
            values[step.name] = None
    return values


def script(program: Program, outcome: Outcome) -> str:
    """Return a program as Python text to paste, with its inputs and how it fails."""
    lines = ["import copy, numpy as np, scipy.special as S, agrad as A", "", program.source().rstrip(), ""]
    lines += [line for step in program.inputs for line in step.lines()]
    lines.append(f"program({', '.join(f'v{step.name}' for step in program.inputs)})")
    lines += [f"# {outcome.way}: {outcome.verdict}: {line}" for line in outcome.text.splitlines()[:4]]
    return "\n".join(lines)
