"""Products with matrices of derivatives that are never held (``hvp``, ``gnvp``), and linear maps (``linearize``).

A linear operation is recognised by its rule: one that names no value that is differentiated, nor the result, has a
derivative that does not depend on them. So the tape itself says whether a function is linear.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.dtypes import dtype_name, is_floating
from agrad.engine.calls import Call
from agrad.engine.explain import called
from agrad.engine.levels import Reverse, namespace_of
from agrad.engine.sweep import order, sweep
from agrad.engine.tape import LEAF, Node, leaf_node
from agrad.engine.tensor import settle, wrap
from agrad.engine.views import copied
from agrad.errors import DtypeError, NotDifferentiableError, OperandError, ShapeError, TracedValueError
from agrad.transforms.derivatives import grad, jvp, pullback_of, vjp
from agrad.transforms.inputs import (
    ArgNums,
    Chosen,
    Inputs,
    aux_of,
    check_complex,
    leave_tree,
    out_tangent,
    outputs_of,
    owned_tree,
    split,
    tangent_for,
    zeros,
)
from agrad.transforms.trees import flatten, unflatten

Function = Callable[..., Any]


def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The Hessian of ``f`` at ``primals`` times ``tangents``: the derivative of the gradient along them.

    f: gives a real array of shape (), or with ``has_aux`` a pair (that, aux). primals: a tuple, an entry an argument of
    ``f``, of nested containers of arrays; tangents: of the same structures, shapes and dtypes. Gives a tuple like
    ``primals``, with ``has_aux`` also aux. Forward over reverse: about four times the cost of ``f``, and no matrix.
    """
    _check_pair(primals, tangents, "hvp")
    slope = grad(f, argnums=tuple(range(len(primals))), has_aux=has_aux)
    found = jvp(slope, primals, tangents, has_aux=has_aux)
    return (found[1], found[2]) if has_aux else found[1]


def _check_pair(primals: Any, tangents: Any, name: str) -> None:
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise OperandError(f"{name}: primals and tangents are tuples, one entry an argument of the function")
    if len(primals) != len(tangents):
        raise ShapeError(f"{name}: {len(primals)} primals but {len(tangents)} tangents")


def gnvp(f: Function, loss: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Gauss-Newton matrix of ``loss(f(*primals))`` times ``tangents``: J.T (H (J t)).

    J is the Jacobian of ``f`` and H the Hessian of ``loss`` at the value of ``f``; with a convex loss the matrix is
    positive semidefinite (Schraudolph 2002, "Fast curvature matrix-vector products", section 3). f: gives nested
    containers of arrays; loss: of these, gives a real array of shape (). Gives a tuple like ``primals``.
    """
    _check_pair(primals, tangents, "gnvp")
    _, along = jvp(f, primals, tangents)
    value, pull = vjp(f, *primals)
    return pull(hvp(loss, (value,), (along,))[0])


def elementwise_grad(f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    """The function that gives the derivative of each element of ``f`` by its own element of the argument.

    f: each element of its one array is a function of the same element of the arguments (which may broadcast), as of
    ``agrad.tanh``; where it depends on others too, the sum over all elements is what is differentiated. Otherwise as
    ``grad``. Raises ``DtypeError`` for a complex result unless ``holomorphic``, and for integers.
    """

    @functools.wraps(f)
    def slopes(*args: Any, **kwargs: Any) -> Any:
        what = f"the elementwise gradient of {getattr(f, '__name__', 'a function')}"
        chosen = Chosen(f, args, kwargs, argnums, what)
        inputs = Inputs(chosen.values, chosen.places, what)
        if holomorphic:
            check_complex(inputs)
        level = Reverse()
        roots = [leaf_node() for _ in inputs.values]
        out = chosen.call(inputs.lift(level, roots))
        out, aux = aux_of(out, what) if has_aux else (out, None)
        if not hasattr(out, "shape"):
            raise NotDifferentiableError(
                f"{what}: the function must return one array, not a {type(out).__name__}; for containers use agrad.vjp"
            )
        y, node = split(out, level)
        _check_elements(y.dtype, holomorphic, what)
        found = {} if node is None else sweep({node: namespace_of((y,)).ones_like(y)}, retain=False)
        gradients = inputs.restore(
            [found[root] if root in found else zeros(value) for root, value in zip(roots, inputs.values, strict=True)]
        )
        whole = chosen.result(gradients)
        return owned_tree((whole, leave_tree(aux, level, inputs)) if has_aux else whole, args, kwargs)

    return slopes


def _check_elements(dtype: Any, holomorphic: bool, what: str) -> None:
    if not is_floating(dtype):
        raise DtypeError(f"{what}: the function returned dtype {dtype_name(dtype)}, which has no derivative")
    if ("complex" in dtype_name(dtype)) != holomorphic:
        raise DtypeError(
            f"{what}: holomorphic=True is for a function that returns complex numbers, not {dtype_name(dtype)}"
            if holomorphic
            else f"{what}: the function returned complex numbers; set holomorphic=True if it is holomorphic, or use "
            "agrad.vjp"
        )


# ---------------------------------------------------------------- linear maps


def linearize(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)`` and its derivative there as a function of tangents, which does not call ``f`` again.

    primals, and ``f``'s result: nested containers of arrays. The function takes tangents of the primals' structures,
    shapes and dtypes and gives the tangent of the result; it may be called any number of times, and holds the values
    its operations need. Gives (value, function), with ``has_aux`` also aux.

    The pullback is recorded once: a linear function, whose own pullback is that of the transposed transpose.
    """
    what = f"the linearization of {getattr(f, '__name__', 'a function')}"
    inputs = Inputs(primals, [f"primal {i}" for i in range(len(primals))], what)
    level = Reverse()
    roots = [leaf_node() for _ in inputs.values]
    out = called(f, *inputs.lift(level, roots))
    out, aux = aux_of(out, what) if has_aux else (out, None)
    pairs, spec = outputs_of(out, level, what)
    # the pullback at the cotangent 0, on a level of its own
    again = Reverse()
    recorded = [i for i, (_, node) in enumerate(pairs) if node is not None]
    seeds = {i: leaf_node() for i in recorded}
    starts: dict[Node, Any] = {}
    for i in recorded:
        y, node = pairs[i]
        g = wrap(settle(zeros(y)), again, seeds[i])
        starts[node] = starts[node] + g if node in starts else g
    found = sweep(starts, retain=True) if starts else {}
    ends = [split(found[root], again)[1] if root in found else None for root in roots]

    def push(*tangents: Any) -> Any:
        given, given_spec = flatten(tangents)
        if given_spec != inputs.spec:
            raise ShapeError(f"{what}: the tangents' structure is {given_spec}; the primals' is {inputs.spec}")
        checked = [
            tangent_for(value, t, place, what)
            for value, t, place in zip(inputs.values, given, inputs.places, strict=True)
        ]
        back: dict[Node, Any] = {}
        for end, t in zip(ends, map(settle, checked), strict=True):
            if end is not None:
                back[end] = back[end] + t if end in back else t
        pushed = sweep(back, retain=True) if back else {}
        slopes = [pushed.get(seeds[i]) if i in seeds else None for i in range(len(pairs))]
        out = [inputs.leave(out_tangent(y, t)) for (y, _), t in zip(pairs, slopes, strict=True)]
        return owned_tree(unflatten(spec, out), given, inputs.leaves)

    # the tape may keep the values, and is read by every call of the function
    value = unflatten(spec, [inputs.leave(y if node is None else copied(y)) for y, node in pairs])
    value, aux = owned_tree((value, leave_tree(aux, level, inputs)), primals)
    return (value, push, aux) if has_aux else (value, push)


def linear_transpose(f: Function, *primals: Any) -> Function:
    """The transpose of the linear function ``f``: the function that takes a cotangent of its result to a tuple of
    cotangents of its arguments.

    primals: nested containers of arrays, of which only structures, shapes and dtypes matter. Arrays pair as
    Re(sum(a * b)), without conjugation. Raises ``NotDifferentiableError`` where ``f`` is not linear: where an operation
    in it is not, or it is not 0 at 0.
    """
    what = f"the transpose of {getattr(f, '__name__', 'a function')}"
    inputs = Inputs(primals, [f"primal {i}" for i in range(len(primals))], what)
    level = Reverse()
    roots = [leaf_node() for _ in inputs.values]
    inputs.values = [settle(zeros(value)) for value in inputs.values]
    with np.errstate(all="ignore"):  # at 0, what is not linear may well have no value
        pairs, spec = outputs_of(f(*inputs.lift(level, roots)), level, what)
    for node in order([node for _, node in pairs if node is not None]):
        plan = node.plan
        if plan is not LEAF and not is_linear(plan):
            raise NotDifferentiableError(
                f"{what}: it is not linear in its arguments, as {plan.primitive.name} is not in "
                f"{' and '.join(plan.arguments)}; use agrad.vjp, or agrad.linearize at a point"
            )
    for y, _ in pairs:
        with contextlib.suppress(TracedValueError):  # under vmap there is no value to look at
            if hasattr(y, "shape") and bool(namespace_of((y,)).any(y != 0)):
                raise NotDifferentiableError(
                    f"{what}: it is not 0 where its arguments are, so it is affine and not linear; "
                    "subtract its value at 0"
                )
    return pullback_of(pairs, spec, roots, inputs)


def is_linear(plan: Any) -> bool:
    """Whether the derivative of an operation depends neither on what is differentiated nor on the result."""
    if isinstance(plan.primitive, Call):
        return plan.primitive.linear
    outputs = plan.primitive.outputs or ("y",)
    return not set(plan.names) & {*plan.arguments, *outputs}
