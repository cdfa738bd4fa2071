"""Delta debugging: the smallest program that still fails in the same way."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special

from random_programs.outcomes import Outcome, run
from random_programs.plain import Plain
from random_programs.program import CONSTANT, INPUT, Program, Step, run_step

MOST_RUNS = 400
Fails = Callable[[Program], bool]


def like(first: Outcome, way: str, turn: int) -> Fails:
    """Return a test that a program fails as at first, by verdict and error type."""

    def fails(program: Program) -> bool:
        if not program.inputs or not program.outputs or not _bounded(program):
            return False
        outcome = run(program, way, turn)
        return outcome.verdict == first.verdict and outcome.kind.split(":")[0] == first.kind.split(":")[0]

    return fails


def _bounded(program: Program) -> bool:
    """Return True if NumPy runs the program with finite outputs, not all whole."""
    try:
        with np.errstate(all="ignore"):
            ys = program.function(Plain(), plain=True)(*program.values())
    except Exception:
        return False
    fine = all(isinstance(y, np.ndarray | np.generic) and bool(np.all(np.abs(y) <= 1e3)) for y in ys)
    return fine and any(y.dtype.kind in "fc" for y in ys)


def reduced(program: Program, fails: Fails, most_runs: int = MOST_RUNS) -> Program:
    """Return a smaller program that fails too, without needless steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _reduced(program, fails, most_runs)


def _reduced(program: Program, fails: Fails, most_runs: int) -> Program:
    seen: set[str] = set()
    while True:
        for smaller in _smaller(program):
            text = repr([(s.name, s.op, s.operands, s.lines()) for s in smaller.steps]) + repr(smaller.outputs)
            if text in seen:
                continue
            seen.add(text)
            if len(seen) > most_runs:
                return program.numbered()
            if fails(smaller):
                program = smaller
                break
        else:
            return program.numbered()


def _smaller(program: Program) -> Iterator[Program]:
    """Give programs that have less, the greatest steps first."""
    for name in program.outputs:
        if len(program.outputs) > 1:
            yield replace(program, outputs=(name,))
    values = _values(program)
    for i in range(len(program.steps) - 1, -1, -1):
        step = program.steps[i]
        if step.op != INPUT and values.get(step.name) is not None and step.op != CONSTANT:
            yield _led(program, i, INPUT, values)
        if step.writes or not _used(program, step.name):
            yield _without(program, i)
    for i, step in enumerate(program.steps):
        if not step.leads and not step.writes:
            yield from (_renamed(_without(program, i), step.name, operand) for operand in step.operands)
            yield from (_outputs_of(program, i),)
        if not step.leads or step.op == INPUT:
            yield _led(program, i, CONSTANT, values)
    yield from _shrunk(program)
    yield from _plainer(program)


def _used(program: Program, name: int) -> bool:
    return name in program.outputs or any(name in step.operands for step in program.steps)


def _without(program: Program, i: int) -> Program:
    return replace(program, steps=program.steps[:i] + program.steps[i + 1 :])


def _renamed(program: Program, old: int, new: int) -> Program:
    """Return the program with another value in the place of one."""
    steps = (replace(s, operands=tuple(new if n == old else n for n in s.operands)) for s in program.steps)
    return Program(tuple(steps), tuple(dict.fromkeys(new if n == old else n for n in program.outputs)))


def _outputs_of(program: Program, i: int) -> Program:
    """Return the program that ends with a step's result."""
    return Program(program.steps[: i + 1], (program.steps[i].name,))


def _values(program: Program) -> dict[int, Any]:
    """Return each step's value when it was made."""
    scope: dict[str, Any] = {"np": np, "A": Plain(), "S": scipy.special}
    values: dict[int, Any] = {}
    for step in program.steps:
        try:
            with np.errstate(all="ignore"):
                run_step(step, scope)
            values[step.name] = None if step.writes else np.array(scope[f"v{step.name}"])
        except Exception:
            values[step.name] = None
    return values


def _led(program: Program, i: int, op: str, values: dict[int, Any]) -> Program:
    """Return the program with a step's value as another input, or as a constant."""
    step = program.steps[i]
    value = values[step.name]
    if value is None or (op == INPUT and value.dtype.kind not in "fc") or not np.isfinite(value).all():
        return Program((), ())
    led = Step(step.name, op, (), {"value": value})
    return replace(program, steps=(*program.steps[:i], led, *program.steps[i + 1 :]))


def _shrunk(program: Program) -> Iterator[Program]:
    """Return programs on smaller arrays: a length cut, or one axis of one array.

    A length is cut wherever it occurs.
    """
    leads = [(i, step) for i, step in enumerate(program.steps) if step.leads]
    for n in sorted({n for _, step in leads for n in step.settings["value"].shape if n > 1}, reverse=True):
        for m in (1, n - 1):
            yield _cut(program, {i: tuple(m if k == n else k for k in s.settings["value"].shape) for i, s in leads})
    for i, step in leads:
        shape = step.settings["value"].shape
        for axis, n in enumerate(shape):
            if n > 1:
                yield _cut(program, {i: (*shape[:axis], 1, *shape[axis + 1 :])})
        if shape and 0 not in shape:
            value = step.settings["value"]
            yield _with_value(program, i, np.array(value[0]))


def _cut(program: Program, shapes: dict[int, tuple[int, ...]]) -> Program:
    for i, shape in shapes.items():
        value = program.steps[i].settings["value"]
        program = _with_value(program, i, np.array(value[tuple(slice(n) for n in shape)]))
    return program


def _with_value(program: Program, i: int, value: np.ndarray) -> Program:
    step = replace(program.steps[i], settings={"value": value})
    return replace(program, steps=(*program.steps[:i], step, *program.steps[i + 1 :]))


def _plainer(program: Program) -> Iterator[Program]:
    """Give programs with plainer values and settings."""
    for i, step in enumerate(program.steps):
        if step.leads:
            value = step.settings["value"]
            if value.dtype.kind in "fc" and value.size:
                yield _with_value(program, i, np.round(value, 1).astype(value.dtype))
                yield _with_value(program, i, np.round(value, 2).astype(value.dtype))
            if value.dtype.name in ("float32", "complex128", "complex64"):
                yield _with_value(program, i, np.real(value).astype("float64"))
            continue
        for key, other in (("keepdims", False), ("correction", 0), ("axis", None), ("xp", "A"), ("norm", "None")):
            if key in step.settings and step.settings[key] != other:
                changed = replace(step, settings={**step.settings, key: other})
                yield replace(program, steps=(*program.steps[:i], changed, *program.steps[i + 1 :]))


def script(program: Program, outcome: Outcome) -> str:
    """Return a program as Python text to paste, with its inputs and how it fails."""
    lines = ["import copy, numpy as np, scipy.special as S, agrad as A", "", program.source().rstrip(), ""]
    names = ", ".join(f"v{step.name}" for step in program.inputs)
    lines += step_lines(program.inputs)
    lines.append(f"program({names})")
    lines += [f"# {outcome.way}: {outcome.verdict}: {line}" for line in outcome.text.splitlines()[:4]]
    return "\n".join(lines)


def step_lines(steps: tuple[Step, ...]) -> list[str]:
    return [line for step in steps for line in step.lines()]


def reduce_failure(
    program: Program, outcome: Outcome, turn: int, most_runs: int = MOST_RUNS
) -> tuple[Program, Outcome]:
    """Return the reduced program of a failure, and what comes of it."""
    smaller = reduced(program, like(outcome, outcome.way, turn), most_runs)
    return smaller, run(smaller, outcome.way, turn)
