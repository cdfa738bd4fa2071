"""``grad``, ``value_and_grad``, ``vjp`` and ``jvp``.

They differentiate functions of nested containers of arrays. For raw arrays they return raw arrays, for Tensors Tensors.
Each call opens a level of its own, and transforms nest in any order.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from agrad.engine.backward import backward_pass
from agrad.engine.explain import called
from agrad.engine.gradients import cotangent_for, starting_cotangents
from agrad.engine.layouts import copied
from agrad.engine.levels import Forward, Reverse
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import Node, leaf_node
from agrad.engine.tensor import strip_constant_levels
from agrad.errors import NotDifferentiableError, OperandError, ShapeError
from agrad.transforms.arguments import (
    ArgNum,
    ArgNums,
    Chosen,
    Inputs,
    Several,
    aux_of,
    check_function,
    check_scalar,
    copy_tree_if_aliased,
    leave_tree,
    out_tangent,
    outputs_of,
    split_level,
    with_constants,
    zeros,
)
from agrad.transforms.trees import flatten, unflatten

if TYPE_CHECKING:
    from agrad.engine.typed import Overloaded

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
Aux = Literal[True]
NoAux = Literal[False]
"""The types of ``has_aux`` that decide the type of a result."""


class Recording:
    """One call of a function on a tape of its own."""

    def __init__(self, inputs: Inputs, call: Callable[[tuple[Any, ...]], Any], has_aux: bool = False) -> None:
        self.inputs = inputs
        self.level: Reverse = Reverse()
        self.roots: list[Node] = [leaf_node() for _ in inputs.values]
        try:
            out = call(inputs.lift(self.level, self.roots))
        finally:
            self.level.end()
        self.out: Any
        self.aux: Any
        self.out, self.aux = aux_of(out, inputs.what) if has_aux else (out, None)

    def outputs(self) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the result's leaves as pairs of value and node, and its structure."""
        return outputs_of(self.out, self.level, self.inputs.what)

    def leave_aux(self) -> Any:
        """Return aux as the caller gets it."""
        return leave_tree(self.aux, self.level, self.inputs)

    def leave_value(self, pairs: Sequence[tuple[Any, Any]], spec: Any) -> Any:
        """Return the result as the caller gets it.

        It is copied if the tape, which stays in use, may keep the array.
        """
        return unflatten(spec, [self.inputs.leave(y if node is None else copied(y)) for y, node in pairs])

    def gradients(self, y: Any, node: Node | None, strict: bool = False) -> tuple[Any, ...]:
        """Return the gradients of the sum of ``y``'s elements, and free the tape.

        They are containers like the arguments. With ``strict`` a leaf that the result does not depend on is an error.
        """
        return self._pulled({} if node is None else {node: namespace_of((y,)).ones_like(y)}, False, strict)

    def _pulled(self, starts: dict[Node, Any], retain: bool, strict: bool = False) -> tuple[Any, ...]:
        found = backward_pass(starts, retain=retain)
        gradients = []
        for i, (root, value) in enumerate(zip(self.roots, self.inputs.values, strict=True)):
            if strict and root not in found:
                raise NotDifferentiableError(
                    f"{self.inputs.what}: the result does not depend on {self.inputs.path(i)} by operations with a "
                    "derivative; use it, leave it out of argnums, or take zeros with strict=False"
                )
            gradients.append(found[root] if root in found else zeros(value))
        return self.inputs.restore(gradients)

    def pullback(self, pairs: Sequence[tuple[Any, Any]], spec: Any) -> Callable[[Any], tuple[Any, ...]]:
        """Return the function from a cotangent of the result to the arguments'."""
        what = self.inputs.what

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            given, given_spec = flatten(cotangent)
            if given_spec != spec:
                raise ShapeError(f"{what}: the cotangent's structure is {given_spec}; the result's is {spec}")
            nodes = [node for _, node in pairs]
            gs = [
                None if node is None else strip_constant_levels(cotangent_for(y, g, what))
                for (y, node), g in zip(pairs, given, strict=True)
            ]
            pulled = self._pulled(starting_cotangents(nodes, gs), retain=True)
            return copy_tree_if_aliased(pulled, given, self.inputs.leaves)

        pullback.__qualname__ = "pullback"
        return pullback


@overload
def value_and_grad(
    f: "Overloaded", argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, *, strict: bool = False
) -> Function: ...
@overload
def value_and_grad(
    f: Callable[P, R], argnums: ArgNum = 0, has_aux: NoAux = False, holomorphic: bool = False, *, strict: bool = False
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, R], argnums: Several, has_aux: NoAux = False, holomorphic: bool = False, *, strict: bool = False
) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[P, tuple[R, A]], argnums: ArgNum = 0, *, has_aux: Aux, holomorphic: bool = False, strict: bool = False
) -> Callable[P, tuple[tuple[R, A], Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, tuple[R, A]], argnums: Several, *, has_aux: Aux, holomorphic: bool = False, strict: bool = False
) -> Callable[P, tuple[tuple[R, A], tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, *, strict: bool = False
) -> Callable[P, tuple[Any, Any]]: ...
def value_and_grad(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, *, strict: bool = False
) -> Function:
    """Return the function that computes ``f`` and its gradient in one pass.

    It calls ``f`` once, on a tape, and goes back along it: the cost is a few times that of ``f``, however many elements
    the arguments have. A gradient is a raw array where the argument is one, of the same library and device, and a
    Tensor where that is a Tensor. Transforms nest: the result may be differentiated, mapped by ``vmap`` and traced by
    ``jit``.

    Parameters
    ----------
    f : callable
        Returns a real array of one element, or with ``has_aux`` a pair (that, aux). Its differentiated arguments are
        nested containers (dict, list, tuple, namedtuple, dataclass) of floating arrays or Tensors; Python floats and
        complex numbers count as arrays of the selected backend.
    argnums : int, str, or a sequence of these
        Positions or names of the differentiated arguments, however they are given.
    has_aux : bool
        ``f`` returns a pair (value, aux). aux is returned as it is.
    holomorphic : bool
        ``f`` is a holomorphic function of complex arguments that returns a complex number. The gradient is
        then its derivative. For other complex arguments see the conventions.
    strict : bool
        An argument's leaf that the result does not depend on is an error. By default its gradient is zero.

    Returns
    -------
    callable
        Takes ``f``'s arguments and returns (value, gradient), or ((value, aux), gradient). The gradient has the
        argument's structure, shapes and dtypes, zero where ``f`` does not depend on it, and is a tuple where
        ``argnums`` is a sequence.

    Raises
    ------
    ShapeError, DtypeError, NotDifferentiableError
        At the call, where ``f`` returns anything but one real floating number as an array; with ``strict`` where the
        result does not depend on a leaf, which the text names.

    See Also
    --------
    agrad.grad : The gradient alone.
    agrad.vjp : The value and the pullback, for results of any shape.
    agrad.jit : For a whole training step as one program.

    Examples
    --------
    >>> def loss(params, x, y):
    ...     errors = x @ params["w"] - y
    ...     return agrad.mean(errors**2), errors
    >>> params, x, y = {"w": np.asarray([1.0, 2.0])}, np.eye(2), np.asarray([0.0, 4.0])
    >>> (value, errors), gradient = agrad.value_and_grad(loss, has_aux=True)(params, x, y)
    >>> value, errors
    (np.float64(2.5), array([ 1., -2.]))
    >>> gradient
    {'w': array([ 1., -2.])}
    >>> agrad.value_and_grad(agrad.multiply, argnums=(0, 1))(2.0, 5.0)
    (np.float64(10.0), (np.float64(5.0), np.float64(2.0)))
    """

    check_function("value_and_grad", f, argnums)
    return differentiated(f, argnums, has_aux, holomorphic, "gradient", check_scalar, with_value=True, strict=strict)


def differentiated(
    f: Function,
    argnums: ArgNums,
    has_aux: bool,
    holomorphic: bool,
    kind: str,
    check: Callable[[Any, str, bool], None],
    with_value: bool = False,
    strict: bool = False,
) -> Function:
    """Return the function that computes the gradient of the sum of ``f``'s result.

    ``check`` raises for a result that ``f`` may not have; ``kind`` names the gradient in error texts.
    """

    @functools.wraps(f, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        name = f"the {kind} of {getattr(f, '__name__', 'a function')}"
        chosen = Chosen(f, args, kwargs, argnums, name, holomorphic)
        run = Recording(chosen, chosen.call, has_aux)
        y, node = split_level(run.out, run.level)
        check(y, name, holomorphic)
        out = chosen.result(run.gradients(y, node, strict))
        if with_value:
            value = chosen.leave(y)
            out = ((value, run.leave_aux()) if has_aux else value, out)
        elif has_aux:
            out = (out, run.leave_aux())
        return copy_tree_if_aliased(out, args, kwargs)

    return gradient


@overload
def grad(
    f: "Overloaded", argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, *, strict: bool = False
) -> Function: ...
@overload
def grad(
    f: Callable[P, Any], argnums: ArgNum = 0, has_aux: NoAux = False, holomorphic: bool = False, *, strict: bool = False
) -> Callable[P, Any]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: Several, has_aux: NoAux = False, holomorphic: bool = False, *, strict: bool = False
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, A]], argnums: ArgNum = 0, *, has_aux: Aux, holomorphic: bool = False, strict: bool = False
) -> Callable[P, tuple[Any, A]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, A]], argnums: Several, *, has_aux: Aux, holomorphic: bool = False, strict: bool = False
) -> Callable[P, tuple[tuple[Any, ...], A]]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, *, strict: bool = False
) -> Callable[P, Any]: ...
def grad(
    f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False, *, strict: bool = False
) -> Function:
    """Return the function that computes the gradient of ``f``.

    It calls ``f`` once, on a tape, and goes back along it: the cost is a few times that of ``f``, however many elements
    the arguments have. A gradient is a raw array where the argument is one, of the same library and device, and a
    Tensor where that is a Tensor. Transforms nest: ``agrad.grad(agrad.grad(f))`` is a second derivative,
    ``agrad.vmap(agrad.grad(f))`` has the gradient of each member of a batch, ``agrad.jit(agrad.grad(f))`` is traced
    once.

    Parameters
    ----------
    f : callable
        Returns a real array of one element, or with ``has_aux`` a pair (that, aux). Its differentiated arguments are
        nested containers (dict, list, tuple, namedtuple, dataclass) of floating arrays or Tensors; Python floats and
        complex numbers count as arrays of the selected backend. Its other arguments may be anything.
    argnums : int, str, or a sequence of these
        Positions or names of the differentiated arguments, however they are given.
    has_aux : bool
        ``f`` returns a pair (value, aux). aux is returned as it is.
    holomorphic : bool
        ``f`` is a holomorphic function of complex arguments that returns a complex number. The gradient is
        then its derivative. For other complex arguments see the conventions.
    strict : bool
        An argument's leaf that the result does not depend on is an error. By default its gradient is zero.

    Returns
    -------
    callable
        Takes ``f``'s arguments and returns the gradient, or with ``has_aux`` (gradient, aux). The gradient has the
        argument's structure, shapes and dtypes, zero where ``f`` does not depend on it, and is a tuple where
        ``argnums`` is a sequence.

    Raises
    ------
    ShapeError, DtypeError, NotDifferentiableError
        At the call, where ``f`` returns anything but one real floating number as an array; with ``strict`` where the
        result does not depend on a leaf, which the text names.

    See Also
    --------
    agrad.value_and_grad : The value too, for the same cost.
    agrad.jacobian : For results of any shape.
    agrad.elementwise_grad : For a result each element of which depends on the same element of the argument.
    agrad.vjp : The pullback itself, for any cotangent.
    agrad.hessian, agrad.hvp : Second derivatives.
    agrad.Tensor.backward : Gradients of leaf Tensors, which accumulate in ``.grad``.

    Examples
    --------
    >>> def loss(params, x):
    ...     return agrad.sum(agrad.tanh(x @ params["w"] + params["b"]))
    >>> params = {"w": np.asarray([1.0, -2.0]), "b": np.asarray(0.5)}
    >>> x = np.asarray([[0.1, 0.2], [0.3, 0.4]])
    >>> gradient = agrad.grad(loss)(params, x)
    >>> gradient["w"].round(4), gradient["b"].round(4)
    (array([0.3961, 0.5922]), np.float64(1.961))
    >>> agrad.grad(loss, argnums="x")(params, x).round(4)
    array([[ 0.961 , -1.9221],
           [ 1.    , -2.    ]])
    >>> agrad.grad(agrad.grad(lambda x: x**3))(2.0)
    np.float64(12.0)
    >>> agrad.grad(agrad.tanh)(np.ones(2))
    Traceback (most recent call last):
        ...
    agrad.errors.ShapeError: the gradient of tanh: ...
    """
    check_function("grad", f, argnums)
    return differentiated(f, argnums, has_aux, holomorphic, "gradient", check_scalar, strict=strict)


@overload
def vjp(f: "Overloaded", *primals: Any, has_aux: bool = False) -> Any: ...
@overload
def vjp(f: Callable[..., R], *primals: Any, has_aux: NoAux = False) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[R, A]], *primals: Any, has_aux: Aux
) -> tuple[R, Callable[[Any], tuple[Any, ...]], A]: ...
@overload
def vjp(f: Function, *primals: Any, has_aux: bool) -> Any: ...
def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return ``f(*primals)`` and its pullback.

    The pullback takes a cotangent back by reverse mode: it is the product of the cotangent and the Jacobian, which is
    not computed. Raw arrays give raw arrays of their library, Tensors give Tensors; transforms nest.

    Parameters
    ----------
    f : callable
        Takes ``primals`` and returns a nested container of arrays, or with ``has_aux`` a pair (that, aux).
    *primals
        Nested containers of floating arrays.
    has_aux : bool
        ``f`` returns a pair (value, aux).

    Returns
    -------
    tuple
        (value, pullback), with ``has_aux`` (value, pullback, aux). The pullback takes a cotangent of the value's
        structure, shapes and dtypes to a tuple of the primals' cotangents, and may be called any number of times.

    Raises
    ------
    DtypeError, OperandError
        For primals that are no floating arrays, and for results that are neither arrays nor containers of them.

    See Also
    --------
    agrad.grad : For a result of one element.
    agrad.jvp : The other direction: a tangent is taken forward.
    agrad.linear_transpose : The pullback of a function that is linear.
    agrad.jacobian : All rows at once.

    Examples
    --------
    >>> def f(params):
    ...     return params["scale"] * agrad.sin(params["x"])
    >>> value, pullback = agrad.vjp(f, {"scale": np.asarray(2.0), "x": np.asarray([0.0, 1.0])})
    >>> (cotangents,) = pullback(np.asarray([1.0, 10.0]))
    >>> cotangents["x"].round(4), cotangents["scale"].round(4)
    (array([ 2.   , 10.806]), np.float64(8.4147))
    """
    check_function("vjp", f, call="(f, *primals)")
    name = f"the vjp of {getattr(f, '__name__', 'a function')}"
    inputs = Inputs(primals, name)
    run = Recording(inputs, lambda values: with_constants(called, f, values, {}), has_aux)
    pairs, spec = run.outputs()
    value, aux = copy_tree_if_aliased((run.leave_value(pairs, spec), run.leave_aux()), primals)
    pullback = run.pullback(pairs, spec)
    return (value, pullback, aux) if has_aux else (value, pullback)


def check_tuples(primals: Any, tangents: Any, name: str) -> None:
    """Raise ``OperandError`` unless primals and tangents are tuples or lists."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise OperandError(f"{name}: primals and tangents are tuples, one entry an argument of the function")


@overload
def jvp(f: "Overloaded", primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any: ...
@overload
def jvp(
    f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[..., tuple[R, A]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Aux
) -> tuple[R, R, A]: ...
@overload
def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> Any: ...
def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return ``f(*primals)`` and its derivative along ``tangents``, computed forward.

    It is the product of the Jacobian, which is not computed, and the tangents. It keeps no tape: memory does not grow
    with the number of operations. Raw arrays give raw arrays of their library, Tensors give Tensors; transforms nest.

    Parameters
    ----------
    f : callable
        Takes ``primals`` and returns a nested container of arrays, or with ``has_aux`` a pair (that, aux).
    primals : tuple
        Nested containers of floating arrays.
    tangents : tuple
        Containers of the primals' structures, shapes and dtypes.
    has_aux : bool
        ``f`` returns a pair (value, aux).

    Returns
    -------
    tuple
        (value, tangent of the value), with ``has_aux`` (value, tangent, aux).

    Raises
    ------
    ShapeError
        For tangents that are not like the primals.
    DtypeError, OperandError
        For primals that are no floating arrays, and for results that are neither arrays nor containers of them.

    See Also
    --------
    agrad.linearize : For many tangents at one point.
    agrad.vjp : The other direction: a cotangent is taken back.
    agrad.jacfwd : All columns at once.
    agrad.hvp : Forward over reverse.

    Examples
    --------
    >>> def f(params):
    ...     return params["scale"] * agrad.sin(params["x"])
    >>> params = {"scale": np.asarray(2.0), "x": np.asarray([0.0, np.pi])}
    >>> value, tangent = agrad.jvp(f, (params,), ({"scale": np.asarray(0.0), "x": np.ones(2)},))
    >>> tangent
    array([ 2., -2.])
    >>> agrad.jvp(lambda x: agrad.jvp(agrad.exp, (x,), (1.0,))[1], (0.0,), (1.0,))
    (np.float64(1.0), np.float64(1.0))
    """
    check_function("jvp", f, call="(f, primals, tangents)")
    name = f"the jvp of {getattr(f, '__name__', 'a function')}"
    check_tuples(primals, tangents, name)
    inputs = Inputs(primals, name)
    checked = inputs.tangents(tangents)
    level = Forward()
    try:
        out = with_constants(called, f, inputs.lift(level, checked), {})
    finally:
        level.end()
    out, aux = aux_of(out, name) if has_aux else (out, None)
    pairs, spec = outputs_of(out, level, name)
    value = unflatten(spec, [inputs.leave(y) for y, _ in pairs])
    tangent = unflatten(spec, [inputs.leave(out_tangent(y, t)) for y, t in pairs])
    out = (value, tangent, leave_tree(aux, level, inputs)) if has_aux else (value, tangent)
    return copy_tree_if_aliased(out, primals, tangents)
