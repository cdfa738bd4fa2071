"""The one place that makes functions of text, and the plain lowering.

A lowering takes a program and gives a function from the list of its inputs to the list of its outputs.
"""

import itertools
import linecache
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.jit.program import HostCall, Instruction, Program, Variable, names_of

Compiled = Callable[[Sequence[Any]], Sequence[Any]]

_numbers = itertools.count(1)


def define(name: str, text: str, scope: dict[str, Any]) -> Any:
    """Return the function ``name`` that ``text`` defines, with lines for tracebacks."""
    file = f"<agrad program {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    made = scope.pop(name)  # so that it is in no cycle with its globals
    made.text = text
    weakref.finalize(made, linecache.cache.pop, file, None).atexit = False
    return made


class Scope:
    """The globals of a generated function: values, each under one name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def hold(self, value: Any, stem: str = "k") -> str:
        """Return a name for a value."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"{stem}_{len(self.names)}"
            self.names[name] = value
        return name

    def write(self, value: Any, names: Mapping[Variable, str]) -> str:
        """Return the expression of an operand or a setting."""
        if isinstance(value, Variable):
            return names[value]
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self.hold(value)


def evaluation(instruction: Instruction, program: Program) -> Any:
    """Return the function that computes an instruction on raw arrays."""
    kind = next((v.kind for v in instruction.operands if isinstance(v, Variable) and v.kind is not None), None)
    return instruction.operation.function_of(kind)


Evaluation = Callable[[Instruction, Program], Callable[..., Any]]


def call_text(
    instruction: Instruction,
    program: Program,
    scope: Scope,
    names: Mapping[Variable, str],
    function_of: Evaluation = evaluation,
    operands: Sequence[str] | None = None,
) -> str:
    """Return the expression that computes an instruction.

    ``operands`` gives other expressions for its operands.
    """
    stem = "".join(c if c.isalnum() else "_" for c in instruction.name)
    function = scope.hold(function_of(instruction, program), stem)
    arguments = [scope.write(v, names) for v in instruction.operands] if operands is None else list(operands)
    arguments += [f"{name}={scope.write(v, names)}" for name, v in instruction.settings.items()]
    return f"{function}({', '.join(arguments)})"


def assignment(instruction: Instruction, names: Mapping[Variable, str]) -> str:
    """Return the left side of an instruction."""
    targets = ["_" if v is None else names[v] for v in instruction.outputs]
    return targets[0] if instruction.operation.outputs is None else ", ".join(targets) + ","


def plain(program: Program, function_of: Evaluation = evaluation) -> Compiled:
    """Lower a program to straight-line Python, one call a line.

    What no later line reads is let go, so that no more memory is held than in an ordinary run. ``function_of`` gives
    other functions for instructions.
    """
    names = names_of(program)
    scope = Scope()
    scope.names.update({names[v]: raw for v, raw in program.constants.items()})
    last = program.last_uses()
    lines = ["def program(inputs):"]
    if program.inputs:
        lines.append(f"    {', '.join(names[v] for v in program.inputs)}, = inputs")
    for i, instruction in enumerate(program.instructions):
        lines.append(
            f"    {assignment(instruction, names)} = {call_text(instruction, program, scope, names, function_of)}"
        )
        done = {v for v in instruction.reads() if last[v] == i and v not in program.constants}
        done |= {v for v in instruction.results if v not in last}
        if done:
            lines.append(f"    del {', '.join(sorted(names[v] for v in done))}")
    lines.append(f"    return [{', '.join(scope.write(v, names) for v in program.outputs)}]")
    return define("program", "\n".join(lines) + "\n", scope.names)


def split_host(program: Program) -> tuple[Program, Program]:
    """Split a program into the computation on numbers of the host, and the rest.

    The second program's inputs are the first one's outputs.
    """
    host = [i for i in program.instructions if isinstance(i.operation, HostCall)]
    device = [i for i in program.instructions if not isinstance(i.operation, HostCall)]
    made = {v for i in device for v in i.results}
    read = {v for i in device for v in i.reads()} | {v for v in program.outputs if isinstance(v, Variable)}
    known = [*program.inputs, *(v for i in host for v in i.results)]
    handed = [v for v in known if v in read and v not in made]
    first = Program(program.inputs, {}, host, list(handed))
    second = Program(handed, program.constants, device, program.outputs)
    return first, second.with_instructions(device)
