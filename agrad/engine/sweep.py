"""The backward pass, and the one place that fits a cotangent to its argument."""

import threading
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np

from agrad.backends.base import DEVICE_GUARDS
from agrad.dtypes import dtype_name, is_complex
from agrad.engine.levels import AMBIENT, SPACES, Parts, Selector, check_finite_cotangent, namespace_of, select
from agrad.engine.observing import observed_run
from agrad.engine.tape import LEAF, Meta, Node, inside_rule, mode
from agrad.engine.tensor import Tensor, wrap
from agrad.engine.views import copied
from agrad.errors import AgradError, AnomalyError, GraphFreedError, RuleError
from agrad.registry import CALLS
from agrad.shapes import broadcast_axes

Pull = Callable[[Node, Any], tuple[Any, ...]]

_accumulating = threading.Lock()

_by_birth = attrgetter("id")


def order(roots: Iterable[Node], since: int = 0) -> list[Node]:
    """Every node that the roots were made from, themselves among them, each before all it was made from.

    With ``since``, a serial number, nothing is sought behind the nodes numbered up to it.
    """
    seen = set(roots)
    stack = [node for node in seen if node.id > since] if since else list(seen)
    if since:
        while stack:
            for parent in stack.pop().parents:
                if parent not in seen:
                    seen.add(parent)
                    if parent.id > since:
                        stack.append(parent)
        return sorted(seen, key=_by_birth, reverse=True)
    while stack:
        for parent in stack.pop().parents:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    # birth order is a topological order: a node is younger than what it was made from
    return sorted(seen, key=_by_birth, reverse=True)


def sweep(cotangents: dict[Node, Any], **options: Any) -> dict[Node, Any]:
    """Carry the cotangents of some nodes back to the leaves, each node on the device of its arrays; see ``_sweep``."""
    if not DEVICE_GUARDS:
        return _sweep(cotangents, **options)
    with DEVICE_GUARDS[0].preserved():
        return _sweep(cotangents, **options)


def _sweep(
    cotangents: dict[Node, Any],
    *,
    retain: bool,
    level: Any = None,
    visit: Callable[[Node, Any], None] | None = None,
    since: int = 0,
) -> dict[Node, Any]:
    """Carry the cotangents of some nodes back to the leaves; gives the cotangent of each leaf reached.

    ``retain`` keeps the tape's saved values for another pass. With a ``level`` the rules run on Tensors of that level,
    so that the pass is itself recorded; else they run on what was kept, and make no Tensor where that is raw.
    ``visit`` is called with every node and its whole cotangent; such a pass only looks, and adds to no ``.grad``.
    With ``since``, a serial number, the pass ends at the nodes numbered up to it, and gives their cotangents too.
    """
    guarded = pooled = False
    pools = level is None and visit is None and not (mode().anomaly or mode().observers or mode().trace)
    lifted = level is not None or any(isinstance(g, Tensor) for g in cotangents.values())
    pull = _pull_for(level, lifted, guarded)
    leaves: dict[Node, Any] = {}
    shown: list[Any] = []  # to hooks, which may record with it: a tape may hold it weakly, and it must not change
    take = cotangents.pop
    nodes = order(cotangents, since)
    while since and nodes and nodes[-1].id <= since:
        nodes.pop()  # their cotangents stay, and are given back below
    for node in nodes:
        g = take(node, None)
        if g is None:
            continue
        if pooled and type(g) is Pool:
            g = g.total()
        if visit is not None:
            visit(node, g)
        plan = node.plan
        if plan is LEAF:
            leaves[node] = g
            continue
        if node.saved is None:
            raise GraphFreedError(
                f"the values kept for {plan.primitive.name} were freed by an earlier backward pass; "
                "give that pass retain_graph=True, or compute the result again"
            )
        if plan.detours:
            if plan.retains and visit is None:
                if hasattr(node, "hooks"):
                    shown.append(g)
                    g = run_hooks(node, g)
                if hasattr(node, "owner"):
                    accumulate(node, copied(g))
            if pools and plan.pool is not None:
                (parent,) = node.parents
                held = cotangents.get(parent)
                if type(held) is not Pool:
                    held = cotangents[parent] = Pool(plan, node, held)
                    pooled = True
                held.add(g, node.saved[plan.pool[1]])
                if not retain:
                    node.saved = None
                continue
            if (plan.lifted and not lifted) or (plan.primitive.masks and not guarded):
                guarded, lifted = guarded or plan.primitive.masks, lifted or plan.lifted
                pull = _pull_for(level, lifted, guarded)
        try:
            parts = plan.pull(node, g) if pull is None else pull(node, g)
        except AnomalyError:
            raise
        except Exception as error:
            raise rule_failed(node, g, error) from error
        for parent, part in zip(node.parents, parts, strict=True):
            if part is not None:
                if parent in cotangents:
                    if lifted and isinstance(part, Tensor) and type(cotangents[parent]) is not Pool:
                        # on the left: an array library's + may refuse strangers
                        cotangents[parent] = part + cotangents[parent]
                    else:
                        # in no variable: where nobody else holds the array either, NumPy adds to it in its place
                        cotangents[parent] = take(parent) + part
                else:
                    cotangents[parent] = part
        if not retain:
            node.saved = None
    if visit is None:
        for node in leaves:
            if hasattr(node, "hooks"):
                leaves[node] = run_hooks(node, leaves[node])
    if since:
        leaves.update({node: g.total() if type(g) is Pool else g for node, g in cotangents.items()})
    return leaves


class Pool:
    """The cotangents of parts of one array, added up in one new array when all are there.

    One by one each part would be put into zeros of the whole array's size, and these added: of an array that is read
    part by part, time step by time step, the square of its size.
    """

    __slots__ = ("call", "indices", "meta", "parts")

    def __init__(self, plan: Any, node: Node, whole: Any) -> None:
        saved = node.saved
        assert saved is not None
        self.call, _, meta = plan.pool
        self.meta = saved[meta]
        self.parts: list[Any] = []
        self.indices: list[Any] = []
        if whole is not None:
            self.add(whole, _WHOLE)

    def add(self, part: Any, index: Any) -> None:
        """Take up the cotangent of what is at an index."""
        self.parts.append(part)
        self.indices.append(index)

    def __add__(self, whole: Any) -> "Pool":
        """This one, with a cotangent of the whole array taken up: a backward pass alone holds it."""
        self.add(whole, _WHOLE)
        return self

    def total(self) -> Any:
        """The cotangent of the whole array."""
        parts, indices = self.parts, self.indices
        if any(isinstance(part, Tensor) for part in parts):
            # few at once: each number of arguments has code of its own
            while len(parts) > _AT_ONCE:
                first = self.call(*parts[:_AT_ONCE], indices=tuple(indices[:_AT_ONCE]), shape=self.meta.shape)
                parts, indices = [first, *parts[_AT_ONCE:]], [_WHOLE, *indices[_AT_ONCE:]]
        return fit(self.call(*parts, indices=tuple(indices), shape=self.meta.shape), self.meta, False, "getitem", "x")


_WHOLE = (Ellipsis,)
_AT_ONCE = 32


def run_hooks(node: Node, g: Any) -> Any:
    """The cotangent of a node after its hooks, in the order they were registered; each may give another one."""
    for hook in list(node.hooks.values()):
        seen = g if isinstance(g, Tensor) else wrap(g, AMBIENT)
        given = hook(seen)
        if given is None:
            continue
        raw = given.raw if isinstance(given, Tensor) else given
        if not hasattr(raw, "shape") or tuple(given.shape) != tuple(seen.shape):
            shape = tuple(given.shape) if hasattr(given, "shape") else type(given).__name__
            raise RuleError(f"a hook gave {shape} for a gradient of shape {tuple(seen.shape)}; it gives one like it")
        if dtype_name(raw.dtype) != dtype_name(seen.dtype):
            raise RuleError(f"a hook gave {dtype_name(raw.dtype)} for a gradient of dtype {dtype_name(seen.dtype)}")
        g = given if isinstance(g, Tensor) else raw
    return g


def accumulate(node: Node, cotangent: Any) -> None:
    """Add a cotangent to the ``.grad`` of the Tensor whose node this is, if it is still there.

    The Tensor holds its gradient, not the node: one made with ``create_graph`` holds the node, and would hold itself.
    """
    owner = getattr(node, "owner", None)
    tensor = None if owner is None else owner()
    if tensor is None:
        return
    if DEVICE_GUARDS:
        with DEVICE_GUARDS[0].preserved():
            DEVICE_GUARDS[0].switch_to(cotangent)
            _accumulate(tensor, cotangent)
    else:
        _accumulate(tensor, cotangent)


def _accumulate(tensor: Tensor, cotangent: Any) -> None:
    with _accumulating:  # two backward passes at once may reach one leaf
        earlier = tensor.grad
        if earlier is not None:
            cotangent = earlier + cotangent if isinstance(cotangent, Tensor) else earlier.data + cotangent
        recorded = isinstance(cotangent, Tensor) and cotangent.level.id >= 0
        tensor._grad = cotangent if recorded else wrap(cotangent, AMBIENT)


def _pull_for(level: Any, lifted: bool, guarded: bool) -> Pull | None:
    """How the nodes to come are pulled: None for the ordinary way, a plan's own pull, called in place.

    Behind an operation that masks (``where``), cotangents are zero where a branch was not used, and there a value that
    is not finite must not turn them into nan: a guarded pass mends that. Where cotangents may be Tensors, what was kept
    raw is lifted beside them. Only a pass that meets such a node pays for it.
    """
    if level is not None:
        pull = _recorded_pull(level, guarded)
    elif lifted or guarded:
        pull = _detour(guarded)
    elif mode().anomaly or mode().observers or DEVICE_GUARDS:
        pull = _plain_pull
    else:
        return None
    if DEVICE_GUARDS:
        pull = _device_guarded(pull)
    return _watched(pull) if mode().anomaly or mode().observers else pull


def _plain_pull(node: Node, g: Any) -> tuple[Any, ...]:
    return node.plan.pull(node, g)


def _device_guarded(pull: Pull) -> Pull:
    """Run a pullback on the device of its cotangent, and leave the device of its results current for their sums."""
    device_guard = DEVICE_GUARDS[0]

    def on_device(node: Node, g: Any) -> tuple[Any, ...]:
        device_guard.switch_to(*(g.by_output.values() if isinstance(g, Parts) else (g,)))
        parts = pull(node, g)
        device_guard.switch_to(*parts)
        return parts

    return on_device


def _detour(guarded: bool) -> Pull:
    def pull(node: Node, g: Any) -> tuple[Any, ...]:
        plan = node.plan
        guards = guarded and plan.primitive.elementwise
        lifts = not plan.lifted and _holds_tensor(g)
        if not (guards or lifts) or not plan.names:
            return plan.pull(node, g)
        twin = plan.primitive.variant(plan, lifted=lifts, guarded=guards)
        if not guards:
            return twin.pull(node, g)
        with np.errstate(all="ignore"):
            return twin.pull(node, g)

    return pull


def _holds_tensor(g: Any) -> bool:
    if isinstance(g, Parts):
        return any(isinstance(part, Tensor) for part in g.by_output.values())
    return isinstance(g, Tensor)


def guard(g: Any, part: Any) -> Any:
    """What an elementwise rule made of ``g``, with 0 where ``g`` is 0 and the result is not finite."""
    return CALLS["guard"](g, part)


def _watched(pull: Pull) -> Pull:
    def watched(node: Node, g: Any) -> tuple[Any, ...]:
        now = mode()
        observers = () if isinstance(node.plan.primitive, Selector) else now.observers
        with inside_rule():
            parts: tuple[Any, ...] = observed_run(
                observers, lambda observer, proceed: observer.pull(node, g, proceed), lambda: pull(node, g)
            )
        if now.anomaly and not now.inside_rule:
            for name, part in zip(node.plan.arguments, parts, strict=False):
                check_finite_cotangent(node, g, name, part)
        return parts

    return watched


def rule_failed(node: Node, g: Any, error: Exception) -> Exception:
    """The error of a rule that failed, with the operation, the argument shapes and the cotangent's."""
    plan = node.plan
    shapes = [
        f"{name} {tuple(value.shape)}"
        for name, value in zip(plan.names, node.saved or (), strict=False)
        if hasattr(value, "shape")
    ]
    where = getattr(node, "where", None)
    kind = type(error) if isinstance(error, AgradError) else RuleError
    return kind(
        f"the backward rule of {plan.primitive.name} for {', '.join(plan.arguments)} failed: {error}"
        + f" (cotangent {tuple(getattr(g, 'shape', ()))}"
        + (f", kept: {', '.join(shapes)}" if shapes else "")
        + ")"
        + (
            f"; recorded at {where}"
            if where
            else "; run it under agrad.detect_anomaly() to see the line that recorded it"
        )
    )


def sum_to(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """``g`` summed over the axes along which an array of ``shape`` was broadcast to ``g``'s shape."""
    axes = broadcast_axes(shape, tuple(g.shape))
    if axes:
        g = xp.sum(g, axis=axes, keepdims=len(g.shape) == len(shape))
    return g if tuple(g.shape) == shape else xp.reshape(g, shape)


def _to_dtype(xp: Any, value: Any, dtype: Any) -> Any:
    name = dtype_name(dtype)
    if dtype_name(value.dtype) == name:
        return value
    if is_complex(value.dtype) and not is_complex(dtype):
        value = xp.real(value)  # the imaginary part of a real argument does not exist
        if dtype_name(value.dtype) == name:
            return value
    return xp.astype(value, dtype)


def _was_broadcast(target: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    lead = len(shape) - len(target)
    return lead >= 0 and all(n in (1, m) for n, m in zip(target, shape[lead:], strict=True))


def shrink(g: Any, target: Meta) -> Any:
    """A cotangent of a result summed over the axes along which an argument was broadcast to it."""
    return sum_to(SPACES[type(g)], g, target.shape) if _was_broadcast(target.shape, tuple(g.shape)) else g


def product(g: Any, value: Any, target: Meta) -> Any:
    """``g * value``; where its sum along the last axis is what is asked for, that in one pass, without the product."""
    shape = tuple(g.shape)
    if (
        target.shape[-1:] == (1,) != shape[-1:]
        and getattr(value, "shape", ())[-1:] == g.shape[-1:]
        and value.dtype == g.dtype
        and not is_complex(g.dtype)
        and _was_broadcast(target.shape, shape)
    ):
        xp = SPACES[type(g)]
        return xp.reshape(xp.vecdot(g, value), (*shape[:-1], 1))
    return g * value


def fit(g: Any, target: Meta, broadcasts: bool, name: str, argument: str) -> Any:
    """A cotangent as its argument's: broadcast axes summed, the dtype restored, real for a real argument.

    Only a primitive that broadcasts may have axes summed; anywhere else a wrong shape is the rule's error.
    """
    if g is None:
        return None
    if not hasattr(g, "shape"):
        raise RuleError(
            f"the rule of {name} for {argument} returned {type(g).__name__}, not an array of shape {target.shape}"
        )
    shape = tuple(g.shape)
    xp = SPACES[type(g)]
    if shape != target.shape:
        if not (broadcasts and _was_broadcast(target.shape, shape)):
            raise RuleError(
                f"the rule of {name} returned a cotangent of shape {shape} for {argument} of shape {target.shape}"
            )
        g = sum_to(xp, g, target.shape)
    return _to_dtype(xp, g, target.dtype)


def fit_tangent(t: Any, out: Any, name: str) -> Any:
    """A tangent as its output's: broadcast to its shape, with its dtype, real for a real output."""
    if t is None:
        return None
    if not hasattr(t, "shape"):
        raise RuleError(f"the forward rule of {name} returned {type(t).__name__}, not an array")
    if t.shape == out.shape and t.dtype is out.dtype:
        return t
    xp = namespace_of((t,))
    if tuple(t.shape) != tuple(out.shape):
        t = xp.broadcast_to(t, tuple(out.shape))
    return _to_dtype(xp, t, out.dtype)


def _recorded_pull(level: Any, guarded: bool) -> Pull:
    """Rules run on Tensors of ``level``: what was kept is linked to the tape again, so that the pass is recorded."""

    def pull(node: Node, g: Any) -> tuple[Any, ...]:
        plan = node.plan
        primitive = plan.primitive
        if not plan.names:
            return plan.pull(node, g)
        links = dict(zip(plan.arguments, node.parents, strict=True))
        outputs = primitive.outputs
        values = []
        for name, value in zip(plan.names, node.saved or (), strict=True):
            if name in links:
                value = wrap(value, level, links[name])
            elif outputs is None and name == "y":
                value = wrap(value, level, node)
            elif outputs is not None and name in outputs:
                value = wrap(value, level, select(node, outputs.index(name)))
            values.append(value)
        linked = Node()
        linked.saved = tuple(values)
        if guarded and primitive.elementwise:
            with np.errstate(all="ignore"):
                return primitive.variant(plan, lifted=True, guarded=True).pull(linked, g)
        return primitive.variant(plan, lifted=True).pull(linked, g)

    return pull
