"""Entries: the programs of traced signatures, and the nodes of recorded calls.

The pullback of such a node is also a program.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agrad.backends import backend_of
from agrad.engine.levels import GLOBAL_TAPE, OutputCotangents, lift, select
from agrad.engine.operation import Operation
from agrad.engine.tape import Node, Plan, next_id
from agrad.engine.tensor import Tensor
from agrad.jit.bindings import Attribute, Out, Slot, finish_function, gather_function
from agrad.jit.lower.plain import Compiled
from agrad.jit.passes.aliasing import ResultCopies
from agrad.jit.program import Program, Variable, interpret
from agrad.jit.reasons import NumberGuards
from agrad.jit.signatures import Matches, match_function
from agrad.jit.state import CapturedState
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
    """The indices of the outputs whose cotangents the backward program accepts."""
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
        """Return the cotangents of the recorded inputs, by the backward program if plain."""
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
        """Return one cotangent for each recorded output, zeros for outputs without one."""
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


STATE_LOCK = threading.RLock()
"""Held while a function is traced and while state is read or written.

During a trace, state Tensors hold traced values. A forked process has another lock.
"""


@dataclass(eq=False)
class Entry:
    """The program of one signature, with all that a call of it needs."""

    run: Compiled | None
    """None if a call runs the function itself, because a program cannot record it."""
    stages: list[tuple[str, Program]]
    """The program before and after each pass."""
    state: CapturedState
    slots: list[Slot]
    attributes: list[Attribute]
    leaf_inputs: list[int]
    """The numbers of the arguments' leaves that are inputs."""
    tensor_leaves: dict[int, Tensor | None]
    """For the numbers of the leaves that are Tensors: the captured Tensor that it must be, or None."""
    captured: list[Any]
    """Arrays that the function reaches and the program reads at each call."""
    guards: NumberGuards | None
    """The numbers of the host that the trace depends on, or None."""
    strides: Callable[[Sequence[Any]], bool] | None
    """A test of the layout of the inputs, for programs that depend on it."""
    out_spec: Any
    out_leaves: list[Any]
    """For each leaf of the result an ``Out``, or its value."""
    derivative: Derivative | None
    """The derivative with which results are recorded on the tape, or None."""
    signature: Any = None
    """The signature of its calls if they may be recognized by ``matches``, otherwise None."""
    compiler: str = ""
    """A sentence on the compiler, for ``explain``."""
    plan: Plan | None = field(init=False)
    """The plan of the nodes of recorded calls."""
    copies: ResultCopies = field(init=False)
    write: Callable[..., Any] = field(init=False)
    """The function that writes state back and returns the result."""

    def __post_init__(self) -> None:
        leaves = [leaf.place for leaf in self.out_leaves if isinstance(leaf, Out)]
        leaves += [slot.grad for slot in self.slots if slot.grad is not None]
        state = [slot.data for slot in self.slots if slot.data is not None]
        self.plan = None if self.derivative is None else call_plan(self.derivative)
        self.copies = ResultCopies(self.stages[-1][1], leaves, state)
        self.write = finish_function(self)

    # generated at the second call, because many programs are called once

    @cached_property
    def gather(self) -> Callable[[Sequence[Any]], list[Any] | None]:
        """The function from leaves to the inputs of a call, or to None for a new trace."""
        return gather_function(self)

    @cached_property
    def matches(self) -> Matches | None:
        """The function from arguments of this signature to their leaves, or None."""
        return None if self.signature is None else match_function(self.signature)

    def finish(self, values: Sequence[Any], inputs: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """Write changed state back, and return the result."""
        if self.copies.steps:
            values = self.copies(values, inputs)
        if self.plan is None:
            return self.write(values, leaves)
        return self.write(values, leaves, *record_call(self.plan, values, inputs, leaves))
