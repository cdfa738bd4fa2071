"""Segments of a program, in CUDA graphs and between them, and their recording."""

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from agrad.engine.places import picker
from agrad.jit.lower.cuda.streams import number_writer
from agrad.jit.passes.aliasing import overwritten
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
    """Return the instructions in as few segments as possible.

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


# ------------------------------------------------------------------ recordings


Recipe = Callable[[Sequence[Any]], Any]
"""A function from the inputs of a call to one of its arrays: a buffer, or a view of an input."""

address_of = attrgetter("data.ptr", "strides")
"""The function from an array to where its elements are."""


class Recording:
    """The graphs of a program for certain inputs, with their buffers.

    flags: the values of the inputs that allow in-place updates. addresses: the addresses of the inputs that are not
    copied.
    """

    def __init__(self, flags: tuple[bool, ...], addresses: dict[int, Any]) -> None:
        self.flags, self.addresses = flags, addresses
        self._resident = picker(list(addresses))
        self._at = list(addresses.values())
        self.steps: list[tuple[Callable[[Any], Any], bool, bool]] = []
        """Functions, each with True for the launch of a graph on a stream, else it is called with the inputs; and with
        True if it may overwrite an input."""
        self.copied: list[tuple[int, Any]] = []
        self.write_numbers = number_writer(())
        self.written: list[float] | None = None
        self.outputs: list[Recipe] = []
        self.fresh: list[list[Any]] = []
        """The results of a call that are its own arrays, a list of one each."""
        self.changed: list[bool] = []
        """Not empty while a replay may have overwritten an input."""

    def fits(self, flags: tuple[bool, ...], values: Sequence[Any]) -> bool:
        """Return True if the graphs are for these inputs."""
        return flags == self.flags and [*map(address_of, self._resident(values))] == self._at

    def write(self, values: Sequence[Any], numbers: list[float]) -> None:
        """Write the inputs of a call into the buffers of the graphs."""
        for i, buffer in self.copied:
            x = values[i]
            if x.strides == buffer.strides:
                buffer.data.copy_from_device_async(x.data, buffer.nbytes)
            else:
                buffer[...] = x
        if numbers != self.written:
            self.written = None
            self.write_numbers(numbers)
            self.written = numbers

    def run(self, values: Sequence[Any], numbers: list[float], stream: Any) -> list[Any]:
        """Replay on the current stream for other values at the same addresses."""
        self.changed.clear()
        self.write(values, numbers)
        for step, is_graph, changes in self.steps:
            if changes:
                self.changed.append(True)
            step(stream if is_graph else values)
        return self.results(values)

    def results(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs of a call, and release its own arrays."""
        found = [of(values) for of in self.outputs]
        for cell in self.fresh:
            cell.clear()
        return found

    def add(self, step: Callable[[Any], Any], instructions: Sequence[Instruction], is_graph: bool = False) -> None:
        """Append a step that computes these instructions."""
        self.steps.append((step, is_graph, any(map(overwritten, instructions))))
