"""What may share memory, and what is written over: updates are in place only where nothing else can tell."""

from typing import Any

from agrad.jit.ir import Instruction, Program, Variable


def overwritten(instruction: Instruction) -> list[Variable]:
    """The variables that an instruction may write into and give back, as its operation declares."""
    places = instruction.operation.overwrites
    return [v for v in map(instruction.operands.__getitem__, places) if isinstance(v, Variable)]


class Bases(dict[Variable, frozenset[Variable]]):
    """For each variable of a program all that it may share memory with of what was there before it, and itself."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        for instruction in program.instructions:
            if self.shares(instruction):
                below = self.of(*instruction.reads())
                self.update({v: below | {v} for v in instruction.results})

    def shares(self, instruction: Instruction) -> bool:
        """Return whether results may share memory with operands."""
        return instruction.operation.may_alias

    def __missing__(self, v: Variable) -> frozenset[Variable]:
        found = self[v] = frozenset((v,))
        return found

    def of(self, *values: Any) -> frozenset[Variable]:
        """Those of all variables among some values."""
        return frozenset().union(*[self[v] for v in values if isinstance(v, Variable)])


def with_updates_apart(program: Program) -> Program:
    """Updates told that nobody else sees their arrays, only where the rest of the program does not either.

    Neither what else they read may share memory with what they write over, nor what is read after them.
    """
    updates = [at for at, i in enumerate(program.instructions) if isinstance(i.settings.get("donate"), Variable)]
    if not updates:
        return program
    bases = Bases(program)
    last: dict[Variable, int] = {}
    for v, at in program.last_uses().items():
        for base in bases[v]:
            last[base] = max(at, last.get(base, at))
    kept = list(program.instructions)
    for at in updates:
        update = kept[at]
        over = bases.of(*overwritten(update))
        others = [v for k, v in enumerate(update.operands) if k not in update.operation.overwrites]
        if not over.isdisjoint(bases.of(*others)) or any(last[v] > at for v in over):
            kept[at] = update.replaced({update.settings["donate"]: False})
    return program.with_instructions(kept)
