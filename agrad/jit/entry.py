"""One traced signature of a function: its program, its inputs and its results."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agrad.engine.tape import Plan
from agrad.engine.tensor import Tensor
from agrad.jit.bindings import Attribute, Out, Slot, finish_function, gather_function
from agrad.jit.calls import Derivative, call_plan, record_call
from agrad.jit.lower.plain import Compiled
from agrad.jit.passes.aliasing import ResultCopies
from agrad.jit.program import Program
from agrad.jit.reasons import NumberGuards
from agrad.jit.signatures import Matches, match_function
from agrad.jit.state import CapturedState

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
    """The signature of its calls if they may be recognized by ``matches``, else None."""
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

    # made at the second call, as many programs are called once

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
