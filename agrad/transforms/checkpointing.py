"""``checkpoint``: what a function computes in between is not kept, and computed again when the backward pass comes.

The function runs and is recorded as ever. Then, on every tape that its results are on, the nodes it made are let go
and one call stands in their place, from the nodes that were there before: those of its arguments, and of everything
else it used. So closures need no care, and a tape inside a tape is cut as well. The pullback runs the function again,
sweeps what that records, and is itself a checkpoint, so that higher derivatives keep as little.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agrad.engine.calls import live, record_call
from agrad.engine.levels import AMBIENT, Forward
from agrad.engine.states import Recorded, recording_states, replaying
from agrad.engine.sweep import order, sweep
from agrad.engine.tape import LEAF, Node, mode, next_id, outside_rules, recording_from
from agrad.engine.tensor import Tensor, settle, wrap
from agrad.engine.views import owned
from agrad.errors import OperandError, RuleError
from agrad.registry import CALLS
from agrad.transforms.trees import flatten_all, unflatten

Function = Callable[..., Any]


def checkpoint(f: Function) -> Function:
    """``f``, recomputed in the backward pass: of all it computes, only its arguments and results stay in memory.

    f: takes and gives nested containers of anything; it is called once more for each backward pass through it, so it
    must do the same each time. Arrays it closes over, a module's parameters say, are differentiated as ever. Draws from
    ``agrad.random``'s generators and ``agrad.nn``'s dropout repeat what they were, whatever was drawn in between; other
    state that ``f`` changes must be announced with ``agrad.note_state``. What it writes to a Tensor that it is handed
    is written there as ever, and a result like others. Works at every level, on Tensors with
    ``.backward()`` and inside transforms, nested, and in forward mode, where it changes nothing. The backward pass
    raises ``RuleError`` where the second run uses other Tensors than the first, or gives another number of results.
    """
    if not callable(f):
        raise OperandError(f"checkpoint takes a function, not {type(f).__name__}")

    @functools.wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = flatten_all((args, kwargs))
        held = [settle(leaf) for leaf in leaves]
        name = f"checkpoint {getattr(f, '__name__', type(f).__name__)}"
        out_spec: list[Any] = []
        written: list[Any] = []

        def run() -> list[Any]:
            # handles of its own for each run: what f writes to its arguments is no part of the next one
            again = [_handle(value, leaf) for value, leaf in zip(held, leaves, strict=True)]
            before = [_standing(handle) for handle in again]
            given, named = unflatten(spec, again)
            out, found = flatten_all(f(*given, **named))
            changed = [i for i, handle in enumerate(again) if _standing(handle) != before[i]]
            out_spec[:], written[:] = [found], [leaves[i] for i in changed]
            return [*out, *[again[i] for i in changed]]

        outs = _cut(run, name)
        count = len(outs) - len(written)
        for leaf, value in zip(written, outs[count:], strict=True):
            CALLS["write"](leaf, value, name)
        raw = not any(isinstance(leaf, Tensor) for leaf in leaves)
        return unflatten(out_spec[0], owned(outs[:count], leaves) if raw else outs[:count])

    return checkpointed


def _handle(value: Any, leaf: Any) -> Any:
    """An argument as another object of the same kind."""
    if not isinstance(leaf, Tensor):
        return leaf
    return settle(value) if isinstance(value, Tensor) else wrap(value, AMBIENT)


def _standing(value: Any) -> tuple[int, int]:
    """What a Tensor stands for, which a write changes."""
    return (id(value.data), id(value.node)) if isinstance(value, Tensor) else (0, 0)


def _cut(run: Callable[[], list[Any]], name: str) -> list[Any]:
    """What ``run`` gives, with one call in the place of what it recorded, on each tape."""
    since = next_id()
    with recording_states() as states:
        outs = run()
    found: dict[int, tuple[Any, dict[Node, None]]] = {}
    for out in outs:
        for level, node in _places(out):
            if node.id > since:
                found.setdefault(level.id, (level, {}))[1].setdefault(node)
    if not found:
        return outs
    instead: dict[Node, Node] = {}
    for level, roots in found.values():
        ends = list(roots)
        parents = [node for node in order(ends, since) if node.id <= since]
        if not parents:
            continue
        pull = _Pull(run, name, level, _paths(outs, ends), len(outs), parents, states)
        nodes = record_call(name, parents, len(ends), pull)
        instead.update(zip(ends, nodes, strict=True))
        for end, node in zip(ends, nodes, strict=True):
            if hasattr(end, "hooks") or hasattr(end, "owner"):
                _carry(end, node)
    return [_replaced(out, instead) for out in outs]


def _carry(end: Node, node: Node) -> None:
    """Let what hangs on a result's node, hooks or a retained gradient, hang on the one in its place."""
    if end.plan is LEAF:
        return
    if hasattr(end, "hooks"):
        node.hooks, end.hooks = end.hooks, {}
    if hasattr(end, "owner"):
        node.owner, end.owner = end.owner, None
    node.plan = node.plan.primitive.variant(node.plan, retains=True)


def _places(value: Any) -> Iterator[tuple[Any, Node]]:
    """Every place that a value has on a tape: its own, and those of what is inside it and of its tangents."""
    while isinstance(value, Tensor):
        if value.level.tape:
            if value.node is not None:
                yield value.level, value.node
        elif isinstance(value.level, Forward) and value.node is not None:
            yield from _places(value.node)
        value = value.data


def _paths(outs: Sequence[Any], ends: Sequence[Node]) -> list[tuple[int, int]]:
    """Where each node stands: in which result, and the how-manieth of its places."""
    first: dict[Node, tuple[int, int]] = {}
    for i, out in enumerate(outs):
        for k, (_, node) in enumerate(_places(out)):
            first.setdefault(node, (i, k))
    return [first[node] for node in ends]


def _replaced(value: Any, instead: dict[Node, Node]) -> Any:
    if not isinstance(value, Tensor):
        return value
    data = _replaced(value.data, instead)
    node = value.node
    if value.level.tape:
        node = instead.get(node, node)
    elif isinstance(value.level, Forward):
        node = _replaced(node, instead)
    if data is value.data and node is value.node:
        return value
    return wrap(data, value.level, node)


class _Pull:
    """The pullback of a checkpoint on one tape: the function again, and a sweep over what that records."""

    __slots__ = ("count", "level", "name", "parents", "paths", "run", "states")

    def __init__(
        self,
        run: Callable[[], list[Any]],
        name: str,
        level: Any,
        paths: list[tuple[int, int]],
        count: int,
        parents: list[Node],
        states: Recorded,
    ) -> None:
        self.run, self.name, self.level, self.paths, self.count = run, name, level, paths, count
        self.parents, self.states = parents, states

    def __call__(self, node: Node, given: list[Any]) -> list[Any]:
        now = mode()
        gs = [g for g in given if g is not None]
        recorded = any(isinstance(g, Tensor) and g.level is self.level for g in gs)

        def again() -> list[Any]:
            return self._again(given, recorded)

        with recording_from(self.level.id), outside_rules():
            found = _cut(again, f"backward of {self.name}")
        if now.oldest > self.level.id:  # what is silenced outside stays so
            return [live(g) for g in found]
        return found

    def _again(self, given: list[Any], recorded: bool) -> list[Any]:
        since = next_id()
        with replaying(self.states):
            outs = self.run()
        starts: dict[Node, Any] = {}
        for (i, k), g in zip(self.paths, given, strict=True):
            places = list(_places(outs[i])) if len(outs) == self.count else []
            if k >= len(places) or places[k][0] is not self.level:
                raise RuleError(
                    f"{self.name}: run again for the backward pass it gave other results than the first time; "
                    "a checkpointed function must do the same whenever it is called"
                )
            end = places[k][1]
            if g is not None:
                starts[end] = starts[end] + g if end in starts else g
        level = self.level if recorded else None
        found = sweep(starts, retain=recorded, level=level, since=since) if starts else {}
        known = set(self.parents)
        for reached in found:
            if reached.id <= since and reached not in known:
                raise RuleError(
                    f"{self.name}: run again for the backward pass it used a Tensor that it did not use the first "
                    "time; a checkpointed function must do the same whenever it is called"
                )
        return [found.get(parent) for parent in self.parents]
