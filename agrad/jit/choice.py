"""The choice of a compiler for programs of many small operations on NumPy arrays."""

from collections.abc import Iterable
from importlib.util import find_spec
from typing import NamedTuple

from agrad.errors import BackendUnavailableError, ConfigurationError
from agrad.jit.compile import Executable, compile_program
from agrad.jit.program import Instruction, Program

AUTO = "auto"
"""The value of ``compiler`` that lets a trace choose."""

FEWEST = 500
"""The fewest operations of a call for which a compiler is chosen: a call of XLA takes as long as 50 of NumPy."""

LARGEST = 1 << 16
"""The largest mean number of elements of an operation: beyond it, NumPy's loops and BLAS are as fast as XLA."""

LONGEST = 2500
"""The most operations that a compiler reads. It takes some milliseconds for each."""

UNKNOWN = 100
"""The assumed number of steps of a loop that ends by a condition."""

_MULTIPLIED = 8
"""BLAS multiplies and adds so many elements in the time in which an elementwise operation computes one."""


class Work(NamedTuple):
    """The size of a program: an operation of a loop counts at each step."""

    calls: int = 0
    elements: int = 0
    lines: int = 0
    """The operations that are written, those of loops once."""

    @property
    def is_small(self) -> bool:
        """Return True if a call takes most of its time in calls of NumPy."""
        return self.calls >= FEWEST and self.elements <= LARGEST * self.calls

    @property
    def gain(self) -> float:
        """Return about how many times as fast XLA is.

        The measured times of calls and elements are in microseconds.
        """
        return (self.calls + 2e-3 * self.elements) / (50 + 0.15 * self.calls + 7e-4 * self.elements)

    def __str__(self) -> str:
        size = round(self.elements / max(self.calls, 1))
        return f"{self.calls:,} operations of {size:,} element{'s' * (size != 1)} each on average"


def work_of(instructions: Iterable[Instruction]) -> Work:
    """Return the work of some instructions, with the programs of their operations."""
    calls = elements = lines = 0
    for instruction in instructions:
        if instruction.on_host:
            continue
        operation = instruction.operation
        if hasattr(operation, "program"):
            inner = (
                operation.repeated_programs() if hasattr(operation, "repeated_programs") else [(operation.program, 1)]
            )
            for program, times in inner:
                found, times = work_of(program.instructions), times or UNKNOWN
                calls, elements = calls + times * found.calls, elements + times * found.elements
                lines += found.lines
            continue
        count = sum([v.size for v in instruction.results])
        if operation.kind == "product":
            count *= max(1, instruction.operands[0].shape[-1] // _MULTIPLIED)
        calls, elements, lines = calls + 1, elements + count, lines + 1
    return Work(calls, elements, lines)


class Compiling:
    """Compiles the program of a trace and its derivative by one compiler.

    It is the one that fits the whole trace. asked: the argument ``compiler`` of ``jit``.
    """

    def __init__(self, asked: str | None) -> None:
        self.asked = asked
        self.text = ""
        """A sentence on the compiler, for ``explain``."""
        self._compiler: str | None = None
        self._is_known = False

    def __call__(self, program: Program, trace: Iterable[Instruction]) -> Executable:
        """Compile a program of a trace."""
        if not self._is_known:
            self._is_known = True
            self._compiler, self.text = _choice(self.asked, program, trace)
        if self.asked == AUTO:
            program.notes.update(compiler=self._compiler, checked=True)
            try:
                return compile_program(program)
            except (BackendUnavailableError, ConfigurationError) as error:
                if self._compiler is None:
                    raise
                self._compiler, self.text = None, f"not compiled by JAX: {error}"
                program.notes["compiler"] = None
        return compile_program(program)


def _choice(asked: str | None, program: Program, trace: Iterable[Instruction]) -> tuple[str | None, str]:
    """Return the name of a compiler or None, and a sentence."""
    if asked not in (None, AUTO):
        return asked, ""
    if program.backends() != {"numpy"}:
        return None, "not compiled by JAX: its arrays are not NumPy arrays" if asked else ""
    work = work_of(trace)
    fits = work.is_small and work.lines <= LONGEST and not program.has_effect
    if asked is None:
        return None, f"compiler='jax' would take about 1/{work.gain:.0f} of the time: {work}" if fits else ""
    if fits and find_spec("jax") is not None:
        return "jax", f"compiled by JAX: {work}"
    if fits:
        return None, f"not compiled: JAX is not installed. Run pip install 'agrad[jax]' ({work})"
    if not work.is_small:
        return None, f"not compiled by JAX, which would gain little: {work}"
    if work.lines > LONGEST:
        return None, f"not compiled by JAX: {work.lines:,} operations would take minutes. Use agrad.scan for loops"
    return None, "not compiled by JAX: an operation has an effect at each call"
