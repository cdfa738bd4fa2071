"""Numbers of the host in programs that a compiler takes whole: what is computed of them beforehand."""

from collections.abc import Callable
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.operation import Operation
from agrad.jit.ir import HOST, HostCall, Instruction, Program, Variable
from agrad.ops.updates import adam_floor, adam_given, adam_rate


class FunctionOperation(Operation):
    """A Python function of raw arrays as the operation of an instruction."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        outputs: tuple[str, ...] | None = None,
        overwrites: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.function = function
        self.outputs = outputs
        self.overwrites = overwrites

    def bind(self, *args: Any, **settings: Any) -> Any:
        """See ``Operation.bind``."""
        return self.function(*args, **settings)

    def function_of(self, kind: type | None) -> Callable[..., Any]:
        """See ``Operation.function_of``."""
        return self.function


def with_adam_rates(program: Program) -> Program:
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

        rate, floor = Variable((), HOST, None), Variable((), HOST, None)
        lr, beta1, beta2, step = (settings[name] for name in ("lr", "beta1", "beta2", "step"))
        kept.append(Instruction(HostCall(adam_rate), (lr, beta1, beta2, step), {}, (rate,)))
        kept.append(Instruction(HostCall(adam_floor), (settings["eps"], beta2, step), {}, (floor,)))
        names = ("lr", "beta1", "beta2", "weight_decay", "decoupled")
        given = {**{name: settings[name] for name in names}, "rate": rate, "floor": floor}
        operation = FunctionOperation("adam_update", update, ("p_new", "m_new", "v_new"))
        kept.append(Instruction(operation, instruction.operands, given, instruction.outputs))
    return program.with_instructions(kept)
