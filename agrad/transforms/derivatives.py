"""``grad``, ``value_and_grad``, ``vjp`` and ``jvp``: derivatives of functions of nested containers of arrays.

Raw arrays in give raw arrays out, Tensors in give Tensors out. Each call opens a level of its own, so transforms nest
in any order.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from agrad.backends import backend_of_type, selected
from agrad.dtypes import as_dtype, dtype_name, is_complex, is_floating
from agrad.engine.backward import cotangent_for
from agrad.engine.levels import AMBIENT, Forward, Level, Reverse, namespace_of
from agrad.engine.sweep import sweep
from agrad.engine.tape import Node, is_recording, leaf_node
from agrad.engine.tensor import Tensor, settle, wrap
from agrad.errors import ConfigurationError, DtypeError, NotDifferentiableError, OperandError, ShapeError
from agrad.transforms.trees import flatten, paths, tree_map, unflatten


def _value(leaf: Any, where: str, what: str) -> Any:
    """What a transform differentiates at a leaf: a floating raw array, or a Tensor that an older level records."""
    if isinstance(leaf, float):
        if type(leaf) is float:
            selection = selected()
            return selection.backend.xp.asarray(leaf, dtype=selection.backend.xp.float64)
    elif type(leaf) is int or type(leaf) is bool:
        raise DtypeError(
            f"{what}: {where} is the {type(leaf).__name__} {leaf}, which has no derivative; write {float(leaf)}"
        )
    if not isinstance(leaf, Tensor) and backend_of_type(type(leaf)) is None:
        raise OperandError(f"{what}: {where} is a {type(leaf).__name__}, not an array; it cannot be differentiated")
    if not is_floating(leaf.dtype):
        raise DtypeError(
            f"{what}: {where} has dtype {dtype_name(leaf.dtype)}, which has no derivative; "
            "cast it first: agrad.astype(x, agrad.float64)"
        )
    value = settle(leaf)
    while isinstance(value, Tensor) and not is_recording(value.level.id):
        value = settle(value.data)
    return value


class _Inputs:
    """The differentiated arguments of one call, put on a level, and how results leave it."""

    def __init__(self, trees: Sequence[Any], names: Sequence[str], what: str) -> None:
        self.what = what
        self.leaves, self.spec = flatten(tuple(trees))
        self.places = [_place(p, names) for p in paths(tuple(trees))]
        self.values = [_value(leaf, place, what) for leaf, place in zip(self.leaves, self.places, strict=True)]
        self.tensors = any(isinstance(leaf, Tensor) for leaf in self.leaves)

    def lift(self, level: Level, nodes: Sequence[Any]) -> tuple[Any, ...]:
        lifted = [wrap(value, level, node) for value, node in zip(self.values, nodes, strict=True)]
        if level.tape:
            for tensor in lifted:
                tensor.node.owner = weakref.ref(tensor)
        return unflatten(self.spec, lifted)

    def restore(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Containers like the arguments', around ``values``, as Tensors where the argument's leaf was one."""
        out = [
            wrap(value, AMBIENT)
            if isinstance(leaf, Tensor) and not isinstance(value, Tensor)
            else settle_raw(value, leaf)
            for value, leaf in zip(values, self.leaves, strict=True)
        ]
        return unflatten(self.spec, out)

    def leave(self, value: Any) -> Any:
        """A result as the caller gets it."""
        if isinstance(value, Tensor):
            return value if self.tensors else settle(value)
        if self.tensors and backend_of_type(type(value)) is not None:
            return wrap(value, AMBIENT)
        return value


def settle_raw(value: Any, leaf: Any) -> Any:
    return value if isinstance(leaf, Tensor) else settle(value)


def _place(path: str, names: Sequence[str]) -> str:
    """``argument 0['w']`` for the path ``[0]['w']``."""
    head, _, rest = path.partition("]")
    return names[int(head[1:])] + rest


def _split(value: Any, level: Level) -> tuple[Any, Any]:
    """A result's value without the level, and what the level recorded of it."""
    if isinstance(value, Tensor) and value.level is level:
        return value.data, value.node
    return value, None


def _leave_tree(tree: Any, level: Level, inputs: _Inputs) -> Any:
    return tree_map(lambda leaf: inputs.leave(_split(leaf, level)[0]), tree)


def _zeros(value: Any) -> Any:
    return namespace_of((value,)).zeros_like(value)


def _numbers(argnums: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in given:
        if not -count <= n < count:
            raise ConfigurationError(f"{what}: argnums names argument {n}, but {count} positional arguments were given")
    out = tuple(n % count for n in given)
    if len(set(out)) != len(out):
        raise ConfigurationError(f"{what}: argnums {argnums} names an argument twice")
    return out


def _aux(out: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(out, tuple) or len(out) != 2:
        raise NotDifferentiableError(f"{what}: with has_aux the function must return a pair (value, aux)")
    return out


def _check_scalar(y: Any, what: str) -> None:
    if isinstance(y, (int, float)) and not isinstance(y, Tensor) and not hasattr(y, "shape"):
        return
    if not hasattr(y, "shape"):
        raise NotDifferentiableError(
            f"{what}: the function must return one real number as an array, not a {type(y).__name__}; "
            "with a pair (value, aux) set has_aux=True, for other outputs use agrad.vjp"
        )
    if tuple(y.shape) != ():
        raise ShapeError(
            f"{what}: the function must return an array of shape (), not {tuple(y.shape)}; "
            "reduce it, with agrad.sum say, or use agrad.vjp"
        )
    if is_complex(y.dtype):
        raise DtypeError(f"{what}: the function returned a complex number; take its real part or abs, or use agrad.vjp")
    if not is_floating(y.dtype):
        raise DtypeError(f"{what}: the function returned dtype {as_dtype(y.dtype)}, which has no derivative")


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives both ``f`` and its gradient by the arguments at ``argnums``, in one pass.

    f: gives a real array of shape (), or with ``has_aux`` a pair (that, aux). Its differentiated arguments are nested
    containers (dict, list, tuple, namedtuple, dataclass) of floating arrays or Tensors; Python floats count as float64
    arrays of the selected backend. The new function takes ``f``'s arguments and gives (value, gradient), or
    ((value, aux), gradient); the gradient has the argument's structure, shapes and dtypes, and is a tuple where
    ``argnums`` is one. What ``f`` does not depend on has the gradient zero. For complex arguments see the conventions.
    """

    @functools.wraps(f)
    def with_gradient(*args: Any, **kwargs: Any) -> Any:
        name = f"the gradient of {getattr(f, '__name__', 'a function')}"
        numbers = _numbers(argnums, len(args), name)
        inputs = _Inputs([args[n] for n in numbers], [f"argument {n}" for n in numbers], name)
        level = Reverse()
        roots = [leaf_node() for _ in inputs.values]
        lifted = dict(zip(numbers, inputs.lift(level, roots), strict=True))
        out = f(*[lifted.get(i, arg) for i, arg in enumerate(args)], **kwargs)
        out, aux = _aux(out, name) if has_aux else (out, None)
        _check_scalar(out, name)
        y, node = _split(out, level)
        found: dict[Node, Any] = {}
        if node is not None:
            found = sweep({node: namespace_of((y,)).ones_like(y)}, retain=False)
        gradients = inputs.restore(
            [found[root] if root in found else _zeros(value) for root, value in zip(roots, inputs.values, strict=True)]
        )
        value = inputs.leave(y)
        if has_aux:
            value = (value, _leave_tree(aux, level, inputs))
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return with_gradient


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the gradient of ``f`` by the arguments at ``argnums``.

    As ``value_and_grad`` without the value; with ``has_aux`` it gives (gradient, aux).
    """
    both = value_and_grad(f, argnums, has_aux)

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
    inputs = _Inputs(primals, [f"primal {i}" for i in range(len(primals))], name)
    level = Reverse()
    roots = [leaf_node() for _ in inputs.values]
    out = f(*inputs.lift(level, roots))
    out, aux = _aux(out, name) if has_aux else (out, None)
    leaves, spec = flatten(out)
    pairs = [_split(leaf, level) for leaf in leaves]

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        given, given_spec = flatten(cotangent)
        if given_spec != spec:
            raise ShapeError(f"{name}: the cotangent's structure is {given_spec}; the result's is {spec}")
        starts: dict[Node, Any] = {}
        for (y, node), g in zip(pairs, given, strict=True):
            if node is not None:
                g = settle(cotangent_for(y, g, name))
                starts[node] = starts[node] + g if node in starts else g
        found = sweep(starts, retain=True) if starts else {}
        return inputs.restore(
            [found[root] if root in found else _zeros(value) for root, value in zip(roots, inputs.values, strict=True)]
        )

    value = unflatten(spec, [inputs.leave(y) for y, _ in pairs])
    return (value, pullback, _leave_tree(aux, level, inputs)) if has_aux else (value, pullback)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``f(*primals)`` and its derivative along ``tangents``, computed forward, without a graph.

    primals: a tuple of nested containers of arrays; tangents: the same structures, shapes and dtypes. Gives
    (value, tangent of the value), with ``has_aux`` also aux. Memory does not grow with the number of operations.
    """
    name = f"the jvp of {getattr(f, '__name__', 'a function')}"
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise OperandError(f"{name}: primals and tangents are tuples, one entry an argument of the function")
    inputs = _Inputs(primals, [f"primal {i}" for i in range(len(primals))], name)
    given, given_spec = flatten(tuple(tangents))
    if given_spec != inputs.spec:
        raise ShapeError(f"{name}: the tangents' structure is {given_spec}; the primals' is {inputs.spec}")
    checked = [
        settle(_tangent(value, t, place, name))
        for value, t, place in zip(inputs.values, given, inputs.places, strict=True)
    ]
    level = Forward()
    out = f(*inputs.lift(level, checked))
    out, aux = _aux(out, name) if has_aux else (out, None)
    leaves, spec = flatten(out)
    pairs = [_split(leaf, level) for leaf in leaves]
    value = unflatten(spec, [inputs.leave(y) for y, _ in pairs])
    tangent = unflatten(spec, [inputs.leave(_out_tangent(y, t)) for y, t in pairs])
    return (value, tangent, _leave_tree(aux, level, inputs)) if has_aux else (value, tangent)


def _tangent(value: Any, t: Any, place: str, what: str) -> Any:
    raw = value.raw if isinstance(value, Tensor) else value
    if type(t) is float:
        t = namespace_of((raw,)).asarray(t, dtype=raw.dtype)
    if not hasattr(t, "shape"):
        raise OperandError(f"{what}: the tangent of {place} is a {type(t).__name__}, not an array")
    if tuple(t.shape) != tuple(raw.shape) or dtype_name(t.dtype) != dtype_name(raw.dtype):
        raise ShapeError(
            f"{what}: the tangent of {place} is {dtype_name(t.dtype)}{tuple(t.shape)}; "
            f"it must be {dtype_name(raw.dtype)}{tuple(raw.shape)}"
        )
    return t


def _out_tangent(y: Any, t: Any) -> Any:
    if t is not None:
        return t
    return _zeros(settle(y)) if hasattr(y, "shape") else 0.0
