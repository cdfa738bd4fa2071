"""Products with derivative matrices (``hvp``, ``gnvp``), and linear maps.

The matrices are never stored.

An operation is linear if its rule refers to no differentiated value and to no result. A function is linear if all
operations on its tape are linear.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from agrad.engine.backward import backward_pass, topological_order
from agrad.engine.calls import Call
from agrad.engine.explain import called
from agrad.engine.gradients import starting_cotangents
from agrad.engine.levels import Reverse
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import LEAF, Node, leaf_node
from agrad.engine.tensor import strip_constant_levels, wrap
from agrad.errors import NotDifferentiableError, ShapeError, TracedValueError, described
from agrad.transforms.arguments import (
    ArgNums,
    Inputs,
    check_dtype,
    check_function,
    copy_tree_if_aliased,
    out_tangent,
    split_level,
    with_constants,
    zeros,
)
from agrad.transforms.grad import A, P, R, Recording, check_tuples, differentiated, grad, jvp, vjp
from agrad.transforms.trees import unflatten

if TYPE_CHECKING:
    from agrad.engine.typed import Overloaded

__all__ = ["elementwise_grad", "gnvp", "hvp", "linear_transpose", "linearize"]

Function = Callable[..., Any]


@overload
def hvp(f: "Overloaded", primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any: ...
@overload
def hvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[Any, ...]: ...
@overload
def hvp(
    f: Callable[..., tuple[Any, A]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True]
) -> tuple[tuple[Any, ...], A]: ...
@overload
def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> Any: ...
def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return the product of the Hessian of ``f`` and ``tangents``, without the matrix.

    It is the directional derivative of the gradient, computed in forward-over-reverse mode at about four times the cost
    of ``f``.

    Parameters
    ----------
    f : callable
        Function to differentiate. It returns a real array of shape (), or with ``has_aux`` a pair ``(value, aux)``.
    primals : tuple
        Arguments of ``f``: pytrees of floating-point arrays.
    tangents : tuple
        Directions: pytrees with the structures, shapes and dtypes of ``primals``.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``.

    Returns
    -------
    tuple
        Product with the structure of ``primals``, or the pair of it and ``aux`` with ``has_aux``.

    Raises
    ------
    ShapeError
        If the tangents do not match the primals, or the result of ``f`` has more than one element.

    See Also
    --------
    agrad.hessian : The whole Hessian.
    agrad.gnvp : Product of the Gauss-Newton matrix and a vector.
    agrad.linearize : ``linearize(grad(f), x)`` for many directions at one point.

    Examples
    --------
    >>> def f(p):
    ...     return agrad.sum(p["a"] ** 2 * p["b"])
    >>> point = {"a": np.asarray([1.0, 2.0]), "b": np.asarray(3.0)}
    >>> direction = {"a": np.asarray([1.0, 0.0]), "b": np.asarray(0.0)}
    >>> agrad.hvp(f, (point,), (direction,))
    ({'a': array([6., 0.]), 'b': np.float64(2.0)},)
    """
    check_function("hvp", f, call="(f, primals, tangents)")
    _check_pair(primals, tangents, "hvp")
    gradient = grad(f, argnums=tuple(range(len(primals))), has_aux=has_aux)
    found = jvp(gradient, primals, tangents, has_aux=has_aux)
    return (found[1], found[2]) if has_aux else found[1]


def _check_pair(primals: Any, tangents: Any, name: str) -> None:
    check_tuples(primals, tangents, name)
    if len(primals) != len(tangents):
        raise ShapeError(
            f"{name}: tangents must have an entry for each of the {len(primals)} primals, got {len(tangents)}"
        )


def gnvp(f: Function, loss: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the product of a Gauss-Newton matrix and ``tangents``.

    The matrix belongs to ``loss(f(*primals))``. The product is J.T (H (J t)), where J is the Jacobian of ``f`` and H
    the Hessian of ``loss`` at the value of ``f``. The matrix is positive semidefinite if the loss is convex.

    Parameters
    ----------
    f : callable
        Function that returns a pytree of arrays, for example a model.
    loss : callable
        Function of the result of ``f`` that returns a real array of shape ().
    primals : tuple
        Arguments of ``f``: pytrees of floating-point arrays.
    tangents : tuple
        Directions: pytrees with the structures, shapes and dtypes of ``primals``.

    Returns
    -------
    tuple
        Product with the structure of ``primals``.

    See Also
    --------
    agrad.hvp : Product of the Hessian and a vector.

    Notes
    -----
    N. Schraudolph, Fast curvature matrix-vector products for second-order gradient descent, Neural Computation 14
    (2002), section 3.

    Examples
    --------
    >>> x, y = np.asarray([[1.0, 0.0], [1.0, 1.0]]), np.asarray([0.0, 1.0])
    >>> def predict(w):
    ...     return agrad.sigmoid(x @ w)
    >>> def loss(prediction):
    ...     return agrad.sum((prediction - y) ** 2)
    >>> agrad.gnvp(predict, loss, (np.zeros(2),), (np.asarray([1.0, 0.0]),))
    (array([0.25 , 0.125]),)
    """
    check_function("gnvp", f, call="(f, loss, primals, tangents)")
    _check_pair(primals, tangents, "gnvp")
    _, along = jvp(f, primals, tangents)
    value, pull = vjp(f, *primals)
    return pull(hvp(loss, (value,), (along,))[0])


@overload
def elementwise_grad(
    f: "Overloaded", argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function: ...
@overload
def elementwise_grad(
    f: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, Any]: ...
def elementwise_grad(f: Function, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    """Return a function that computes the derivative of an elementwise function.

    The returned function computes the gradient of the sum of the elements of the result. For an elementwise ``f`` these
    are the derivatives of its elements.

    Parameters
    ----------
    f : callable
        Elementwise function, such as ``agrad.tanh``. It returns an array, or with ``has_aux`` a pair ``(value, aux)``.
        Its arguments can broadcast.
    argnums : int, str, or sequence of these, default 0
        Positions or names of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if ``f`` returns a pair ``(value, aux)``. ``aux`` is returned unchanged.
    holomorphic : bool, default False
        True if ``f`` is a holomorphic function of complex arguments.

    Returns
    -------
    callable
        Function with the arguments of ``f``. Its results have the shapes and dtypes of the arguments, as for ``grad``.

    Raises
    ------
    DtypeError
        At the call, if an argument or the result is not a floating-point array, or the result is complex without
        ``holomorphic``.

    See Also
    --------
    agrad.grad : Gradient of a result with a single element.
    agrad.jacobian : Derivatives of a function that is not elementwise.
    agrad.vmap : ``vmap(grad(f))`` is the same for a function ``f`` of a single element.

    Examples
    --------
    >>> agrad.elementwise_grad(agrad.tanh)(np.asarray([-1.0, 0.0, 1.0])).round(4)
    array([0.42, 1.  , 0.42])
    >>> agrad.elementwise_grad(agrad.elementwise_grad(lambda x: x**3))(np.asarray([1.0, 2.0]))
    array([ 6., 12.])
    >>> agrad.elementwise_grad(agrad.multiply, argnums=(0, 1))(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0]))
    (array([3., 4.]), array([1., 2.]))
    """

    check_function("elementwise_grad", f, argnums)
    return differentiated(f, argnums, has_aux, holomorphic, "elementwise gradient", _check_elements)


def _check_elements(y: Any, what: str, holomorphic: bool) -> None:
    if not hasattr(y, "shape"):
        raise NotDifferentiableError(f"{what}: the function must return an array, got {described(y)}. Use agrad.vjp.")
    check_dtype(y, "the result", what, holomorphic)


# ---------------------------------------------------------------- linear maps


@overload
def linearize(f: "Overloaded", *primals: Any, has_aux: bool = False) -> Any: ...
@overload
def linearize(f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(
    f: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], A]: ...
@overload
def linearize(f: Function, *primals: Any, has_aux: bool) -> Any: ...
def linearize(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return ``f(*primals)`` and its JVP function (pushforward) at the primals.

    The JVP function stores the values that it needs and does not call ``f`` again. Use it for many tangents at one
    point.

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
        ``(value, pushforward)``, or ``(value, pushforward, aux)`` with ``has_aux``. The pushforward accepts tangents
        with the structures, shapes and dtypes of the primals, and returns the tangent of the value.

    See Also
    --------
    agrad.jvp : The same for a single tangent, without a tape.
    agrad.vjp : Products of cotangents and the Jacobian.
    agrad.linear_transpose : Transpose of a linear function.

    Examples
    --------
    >>> value, derivative = agrad.linearize(lambda x: x**2, np.asarray([1.0, 2.0]))
    >>> value
    array([1., 4.])
    >>> derivative(np.asarray([1.0, 0.0])), derivative(np.asarray([0.0, 1.0]))
    (array([2., 0.]), array([0., 4.]))
    """
    check_function("linearize", f, call="(f, *primals)")
    what = f"the linearization of {getattr(f, '__name__', 'a function')}"
    inputs = Inputs(primals, what)
    run = Recording(inputs, lambda values: with_constants(called, f, values, {}), has_aux)
    pairs, spec = run.outputs()
    along = pushforward_of([y for y, _ in pairs], [node for _, node in pairs], run.roots)

    def push(*tangents: Any) -> Any:
        checked = inputs.tangents(tangents)
        out = [inputs.leave(out_tangent(y, t)) for (y, _), t in zip(pairs, along(checked), strict=True)]
        return copy_tree_if_aliased(unflatten(spec, out), tangents, inputs.leaves)

    value, aux = copy_tree_if_aliased((run.leave_value(pairs, spec), run.leave_aux()), primals)
    return (value, push, aux) if has_aux else (value, push)


class LinearTape:
    """A linear function of a list of arrays, recorded at one point."""

    def __init__(self, function: Callable[[list[Any]], list[Any]], point: Sequence[Any]) -> None:
        level = Reverse()
        self.roots: list[Node] = [leaf_node() for _ in point]
        outs = function(
            [wrap(strip_constant_levels(x), level, root) for x, root in zip(point, self.roots, strict=True)]
        )
        self.ends: list[Any | None] = [None if out is None else split_level(out, level)[1] for out in outs]
        level.end()

    def transposed(self, cotangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments, None for zero."""
        starts = starting_cotangents(self.ends, [strip_constant_levels(g) for g in cotangents])
        found = backward_pass(starts, retain=True)
        return [found.get(root) for root in self.roots]


def pushforward_of(
    ys: Sequence[Any], nodes: Sequence[Node | None], roots: Sequence[Node]
) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the pushforward from the roots of a tape to its results.

    The pullback is a linear function. It is recorded once, and its transpose is the pushforward. None represents a zero
    tangent. ``ys`` and ``nodes`` are the values and nodes of the results.
    """

    def pullback(gs: list[Any]) -> list[Any]:
        found = backward_pass(starting_cotangents(nodes, gs), retain=True)
        return [found.get(root) for root in roots]

    # not at 0: after ``where`` a pullback returns 0 for a zero cotangent and an infinite derivative
    point = [y if node is None else namespace_of((y,)).ones_like(y) for y, node in zip(ys, nodes, strict=True)]
    return LinearTape(pullback, point).transposed


def linear_transpose(f: Function, *primals: Any) -> Function:
    """Return the transpose of the linear function ``f``.

    The inner product is Re(sum(a * b)), without conjugation.

    Parameters
    ----------
    f : callable
        Linear function that returns a pytree of arrays.
    *primals
        Pytrees of floating-point arrays, of which only the structures, shapes and dtypes matter.

    Returns
    -------
    callable
        Function that accepts a cotangent of the result of ``f`` and returns a tuple of cotangents of its arguments.

    Raises
    ------
    NotDifferentiableError
        If an operation in ``f`` is not linear, or ``f`` is not 0 at 0.

    See Also
    --------
    agrad.vjp : Pullback of any function.
    agrad.linearize : Linear approximation of any function.

    Examples
    --------
    >>> a = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> transpose = agrad.linear_transpose(lambda x: a @ x, np.zeros(3))
    >>> transpose(np.asarray([1.0, 0.0]))
    (array([1., 2., 3.]),)
    >>> agrad.linear_transpose(agrad.sin, np.zeros(3))(np.zeros(3))
    Traceback (most recent call last):
        ...
    agrad.errors.NotDifferentiableError: the transpose of sin: the function must be linear in its arguments, ...
    """
    check_function("linear_transpose", f, call="(f, *primals)")
    what = f"the transpose of {getattr(f, '__name__', 'a function')}"
    inputs = Inputs(primals, what)
    inputs.values = [strip_constant_levels(zeros(value)) for value in inputs.values]
    with np.errstate(all="ignore"):  # at 0, a function that is not linear may have no value
        run = Recording(inputs, lambda values: f(*values))
        pairs, spec = run.outputs()
    for plan in nonlinear([node for _, node in pairs]):
        raise NotDifferentiableError(
            f"{what}: the function must be linear in its arguments, but {plan.primitive.name} is not linear in "
            f"{' and '.join(plan.arguments)}. Use agrad.vjp, or agrad.linearize at a point."
        )
    for y, _ in pairs:
        with contextlib.suppress(TracedValueError):  # under vmap it has no value
            if hasattr(y, "shape") and bool(namespace_of((y,)).any(y != 0)):
                raise NotDifferentiableError(f"{what}: the function must be linear, but it is not 0 at 0")
    return run.pullback(pairs, spec)


def nonlinear(ends: Sequence[Node | None]) -> list[Any]:
    """Return the plans of the nonlinear operations that some nodes depend on."""
    nodes = topological_order([end for end in ends if end is not None])
    return [node.plan for node in nodes if node.plan is not LEAF and not _is_linear(node.plan)]


def _is_linear(plan: Any) -> bool:
    """Return True for an operation whose derivative is the same everywhere.

    It depends on no differentiated argument and on no result, or the operation is declared linear in the one argument
    that is differentiated.
    """
    if isinstance(plan.primitive, Call):
        return plan.primitive.linear
    if len(plan.arguments) == 1 and plan.arguments[0] in plan.primitive.linear:
        return True
    outputs = plan.primitive.outputs or ("y",)
    return not set(plan.names) & {*plan.arguments, *outputs}
