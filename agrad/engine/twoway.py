"""A tape that tangents can be carried along as well as cotangents, for who learns only at its end which is less work.

It keeps every operand and result, where a plain tape keeps what the backward rules name: forward rules name others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agrad.engine.levels import Reverse, pushed
from agrad.engine.sweep import order
from agrad.engine.tape import LEAF, Node


class Entry(NamedTuple):
    """One operation: the nodes of its arguments (None for constants) and of its results, and what it computed."""

    primitive: Any
    parents: tuple[Node | None, ...]
    nodes: tuple[Node, ...]
    inner: list[Any]
    out: Any
    settings: dict[str, Any]


class TwoWay(Reverse):
    """A reverse level that keeps what ``push`` needs besides. Its operations take the long call path."""

    __slots__ = ("entries",)

    short = False

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

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
        made = super().record(primitive, args, inner, out, settings, traced, lifted)
        nodes = tuple([part.node for part in (made if isinstance(made, tuple) else (made,))])
        if nodes and nodes[0] is not None:
            parents = tuple([args[i].node if i in traced else None for i in range(len(args))])
            self.entries.append(Entry(primitive, parents, nodes, inner, out, settings))
        return made

    def reaching(self, ends: Sequence[Node | None]) -> list[Entry] | None:
        """The operations that the nodes ``ends`` were made by, in order; None where one of them is not of a primitive.

        Functions with derivatives of their own are recorded as a whole, with a pullback alone.
        """
        needed = set(order([node for node in ends if node is not None]))
        entries = [entry for entry in self.entries if not needed.isdisjoint(entry.nodes)]
        known = {node for entry in entries for node in entry.nodes}
        for entry in entries:
            if entry.primitive.outputs is not None:
                known.update(entry.nodes[0].parents)  # the operation's own, behind those of its outputs
        if any(node.plan is not LEAF and node not in known for node in needed):
            return None
        return entries


def push_along(entries: Sequence[Entry], tangents: Mapping[Node, Any], ends: Sequence[Node | None]) -> list[Any]:
    """The tangents of the nodes ``ends``, from those of leaves; None for zero. A tangent goes when it is used up."""
    carried = dict(tangents)
    left = Counter(parent for entry in entries for parent in entry.parents if parent is not None)
    left.update(node for node in ends if node is not None)
    for entry in entries:
        traced = tuple([i for i, parent in enumerate(entry.parents) if parent is not None and parent in carried])
        if traced:
            given = [carried[entry.parents[i]] for i in traced]  # type: ignore[index]
            found = pushed(entry.primitive, traced, given, entry.inner, entry.out, entry.settings)
            if found is not None:
                carried.update((node, t) for node, t in zip(entry.nodes, found, strict=True) if t is not None)
        for parent in entry.parents:
            if parent is not None:
                left[parent] -= 1
                if not left[parent]:
                    carried.pop(parent, None)
    return [None if node is None else carried.get(node) for node in ends]
