"""The used elements of cotangents, before an operation that masks.

``where`` and writes return the cotangent 0 for elements that they do not select. The product with an infinite
derivative must be 0 for these elements, and NaN for selected elements with the cotangent 0. The selection therefore
accompanies the cotangent, through operations that are elementwise or move elements. For all other operations, elements
count as used if their cotangent is not 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agrad.engine.joining import NUMPYS
from agrad.engine.levels import GetOutput
from agrad.engine.namespaces import NAMESPACES
from agrad.engine.tape import Node
from agrad.registry import CALLS, names_of
from agrad.shapes import broadcast_axes, normalize_axes

Apply = Callable[[Node, Any, Any], tuple[Any, ...]]
"""Function of a node, its cotangent, and the same as a ``Masked`` or None. It returns the cotangents of the parents."""


class Used:
    """The used elements of a cotangent: Booleans that are computed on demand.

    ``exact`` is False if elements with the cotangent 0 are among the unused elements.
    """

    __slots__ = ("array", "exact", "sources", "step")

    def __init__(self, step: Callable[..., Any] | None, sources: Sequence["Used"] = (), exact: bool = True) -> None:
        self.step: Callable[..., Any] | None = step
        self.sources: Sequence[Used] = sources
        self.array: Any = None
        self.exact: bool = exact and all(source.exact for source in sources)

    @property
    def by_value(self) -> bool:
        """True if elements with the cotangent 0 are unused, and no Booleans are computed."""
        return self.array is None and not self.exact and not self.sources

    def value(self) -> Any:
        """Return the Booleans, without recursion, because chains may be long."""
        waiting = [self]
        while waiting:
            top = waiting[-1]
            more = [source for source in top.sources if source.array is None]
            waiting += more
            if not more:
                waiting.pop()
                if top.array is None:
                    top.array = top.step(*[source.array for source in top.sources])  # type: ignore[misc]
                    top.step, top.sources = None, ()
        return self.array


ALL, BY_VALUE = Used(None), Used(None, exact=False)
"""All elements, and those that are not 0."""


def _together(a: Used, b: Used) -> Used:
    """Return the elements that one of two cotangents of one array uses."""
    if a is b or ALL in (a, b):
        return ALL if ALL in (a, b) else a
    if BY_VALUE in (a, b):
        return BY_VALUE
    return Used(lambda x, y: NAMESPACES[type(x)].logical_or(x, y), (a, b))


class Masked(NamedTuple):
    """A cotangent with its used elements, the argument of guarded pullbacks."""

    g: Any
    used: Used


def zero_masked(used: Used, part: Any) -> Any:
    """Return the result of a rule with 0 for unused elements.

    Finite NumPy arrays are returned unchanged, because a cotangent of 0 times a finite derivative is 0.
    """
    if type(part) in NUMPYS and np.isfinite(part).all():
        return part
    return CALLS["zero_masked"](used.value(), part, used.exact)


class Masks:
    """The used elements of the cotangents of a pass."""

    __slots__ = ("cotangents", "used")

    def __init__(self, cotangents: dict[Node, Any]) -> None:
        self.cotangents: dict[Node, Any] = cotangents
        self.used: dict[Node, Used] = {}
        """The used elements of each node that received a cotangent after the first mask."""

    def guarded(self, apply: Apply) -> Callable[[Node, Any], tuple[Any, ...]]:
        """Return the function that runs pullbacks, guarded if there are unused elements."""
        return lambda node, g: self._pull(node, g, apply)

    def _pull(self, node: Node, g: Any, apply: Apply) -> tuple[Any, ...]:
        """Return the cotangents of the parents, and store their used elements."""
        primitive, mine = node.plan.primitive, self.used.pop(node, ALL)
        if mine is not ALL and primitive.elementwise and not primitive.finite_slopes and node.plan.names:
            used = Used(lambda: g != 0, exact=False) if mine is BY_VALUE else mine
            parts = apply(node, g, Masked(g, used))
            mine = mine if used.array is None else used
        else:
            parts = apply(node, g, None)
        pulled = None
        if primitive.rows is not None and mine is not BY_VALUE and parts[0] is not None:
            pulled = _of_rows(node, mine, tuple(parts[0].shape))
        elif primitive.moves and (primitive.masks or mine not in (ALL, BY_VALUE)):
            pulled = _pulled(node, g, mine, apply)
        links = node.links
        for k, (parent, part) in enumerate(zip(links if type(links) is tuple else (links,), parts, strict=True)):
            if part is not None:
                by_rows = isinstance(primitive, GetOutput) and parent.plan.primitive.rows is not None
                self.add(parent, mine if by_rows else _of_parent(primitive, mine, pulled, k, g, part))
        return parts

    def add(self, parent: Node, used: Used) -> None:
        """Add the used elements of a cotangent."""
        if parent in self.used:
            used = _together(self.used[parent], used)
        elif parent in self.cotangents and used is not ALL:
            used = BY_VALUE  # the other part is from before the first mask
        self.used[parent] = used


def _of_parent(primitive: Any, mine: Used, pulled: Used | None, k: int, g: Any, part: Any) -> Used:
    if pulled is not None:
        return ALL if pulled is ALL else Used(lambda parts: parts[k], (pulled,))
    if primitive.masks or "indices" in primitive.constant or isinstance(primitive, GetOutput):
        return BY_VALUE  # of a part of an array, whose other parts may be used
    if mine is ALL or mine is BY_VALUE:
        return mine
    if not primitive.elementwise:
        return BY_VALUE
    if part.shape == g.shape:
        return mine
    shape = tuple(part.shape)
    return Used(lambda used: _any_to(used, shape), (mine,))


def _of_rows(node: Node, mine: Used, shape: tuple[int, ...]) -> Used:
    """Return the used elements of an array whose rows are used if one of their results is."""
    find, axis = _declared(node), node.plan.primitive.rows
    if mine is ALL:
        return ALL if find is None else Used(lambda: [find()])
    axes = normalize_axes((node.saved or ())[-1]["axis"] if axis == "axis" else axis, len(shape))

    def step(used: Any) -> Any:
        xp = NAMESPACES[type(used)]
        if len(used.shape) == len(shape):
            used = xp.any(used, axis=axes, keepdims=True)
        elif used.shape:
            used = xp.reshape(used, tuple(1 if i in axes else n for i, n in enumerate(shape)))
        every = xp.broadcast_to(used, shape)
        return [every if find is None else xp.logical_and(every, find())]

    return Used(step, (mine,))


def _declared(node: Node) -> Callable[[], Any] | None:
    """Return the function for the used elements of the first argument, or None if all are used."""
    if node.plan.primitive.used is None:
        return None
    saved, (names, settings) = node.saved or (), names_of(node.plan.primitive.used)
    known = dict(zip(node.plan.names, saved, strict=True))
    values = [known[name] for name in names if name != "xp"]
    options = {name: saved[-1][name] for name in settings}
    return node.plan.primitive.used(NAMESPACES[type(values[0])], *values, **options)


def _pulled(node: Node, g: Any, mine: Used, apply: Apply) -> Used:
    """Return the used elements of the parents of an operation that moves elements.

    The rules receive ones for used elements and zeros for others.
    """
    again = Node()
    again.plan, again.saved, again.links = node.plan, node.saved, node.links

    def step(*used: Any) -> Any:
        xp = NAMESPACES[type(g)]
        every = used[0] if used else g != 0 if mine is BY_VALUE else xp.ones_like(g)
        return [None if part is None else part != 0 for part in apply(again, xp.astype(every, g.dtype), None)]

    return Used(step, () if mine in (ALL, BY_VALUE) else (mine,), exact=mine is not BY_VALUE)


def _any_to(used: Any, shape: tuple[int, ...]) -> Any:
    """Return the used elements of an array that was broadcast."""
    xp = NAMESPACES[type(used)]
    return xp.reshape(xp.any(used, axis=broadcast_axes(shape, tuple(used.shape))), shape)
