"""The imperative interface: ``Tensor.backward``, hooks and retained gradients."""

import math
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from agrad.backends import backend_of
from agrad.dtypes import dtype_name, is_floating
from agrad.engine.backward import accumulate, backward_pass, topological_order
from agrad.engine.calls import array_of_number
from agrad.engine.joining import beside, is_numpys, moves
from agrad.engine.layouts import copy_if_aliased
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.namespaces import NAMESPACES
from agrad.engine.tape import LEAF, Node, next_id
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import DtypeError, MixedBackendsError, NotDifferentiableError, OperandError, ShapeError, described
from agrad.registry import CALLS


def cotangent_for(y: Any, gradient: Any, what: str) -> Any:
    """Return the initial cotangent ``gradient`` after a check against ``y``.

    None means 1, if ``y`` has one element. A Python number is a cotangent of an array of shape (). ``what`` is the
    caller, for error messages.
    """
    raw = y.raw if isinstance(y, Tensor) else y
    shape = tuple(y.shape)  # for a mapped value, the shape of one batch element
    if gradient is None:
        if math.prod(shape) != 1:
            raise ShapeError(
                f"{what}: the array must have a single element, got shape {shape}. Pass a cotangent of that shape, or "
                "reduce the array first, for example with agrad.sum."
            )
        like = y if len(raw.shape) != len(shape) else raw
        return NAMESPACES[type(like)].ones_like(like)
    gradient = gradient if shape else array_of_number(gradient, raw)
    given = gradient.raw if isinstance(gradient, Tensor) else gradient
    if not hasattr(given, "shape"):
        raise ShapeError(f"{what}: the cotangent must be an array of shape {shape}, got {described(given)}")
    if tuple(gradient.shape) != shape:
        raise ShapeError(f"{what}: the cotangent must have shape {shape}, got {tuple(gradient.shape)}")
    if not is_numpys(raw) and moves(given, raw):
        gradient = beside(gradient, raw)
        given = gradient.raw if isinstance(gradient, Tensor) else gradient
    if backend_of(given) is not backend_of(raw):
        raise MixedBackendsError(
            f"{what}: the cotangent must be an array of {backend_of(raw).name}, got one of {backend_of(given).name}. "
            f'Move it: g.to("{backend_of(raw).name}").'
        )
    if given.dtype != raw.dtype:
        raise DtypeError(
            f"{what}: the cotangent must have dtype {dtype_name(raw.dtype)}, got {dtype_name(given.dtype)}"
        )
    return gradient


def starting_cotangents(nodes: Iterable[Node | None], cotangents: Iterable[Any]) -> dict[Node, Any]:
    """Return the sums of cotangents by node, without pairs with None."""
    starts: dict[Node, Any] = {}
    for node, g in zip(nodes, cotangents, strict=True):
        if node is not None and g is not None:
            starts[node] = starts[node] + g if node in starts else g
    return starts


def nodes_before(ends: Iterable[Node], since: int) -> list[Node]:
    """Return the nodes up to ``since`` that later nodes before ``ends`` depend on."""
    return [node for node in topological_order(ends, since) if node.id <= since]


def backward(tensor: Tensor, gradient: Any, retain_graph: bool, create_graph: bool) -> None:
    """Implement ``Tensor.backward``."""
    if tensor.level is not GLOBAL_TAPE:
        raise NotDifferentiableError(
            "backward() must not be called on a value inside a transform. Use agrad.grad there."
        )
    node = tensor.node
    if node is None:
        raise _unrecorded(tensor, "backward()")
    g = cotangent_for(tensor, gradient, "backward()")
    given = () if gradient is None else (gradient,)
    if create_graph:
        g = g if isinstance(g, Tensor) else wrap(g, GLOBAL_TAPE)
        leaves = backward_pass({node: g}, retain=True, level=GLOBAL_TAPE)
    else:
        g = g.data if isinstance(g, Tensor) else g
        leaves = backward_pass({node: g}, retain=retain_graph)
    for leaf, cotangent in zip(leaves, copy_if_aliased(leaves.values(), given), strict=True):
        accumulate(leaf, cotangent)


def _unrecorded(tensor: Tensor, what: str) -> NotDifferentiableError:
    """Return the error for a Tensor that is not recorded, with the probable cause."""
    ended = getattr(tensor, "_ended", None)
    if ended is not None:
        return NotDifferentiableError(
            f"{what}: the Tensor must be recorded, got the result of {ended.name}, which has no derivative. "
            f"Leave {ended.name} out of the computation, or replace it by a differentiable operation."
        )
    if not is_floating(tensor.data.dtype):
        return NotDifferentiableError(
            f"{what}: the Tensor must have a floating-point dtype, got {tensor.dtype}, which has no derivative. "
            "Compute it without comparisons, argmax and casts to integers."
        )
    return NotDifferentiableError(
        f"{what}: the Tensor must be recorded, got a constant. Make an input with requires_grad=True, outside of "
        "no_grad, and use no operation without a derivative (sign, round, floor, argmax, comparisons) on the way."
    )


def _owner_of(node: Node) -> Tensor | None:
    """Return the Tensor that stores the gradient at a node, if it exists."""
    owner = getattr(node, "owner", None)
    return None if owner is None else owner()


def warn_of_no_leaf(tensor: Tensor) -> None:
    """Warn about ``.grad`` of the result of an operation, which is None."""
    node = tensor.node
    if type(node) is not Node or _owner_of(node) is tensor:
        return
    warnings.warn(
        f".grad of the result of {node.plan.primitive.name} is None: backward() fills it for leaves only. To update "
        "a leaf, write `with agrad.no_grad(): w -= lr * w.grad`, as w = w - lr * w.grad makes it a result. Call "
        "retain_grad() before backward() for the gradient of a result.",
        stacklevel=3,
    )


def retain_grad(tensor: Tensor) -> None:
    """Implement ``Tensor.retain_grad``."""
    node = tensor.node
    if node is None:
        raise _unrecorded(tensor, "retain_grad()")
    if node.plan is LEAF:
        return
    if not node.plan.retains:
        node.plan = node.plan.primitive.variant(node.plan, retains=True)
    if _owner_of(node) is None:
        node.owner = weakref.ref(tensor)


class HookHandle:
    """The result of ``register_hook``, also a context manager that removes the hook."""

    __slots__ = ("_hooks", "_key")

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks = hooks
        self._key = key

    def remove(self) -> None:
        """Remove the hook. Calling it again does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> "HookHandle":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Any) -> HookHandle:
    """Implement ``Tensor.register_hook``."""
    if not callable(hook):
        raise OperandError(f"register_hook: hook must be a function of a gradient, got {described(hook)}")
    node = tensor.node
    if not tensor.level.tape:
        raise NotDifferentiableError(
            f"register_hook: the Tensor must be recorded in reverse mode, got a value of {tensor.level.name}. Register "
            "the hook inside agrad.grad, or before backward()."
        )
    if node is None:
        raise _unrecorded(tensor, "register_hook()")
    if not hasattr(node, "hooks"):
        node.hooks = {}
    if node.plan is not LEAF and not node.plan.retains:
        node.plan = node.plan.primitive.variant(node.plan, retains=True)
    key = next_id()
    node.hooks[key] = hook
    return HookHandle(node.hooks, key)


CALLS["backward"] = backward
CALLS["register_hook"] = register_hook
CALLS["retain_grad"] = retain_grad
CALLS["warn_of_no_leaf"] = warn_of_no_leaf
