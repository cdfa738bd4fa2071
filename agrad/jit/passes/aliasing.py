"""Aliasing: shared memory, arrays that may be overwritten, results to be copied."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.jit.program import Instruction, Program, Variable


def overwritten(instruction: Instruction) -> list[Variable]:
    """Return the variables that an instruction may overwrite and return."""
    places = instruction.operation.overwrites
    if not places:
        return []
    return [v for v in map(instruction.operands.__getitem__, places) if isinstance(v, Variable)]


def donations(instruction: Instruction) -> list[tuple[Variable, list[Variable]]]:
    """Return the numbers that allow in-place updates, with the variables to update."""
    places = instruction.operation.flags or {"donate": instruction.operation.overwrites}
    found = [(instruction.settings.get(name), some) for name, some in places.items()]
    operands = instruction.operands
    return [
        (flag, [operands[i] for i in some if isinstance(operands[i], Variable)])
        for flag, some in found
        if isinstance(flag, Variable)
    ]


def makes_new_arrays(instruction: Instruction) -> bool:
    """Return True if results share memory at most with overwritten operands."""
    operation = instruction.operation
    if operation.no_alias or operation.overwrites:
        return True
    return operation.is_own and operation.kind in ("reduction", "row_sum", "product")


class Aliases(dict[Variable, frozenset[Variable]]):
    """For each variable the earlier ones that it may share memory with, and itself."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        returns_operand = program.notes.get("returns_operand", ())
        for instruction in program.instructions:
            if instruction.operation.may_alias or instruction.operation in returns_operand:
                below = self.of(*instruction.reads())
                self.update({v: below | {v} for v in instruction.results})
        self._last = last = program.last_uses()
        several = [v for v, bases in self.items() if len(bases) > 1]
        for v in several:
            for base in self[v]:
                last[base] = max(last.get(v, -1), last.get(base, -1))
        last.update({v: max([last[base] for base in self[v]]) for v in several})

    def __missing__(self, v: Variable) -> frozenset[Variable]:
        found = self[v] = frozenset((v,))
        return found

    def of(self, *values: Any) -> frozenset[Variable]:
        """Return the aliases of all variables among some values."""
        found = [self[v] for v in values if isinstance(v, Variable)]
        return found[0] if len(found) == 1 else frozenset().union(*found)

    def last(self, v: Variable) -> int:
        """Return the index of the last instruction that reads the memory of a variable."""
        return self._last.get(v, -1)


def aliases_of(program: Program) -> Aliases:
    """Return the aliases of a program's variables, found once for each program."""
    if program.aliases is None:
        program.aliases = Aliases(program)
    found: Aliases = program.aliases
    return found


def with_updates_apart(program: Program) -> Program:
    """Let updates overwrite only arrays that have no later use in the program.

    An overwritten array must share memory neither with another operand of the update, nor with a constant, nor with an
    array that is read after it.
    """
    updates = [at for at, i in enumerate(program.instructions) if isinstance(i.settings.get("donate"), Variable)]
    if not updates:
        return program
    aliases = aliases_of(program)
    constants = aliases.of(*program.constants)
    kept = list(program.instructions)
    for at in updates:
        update = kept[at]
        over = aliases.of(*overwritten(update))
        others = aliases.of(*[v for k, v in enumerate(update.operands) if k not in update.operation.overwrites])
        shares = not (over.isdisjoint(others) and over.isdisjoint(constants))
        if shares or any(aliases.last(v) > at for v in over):
            kept[at] = update.replaced({update.settings["donate"]: False})
    return program.with_instructions(kept)


def without_donation(program: Program) -> Program:
    """Let no instruction overwrite its operands, whatever the host numbers allow."""
    kept: list[Instruction] = []
    for instruction in program.instructions:
        flag = instruction.settings.get("donate")
        kept.append(instruction.replaced({flag: False}) if isinstance(flag, Variable) else instruction)
    return program.with_instructions(kept)


# ------------------------------------------------------------------ arrays that a program owns


class Ownership:
    """The NumPy arrays that a program may overwrite after their last use.

    The program created or received them, and no unknown operation read them.

    is_new: from an instruction to True if its results are new arrays. Any other operation, except a view, may return
    its operands or keep them.
    """

    def __init__(self, program: Program, is_new: Callable[[Instruction], bool]) -> None:
        self.aliases: Aliases = aliases_of(program)
        donated = program.notes.get("donated", ())
        self.owned: set[Variable] = {v for v in program.inputs if v in donated and v.kind is np.ndarray}
        states: list[tuple[Instruction, list[Variable]]] = []
        for instruction in program.instructions:
            operation = instruction.operation
            if operation.overwrites:
                states.append((instruction, overwritten(instruction)))
            if operation.is_view and instruction.arrays and instruction.results:
                continue
            if is_new(instruction):
                self.owned.update([v for v in instruction.results if v.kind is np.ndarray and v.shape])
            elif not instruction.on_host:
                self.owned.difference_update(self.aliases.of(*instruction.arrays))
        # an update may return the arrays of the state
        for instruction, state in states:
            self.owned.difference_update(instruction.results, self.aliases.of(*state))
        end = len(program.instructions)
        self.kept: set[Variable] = {v for v in self.owned if v.size and self.aliases.last(v) < end}
        """Those that may lie in a buffer of the program."""


# ------------------------------------------------------------------ results


class ResultCopies:
    """Copies of outputs that share memory with inputs, constants, or one another.

    places: the indices of the outputs that callers receive and may write into. state: the indices of the outputs that
    are kept as state. Outputs whose operations may alias are tested at each call, because the layout of an array
    decides whether its reshape is a view.
    """

    def __init__(self, program: Program, places: Sequence[int], state: Sequence[int]) -> None:
        self.steps: list[tuple[int, list[int], list[Any], list[int]]] = []
        """For each output that may share memory: with which inputs, constants and other outputs."""
        aliases = aliases_of(program)
        inputs = {v: i for i, v in enumerate(program.inputs)}
        first: dict[Variable, int] = {}
        holders: dict[Variable, list[int]] = {}  # for each variable the outputs that may share its memory

        def hold(place: int) -> None:
            v = program.outputs[place]
            if place == first.setdefault(v, place):  # an output that occurs again is copied
                for base in aliases[v]:
                    holders.setdefault(base, []).append(place)

        for place in state:
            hold(place)
        for place in places:
            v = program.outputs[place]
            if _is_writable(v):
                found = aliases[v]
                given = [inputs[b] for b in found if b in inputs and not b.on_host]
                known = [program.constants[b] for b in found if b in program.constants]
                same = list({i for b in found for i in holders.get(b, ())})
                if given or known or same or len(found) > 1:
                    self.steps.append((place, given, known, same))
                hold(place)

    def __call__(self, values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs, copying those that share memory."""
        found = list(values)
        for place, given, known, same in self.steps:
            value = found[place]
            others = [*[inputs[i] for i in given], *known, *[found[i] for i in same]]
            backend = backend_of(value)
            # in an array with a stride of 0 one write changes several elements
            shares = any(n > 1 and not step for n, step in zip(value.shape, backend.strides(value), strict=False))
            if shares or any(_share_memory(backend, value, other) for other in others):
                found[place] = backend.xp.asarray(value, copy=True)
        return found


def _share_memory(backend: Any, value: Any, other: Any) -> bool:
    if value is other:
        return True
    return backend.shares_memory is not None and backend_of(other) is backend and backend.shares_memory(value, other)


def _is_writable(v: Any) -> bool:
    if not isinstance(v, Variable) or v.kind is None or issubclass(v.kind, np.generic):
        return False
    return backend_of_type(v.kind) is not None
