"""How a function with rules of its own is called: the newest level among its operands is taken off, and records it.

A rule is asked what the level needs, on what is inside the level's Tensors: there it runs as ordinary code, so that
older levels differentiate it, and higher derivatives are derivatives of the rule.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from agrad.backends import backend_of_type
from agrad.dtypes import is_floating
from agrad.engine.batching import Batch
from agrad.engine.calls import alike, fitted, live, newest, record_call
from agrad.engine.levels import AMBIENT, Forward, meta, namespace_of
from agrad.engine.sweep import fit_tangent
from agrad.engine.tape import Node
from agrad.engine.tensor import Tensor, settle, wrap
from agrad.errors import NotDifferentiableError, ShapeError, TracedValueError

Values = Sequence[Any]
Back = Callable[[list[Any]], Values]
"""Takes the cotangent of each floating output to that of each operand (None for 0, and where none was asked for)."""


class Rules(Protocol):
    """A function of leaves, and its derivative both ways; ``traced`` are the operands a derivative is asked for."""

    name: str

    def primal(self, leaves: Values) -> list[Any]: ...

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]: ...

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]: ...


class Looped(Protocol):
    """Rules that say whether ``vmap`` is to call them once a member."""

    loop: bool


def differentiable(value: Any) -> bool:
    """Whether a leaf is an array that can have a derivative."""
    return hasattr(value, "dtype") and is_floating(value.dtype)


def call(rules: Any, leaves: Values) -> list[Any]:
    """The function on leaves that may be Tensors of any levels; results are Tensors where an operand is."""
    outs = _call(rules, leaves)
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        return outs
    return [wrap(o, AMBIENT) if not isinstance(o, Tensor) and backend_of_type(type(o)) is not None else o for o in outs]


def _call(rules: Any, leaves: Values) -> list[Any]:
    leaves = [live(leaf) for leaf in leaves]
    level = newest(leaves)
    if level is None or not (level.tape or isinstance(level, Forward | Batch)):
        # to a level that is neither, a tracer's say, the function is what it is made of
        return [_settled(out) for out in rules.primal(alike(leaves))]
    if isinstance(level, Batch):
        mapped = [isinstance(leaf, Tensor) and leaf.level is level for leaf in leaves]
        inner = [settle(leaf.data) if m else leaf for leaf, m in zip(leaves, mapped, strict=True)]
        many = (_Members if rules.loop else _Mapped)(rules, level, mapped)
        return [level.wrap(out) if hasattr(out, "shape") else out for out in _call(many, inner)]
    traced = [
        i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.level is level and differentiable(leaf)
    ]
    inner = alike([level.inside(leaf) for leaf in leaves])
    if isinstance(level, Forward):
        outs, tangents = _forward(rules, inner, traced, alike([leaves[i].node for i in traced]))
        check_older(outs, level, rules.name)
        return [
            wrap(_settled(out), level, _tangent(t, out, rules.name)) if hasattr(out, "shape") else out
            for out, t in zip(outs, tangents, strict=True)
        ]
    return _record(rules, leaves, inner, level, traced)


def _tangent(t: Any, out: Any, name: str) -> Any:
    if t is None or not differentiable(out):
        return None
    t, out = alike([t, out])
    return settle(fit_tangent(t, out, name))


def _record(rules: Any, leaves: Values, inner: Values, level: Any, traced: list[int]) -> list[Any]:
    outs, back = _reverse(rules, inner, traced)
    check_older(outs, level, rules.name)
    floating = [k for k, out in enumerate(outs) if differentiable(out)]
    if not floating or not traced:
        return [wrap(_settled(out), level) if hasattr(out, "shape") else out for out in outs]
    metas = [meta(leaves[i]) for i in traced]
    # what an unused output's cotangent is made of; one output always has one
    likes = [outs[k] if len(floating) > 1 else None for k in floating]
    # the imperative face's tape may be asked to record the pass on itself: then the rule is run on its own Tensors
    again = list(leaves) if level is AMBIENT else None

    def pull(_: Node, given: list[Any]) -> list[Any]:
        gs = [_zeros(like) if g is None else g for g, like in zip(given, likes, strict=True)]
        pullback = back
        if again is not None and any(isinstance(g, Tensor) and g.level is level for g in gs):
            _, pullback = rules.reverse(alike(again), traced)
        found = pullback(alike(gs))
        return [
            None if found[i] is None else fitted(settle(found[i]), m, rules.name, f"operand {i}")
            for i, m in zip(traced, metas, strict=True)
        ]

    nodes = record_call(rules.name, [leaves[i].node for i in traced], len(floating), pull)
    by_output = dict(zip(floating, nodes, strict=True))
    return [
        wrap(_settled(out), level, by_output.get(k)) if hasattr(out, "shape") else out for k, out in enumerate(outs)
    ]


def _under(level: Batch, value: Any) -> Any:
    """A value with the level's members along its first axis, repeated where they share it."""
    value = _settled(value)
    if isinstance(value, Tensor) and value.level is level:
        return settle(value.data)
    if isinstance(value, Tensor) and isinstance(value.level, Batch) and value.level.id > level.id:
        inner = _under(level, value.data)
        return value.level.wrap(namespace_of((inner,)).moveaxis(inner, 1, 0))
    return namespace_of((value,)).broadcast_to(value, (level.members, *value.shape))


def _over(level: Batch, value: Any) -> Any:
    """The inverse of ``_under``: newer batch levels stay outside."""
    value = _settled(value)
    if isinstance(value, Tensor) and isinstance(value.level, Batch) and value.level.id > level.id:
        return value.level.wrap(_over(level, namespace_of((value.data,)).moveaxis(value.data, 1, 0)))
    return level.wrap(value)


def _looping(rules: Any, values: Values) -> Any:
    """The batch level that members are to be taken from one by one before the rule can run; None for none."""
    level = newest(values)
    return level if rules.loop and isinstance(level, Batch) else None


def _reverse(rules: Any, inner: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
    level = _looping(rules, inner)
    if level is None:
        with _telling(rules, inner):
            outs, back = rules.reverse(inner, traced)
        return outs, functools.partial(_pulled, rules, back)
    arrays = [hasattr(x, "shape") for x in inner]
    spread = [_under(level, x) if m else x for x, m in zip(inner, arrays, strict=True)]
    outs, back = _reverse(_Members(rules, level, arrays), spread, traced)

    def pullback(gs: list[Any]) -> list[Any]:
        found = back([_under(level, g) for g in gs])
        return [None if g is None else _over(level, g) for g in found]

    return [level.wrap(_settled(o)) if hasattr(o, "shape") else o for o in outs], pullback


def _pulled(rules: Any, back: Back, gs: list[Any]) -> Values:
    """What a pullback gives for cotangents that may be mapped, although the operands are not."""
    level = _looping(rules, gs)
    if level is None:
        with _telling(rules, gs):
            return back(gs)
    mapped = [_under(level, g) for g in gs]
    rows = [_pulled(rules, back, [g[(k, ...)] for g in mapped]) for k in range(level.members)]
    out: list[Any] = []
    for parts in zip(*rows, strict=True):
        given = [part for part in parts if part is not None]
        if given:
            zero = namespace_of(given).zeros_like(given[0])
            stacked = namespace_of(given).stack(alike([zero if part is None else part for part in parts]))
            out.append(level.wrap(_settled(stacked)))
        else:
            out.append(None)
    return out


@contextlib.contextmanager
def _telling(rules: Any, values: Values) -> Iterator[None]:
    """Have the error of code that knows nothing of a map say how it is called once a member."""
    try:
        yield
    except TracedValueError as error:
        if rules.loop or _LOOP in str(error) or not isinstance(newest(values), Batch):
            raise
        raise TracedValueError(
            f"{rules.name} and its rule are called for all members of a map at once: {error}; {_LOOP}"
        ) from error


_LOOP = 'for code that is not made of agrad\'s functions give it batch="loop"'


def _forward(rules: Any, inner: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
    level = _looping(rules, [*inner, *tangents])
    if level is None:
        with _telling(rules, [*inner, *tangents]):
            return rules.forward(inner, traced, tangents)
    arrays = [hasattr(x, "shape") for x in inner]
    spread = [_under(level, x) if m else x for x, m in zip(inner, arrays, strict=True)]
    given = [_under(level, t) for t in tangents]
    outs, pushed = _forward(_Members(rules, level, arrays), spread, traced, given)
    return (
        [level.wrap(_settled(o)) if hasattr(o, "shape") else o for o in outs],
        [None if t is None else _over(level, t) for t in pushed],
    )


def _settled(value: Any) -> Any:
    return settle(value) if isinstance(value, Tensor) else value


def _zeros(like: Any) -> Any:
    return namespace_of((like,)).zeros_like(like)


def check_older(outs: Values, level: Any, name: str) -> None:
    """Raise where a result is recorded by the level itself: then the rule used a Tensor it was not handed."""
    for out in outs:
        value = live(out)
        while isinstance(value, Tensor):
            if value.level.id >= level.id and value.node is not None and value.level.derivative:
                raise NotDifferentiableError(
                    f"{name}: it closes over a Tensor that is being differentiated, for which its rule has no "
                    "derivative; make that an argument, or use agrad.stop_gradient on it"
                )
            value = value.data


class _Mapped:
    """Rules of all members at once: a batch level's Tensors are what the rules are handed, and what they give."""

    loop = False

    def __init__(self, rules: Any, level: Batch, mapped: Sequence[bool]) -> None:
        self.rules, self.level, self.mapped = rules, level, mapped
        self.name = rules.name

    def _in(self, leaves: Values) -> list[Any]:
        return [self.level.wrap(x) if m else x for x, m in zip(leaves, self.mapped, strict=True)]

    def _out(self, value: Any) -> Any:
        value = _settled(value)
        if isinstance(value, Tensor) and value.level is self.level:
            return settle(value.data)
        if not hasattr(value, "shape"):
            return value
        return namespace_of((value,)).broadcast_to(value, (self.level.members, *value.shape))

    def primal(self, leaves: Values) -> list[Any]:
        given = self._in(leaves)
        with _telling(self.rules, given):
            return [self._out(out) for out in self.rules.primal(given)]

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        given = self._in(leaves)
        with _telling(self.rules, given):
            outs, back = self.rules.reverse(given, traced)

        def pullback(gs: list[Any]) -> list[Any]:
            mapped = [self.level.wrap(settle(g)) for g in gs]
            with _telling(self.rules, mapped):
                found = back(mapped)
            out: list[Any] = [None] * len(leaves)
            for i in traced:
                if found[i] is not None:
                    g = self._out(found[i])
                    out[i] = g if self.mapped[i] else namespace_of((g,)).sum(g, axis=0)
            return out

        return [self._out(out) for out in outs], pullback

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        given = [self.level.wrap(settle(t)) if self.mapped[i] else t for i, t in zip(traced, tangents, strict=True)]
        with _telling(self.rules, given):
            outs, pushed = self.rules.forward(self._in(leaves), traced, given)
        return [self._out(out) for out in outs], [None if t is None else self._out(t) for t in pushed]


class _Members:
    """Rules called once a member, for functions that know nothing of a batch, and the results stacked."""

    loop = True

    def __init__(self, rules: Any, level: Batch, mapped: Sequence[bool]) -> None:
        self.rules, self.members, self.mapped = rules, level.members, mapped
        self.name = rules.name
        if not self.members:
            raise ShapeError(f"{self.name} is called member by member, and there is none to learn its result from")

    def _member(self, leaves: Values, k: int) -> list[Any]:
        return [x[(k, ...)] if m else x for x, m in zip(leaves, self.mapped, strict=True)]

    @staticmethod
    def _stacked(members: Sequence[Values]) -> list[Any]:
        return [
            namespace_of(parts).stack(alike(parts)) if hasattr(parts[0], "shape") else parts[0]
            for parts in zip(*members, strict=True)
        ]

    def primal(self, leaves: Values) -> list[Any]:
        return self._stacked([self.rules.primal(self._member(leaves, k)) for k in range(self.members)])

    def reverse(self, leaves: Values, traced: Sequence[int]) -> tuple[list[Any], Back]:
        runs = [self.rules.reverse(self._member(leaves, k), traced) for k in range(self.members)]

        def pullback(gs: list[Any]) -> list[Any]:
            found = [back([g[(k, ...)] for g in gs]) for k, (_, back) in enumerate(runs)]
            out: list[Any] = [None] * len(leaves)
            for i in traced:
                given = [row[i] for row in found if row[i] is not None]
                if given:
                    xp = namespace_of(given)
                    if len(given) < self.members:  # None of some members is zero for these alone
                        zero = xp.zeros_like(given[0])
                        given = [zero if row[i] is None else row[i] for row in found]
                    out[i] = xp.stack(alike(given))
                    out[i] = out[i] if self.mapped[i] else xp.sum(out[i], axis=0)
            return out

        return self._stacked([outs for outs, _ in runs]), pullback

    def forward(self, leaves: Values, traced: Sequence[int], tangents: Values) -> tuple[list[Any], list[Any]]:
        runs = []
        for k in range(self.members):
            ts = [t[(k, ...)] if self.mapped[i] else t for i, t in zip(traced, tangents, strict=True)]
            runs.append(self.rules.forward(self._member(leaves, k), traced, ts))
        outs = self._stacked([outs for outs, _ in runs])
        pushed: list[Any] = []
        for i, out in enumerate(outs):
            parts = [p[i] for _, p in runs]
            if all(p is None for p in parts):
                pushed.append(None)
            else:
                zero = namespace_of((out,)).zeros_like(out)
                parts = [zero[(k, ...)] if p is None else p for k, p in enumerate(parts)]
                pushed.append(namespace_of(parts).stack(alike(parts)))
        return outs, pushed
