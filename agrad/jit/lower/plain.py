"""The plain lowering, and the only module that compiles text to functions.

A lowering accepts a program and returns a function from the list of its inputs to the list of its outputs.
"""

import builtins
import functools
import itertools
import linecache
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.engine.places import picker
from agrad.jit.program import HostCall, Instruction, Program, Variable, names_of

Compiled = Callable[[Sequence[Any]], Sequence[Any]]

_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[str, types.FunctionType] = weakref.WeakValueDictionary()
"""Functions by their text, which is often the same for a function traced for other shapes."""


def define(name: str, text: str, scope: dict[str, Any]) -> Any:
    """Return the function ``name`` that ``text`` defines. Tracebacks show its lines."""
    file = f"<agrad program {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    known = _known.get(text)
    if known is None:
        exec(compile(text, file, "exec"), scope)
        made = _known[text] = scope.pop(name)  # a function among its own globals would be a reference cycle
    else:
        scope["__builtins__"] = vars(builtins)  # as exec sets it; libraries read it
        # a separate code object, because the interpreter adapts code to the globals that it finds
        made = types.FunctionType(known.__code__.replace(co_filename=file), scope, name, known.__defaults__)
    made.text = text
    weakref.finalize(made, linecache.cache.pop, file, None).atexit = False
    return made


class Scope:
    """The globals of a generated function, each under one name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def hold(self, value: Any, stem: str = "k") -> str:
        """Return the name of a value, which is added if it is new."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"{stem}_{len(self.names)}"
            self.names[name] = value
        return name

    def write(self, value: Any, names: Mapping[Variable, str]) -> str:
        """Return the expression of an operand or a keyword argument."""
        if isinstance(value, Variable):
            return names[value]
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self.hold(value)


def evaluation(instruction: Instruction) -> Any:
    """Return the function that computes an instruction on plain arrays."""
    kinds = [v.kind for v in instruction.operands if isinstance(v, Variable) and v.kind is not None]
    return instruction.operation.function_of(kinds[0] if kinds else None)


Evaluation = Callable[[Instruction], Callable[..., Any]]


@functools.lru_cache(maxsize=1024)
def stem_of(name: str) -> str:
    """Return the name of an operation as a Python identifier."""
    return "".join([c if c.isalnum() else "_" for c in name])


def call_text(
    instruction: Instruction,
    scope: Scope,
    names: Mapping[Variable, str],
    function_of: Evaluation = evaluation,
    operands: Sequence[str] | None = None,
) -> str:
    """Return the expression that computes an instruction.

    ``operands`` replaces the expressions of its operands.
    """
    function = scope.hold(function_of(instruction), stem_of(instruction.name))
    arguments = [scope.write(v, names) for v in instruction.operands] if operands is None else list(operands)
    arguments += [f"{name}={scope.write(v, names)}" for name, v in instruction.settings.items()]
    return f"{function}({', '.join(arguments)})"


def assignment(instruction: Instruction, names: Mapping[Variable, str]) -> str:
    """Return the left side of an instruction's assignment."""
    targets = ["_" if v is None else names[v] for v in instruction.outputs]
    return targets[0] if instruction.operation.outputs is None else ", ".join(targets) + ","


def plain(program: Program, function_of: Evaluation = evaluation) -> Compiled:
    """Lower a program to straight-line Python with one call in each line.

    Values that no later line reads are deleted. The program then holds no more memory than an ordinary run.
    ``function_of`` returns the function of an instruction.
    """
    names = names_of(program)
    scope = Scope()
    scope.names.update({names[v]: raw for v, raw in program.constants.items()})
    last = program.last_uses()
    lines = ["def program(inputs):"]
    if program.inputs:
        lines.append(f"    {', '.join(names[v] for v in program.inputs)}, = inputs")
    for i, instruction in enumerate(program.instructions):
        lines.append(f"    {assignment(instruction, names)} = {call_text(instruction, scope, names, function_of)}")
        done = {v for v in instruction.reads() if last[v] == i and v not in program.constants}
        done |= {v for v in instruction.results if v not in last}
        if done:
            lines.append(f"    del {', '.join(sorted(names[v] for v in done))}")
    lines.append(f"    return [{', '.join(scope.write(v, names) for v in program.outputs)}]")
    return define("program", "\n".join(lines) + "\n", scope.names)


class Split:
    """A program in two parts: one that runs first, and one to be compiled.

    The first part has the computations on host numbers. With ``ahead``, it also has the instructions that read no
    array inputs, and constants are inputs of the second part. Such instructions draw random numbers from a key that
    the host counts. The library that draws them may be unknown to a compiler.
    """

    def __init__(self, program: Program, ahead: bool = False) -> None:
        early: set[Variable] = {v for v in program.inputs if v.on_host} | set(program.constants)
        first: list[Instruction] = []
        rest: list[Instruction] = []
        for instruction in program.instructions:
            if isinstance(instruction.operation, HostCall) or (ahead and early.issuperset(instruction.reads())):
                first.append(instruction)
                early.update(instruction.results)
            else:
                rest.append(instruction)
        made = {v for i in rest for v in i.results}
        read = {v for i in rest for v in i.reads()}
        known = [*program.inputs, *(program.constants if ahead else ()), *(v for i in first for v in i.results)]
        handed = [v for v in known if v in read]
        variables = [v for v in program.outputs if isinstance(v, Variable)]
        left = [v for v in variables if v not in made]
        outputs = list(dict.fromkeys(v for v in variables if v in made))
        self.body: Program = Program(handed, {} if ahead else program.constants, [], outputs).with_instructions(rest)
        """The second part; its outputs are arrays."""
        self.before: Compiled = plain(Program(program.inputs, program.constants, first, [*handed, *left]))
        """The first part. It returns the inputs of the second, then other outputs."""
        self.count: int = len(handed)
        """The number of inputs of the second part."""
        self._constants = [v for v in program.outputs if not isinstance(v, Variable)]
        places = {v: i for i, v in enumerate([*self.body.outputs, *left])}
        constant = itertools.count(len(places))
        self._outputs = program.outputs
        self._chosen = picker([places[v] if isinstance(v, Variable) else next(constant) for v in program.outputs])

    def variables(self, by_output: Mapping[int, Any]) -> dict[Variable, Any]:
        """Return the values of variables, from the values of outputs by index."""
        found = {self._outputs[k]: value for k, value in by_output.items()}
        return {v: value for v, value in found.items() if isinstance(v, Variable)}

    def outputs(self, found: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Return the program's outputs.

        found: the results of the second part. given: the results of the first part.
        """
        return list(self._chosen([*found, *given[self.count :], *self._constants]))
