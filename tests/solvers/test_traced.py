"""The solvers inside ``jit``, in steps and branches too: solutions, derivatives, and NaN where there is none."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad
from agrad.solvers import adjoint, linear

A = np.asarray([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
B = np.asarray([1.0, 2.0, 3.0])

Function = Callable[[Any], Any]
SOLVERS: dict[str, Callable[[Any], Function]] = {
    "fixed_point": lambda a: lambda b: agrad.fixed_point(lambda x: agrad.tanh(agrad.matmul(a, x) * 0.1) + b / 2, 0 * b),
    "root": lambda a: lambda b: agrad.root(lambda x: x**3 + agrad.matmul(a, x) - b, 0 * b),
    "linear_solve": lambda a: lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) * (1 + b * b), b * b),
    "cg": lambda a: lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) * agrad.sum(b * b), b, method="cg"),
    "bicgstab": lambda a: (
        lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) + agrad.multiply(b, x), b, method="bicgstab")
    ),
}


@pytest.fixture(params=SOLVERS)
def solve(request: Any, place: Any) -> Function:
    return SOLVERS[request.param](place(A))


def loss(solve: Function) -> Function:
    return lambda b: agrad.sum(agrad.sin(solve(b)))


@pytest.mark.parametrize("dense", [True, False])
def test_solutions_and_derivatives(solve: Function, dense: bool, place: Any, monkeypatch: Any) -> None:
    if not dense:
        monkeypatch.setattr(linear, "DENSE", 1)
    b, along = place(B), place(np.asarray([1.0, -0.5, 0.25]))
    for f, what in (
        (solve, "value"),
        (agrad.grad(loss(solve)), "reverse"),
        (lambda b: agrad.jvp(solve, (b,), (along,))[1], "forward"),
        (lambda b: agrad.jvp(agrad.grad(loss(solve)), (b,), (along,))[1], "second order"),
        (lambda b: agrad.vmap(solve)(agrad.stack([b, 2 * b, b * b])), "mapped"),
    ):
        assert_close(agrad.jit(f)(b), host(f(b)), what, 1e-6)


def test_no_solution_is_nan(place: Any) -> None:
    b = place(B)
    for f in (
        lambda b: agrad.fixed_point(lambda x: 2 * x + b, b, maxiter=20),
        lambda b: agrad.root(lambda x: x * x + 1, b + 0.3, maxiter=3),
    ):
        assert np.isnan(host(agrad.jit(f)(b))).all()


def equations(times: Any) -> dict[str, Function]:
    """Return solvers whose equations use checkpoints, branches and loops."""
    return {
        "fixed_point": lambda b: agrad.fixed_point(lambda x: 0.3 * agrad.checkpoint(agrad.cos)(x) + b / 2, b * 0),
        "root": lambda b: agrad.root(
            lambda x: {"a": x["a"] ** 3 + x["a"] - b, "s": x["s"] - agrad.cond(b[0] > 9, lambda: b[0], lambda: b[1])},
            {"a": 0 * b, "s": b[0]},
        )["a"],
        "linear_solve": lambda b: agrad.linear_solve(
            lambda x: (
                agrad.multiply(x, 1 + b * b) + agrad.scan(lambda c, v: (c + agrad.multiply(v, b), None), 0 * b, x)[0]
            ),
            b,
        ),
        "odeint": lambda b: agrad.odeint(
            lambda y, t: agrad.sin(t + y) - agrad.multiply(b, y), b, times, rtol=1e-8, atol=1e-8
        )[-1, :],
    }


def stepped(solve: Function) -> Function:
    """Return a loop with a solve in a branch of its step."""

    def step(c: Any, v: Any) -> Any:
        return agrad.cond(agrad.sum(v) > 0, lambda: solve(0.5 * c + v) * v, lambda: c), agrad.sum(c)

    return lambda b: agrad.scan(step, b, agrad.stack([b, -b, 0.5 * b]))[0]


TIMES = np.asarray([0.0, 0.3, 1.0])


@pytest.mark.parametrize("name", equations(TIMES))
def test_in_a_branch_of_a_step(name: str, place: Any) -> None:
    gradient, expected = (agrad.grad(loss(stepped(equations(t)[name]))) for t in (place(TIMES), TIMES))
    assert_close(agrad.jit(gradient)(place(B / 3)), expected(B / 3), "reverse", 1e-6)


@pytest.mark.parametrize("name", equations(TIMES))
def test_all_modes_in_a_branch_of_a_step(name: str) -> None:
    f, b, along = stepped(equations(TIMES)[name]), B / 3, np.asarray([1.0, -0.5, 0.25])
    push = lambda f: lambda b: agrad.jvp(f, (b,), (along,))[1]  # noqa: E731
    mapped = lambda f: lambda b: agrad.vmap(f)(agrad.stack([b, 0.5 * b]))  # noqa: E731
    for derivative, what in (
        (push(f), "forward"),
        (push(push(f)), "forward twice"),
        (push(agrad.grad(loss(f))), "forward over reverse"),
        (agrad.grad(lambda b: agrad.sum(push(f)(b))), "reverse over forward"),
        (agrad.grad(lambda b: agrad.sum(agrad.grad(loss(f))(b) * along)), "reverse over reverse"),
        (mapped(push(f)), "mapped tangent"),
        (mapped(agrad.grad(loss(f))), "mapped gradient"),
        (agrad.grad(lambda b: agrad.sum(mapped(f)(b))), "gradient of a map"),
    ):
        assert_close(agrad.jit(derivative)(b), derivative(b), what, 1e-6)
    loop = lambda b: agrad.while_loop(lambda v: agrad.sum(v) < 9, lambda v: v + b + f(b) ** 2, b)  # noqa: E731
    assert_close(agrad.jit(push(loop))(b), push(loop)(b), "forward, in a while_loop", 1e-6)
    assert_close(agrad.grad(agrad.jit(loss(f)))(b), agrad.grad(loss(f))(b), "of the jitted function", 1e-6)


def test_an_equation_in_an_equation() -> None:
    solve = lambda b: agrad.fixed_point(  # noqa: E731
        lambda x: 0.3 * agrad.root(lambda u: u**3 + u - agrad.cos(x) * b, 0 * b) + b, b * 0
    )
    f = lambda b: agrad.cond(agrad.sum(b) > 0, solve, agrad.sin, b)  # noqa: E731
    assert_close(agrad.jit(f)(B / 3), f(B / 3), "value", 1e-6)
    assert_close(agrad.jit(agrad.grad(loss(f)))(B / 3), agrad.grad(loss(f))(B / 3), "gradient", 1e-6)


@pytest.mark.needs("jax")
@pytest.mark.parametrize("name", ["root", "odeint"])
def test_with_a_compiler(name: str) -> None:
    gradient = agrad.grad(loss(stepped(equations(TIMES)[name])))
    assert_close(agrad.jit(gradient, compiler="jax")(B / 3), gradient(B / 3), "compiled", 1e-6)


@pytest.mark.parametrize(
    ("settings", "times"),
    [
        ({"method": "tsit5", "first_step": 0.01}, TIMES),
        ({"method": "dopri5", "max_step": 0.1}, TIMES[::-1].copy()),
        ({"method": "rk4", "max_step": 0.02}, TIMES),
    ],
)
def test_odeint(settings: dict[str, Any], times: Any, place: Any) -> None:
    """Its methods and settings, both directions of time, and derivatives by the times."""
    exact = {} if settings["method"] == "rk4" else {"rtol": 1e-8, "atol": 1e-8}

    def f(b: Any, t: Any) -> Any:
        start = {"u": b, "v": agrad.sum(b)}
        found = agrad.odeint(
            lambda y, t: {"u": agrad.sin(t * y["u"]) - y["v"], "v": y["u"][0]}, start, t, **settings, **exact
        )
        return agrad.sum(found["u"] * b) + agrad.sum(found["v"])

    b, t = place(B), place(times)
    assert_close(agrad.jit(f)(b, t), host(f(b, t)), "value", 1e-6)
    gradient = agrad.grad(f, (0, 1))
    for found, expected in zip(agrad.jit(gradient)(b, t), gradient(b, t), strict=True):
        assert_close(found, host(expected), "gradient", 1e-5)


MANY = np.linspace(0.0, 3.0, 61)
BY_STEPS: list[dict[str, Any]] = [{"method": "dopri5"}, {"method": "tsit5", "max_step": 0.2}]


@pytest.mark.parametrize("settings", BY_STEPS)
@pytest.mark.parametrize("times", [MANY, MANY[::-1].copy()])
def test_values_between_the_ends_of_steps(settings: dict[str, Any], times: Any, place: Any) -> None:
    """They are interpolated from the same steps as outside of a trace."""
    solve = lambda y, t: agrad.odeint(  # noqa: E731
        lambda y, s: agrad.stack([y[1], agrad.cos(s) - y[0]]), y, t, rtol=1e-6, atol=1e-6, **settings
    )
    y = np.asarray([1.0, 0.5])
    assert_close(agrad.jit(solve)(place(y), place(times)), solve(y, times), "values", 1e-11)


@pytest.mark.parametrize("settings", BY_STEPS)
def test_many_times_take_no_more_steps(settings: dict[str, Any]) -> None:
    """As many calls of the equation as outside of a trace, however many times are asked for."""
    calls = itertools.count()  # a list that grows would be state of the function

    @agrad.primitive(name="traced.counted", constant="x")
    def counted(xp: Any, x: Any, /) -> Any:
        next(calls)
        return x

    def count(solve: Any, t: Any) -> int:
        before = next(calls)
        solve(t)
        return next(calls) - before - 1

    solve = lambda t: agrad.odeint(lambda y, s: -counted(y), np.asarray([1.0, 2.0]), t, **settings)  # noqa: E731
    for n in (2, 400):
        jitted, t = agrad.jit(solve), np.linspace(0.0, 3.0, n)
        jitted(t)
        assert abs(count(jitted, t) - count(solve, t)) < 6  # a step makes six


@pytest.mark.parametrize("settings", BY_STEPS)
def test_derivatives_between_the_ends_of_steps(settings: dict[str, Any]) -> None:
    t, y, along = MANY[::6] / 2, np.asarray([1.0, -0.5]), np.asarray([0.3, 0.7])

    def rows(w: Any, t: Any = t) -> Any:
        f = lambda y, s: agrad.tanh(agrad.stack([w[0] * y[1], agrad.sin(s) - w[1] * y[0]]))  # noqa: E731
        return agrad.odeint(f, y * w, t, rtol=1e-7, atol=1e-7, **settings)

    f = lambda w: agrad.sum(agrad.sin(rows(w)))  # noqa: E731
    push = lambda f: lambda w: agrad.jvp(f, (w,), (along,))[1]  # noqa: E731
    w = np.asarray([1.1, 0.8])
    for derivative, what in (
        (agrad.grad(f), "reverse"),
        (push(rows), "forward"),
        (push(agrad.grad(f)), "forward over reverse"),
        (agrad.grad(lambda w: agrad.sum(agrad.grad(f)(w) * along)), "reverse over reverse"),
        (agrad.grad(push(f)), "reverse over forward"),
        (lambda w: agrad.vmap(rows)(agrad.stack([w, 2 * w])), "mapped"),
        (lambda w: agrad.vmap(agrad.grad(f))(agrad.stack([w, 2 * w])), "mapped gradient"),
        (agrad.grad(lambda w: agrad.sum(rows(w, w[0] * t) ** 2)), "by the times"),
    ):
        assert_close(agrad.jit(derivative)(w), derivative(w), what, 1e-5)
    assert_close(agrad.grad(agrad.jit(f))(w), agrad.grad(f)(w), "of the jitted function", 1e-5)


def test_slopes_of_a_wider_dtype(place: Any) -> None:
    """A product of a float32 state and a float64 time becomes float32 again."""
    solve = lambda y: agrad.odeint(lambda y, s: -y * place(MANY)[1] * s, y, place(MANY))  # noqa: E731
    y = place(np.asarray([1.0, 2.0], np.float32))
    found = agrad.jit(solve)(y)
    assert "float32" in str(found.dtype)
    assert_close(found, host(solve(y)), "values", 1e-4)


def test_an_equation_without_a_solution_is_nan() -> None:
    """The times before it has ended are right."""
    found = agrad.jit(lambda y: agrad.odeint(lambda y, t: y * y, y, np.asarray([0.0, 0.5, 2.0])))(np.asarray([1.0]))
    assert_close(found[:2, 0], [1.0, 2.0], "before", 1e-6)
    assert np.isnan(found[2, 0])


@pytest.mark.parametrize("name", ["root", "fixed_point", "linear_solve"])
def test_constants_alone_in_a_traced_function(name: str, place: Any) -> None:
    """No operand of the solver is traced, only what is done with the solution."""
    x = place(np.asarray([1.0, 2.0]))
    solve = {
        "root": lambda: agrad.root(lambda y: y * y - 2.0, x),
        "fixed_point": lambda: agrad.fixed_point(lambda y: (y + 2.0 / y) / 2.0, x),
        "linear_solve": lambda: agrad.linear_solve(lambda y: y * 2.0, x) * 0 + 2.0**0.5,
    }[name]
    scaled = agrad.jit(agrad.grad(lambda a: agrad.sum(a * solve())))
    assert_close(scaled(x), [2.0**0.5] * 2, "gradient")
    assert_close(agrad.jit(solve)(), [2.0**0.5] * 2, "solution")
    chosen = agrad.jit(lambda a: agrad.cond(agrad.sum(a) > 0, lambda: a * solve(), lambda: a))
    assert_close(chosen(x), host(x) * 2.0**0.5, "in a branch")


@pytest.mark.parametrize(
    ("kept", "times"),
    [(3, np.asarray([0.0, 0.1, 4.0])), (32, MANY), (1, MANY[::-1].copy())],
    ids=["few", "many", "back"],
)
def test_gradients_are_those_of_the_steps(kept: int, times: Any, place: Any, monkeypatch: Any) -> None:
    """The gradient of the computed values, as outside of a trace, whatever the number of steps between two times."""
    monkeypatch.setattr(adjoint, "KEPT", kept)
    monkeypatch.setattr(adjoint, "FEW", 1)
    weights = np.cos(np.arange(len(times)))

    def f(y: Any, w: Any) -> Any:
        slope = lambda y, s: {"a": w[1] * y["b"], "b": agrad.sin(w[0] * s) - y["a"] * agrad.sum(w)}  # noqa: E731
        found = agrad.odeint(slope, {"a": y[0], "b": y[1]}, place(times), rtol=1e-4, atol=1e-4)
        return agrad.sum(found["a"] ** 2 * place(weights) + found["b"])

    y, w = place(np.asarray([1.0, 0.5])), place(np.asarray([2.0, 7.0]))
    gradient = agrad.grad(f, (0, 1))
    for found, expected in zip(agrad.jit(gradient)(y, w), gradient(y, w), strict=True):
        assert_close(found, host(expected), "gradient", 1e-9)


def test_a_gradient_goes_through_each_step_once() -> None:
    """The calls of the equation do not grow with the number of times."""
    calls = itertools.count()

    @agrad.primitive(name="traced.counted.too", constant="s")
    def counted(xp: Any, x: Any, s: Any, /) -> Any:
        next(calls)
        return x + 0

    @counted.vjp("x")
    def _(g: Any) -> Any:
        return g

    def count(n: int) -> int:
        times = np.linspace(0.0, 3.0, n)
        solve = lambda y: agrad.odeint(lambda y, s: -counted(y, s), y, times)  # noqa: E731
        gradient, y = agrad.jit(agrad.grad(lambda y: agrad.sum(solve(y)))), np.asarray([1.0, 2.0])
        gradient(y)
        before = next(calls)
        gradient(y)
        return next(calls) - before

    assert count(400) <= count(70) + 12


def test_a_gradient_of_no_solution_is_nan() -> None:
    for n in (3, 90):
        times = np.linspace(0.0, 2.0, n)
        f = lambda y: agrad.sum(agrad.odeint(lambda y, t: y * y, y, times))  # noqa: B023, E731
        assert np.isnan(agrad.jit(agrad.grad(f))(np.asarray([1.0]))).all()
