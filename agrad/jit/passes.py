"""Passes: functions from a program to a better one that computes the same."""

from collections.abc import Callable
from typing import Any

from agrad.engine.tape import Meta
from agrad.jit.cuda_products import epilogues_where_available
from agrad.jit.cuda_source import has_words
from agrad.jit.entropy import with_entropies
from agrad.jit.folding import with_folded_updates
from agrad.jit.fusion import with_groups, with_single_values
from agrad.jit.ir import HostCall, Instruction, Program, Variable
from agrad.jit.memory import with_updates_apart
from agrad.jit.parts import with_early_reductions, with_parts, without_broadcasts
from agrad.jit.precision import with_precision
from agrad.jit.simplify import simplified

Pass = Callable[[Program], Program]


def without_dead_code(program: Program) -> Program:
    """Without the instructions whose results nothing reads, and with None for single results that nothing reads."""
    needed = {v for v in program.outputs if isinstance(v, Variable)}
    kept: list[Instruction] = []
    for instruction in reversed(program.instructions):
        if not any(v in needed for v in instruction.results):
            continue
        outputs = tuple([v if v in needed else None for v in instruction.outputs])
        kept.append(Instruction(instruction.operation, instruction.operands, instruction.settings, outputs))
        needed.update(instruction.reads())
    return program.with_instructions(reversed(kept))


def _key(value: Any) -> Any:
    """What two operands or settings have in common that are the same."""
    if isinstance(value, (Variable, HostCall)):
        return id(value)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    if isinstance(value, (tuple, list)) and not isinstance(value, Meta):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return ("dict", *((k, _key(v)) for k, v in value.items()))
    return (type(value), repr(value))  # 0.0 and -0.0 are equal, but not the same


def without_repetition(program: Program) -> Program:
    """Each computation once: an instruction equal to an earlier one gives way to that one's results."""
    seen: dict[Any, Instruction] = {}
    table: dict[Variable, Any] = {}
    leaving: set[Any] = {v for v in program.outputs if isinstance(v, Variable)}
    kept: list[Instruction] = []
    for instruction in program.instructions:
        instruction = instruction.replaced(table)
        operation = instruction.operation
        same = operation.function if isinstance(operation, HostCall) else operation
        operands = list(map(_key, instruction.operands))
        if operation.commutative and not any("complex" in v.text for v in instruction.results):
            operands.sort(key=repr)
        key = (
            id(same),
            *operands,
            *((name, _key(value)) for name, value in sorted(instruction.settings.items())),
        )
        earlier = seen.setdefault(key, instruction)
        pairs = list(zip(instruction.outputs, earlier.outputs, strict=True))
        # two results are two arrays, as the caller may write into one of them
        both = any(new in leaving and old in leaving for new, old in pairs)
        if earlier is instruction or both or any(new is not None and old is None for new, old in pairs):
            kept.append(instruction)
            continue
        leaving.update(old for new, old in pairs if new in leaving)
        table.update({new: old for new, old in pairs if new is not None})
    outputs = [table.get(v, v) if isinstance(v, Variable) else v for v in program.outputs]
    return program.with_instructions(kept, outputs)


def _may_fold(instruction: Instruction, known: dict[Variable, Any]) -> bool:
    return not instruction.on_host and all(v in known for v in instruction.reads())


FOLDED = 1 << 16
"""Arrays of more elements than this are not computed beforehand: they would be held as long as the program is."""


def with_constants_folded(program: Program) -> Program:
    """What is computed of constants alone is a constant, unless its result is large."""
    known = dict(program.constants)
    kept: list[Instruction] = []
    for instruction in program.instructions:
        if (
            isinstance(instruction.operation, HostCall)
            or not _may_fold(instruction, known)
            or any(v.size > FOLDED for v in instruction.results)
        ):
            kept.append(instruction)
            continue

        def value(given: Any) -> Any:
            return known[given] if isinstance(given, Variable) else given

        out = instruction.operation.evaluate(
            tuple([value(v) for v in instruction.operands]),
            {name: value(v) for name, v in instruction.settings.items()},
        )
        parts = out if instruction.operation.outputs is not None else (out,)
        known.update({v: part for v, part in zip(instruction.outputs, parts, strict=True) if v is not None})
    folded = Program(program.inputs, known, kept, program.outputs, program.notes)
    return folded.with_instructions(kept)


PASSES: list[tuple[str, Pass]] = [
    ("dead code", without_dead_code),
    ("constant folding", with_constants_folded),
    ("common subexpressions", without_repetition),
    ("dead code", without_dead_code),
]

_IN_PLACE = ("updates that nothing else sees", with_updates_apart)
"""After all passes that put one variable in another's place."""

OWN_PASSES: dict[str, list[tuple[str, Pass]]] = {
    "numpy": [
        ("filled arrays as single values", with_single_values),
        ("simpler operations", simplified),
        ("dead code", without_dead_code),
        _IN_PLACE,
        ("cross entropy with its rule", with_entropies),
        ("products folded into updates", with_folded_updates),
        ("operations written out", with_parts()),
        ("broadcasts left to the operations", without_broadcasts),
        ("common subexpressions", without_repetition),
        ("dead code", without_dead_code),
        ("reductions where their operands are", with_early_reductions()),
        ("fusion", with_groups(broadcasts=True)),
    ],
    "cupy": [
        ("filled arrays as single values", with_single_values),
        ("simpler operations", simplified),
        ("dead code", without_dead_code),
        _IN_PLACE,
        ("products with epilogues", epilogues_where_available),
        ("fusion", with_groups(1, has_words)),
    ],
}
"""Further passes for the programs of one backend alone, by its name."""


def optimized(program: Program, only_dead: bool = False) -> list[tuple[str, Program]]:
    """The program as it was traced and after each pass, with the names of the passes."""
    stages = [("traced", program)]
    backends = program.backends()
    own = OWN_PASSES.get(next(iter(backends)), [_IN_PLACE]) if len(backends) == 1 else [_IN_PLACE]
    lower: list[tuple[str, Pass]] = []
    if program.notes.get("precision"):
        lower = [("precision", with_precision), ("dead code", without_dead_code)]
    for name, run in PASSES[:1] if only_dead else [*PASSES, *lower, *own]:
        program = run(program)
        stages.append((name, program))
    return stages
