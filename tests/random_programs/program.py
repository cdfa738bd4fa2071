"""A program as data: steps with an operation, operands and settings."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.special

INPUT, CONSTANT = "input", "constant"


class Unfit(Exception):
    """A step that fits nowhere in a program, or a program that a way cannot run.

    NumPy raises there.
    """


@dataclass(frozen=True)
class Operation:
    """The text of a step, with ``{0}`` for operands and ``{axis}`` for settings.

    draw: chooses operands and settings, given the program so far; gives None where none fit. plain: the text for
    NumPy, where it differs. writes: the text is a statement that changes operand 0. values: Python branches or
    picks by values, so that ``vmap`` and ``jit`` may refuse; few programs have such steps. masks: it writes where a
    condition holds, which ``vmap`` may refuse. The text has ``{out}`` where it is several lines.
    """

    name: str
    text: str
    draw: Callable[[Any], Any]
    plain: str | None = None
    writes: bool = False
    values: bool = False
    masks: bool = False


OPERATIONS: dict[str, Operation] = {}


def add(name: str, text: str, draw: Callable[[Any], Any], **settings: Any) -> None:
    """File an operation."""
    if name in OPERATIONS:
        raise ValueError(f"the operation {name} is filed twice")
    OPERATIONS[name] = Operation(name, text, draw, **settings)


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
        op = OPERATIONS[self.op]
        text = op.plain if plain and op.plain is not None else op.text
        if not op.writes and "{out}" not in text:
            text = "{out} = " + text
        names = [f"v{i}" for i in self.operands]
        settings = {key: value if isinstance(value, str) else literal(value) for key, value in self.settings.items()}
        return text.format(*names, out=f"v{self.name}", **settings).splitlines()


@dataclass(frozen=True)
class Program:
    """Steps in order, with inputs, and the names of the outputs."""

    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.op == INPUT)

    @property
    def body(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.leads)

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
        scope: dict[str, Any] = {"A": namespace, "np": np, "S": scipy.special, "copy": copy}
        exec(_code(text), scope)
        return scope["program"]

    def numbered(self) -> "Program":
        """Return the program with its names counted from 0."""
        new = {step.name: i for i, step in enumerate(self.steps)}
        steps = [replace(s, name=new[s.name], operands=tuple(new[i] for i in s.operands)) for s in self.steps]
        return Program(tuple(steps), tuple(new[i] for i in self.outputs))


@lru_cache(maxsize=64)
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


def names_of(steps: Iterable[Step]) -> set[str]:
    """Return the operations that some steps use."""
    return {step.op for step in steps if not step.leads}
