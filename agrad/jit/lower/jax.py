"""Lowering for JAX: a Python function that ``jax.jit`` compiles."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from agrad.jit.lower.plain import Compiled, Split, plain
from agrad.jit.passes.precision import NarrowMatmul
from agrad.jit.program import Program


def lower_jax(program: Program) -> Compiled:
    """Compile a program by XLA, or lower it plainly if JAX cannot trace an operation."""
    jax = sys.modules["jax"]
    precision = program.notes.get("precision")
    split = Split(program)
    compiled = jax.jit(plain(split.body))
    spare: list[Compiled] = []
    # "high" is TF32 on GPUs that have it, and float32 on CPUs
    products = partial(jax.default_matmul_precision, "high") if precision == "tf32" else nullcontext

    def run(inputs: Sequence[Any]) -> list[Any]:
        if spare:
            return list(spare[0](inputs))
        given = split.before(inputs)
        try:
            with products():
                found = compiled(given[: split.count])
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            # an operation reads values, which are unknown while JAX traces
            spare.append(plain(program))
            return list(spare[0](inputs))
        return split.outputs(found, given)

    run.text = getattr(compiled.__wrapped__, "text", "")  # type: ignore[attr-defined]
    return run


# ------------------------------------------------------------------ products in a lower precision


def jax_narrow_matmul(precision: str) -> NarrowMatmul:
    """Return products of narrow operands with float32 results, as XLA computes them."""
    jnp = sys.modules["jax.numpy"]
    dtype = getattr(jnp, precision)

    def product(x: Any, weight: Any) -> Any:
        return jnp.matmul(x, weight, preferred_element_type=jnp.float32)

    return NarrowMatmul(lambda x: x.astype(dtype), product, np.dtype(dtype))
