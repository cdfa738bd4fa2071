"""JAX: the program as a Python function, handed to ``jax.jit``, with the numbers of the host as its inputs."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.jit.ir import HostCall, Instruction, Program, Variable
from agrad.jit.lowerings import Compiled, lowering, plain, split_host
from agrad.ops.updates import adam_floor, adam_given, adam_rate


class _Function:
    """A Python function of raw arrays as an operation."""

    elementwise = False

    def __init__(self, name: str, function: Callable[..., Any], outputs: tuple[str, ...]) -> None:
        self.name = name
        self.bind = function
        self.outputs = outputs


def _with_numbers_of_adam(program: Program) -> Program:
    """What follows from Adam's count of steps, computed on the host.

    There it is in double precision; a count that is traced would make it single.
    """
    kept: list[Instruction] = []
    for instruction in program.instructions:
        settings = instruction.settings
        if instruction.name != "adam_update" or not isinstance(settings["step"], Variable):
            kept.append(instruction)
            continue
        p = next(v for v in instruction.operands if isinstance(v, Variable))
        assert p.kind is not None
        backend = backend_of_type(p.kind)
        assert backend is not None
        xp = backend.xp

        def update(*arrays: Any, xp: Any = xp, **numbers: Any) -> Any:
            return adam_given(xp, *arrays, **numbers)

        rate, floor = Variable((), "host", None), Variable((), "host", None)
        lr, beta1, beta2, step = (settings[name] for name in ("lr", "beta1", "beta2", "step"))
        kept.append(Instruction(HostCall(adam_rate), (lr, beta1, beta2, step), {}, (rate,)))
        kept.append(Instruction(HostCall(adam_floor), (settings["eps"], beta2, step), {}, (floor,)))
        names = ("lr", "beta1", "beta2", "weight_decay", "decoupled")
        given = {**{name: settings[name] for name in names}, "rate": rate, "floor": floor}
        operation = _Function("adam_update", update, ("p_new", "m_new", "v_new"))
        kept.append(Instruction(operation, instruction.operands, given, instruction.outputs))
    return program.with_instructions(kept)


@lowering("jax")
def lower_jax(program: Program) -> Compiled:
    """The program compiled by XLA; the plain one where JAX cannot trace what an operation does."""
    jax = sys.modules["jax"]
    host, device = split_host(_with_numbers_of_adam(program))
    places = [i for i, v in enumerate(device.outputs) if isinstance(v, Variable) and not v.on_host]
    arrays = Program(device.inputs, device.constants, device.instructions, [device.outputs[i] for i in places])
    numbers = {i: v for i, v in enumerate(device.outputs) if i not in set(places)}
    before, compiled = plain(host), jax.jit(plain(arrays))
    position = {v: i for i, v in enumerate(device.inputs)}
    spare: list[Compiled] = []

    def run(inputs: Sequence[Any]) -> list[Any]:
        if spare:
            return list(spare[0](inputs))
        given = before(inputs)
        try:
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
