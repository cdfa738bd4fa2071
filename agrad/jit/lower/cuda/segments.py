"""Segments of a program: instructions in a CUDA graph, and those between."""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agrad.jit.passes.fusion import Group
from agrad.jit.program import Instruction, Variable

FEWEST = 3
"""The fewest launches of a graph: its results are copies, and fewer launches cost no more than these."""


@dataclass
class Segment:
    """Consecutive instructions, in one graph if ``captured``."""

    captured: bool
    instructions: list[Instruction]


def is_view(instruction: Instruction) -> bool:
    """Return True for a view, or a copy on the GPU, of the only operand.

    Instructions with index arrays are excluded, as these may come from the host's memory.
    """
    arrays = [v for v in instruction.operands if isinstance(v, Variable)]
    return instruction.operation.is_view and len(arrays) == len(instruction.operands) == 1


def launches(instruction: Instruction) -> int:
    """Return about how many kernels an instruction launches."""
    if is_view(instruction):
        return 0
    steps = instruction.operation.length
    if steps is not None:
        inside = sum([launches(i) for program in instruction.operation.programs for i in program.instructions])
        return int(steps) * (inside + len(instruction.outputs))
    return 2 if isinstance(instruction.operation, Group) and instruction.operation.has_totals else 1


def segments(
    instructions: Sequence[Instruction], can: Callable[[Instruction], bool], outputs: Collection[Any]
) -> list[Segment]:
    """Return the instructions in the fewest segments.

    A graph holds at least ``FEWEST`` launches, and one for each MiB of results among ``outputs``, which are copied.
    """
    found: list[Segment] = []
    for captured, group in itertools.groupby(instructions, can):
        run = list(group)
        made = [v for i in run if not i.operation.overwrites and not is_view(i) for v in i.results if v in outputs]
        size = sum(math.prod(v.shape) * np.dtype(v.dtype).itemsize for v in made)
        captured = captured and sum(map(launches, run)) >= max(FEWEST, size >> 20)
        if found and not captured and not found[-1].captured:
            found[-1].instructions += run
        else:
            found.append(Segment(captured, run))
    return found
