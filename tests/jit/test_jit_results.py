"""Results of jitted functions: their kinds, arrays of their own to write into, and writes to views in each layout."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from checker import assert_close
from jit_help import close, function_of
from refusals import fails

import agrad
from agrad import nn
from agrad.backends import selected
from agrad.errors import TracedValueError

VALUES = np.arange(1.0, 13.0).reshape(3, 4)
KEPT = np.arange(12.0).reshape(3, 4)
WRITABLE = ("numpy", "torch", "array_api_strict", "cupy", "dask")


@agrad.primitive(batch="loop")
def own_view(xp: Any, x: Any, /) -> Any:
    """An operation of the user's that gives a view."""
    return x[1:, :]


@own_view.vjp
def own_view_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    return xp.zeros(x_meta.shape)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "twice": lambda x: (x, x),
    "computed twice": lambda x: (agrad.sin(x), agrad.sin(x)),
    "in a dict": lambda x: {"a": x, "b": [x * 2.0, x]},
    "all of it": lambda x: x[...],
    "a part": lambda x: x[1:],
    "two parts that overlap": lambda x: (x[:2], x[1:]),
    "parts of a result": lambda x: (lambda y: (y[:2], y[1:], y))(x * 2.0),
    "transposed": lambda x: x.T,
    "reshaped": lambda x: agrad.reshape(x, (-1,)),
    "reshaped and transposed": lambda x: agrad.reshape(x.T, (-1,)),
    "flipped": lambda x: agrad.flip(x, axis=0),
    "broadcast": lambda x: agrad.broadcast_to(x, (2, 3, 4)),
    "a result, broadcast": lambda x: agrad.broadcast_to(agrad.sum(x, axis=0), (2, 4)),
    "times one": lambda x: x * 1.0,
    "a view of times one": lambda x: (x * 1.0).T,
    "of the same dtype": lambda x: agrad.astype(x, agrad.float64, copy=False),
    "positive": lambda x: +x,
    "real": agrad.real,
    "rounded integers": lambda x: (agrad.floor(agrad.astype(x, agrad.int64)), agrad.astype(x, agrad.int64)),
    "first power": lambda x: agrad.linalg.matrix_power(x[:, :3], 1),
    "joined": lambda x: agrad.concat([x]),
    "unstacked": lambda x: agrad.unstack(x, axis=0),
    "the user's own view": own_view,
    "a constant": lambda x: (x + 1.0, KEPT),
    "a view of a constant": lambda x: (x + 1.0, KEPT[1:]),
    "gradients": lambda x: agrad.grad(lambda a, b: agrad.sum(a + b), argnums=(0, 1))(x, x),
    "a gradient that is an argument": lambda x: agrad.grad(lambda y: agrad.sum(y * x))(x + 1.0),
}


def arrays_of(out: Any) -> list[Any]:
    leaves = agrad.transforms.trees.flatten(out)[0]
    return [leaf.data if isinstance(leaf, agrad.Tensor) else leaf for leaf in leaves]


def host(raw: Any) -> Any:
    return agrad.asarray(raw).numpy().copy()


@pytest.mark.parametrize("tensor", [False, True], ids=["raw", "tensor"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_may_be_written_into(name: str, tensor: bool, backend: str, place: Any) -> None:
    """It changes neither the argument, nor another result, nor what the next call gives."""
    if backend not in WRITABLE:
        pytest.skip("arrays that nothing can write into")
    jitted = agrad.jit(FUNCTIONS[name])
    x, kept = place(VALUES.copy()), KEPT.copy()
    given = agrad.asarray(x) if tensor else x
    expected = [host(raw) for raw in arrays_of(jitted(given))]
    for _ in range(2):
        found = arrays_of(jitted(given))
        for i, raw in enumerate(found):
            np.testing.assert_array_equal(host(raw), expected[i])
            raw[...] = -1 - i
        for i, raw in enumerate(found):
            np.testing.assert_array_equal(host(raw), np.full(raw.shape, -1 - i))
        np.testing.assert_array_equal(host(x), VALUES)
        np.testing.assert_array_equal(KEPT, kept)
    assert jitted.cache_info().misses == 1


def test_results_that_are_new_are_not_looked_at() -> None:
    """A copy is made only where memory may be shared, and where it is: the transpose of an array, not what is added."""
    jitted = agrad.jit(lambda x: (x * 2.0 + 1.0, agrad.matmul(x, x.T), agrad.sum(x), agrad.exp(x)))
    jitted(VALUES)
    ((entry,),) = jitted._entries.values()
    assert not entry.copies.steps
    jitted = agrad.jit(lambda x: agrad.reshape(x * 2.0, (-1,)))
    first, second = jitted(VALUES), jitted(VALUES)
    assert first.base is not None and not np.shares_memory(first, second)  # no copy: the view of a new array


def test_a_gradient_of_state_is_no_view_of_an_argument() -> None:
    w = agrad.asarray(np.ones((3, 4)), requires_grad=True)

    @agrad.jit
    def step(x: Any) -> Any:
        loss = agrad.sum(agrad.reshape(w, (12,)) * x)
        loss.backward()
        return w.grad

    x = np.arange(12.0)
    given = step(x)
    assert not np.shares_memory(w.grad.data, x) and not np.shares_memory(given.data, w.grad.data)
    x[...] = -1.0
    given.data[...] = -2.0
    np.testing.assert_array_equal(w.grad.numpy(), np.arange(12.0).reshape(3, 4))


def test_a_parameter_that_is_a_result_does_not_follow_updates() -> None:
    w = agrad.asarray(np.ones(3), requires_grad=True)
    read = agrad.jit(lambda: w.detach())
    given = read()
    assert not np.shares_memory(given.data, w.data)
    given.data[...] = 5.0
    np.testing.assert_array_equal(w.detach().numpy(), np.ones(3))


# ------------------------------------------------------------------ raw arrays and Tensors

X = np.arange(6.0).reshape(2, 3) + 1

WEIGHT = agrad.asarray(np.ones(3))


def twice(x: Any) -> Any:
    return x * 2


SQUARE = agrad.custom_vjp(lambda x: x * x)
SQUARE.defvjp(lambda x: (x * x, x), lambda x, g: (2.0 * x * g,))
SINE = agrad.custom_jvp(agrad.sin)
SINE.defjvp(lambda primals, tangents: (agrad.sin(primals[0]), agrad.cos(primals[0]) * tangents[0]))

KINDS = {
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


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_those_of_the_function(name: str) -> None:
    f = KINDS[name]
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


# ---------------------------------------------------------------- writes to views of arguments in each layout

MATRIX = np.arange(24.0).reshape(4, 6)


def reversed_axes(x: Any) -> Any:
    return np.ascontiguousarray(x.T).T


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": reversed_axes,
    "strided rows": lambda x: np.repeat(x, 2, axis=0)[::2],
    "strided columns": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "negative strides": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "part of a larger one": lambda x: np.pad(x, 2)[2:-2, 2:-2],
}


def placed(values: Any, layout: str, place: Any) -> Any:
    """A raw array with a layout, where the library takes it over: PyTorch takes strides that are not negative."""
    array = LAYOUTS[layout](values.copy())
    if selected().backend.name != "torch":
        return place(array)
    return sys.modules["torch"].from_numpy(reversed_axes(array) if min(array.strides) < 0 else array)


DECIDING = [
    "y = agrad.reshape(x, (-1,)); y[0] = 100.0 | x",
    "y = agrad.reshape(x, (2, 2, 6)); y[1] *= 3.0 | x + y[0, 0, 0]",
    "y = agrad.reshape(x, (4, 3, 2)); y[:, 1] = agrad.sum(x) | x",
    "z = x * 2.0; y = agrad.reshape(z, (-1,)); y += 1.0 | z",
    "y = agrad.reshape(x[1:, ::2].T, (-1,)); y[2:4] = 7.0 | x",
    "y = agrad.reshape(x, (-1,)); x[1] = 5.0 | y",
    "np.ravel(x[-1])[...] = 0.5 | x",  # a copy where the elements of the row are not contiguous
]
"""What a write to a reshape changes depends on the layout."""
OTHERS = [
    " | x * 2.0",
    "x[0] = 1.0 | x * 2.0",
    "row = x[1]; row[:2] = 9.0 | x * 2.0",
    " | agrad.reshape(x, (-1,)) * agrad.matrix_transpose(x).shape[0]",
]
"""Programs for which the layout decides nothing, and which are traced once."""


@pytest.mark.parametrize("text", [*DECIDING, *OTHERS])
def test_a_write_is_what_an_ordinary_run_makes_of_it(text: str, backend: str, place: Any) -> None:
    function = function_of(text)
    jitted = agrad.jit(function)
    for layout in [*LAYOUTS, *reversed(LAYOUTS)]:
        given, own = (agrad.asarray(placed(MATRIX, layout, place)) for _ in range(2))
        np.testing.assert_array_equal(jitted(given).numpy(), function(own).numpy())
        np.testing.assert_array_equal(given.numpy(), own.numpy())
    assert jitted.cache_info().misses <= (len(LAYOUTS) if text in DECIDING else 1)


def test_state_in_another_layout(backend: str, place: Any) -> None:
    def made() -> Any:
        w = agrad.asarray(placed(MATRIX, "C", place))

        def step() -> Any:
            agrad.reshape(w, (-1,))[0] += 1.0
            return w * 1.0

        return w, step

    (right, eager), (w, step) = made(), made()
    jitted = agrad.jit(step)
    for layout in ("C", "Fortran", "strided columns", "C"):
        right.data, w.data = placed(MATRIX, layout, place), placed(MATRIX, layout, place)
        close((jitted(), w), (eager(), right), rtol=0)


def test_a_raw_argument_is_written_to_by_one_layout_alone() -> None:
    """The reshape of an array in Fortran's order is a copy; that of one in C's order is the argument itself."""

    @agrad.jit
    def f(x: Any) -> Any:
        y = agrad.reshape(x, (-1,))
        y[0] = 100.0
        return x + 0.0

    for _ in range(2):
        np.testing.assert_array_equal(f(placed(MATRIX, "Fortran", np.asarray)), MATRIX)
        fails(TracedValueError, "writes into an argument", lambda: f(placed(MATRIX, "C", np.asarray)))
