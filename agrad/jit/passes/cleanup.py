"""Dead code, common subexpressions and constants."""

from typing import Any

from agrad.dtypes import dtype_name
from agrad.engine.tape import Meta
from agrad.jit.program import HostCall, Instruction, Program, Variable


def without_dead_code(program: Program) -> Program:
    """Remove instructions, outputs and constants that are not read."""
    needed = {v for v in program.outputs if isinstance(v, Variable)}
    kept: list[Instruction] = []
    for instruction in reversed(program.instructions):
        effect = instruction.operation.has_effect
        if needed.isdisjoint(instruction.outputs) and not effect:
            continue
        if not needed.issuperset(instruction.results) and not effect:
            instruction = instruction.giving(*[v if v in needed else None for v in instruction.outputs])
        kept.append(instruction)
        needed.update(instruction.reads())
    kept.reverse()
    constants = {v: raw for v, raw in program.constants.items() if v in needed}
    return program.with_instructions(kept, constants=constants)


def _key(value: Any) -> Any:
    """Return a key that is equal for operands or keyword arguments that are the same."""
    if isinstance(value, (Variable, HostCall)):
        return id(value)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    if isinstance(value, (tuple, list)) and not isinstance(value, Meta):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return ("dict", *((k, _key(v)) for k, v in value.items()))
    return (type(value), repr(value))  # 0.0 and -0.0 are equal, but not the same


def _is_complex(instruction: Instruction) -> bool:
    return any("complex" in dtype_name(v.dtype) for v in instruction.results)


def _whole_key(instruction: Instruction) -> Any:
    """Return a key that is equal for instructions that compute the same."""
    operands = [_key(v) for v in instruction.operands]
    if instruction.operation.commutative and not _is_complex(instruction):
        operands.sort(key=repr)
    return (*operands, *[(name, _key(value)) for name, value in sorted(instruction.settings.items())])


def without_repetition(program: Program) -> Program:
    """Remove instructions that are equal to an earlier one."""
    alone: dict[Any, Instruction | None] = {}
    """The instruction of each operation and variables, None if there are several, which ``seen`` holds."""
    seen: dict[Any, Instruction] = {}
    table: dict[Variable, Any] = {}
    leaving: set[Any] = {v for v in program.outputs if isinstance(v, Variable)}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if table:
            instruction = instruction.replaced(table)
        operation = instruction.operation
        if instruction.operation.has_effect:
            kept.append(instruction)
            continue
        same = operation.function if isinstance(operation, HostCall) else operation
        about = (id(same), frozenset(instruction.reads()))
        first = alone.setdefault(about, instruction)
        if first is instruction:  # most occur once
            kept.append(instruction)
            continue
        if first is not None:
            seen[about, _whole_key(first)], alone[about] = first, None
        earlier = seen.setdefault((about, _whole_key(instruction)), instruction)
        if earlier is instruction:
            kept.append(instruction)
            continue
        pairs = list(zip(instruction.outputs, earlier.outputs, strict=True))
        # two outputs are two arrays, because the caller may write into one of them
        if [new for new, old in pairs if new is not None and (old is None or leaving.issuperset((new, old)))]:
            kept.append(instruction)
            continue
        leaving.update(old for new, old in pairs if new in leaving)
        table.update({new: old for new, old in pairs if new is not None})
    outputs = [table.get(v, v) if isinstance(v, Variable) else v for v in program.outputs]
    return program.with_instructions(kept, outputs)


FOLDED = 1 << 16
"""The most elements of arrays that are computed in advance, and held as long as the program."""


def with_constants_folded(program: Program) -> Program:
    """Compute instructions that read only constants, unless their results are large."""
    known = dict(program.constants)
    is_known = known.__contains__
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if not all(map(is_known, instruction.reads())) or _stays(instruction):
            kept.append(instruction)
            continue
        known |= values_of_constants(instruction, known)
    return program if len(kept) == len(program.instructions) else program.with_instructions(kept, constants=known)


def values_of_constants(instruction: Instruction, known: dict[Variable, Any]) -> dict[Variable, Any]:
    """Return the values of an instruction's outputs from those of its operands."""
    ready = instruction.replaced(known)
    return instruction.values_of(instruction.operation.evaluate(ready.operands, ready.settings))


def _stays(instruction: Instruction) -> bool:
    """Return True for an instruction of the host, with an effect, or with a large result."""
    if instruction.on_host or isinstance(instruction.operation, HostCall) or instruction.operation.has_effect:
        return True
    return any(v.size > FOLDED for v in instruction.results)
