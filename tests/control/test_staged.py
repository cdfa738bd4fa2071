"""Control flow inside ``jit``: one operation with sub-programs, in every mode, with the results of the plain loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import Row, each_row
from jit_help import memory_of
from modes import DERIVATIVES, check_mapped, check_traced, total
from refusals import fails

import agrad
from agrad.errors import NotDifferentiableError, OperandError, ShapeError, TracedValueError

X = np.asarray([0.3, -1.2, 2.0])
W = np.random.default_rng(0).standard_normal((3, 3)) * 0.5

Function = Callable[[Any], Any]


@agrad.custom_vjp
def squared(x: Any) -> Any:
    """A square whose pullback is another function's, so that one sees which was taken."""
    return x * x


squared.defvjp(lambda x: (x * x, x), lambda x, g: (g * agrad.cos(x),))


def recurrent(x: Any, **settings: Any) -> Any:
    """A network with a captured matrix, a counter, and two stacked results."""
    w = agrad.sin(agrad.asarray(x)) * agrad.expand_dims(agrad.asarray(x), axis=1)

    def step(carry: Any, row: Any) -> Any:
        h = agrad.tanh(agrad.matmul(w, carry["h"]) + row)
        return {"h": h, "n": carry["n"] + 1.0}, (h * h, agrad.sum(row))

    rows = agrad.stack([x * k for k in (1.0, -0.5, 0.3, 2.0)])
    carry, (squares, sums) = agrad.scan(step, {"h": x, "n": agrad.sum(x) * 0}, rows, **settings)
    return agrad.sum(carry["h"]) * carry["n"] + agrad.sum(squares * squares, axis=0) + agrad.sum(sums * sums)


def nested(x: Any) -> Any:
    def outer(c: Any, v: Any) -> Any:
        last, ys = agrad.scan(lambda d, w: (agrad.sin(d + w) * v, d), c, x)
        return agrad.cond(agrad.sum(last) > 0.1, lambda q: q * v, lambda q: q - v, last), agrad.sum(ys)

    c, ys = agrad.scan(outer, agrad.sum(x) * 0.1, x)
    return c + agrad.sum(ys)


def with_gradient_inside(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        return c - 0.1 * agrad.grad(lambda q: agrad.sum(agrad.sin(q * v)))(c), v

    return agrad.scan(step, x, x)[0]


def with_checkpoints(x: Any) -> Any:
    step = lambda c, v: (agrad.checkpoint(lambda c: agrad.sin(c * x) + squared(c))(c) + v, c)  # noqa: E731
    return agrad.scan(step, x, agrad.stack([x, 0.5 * x]))[0]


def stopped(stop: Function) -> Function:
    """Return a loop whose step multiplies by what ``stop`` makes of the carried value."""
    return lambda x: agrad.fori_loop(0, 2, lambda i, c: agrad.multiply(c, stop(agrad.asarray(c))), x)


def without_gradient(c: Any) -> Any:
    with agrad.no_grad():
        return c * 1


def of_elements(f: Function) -> Function:
    """Return ``f`` of each element of a vector."""
    return agrad.vmap(lambda x: f(agrad.asarray(x)))


CASES: dict[str, Function] = {
    "scan": recurrent,
    "scan in reverse": lambda x: recurrent(x, reverse=True),
    "scan in pieces": lambda x: recurrent(x, checkpoint=3),
    "scan in pieces in reverse": lambda x: recurrent(x, checkpoint=True, reverse=True),
    "scan from a number": lambda x: agrad.scan(lambda c, v: (c * v + 1, c), 1, x)[0] * x,
    "fori_loop": lambda x: agrad.fori_loop(1, 5, lambda i, v: agrad.sin(v) + x * x[i % 3], x),
    "cond": lambda x: agrad.cond(agrad.sum(x) > 1, agrad.sin, agrad.cos, x),
    "cond, the other": lambda x: agrad.cond(agrad.sum(x) > 9, agrad.sin, agrad.cos, x),
    "cond of captured values": lambda x: agrad.cond(x[0] < 0, lambda: agrad.sqrt(agrad.abs(x)), lambda: x * x[1]),
    "cond with a number": lambda x: x * agrad.cond(x[0] < 0, lambda: x[0], lambda: 2.0),
    "switch": lambda x: agrad.switch(agrad.astype(x[2], agrad.int64), [agrad.sin, agrad.cos, lambda v: v**2], x),
    "nested": nested,
    "a gradient inside": with_gradient_inside,
    "a custom rule": lambda x: agrad.scan(lambda c, v: (squared(c) + v, c), x[0], x)[0],
    "a custom rule of a captured value": lambda x: agrad.cond(x[2] > 0, lambda: squared(x), lambda: x),
    "checkpoints in steps": with_checkpoints,
    "stop_gradient": stopped(agrad.stop_gradient),
    "detach": stopped(lambda c: c.detach()),
    "no_grad": stopped(without_gradient),
    "a branch that is NaN": of_elements(lambda v: agrad.cond(v > 0, lambda: agrad.sqrt(v), lambda: v * v)),
}
FORWARD: dict[str, Function] = {
    "while_loop": lambda x: agrad.while_loop(lambda v: agrad.sum(v * v) < 1e3, lambda v: v * 1.5 + x, x * 2 + 1),
    "while_loop with a counter": lambda x: agrad.while_loop(
        lambda s: agrad.logical_and(agrad.sum(s[1]) < 1e9, agrad.asarray(s[0]) < 4),
        lambda s: (s[0] + 1, agrad.sin(s[1]) + x),
        (0, x),
    )[1],
    "fori_loop to a value": lambda x: agrad.fori_loop(
        0, agrad.astype(x[2] + 2, agrad.int64), lambda i, v: agrad.sin(v) + x * x[i % 3], x
    ),
}
"""Loops that have a derivative in forward mode only inside jit."""


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@each_row(CASES)
def test_values_derivatives_and_maps(case: Row, place: Any) -> None:
    f, rows = case.value, np.stack([X, X[::-1] * 1.5])
    check_traced(f, (place(X),), [*DERIVATIVES, "forward over forward"], 1e-9, plain=f)
    check_mapped(f, [place(rows)], tolerance=1e-9, wrap=agrad.jit, plain=f)


@each_row(FORWARD)
def test_loops_whose_length_is_not_known(case: Row, place: Any) -> None:
    forward = ("value", "tangent", "forward over forward", "vmap", "vmap of the tangent")
    f, rows = case.value, np.stack([X, X[::-1] * 1.5, -X])
    check_traced(f, (place(X),), forward, 1e-9, plain=f)
    check_mapped(f, [place(rows)], values=1e-10, derivatives=False, plain=f)
    reverse = agrad.jit(agrad.grad(total(case.value)))
    fails(NotDifferentiableError, r"agrad\.scan or agrad\.fori_loop", reverse, place(X))


def test_numbers_of_a_call(place: Any) -> None:
    """A number among the arguments is read at each call, without a new trace, and in derivatives and maps."""
    x = place(X)
    f = agrad.jit(lambda x, rate: agrad.scan(lambda c, v: (c - rate * v, None), x, agrad.stack([x, x * x]))[0])
    for rate in (0.1, 0.5):
        assert_close(f(x, rate), X - rate * X - rate * X * X, "value", 1e-12)
    assert f.cache_info().misses == 1
    for g in (
        lambda x, r: agrad.fori_loop(0, 3, lambda i, c: c * r, x),
        lambda x, r: agrad.cond(agrad.sum(x) > 0, lambda: x * r, lambda: x),
    ):
        gradient = lambda x, r, g=g: agrad.grad(lambda x: agrad.sum(g(x, r)))(x)  # noqa: E731
        assert_close(agrad.jit(gradient)(x, 0.5), host(gradient(x, 0.5)), "reverse")
        each = lambda x, r, g=g: agrad.vmap(lambda v: g(agrad.expand_dims(v), r))(x)  # noqa: E731
        assert_close(agrad.jit(each)(x, 0.5), host(each(x, 0.5)), "mapped")


# ---------------------------------------------------------------- memory and programs


def peak(f: Function, x: Any) -> int:
    """Return the bytes that a call of a jitted function needs."""
    f(x)
    return memory_of(f, x)[1]


def test_memory_of_checkpoints() -> None:
    """That of pieces grows as the square root of the steps; a checkpoint in a step keeps its arguments alone."""
    x = np.ones(200)

    def of_pieces(n: int) -> int:
        f = lambda x: agrad.scan(lambda c, _: (agrad.sin(c * x), None), x, length=n, checkpoint=True)[0]  # noqa: E731
        return peak(agrad.jit(agrad.grad(total(f))), x)

    assert of_pieces(1600) < 2.5 * of_pieces(400)

    def of_steps(wrap: Function) -> int:
        many = wrap(lambda c: agrad.sin(agrad.tanh(agrad.sin(agrad.tanh(agrad.sin(c * x)) * x) * x)))
        scanned = total(lambda x: agrad.scan(lambda c, _: (many(c), None), x, length=50)[0])
        return peak(agrad.jit(agrad.grad(scanned)), x)

    assert of_steps(agrad.checkpoint) < 0.4 * of_steps(lambda f: f)


def test_imperative_steps(place: Any) -> None:
    """Captured parameters get their gradients from ``backward`` inside the jitted step."""
    w = agrad.asarray(place(W), requires_grad=True)

    def step(xs: Any) -> Any:
        h, _ = agrad.scan(lambda h, x: (agrad.tanh(agrad.matmul(w, h) + x), None), agrad.sum(xs, axis=0) * 0, xs)
        value = agrad.sum(h * h)
        value.backward()
        return value

    xs = place(np.stack([X, -X, X * 0.5]))
    step(xs)
    expected, jitted = host(w.grad), agrad.jit(step)
    for _ in range(2):
        w.grad = None
        jitted(xs)
        assert_close(w.grad, expected, "gradient", 1e-12)


def test_programs_do_not_grow_with_the_steps() -> None:
    def gradient(n: int) -> str:
        f = lambda x: agrad.sum(agrad.scan(lambda c, _: (agrad.sin(c) * x, None), x, length=n)[0])  # noqa: E731
        return str(agrad.jit(agrad.grad(f)).lower(X))

    assert gradient(5).count("\n") == gradient(500).count("\n")


def test_views_of_what_is_kept_are_not_kept_too() -> None:
    def step(c: Any, row: Any) -> Any:
        y = agrad.tanh(c * row)
        return agrad.stack([y[0] * y[1], y[1] * y[2], y[2] * y[0]]), y

    def f(x: Any) -> Any:
        return agrad.sum(agrad.scan(step, x, agrad.stack([x] * 5))[0])

    program = agrad.jit(agrad.grad(f)).lower(X).stages[0][1]
    (forward,) = [i for i in program.instructions if i.name == "scan"]
    assert not [v.shape for v in forward.results if v.shape == (5,)]
    np.testing.assert_allclose(agrad.jit(agrad.grad(f))(X), agrad.grad(f)(X), rtol=1e-12)


def test_random_draws_differ_from_step_to_step() -> None:
    draws = agrad.random.Generator(3)
    f = agrad.jit(lambda x: agrad.scan(lambda c, v: (c, v + agrad.random.normal(draws.key())), x[0], x)[1])
    assert len(set(host(f(np.zeros(4))).tolist())) == 4
    loop = lambda x: agrad.while_loop(lambda v: v < 3, lambda v: v + agrad.random.uniform(draws.key()), x)  # noqa: E731
    fails(TracedValueError, "the state of a Generator inside jit", lambda: agrad.jit(loop)(np.asarray(0.0)))


# ---------------------------------------------------------------- errors

ERRORS: list[tuple[Function, type[Exception], str]] = [
    (lambda x: agrad.cond(x[0] > 0, lambda: x, lambda: x[0]), ShapeError, "result 0 must be the same in all branches"),
    (lambda x: agrad.cond(x[0] > 0, lambda: x, lambda: (x, x)), ShapeError, "must return the same structure"),
    (lambda x: agrad.cond(x > 0, lambda: x, lambda: x), ShapeError, "Reduce it first"),
    (lambda x: agrad.cond(x[0] > 0, lambda: (x, "a"), lambda: (x, "b"))[0], ShapeError, "got 'b' and 'a'"),
    (lambda x: agrad.switch(x[0], [agrad.sin], x), OperandError, "must be an integer, got float64"),
    (lambda x: agrad.switch(0, [], x), OperandError, "at least one function"),
    (lambda x: agrad.while_loop(lambda v: v > 0, lambda v: v, x), ShapeError, "Reduce it first"),
    (lambda x: agrad.while_loop(lambda v: v[0] > 0, lambda v: v[0], x), ShapeError, "must not change the shape and"),
    (lambda x: agrad.scan(lambda c, v: (c, "y"), x, x), OperandError, r"Use agrad\.asarray"),
    (lambda x: agrad.scan(lambda c, v: (c[0], v), x, x), ShapeError, "must not change the shape and dtype"),
    (lambda x: agrad.fori_loop(0.5, 3, lambda i, v: v, x), OperandError, "lower must be an integer, got 0.5"),
    (lambda x: agrad.fori_loop(0, "3", lambda i, v: v, x), OperandError, "upper must be an integer"),
    (lambda x: agrad.fori_loop(0, 3, lambda i, c: (c[0], x), (x, None)), OperandError, "Carry arrays and numbers from"),
    (lambda x: agrad.fori_loop(0, 3, lambda i, c: (c[0], x), (x, "a")), OperandError, "Carry arrays and numbers from"),
    (lambda x: agrad.scan(lambda c, v: (c + 1, float(v)), x, x), TracedValueError, "inside scan: f"),
]


@pytest.mark.parametrize(("f", "error", "match"), ERRORS)
def test_errors(f: Function, error: type[Exception], match: str) -> None:
    fails(error, match, lambda: agrad.jit(f)(X))


def test_writes_to_values_from_outside_are_errors() -> None:
    b = agrad.asarray([1.0, 2.0, 3.0])

    def step(c: Any, v: Any) -> Any:
        b[0] = b[0] + 1.0
        return c * v + b, None

    def own(x: Any) -> Any:
        buffer = agrad.asarray(x) * 0
        return agrad.scan(lambda c, v: (buffer.__iadd__(1) * c, None), x, x)[0]

    def operand(x: Any) -> Any:
        b = agrad.asarray(x) * 1
        agrad.cond(b[0] > 0, lambda b: (b.__setitem__(0, 5.0), b)[1], lambda b: b, b)
        return b

    for f in (lambda x: agrad.scan(step, x, x)[0], own, operand):
        fails(TracedValueError, r"Write to a copy, y = x \+ 0", agrad.jit(f), X)
    assert b.tolist() == [1.0, 2.0, 3.0]

    def local(c: Any, v: Any) -> Any:
        c = c + 0
        c[0] = v
        return c, None

    assert_close(agrad.jit(lambda x: agrad.scan(local, x, x)[0])(X), [2.0, -1.2, 2.0], "a copy")
    kept: list[Any] = []
    agrad.vmap(lambda x: agrad.while_loop(lambda v: v < 9, lambda v: (kept.append(v), v + 1)[1], x))(X)
    fails(TracedValueError, "was kept and used afterwards", lambda: kept[0] + 1)


# ---------------------------------------------------------------- values


def test_switch_takes_the_nearest_branch() -> None:
    branches = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    run = agrad.jit(lambda i, x: agrad.switch(i, branches, x))
    for index, expected in ((-5, 1), (0, 1), (1, 2), (2, 3), (9, 3)):
        assert_close(agrad.switch(index, branches, X), X * expected, "known")
        assert_close(run(np.asarray(index), X), X * expected, "traced")
    many = agrad.vmap(lambda i: agrad.switch(i, branches, X))(np.asarray([-5, 1, 9]))
    assert_close(many, np.stack([X, 2 * X, 3 * X]), "mapped")


def test_fori_loop_is_pythons_outside_of_jit() -> None:
    seen: list[int] = []
    assert agrad.fori_loop(2, 5, lambda i, v: (seen.append(i), v + i)[1], 0) == 9
    assert seen == [2, 3, 4]
    assert agrad.fori_loop(3, 3, lambda i, v: v + 1, 7) == 7


def test_branches_and_loops_do_not_read_values_of_the_trace() -> None:
    """Neither a branch that is not taken nor what follows a loop is refused for the values of the trace."""
    eye = np.eye(2)
    grown = lambda xs: agrad.scan(lambda a, v: (a + agrad.expand_dims(v, axis=1) * v, None), eye * 0, xs)[0]  # noqa: E731
    assert_close(agrad.jit(lambda xs: agrad.linalg.cholesky(grown(xs)))(eye), eye, "after a loop")
    root = agrad.jit(lambda m: agrad.cond(m[0, 0] > 0, lambda: agrad.linalg.cholesky(m), lambda: m))
    assert_close(root(-eye), -eye, "not taken")
    assert_close(root(4 * eye), 2 * eye, "taken")
    fails(np.linalg.LinAlgError, "not positive definite", lambda: agrad.jit(agrad.linalg.cholesky)(-eye))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fori_loop_keeps_the_dtype(dtype: str, place: Any) -> None:
    x = place(X.astype(dtype))
    found = agrad.jit(lambda x: agrad.fori_loop(0, 3, lambda i, c: c + agrad.astype(x, x.dtype) * x[i % 3], x))(x)
    assert agrad.asarray(found).dtype == getattr(agrad, dtype)
    if agrad.asarray(x).backend != "array_api_strict":
        assert agrad.asarray(agrad.jit(lambda x: agrad.fori_loop(0, 3, lambda i, c: c + i, x))(x)).dtype == found.dtype


def test_kinds_of_results() -> None:
    """Leaves that are no arrays stay; results are Tensors if an operand is one; a jitted function may be inside."""
    for start in (None, "a"):
        f = lambda x, s=start: agrad.fori_loop(0, 3, lambda i, c: (c[0] + 1, c[1]), (x, s))[0]  # noqa: E731
        assert_close(agrad.jit(f)(X), X + 3, "as it was")
    w = agrad.asarray(np.ones(3))
    for f in (
        lambda x: agrad.scan(lambda c, v: (c * w, c), x, x)[0],
        lambda x: agrad.cond(x[0] < 9, lambda: w, lambda: w),
    ):
        assert isinstance(agrad.jit(f)(X), agrad.Tensor)
    assert isinstance(agrad.jit(lambda x: agrad.fori_loop(0, 2, lambda i, c: c * x, x))(X), np.ndarray)
    inside = lambda x: agrad.sum(agrad.jit(lambda q: q * x)(np.ones(3)))  # noqa: E731
    assert agrad.grad(inside)(X).tolist() == [1.0, 1.0, 1.0]


def test_a_mask_in_a_loop(backend: str) -> None:
    """A write through a mask is right, or refused where the library's programs have no such shapes."""
    x = agrad.asarray([1.0, 2.0], dtype=agrad.float64).data

    def body(c: Any, row: Any) -> Any:
        y = c * 1.0
        y[y > 1.5] = 9.0
        return y, row

    run = agrad.jit(lambda x: agrad.scan(body, x, x)[0])
    if backend == "jax":
        fails(TracedValueError, r"Boolean index.* agrad\.where", run, x)
    else:
        assert_close(run(x), [1.0, 9.0], "loop")


def test_a_write_in_a_body_keeps_the_layout_that_decides_on_views() -> None:
    def step(carry: Any, _: Any) -> Any:
        turned = agrad.flip(carry * 1, axis=1)
        view = turned[None]
        view += -1.5 * view
        np.ravel(turned)[...] = 3.0  # a copy of an array that is not row-major
        return turned, agrad.sum(turned)

    x = np.arange(4.0).reshape(2, 2) + 1
    last, sums = agrad.scan(step, x, np.zeros(2))
    jitted = agrad.jit(lambda v: agrad.scan(step, v, np.zeros(2)))(x)
    np.testing.assert_array_equal(last, [[0.25, 0.5], [0.75, 1.0]])
    np.testing.assert_array_equal(jitted[0], last)
    np.testing.assert_array_equal(jitted[1], sums)
