"""Programs as data, and random ones: operations are drawn one by one, and kept if their values are bounded."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from random_programs.plain import PLAIN, special

INPUT, CONSTANT = "input", "constant"
EITHER = ("A.special", "A.special", "S")

SHORTEST, LONGEST = 3, 9
LARGEST = 60
BOUND = 30.0
TRIES = 12

PREPARED = {
    "small": (lambda v: np.abs(v).max(initial=0) <= 3, "2.0 * {xp}.tanh({0})"),
    "unit": (lambda v: np.abs(v).max(initial=0) <= 0.9, "0.8 * {xp}.tanh({0})"),
    "positive": (lambda v: v.min(initial=1) >= 0.1, "{xp}.exp(0.5 * {xp}.tanh({0}))"),
    "nonzero": (lambda v: np.abs(v).min(initial=1) >= 0.1, "{xp}.exp(0.5 * {xp}.tanh({0}))"),
    "above_one": (lambda v: v.min(initial=2) >= 1.1, "1.2 + {xp}.square({xp}.tanh({0}))"),
    "probability": (lambda v: v.min(initial=0.5) >= 0.1 and v.max(initial=0.5) <= 0.9, "0.5 + 0.3 * {xp}.sin({0})"),
}
"""By domain: which values lie in it, and the operation that puts others into it."""


class Unfit(Exception):
    """A step that fits nowhere in a program, or a program that a way cannot run."""


@dataclass(frozen=True)
class Operation:
    """An operation, whose name is its text, with ``{0}`` for operands and ``{axis}`` for settings.

    draw: chooses operands and settings, given the program so far. plain: the text for NumPy, where it differs. writes:
    the text is a statement that changes operand 0. values: Python branches or picks by values, so that ``vmap`` and
    ``jit`` may refuse; few programs have such steps. masks: it writes where a condition holds, which ``vmap`` may
    refuse. The text has ``{out}`` if it is several lines.
    """

    draw: Callable[[Any], Any]
    plain: str | None = None
    writes: bool = False
    values: bool = False
    masks: bool = False


OPERATIONS: dict[str, Operation] = {}
FREQUENT: list[str] = []
"""What programs draw more often than the rest: writes, and the views that they write through."""
STRUCTURES: list[str] = []
"""Functions of functions, which programs draw more often, too."""


def add(draw: Callable[[Any], Any], *texts: str, **settings: Any) -> None:
    """File operations that are drawn alike. Those of special functions need SciPy."""
    for text in texts:
        if text in OPERATIONS:
            raise ValueError(f"the operation {text} is filed twice")
        if special or not any(name in text for name in ("special", "{xs}", "gelu", "sigmoid")):
            OPERATIONS[text] = Operation(draw, **settings)


def each(names: str, text: str) -> list[str]:
    """Return a text for each name."""
    return [text.replace("NAME", name) for name in names.split()]


@dataclass(frozen=True)
class Step:
    """One line of a program; its result is called ``v<name>``."""

    name: int
    op: str
    operands: tuple[int, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def leads(self) -> bool:
        return self.op in (INPUT, CONSTANT)

    @property
    def writes(self) -> bool:
        return not self.leads and OPERATIONS[self.op].writes

    def lines(self, plain: bool = False) -> list[str]:
        """Return the step as lines of Python; ``plain``: as NumPy alone runs it."""
        if self.leads:
            return [f"v{self.name} = {literal(self.settings['value'])}"]
        text = (plain and OPERATIONS[self.op].plain) or self.op
        if not self.writes and "{out}" not in text:
            text = "{out} = " + text
        settings = {key: value if isinstance(value, str) else literal(value) for key, value in self.settings.items()}
        return text.format(*[f"v{i}" for i in self.operands], out=f"v{self.name}", **settings).splitlines()


@dataclass(frozen=True)
class Program:
    """Steps in order, with inputs, and the names of the outputs."""

    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.op == INPUT)

    @property
    def operations(self) -> set[str]:
        return {step.op for step in self.steps if not step.leads}

    def values(self) -> list[np.ndarray]:
        """Return the inputs' arrays, fresh ones."""
        return [np.array(step.settings["value"]) for step in self.inputs]

    def source(self, plain: bool = False) -> str:
        """Return the program as a Python function of its inputs."""
        lines = [line for step in self.steps if step.op != INPUT for line in step.lines(plain)]
        names = ", ".join(f"v{step.name}" for step in self.inputs)
        lines.append("return " + "".join(f"v{name}, " for name in self.outputs))
        return f"def program({names}):\n" + "".join(f"    {line}\n" for line in lines)

    def function(self, namespace: Any, plain: bool = False, wide: bool = False) -> Callable[..., Any]:
        """Return the program as a function on an array namespace.

        ``wide``: float64 in the place of float32.
        """
        text = self.source(plain)
        if wide:
            text = text.replace("float32", "float64").replace("complex64", "complex128")
        scope: dict[str, Any] = {"A": namespace, "np": np, "S": special, "copy": copy}
        exec(_code(text), scope)
        return scope["program"]

    def numbered(self) -> "Program":
        """Return the program with its names counted from 0."""
        new = {step.name: i for i, step in enumerate(self.steps)}
        steps = [replace(s, name=new[s.name], operands=tuple(new[i] for i in s.operands)) for s in self.steps]
        return Program(tuple(steps), tuple(new[i] for i in self.outputs))


@lru_cache(maxsize=256)
def _code(text: str) -> Any:
    return compile(text, "<program>", "exec")


def run_step(step: Step, scope: dict[str, Any]) -> None:
    """Run one step, as NumPy alone does, on the values in a scope."""
    exec(compile("\n".join(step.lines(plain=True)), "<step>", "exec"), scope)


def literal(value: Any) -> str:
    """Return a setting or an array as Python text."""
    if not isinstance(value, np.ndarray | np.generic):
        return repr(value)
    value = np.asarray(value)
    if not value.size:
        return f"np.zeros({value.shape}, dtype=np.{value.dtype})"
    given = "" if value.dtype.name in ("float64", "int64", "bool", "complex128") else f", dtype=np.{value.dtype}"
    return f"np.array({value.tolist()!r}{given})"


# ---------------------------------------------------------------- random programs


class Draw:
    """A program in the making: steps, their values on NumPy, random numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 5])
        self.steps: list[Step] = []
        self.scope: dict[str, Any] = {"np": np, "A": PLAIN, "S": special, "copy": copy}
        self.names: list[int] = []
        self.raw: set[int] = set()
        self.branches = self.chance(0.12)
        self.faces = ("A", "np") if self.chance(0.5) else self.choice(("A",), ("np",))

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
            small = np.abs(self.value(name)).max(initial=0) <= 3
            return name if small else self.step("{0} / (1.0 + {xp}.abs({0}))", (name,))
        return name if fits(self.value(name)) else self.step(operation, (name,))

    def lead(self, value: np.ndarray) -> None:
        """Put an input into the program."""
        name = len(self.steps)
        self.steps.append(Step(name, INPUT, (), {"value": value}))
        self.scope[f"v{name}"] = np.array(value)
        self.names.append(name)

    def step(self, op: str, operands: tuple[int, ...], settings: dict[str, Any] | None = None) -> int:
        """Add a step to the program, and run it. Raises ``Unfit`` if its values are not bounded."""
        name = len(self.steps)
        settings = dict(settings or {})
        if "{xp}" in op:
            settings.setdefault("xp", self.choice(*self.faces))
        step = Step(name, op, operands, settings)
        try:
            run_step(step, self.scope)
        except Exception as error:
            raise Unfit from error
        self.steps.append(step)
        for i in operands if step.writes else (name,):
            self._check(self.value(i))
        if not step.writes:
            self.names.append(name)
            if all(i in self.raw for i in operands):
                self.raw.add(name)
        return name

    def _check(self, value: Any) -> None:
        if not isinstance(value, np.ndarray | np.generic) or value.size > LARGEST:
            raise Unfit
        if value.dtype.name not in ("float32", "float64", "complex64", "complex128", "int64", "bool"):
            raise Unfit
        if value.dtype.kind in "fc" and not np.all(np.abs(value) <= BOUND):
            raise Unfit

    def attempt(self, op: str) -> None:
        """Add an operation to the program, or leave the program as it was."""
        if OPERATIONS[op].values and not self.branches:
            return
        steps, names, raw = list(self.steps), list(self.names), set(self.raw)
        memory = [(self.value(n), np.array(self.value(n))) for n in names if isinstance(self.value(n), np.ndarray)]
        try:
            self.step(op, *OPERATIONS[op].draw(self))
        except Unfit:
            self.steps, self.names, self.raw = steps, names, raw
            for view, value in memory:
                if view.flags.writeable:
                    view[...] = value


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
        draw.lead(np.asarray(value, dtype=own))


def _outputs(draw: Draw) -> tuple[int, ...]:
    """Return values that no step reads, and written ones. The latest first, at most three."""
    read = {i for step in draw.steps if not step.writes for i in step.operands}
    changed = {step.operands[0] for step in draw.steps if step.writes}
    made = [n for n in draw.names if n not in draw.raw and (n not in read or n in changed)]
    moving = [n for n in made if draw.value(n).dtype.kind in "fc"]
    return tuple((moving or [draw.names[0]])[:-4:-1]) + tuple(n for n in made if n not in moving)[:1]


def generate(seed: int, among: Sequence[str] = (), longest: int = LONGEST) -> Program:
    """Return the program of a seed; the operations, or those of ``among``, take turns in being its first one."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        draw, ordered = Draw(seed), list(among or OPERATIONS)
        _inputs(draw)
        length = len(draw.steps) + draw.integer(SHORTEST, longest)
        draw.attempt(ordered[seed % len(ordered)])
        for _ in range(TRIES * length):
            if len(draw.steps) >= length:
                break
            often = (
                ordered if among else FREQUENT if draw.chance(0.25) else STRUCTURES if draw.chance(0.15) else ordered
            )
            draw.attempt(draw.choice(*often))
        return Program(tuple(draw.steps), _outputs(draw)).numbered()
