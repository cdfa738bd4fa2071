"""``grad``, ``value_and_grad``, ``vjp`` and ``jvp``.

They differentiate functions of pytrees of arrays. Results are plain arrays for plain arrays, and Tensors for Tensors.
Each call opens a new nesting level, and transforms nest in any order.
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
from agrad.errors import NotDifferentiableError, OperandError, ShapeError, described
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
"""The values of ``has_aux``, on which the type of a result depends."""


class Recording:
    """One call of a function on a new tape."""

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
        """Return aux for the caller."""
        return leave_tree(self.aux, self.level, self.inputs)

    def leave_value(self, pairs: Sequence[tuple[Any, Any]], spec: Any) -> Any:
        """Return the result for the caller.

        It is copied if the tape, which remains in use, may contain the array.
        """
        return unflatten(spec, [self.inputs.leave(y if node is None else copied(y)) for y, node in pairs])

    def gradients(self, y: Any, node: Node | None, strict: bool = False) -> tuple[Any, ...]:
        """Return the gradients of the sum of the elements of ``y``, and free the tape.

        They have the structure of the arguments. With ``strict``, a leaf that the result does not depend on raises
        ``NotDifferentiableError``.
        """
        return self._pulled({} if node is None else {node: namespace_of((y,)).ones_like(y)}, False, strict)

    def _pulled(self, starts: dict[Node, Any], retain: bool, strict: bool = False) -> tuple[Any, ...]:
        found = backward_pass(starts, retain=retain)
        gradients = []
        for i, (root, value) in enumerate(zip(self.roots, self.inputs.values, strict=True)):
            if strict and root not in found:
                raise NotDifferentiableError(
                    f"{self.inputs.what}: with strict=True the result must depend on {self.inputs.path(i)} by "
                    "differentiable operations. Use it, leave it out of argnums, or pass strict=False for zeros."
                )
            gradients.append(found[root] if root in found else zeros(value))
        return self.inputs.restore(gradients)

    def pullback(self, pairs: Sequence[tuple[Any, Any]], spec: Any) -> Callable[[Any], tuple[Any, ...]]:
        """Return the pullback of the recorded call."""
        what = self.inputs.what

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            given, given_spec = flatten(cotangent)
            if given_spec != spec:
                raise ShapeError(
                    f"{what}: the cotangent must have the structure of the result, {spec}, got {given_spec}"
                )
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
    """Return a function that computes ``f`` and its gradient in one pass.

    The parameters are the same as for :func:`agrad.grad`. Use it if you need the value too: it costs no more than the
    gradient.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a real array with a single element, or ``(value, aux)`` with ``has_aux``.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments.
    strict : bool, default False
        True to raise an error if the value does not depend on a leaf of these arguments. By default, its gradient is
        zero.

    Returns
    -------
    callable
        Function with the arguments of ``f``. It returns ``(value, gradient)``, or ``((value, aux), gradient)`` with
        ``has_aux``.

    Raises
    ------
    ShapeError, DtypeError, NotDifferentiableError
        At the call, if ``f`` does not return a single real floating-point number, or with ``strict`` if the value does
        not depend on a leaf.

    See Also
    --------
    agrad.grad : Only the gradient.
    agrad.vjp : The value and the pullback, for results of any shape.
    agrad.jit : Compile a whole training step.

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

    ``check`` raises an error for an invalid result of ``f``. ``kind`` describes the gradient in error messages.
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
    """Return a function that computes the gradient of ``f`` in reverse mode.

    The returned function calls ``f`` once and costs a few times as much as ``f``, for any number of elements in the
    arguments. The gradient of a plain array is a plain array of the same library and device, and the gradient of a
    Tensor is a Tensor.

    Transforms nest. ``agrad.grad(agrad.grad(f))`` is the second derivative, ``agrad.vmap(agrad.grad(f))`` computes the
    gradient of each example of a batch, and ``agrad.jit(agrad.grad(f))`` is compiled.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a real array with a single element, or with ``has_aux`` a pair
        ``(value, aux)``. The arguments to differentiate with respect to are pytrees (nested dicts, lists, tuples,
        namedtuples and dataclasses) of floating-point arrays or Tensors. Python floats and complex numbers count as
        arrays of the selected backend. The other arguments can be any object.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to. A name works for a positional argument
        too.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``. ``aux`` is returned unchanged.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments that returns a complex number. The gradient is
        then the complex derivative. The page on numerical conventions defines the gradient for other functions of
        complex arguments.
    strict : bool, default False
        True to raise an error if the value does not depend on a leaf of these arguments. By default, its gradient is
        zero.

    Returns
    -------
    callable
        Function with the arguments of ``f``. It returns the gradient, or ``(gradient, aux)`` with ``has_aux``. The
        gradient has the structure, shapes and dtypes of the argument. It is a tuple if ``argnums`` is a sequence.

    Raises
    ------
    ShapeError, DtypeError, NotDifferentiableError
        At the call, if ``f`` does not return a single real floating-point number, or with ``strict`` if the value does
        not depend on a leaf.

    See Also
    --------
    agrad.value_and_grad : The value and the gradient, at the same cost.
    agrad.jacobian : Derivatives of a result of any shape.
    agrad.elementwise_grad : Derivatives of an elementwise function.
    agrad.vjp : The pullback, for any cotangent.
    agrad.hessian, agrad.hvp : Second derivatives.
    agrad.Tensor.backward : Accumulate the gradients of leaf Tensors in ``.grad``.

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
    """Return ``f(*primals)`` and its pullback (VJP function).

    The pullback computes the product of a cotangent and the Jacobian of ``f`` in reverse mode, without computing the
    Jacobian. Results are plain arrays for plain arrays, and Tensors for Tensors.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a pytree of arrays, or with ``has_aux`` a pair ``(value, aux)``.
    *primals
        Arguments of ``f``: pytrees of floating-point arrays.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``.

    Returns
    -------
    tuple
        ``(value, pullback)``, or ``(value, pullback, aux)`` with ``has_aux``. The pullback accepts a cotangent with the
        structure, shapes and dtypes of the value. It returns a tuple with one cotangent for each of the primals. You
        can call it several times.

    Raises
    ------
    DtypeError, OperandError
        If a leaf of the primals is not a floating-point array, or ``f`` does not return a pytree of arrays.

    See Also
    --------
    agrad.grad : Gradient of a result with a single element.
    agrad.jvp : Product of the Jacobian and a tangent, in forward mode.
    agrad.linear_transpose : Pullback of a linear function.
    agrad.jacobian : The whole Jacobian.

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
        raise OperandError(
            f"{name}: primals and tangents must be tuples with an entry for each argument of the function, got "
            f"{described(primals)} and {described(tangents)}"
        )


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
    """Return ``f(*primals)`` and its directional derivative along ``tangents``.

    The derivative is the product of the Jacobian of ``f`` and the tangents, computed in forward mode without computing
    the Jacobian. Memory does not grow with the number of operations. Results are plain arrays for plain arrays, and
    Tensors for Tensors.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a pytree of arrays, or with ``has_aux`` a pair ``(value, aux)``.
    primals : tuple
        Arguments of ``f``: pytrees of floating-point arrays.
    tangents : tuple
        Directions: pytrees with the structures, shapes and dtypes of ``primals``.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``.

    Returns
    -------
    tuple
        ``(value, tangent)``, or ``(value, tangent, aux)`` with ``has_aux``.

    Raises
    ------
    ShapeError
        If the tangents do not match the primals.
    DtypeError, OperandError
        If a leaf of the primals is not a floating-point array, or ``f`` does not return a pytree of arrays.

    See Also
    --------
    agrad.linearize : The JVP function at one point, for many tangents.
    agrad.vjp : Product of a cotangent and the Jacobian, in reverse mode.
    agrad.jacfwd : The whole Jacobian, in forward mode.
    agrad.hvp : Product of a Hessian and a vector.

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
