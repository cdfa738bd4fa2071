"""Compile a program: run the passes of its target, then lower it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from agrad.errors import ConfigurationError
from agrad.jit.lower.cuda.products import cupy_narrow_matmul, epilogues_where_available
from agrad.jit.lower.cuda.program import lower_cupy
from agrad.jit.lower.cuda.source import has_cuda_expression
from agrad.jit.lower.cuda.updates import with_updates_as_groups
from agrad.jit.lower.jax import jax_narrow_matmul, lower_jax
from agrad.jit.lower.numpy.loops import Loop, lower_loop
from agrad.jit.lower.numpy.program import lower_numpy, numpy_narrow_matmul
from agrad.jit.lower.plain import Compiled, plain
from agrad.jit.lower.torch import lower_torch, torch_narrow_matmul
from agrad.jit.lower.xla import lower_xla, with_arrays_of_jax
from agrad.jit.passes.algebra import simplified
from agrad.jit.passes.aliasing import with_updates_apart
from agrad.jit.passes.broadcasts import without_broadcasts
from agrad.jit.passes.cleanup import with_constants_folded, without_dead_code, without_repetition
from agrad.jit.passes.decompose import decomposed, with_early_reductions, with_late_views
from agrad.jit.passes.folding import folded
from agrad.jit.passes.fusion import with_groups
from agrad.jit.passes.joined_rules import with_rules_joined
from agrad.jit.passes.precision import NarrowMatmul, with_precision
from agrad.jit.passes.vectors import with_vectors
from agrad.jit.program import Program

Pass = tuple[str, Callable[[Program], Program]]
"""The name of a pass, as ``lower`` shows it, and its function from program to program."""

DEAD_CODE: Pass = ("dead code", without_dead_code)

PASSES: tuple[Pass, ...] = (
    DEAD_CODE,
    ("constant folding", with_constants_folded),
    ("common subexpressions", without_repetition),
    DEAD_CODE,
)
"""The passes of every program. Those of its target follow."""

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
    """The passes that run before products are made narrow."""


PLAIN = Target(plain)
"""The target of all other backends, and of programs with arrays of several."""

TARGETS: dict[str, Target] = {
    "numpy": Target(
        lower_numpy,
        (
            BROADCASTS,
            ("simpler operations", simplified),
            DEAD_CODE,
            ("operations with their rules", with_rules_joined),
            IN_PLACE,
            ("operands computed by their reader", folded("numpy")),
            ("operations written out", decomposed()),
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
            ("products with epilogues", epilogues_where_available),
            ("updates as groups", with_updates_as_groups),
            ("reductions where their operands are", with_early_reductions),
            ("views before their readers", with_late_views),
            ("fusion", with_groups(1, has_cuda_expression, whole_rows=True)),
        ),
        cupy_narrow_matmul,
    ),
    "jax": Target(lower_jax, narrow_matmul=jax_narrow_matmul),
    "torch": Target(lower_torch, narrow_matmul=torch_narrow_matmul),
}
"""The targets by the name of the backend."""

COMPILERS: dict[str, Target] = {"jax": Target(lower_xla, (), before=(("arrays of JAX", with_arrays_of_jax),))}
"""The targets of programs of NumPy's arrays that name a compiler, by the package that must be installed."""


class Executable(NamedTuple):
    """A compiled program."""

    run: Compiled
    """From the list of inputs to that of outputs."""
    stages: list[tuple[str, Program]]
    """The program as it was traced and after each pass, with the names of the passes."""


def target_of(program: Program) -> Target:
    """Return the target of a program's backend or compiler.

    Raises ``ConfigurationError`` for a compiler of other arrays.
    """
    backends = sorted(program.backends())
    compiler = program.notes.get("compiler")
    if compiler is not None and backends:
        if backends != ["numpy"]:
            raise ConfigurationError(
                f"jit: compiler={compiler!r} compiles programs of NumPy's arrays, and this one has arrays of "
                f"{' and '.join(backends)}; leave it out: JAX's are compiled by XLA as they are, and PyTorch's with "
                "torch_compile=True"
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

    Raises ``ConfigurationError`` if ``notes["precision"]`` asks for a dtype that the backend does not multiply in, or
    ``notes["compiler"]`` for a compiler of other arrays.
    """
    target = target or target_of(program)
    precision: tuple[Pass, ...] = ()
    if program.notes.get("precision"):
        matmuls = {name: t.narrow_matmul for name, t in TARGETS.items() if t.narrow_matmul is not None}
        precision = (("precision", partial(with_precision, matmuls=matmuls)), DEAD_CODE)
    stages = [("traced", program)]
    left: dict[Callable[[Program], Program], Program] = {}
    for name, run in (*PASSES, *target.before, *precision, *target.passes):
        if left.get(run) is not program:  # a pass finds nothing in what it returned itself
            program = left[run] = run(program)
        stages.append((name, program))
    return Executable(target.lower(program), stages)
