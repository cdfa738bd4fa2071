"""Calls: a whole function on the tape as one operation, whose pullback is any code.

What checkpoints, hand-written rules and implicit derivatives record. A primitive has its rules by name and for good; a
call has one pullback of its own, which the node keeps, and which a backward pass frees like any saved value.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of, selected
from agrad.dtypes import is_complex
from agrad.engine.levels import lift, select, users_line
from agrad.engine.operation import Operation
from agrad.engine.scalars import Scalar, deferred_array
from agrad.engine.sweep import fit
from agrad.engine.tape import Meta, Node, Plan, is_recording, mode, next_id
from agrad.engine.tensor import Tensor, settle
from agrad.errors import MissingRuleError

Pull = Callable[[Node, list[Any]], Sequence[Any]]
"""Takes the call's node and the cotangent of each output (None where unused) to those of the parents (None for 0)."""


class Call(Operation):
    """The operation of the nodes of one function: its name, and how many outputs and parents there are."""

    def __init__(self, name: str, outputs: int, parents: int, linear: bool) -> None:
        self.name = name
        self.linear = linear
        self.outputs = None if outputs == 1 else tuple(f"output_{i}" for i in range(outputs))
        plan = Plan()
        plan.primitive = self
        plan.count = parents
        plan.positions = tuple(range(parents))
        plan.arguments = self.argument_names(parents)
        plan.names = ()
        plan.exact = plan.lifted = plan.detours = plan.retains = False
        plan.pack = lambda *args: ()
        plan.pull = self._pull
        self.plan = plan

    def argument_names(self, count: int) -> tuple[str, ...]:
        """The operands have no names of their own: they are numbered."""
        return tuple(f"operand_{i}" for i in range(count))

    def output_name(self, output: int) -> str:
        """What the graph calls an output."""
        return str(output)

    def bind(self, *args: Any) -> Any:
        raise MissingRuleError(f"{self.name} cannot be computed again from what the tape holds")

    def _pull(self, node: Node, g: Any) -> tuple[Any, ...]:
        given = [g] if self.outputs is None else [g.by_output.get(i) for i in range(len(self.outputs))]
        assert node.saved is not None
        return tuple(node.saved[0](node, given))


@functools.lru_cache(maxsize=4096)
def _call(name: str, outputs: int, parents: int, linear: bool) -> Call:
    return Call(name, outputs, parents, linear)


def record_call(name: str, parents: Sequence[Node], outputs: int, pull: Pull, *, linear: bool = False) -> list[Node]:
    """Record a function as one operation on a tape; gives the node of each of its outputs.

    ``linear`` says that the outputs are linear in what the parents stand for.
    """
    call = _call(name, outputs, len(parents), linear)
    node = Node()
    node.id = next_id()
    node.plan = call.plan
    node.parents = tuple(parents)
    node.saved = (pull,)
    if mode().anomaly:
        node.where = users_line()
    return [node] if call.outputs is None else [select(node, i) for i in range(outputs)]


def live(value: Any) -> Any:
    """An operand without the levels that record nothing of it: an array, or a Tensor of a level that does."""
    value = settle(value)
    while isinstance(value, Tensor) and value.level.derivative and not is_recording(value.level.id):
        value = settle(value.data)
    return value


def newest(values: Sequence[Any]) -> Any:
    """The newest level among the values, None where no Tensor is."""
    levels = [value.level for value in values if isinstance(value, Tensor)]
    return max(levels, key=lambda level: level.id, default=None)


def alike(values: Sequence[Any]) -> list[Any]:
    """The values, raw arrays lifted to constants where any is a Tensor: strangers do not meet in an operator."""
    return [lift(value) for value in values] if any(isinstance(v, Tensor) for v in values) else list(values)


def array_of_number(value: Any, like: Any = None) -> Any:
    """A Python float or complex as an array, inside of a trace a traced one; anything else as it is.

    ``like``: an array of the library, the device and the dtype wanted (a complex number is complex all the same); by
    default those are the selected ones, and float64 or complex128.
    """
    number = value.value if isinstance(value, Scalar) else value
    kind = type(number)
    if kind not in (float, complex):
        return value
    if like is None:
        here = selected()
        xp, device = here.backend.xp, here.device
    else:
        backend = backend_of(like)
        xp, device = backend.xp, backend.device_of(like)
    if like is not None and (kind is float or is_complex(like.dtype)):
        dtype = like.dtype
    else:
        dtype = xp.float64 if kind is float else xp.complex128

    def place(number: Any) -> Any:
        return xp.asarray(number, dtype=dtype, device=device)

    return deferred_array(kind, (value,), place)


def fitted(g: Any, meta: Meta, name: str, place: str) -> Any:
    """A cotangent that a user's rule gave, checked against its operand and with its dtype."""
    return fit(g, meta, False, name, place)
