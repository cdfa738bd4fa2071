"""A jitted call on the tape: one node, whose pullback is a program too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agrad.backends import backend_of
from agrad.engine.levels import GLOBAL_TAPE, OutputCotangents, lift, select
from agrad.engine.operation import Operation
from agrad.engine.tape import Node, Plan, next_id
from agrad.engine.tensor import Tensor
from agrad.jit.lower.plain import Compiled
from agrad.jit.program import Program, Variable, interpret
from agrad.transforms.grad import vjp


@dataclass(eq=False, repr=False)
class Derivative(Operation):
    """The operation of the nodes of jitted calls: the derivative of a program."""

    name: str
    forward: Program
    """The program as it was traced, for passes that are themselves recorded."""
    backward: Compiled
    """From the residuals and the cotangents of the recorded outputs to the cotangents of the recorded inputs."""
    residuals: list[int]
    """The numbers of the outputs that the backward program takes."""
    inputs: list[int]
    """The numbers of the recorded inputs."""
    owners: list[Callable[[Sequence[Any]], Tensor]]
    """For each recorded input the function from the arguments' leaves to its Tensor."""
    places: list[int]
    """The numbers of the recorded outputs."""
    results: list[Variable]
    """The variables of the recorded outputs."""

    def __post_init__(self) -> None:
        self.outputs = tuple(f"output_{i}" for i in range(len(self.places)))
        self.arrays: tuple[str, ...] = tuple(f"x{i}" for i in range(len(self.inputs)))

    def pullback(self, node: Node, g: OutputCotangents) -> tuple[Any, ...]:
        """Return the cotangents of the recorded inputs, by the backward program if raw."""
        assert node.saved is not None
        *points, inputs, residuals = node.saved
        gs = self._cotangents(g)
        if not any(isinstance(part, Tensor) for part in (*gs, *points)):
            return tuple(self.backward([*residuals, *gs]))

        def run(*recorded: Any) -> tuple[Any, ...]:
            given = list(inputs)
            for i, value in zip(self.inputs, recorded, strict=True):
                given[i] = value
            out = interpret(self.forward, given)
            return tuple([out[i] for i in self.places])

        _, pullback = vjp(run, *[lift(x) for x in points])
        return tuple(pullback(tuple(gs)))

    def _cotangents(self, g: OutputCotangents) -> list[Any]:
        """Return one cotangent for each recorded output, zeros where none arrived."""
        known = next(iter(g.by_output.values()))
        known = known.raw if isinstance(known, Tensor) else known
        backend = backend_of(known)
        device = backend.device_of(known)
        return [
            g.by_output[i] if i in g.by_output else backend.xp.zeros(v.shape, dtype=v.dtype, device=device)
            for i, v in enumerate(self.results)
        ]


def call_plan(derivative: Derivative) -> Plan:
    """Return the plan of the nodes of calls."""
    plan = Plan.bare(derivative, derivative.pullback, derivative.arrays)
    plan.same_shape_and_dtype = True
    plan.names = (*plan.arguments, "inputs", "residuals")
    return plan


def record_call(
    plan: Plan, values: Sequence[Any], inputs: Sequence[Any], leaves: Sequence[Any]
) -> tuple[Any, list[Node]]:
    """Record a call on the tape; return the level and the nodes of recorded outputs."""
    derivative: Derivative = plan.primitive
    node = Node()
    node.id = next_id()
    node.plan = plan
    owners = [find(leaves) for find in derivative.owners]
    node.links = tuple([tensor.node for tensor in owners])
    kept = tuple([inputs[i] for i in derivative.inputs])
    node.saved = (*kept, list(inputs), [values[i] for i in derivative.residuals])
    level = next((t.level for t in owners if t.level is not GLOBAL_TAPE), GLOBAL_TAPE)
    return level, [select(node, k) for k in range(len(derivative.places))]
