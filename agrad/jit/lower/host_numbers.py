"""Computations on host numbers that run before a compiled program."""

from typing import Any

from agrad.backends import backend_of_type
from agrad.jit.program import HOST, FunctionOperation, HostCall, Instruction, Program, Variable
from agrad.ops.updates import adam_floor, adam_given, adam_rate


def with_adam_rates(program: Program) -> Program:
    """Compute the numbers that depend on Adam's count of steps on the host.

    The host computes in double precision. With a traced count they would be in single precision.
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

        rate, floor = Variable((), HOST, None), Variable((), HOST, None)
        lr, beta1, beta2, step = (settings[name] for name in ("lr", "beta1", "beta2", "step"))
        kept.append(Instruction(HostCall(adam_rate), (lr, beta1, beta2, step), {}, (rate,)))
        kept.append(Instruction(HostCall(adam_floor), (settings["eps"], beta2, step), {}, (floor,)))
        names = ("lr", "beta1", "beta2", "weight_decay", "decoupled")
        given = {**{name: settings[name] for name in names}, "rate": rate, "floor": floor}
        operation = FunctionOperation("adam_update", update, ("p_new", "m_new", "v_new"))
        kept.append(Instruction(operation, instruction.operands, given, instruction.outputs))
    return program.with_instructions(kept)


def without_donation(program: Program) -> Program:
    """Let no instruction overwrite its operands, whatever the host says at a call."""
    kept: list[Instruction] = []
    for instruction in program.instructions:
        flag = instruction.settings.get("donate")
        kept.append(instruction.replaced({flag: False}) if isinstance(flag, Variable) else instruction)
    return program.with_instructions(kept)
