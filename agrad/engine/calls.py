"""Calls: a function on the tape as one operation, with any pullback.

Checkpoints, custom rules and implicit derivatives record calls. The node of a call keeps its pullback, which a backward
pass frees like any saved value.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of, selected
from agrad.dtypes import is_complex
from agrad.engine.anomalies import users_line
from agrad.engine.backward import fit
from agrad.engine.levels import GLOBAL_TAPE, lift, select
from agrad.engine.operation import Operation
from agrad.engine.scalars import TracedNumber, host_array_call
from agrad.engine.tape import Meta, Node, Plan, is_recording, mode, next_id, replay
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.errors import MissingRuleError
from agrad.registry import CALLS

Pull = Callable[[Node, list[Any]], Sequence[Any]]
"""Function of the node of the call and the cotangent of each output (None if unused).

It returns the cotangents of the parents, None for 0.
"""


class Call(Operation):
    """The operation of the nodes of one function."""

    variadic = "operand"

    def __init__(self, name: str, outputs: int, parents: int, linear: bool) -> None:
        self.name = name
        self.linear = linear
        self.outputs: tuple[str, ...] | None = None if outputs == 1 else tuple(f"output_{i}" for i in range(outputs))
        self.plan: Plan = Plan.bare(self, self._pull, self.argument_names(parents))

    def output_name(self, output: int) -> str:
        """Return the name of an output in the graph."""
        return str(output)

    def bind(self, *args: Any) -> Any:
        raise MissingRuleError(f"{self.name} cannot be recomputed from the values on the tape")

    def _pull(self, node: Node, g: Any) -> tuple[Any, ...]:
        given = [g] if self.outputs is None else [g.by_output.get(i) for i in range(len(self.outputs))]
        assert node.saved is not None
        pull, replays = node.saved
        with replay(node.id, replays):
            return tuple(pull(node, given))


@functools.lru_cache(maxsize=4096)
def _call(name: str, outputs: int, parents: int, linear: bool) -> Call:
    return Call(name, outputs, parents, linear)


def record_call(name: str, parents: Sequence[Node], outputs: int, pull: Pull, *, linear: bool = False) -> list[Node]:
    """Record a function as one operation, and return the node of each output.

    ``linear``: the outputs are linear in the parents' values.
    """
    call = _call(name, outputs, len(parents), linear)
    node = Node()
    node.id = next_id()
    node.plan = call.plan
    node.links = tuple(parents)
    now = mode()
    node.saved = (pull, now.replays)
    if now.anomaly:
        node.where = users_line()
    return [node] if call.outputs is None else [select(node, i) for i in range(outputs)]


def recorded_part(value: Any) -> Any:
    """Return an operand without the nesting levels that do not record it."""
    value = strip_constant_levels(value)
    while isinstance(value, Tensor) and value.level.derivative and not is_recording(value.level.id):
        value = strip_constant_levels(value.data)
    return value


def newest_level(values: Sequence[Any]) -> Any:
    """Return the newest nesting level of the values, or None without Tensors."""
    levels = [value.level for value in values if isinstance(value, Tensor)]
    return max(levels, key=lambda level: level.id, default=None)


def capture_key(value: Tensor) -> Any:
    """Return the identity of a captured value, while it is alive."""
    return id(value.level), id(value.node), id(value.data)


def lift_all(values: Sequence[Any]) -> list[Any]:
    """Return the values, with plain arrays as constant Tensors if any is a Tensor.

    The operators of an array library may reject Tensors mixed with its arrays.
    """
    return [lift(value) for value in values] if any(isinstance(v, Tensor) for v in values) else list(values)


def is_tensor(value: Any) -> bool:
    """Return True for a Tensor that does not represent a plain array in a trace."""
    return isinstance(value, Tensor) and value.level.id >= 0


def tensor_of(value: Any) -> Tensor:
    """Return a plain array, or its representation in a trace, as a constant Tensor."""
    return value if is_tensor(value) else wrap(value, GLOBAL_TAPE)


def stopped(value: Any) -> Any:
    """Return a Tensor as a constant for every derivative, other values unchanged.

    Mapped values remain mapped, and traced values traced.
    """
    if not isinstance(value, Tensor):
        return value
    inner: Any = value
    while isinstance(inner, Tensor):
        if inner.level.keeps_rules:
            return inner.level.stopped(inner)
        if not inner.level.derivative:
            made = wrap(strip_constant_levels(stopped(inner.data)), inner.level, inner.node)
            return tensor_of(made) if is_tensor(value) else made
        inner = inner.data
    return wrap(inner, GLOBAL_TAPE)


CALLS["stopped"] = stopped


def array_of_number(value: Any, like: Any = None) -> Any:
    """Return a Python float or complex number as an array, other values unchanged.

    The array has the library, device and dtype of ``like``, except that complex numbers remain complex. By default, it
    has the selected backend and device, and dtype float64 or complex128. Inside a trace, the array is traced.
    """
    number = value.value if isinstance(value, TracedNumber) else value
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

    return host_array_call(kind, (value,), place)


def fitted(g: Any, meta: Meta, name: str, place: str) -> Any:
    """Return the cotangent of a custom rule, fitted to its operand."""
    return fit(g, meta, False, name, place)


CALLS["lift"] = lift
