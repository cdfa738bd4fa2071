"""JAX: the program as a Python function, handed to ``jax.jit``, with the numbers of the host as its inputs."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from agrad.jit.host_numbers import with_adam_rates
from agrad.jit.ir import Program, Variable
from agrad.jit.lowerings import Compiled, lowering, plain, split_host


@lowering("jax")
def lower_jax(program: Program) -> Compiled:
    """The program compiled by XLA; the plain one where JAX cannot trace what an operation does."""
    jax = sys.modules["jax"]
    precision = program.notes.get("precision")
    host, device = split_host(with_adam_rates(program))
    places = [i for i, v in enumerate(device.outputs) if isinstance(v, Variable) and not v.on_host]
    arrays = Program(device.inputs, device.constants, device.instructions, [device.outputs[i] for i in places])
    numbers = {i: v for i, v in enumerate(device.outputs) if i not in set(places)}
    before, compiled = plain(host), jax.jit(plain(arrays))
    position = {v: i for i, v in enumerate(device.inputs)}
    spare: list[Compiled] = []
    # what JAX calls high is TF32 on GPUs that have it, and float32 on CPUs
    products = partial(jax.default_matmul_precision, "high") if precision == "tf32" else nullcontext

    def run(inputs: Sequence[Any]) -> list[Any]:
        if spare:
            return list(spare[0](inputs))
        given = before(inputs)
        try:
            with products():
                found = compiled(given)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
            # some operation asks for values, which XLA's programs do not know
            spare.append(plain(program))
            return list(spare[0](inputs))
        out: list[Any] = [None] * len(device.outputs)
        for i, value in zip(places, found, strict=True):
            out[i] = value
        for i, v in numbers.items():
            out[i] = given[position[v]] if isinstance(v, Variable) else v
        return out

    run.text = getattr(compiled.__wrapped__, "text", "")  # type: ignore[attr-defined]
    return run
