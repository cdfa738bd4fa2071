"""One traced signature of a function: its program, its inputs and its results."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agrad.backends import backend_of
from agrad.engine.tape import Plan
from agrad.engine.tensor import Lifted, Tensor
from agrad.jit.bindings import finish_function, gather_function
from agrad.jit.calls import call_plan, record_call
from agrad.jit.lower.plain import Compiled
from agrad.jit.passes.aliasing import ResultCopies
from agrad.jit.program import Program
from agrad.jit.state import CapturedState
from agrad.transforms.trees import flatten, unflatten

STATE_LOCK = threading.RLock()
"""Held while a function is traced, as state Tensors hold traced values then, and while state is read or written. A
forked process has another one."""


@dataclass(slots=True, eq=False)
class Slot:
    """A leaf Tensor that a program reads or writes: captured, or an argument."""

    tensor: Tensor | None
    """None where it is an argument."""
    leaf: int
    """The number of the argument's leaf, or -1."""
    kind: Any
    shape: tuple[int, ...]
    dtype: Any
    needs_grad: bool
    has_grad: bool
    donates: bool = False
    """True where the program is told if the array may be overwritten."""
    data: Any = None
    """The output that is the new array, or None where it stays."""
    grad: Any = None
    """The output that is the new gradient; None where it stays."""
    clears: bool = False
    """True where the gradient is None afterwards."""

    def find(self, leaves: Sequence[Any]) -> Tensor:
        """Return the Tensor of this call."""
        return cast(Tensor, leaves[self.leaf]) if self.tensor is None else self.tensor


def slot_of(tensor: Tensor, leaf: int = -1) -> Slot:
    """Return the slot of a Tensor as it is now."""
    data = tensor.data
    return Slot(
        None if leaf >= 0 else tensor,
        leaf,
        type(data),
        data.shape,
        data.dtype,
        tensor.node is not None,
        tensor.grad is not None,
    )


@dataclass(slots=True, eq=False)
class Attribute:
    """An attribute of a stateful object, with the structure and kinds of its leaves."""

    holder: Any
    name: str
    spec: Any
    kinds: tuple[Any, ...]
    """For each leaf what it must be like: (type, shape, dtype) of an array, the type of a number, or the value."""
    places: tuple[int, ...]
    """The numbers of the leaves that are inputs."""
    new_spec: Any = None
    new_leaves: tuple[Any, ...] | None = None
    """The new leaves as outputs or values; None where the attribute stays."""

    def take(self) -> list[Any] | None:
        """Return the inputs of this call; None where the attribute has changed in kind."""
        leaves, spec = flatten(getattr(self.holder, self.name))
        if spec != self.spec:
            return None
        for leaf, kind in zip(leaves, self.kinds, strict=True):
            if like(leaf) != kind:
                return None
        return [leaves[i] for i in self.places]


def like(leaf: Any) -> Any:
    """Return a key of the leaves of state for which a program holds."""
    if hasattr(leaf, "shape"):
        return (type(leaf), tuple(leaf.shape), leaf.dtype)
    return type(leaf) if type(leaf) in (int, float) else (leaf,)


class StrideGuard:
    """Test of the inputs' strides: they must be those of the first call."""

    def __init__(self) -> None:
        self._kept: list[Any] | None = None

    def __call__(self, inputs: Sequence[Any]) -> bool:
        now = [_strides(x) for x in inputs if hasattr(x, "shape")]
        if self._kept is None:
            self._kept = now
        return now == self._kept


def _strides(raw: Any) -> list[int]:
    # along an axis of one element there is no next one
    return [step for step, n in zip(backend_of(raw).strides(raw), raw.shape, strict=False) if n > 1]


@dataclass(slots=True, eq=False)
class Entry:
    """The program of one signature, with all that a call of it needs."""

    program: Program
    run: Compiled
    state: CapturedState
    slots: list[Slot]
    attributes: list[Attribute]
    leaf_inputs: list[int]
    """The numbers of the arguments' leaves that are inputs."""
    captured: list[Any]
    """Arrays that the function reaches and the program reads at each call."""
    guards: Callable[[Sequence[Any]], bool] | None
    out_spec: Any
    out_leaves: list[Any]
    """For each leaf of the result an ``Out``, or its value."""
    leaf_is_tensor: list[bool]
    """For each leaf of the arguments whether it is a Tensor."""
    fixed: dict[int, int]
    """The numbers of the leaves that are Tensors which the function also reaches by itself, with these slots."""
    inline: bool = False
    """True where a call runs the function itself, as a program cannot record it."""
    strides: StrideGuard | None = None
    """Tells if inputs are of the layout that was traced, where the program depends on it."""
    derivative: Any = None
    """The ``Derivative`` with which results are recorded on the tape, or None."""
    stages: list[tuple[str, Program]] = field(default_factory=list)
    """The program before and after each pass."""
    own: set[int] = field(init=False)
    """The ids of the Tensors that the function reaches by itself."""
    gather: Callable[[Sequence[Any]], list[Any] | None] = field(init=False)
    """The inputs of a call, or None where the function has to be traced anew."""
    plan: Plan | None = field(init=False)
    """That of the nodes of recorded calls."""
    separate: ResultCopies | None = field(init=False)
    """Copies results that share memory with what others hold; None where none may."""
    write: Callable[..., Any] = field(init=False)
    """Writes back what changed, and gives the result where it is not recorded."""
    matches: Callable[[Sequence[Any]], bool] | None = None
    """The test of positional arguments for this signature, or None."""

    def __post_init__(self) -> None:
        self.own = {id(slot.tensor) for slot in self.slots if slot.tensor is not None}

    def complete(self) -> "Entry":
        """Write out how inputs are gathered, once all state is in its place again."""
        leaves = [leaf.place for leaf in self.out_leaves if isinstance(leaf, Out)]
        leaves += [slot.grad for slot in self.slots if slot.grad is not None]
        state = [slot.data for slot in self.slots if slot.data is not None]
        self.plan = None if self.derivative is None else call_plan(self.derivative)
        separation = ResultCopies(self.program, leaves, state)
        self.separate = separation if separation.steps else None
        self.gather = gather_function(self)
        self.write = finish_function(self)
        return self

    def finish(self, values: Sequence[Any], inputs: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """Write back what changed, and give the result."""
        if self.separate is not None:
            values = self.separate(values, inputs)
        result = self.write(values, leaves)
        if self.plan is not None:
            return unflatten(self.out_spec, record_call(self.plan, values, inputs, leaves))
        return result


@dataclass(slots=True, frozen=True)
class Out:
    """The number of an output in the result, and if it becomes a Tensor."""

    place: int
    tensor: bool


def hold_traced(tensor: Tensor, traced: Tensor) -> None:
    """Have a Tensor hold a traced array for the time of a trace."""
    tensor.data = traced
    tensor.__class__ = Lifted
