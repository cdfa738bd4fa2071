"""Results are arrays that the caller may write into: copies where they would share memory with what others hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.jit.ir import Instruction, Program, Variable
from agrad.jit.memory import Bases


class Separation:
    """Copies those outputs of a program that share memory with its inputs, its constants, or one another.

    places: the numbers of the outputs that leave; beside: those of others that somebody keeps. Only what operations may
    hand out is looked at, at each call, as the layout of an array decides if its reshape is a view.
    """

    def __init__(self, program: Program, places: Sequence[int], beside: Sequence[int]) -> None:
        self.steps: list[tuple[int, list[int], list[Any], list[int]]] = []
        """For each output that may share memory: with which inputs, constants and other outputs."""
        below = _HandedOut(program)
        inputs = {v: i for i, v in enumerate(program.inputs)}
        others = list(beside)
        for place in places:
            v = program.outputs[place]
            if _can_be_written(v):
                found = below[v]
                given = [inputs[b] for b in found if b in inputs]
                known = [program.constants[b] for b in found if b in program.constants]
                same = [i for i in others if not found.isdisjoint(below[program.outputs[i]])]
                if given or known or same or len(found) > 1:
                    self.steps.append((place, given, known, same))
                others.append(place)

    def __call__(self, values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The outputs, of which copies are made where they need be."""
        found = list(values)
        for place, given, known, same in self.steps:
            value = found[place]
            others = [*[inputs[i] for i in given], *known, *[found[i] for i in same]]
            backend = backend_of(value)
            # of an array with a stride of 0, one write is seen in several elements
            shares = any(n > 1 and not step for n, step in zip(value.shape, backend.strides(value), strict=False))
            if shares or any(_share(backend, value, other) for other in others):
                found[place] = backend.xp.asarray(value, copy=True)
        return found


def _share(backend: Any, value: Any, other: Any) -> bool:
    if value is other:
        return True
    return backend.shares_memory is not None and backend_of(other) is backend and backend.shares_memory(value, other)


def _can_be_written(v: Any) -> bool:
    if not isinstance(v, Variable) or v.kind is None or issubclass(v.kind, np.generic):
        return False
    return backend_of_type(v.kind) is not None


class _HandedOut(Bases):
    """For each variable all that it may share memory with, or be: some operations give back their operand."""

    def __init__(self, program: Program) -> None:
        self._giving = program.notes.get("giving", ())
        super().__init__(program)

    def shares(self, instruction: Instruction) -> bool:
        """Whether results may share memory with operands, or were operands while the function was traced."""
        return instruction.operation.may_alias or instruction.operation in self._giving
