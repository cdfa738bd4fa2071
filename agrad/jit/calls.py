"""A jitted call on the tape: one node, whose pullback is a program too."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agrad.backends import backend_of
from agrad.engine.levels import GLOBAL_TAPE, OutputCotangents, lift, select
from agrad.engine.operation import Operation
from agrad.engine.tape import Node, Plan, next_id
from agrad.engine.tensor import Tensor, wrap
from agrad.jit.lower.plain import Compiled
from agrad.jit.program import Program, Variable, interpret
from agrad.registry import namespace
from agrad.transforms.grad import vjp


@dataclass(slots=True, eq=False)
class Derivative:
    """The derivative of a program: the recorded inputs and outputs, and the pullback."""

    name: str
    forward: Program
    """As it was traced, for passes that are themselves recorded."""
    backward: Compiled
    """From the residuals and the cotangents of the recorded outputs to the cotangents of the recorded inputs."""
    residuals: list[int]
    """The numbers of the outputs that the backward program takes."""
    inputs: list[int]
    """The numbers of the recorded inputs."""
    owners: list[Any]
    """For each of them the slot that finds its Tensor, or the number of the argument's leaf."""
    outputs: list[int]
    """The numbers of the recorded outputs."""
    metas: list[Variable]
    """Their variables."""
    leaves: list[Any]
    """The leaves of the result: an ``Out``, or a value."""
    reached: list[bool]
    """Which recorded inputs a cotangent reaches."""

    def _cotangents(self, g: OutputCotangents) -> list[Any]:
        """Return one cotangent for each recorded output, zeros where none arrived."""
        found = [g.by_output.get(i) for i in range(len(self.outputs))]
        like = next(part for part in found if part is not None)
        like = like.raw if isinstance(like, Tensor) else like
        backend = backend_of(like)
        device = backend.device_of(like)
        return [
            backend.xp.zeros(meta.shape, dtype=meta.dtype, device=device) if part is None else part
            for part, meta in zip(found, self.metas, strict=True)
        ]

    def pullback(self, node: Node, g: OutputCotangents) -> tuple[Any, ...]:
        """Return the cotangents of the recorded inputs, by the backward program if raw."""
        assert node.saved is not None
        gs = self._cotangents(g)
        if any(isinstance(part, Tensor) for part in (*gs, *node.saved)):
            return self.pull_recorded(node, g)
        return tuple(self.backward([*node.saved[-1], *gs]))

    def pull_recorded(self, node: Node, g: OutputCotangents) -> tuple[Any, ...]:
        """Return the cotangents as recorded Tensors, by differentiating the program."""
        assert node.saved is not None
        *points, inputs, _ = node.saved

        def run(*recorded: Any) -> tuple[Any, ...]:
            given = list(inputs)
            for i, value in zip(self.inputs, recorded, strict=True):
                given[i] = value
            out = interpret(self.forward, given)
            return tuple([out[i] for i in self.outputs])

        values, pullback = vjp(run, *[lift(x) for x in points])
        parts = [g.by_output.get(i) for i in range(len(values))]
        found = pullback(
            tuple([namespace.zeros_like(y) if part is None else part for y, part in zip(values, parts, strict=True)])
        )
        return tuple([x if reached else None for x, reached in zip(found, self.reached, strict=True)])


class CallOperation(Operation):
    """The operation of the nodes of jitted calls."""

    def __init__(self, derivative: Derivative) -> None:
        self.derivative = derivative
        self.name = f"jit({derivative.name})"
        self.outputs = tuple(f"output_{i}" for i in range(len(derivative.outputs)))
        self.arrays = tuple(f"x{i}" for i in range(len(derivative.inputs)))

    def pullback_of(self, plan: Plan, guarded: bool = False) -> Any:
        """See ``Operation.pullback_of``."""
        return self.derivative.pull_recorded if plan.lifted else self.derivative.pullback


def call_plan(derivative: Derivative) -> Plan:
    """Return the plan of the nodes of calls.

    The derivative holds no reference to it, which would make a cycle.
    """
    plan = Plan()
    plan.primitive = CallOperation(derivative)
    plan.arguments = plan.primitive.arrays
    plan.positions = tuple(range(len(plan.arguments)))
    plan.count = len(plan.arguments)
    plan.exact = True
    plan.needs_slow_path = plan.retains = plan.lifted = False
    plan.names = (*plan.arguments, "inputs", "residuals")
    plan.keep = lambda values: values
    plan.pullback = derivative.pullback
    return plan


def record_call(plan: Plan, values: Sequence[Any], inputs: Sequence[Any], leaves: Sequence[Any]) -> Any:
    """Return the leaves of the result, the recorded ones with a node on the tape."""
    derivative: Derivative = plan.primitive.derivative
    node = Node()
    node.id = next_id()
    node.plan = plan
    owners = [leaves[o] if isinstance(o, int) else o.find(leaves) for o in derivative.owners]
    node.parents = tuple([tensor.node for tensor in owners])
    kept = tuple([inputs[i] for i in derivative.inputs])
    node.saved = (*kept, list(inputs), [values[i] for i in derivative.residuals])
    level = next((t.level for t in owners if t.level is not GLOBAL_TAPE), GLOBAL_TAPE)
    selected = {place: select(node, k) for k, place in enumerate(derivative.outputs)}
    out = []
    for leaf in derivative.leaves:
        if not hasattr(leaf, "place"):
            out.append(leaf)
        elif leaf.place in selected:
            out.append(wrap(values[leaf.place], level, selected[leaf.place]))
        else:
            out.append(wrap(values[leaf.place], GLOBAL_TAPE) if leaf.tensor else values[leaf.place])
    return out
