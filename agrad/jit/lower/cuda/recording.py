"""The graphs of a program, as they are replayed."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from agrad.jit.lower.cuda.streams import copy_into, number_writer
from agrad.jit.passes.aliasing import overwritten
from agrad.jit.program import Instruction

Recipe = Callable[[Sequence[Any]], Any]
"""A function from the inputs of a call to one of its arrays: a buffer, or a view of an input."""


class Recording:
    """The graphs of a program for certain inputs, with their buffers.

    flags: the values of the inputs that allow updates in place. addresses: those of the inputs that are used in place.
    """

    def __init__(self, flags: tuple[bool, ...], addresses: dict[int, Any]) -> None:
        self.flags, self.addresses = flags, addresses
        places = list(addresses)
        self._resident = itemgetter(*places) if len(places) > 1 else lambda now: tuple([now[i] for i in places])
        self._at = tuple(addresses.values())
        self.steps: list[Callable[[Sequence[Any]], None]] = []
        self.copied: list[tuple[int, Any]] = []
        self.write_numbers = number_writer(())
        self.written: list[float] | None = None
        self.outputs: list[Recipe] = []
        self.fresh: list[list[Any]] = []
        """The results of a call that are its own arrays, a list of one each."""
        self.changed: list[bool] = []
        """Not empty while a replay may have overwritten an input."""

    def fits(self, flags: tuple[bool, ...], addresses: dict[int, Any]) -> bool:
        """Return True if the graphs are for these inputs."""
        return flags == self.flags and self._resident(addresses) == self._at

    def write(self, values: Sequence[Any], numbers: list[float]) -> None:
        """Write the inputs of a call into the buffers of the graphs."""
        for i, buffer in self.copied:
            copy_into(buffer, values[i])
        if numbers != self.written:
            self.written = None
            self.write_numbers(numbers)
            self.written = numbers

    def run(self, values: Sequence[Any], numbers: list[float]) -> list[Any]:
        """Replay for other values at the same addresses."""
        self.changed.clear()
        self.write(values, numbers)
        for step in self.steps:
            step(values)
        return self.results(values)

    def results(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs of a call, and release its own arrays."""
        found = [of(values) for of in self.outputs]
        for cell in self.fresh:
            cell.clear()
        return found

    def add(self, step: Callable[[Sequence[Any]], Any], instructions: Sequence[Instruction]) -> None:
        """Append a step that computes these instructions."""
        changed = self.changed

        def changing(values: Sequence[Any]) -> None:
            changed.append(True)
            step(values)

        self.steps.append(changing if any(map(overwritten, instructions)) else step)
