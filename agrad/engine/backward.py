"""The imperative face's ``backward``: from a Tensor to the ``.grad`` of the leaves it was made from."""

import weakref
from typing import Any

from agrad.backends import backend_of
from agrad.dtypes import dtype_name
from agrad.engine.levels import AMBIENT, SPACES
from agrad.engine.sweep import accumulate, sweep
from agrad.engine.tape import LEAF
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import DtypeError, MixedBackendsError, NotDifferentiableError, ShapeError
from agrad.registry import CALLS


def cotangent_for(y: Any, gradient: Any, what: str) -> Any:
    """The cotangent to start from: ``gradient`` checked against ``y``, or one where ``y`` has one element."""
    raw = y.raw if isinstance(y, Tensor) else y
    xp = SPACES[type(raw)]
    if gradient is None:
        if raw.shape and any(n != 1 for n in raw.shape):
            raise ShapeError(
                f"{what} of an array of shape {tuple(raw.shape)} needs a cotangent of that shape; "
                "give one, or reduce to one element first, with agrad.sum say"
            )
        return xp.ones_like(raw)
    given = gradient.raw if isinstance(gradient, Tensor) else gradient
    if not hasattr(given, "shape"):
        raise ShapeError(f"the cotangent must be an array of shape {tuple(raw.shape)}, not {type(given).__name__}")
    if tuple(given.shape) != tuple(raw.shape):
        raise ShapeError(f"the cotangent has shape {tuple(given.shape)}; it must have the result's, {tuple(raw.shape)}")
    if backend_of(given) is not backend_of(raw):
        raise MixedBackendsError(
            f"the cotangent is an array of {backend_of(given).name}, the result one of {backend_of(raw).name}; "
            f'move it: g.to("{backend_of(raw).name}")'
        )
    if given.dtype != raw.dtype:
        raise DtypeError(
            f"the cotangent has dtype {dtype_name(given.dtype)}; it must have the result's, {dtype_name(raw.dtype)}"
        )
    return gradient


def backward(tensor: Tensor, gradient: Any, retain_graph: bool, create_graph: bool) -> None:
    """See ``Tensor.backward``."""
    if tensor.level is not AMBIENT:
        raise NotDifferentiableError(
            "backward() of a value inside a transform, which differentiates it itself; use agrad.grad inside"
        )
    node = tensor.node
    if node is None:
        raise NotDifferentiableError(
            "backward() of a Tensor that nothing recorded: make an input with requires_grad=True, outside of no_grad"
        )
    g = cotangent_for(tensor, gradient, "backward()")
    if create_graph:
        g = g if isinstance(g, Tensor) else wrap(g, AMBIENT)
        leaves = sweep({node: g}, retain=True, level=AMBIENT)
    else:
        g = g.data if isinstance(g, Tensor) else g
        leaves = sweep({node: g}, retain=retain_graph)
    for leaf, cotangent in leaves.items():
        accumulate(leaf, cotangent)


def retain_grad(tensor: Tensor) -> None:
    """See ``Tensor.retain_grad``."""
    node = tensor.node
    if node is None:
        raise NotDifferentiableError("retain_grad() of a Tensor that requires no gradient")
    if node.plan is not LEAF and not node.plan.retains:
        node.plan = node.plan.primitive.variant(node.plan, retains=True)
        node.owner = weakref.ref(tensor)


CALLS["backward"] = backward
CALLS["retain_grad"] = retain_grad
