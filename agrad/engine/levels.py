"""Levels: the ways of recording an operation.

The newest level among the arguments of a call processes it. The level evaluates the operation on the data of its
Tensors, which calls the next older level, and finally computes on plain arrays. Then it records the operation. Levels
are numbered in the order of creation. There is no stack of levels, so nothing remains on it if user code raises an
error, and nested transforms cannot confuse their derivatives.
"""

import functools
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from agrad.backends.base import DEVICE_SCOPES
from agrad.engine.anomalies import check_results, check_tangents, users_line
from agrad.engine.joining import NUMPYS, joined, without_scalars
from agrad.engine.namespaces import NUMBERS
from agrad.engine.observing import OBSERVED, observed_run
from agrad.engine.operation import Operation
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import Meta, Node, Plan, PlanKey, change_mode, is_over, mode, next_id
from agrad.engine.tensor import BatchedTensor, RecordedTensor, Tensor, present, strip_constant_levels, wrap
from agrad.engine.views import linked

Args = Sequence[Any]
Settings = dict[str, Any]
Positions = tuple[int, ...]

CAPTURED: list[Any] = []
"""Traces that read captured arrays again at each call."""


def captured(value: Any) -> Any:
    """Return the tracer of a captured value in the present trace, or the value itself."""
    trace = mode().trace
    return value if trace is None else trace.captured(value)


def dispatch(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], inside: bool = False) -> Any:
    """Evaluate a primitive on any mixture of arguments by the slow path.

    If ``inside`` is True, the result becomes the data of a Tensor of a newer level. It is not linked as a view, because
    no user can write to it.
    """
    if CAPTURED:
        args = tuple(map(captured, args))
    newest = kind = None
    scalars = several = False
    for arg in args:
        found: Any = arg
        if isinstance(arg, Tensor):
            level = arg.level
            if level.ended and is_over(level):
                return dispatch(primitive, tuple(map(present, args)), settings, inside)
            if newest is None or level.id > newest.id:
                newest = level
            found = arg.data
            while isinstance(found, Tensor):
                found = found.data
        elif isinstance(arg, np.generic):
            scalars = True
            continue
        elif isinstance(arg, TracedNumber) and not primitive.takes_traced_numbers:
            return dispatch(primitive, tuple([a.read() if a is arg else a for a in args]), settings, inside)
        found = type(found)
        if found is not kind and found not in NUMBERS:
            several = several or not (kind is None or (kind in NUMPYS and found in NUMPYS))
            kind = found
    if scalars:
        args = without_scalars(args)
    args = joined(primitive.name, args) if several and primitive.joins else args
    if newest is None:
        if any(isinstance(arg, TracedNumber) for arg in args):
            args = tuple([arg.read() if isinstance(arg, TracedNumber) else arg for arg in args])
        return primitive.evaluate(args, settings)
    out = newest.process(primitive, args, settings)
    return out if inside or primitive.write_back is None else linked(primitive, args, settings, out)


class Level:
    """Base class of the levels: it evaluates operations on the data of its Tensors."""

    __slots__ = ("ended", "id")

    ended: int
    """The serial number at the end of its transform; 0 while it is open."""

    tape = False
    """True if Tensors of this level are recorded as nodes."""

    short = False
    """True if the short call path may record them, as nodes only."""

    derivative = True
    """True if it records derivatives, which ``no_grad`` turns off."""

    holds_tangents = False
    """True if the records of its Tensors are tangents."""

    is_trace = False
    """True if its Tensors represent plain arrays. A rule with a kernel is then one operation (``rulecalls``)."""

    keeps_rules = False
    """True if it records a call of a function with custom rules as one operation."""

    kind: type[Tensor] = RecordedTensor
    """The class of its Tensors that the short call path does not process."""

    name = "level"

    def __init__(self, level_id: int | None = None) -> None:
        self.id: int = next_id() if level_id is None else level_id
        self.ended = 0

    def end(self) -> None:
        """Note that the function has returned: Tensors count as the values inside."""
        self.ended = next_id()

    def outlived(self, tensor: Tensor) -> Any:
        """Return the value of a Tensor of this level after the level has ended."""
        return tensor.data

    def inside(self, value: Any) -> Any:
        """Return the argument without this level."""
        return strip_constant_levels(value.data if isinstance(value, Tensor) and value.level is self else value)

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        now = mode()
        if now.trace is not None:
            now.trace.check_known(args)
        inner: list[Any] = []
        traced: list[int] = []
        lifted = long_way = False
        for i, arg in enumerate(args):
            if isinstance(arg, Tensor):
                if arg.level is self:
                    if arg.node is not None:
                        traced.append(i)
                    arg = arg.data  # needs no new wrapper, because only this level holds the data
                    while isinstance(arg, Tensor) and arg.node is None:
                        arg = arg.data
                else:
                    arg = strip_constant_levels(arg)
                if isinstance(arg, Tensor):
                    lifted = True
                    long_way = long_way or type(arg) is not Tensor
            inner.append(arg)
        if long_way and not OBSERVED:
            out = dispatch(primitive, tuple(inner), settings, inside=True)
        elif lifted or OBSERVED or now.trace is not None:
            out = primitive.bind(*inner, **settings)
            if primitive.write_back is not None and isinstance(out, Tensor):
                out._link = None  # no user can write to the data of a Tensor
        else:
            out = primitive.evaluate(tuple(inner), settings)
        if not traced or self.id < now.oldest:
            return self.constant(out)
        return self.record(primitive, args, inner, out, settings, tuple(traced), lifted)

    def constant(self, out: Any) -> Any:
        if isinstance(out, tuple):
            return tuple([wrap(part, self) for part in out])
        return wrap(out, self)

    def record(
        self, primitive: Any, args: Args, inner: Args, out: Any, settings: Settings, traced: Positions, lifted: bool
    ) -> Any:
        """Return the result ``out``, recorded at this level.

        ``inner`` are the arguments without this level, recorded at the positions ``traced``. ``lifted`` is True if
        there are Tensors among them.
        """
        raise NotImplementedError

    def check_concrete(self, tensor: Tensor, what: str) -> None:
        """Raise ``TracedValueError`` if a Tensor of this level has no concrete value."""
        if isinstance(tensor.data, Tensor):
            tensor.data._check_concrete(what)


def _are_alike(values: Sequence[Any]) -> bool:
    """Return True if all values have the same shape and dtype.

    An elementwise result then has them too. Python numbers and batch axes are ignored.
    """
    shape = dtype = None
    for value in values:
        if type(value) in NUMBERS:
            continue
        axes = 0
        while isinstance(value, Tensor):
            axes += type(value) is BatchedTensor
            value = value.data
        if not hasattr(value, "shape"):
            return False
        seen = value.shape[axes:] if axes else value.shape
        if shape is None:
            shape, dtype = seen, value.dtype
        elif seen != shape or value.dtype is not dtype:
            return False
    return True


class Reverse(Level):
    """A level of reverse mode, which records a node for each operation.

    ``grad``, ``vjp`` and others open one; the global tape is one.
    """

    __slots__ = ()

    tape = short = True
    name = "reverse"

    def record(
        self, primitive: Any, args: Args, inner: Args, out: Any, settings: Settings, traced: Positions, lifted: bool
    ) -> Any:
        same_shape_and_dtype = primitive.keeps_type and (
            len(inner) == 1 or (lifted and primitive.elementwise and _are_alike(inner))
        )
        numbers = tuple([i for i, value in enumerate(inner) if type(value) in NUMBERS])
        plan = primitive.plans[PlanKey(traced, len(inner), same_shape_and_dtype, numbers, lifted)]
        if plan is None:
            return self.constant(out)
        outs = out if isinstance(out, tuple) else (out,)
        node = new_node(plan, (*inner, *outs, settings), args)
        now = mode()
        if now.anomaly or (now.observers and any(observer.lines for observer in now.observers)):
            node.where = users_line()
        if primitive.outputs is None:
            return wrap(out, self, node)
        return tuple([wrap(part, self, select(node, i)) for i, part in enumerate(out)])


class Forward(Level):
    """A level of forward mode: it stores tangents; memory does not grow with calls."""

    __slots__ = ()

    holds_tangents = True
    name = "forward"

    def record(
        self, primitive: Any, args: Args, inner: Args, out: Any, settings: Settings, traced: Positions, lifted: bool
    ) -> Any:
        out_tangents = pushed(primitive, traced, [args[i].node for i in traced], inner, out, settings, lifted)
        if out_tangents is None:
            return self.constant(out)
        if primitive.outputs is None:
            return wrap(out, self, out_tangents[0])
        return tuple([wrap(part, self, t) for part, t in zip(out, out_tangents, strict=True)])


GLOBAL_TAPE = Reverse(0)
"""The level of Tensors outside of transforms: always open, and older than all others."""


def lift(value: Any) -> Any:
    """Return a plain array as a constant Tensor, and any other value itself.

    A rule with a Tensor argument receives no plain arrays, because array-api-strict operators reject other types.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, tuple):
        return tuple([lift(part) for part in value])
    return wrap(value, GLOBAL_TAPE) if hasattr(value, "shape") else value


class OutputCotangents:
    """The cotangents of an operation with several outputs, collected as they arrive."""

    __slots__ = ("by_output",)

    def __init__(self, by_output: dict[int, Any]) -> None:
        self.by_output: dict[int, Any] = by_output

    def __add__(self, other: "OutputCotangents") -> "OutputCotangents":
        """Add cotangents in place. Only the backward pass refers to this object."""
        mine = self.by_output
        for i, g in other.by_output.items():
            mine[i] = mine[i] + g if i in mine else g
        return self


_node_of = attrgetter("node")


def new_node(plan: Plan, values: tuple[Any, ...], links: Any) -> Node:
    """Return the node of a call.

    ``values`` are the arguments without the level, the outputs and the options. ``links`` is the node of the only
    argument on the tape, or the arguments, from which the plan selects the arguments on the tape.
    """
    node = Node()
    node.id = next_id()
    node.plan = plan
    if type(links) is not Node:
        links = tuple(map(_node_of, plan.operands(links)))
        links = links[0] if len(links) == 1 else links
    node.links = links
    node.saved = plan.keep(values)
    return node


def select(node: Node, output: int) -> Node:
    """Return the node of one output of an operation that has several."""
    selector = Node()
    selector.id = next_id()
    selector.plan = get_output_plan(output)
    selector.links = node
    selector.saved = ()
    return selector


class GetOutput(Operation):
    """The operation of the nodes that select one output."""

    arrays: tuple[str, ...] = ("x",)

    def __init__(self, output: int) -> None:
        self.output = output
        self.name: str = f"output {output}"


@functools.cache
def get_output_plan(output: int) -> Plan:
    """Return the plan of the nodes that select one output."""
    return Plan.bare(GetOutput(output), lambda node, g: (OutputCotangents({output: g}),), ("x",))


def meta(value: Any) -> Meta:
    """Return the shape and dtype of a plain array or a Tensor."""
    return Meta(tuple(value.shape), value.dtype)


def record_slow(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """Finish a call below the ``recording_floor`` by the slow path.

    Recording is off there, or anomalies are detected.
    """
    level = max((arg.level for arg in args if isinstance(arg, Tensor)), key=lambda lv: lv.id)
    now = mode()
    if is_over(level):
        return dispatch(primitive, args, settings)
    if now.trace is not None:
        now.trace.check_known(args)
    out = level.constant(out) if level.id < now.oldest else level.process(primitive, args, settings)
    return out if primitive.write_back is None else linked(primitive, args, settings, out)


def observed(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Call a primitive, and show evaluations on plain arrays to observers."""
    now = mode()
    for arg in args:
        if isinstance(arg, Tensor):
            return dispatch(primitive, args, settings)
    if now.observers:
        out = observed_run(
            now.observers,
            lambda observer, proceed: observer.call(primitive, args, settings, proceed),
            lambda: dispatch(primitive, args, settings),
        )
    else:
        out = dispatch(primitive, args, settings)
    if now.anomaly and not now.inside_rule:
        check_results(primitive, args, out)
    return out


def pushed(
    primitive: Any,
    traced: tuple[int, ...],
    tangents: list[Any],
    inner: Args,
    out: Any,
    settings: dict[str, Any],
    lifted: bool | None = None,
) -> tuple[Any, ...] | None:
    """Return the tangents of an operation's outputs, or None if all are zero.

    ``tangents`` belong to the arguments at ``traced``. ``inner`` are the arguments without the level. ``lifted`` is
    True if there are Tensors among these, None if unknown.
    """
    if not lifted:
        for value in tangents if lifted is False else (*tangents, *inner):
            if isinstance(value, Tensor):
                lifted = True
    push = primitive.pushes[traced, len(inner), bool(lifted)]
    if push is None:
        return None
    now = mode()
    if now.anomaly or now.observers:
        with change_mode(inside_rule=True):
            found: tuple[Any, ...] = observed_run(
                now.observers,
                lambda observer, proceed: observer.pushforward(primitive, proceed),
                partial(push, tangents, inner, out, settings),
            )
        if now.anomaly and not now.inside_rule:
            check_tangents(primitive, traced, tangents, found)
        return found
    if DEVICE_SCOPES:
        with DEVICE_SCOPES[0].preserved():
            DEVICE_SCOPES[0].switch_to(*(out if isinstance(out, tuple) else (out,)))
            return tuple(push(tangents, inner, out, settings))
    found = push(tangents, inner, out, settings)
    return found
