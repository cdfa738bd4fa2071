"""The program: straight-line code in which each variable is assigned once.

An instruction is one operation, a rule of derivatives for which a backend has a kernel, or a computation on Python
numbers of the host. Its operands and keyword arguments are variables or constants.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.dtypes import dtype_name
from agrad.engine.operation import Operation
from agrad.engine.tape import Meta

HOST = "host"
"""The dtype of a variable that is a Python number."""


class Variable:
    """A value of a program: an array of known shape, dtype and type, or a host number."""

    __slots__ = ("dtype", "kind", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: Any, kind: type | None) -> None:
        self.shape: tuple[int, ...] = shape
        self.size: int = math.prod(shape)
        self.dtype: Any = dtype
        self.kind: type | None = kind
        """The type of the plain array; None for a number of the host."""

    @property
    def on_host(self) -> bool:
        return self.kind is None

    @property
    def on_numpy(self) -> bool:
        """Return True for a NumPy array or scalar."""
        return self.kind is not None and issubclass(self.kind, (np.ndarray, np.generic))

    @property
    def nbytes(self) -> int:
        """Return the bytes of the elements of an array."""
        return int(self.size * np.dtype(self.dtype).itemsize)

    def twin(self) -> "Variable":
        """Return another variable of the same shape, dtype and type."""
        return Variable(self.shape, self.dtype, self.kind)

    @property
    def text(self) -> str:
        """Return the dtype and the shape as a program shows them: ``float32[32,10]``."""
        return HOST if self.kind is None else f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


def variable_like(raw: Any) -> Variable:
    """Return a variable for arrays like a given one, or for a Python number."""
    if not hasattr(raw, "shape"):
        return Variable((), HOST, None)
    return Variable(tuple(raw.shape), raw.dtype, type(raw))


class FunctionOperation(Operation):
    """A Python function of plain arrays as the operation of an instruction."""

    grouped = False
    """True if a group on CUDA computes it, even alone."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        outputs: tuple[str, ...] | None = None,
        overwrites: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.function = function
        self.outputs = outputs
        self.overwrites = overwrites

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        return self.function(*args, **settings)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return self.function


class HostCall(FunctionOperation):
    """A computation on numbers of the host."""

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        super().__init__(name or str(getattr(function, "__name__", "call")), function)


class Instruction:
    """One operation: ``outputs = operation(*operands, **settings)``.

    An output without a use is None. Programs share instructions: a pass replaces an instruction instead of
    changing it.
    """

    __slots__ = ("_reads", "operands", "operation", "outputs", "results", "settings")

    def __init__(
        self, operation: Any, operands: tuple[Any, ...], settings: dict[str, Any], outputs: tuple[Variable | None, ...]
    ) -> None:
        self.operation: Any = operation
        self.operands: tuple[Any, ...] = operands
        self.settings: dict[str, Any] = settings
        self.outputs: tuple[Variable | None, ...] = outputs
        self.results: tuple[Variable, ...] = tuple([v for v in outputs if v is not None])
        """The outputs that are used."""
        self._reads: tuple[Variable, ...] | None = None

    @property
    def name(self) -> str:
        return str(self.operation.name)

    @property
    def on_host(self) -> bool:
        """Return True if it computes a number of the host."""
        return not [v for v in self.results if v.kind is not None]

    @property
    def arrays(self) -> list[Variable]:
        """Return the operands that are arrays."""
        return [v for v in self.operands if isinstance(v, Variable) and v.kind is not None]

    def reads(self) -> tuple[Variable, ...]:
        """Return the variables among operands and keyword arguments, with repetitions."""
        found = self._reads
        if found is None:
            values = (*self.operands, *self.settings.values()) if self.settings else self.operands
            found = self._reads = tuple([value for value in values if isinstance(value, Variable)])
        return found

    def values_of(self, out: Any) -> dict[Variable, Any]:
        """Return the values of the used outputs, from the operation's result."""
        parts = (out,) if self.operation.outputs is None else out
        return {v: part for v, part in zip(self.outputs, parts, strict=True) if v is not None}

    def replaced(self, table: Mapping[Variable, Any]) -> "Instruction":
        """Return the instruction with variables replaced by values or other variables."""
        if table.keys().isdisjoint(self.reads()):
            return self

        def new(value: Any) -> Any:
            return table.get(value, value) if isinstance(value, Variable) else value

        settings = {name: new(v) for name, v in self.settings.items()}
        return Instruction(self.operation, tuple(map(new, self.operands)), settings, self.outputs)

    def giving(self, *outputs: Variable | None) -> "Instruction":
        """Return the instruction with other outputs."""
        return Instruction(self.operation, self.operands, self.settings, outputs)


def works_by_element(instruction: Instruction) -> bool:
    """Return True for an elementwise instruction on arrays with one result."""
    if instruction.operation.kind != "elementwise" or len(instruction.outputs) != 1:
        return False
    return instruction.outputs[0] is not None and instruction.outputs[0].kind is not None


def is_grouped(instruction: Instruction) -> bool:
    """Return True for an operation that a group on CUDA computes, even alone."""
    return isinstance(instruction.operation, FunctionOperation) and instruction.operation.grouped


def rule_of(instruction: Instruction) -> tuple[Operation, str] | None:
    """Return the primitive and the part of a rule, such as ``vjp:x``, or None."""
    operation = instruction.operation
    primitive = getattr(operation, "primitive", None)
    return None if primitive is None else (primitive, operation.rule.part)


@dataclass(eq=False)
class Program:
    """Inputs, constant arrays, instructions in order, and outputs.

    Outputs are variables or plain values.
    """

    inputs: list[Variable]
    constants: dict[Variable, Any]
    instructions: list[Instruction]
    outputs: list[Any]
    notes: dict[str, Any] = field(default_factory=dict)
    aliases: Any = field(default=None, init=False, repr=False)
    """What ``passes.aliasing.aliases_of`` found, or None."""

    def with_instructions(
        self,
        instructions: Iterable[Instruction | None],
        outputs: Sequence[Any] | None = None,
        constants: Mapping[Variable, Any] | None = None,
    ) -> "Program":
        """Return the program with other parts, or the program itself if they are the same.

        None among the instructions is skipped.
        """
        kept, out = [i for i in instructions if i is not None], list(self.outputs if outputs is None else outputs)
        known = self.constants if constants is None else constants
        new, old = (*kept, *out, *known), (*self.instructions, *self.outputs, *self.constants)
        sizes = len(kept), len(out), len(new)
        if sizes == (len(self.instructions), len(self.outputs), len(old)) and all(map(operator.is_, new, old)):
            return self
        return Program(self.inputs, dict(known), kept, out, self.notes)

    @property
    def has_effect(self) -> bool:
        """Return True if one of the operations has an effect."""
        return True in [instruction.operation.has_effect for instruction in self.instructions]

    @cached_property
    def uses(self) -> Counter[Variable]:
        """The number of times that instructions and outputs read each variable."""
        found = [v for v in self.outputs if isinstance(v, Variable)]
        for instruction in self.instructions:
            found += instruction.reads()
        return Counter(found)

    @cached_property
    def readers(self) -> dict[Variable, list[int]]:
        """The numbers of the instructions that read each variable."""
        found: dict[Variable, list[int]] = {}
        for i, instruction in enumerate(self.instructions):
            for v in instruction.reads():
                found.setdefault(v, []).append(i)
        return found

    @cached_property
    def makers(self) -> dict[Variable, int]:
        """The number of the instruction that makes each variable."""
        return {v: i for i, instruction in enumerate(self.instructions) for v in instruction.results}

    def last_uses(self) -> dict[Variable, int]:
        """Return the index of the last instruction that reads each variable.

        For an output, it is the number of instructions.
        """
        last: dict[Variable, int] = {}
        for i, instruction in enumerate(self.instructions):
            for v in instruction.reads():
                last[v] = i
        for v in self.outputs:
            if isinstance(v, Variable):
                last[v] = len(self.instructions)
        return last

    def backends(self) -> set[str]:
        """Return the names of the backends whose arrays the program holds."""
        kinds = {v.kind for v in (*self.inputs, *self.uses, *self.makers)}
        found = [backend_of_type(kind) for kind in kinds if kind is not None]
        return {backend.name for backend in found if backend is not None}

    def __str__(self) -> str:
        return show(self)


def names_of(program: Program) -> dict[Variable, str]:
    """Return short names of variables, in the order of their assignment."""
    names: dict[Variable, str] = {}
    for i, v in enumerate(program.inputs):
        names[v] = f"{'n' if v.on_host else 'a'}{i}"
    for i, v in enumerate(program.constants):
        names[v] = f"c{i}"
    count = 0
    for instruction in program.instructions:
        for out in instruction.outputs:
            if out is not None and out not in names:
                names[out] = f"v{count}"
                count += 1
    return names


def value_text(value: Any, names: Mapping[Variable, str]) -> str:
    """Return the text of an operand or a keyword argument."""
    if isinstance(value, Variable):
        return names[value]
    if isinstance(value, Meta):
        return f"{dtype_name(value.dtype)}[{','.join(map(str, value.shape))}]"
    text = getattr(value, "name", None) if not isinstance(value, (str, int, float, complex, type(None))) else None
    return text if isinstance(text, str) else repr(value)


def instruction_text(instruction: Instruction, names: Mapping[Variable, str]) -> str:
    """Return one line of a program."""
    left = ", ".join("_" if v is None else f"{names[v]}: {v.text}" for v in instruction.outputs)
    arguments = [value_text(v, names) for v in instruction.operands]
    arguments += [f"{name}={value_text(v, names)}" for name, v in instruction.settings.items()]
    return f"{left} = {instruction.name}({', '.join(arguments)})"


def show(program: Program) -> str:
    """Return the whole program as text."""
    names = names_of(program)
    inputs = ", ".join(f"{names[v]}: {v.text}" for v in program.inputs)
    lines = [f"program({inputs}):"]
    lines += [f"    {names[v]}: {v.text} = constant" for v in program.constants]
    for instruction in program.instructions:
        lines.append("    " + instruction_text(instruction, names))
        inner = getattr(instruction.operation, "program", None)
        if isinstance(inner, Program):
            lines += ["        " + line for line in show(inner).splitlines()]
    lines.append(f"    return {', '.join(value_text(v, names) for v in program.outputs)}")
    return "\n".join(lines)


def interpret(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Call each operation of a program as user code does, on arrays or Tensors.

    On Tensors, every operation is recorded. All derivatives of the result are then correct, at the cost of an ordinary
    run.
    """
    values: dict[Variable, Any] = dict(program.constants)
    values.update(zip(program.inputs, inputs, strict=True))
    for instruction in program.instructions:
        ready = instruction.replaced(values)
        values |= instruction.values_of(instruction.operation.bind(*ready.operands, **ready.settings))
    return [values[v] if isinstance(v, Variable) else v for v in program.outputs]
