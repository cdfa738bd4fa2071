"""Compile a program: run the passes of its target, then lower it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from agrad.jit.lower.cuda.products import cupy_way, epilogues_where_available
from agrad.jit.lower.cuda.program import lower_cupy
from agrad.jit.lower.cuda.source import has_words
from agrad.jit.lower.jax import jax_way, lower_jax
from agrad.jit.lower.numpy.program import lower_numpy, numpy_way
from agrad.jit.lower.plain import Compiled, plain
from agrad.jit.lower.torch import lower_torch, torch_way
from agrad.jit.passes.added_products import with_added_products
from agrad.jit.passes.algebra import simplified
from agrad.jit.passes.aliasing import with_updates_apart
from agrad.jit.passes.broadcasts import with_single_values, without_broadcasts
from agrad.jit.passes.cleanup import with_constants_folded, without_dead_code, without_repetition
from agrad.jit.passes.cross_entropy import with_entropies
from agrad.jit.passes.decompose import decomposed, with_early_reductions
from agrad.jit.passes.folding import with_folded_updates
from agrad.jit.passes.fusion import with_groups
from agrad.jit.passes.precision import Way, with_precision
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

IN_PLACE: Pass = ("updates that nothing else sees", with_updates_apart)
"""Runs after all passes that replace variables by others."""


class Target(NamedTuple):
    """The passes and the lowering of one backend."""

    lower: Callable[[Program], Compiled]
    passes: tuple[Pass, ...] = (IN_PLACE,)
    way: Callable[[str], Way] | None = None
    """From the name of a narrow dtype to products in it; None if the backend has none."""


PLAIN = Target(plain)
"""The target of all other backends, and of programs with arrays of several."""

TARGETS: dict[str, Target] = {
    "numpy": Target(
        lower_numpy,
        (
            ("filled arrays as single values", with_single_values),
            ("simpler operations", simplified),
            DEAD_CODE,
            IN_PLACE,
            ("cross entropy with its rule", with_entropies),
            ("products folded into updates", with_folded_updates),
            ("sums with products", with_added_products),
            ("operations written out", decomposed()),
            ("broadcasts left to the operations", without_broadcasts),
            ("common subexpressions", without_repetition),
            DEAD_CODE,
            ("reductions where their operands are", with_early_reductions()),
            ("fusion", with_groups(broadcasts=True)),
        ),
        numpy_way,
    ),
    "cupy": Target(
        lower_cupy,
        (
            ("filled arrays as single values", with_single_values),
            ("simpler operations", simplified),
            DEAD_CODE,
            IN_PLACE,
            ("products with epilogues", epilogues_where_available),
            ("fusion", with_groups(1, has_words)),
        ),
        cupy_way,
    ),
    "jax": Target(lower_jax, way=jax_way),
    "torch": Target(lower_torch, way=torch_way),
}
"""The targets by the name of the backend."""


class Executable(NamedTuple):
    """A compiled program."""

    run: Compiled
    """From the list of inputs to that of outputs."""
    stages: list[tuple[str, Program]]
    """The program as it was traced and after each pass, with the names of the passes."""


def target_of(program: Program) -> Target:
    """Return the target of the backend whose arrays a program holds."""
    backends = list(program.backends())
    return TARGETS.get(backends[0], PLAIN) if len(backends) == 1 else PLAIN


def compile_program(program: Program, target: Target | None = None) -> Executable:
    """Optimize and lower a program.

    Raises ``ConfigurationError`` if ``notes["precision"]`` asks for a dtype that the backend does not multiply in.
    """
    target = target or target_of(program)
    precision: tuple[Pass, ...] = ()
    if program.notes.get("precision"):
        ways = {name: found.way for name, found in TARGETS.items() if found.way is not None}
        precision = (("precision", partial(with_precision, ways=ways)), DEAD_CODE)
    stages = [("traced", program)]
    for name, run in (*PASSES, *precision, *target.passes):
        program = run(program)
        stages.append((name, program))
    return Executable(target.lower(program), stages)
