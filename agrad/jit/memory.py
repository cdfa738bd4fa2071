"""What may share memory, and what is written over: updates are in place only where nothing else can tell."""

from typing import Any

from agrad.jit.ir import Instruction, Program, Variable

VIEWS = frozenset(
    {
        "astype", "broadcast_to", "cast", "conj", "expand_dims", "flip", "getitem", "imag", "matrix_transpose",
        "permute_dims", "positive", "real", "reshape", "squeeze", "transfer", "linalg.diagonal",
    }
)  # fmt: skip
"""Operations whose result may share memory with their operand."""


def may_share(instruction: Instruction) -> bool:
    """Whether results may share memory with an operand: of views, and of primitives through which views are written."""
    return (
        instruction.name in VIEWS
        or getattr(instruction.operation, "put", None) is not None
        or (instruction.name == "unstack")
    )


def overwritten(instruction: Instruction) -> list[Variable]:
    """The variables that an instruction may write into and give back, as its operation declares."""
    places = getattr(instruction.operation, "overwrites", ())
    return [v for v in map(instruction.operands.__getitem__, places) if isinstance(v, Variable)]


class Bases:
    """For each variable of a program all that it may share memory with of what was there before it, and itself."""

    def __init__(self, program: Program) -> None:
        self._found: dict[Variable, frozenset[Variable]] = {}
        for instruction in program.instructions:
            if may_share(instruction):
                below = self.of(*instruction.reads())
                self._found |= {v: below | {v} for v in instruction.results}

    def of(self, *values: Any) -> frozenset[Variable]:
        """Those of all variables among some values."""
        variables = [v for v in values if isinstance(v, Variable)]
        return frozenset().union(*[self._found.get(v, (v,)) for v in variables])


def with_updates_apart(program: Program) -> Program:
    """Updates told that nobody else sees their arrays, only where the rest of the program does not either.

    Neither what else they read may share memory with what they write over, nor what is read after them.
    """
    if not any(map(_may_write, program.instructions)):
        return program
    bases = Bases(program)
    last: dict[Variable, int] = {}
    for v, at in program.last_uses().items():
        last |= {base: max(at, last.get(base, -1)) for base in bases.of(v)}
    kept = list(program.instructions)
    for at, instruction in enumerate(kept):
        if not _may_write(instruction):
            continue
        written = overwritten(instruction)
        others = [v for k, v in enumerate(instruction.operands) if k not in instruction.operation.overwrites]
        over = bases.of(*written)
        if over & bases.of(*others) or any(last[v] > at for v in over):
            kept[at] = instruction.replaced({instruction.settings["donate"]: False})
    return program.with_instructions(kept)


def _may_write(instruction: Instruction) -> bool:
    return isinstance(instruction.settings.get("donate"), Variable)
