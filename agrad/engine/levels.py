"""Levels: what recording means. An operation is handed to the newest level among its arguments.

A level evaluates the operation on what is inside its Tensors (which hands it to the next older level, and in the end
to the raw arrays) and records it in its own way. Levels are numbered by birth; nothing is pushed or popped, so nothing
leaks when user code raises, and nested transforms cannot confuse each other's derivatives.
"""

import cmath
import functools
import traceback
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from agrad.backends import backend_of_type
from agrad.backends.base import DEVICE_GUARDS
from agrad.engine.observing import SWITCH, observed_run
from agrad.engine.operation import Operation
from agrad.engine.scalars import Scalar
from agrad.engine.tape import Meta, Node, Plan, inside_rule, mode, next_id
from agrad.engine.tensor import Batched, Lifted, Tensor, settle, wrap
from agrad.engine.views import linked
from agrad.errors import AnomalyError
from agrad.registry import namespace

NUMBERS = frozenset({bool, int, float})
"""Python's weak scalars. A complex one may turn a real array complex, so it takes the long way."""


class _Spaces(dict[type, Any]):
    """The namespace a rule gets, by the type of what it is handed: a backend's for its arrays, agrad's for Tensors."""

    def __missing__(self, kind: type) -> Any:
        if issubclass(kind, Tensor):
            space: Any = namespace
        else:
            backend = backend_of_type(kind)
            if backend is None:
                raise KeyError(kind)
            space = backend.xp
        self[kind] = space
        return space


SPACES = _Spaces()


def namespace_of(values: Sequence[Any]) -> Any:
    """agrad's namespace where any of the values is a Tensor, else the backend's whose arrays they are."""
    space = None
    for value in values:
        if isinstance(value, Tensor):
            return namespace
        if space is None and hasattr(value, "shape"):
            space = SPACES[type(value)]
    return space


CAPTURED: list[Any] = []
"""The traces that read arrays anew at each call which the traced function knows besides its arguments."""


def captured(value: Any) -> Any:
    """What stands for such an array in the trace that is going on here; any other value as it is."""
    trace = mode().trace
    return value if trace is None or isinstance(value, Tensor) else trace.captured(value)


def dispatch(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], inside: bool = False) -> Any:
    """Evaluate a primitive on any mixture of arguments: the long way, which is always right.

    ``inside``: the result goes inside a newer level's Tensor, where nobody can write to it, so that it is no view.
    """
    if CAPTURED:
        args = tuple(map(captured, args))
    newest = None
    scalars = False
    for arg in args:
        if isinstance(arg, Tensor):
            if newest is None or arg.level.id > newest.id:
                newest = arg.level
        elif isinstance(arg, np.generic):
            scalars = True
        elif isinstance(arg, Scalar) and not primitive.takes_traced_numbers:
            return dispatch(primitive, tuple([a.read() if a is arg else a for a in args]), settings, inside)
    if scalars:
        args = _without_scalars(args)
    if newest is None:
        if any(isinstance(arg, Scalar) for arg in args):
            args = tuple([arg.read() if isinstance(arg, Scalar) else arg for arg in args])
        return primitive.evaluate(args, settings)
    out = newest.process(primitive, args, settings)
    return out if inside or primitive.put is None else linked(primitive, args, settings, out)


def _without_scalars(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, NumPy's scalars among them made Python numbers where an array of another library is."""
    for arg in args:
        if hasattr(arg, "shape") and not isinstance(arg, np.generic):
            raw = arg.raw if isinstance(arg, Tensor) else arg
            if isinstance(raw, (np.ndarray, np.generic)):
                return args
            return tuple([a.item() if isinstance(a, np.generic) else a for a in args])
    return args


class Level:
    """What all levels share: evaluating an operation on what is inside this level's Tensors."""

    __slots__ = ("id",)

    tape = False
    """Whether Tensors of this level are recorded as nodes."""

    short = False
    """Whether the short call path may record them, as nodes and nothing else."""

    derivative = True
    """Whether it records derivatives, which ``no_grad`` silences."""

    whole_rules = False
    """Whether a rule for which the backend has a kernel is one operation of this level (see ``rulecalls``)."""

    kind: type[Tensor] = Lifted
    """What its Tensors are that the short call path does not take."""

    name = "level"

    def __init__(self, level_id: int | None = None) -> None:
        self.id = next_id() if level_id is None else level_id

    def inside(self, value: Any) -> Any:
        """The argument as an older level sees it."""
        if isinstance(value, Tensor):
            return settle(value.data) if value.level is self else settle(value)
        return value

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        now = mode()
        if now.trace is not None:
            now.trace.meet(args)
        inner: list[Any] = []
        traced: list[int] = []
        lifted = long_way = False
        for i, arg in enumerate(args):
            if isinstance(arg, Tensor):
                if arg.level is self:
                    if arg.node is not None:
                        traced.append(i)
                    arg = arg.data  # no copy of it: nobody but this level has what is inside
                    while isinstance(arg, Tensor) and arg.node is None:
                        arg = arg.data
                else:
                    arg = settle(arg)
                if isinstance(arg, Tensor):
                    lifted = True
                    long_way = long_way or type(arg) is not Tensor
            inner.append(arg)
        if long_way and not SWITCH.lookers:
            out = dispatch(primitive, tuple(inner), settings, inside=True)
        elif lifted or SWITCH.lookers or now.trace is not None:
            out = primitive.bind(*inner, **settings)
            if primitive.put is not None and isinstance(out, Tensor):
                out._link = None  # nobody can write to what is inside
        else:
            out = primitive.evaluate(tuple(inner), settings)
        if not traced or self.id < now.oldest:
            return self._constant(out)
        return self.record(primitive, args, inner, out, settings, tuple(traced), lifted)

    def _constant(self, out: Any) -> Any:
        if isinstance(out, tuple):
            return tuple([wrap(part, self) for part in out])
        return wrap(out, self)

    def record(
        self,
        primitive: Any,
        args: tuple[Any, ...],
        inner: list[Any],
        out: Any,
        settings: dict[str, Any],
        traced: tuple[int, ...],
        lifted: bool,
    ) -> Any:
        """The result ``out`` of the arguments ``inner``, recorded: those at ``traced`` have a record of this level.

        ``lifted``: whether there are Tensors inside.
        """
        raise NotImplementedError

    def check_concrete(self, tensor: Tensor, what: str) -> None:
        """Raise ``TracedValueError`` where a Tensor of this level has no value of its own to give."""
        data = tensor.data
        if isinstance(data, Tensor):
            data._check_concrete(what)


def _are_alike(values: Sequence[Any]) -> bool:
    """Whether all show one shape and one dtype, so that an elementwise result does too. Weak scalars do not count."""
    shape = dtype = None
    for value in values:
        if type(value) in NUMBERS:
            continue
        axes = 0
        while isinstance(value, Tensor):
            axes += type(value) is Batched
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
    """Records a node an operation: opened by ``grad``, ``vjp`` and the like; the ambient level is one too."""

    __slots__ = ()

    tape = short = True
    name = "reverse"

    def record(
        self,
        primitive: Any,
        args: tuple[Any, ...],
        inner: list[Any],
        out: Any,
        settings: dict[str, Any],
        traced: tuple[int, ...],
        lifted: bool,
    ) -> Any:
        exact = primitive.keeps_type and (len(inner) == 1 or (lifted and primitive.elementwise and _are_alike(inner)))
        plan = primitive.recorded(traced, len(inner), lifted, exact)
        if plan is None:
            return self._constant(out)
        outs = out if isinstance(out, tuple) else (out,)
        node = Node()
        node.id = next_id()
        node.plan = plan
        node.parents = tuple([args[i].node for i in plan.positions])
        node.saved = plan.pack(*inner, *outs, **settings)
        now = mode()
        if now.anomaly or (now.observers and any(observer.lines for observer in now.observers)):
            node.where = users_line()
        if primitive.outputs is None:
            return wrap(out, self, node)
        return tuple([wrap(part, self, select(node, i)) for i, part in enumerate(out)])


class Forward(Level):
    """Carries the tangent itself in place of a node: memory does not grow with the number of operations."""

    __slots__ = ()

    name = "forward"

    def record(
        self,
        primitive: Any,
        args: tuple[Any, ...],
        inner: list[Any],
        out: Any,
        settings: dict[str, Any],
        traced: tuple[int, ...],
        lifted: bool,
    ) -> Any:
        out_tangents = pushed(primitive, traced, [args[i].node for i in traced], inner, out, settings, lifted)
        if out_tangents is None:
            return self._constant(out)
        if primitive.outputs is None:
            return wrap(out, self, out_tangents[0])
        return tuple([wrap(part, self, t) for part, t in zip(out, out_tangents, strict=True)])


AMBIENT = Reverse(0)
"""The level of Tensors that users make: it is always open, and older than every other."""


def lift(value: Any) -> Any:
    """A raw array as a constant Tensor; anything else as it is.

    Rules that are handed a Tensor are handed nothing raw beside it: array-api-strict's operators refuse strangers.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, tuple):
        return tuple([lift(part) for part in value])
    return wrap(value, AMBIENT) if hasattr(value, "shape") else value


class Parts:
    """The cotangents of an operation with several outputs, gathered as they arrive."""

    __slots__ = ("by_output",)

    def __init__(self, by_output: dict[int, Any]) -> None:
        self.by_output = by_output

    def __add__(self, other: "Parts") -> "Parts":
        """This one, with the other's taken up: a backward pass alone holds it, and there may be many to come."""
        mine = self.by_output
        for i, g in other.by_output.items():
            mine[i] = mine[i] + g if i in mine else g
        return self


def select(node: Node, output: int) -> Node:
    """The node of one output of an operation that has several."""
    selector = Node()
    selector.id = next_id()
    selector.plan = selector_plan(output)
    selector.parents = (node,)
    selector.saved = ()
    return selector


class Selector(Operation):
    """The operation of the nodes that pick one output."""

    arrays = ("x",)

    def __init__(self, output: int) -> None:
        self.output = output
        self.name = f"output {output}"


@functools.cache
def selector_plan(output: int) -> Plan:
    """Return the plan of the nodes that pick one output."""
    plan = Plan()
    plan.primitive = Selector(output)
    plan.arguments = plan.primitive.arrays
    plan.positions = (0,)
    plan.lifted = plan.detours = plan.retains = False
    plan.names = ()
    plan.pack = lambda *args: ()
    plan.pull = lambda node, g: (Parts({output: g}),)
    return plan


def meta(value: Any) -> Meta:
    """Shape and dtype of a raw array or a Tensor."""
    return Meta(tuple(value.shape), value.dtype)


def unusual(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """Where the short call path turns to when ``attention`` says so: recording is off, or anomalies are looked for."""
    level = max((arg.level for arg in args if isinstance(arg, Tensor)), key=lambda lv: lv.id)
    now = mode()
    if now.trace is not None:
        now.trace.meet(args)
    if level.id < now.oldest:
        out = tuple([wrap(part, level) for part in out]) if isinstance(out, tuple) else wrap(out, level)
    else:
        out = level.process(primitive, args, settings)
    return out if primitive.put is None else linked(primitive, args, settings, out)


def observed(primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A primitive's call while operations are looked at: as ever, but evaluations on raw arrays are shown."""
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
        check_finite(primitive, args, out)
    return out


def pushed(
    primitive: Any,
    traced: tuple[int, ...],
    tangents: list[Any],
    inner: list[Any],
    out: Any,
    settings: dict[str, Any],
    lifted: bool | None = None,
) -> tuple[Any, ...] | None:
    """The tangents of an operation's outputs, of those of its arguments at ``traced``; None where all are zero.

    ``lifted``: whether there are Tensors among ``inner``, the arguments as they lie inside the level, if that is known.
    """
    if not lifted:
        for value in tangents if lifted is False else (*tangents, *inner):
            if isinstance(value, Tensor):
                lifted = True
    push = primitive.push(traced, len(inner), bool(lifted))
    if push is None:
        return None
    now = mode()
    if now.anomaly or now.observers:
        return _observed_push(primitive, traced, tangents, partial(push, tangents, inner, out, settings))
    if DEVICE_GUARDS:
        with DEVICE_GUARDS[0].preserved():
            DEVICE_GUARDS[0].switch_to(*(out if isinstance(out, tuple) else (out,)))
            return tuple(push(tangents, inner, out, settings))
    found: tuple[Any, ...] = push(tangents, inner, out, settings)
    return found


def _observed_push(primitive: Any, traced: tuple[int, ...], tangents: list[Any], push: Any) -> tuple[Any, ...]:
    """The tangents of an operation's outputs, which ``push`` makes of the arguments', looked at."""
    now = mode()
    with inside_rule():
        found: tuple[Any, ...] = observed_run(
            now.observers, lambda observer, proceed: observer.push(primitive, proceed), push
        )
    if now.anomaly and not now.inside_rule and not all(t is None or _finite(t) for t in found):
        names = primitive.argument_names(max(traced) + 1)
        given = [names[i] for i, t in zip(traced, tangents, strict=True) if not _finite(t)]
        if given:
            raise AnomalyError(
                f"{primitive.name} was handed a tangent of {' and '.join(given)} that holds a NaN or an infinity "
                f"already, at {users_line()}"
            )
        raise AnomalyError(f"the forward rule of {primitive.name} made a NaN or an infinity at {users_line()}")
    return found


def users_line() -> str:
    """The innermost line of code on the stack that is not agrad's own."""
    package = __name__.partition(".")[0]
    for frame, line in traceback.walk_stack(None):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != package and not frame.f_code.co_filename.startswith("<agrad"):
            summary = traceback.extract_stack(frame, limit=1)[0]
            return f"{summary.filename}:{line}: {summary.line}"
    return "unknown line"


def _finite(value: Any) -> bool:
    """Whether all values are finite, and the tangents that a forward level carries beside them."""
    while isinstance(value, Tensor):
        if isinstance(value.level, Forward) and not (value.node is None or _finite(value.node)):
            return False
        value = value.data
    if not hasattr(value, "dtype"):
        return not isinstance(value, (float, complex)) or cmath.isfinite(value)
    xp = SPACES[type(value)]
    return not xp.isdtype(value.dtype, ("real floating", "complex floating")) or bool(xp.all(xp.isfinite(value)))


def check_finite(primitive: Any, args: tuple[Any, ...], out: Any) -> None:
    """Raise ``AnomalyError`` where a result of raw arrays and numbers holds a NaN or an infinity."""
    for part in out if isinstance(out, tuple) else (out,):
        if not _finite(part):
            names = primitive.argument_names(len(args))
            given = [name for name, arg in zip(names, args, strict=True) if not _finite(arg)]
            if given:
                raise AnomalyError(
                    f"{primitive.name} was handed a NaN or an infinity in {' and '.join(given)}, which no operation "
                    f"inside detect_anomaly made, at {users_line()}"
                )
            raise AnomalyError(f"{primitive.name} made a NaN or an infinity at {users_line()}")


def check_finite_cotangent(node: Node, g: Any, name: str, cotangent: Any) -> None:
    """Raise ``AnomalyError`` where a backward rule made a NaN or an infinity."""
    if cotangent is not None and not isinstance(cotangent, Parts) and not _finite(cotangent):
        where = getattr(node, "where", None)
        line = f"; the operation was recorded at {where}" if where else ""
        if not all(map(_finite, g.by_output.values() if isinstance(g, Parts) else (g,))):
            raise AnomalyError(
                f"the backward rule of {node.plan.primitive.name} was handed a cotangent that holds a NaN or an "
                f"infinity already: the one given, or a sum of finite ones{line}"
            )
        raise AnomalyError(
            f"the backward rule of {node.plan.primitive.name} made a NaN or an infinity for {name}{line}"
        )
