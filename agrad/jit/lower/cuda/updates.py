"""Updates of parameters as fusion groups, of which one kernel is made."""

import numpy as np

from agrad.engine.scalars import TracedNumber
from agrad.engine.tensor import wrap
from agrad.jit.passes.decompose import Shapes, filled
from agrad.jit.passes.fusion import Group
from agrad.jit.program import Instruction, Program, Variable
from agrad.registry import namespace


def with_updates_as_groups(program: Program) -> Program:
    """Replace updates by groups of the operations of their definition."""
    kept: list[Instruction] = []
    for instruction in program.instructions:
        kept += (_group(instruction) if instruction.operation.is_update else None) or [instruction]
    return program.with_instructions(kept)


def _group(instruction: Instruction) -> list[Instruction] | None:
    """Return the computations on numbers of the host in an update, then the group of the others, or None.

    There is none for arrays that no group takes, and if numbers of the host decide which operations they are.
    """
    arrays, operation = instruction.operands, instruction.operation
    first = arrays[0]
    alike = all(isinstance(v, Variable) and (v.shape, v.dtype) == (first.shape, first.dtype) for v in arrays)
    if not alike or not first.size or np.dtype(first.dtype).char not in "fd":
        return None
    trace = Shapes(instruction.name)
    values = [wrap(filled(np.ones(1, v.dtype), v.shape), trace, v) for v in arrays]
    settings = {
        # any number at which no formula branches
        name: TracedNumber(0.5, trace, v) if isinstance(v, Variable) and name != "donate" else v
        for name, v in instruction.settings.items()
    }
    found = operation.decomposed(namespace, tuple(values), settings)
    trace.closed = True
    on_host = [part for part in trace.instructions if part.on_host]
    members = [part for part in trace.instructions if not part.on_host]
    made = {v for part in members for v in part.results}
    for v in made:
        v.kind = first.kind
    inputs = list(dict.fromkeys(v for part in members for v in part.reads() if v not in made))
    triples = zip(found, instruction.outputs, operation.overwrites, strict=True)
    used = [(new.node, out, arrays[place]) for new, out, place in triples if out is not None]
    if trace.guards or trace.constants or any(new not in made for new, *_ in used):
        return None
    donate = instruction.settings["donate"]
    flags = {"donate0": donate} if isinstance(donate, Variable) else {}
    in_place = {name: {k: inputs.index(x) for k, (*_, x) in enumerate(used)} for name in flags}
    group = Group(Program(inputs, {}, members, [new for new, *_ in used]), first.shape, in_place=in_place)
    return [*on_host, Instruction(group, tuple(inputs), dict(flags), tuple([out for _, out, _ in used]))]
