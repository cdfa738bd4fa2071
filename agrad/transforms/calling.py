"""Calls of functions with custom rules.

The innermost transform among the operands records the call. A rule runs as ordinary code on the data of the Tensors of
that transform. Outer transforms differentiate it, and higher derivatives are derivatives of the rule.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.dtypes import is_floating
from agrad.engine.backward import fit_tangent
from agrad.engine.batching import Batch
from agrad.engine.calls import fitted, is_tensor, lift_all, newest_level, record_call, recorded_part, tensor_of
from agrad.engine.levels import CAPTURED, GLOBAL_TAPE, Forward, captured, meta
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import Node
from agrad.engine.tensor import Tensor, strip_constant_levels, wrap
from agrad.errors import NotDifferentiableError, ShapeError, TracedValueError
from agrad.ops.map_draws import each_member
from agrad.transforms.arguments import zeros
from agrad.transforms.trees import replaced

Values = Sequence[Any]
Back = Callable[[list[Any]], Values]
"""A pullback: from the cotangents of the floating-point outputs to those of the operands, None for zero."""


class Rules:
    """Base class of functions of leaves with custom derivatives.

    Subclasses are calls of functions whose rules a user defines, and the operations of control flow, whose rules are
    derived from their bodies.
    """

    name: str
    loop = False
    """True if ``vmap`` calls the function and its rules once for each batch element."""
    is_operation = False
    """True for an operation of a compiled program, whose ``primal`` a trace records."""

    def primal(self, leaves: Values) -> list[Any]:
        """Return the results."""
        raise NotImplementedError

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        """Return the results, and the pullback to the traced leaves."""
        raise NotImplementedError

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        """Return the results and their tangents, from the tangents of the traced leaves."""
        raise NotImplementedError

    def map(self, level: Batch, mapped: Sequence[bool], leaves: Values) -> list[Any]:
        """Return the results of all batch elements.

        ``mapped`` marks the leaves with a batch axis.
        """
        return wrapped(level, _call((_Members if self.loop else _Mapped)(self, level, mapped), leaves))

    def renewed(self) -> "Rules":
        """Return the rules for another call of the same program."""
        return self


def differentiable(value: Any) -> bool:
    """Return True for a floating-point array, which can have a derivative."""
    return hasattr(value, "dtype") and is_floating(value.dtype)


def call(rules: Rules, leaves: Values) -> list[Any]:
    """Call the function on leaves of any transforms.

    Array results are Tensors if an operand is one.
    """
    outs = _call(rules, leaves)
    if not any(map(is_tensor, leaves)):
        return outs
    return [wrap(o, GLOBAL_TAPE) if backend_of_type(type(o)) is not None else o for o in outs]


def tensors_where_given(outs: Values, leaves: Values) -> list[Any]:
    """Return results, also the results of a trace, as Tensors if a leaf is one."""
    if not any(map(is_tensor, leaves)):
        return list(outs)
    return [tensor_of(out) if isinstance(out, Tensor) else out for out in outs]


def _call(rules: Rules, leaves: Values) -> list[Any]:
    leaves = [captured(recorded_part(leaf)) if CAPTURED else recorded_part(leaf) for leaf in leaves]
    level = newest_level(leaves)
    if level is not None and level.keeps_rules and not rules.is_operation:
        return [strip_constant_levels(out) for out in level.call(rules, leaves)]
    if level is None or not (level.tape or isinstance(level, Forward | Batch)):
        # in any other transform, for example a trace, the operations inside the function are recorded
        return [strip_constant_levels(out) for out in rules.primal(lift_all(leaves))]
    if isinstance(level, Batch):
        mapped = [isinstance(leaf, Tensor) and leaf.level is level for leaf in leaves]
        inner = [strip_constant_levels(leaf.data) if m else leaf for leaf, m in zip(leaves, mapped, strict=True)]
        return [strip_constant_levels(out) for out in rules.map(level, mapped, inner)]
    traced = [
        i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.level is level and differentiable(leaf)
    ]
    inner = lift_all([level.inside(leaf) for leaf in leaves])
    if isinstance(level, Forward):
        outs, tangents = _forward(rules, inner, traced, lift_all([leaves[i].node for i in traced]))
        check_older(outs, level, rules.name)
        return _at(level, outs, [_tangent(t, out, rules.name) for out, t in zip(outs, tangents, strict=True)])
    return _record(rules, leaves, inner, level, traced)


def _at(level: Any, outs: Values, nodes: Values) -> list[Any]:
    """Return the results, with arrays as Tensors of a transform that records derivatives."""
    return [
        wrap(strip_constant_levels(out), level, node) if hasattr(out, "shape") else out
        for out, node in zip(outs, nodes, strict=True)
    ]


def wrapped(level: Batch, values: Values, flags: Iterable[bool] | None = None) -> list[Any]:
    """Return values as mapped Tensors: by default all arrays, with the batch first."""
    flags = [hasattr(x, "shape") for x in values] if flags is None else flags
    return [level.wrap(strip_constant_levels(x)) if m else x for x, m in zip(values, flags, strict=True)]


def _tangent(t: Any, out: Any, name: str) -> Any:
    if t is None or not differentiable(out):
        return None
    t, out = lift_all([t, out])
    return strip_constant_levels(fit_tangent(t, out, name))


def _record(rules: Rules, leaves: Values, inner: Values, level: Any, traced: list[int]) -> list[Any]:
    outs, back = _reverse(rules, inner, traced)
    check_older(outs, level, rules.name)
    floating = [k for k, out in enumerate(outs) if differentiable(out)]
    if not floating or not traced:
        return _at(level, outs, [None] * len(outs))
    metas = [meta(leaves[i]) for i in traced]
    # the cotangent of an unused output is zeros like these; a single output is never unused
    likes = [outs[k] if len(floating) > 1 else None for k in floating]
    # with create_graph=True the global tape records the pass itself, and the rule runs on the tape's own Tensors
    again = list(leaves) if level is GLOBAL_TAPE else None

    def pull(_: Node, given: list[Any]) -> list[Any]:
        gs = [zeros(like) if g is None else g for g, like in zip(given, likes, strict=True)]
        pullback = back
        if again is not None and any(isinstance(g, Tensor) and g.level is level for g in gs):
            pullback = rules.reverse(lift_all(again), traced)[1]
        found = pullback(lift_all(gs))
        return [
            None if found[i] is None else fitted(strip_constant_levels(found[i]), m, rules.name, f"operand {i}")
            for i, m in zip(traced, metas, strict=True)
        ]

    nodes = record_call(rules.name, [leaves[i].node for i in traced], len(floating), pull)
    return _at(level, outs, replaced([None] * len(outs), floating, nodes))


def spread(level: Batch, value: Any) -> Any:
    """Return a value with the batch of a transform along its first axis.

    A value that the batch elements share is repeated. Inner transforms are unchanged.
    """
    value = strip_constant_levels(value)
    if not isinstance(value, Tensor) or value.level.id < level.id:
        return namespace_of((value,)).broadcast_to(value, (level.members, *value.shape))
    if value.level is level:
        return strip_constant_levels(value.data)
    if isinstance(value.level, Batch):
        inner = spread(level, value.data)
        return value.level.wrap(namespace_of((inner,)).moveaxis(inner, 1, 0))
    return _below_newer(level, value, spread, _gathered)


def _gathered(level: Batch, value: Any) -> Any:
    """Invert ``spread``."""
    value = strip_constant_levels(value)
    if not isinstance(value, Tensor) or value.level.id < level.id:
        return level.wrap(value)
    if isinstance(value.level, Batch):
        return value.level.wrap(_gathered(level, namespace_of((value.data,)).moveaxis(value.data, 1, 0)))
    return _below_newer(level, value, _gathered, spread)


def _below_newer(level: Batch, value: Any, move: Callable[..., Any], back: Callable[..., Any]) -> Any:
    """Return ``move`` of a value of an inner transform, recorded there.

    ``back`` is the inverse of ``move``.
    """
    newer, data = value.level, strip_constant_levels(move(level, value.data))
    if isinstance(newer, Forward):
        return wrap(data, newer, strip_constant_levels(move(level, value.node)))
    nodes = record_call(
        "members", [value.node], 1, lambda _, gs: [strip_constant_levels(back(level, gs[0]))], linear=True
    )
    return wrap(data, newer, nodes[0])


def _looping(rules: Rules, values: Values) -> Any:
    """Return the batch to split before the rule runs, or None."""
    level = newest_level(values)
    return level if rules.loop and isinstance(level, Batch) else None


def _member_rules(rules: Rules, level: Batch, inner: Values) -> tuple["_Members", list[Any]]:
    """Return the rules called once for each batch element, and the operands spread for them.

    All arrays are spread, because cotangents and tangents may be mapped if operands are not.
    """
    arrays = [hasattr(x, "shape") for x in inner]
    return _Members(rules, level, arrays), [spread(level, x) if a else x for x, a in zip(inner, arrays, strict=True)]


def _reverse(rules: Rules, inner: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
    level = _looping(rules, inner)
    if level is None:
        with _loop_advice(rules, inner):
            outs, back = rules.reverse(inner, traced)
        return outs, functools.partial(_pulled, rules, back)
    outs, back = _reverse(*_member_rules(rules, level, inner), traced)

    def pullback(gs: list[Any]) -> list[Any]:
        found = back([spread(level, g) for g in gs])
        return [None if g is None else _gathered(level, g) for g in found]

    return wrapped(level, outs), pullback


def _pulled(rules: Rules, back: Back, gs: list[Any]) -> Values:
    """Call a pullback with cotangents, which may be mapped although no operand is."""
    level = _looping(rules, gs)
    if level is None:
        with _loop_advice(rules, gs):
            return back(gs)
    mapped = [spread(level, g) for g in gs]
    members = [_pulled(rules, back, [g[(k, ...)] for g in mapped]) for k in range(level.members)]
    return wrapped(level, _stacked(members))


@contextlib.contextmanager
def _loop_advice(rules: Rules, values: Values) -> Iterator[None]:
    """Add the advice ``batch="loop"`` to errors that mapped values caused."""
    try:
        yield
    except TracedValueError as error:
        if rules.loop or _LOOP in str(error) or not isinstance(newest_level(values), Batch):
            raise
        raise TracedValueError(
            f"{rules.name}: with batch='vmap' the function and its rules must consist of agrad functions: {error}. "
            f"{_LOOP}"
        ) from error


_LOOP = 'Pass batch="loop" to call them once for each batch element.'


def _forward(rules: Rules, inner: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
    level = _looping(rules, [*inner, *tangents])
    if level is None:
        with _loop_advice(rules, [*inner, *tangents]):
            return rules.forward(inner, traced, tangents)
    outs, pushed = _forward(*_member_rules(rules, level, inner), traced, [spread(level, t) for t in tangents])
    return wrapped(level, outs), wrapped(level, pushed)


def check_older(outs: Values, level: Any, name: str) -> None:
    """Raise ``NotDifferentiableError`` if the transform recorded a result.

    The rule then used a Tensor that is not among its arguments.
    """
    for out in outs:
        value = recorded_part(out)
        while isinstance(value, Tensor):
            if value.level.id >= level.id and value.node is not None and value.level.derivative:
                raise NotDifferentiableError(
                    f"{name}: the function must not close over a Tensor that is being differentiated, because its "
                    "rule has no derivative for it. Make it an argument, or pass it through agrad.stop_gradient."
                )
            value = value.data


class _Batched(Rules):
    """Rules of all batch elements, whose leaves have the batch axis first.

    They call other rules in one run or in several.
    """

    def __init__(self, rules: Rules, level: Batch, mapped: Sequence[bool]) -> None:
        self.rules, self.level, self.mapped = rules, level, mapped
        self.name, self.loop = rules.name, rules.loop

    def _runs(self, values: Values, mapped: Sequence[bool]) -> list[list[Any]]:
        """Return the values for each run."""
        raise NotImplementedError

    def _each(self, function: Callable[..., Any], rows: list[Any]) -> list[Any]:
        """Call a function for each run."""
        raise NotImplementedError

    def _joined(self, runs: Sequence[Values]) -> list[Any]:
        """Return the values of all batch elements."""
        raise NotImplementedError

    def primal(self, leaves: Values) -> list[Any]:
        return self._joined(self._each(self.rules.primal, [(run,) for run in self._runs(leaves, self.mapped)]))

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        rows = [(run, traced) for run in self._runs(leaves, self.mapped)]
        found = self._each(functools.partial(_reverse, self.rules), rows)

        def pullback(gs: list[Any]) -> list[Any]:
            runs = zip(found, self._runs(gs, [hasattr(g, "shape") for g in gs]), strict=True)
            pulled = [back(run) for (_, back), run in runs]
            return _by_operand(self.mapped, traced, self._joined([[run[i] for i in traced] for run in pulled]))

        return self._joined([outs for outs, _ in found]), pullback

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        along = self._runs(tangents, [self.mapped[i] for i in traced])
        rows = [(run, traced, ts) for run, ts in zip(self._runs(leaves, self.mapped), along, strict=True)]
        found = self._each(functools.partial(_forward, self.rules), rows)
        return self._joined([outs for outs, _ in found]), self._joined([pushed for _, pushed in found])


class _Mapped(_Batched):
    """Rules of all batch elements in one run, on Tensors of one ``vmap``."""

    def renewed(self) -> Rules:
        """Return the rules with a new nesting level, for operands newer than this one."""
        return _Mapped(self.rules.renewed(), Batch(self.level.members), self.mapped)

    def _runs(self, values: Values, mapped: Sequence[bool]) -> list[list[Any]]:
        return [wrapped(self.level, values, mapped)]

    def _each(self, function: Callable[..., Any], rows: list[Any]) -> list[Any]:
        with _loop_advice(self.rules, rows[0][0]):
            return [function(*rows[0])]

    def _joined(self, runs: Sequence[Values]) -> list[Any]:
        return [spread(self.level, value) if hasattr(value, "shape") else value for value in runs[0]]


class _Members(_Batched):
    """Rules called once for each batch element, with the results stacked.

    They serve functions that do not support a batch.
    """

    def _runs(self, values: Values, mapped: Sequence[bool]) -> list[list[Any]]:
        if not self.level.members:
            raise ShapeError(f"{self.name}: with batch='loop' the batch must not be empty")
        return [
            [x[(k, ...)] if m else x for x, m in zip(values, mapped, strict=True)] for k in range(self.level.members)
        ]

    def _each(self, function: Callable[..., Any], rows: list[Any]) -> list[Any]:
        return each_member(self.level, function, rows)

    def _joined(self, runs: Sequence[Values]) -> list[Any]:
        return _stacked(runs)


def _by_operand(mapped: Sequence[bool], traced: Sequence[int], found: Values) -> list[Any]:
    """Return the cotangents of all operands, given those at ``traced``.

    They are summed over the batch if its elements share the operand.
    """
    pairs = zip(traced, found, strict=True)
    own = [g if mapped[i] or not hasattr(g, "shape") else namespace_of((g,)).sum(g, axis=0) for i, g in pairs]
    return replaced([None] * len(mapped), traced, own)


def _stacked(members: Sequence[Values]) -> list[Any]:
    """Return stacked values, given a list of values for each batch element.

    None represents zeros if other batch elements have an array.
    """
    out: list[Any] = []
    for parts in zip(*members, strict=True):
        given = [part for part in parts if part is not None]
        if not given or not hasattr(given[0], "shape"):
            out.append(given[0] if given else None)
            continue
        xp = namespace_of(given)
        zero = xp.zeros_like(given[0]) if len(given) < len(parts) else None
        out.append(xp.stack(lift_all([zero if part is None else part for part in parts])))
    return out
