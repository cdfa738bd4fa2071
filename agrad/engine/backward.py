"""The backward pass, and the function that fits a cotangent to its argument."""

import threading
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np

from agrad.backends.base import DEVICE_SCOPES
from agrad.dtypes import dtype_name, is_complex
from agrad.engine.anomalies import check_cotangents
from agrad.engine.layouts import copied
from agrad.engine.levels import GLOBAL_TAPE, GetOutput, OutputCotangents, select
from agrad.engine.masks import BY_VALUE, Apply, Masked, Masks
from agrad.engine.namespaces import NAMESPACES, namespace_of
from agrad.engine.observing import observed_run
from agrad.engine.tape import LEAF, Meta, Node, Plan, change_mode, mode
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import AgradError, AnomalyError, GraphFreedError, RuleError
from agrad.shapes import broadcast_axes, broadcasts_to

Pull = Callable[[Node, Any], tuple[Any, ...]]
Visit = Callable[[Node, Any], None]

_accumulating = threading.Lock()

_by_birth = attrgetter("id")


def topological_order(roots: Iterable[Node], since: int = 0) -> list[Node]:
    """Return the roots and all nodes that they depend on, parents last.

    Nodes with serial numbers up to ``since`` are ends, whose parents are not visited.
    """
    seen = set(roots)
    stack = [node for node in seen if node.id > since] if since else list(seen)
    while stack:
        links = stack.pop().links
        for parent in links if type(links) is tuple else (links,):
            if parent not in seen:
                seen.add(parent)
                if parent.id > since:
                    stack.append(parent)
    # the serial number of a node is larger than the numbers of its parents
    return sorted(seen, key=_by_birth, reverse=True)


def backward_pass(
    cotangents: dict[Node, Any], *, retain: bool, level: Any = None, visit: Visit | None = None, since: int = 0
) -> dict[Node, Any]:
    """Propagate cotangents back, and return the cotangent of each leaf reached.

    ``retain`` keeps the saved values for another pass. With a ``level``, the rules run on Tensors of that level, which
    records them. ``visit`` is called with every node and its complete cotangent, in a pass that changes no ``.grad``.
    The pass ends at nodes with serial numbers up to ``since``, and returns their cotangents too.
    """
    if not DEVICE_SCOPES:
        return _backward_pass(cotangents, retain, level, visit, since)
    with DEVICE_SCOPES[0].preserved():
        return _backward_pass(cotangents, retain, level, visit, since)


def _backward_pass(
    cotangents: dict[Node, Any], retain: bool, level: Any, visit: Visit | None, since: int
) -> dict[Node, Any]:
    masks: Masks | None = None
    sliced, leaves = False, dict[Node, Any]()
    lifted = level is not None or holds_tensor(cotangents.values())
    sums_slices = level is None and visit is None and not (mode().anomaly or mode().observers)
    pull = _pullback_for(level, lifted, masks)
    take, nodes = cotangents.pop, topological_order(cotangents, since)
    for node in [node for node in nodes if node.id > since] if since else nodes:
        g = take(node, None)
        if g is None:
            continue
        if sliced and type(g) is SliceCotangents:
            g = g.total()
        if visit is not None:
            visit(node, g)
        plan = node.plan
        if plan is LEAF:
            leaves[node] = g
            continue
        if node.saved is None:
            raise freed(node)
        if plan.needs_slow_path:
            if plan.retains and visit is None:
                g = _retained(node, g)
            if sums_slices and plan.primitive.sum_slices is not None and plan.count == 1:
                if masks is not None:
                    masks.add(node.parents[0], BY_VALUE)
                _add_slice(cotangents, node, g)
                sliced, node.saved = True, node.saved if retain else None
                continue
            if (plan.lifted and not lifted) or (plan.primitive.masks and masks is None):
                masks, lifted = Masks(cotangents) if plan.primitive.masks else masks, lifted or plan.lifted
                pull = _pullback_for(level, lifted, masks)
        try:
            parts = plan.pullback(node, g) if pull is None else pull(node, g)
        except AnomalyError:
            raise
        except Exception as error:
            raise rule_failed(node, g, error) from error
        links = node.links
        for parent, part in zip(links if type(links) is tuple else (links,), parts, strict=True):
            if part is not None:
                if parent not in cotangents:
                    cotangents[parent] = part
                elif lifted and isinstance(part, Tensor) and type(cotangents[parent]) is not SliceCotangents:
                    # on the left, because + of an array library may reject other types
                    cotangents[parent] = part + cotangents[parent]
                else:
                    # not in a variable: if this is the only reference, NumPy adds in place
                    cotangents[parent] = take(parent) + part
        if not retain:
            node.saved = None
    for node in leaves if visit is None else ():
        if hasattr(node, "hooks"):
            leaves[node] = run_hooks(node, leaves[node])
    for node, g in cotangents.items():
        leaves[node] = g.total() if type(g) is SliceCotangents else g
    return leaves


def holds_tensor(values: Iterable[Any]) -> bool:
    """Return True if a Tensor is among the values."""
    for value in values:  # noqa: SIM110 (a generator would be another call in each pass)
        if isinstance(value, Tensor):
            return True
    return False


def freed(node: Node) -> GraphFreedError:
    """Return the error of a second pass over a node whose values are freed."""
    return GraphFreedError(
        f"an earlier backward pass freed the values that {node.plan.primitive.name} needs. Pass retain_graph=True to "
        "that pass, or compute the result again."
    )


def _retained(node: Node, g: Any) -> Any:
    """Run the hooks of a node, and store its cotangent as ``.grad`` of its Tensor."""
    if hasattr(node, "hooks"):
        g = run_hooks(node, g)
    if hasattr(node, "owner"):
        accumulate(node, copied(g))
    return g


class SliceCotangents:
    """The cotangents of parts of one array, to be added in one new array.

    Otherwise, each part would be added as an array of the full size. For an array that is read part by part, the work
    would be the square of its size.
    """

    __slots__ = ("call", "indices", "meta", "parts")

    def __init__(self, node: Node, g: Any) -> None:
        saved = node.saved
        assert saved is not None
        self.call: Any = node.plan.primitive.sum_slices
        self.meta: Meta = saved[0]
        self.parts: list[Any] = [g]
        self.indices: list[Any] = [saved[-1]["index"]]

    def __add__(self, other: Any) -> "SliceCotangents":
        """Add the cotangents of other parts, or of the whole array, in place.

        Only the backward pass refers to both objects.
        """
        if type(other) is SliceCotangents:
            other.parts += self.parts
            other.indices += self.indices
            return other
        self.parts.append(other)
        self.indices.append(_WHOLE)
        return self

    def total(self) -> Any:
        """Return the cotangent of the whole array."""
        parts, indices = self.parts, self.indices
        if holds_tensor(parts):
            # few at once, because each number of arguments has separate code
            while len(parts) > _AT_ONCE:
                first = self.call(*parts[:_AT_ONCE], indices=tuple(indices[:_AT_ONCE]), shape=self.meta.shape)
                parts, indices = [first, *parts[_AT_ONCE:]], [_WHOLE, *indices[_AT_ONCE:]]
        return fit(self.call(*parts, indices=tuple(indices), shape=self.meta.shape), self.meta, False, "getitem", "x")


def _add_slice(cotangents: dict[Node, Any], node: Node, g: Any) -> None:
    (parent,) = node.parents
    part = SliceCotangents(node, g)
    cotangents[parent] = part + cotangents[parent] if parent in cotangents else part


_WHOLE = (Ellipsis,)
_AT_ONCE = 32


def run_hooks(node: Node, g: Any) -> Any:
    """Return the cotangent of a node after its hooks, which may replace it."""
    for hook in list(node.hooks.values()):
        seen = g if isinstance(g, Tensor) else wrap(g, GLOBAL_TAPE)
        given = hook(seen)
        if given is None:
            continue
        raw = given.raw if isinstance(given, Tensor) else given
        if not hasattr(raw, "shape") or tuple(given.shape) != tuple(seen.shape):
            shape = tuple(given.shape) if hasattr(given, "shape") else type(given).__name__
            raise RuleError(f"a hook must return an array of shape {tuple(seen.shape)}, got {shape}")
        if dtype_name(raw.dtype) != dtype_name(seen.dtype):
            raise RuleError(f"a hook must return dtype {dtype_name(seen.dtype)}, got {dtype_name(raw.dtype)}")
        g = given if isinstance(g, Tensor) else raw
    return g


def accumulate(node: Node, cotangent: Any) -> None:
    """Add a cotangent to ``.grad`` of the Tensor of a node, if it still exists.

    The Tensor refers to the gradient, and not the node: a gradient from ``create_graph`` refers to the node, which
    would be a cycle.
    """
    owner = getattr(node, "owner", None)
    tensor = None if owner is None else owner()
    if tensor is None:
        return
    if DEVICE_SCOPES:
        with DEVICE_SCOPES[0].preserved():
            DEVICE_SCOPES[0].switch_to(cotangent)
            _accumulate(tensor, cotangent)
    else:
        _accumulate(tensor, cotangent)


def _accumulate(tensor: Tensor, cotangent: Any) -> None:
    with _accumulating:  # two backward passes at once may reach one leaf
        earlier = None if getattr(tensor, "_grad", None) is None else tensor.grad
        if earlier is not None:
            cotangent = earlier + cotangent if isinstance(cotangent, Tensor) else earlier.data + cotangent
        recorded = isinstance(cotangent, Tensor) and cotangent.level.id >= 0
        tensor._grad = cotangent if recorded else wrap(cotangent, GLOBAL_TAPE)
        tensor._grad._link = None  # an array, and no scalar


def _pullback_for(level: Any, lifted: bool, masks: Masks | None) -> Pull | None:
    """Return the function that runs pullbacks, or None to call them directly.

    After an operation that masks (``where``), used elements accompany the cotangents, and rules are guarded. If
    cotangents may be Tensors, plain saved values are lifted. Only a pass that reaches such a node does this work.
    """
    watched = mode().anomaly or mode().observers
    if level is None and not lifted and masks is None and not watched and not DEVICE_SCOPES:
        return None
    apply = guarded_pullback if level is None else _recorded_pullback(level)
    pull: Any = apply if masks is None else masks.guarded(apply)
    if DEVICE_SCOPES:
        pull = _device_guarded(pull)
    return _watched(pull) if watched else pull


def _device_guarded(pull: Pull) -> Pull:
    """Return a pullback that runs on the device of its cotangent.

    The device of its results remains current, for their sums.
    """
    device_scope = DEVICE_SCOPES[0]

    def on_device(node: Node, g: Any) -> tuple[Any, ...]:
        device_scope.switch_to(*(g.by_output.values() if isinstance(g, OutputCotangents) else (g,)))
        parts = pull(node, g)
        device_scope.switch_to(*parts)
        return parts

    return on_device


def guarded_pullback(node: Node, g: Any, masked: Masked | None = None) -> tuple[Any, ...]:
    plan = node.plan
    lifts = not plan.lifted and (
        isinstance(g, Tensor) or (type(g) is OutputCotangents and holds_tensor(g.by_output.values()))
    )
    if (masked is None and not lifts) or not plan.names:
        return plan.pullback(node, g)
    return _run(plan.primitive.variant(plan, lifted=lifts, guarded=masked is not None), node, g, masked)


def _run(plan: Plan, node: Node, g: Any, masked: Masked | None) -> tuple[Any, ...]:
    if masked is None:
        return plan.pullback(node, g)
    with np.errstate(all="ignore"):
        return plan.pullback(node, masked)


def _watched(pull: Pull) -> Pull:
    def watched(node: Node, g: Any) -> tuple[Any, ...]:
        now = mode()
        observers = () if isinstance(node.plan.primitive, GetOutput) else now.observers
        with change_mode(inside_rule=True):
            parts: tuple[Any, ...] = observed_run(
                observers, lambda observer, proceed: observer.pullback(node, g, proceed), lambda: pull(node, g)
            )
        if now.anomaly and not now.inside_rule:
            check_cotangents(node, g.by_output.values() if isinstance(g, OutputCotangents) else (g,), parts)
        return parts

    return watched


def rule_failed(node: Node, g: Any, error: Exception) -> Exception:
    """Return the error of a failed rule, with the shapes of its values."""
    plan = node.plan
    shapes = [
        f"{name} {tuple(value.shape)}"
        for name, value in zip(plan.names, node.saved or (), strict=False)
        if hasattr(value, "shape")
    ]
    kept = f", kept: {', '.join(shapes)}" if shapes else ""
    where = getattr(node, "where", None)
    line = f"recorded at {where}" if where else "run it under agrad.detect_anomaly() to see the line that recorded it"
    kind = type(error) if isinstance(error, AgradError) else RuleError
    return kind(
        f"the backward rule of {plan.primitive.name} for {', '.join(plan.arguments)} failed: {error} (cotangent "
        f"{tuple(getattr(g, 'shape', ()))}{kept}); {line}"
    )


def sum_to(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum ``g`` over the axes along which ``shape`` was broadcast to its shape."""
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


def shrink(g: Any, target: Meta) -> Any:
    """Sum a cotangent of a result over the axes along which an argument was broadcast."""
    return sum_to(NAMESPACES[type(g)], g, target.shape) if broadcasts_to(target.shape, tuple(g.shape)) else g


def product(g: Any, value: Any, target: Meta) -> Any:
    """Return ``g * value``, summed along the last axis if the target has length 1."""
    shape = tuple(g.shape)
    if (
        target.shape[-1:] == (1,) != shape[-1:]
        and getattr(value, "shape", ())[-1:] == g.shape[-1:]
        and value.dtype == g.dtype
        and not is_complex(g.dtype)
        and broadcasts_to(target.shape, shape)
    ):
        xp = NAMESPACES[type(g)]
        return xp.reshape(xp.vecdot(g, value), (*shape[:-1], 1))
    return g * value


def fit(g: Any, target: Meta, broadcasts: bool, name: str, argument: str) -> Any:
    """Fit a cotangent to its argument: sum broadcast axes, restore the dtype.

    Axes are summed only for a primitive that broadcasts. Otherwise, a wrong shape means that the rule is wrong.
    """
    if g is None:
        return None
    shape = tuple(g.shape) if hasattr(g, "shape") else None
    if shape != target.shape and (shape is None or not broadcasts or not broadcasts_to(target.shape, shape)):
        got = type(g).__name__ if shape is None else shape
        raise RuleError(f"the rule of {name} for {argument} must return an array of shape {target.shape}, got {got}")
    xp = NAMESPACES[type(g)]
    return _to_dtype(xp, g if shape == target.shape else sum_to(xp, g, target.shape), target.dtype)


def fit_tangent(t: Any, out: Any, name: str) -> Any:
    """Fit a tangent to its output: broadcast to the shape, restore the dtype."""
    if t is None:
        return None
    if not hasattr(t, "shape"):
        raise RuleError(f"the forward rule of {name} must return an array, got {type(t).__name__}")
    if t.shape == out.shape and t.dtype is out.dtype:
        return t
    xp = namespace_of((t,))
    if tuple(t.shape) != tuple(out.shape):
        t = xp.broadcast_to(t, tuple(out.shape))
    return _to_dtype(xp, t, out.dtype)


def _recorded_pullback(level: Any) -> Apply:
    """Return the function that runs pullbacks on Tensors of ``level``, recorded."""

    def pull(node: Node, g: Any, masked: Masked | None = None) -> tuple[Any, ...]:
        plan = node.plan
        if not plan.names:
            return plan.pullback(node, g)
        linked = Node()
        linked.saved = linked_values(node, level)
        return _run(plan.primitive.variant(plan, lifted=True, guarded=masked is not None), linked, g, masked)

    return pull


def linked_values(node: Node, level: Any) -> tuple[Any, ...]:
    """Return the saved values of a node as Tensors of ``level`` with their nodes."""
    plan, outputs = node.plan, node.plan.primitive.outputs
    links = dict(zip(plan.arguments, node.parents, strict=True))
    values = []
    for name, value in zip(plan.names, node.saved or (), strict=True):
        if name in links:
            value = wrap(value, level, links[name])
        elif outputs is None and name == "y":
            value = wrap(value, level, node)
        elif outputs is not None and name in outputs:
            value = wrap(value, level, select(node, outputs.index(name)))
        values.append(value)
    return tuple(values)
