"""``grad``, ``value_and_grad``, ``vjp`` and ``jvp``: derivatives of functions of nested containers of arrays.

Raw arrays in give raw arrays out, Tensors in give Tensors out. Each call opens a level of its own, so transforms nest
in any order.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from agrad.engine.backward import cotangent_for
from agrad.engine.explain import called
from agrad.engine.levels import Forward, Reverse, namespace_of
from agrad.engine.sweep import sweep
from agrad.engine.tape import Node, leaf_node
from agrad.engine.tensor import settle
from agrad.engine.views import copied
from agrad.errors import OperandError, ShapeError
from agrad.transforms.inputs import (
    ArgNums,
    Chosen,
    Inputs,
    aux_of,
    check_complex,
    check_scalar,
    leave_tree,
    out_tangent,
    outputs_of,
    owned_tree,
    split,
    tangent_for,
    zeros,
)
from agrad.transforms.trees import flatten, unflatten


def value_and_grad(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The function that gives both ``f`` and its gradient by the arguments at ``argnums``, in one pass.

    f: gives a real array of shape (), or with ``has_aux`` a pair (that, aux). Its differentiated arguments are nested
    containers (dict, list, tuple, namedtuple, dataclass) of floating arrays or Tensors; Python floats and complex
    numbers count as arrays of the selected backend. ``argnums``: their positions, or their names, however they are
    given. The new function takes ``f``'s arguments and gives (value, gradient), or ((value, aux), gradient); the
    gradient has the argument's structure, shapes and dtypes, and is a tuple where ``argnums`` is one. What ``f`` does
    not depend on has the gradient zero. For complex arguments see the conventions; ``holomorphic`` says that ``f`` is
    a holomorphic function of complex arguments that gives a complex number, whose gradient is its derivative.
    """

    @functools.wraps(f)
    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        name = f"the gradient of {getattr(f, '__name__', 'a function')}"
        chosen = Chosen(f, args, kwargs, argnums, name)
        inputs = Inputs(chosen.values, chosen.places, name)
        if holomorphic:
            check_complex(inputs)
        level = Reverse()
        roots = [leaf_node() for _ in inputs.values]
        out = chosen.call(inputs.lift(level, roots))
        out, aux = aux_of(out, name) if has_aux else (out, None)
        check_scalar(out, name, holomorphic)
        y, node = split(out, level)
        found: dict[Node, Any] = {}
        if node is not None:
            found = sweep({node: namespace_of((y,)).ones_like(y)}, retain=False)
        gradients = inputs.restore(
            [found[root] if root in found else zeros(value) for root, value in zip(roots, inputs.values, strict=True)]
        )
        value = inputs.leave(y)
        if has_aux:
            value = (value, leave_tree(aux, level, inputs))
        return owned_tree((value, chosen.result(gradients)), args, kwargs)

    return with_gradient


def grad(
    f: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of ``f`` by the arguments at ``argnums``.

    As ``value_and_grad`` without the value; with ``has_aux`` it gives (gradient, aux).
    """
    both = value_and_grad(f, argnums, has_aux, holomorphic)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, out = both(*args, **kwargs)
        return (out, value[1]) if has_aux else out

    return gradient


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)`` and its pullback, which takes a cotangent of the result to a tuple of the primals' cotangents.

    primals, and ``f``'s result: nested containers of arrays. The pullback may be called any number of times; a
    cotangent has the result's structure, shapes and dtypes. Gives (value, pullback), with ``has_aux`` also aux.
    """
    name = f"the vjp of {getattr(f, '__name__', 'a function')}"
    inputs = Inputs(primals, [f"primal {i}" for i in range(len(primals))], name)
    level = Reverse()
    roots = [leaf_node() for _ in inputs.values]
    out = called(f, *inputs.lift(level, roots))
    out, aux = aux_of(out, name) if has_aux else (out, None)
    pairs, spec = outputs_of(out, level, name)

    pullback = pullback_of(pairs, spec, roots, inputs)
    # the tape may keep the values, and is read by every call of the pullback
    value = unflatten(spec, [inputs.leave(y if node is None else copied(y)) for y, node in pairs])
    value, aux = owned_tree((value, leave_tree(aux, level, inputs)), primals)
    return (value, pullback, aux) if has_aux else (value, pullback)


def pullback_of(
    pairs: Sequence[tuple[Any, Any]], spec: Any, roots: Sequence[Node], inputs: Inputs
) -> Callable[[Any], tuple[Any, ...]]:
    """The function that takes a cotangent of results, ``pairs`` of value and node, to those of the inputs."""

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        given, given_spec = flatten(cotangent)
        if given_spec != spec:
            raise ShapeError(f"{inputs.what}: the cotangent's structure is {given_spec}; the result's is {spec}")
        starts: dict[Node, Any] = {}
        for (y, node), g in zip(pairs, given, strict=True):
            if node is not None:
                g = settle(cotangent_for(y, g, inputs.what))
                starts[node] = starts[node] + g if node in starts else g
        found = sweep(starts, retain=True) if starts else {}
        pulled = inputs.restore(
            [found[root] if root in found else zeros(value) for root, value in zip(roots, inputs.values, strict=True)]
        )
        return owned_tree(pulled, given, inputs.leaves)

    return pullback


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``f(*primals)`` and its derivative along ``tangents``, computed forward, without a graph.

    primals: a tuple of nested containers of arrays; tangents: the same structures, shapes and dtypes. Gives
    (value, tangent of the value), with ``has_aux`` also aux. Memory does not grow with the number of operations.
    """
    name = f"the jvp of {getattr(f, '__name__', 'a function')}"
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise OperandError(f"{name}: primals and tangents are tuples, one entry an argument of the function")
    inputs = Inputs(primals, [f"primal {i}" for i in range(len(primals))], name)
    given, given_spec = flatten(tuple(tangents))
    if given_spec != inputs.spec:
        raise ShapeError(f"{name}: the tangents' structure is {given_spec}; the primals' is {inputs.spec}")
    checked = [
        settle(tangent_for(value, t, place, name))
        for value, t, place in zip(inputs.values, given, inputs.places, strict=True)
    ]
    level = Forward()
    out = called(f, *inputs.lift(level, checked))
    out, aux = aux_of(out, name) if has_aux else (out, None)
    pairs, spec = outputs_of(out, level, name)
    value = unflatten(spec, [inputs.leave(y) for y, _ in pairs])
    tangent = unflatten(spec, [inputs.leave(out_tangent(y, t)) for y, t in pairs])
    out = (value, tangent, leave_tree(aux, level, inputs)) if has_aux else (value, tangent)
    return owned_tree(out, primals, tangents)
