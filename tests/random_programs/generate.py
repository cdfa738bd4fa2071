"""Programs by seed: operations chosen one by one, and kept if values are bounded."""

import copy
import warnings
from typing import Any

import numpy as np
import scipy.special

from random_programs import array_operations, linear_operations, operations, structure_operations, write_operations
from random_programs.plain import Plain
from random_programs.program import CONSTANT, INPUT, OPERATIONS, Program, Step, Unfit, run_step

FAMILIES = (operations, array_operations, linear_operations, write_operations, structure_operations)
"""The modules whose import files the operations."""

SHORTEST, LONGEST = 3, 9
LARGEST = 60
BOUND = 30.0
TRIES = 12
PLAIN = Plain()

PREPARED = {
    "small": (lambda v: np.abs(v).max(initial=0) <= 3, "squash"),
    "unit": (lambda v: np.abs(v).max(initial=0) <= 0.9, "to_unit"),
    "positive": (lambda v: v.min(initial=1) >= 0.1, "to_positive"),
    "nonzero": (lambda v: np.abs(v).min(initial=1) >= 0.1, "to_positive"),
    "above_one": (lambda v: v.min(initial=2) >= 1.1, "to_above_one"),
    "probability": (lambda v: v.min(initial=0.5) >= 0.1 and v.max(initial=0.5) <= 0.9, "to_probability"),
}
"""By domain: which values lie in it, and the operation that puts others into it."""


class Draw:
    """A program in the making: steps, their values on NumPy, random numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 5])
        self.steps: list[Step] = []
        self.scope: dict[str, Any] = {"np": np, "A": PLAIN, "S": scipy.special, "copy": copy}
        self.names: list[int] = []
        self.raw: set[int] = set()
        self.branches = bool(self.rng.random() < 0.12)
        self.faces = ("A", "np") if self.rng.random() < 0.5 else (("A",), ("np",))[int(self.rng.integers(2))]

    # ---------------------------------------------------------------- values

    def value(self, name: int) -> Any:
        return self.scope[f"v{name}"]

    def pick(self, *tests: Any) -> int:
        """Return the name of a value that passes the tests, preferably a late one."""
        fitting = [name for name in self.names if all(test(self.value(name)) for test in tests)]
        if not fitting:
            raise Unfit
        weights = np.arange(1, len(fitting) + 1, dtype=float) ** 1.5
        return int(self.rng.choice(fitting, p=weights / weights.sum()))

    def choice(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def array(self, *shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
        return np.round(self.rng.uniform(low, high, shape), 2)

    def within(self, name: int, domain: str) -> int:
        """Return the name of a value in a domain: this one, or a step that puts it there."""
        fits, operation = PREPARED[domain]
        if self.value(name).dtype.kind == "c":
            return name if np.abs(self.value(name)).max(initial=0) <= 3 else self.step("squash_complex", (name,))
        return name if fits(self.value(name)) else self.step(operation, (name,))

    # ---------------------------------------------------------------- steps

    def lead(self, op: str, value: np.ndarray) -> int:
        """Put an input or a constant into the program."""
        name = len(self.steps)
        self.steps.append(Step(name, op, (), {"value": value}))
        self.scope[f"v{name}"] = np.array(value)
        self.names.append(name)
        if op == CONSTANT:
            self.raw.add(name)
        return name

    def step(self, op: str, operands: tuple[int, ...], settings: dict[str, Any] | None = None) -> int:
        """Add a step to the program, and run it.

        Raises ``Unfit`` if its values are not bounded.
        """
        name = len(self.steps)
        settings = dict(settings or {})
        if "{xp}" in OPERATIONS[op].text:
            settings.setdefault("xp", self.choice(*self.faces))
        step = Step(name, op, operands, settings)
        try:
            run_step(step, self.scope)
        except Exception as error:
            raise Unfit from error
        self.steps.append(step)
        if not step.writes:
            self._check(self.value(name))
            self.names.append(name)
            if all(i in self.raw for i in operands):
                self.raw.add(name)
        for i in operands if step.writes else ():
            self._check(self.value(i))
        return name

    def _check(self, value: Any) -> None:
        if not isinstance(value, np.ndarray | np.generic) or value.size > LARGEST:
            raise Unfit
        if value.dtype.name not in ("float32", "float64", "complex64", "complex128", "int64", "bool"):
            raise Unfit
        if value.dtype.kind in "fc" and not np.all(np.abs(value) <= BOUND):
            raise Unfit

    def attempt(self, op: str) -> bool:
        """Add an operation to the program, or leave the program as it was."""
        steps, names, raw = list(self.steps), list(self.names), set(self.raw)
        memory = [(self.value(n), np.array(self.value(n))) for n in names if isinstance(self.value(n), np.ndarray)]
        try:
            drawn = OPERATIONS[op].draw(self)
            if drawn is None:
                raise Unfit
            self.step(op, *drawn)
            return True
        except Unfit:
            self.steps, self.names, self.raw = steps, names, raw
            for view, value in memory:
                if view.flags.writeable:
                    view[...] = value
            return False


def _shape(draw: Draw) -> tuple[int, ...]:
    kind = draw.rng.random()
    if kind < 0.1:
        return ()
    if kind < 0.16:
        return draw.choice((0,), (2, 0), (0, 3), (2, 0, 2))
    return tuple(draw.integer(1, 4) for _ in range(draw.integer(1, 4)))


def _inputs(draw: Draw) -> None:
    dtype = draw.choice(*["float64"] * 14, "float32", "float32", "complex128", "complex128", "complex128", "complex64")
    shape = _shape(draw)
    for i in range(draw.choice(1, 2, 2)):
        if i and draw.chance(0.6):  # a shape that broadcasts with the first
            keep = draw.integer(0, len(shape) + 1)
            shape = tuple(n if draw.chance(0.7) else 1 for n in shape[keep:])
        elif i:
            shape = _shape(draw)
        value = draw.array(*shape, low=-1.6, high=1.6)
        value = np.where(np.abs(value) < 0.05, 0.37, value)
        if "complex" in dtype:
            value = value + 1j * draw.array(*shape)
        own = dtype if "complex" in dtype or i == 0 or draw.chance(0.8) else "float64"
        draw.lead(INPUT, np.asarray(value, dtype=own))


def _outputs(draw: Draw) -> tuple[int, ...]:
    """Return values that no step reads, and written ones.

    The latest first, at most three.
    """
    read = {i for step in draw.steps if not step.writes for i in step.operands}
    changed = {step.operands[0] for step in draw.steps if step.writes}
    made = [n for n in draw.names if n not in draw.raw and (n not in read or n in changed)]
    moving = [n for n in made if draw.value(n).dtype.kind in "fc"]
    return tuple((moving or [draw.names[0]])[:-4:-1]) + tuple(n for n in made if n not in moving)[:1]


def generate(seed: int) -> Program:
    """Return the program of a seed; the operations take turns in being its first one."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _generate(seed)


def _generate(seed: int) -> Program:
    draw = Draw(seed)
    ordered = list(OPERATIONS)
    _inputs(draw)
    length = len(draw.steps) + draw.integer(SHORTEST, LONGEST)
    first = ordered[seed % len(ordered)]
    if not OPERATIONS[first].values or draw.branches:
        draw.attempt(first)
    for _ in range(TRIES * length):
        if len(draw.steps) >= length:
            break
        op = draw.choice(*ordered)
        if draw.chance(0.25):
            op = draw.choice(*write_operations.FREQUENT)
        elif draw.chance(0.15):
            op = draw.choice(*structure_operations.STRUCTURES)
        if draw.branches or not OPERATIONS[op].values:
            draw.attempt(op)
    return Program(tuple(draw.steps), _outputs(draw)).numbered()
