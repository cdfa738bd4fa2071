"""What a jitted function hands out is a raw array or a Tensor as the function's own result is."""

from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from checker import assert_close, host
from jit_help import close
from refusals import fails

import agrad
from agrad import nn

X = np.arange(6.0).reshape(2, 3) + 1

WEIGHT = agrad.asarray(np.ones(3))


def twice(x: Any) -> Any:
    return x * 2


SQUARE = agrad.custom_vjp(lambda x: x * x)
SQUARE.defvjp(lambda x: (x * x, x), lambda x, g: (2.0 * x * g,))
SINE = agrad.custom_jvp(agrad.sin)
SINE.defjvp(lambda primals, tangents: (agrad.sin(primals[0]), agrad.cos(primals[0]) * tangents[0]))

FUNCTIONS = {
    "raw": twice,
    "a Tensor made inside": lambda x: x + agrad.ones(3),
    "a Tensor reached": lambda x: x * WEIGHT,
    "one of each": lambda x: (agrad.sum(x), agrad.asarray(x), x + 1, agrad.asarray(x) * 2),
    "a zero like it": lambda x: agrad.zeros_like(x) + x,
    "of its namespace": lambda x: (array_namespace(x).ones(2), x * array_namespace(x).zeros(3)),
    "in a branch": lambda x: agrad.cond(
        agrad.sum(x) > 0, lambda x: x + 1, lambda x: array_namespace(x).zeros((2, 3)), x
    ),
    "in a loop": lambda x: agrad.scan(lambda c, row: (c + row, agrad.ones_like(c)), x[0], x)[1],
    "filled like it": lambda x: agrad.full_like(x, 2.0),
    "from one to another": lambda x: agrad.linspace(x[0, 0], 2.0, 3),
    "the argument": lambda x: x,
    "grad": agrad.grad(lambda x: agrad.sum(x * x)),
    "grad with a Tensor inside": agrad.grad(lambda x: agrad.sum(x * agrad.asarray(X))),
    "grad of a Tensor": lambda x: agrad.grad(lambda t: agrad.sum(t * x))(agrad.asarray(x)),
    "hessian": agrad.hessian(lambda x: agrad.sum(x**3)),
    "jvp": lambda x: agrad.jvp(twice, (x,), (x,)),
    "vjp": lambda x: agrad.vjp(twice, x)[1](x),
    "vmap": agrad.vmap(lambda row: agrad.sum(row * row)),
    "vmap with a Tensor inside": agrad.vmap(lambda row: row + agrad.ones(3)),
    "vmap over a Tensor": lambda x: agrad.vmap(twice)(agrad.asarray(x)),
    "vmap, its result a constant": lambda x: agrad.vmap(lambda t: x[0], in_axes=0)(agrad.asarray(x)),
    "stop_gradient": agrad.stop_gradient,
    "checkpoint": agrad.checkpoint(twice),
    "custom_vjp": SQUARE,
    "custom_jvp": SINE,
    "linear_solve": lambda x: agrad.linear_solve(twice, x),
    "odeint": lambda x: agrad.odeint(lambda y, _: -y, x, np.asarray([0.0, 1.0])),
    "a layer": nn.Linear(3, 2, dtype=agrad.float64),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_are_those_of_the_function(name: str) -> None:
    f = FUNCTIONS[name]
    jitted = agrad.jit(f)
    for x in (X, X * 3, agrad.asarray(X), agrad.asarray(X * 2)):
        got, right = jitted(x), f(x)
        kinds = [[isinstance(v, agrad.Tensor) for v in agrad.tree.leaves(found)] for found in (got, right)]
        assert kinds[0] == kinds[1]
        close(got, right, rtol=1e-7)


@pytest.mark.parametrize("wrap", [lambda y: y, agrad.asarray])
def test_a_write_into_an_array_of_the_function_is_seen_by_its_views(wrap: Any) -> None:
    def written(x: Any) -> Any:
        y = wrap(x * 1.0)
        row = y[0]
        row[...] = 5.0
        y[1, :] += 1
        return y, row

    jitted = agrad.jit(written)
    for x in (X, X + 1):
        y, row = jitted(x)
        assert type(y) is type(row) is type(wrap(X))
        close((y, row), (np.stack([np.full(3, 5.0), x[1] + 1]), np.full(3, 5.0)), rtol=0)


def test_the_cut_of_pinv_is_no_constant_of_a_program() -> None:
    a = np.random.default_rng(0).normal(size=(4, 3)) @ np.diag([1.0, 1e-3, 1e-6])
    jitted = agrad.jit(lambda a, cut: agrad.linalg.pinv(a, rtol=cut))
    ranks = agrad.jit(lambda a, cut: agrad.linalg.matrix_rank(a, rtol=cut))
    for cut in (1e-8, 1e-4, 1e-2):
        np.testing.assert_allclose(jitted(a, cut), np.linalg.pinv(a, rtol=cut))
        assert int(ranks(a, cut)) == int(ranks(a, np.asarray(cut))) == np.linalg.matrix_rank(a, rtol=cut)
    for cut in (np.asarray(1e-2), agrad.asarray(1e-2)):
        fails(agrad.errors.TracedValueError, "pinv's rtol", jitted, a, cut)


def test_float16_beside_wider_dtypes(backend: str) -> None:
    """The cast of a cotangent back to float16 is there in a program too."""
    if backend == "array_api_strict":
        pytest.skip("array_api_strict has no float16")
    x = agrad.asarray(np.ones(3, np.float16), backend=backend).data
    i = agrad.asarray([0, 1, 2], dtype=agrad.int32).data
    for f in (lambda x: agrad.sum(x * i), lambda x: agrad.sum(agrad.where(i > 1, i, x))):
        slope, expected = agrad.jit(agrad.grad(f))(x), agrad.grad(f)(x)
        assert slope.dtype == x.dtype
        assert_close(slope, host(expected), "gradient")
