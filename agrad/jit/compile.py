"""Compile a program: choose a compiler, run the passes, lower the result."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from typing import NamedTuple

from agrad.errors import BackendUnavailableError, ConfigurationError
from agrad.jit.lower.cuda.convolutions import products_where_available
from agrad.jit.lower.cuda.elements import has_element, is_written_out, view_in_numpy
from agrad.jit.lower.cuda.operands import with_contiguous_operands
from agrad.jit.lower.cuda.products import cupy_narrow_matmul, epilogues_where_available
from agrad.jit.lower.cuda.program import lower_cupy
from agrad.jit.lower.cuda.source import has_cuda_expression
from agrad.jit.lower.jax import jax_narrow_matmul, lower_jax, lower_xla, with_arrays_of_jax
from agrad.jit.lower.numpy.loops import Loop, lower_loop
from agrad.jit.lower.numpy.program import has_kernel, lower_numpy, numpy_narrow_matmul
from agrad.jit.lower.plain import Compiled, plain
from agrad.jit.lower.torch import lower_torch, torch_narrow_matmul
from agrad.jit.passes.algebra import simplified, with_fewer_factors, with_vectors, without_broadcasts
from agrad.jit.passes.aliasing import with_updates_apart
from agrad.jit.passes.cleanup import with_constants_folded, without_dead_code, without_repetition
from agrad.jit.passes.decompose import decomposed, with_early_reductions, with_late_views, with_updates_as_groups
from agrad.jit.passes.folding import folded, with_rules_joined
from agrad.jit.passes.fusion import with_groups
from agrad.jit.passes.inlining import with_operands_inlined
from agrad.jit.passes.precision import NarrowMatmul, with_precision
from agrad.jit.program import Instruction, Program

Pass = tuple[str, Callable[[Program], Program]]
"""The name of a pass, as ``lower`` shows it, and its function from program to program."""

DEAD_CODE: Pass = ("dead code", without_dead_code)

PASSES: tuple[Pass, ...] = (
    DEAD_CODE,
    ("constant folding", with_constants_folded),
    ("common subexpressions", without_repetition),
    DEAD_CODE,
)
"""The passes of every program. The passes of its target follow."""

BROADCASTS: Pass = ("broadcasts left to the operations", without_broadcasts)

IN_PLACE: Pass = ("updates that nothing else sees", with_updates_apart)
"""Runs after all passes that replace variables by others."""


class Target(NamedTuple):
    """The passes and the lowering of one backend."""

    lower: Callable[[Program], Compiled]
    passes: tuple[Pass, ...] = (IN_PLACE,)
    narrow_matmul: Callable[[str], NarrowMatmul] | None = None
    """From the name of a narrow dtype to products in it; None if the backend has none."""
    before: tuple[Pass, ...] = ()
    """The passes that run before products are rounded."""


PLAIN = Target(plain)
"""The target of all other backends, and of programs with arrays of several."""

TARGETS: dict[str, Target] = {
    "numpy": Target(
        lower_numpy,
        (
            BROADCASTS,
            ("simpler operations", simplified),
            ("fewer factors", with_fewer_factors),
            DEAD_CODE,
            ("operations with their rules", with_rules_joined),
            IN_PLACE,
            ("operands computed by their reader", folded("numpy")),
            ("operations written out", decomposed(unless=has_kernel)),
            ("products of vectors", with_vectors),
            ("common subexpressions", without_repetition),
            DEAD_CODE,
            ("views before their readers", with_late_views),
            ("fusion", with_groups(broadcasts=True)),
        ),
        numpy_narrow_matmul,
    ),
    "cupy": Target(
        lower_cupy,
        (
            BROADCASTS,
            ("simpler operations", simplified),
            DEAD_CODE,
            IN_PLACE,
            ("operations written out", decomposed(0, is_written_out, rules=True)),
            ("convolutions as products", products_where_available),
            ("products with epilogues", epilogues_where_available),
            ("operands of products next to each other", with_contiguous_operands),
            ("updates as groups", with_updates_as_groups),
            ("reductions where their operands are", with_early_reductions),
            ("views before their readers", with_late_views),
            ("fusion", with_groups(1, has_cuda_expression, whole_rows=True)),
            ("operands computed where they are read", with_operands_inlined(has_element, view_in_numpy)),
            DEAD_CODE,
        ),
        cupy_narrow_matmul,
    ),
    "jax": Target(lower_jax, narrow_matmul=jax_narrow_matmul),
    "torch": Target(lower_torch, narrow_matmul=torch_narrow_matmul),
}
"""The targets by the name of the backend."""

COMPILERS: dict[str, Target] = {"jax": Target(lower_xla, (), before=(("arrays of JAX", with_arrays_of_jax),))}
"""The targets of programs of NumPy arrays for a named compiler, by the package that must be installed."""


class Executable(NamedTuple):
    """A compiled program."""

    run: Compiled
    """From the list of inputs to the list of outputs."""
    stages: list[tuple[str, Program]]
    """The program as it was traced and after each pass, with the names of the passes."""


def target_of(program: Program) -> Target:
    """Return the target of a program's backend or compiler.

    Raises ``ConfigurationError`` if the compiler does not support the arrays.
    """
    backends = sorted(program.backends())
    compiler = program.notes.get("compiler")
    if compiler is not None and backends:
        if backends != ["numpy"]:
            raise ConfigurationError(
                f"jit: compiler={compiler!r} compiles programs of NumPy arrays, got arrays of "
                f"{' and '.join(backends)}. Omit it, or use torch_compile=True for PyTorch arrays. Programs of JAX "
                "arrays are always compiled."
            )
        return COMPILERS[compiler]
    target = TARGETS.get(backends[0], PLAIN) if len(backends) == 1 else PLAIN
    # other compilers run Python while they trace, and not at each call
    if target.lower is not lower_numpy and program.has_effect:
        return PLAIN
    return target


def loop_target(program: Program, loop: Loop) -> Target | None:
    """Return the target of a step as a loop, or None if it is not on NumPy."""
    target = target_of(program)
    return target._replace(lower=partial(lower_loop, loop=loop)) if target.lower is lower_numpy else None


def compile_program(program: Program, target: Target | None = None) -> Executable:
    """Optimize and lower a program.

    Raises ``ConfigurationError`` if the backend cannot multiply in the dtype ``notes["precision"]``, or if the compiler
    ``notes["compiler"]`` does not support the arrays.
    """
    target = target or target_of(program)
    precision: tuple[Pass, ...] = ()
    if program.notes.get("precision"):
        matmuls = {name: t.narrow_matmul for name, t in TARGETS.items() if t.narrow_matmul is not None}
        precision = (("precision", partial(with_precision, matmuls=matmuls)), DEAD_CODE)
    stages = [("traced", program)]
    left: dict[Callable[[Program], Program], Program] = {}
    for name, run in (*PASSES, *target.before, *precision, *target.passes):
        if left.get(run) is not program:  # a pass finds nothing to change in its own result
            program = left[run] = run(program)
        stages.append((name, program))
    return Executable(target.lower(program), stages)


# ------------------------------------------------------------------ the choice of a compiler


AUTO = "auto"
"""The value of ``compiler`` that lets a trace choose."""

FEWEST = 500
"""The minimum number of operations for which a compiler is chosen: an XLA call costs as much as 50 NumPy calls."""

LARGEST = 1 << 16
"""The largest mean number of elements of an operation: beyond it, NumPy and BLAS are as fast as XLA."""

LONGEST = 2500
"""The maximum number of operations that a compiler reads. It needs some milliseconds for each."""

UNKNOWN = 100
"""The assumed number of steps of a loop that ends by a condition."""

_MULTIPLIED = 8
"""BLAS multiplies and adds so many elements in the time in which an elementwise operation computes one."""


class Work(NamedTuple):
    """The size of a program: an operation of a loop counts at each step."""

    calls: int = 0
    elements: int = 0
    lines: int = 0
    """The operations that are written. Operations of loops count once."""

    @property
    def is_small(self) -> bool:
        """Return True if NumPy call overhead dominates the time of a call."""
        return self.calls >= FEWEST and self.elements <= LARGEST * self.calls

    @property
    def gain(self) -> float:
        """Estimate how many times as fast XLA is.

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
    """Compiles the program of a trace and its derivative with one compiler.

    The compiler is chosen for the whole trace. asked: the argument ``compiler`` of ``jit``.
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
    """Return the name of a compiler or None, and the sentence that explains the choice."""
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
