"""Errors of the transforms: of functions, arguments, options and results that do not fit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import each_fails

import agrad
from agrad.errors import (
    ConfigurationError,
    DtypeError,
    MissingRuleError,
    NotDifferentiableError,
    OperandError,
    ShapeError,
    TracedValueError,
)

X, Z, W = np.asarray([0.5, -1.2, 0.8]), np.asarray([0.5 + 1j, -1.2]), np.ones((3, 2))
V = np.ones(3)


def total(x: Any) -> Any:
    return agrad.sum(x * x)


def three(a: Any, b: Any, c: Any, *, scale: float = 1.0) -> Any:
    return scale * agrad.sum(a * b**2 * c**3)


def scaled(a: Any, b: Any, *, scale: Any) -> Any:
    return a * b * scale


def named(x: Any) -> Any:
    return x["a"]


def constant(x: Any) -> Any:
    return total(X)


class Hidden:
    """An array that no transform finds."""

    def __init__(self, y: Any) -> None:
        self.y = y


def hiding(x: Any) -> Any:
    return {"h": Hidden(2 * x)}


def backward_inside(x: Any) -> Any:
    y = total(x)
    y.backward()
    return y


def mapped(**how: Any) -> Callable[..., Any]:
    return agrad.vmap(lambda a, b: a * b, **how)


without_rules = agrad.primitive(lambda xp, x, /: x, name="cube")
Rows = list[tuple[Callable[[], Any], type[Exception], str]]
RESULTS: Rows = [
    (lambda: agrad.grad(lambda x: x * x)(X), ShapeError, r"shape \(\), got \(3,\).*agrad.sum"),
    (lambda: agrad.grad(agrad.sin)(X), ShapeError, r"shape \(\), got \(3,\)\. .*jacobian.*elementwise_grad"),
    (lambda: agrad.grad(named)({"a": X}), ShapeError, "the gradient of named"),
    (lambda: agrad.grad(lambda x: agrad.sum(x) > 0)(X), DtypeError, "bool"),
    (lambda: agrad.grad(lambda x: agrad.argmax(x))(X), DtypeError, "floating-point dtype, got int64. Cast"),
    *[
        (lambda t=t, y=y: t(lambda x: y)(1.0), DtypeError, r"must .* got( the)? bool")
        for t in (agrad.grad, agrad.value_and_grad)
        for y in (True, np.True_, np.asarray(True))
    ],
    (lambda: agrad.grad(agrad.sum)(Z), DtypeError, "complex.*real part"),
    (lambda: agrad.grad(lambda x: (total(x), total(x)))(X), NotDifferentiableError, "has_aux"),
    (lambda: agrad.grad(lambda x: None)(X), NotDifferentiableError, "got None"),
    (lambda: agrad.grad(lambda x: "text")(X), NotDifferentiableError, "got .text"),
    (lambda: agrad.grad(total, has_aux=True)(X), NotDifferentiableError, "pair"),
    (lambda: agrad.grad(backward_inside)(X), NotDifferentiableError, "agrad.grad"),
    (lambda: agrad.jit(lambda b: agrad.grad(agrad.sin)(b > 2))(2.5), DtypeError, "got the bool True"),
    (lambda: agrad.jacrev(lambda x: (x, agrad.argmax(x)))(X), DtypeError, "output 1 must have .* got int64"),
    (lambda: agrad.jacfwd(lambda x: {"n": "name"})(X), NotDifferentiableError, r"\['n'\] must be an array"),
    (lambda: agrad.jacrev(lambda x: x, has_aux=True)(X), NotDifferentiableError, "has_aux"),
    (lambda: agrad.elementwise_grad(lambda x: (x, x))(X), NotDifferentiableError, "must return an array, got tuple"),
    (lambda: agrad.elementwise_grad(agrad.argmax)(X), DtypeError, "int64"),
    (lambda: agrad.hvp(agrad.sin, (X,), (X,)), ShapeError, r"must return an array of shape \(\)"),
    (lambda: agrad.gnvp(agrad.sin, agrad.sin, (X,), (X,)), ShapeError, r"must return an array of shape \(\)"),
    (lambda: agrad.jacfwd(agrad.abs)(Z), DtypeError, r"argument 0 must be real.* set holomorphic=True .* agrad\.vjp"),
    (
        lambda: agrad.jacrev(lambda x: x * 1j)(X),
        DtypeError,
        r"its output must be real.* holomorphic=True .* agrad\.vjp",
    ),
    (lambda: agrad.jacrev(agrad.exp, holomorphic=True)(X), DtypeError, "argument 0 must be complex, got dtype float64"),
    (lambda: agrad.jacfwd(agrad.abs, holomorphic=True)(Z), DtypeError, "its output must be complex, got dtype float64"),
    (lambda: agrad.grad(lambda z: total(agrad.abs(z)), holomorphic=True)(Z), DtypeError, "the result must be complex"),
    (lambda: agrad.elementwise_grad(agrad.abs, holomorphic=True)(Z), DtypeError, "the result must be complex"),
    (lambda: agrad.elementwise_grad(agrad.sin)(Z), DtypeError, "the result must be real"),
    *[
        (partial(call, hiding), OperandError, r"output \['h'\] must be an array or a dict.* got Hidden")
        for call in (
            lambda f: agrad.vjp(f, X),
            lambda f: agrad.jvp(f, (X,), (X,)),
            lambda f: agrad.linearize(f, X),
            lambda f: agrad.linear_transpose(f, X),
        )
    ],
]
ARGUMENTS: Rows = [
    (lambda: agrad.grad(constant)(np.asarray([1, 2])), DtypeError, r"argument 0 must have a float.* got int64.*Cast"),
    (lambda: agrad.grad(constant)({"w": [X, X > 0]}), DtypeError, r"argument 0\['w'\]\[1\] must have a .* got bool"),
    (lambda: agrad.grad(constant)(3), DtypeError, r"argument 0 must be .* int 3.*3.0"),
    (lambda: agrad.grad(constant)(True), DtypeError, "bool True"),
    (lambda: agrad.grad(constant)("text"), OperandError, "argument 0 must be a floating-point array, got 'text'"),
    (lambda: agrad.grad(constant)({"a": print}), OperandError, r"argument 0\['a'\] must be a floating-point array"),
    (lambda: agrad.jacobian(agrad.sin)(np.arange(3)), DtypeError, "argument 0 must have .* got int64"),
    (lambda: agrad.vjp(agrad.sum, np.arange(3)), DtypeError, "int64.*Cast"),
    (lambda: agrad.jvp(agrad.sum, (V > 0,), (V > 0,)), DtypeError, "bool.*Cast"),
    (lambda: agrad.grad(three, (1, -2))(X, X, X), ConfigurationError, "each argument once"),
    (lambda: agrad.grad(three, 3)(X, X, X), ConfigurationError, "3 positional arguments"),
    (lambda: agrad.grad(three, -4)(X, X, X), ConfigurationError, "3 positional arguments"),
    (lambda: agrad.grad(three, (0, 5))(X, X, X), ConfigurationError, "3 positional arguments"),
    *[
        (lambda n=n: agrad.grad(three, n), ConfigurationError, "grad: argnums must be a position, a name or")
        for n in (1.0, None, (0, 1.0))
    ],
    (lambda: agrad.jacrev(scaled, "c")(X, X, scale=X), ConfigurationError, r"got 'c'\. Choose from 'a', 'b', 's"),
    (lambda: agrad.jacfwd(scaled, ("a", 0))(X, X, scale=X), ConfigurationError, "must list each argument once"),
    (lambda: agrad.jacobian(scaled, 2)(X, X, scale=X), ConfigurationError, "2 positional arg.*, got 2.* argnums='n"),
    (lambda: agrad.vjp(lambda x: {"y": x}, X)[1]([X]), ShapeError, "structure"),
    (lambda: agrad.vjp(lambda x: x, X)[1](X[:2]), ShapeError, r"\(2,\)"),
    (lambda: agrad.jvp(named, ({"a": X},), ({"b": X},)), ShapeError, "structure"),
    (lambda: agrad.jvp(named, ({"a": X},), ({"a": X[:2]},)), ShapeError, r"0\['a'\] .* \(3,\), got float64 and \(2,\)"),
    (lambda: agrad.jvp(total, (X,), (X.astype(np.float32),)), ShapeError, "float32"),
    (lambda: agrad.jvp(total, X, X), OperandError, "tuple"),
    (lambda: agrad.linearize(named, {"a": X})[1]({"a": X[:2]}), ShapeError, r"primal 0\['a'\] must have .* and \(2,\)"),
    (lambda: agrad.linearize(named, {"a": X})[1](X), ShapeError, "structure"),
    (lambda: agrad.vjp(agrad.sin, 1.0)[1](1j), DtypeError, "cotangent must have dtype float64, got complex128"),
    (lambda: agrad.jvp(agrad.sin, (1.0,), (1j,)), ShapeError, "tangent of primal 0 must have .* got complex128"),
    (lambda: agrad.vjp(agrad.sin, V)[1](1.0), ShapeError, r"must be an array of shape \(3,\), got 1.0"),
    (lambda: agrad.hvp(total, X, X), OperandError, "primals and tangents must be tuples"),
    (lambda: agrad.hvp(total, (X,), (X, X)), ShapeError, "an entry for each of the 1 primals, got 2"),
    (lambda: agrad.hessian(agrad.sum, chunk_size=0), ConfigurationError, "chunk_size"),
    *[
        (lambda f=f: agrad.linear_transpose(f, X), NotDifferentiableError, match)
        for f, match in (
            (agrad.exp, "exp is not linear in x"),
            (lambda x: x * x, "multiply is not linear in x1 and x2"),
            (lambda x: x / agrad.sum(x), "divide is not"),
            (agrad.max, "max is not linear in x"),
            (lambda x: x + 1.0, "not 0 at 0"),
            (lambda x: agrad.ones(3), "not 0"),
        )
    ],
]
MAPS: Rows = [
    (lambda: mapped()(W, W[[0, 0, 1, 1]]), ShapeError, r"argument 1 must have 3 .* as argument 0 has, got 4"),
    (lambda: mapped(axis_size=2)(V, V), ShapeError, "argument 0 must have 2 elements .* as axis_size says, got 3"),
    (lambda: mapped(in_axes=(0, 2))(V, V), ShapeError, r"argument 1 must be an axis of its shape \(3,\), got 2"),
    (lambda: mapped()(V, 2.0), OperandError, "argument 1 must be an array to be mapped, got 2.0. Set its in_axes to N"),
    (lambda: mapped()(V, np.asarray(1.0)), ShapeError, "argument 1 must have an axis to be mapped"),
    (lambda: mapped(in_axes=(0, None, 0))(V, 1.0), ConfigurationError, "each of the 2 positional arguments, got 3"),
    (lambda: mapped(in_axes=(None, None))(V, V), ConfigurationError, "axis_size"),
    (lambda: mapped(in_axes=(0, {"a": 0}))(V, V), ConfigurationError, "in_axes must be .* a prefix of the arguments"),
    (lambda: mapped(in_axes=(0, "one"))(V, V), ConfigurationError, "in_axes must .* only ints and None, got 'one'"),
    (lambda: mapped(out_axes=[0, 0])(V, V), ConfigurationError, "out_axes must be .* a prefix of the result"),
    (lambda: agrad.vmap(lambda a: (1.0, a), out_axes=(0, None))(W), ConfigurationError, "axis for output 1, got None"),
    (lambda: agrad.vmap(agrad.sum, out_axes=2)(W), ConfigurationError, "out_axes must be one of the 1 axes of the res"),
    (lambda: agrad.vmap(lambda a: (a, "name"))(W), OperandError, "output 1 must be an array, got 'name'"),
    (lambda: agrad.vmap(named)({"a": V, "b": V[:2]}), ShapeError, r"0\['b'\] must have 3 .* argument 0\['a'\] has"),
    *[
        (lambda size=size: agrad.vmap(agrad.sin, chunk_size=size), ConfigurationError, "chunk_size")
        for size in (0, -1, 1.5, True)
    ],
    (lambda: agrad.vmap(lambda a: a @ a)(V), ShapeError, "at least 1 axis"),
    (lambda: agrad.vmap(lambda x: x if x > 0 else -x)(V), TracedValueError, r"bool\(\) .* 3 batch .* agrad\.where"),
    *[
        (lambda ask=ask: agrad.vmap(ask)(W), TracedValueError, r"vmap|where")
        for ask in (
            lambda x: float(x[0]),
            lambda x: int(x[0]),
            lambda x: complex(x[0]),
            lambda x: x[0].item(),
            lambda x: [1, 2, 3][agrad.argmax(x)],
            lambda x: x.numpy(),
            lambda x: np.asarray(x),
            lambda x: np.from_dlpack(x),
            lambda x: x[0] in [1.0],
            lambda x: agrad.nonzero(x),
            lambda x: agrad.unique_values(x),
            lambda x: x[x > 0],
            lambda x: agrad.repeat(x, agrad.astype(x > 0, agrad.int64)),
            lambda x: agrad.linalg.pinv(agrad.ones((3, 3)), rtol=x[0]),
            lambda x: agrad.asarray(x, requires_grad=True),
        )
    ],
    (lambda: agrad.vmap(without_rules)(W), MissingRuleError, r"cube has no batching .*batch='loop'.*@cube\.batch"),
]


def test_errors_say_what_to_change() -> None:
    each_fails([*RESULTS, *ARGUMENTS, *MAPS])


def test_errors_inside_of_maps_say_so() -> None:
    with pytest.raises(IndexError) as caught:
        agrad.vmap(lambda a: agrad.vmap(lambda b: b[7])(a))(np.ones((4, 3, 2)))
    notes = "\n".join(caught.value.__notes__)
    assert "each of the 3 elements of a vmap" in notes and "each of the 4 elements of a vmap" in notes
    rows, columns = np.ones((2, 3, 4)), np.ones((2, 5, 4))
    with pytest.raises(ShapeError, match=r"^add: shapes \(4,\) and \(5,\) must be broadcastable") as caught:
        agrad.vmap(lambda x, y: agrad.vmap(agrad.add, in_axes=(0, None))(x, y[:, 0]))(rows, columns)
    assert caught.value.__notes__ == ["for each of the 2 elements of a vmap", "for each of the 3 elements of a vmap"]
    dtypes = iter([agrad.float64, agrad.float32])
    with pytest.raises(ShapeError, match="all chunks must have the same shape and dtype"):
        agrad.vmap(lambda a: agrad.astype(a, next(dtypes)), chunk_size=2)(V)


def test_an_aux_may_hide_arrays() -> None:
    value, pull, aux = agrad.vjp(lambda x: ({"y": 2 * x, "name": "y"}, Hidden(1)), X, has_aux=True)
    assert pull({"y": X, "name": value["name"]})[0].tolist() == (2 * X).tolist() and aux.y == 1
