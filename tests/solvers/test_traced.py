"""The solvers inside ``jit``, in steps and branches too: solutions, derivatives, and NaN where there is none."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import Row, each_row
from modes import DERIVATIVES, check_same, check_traced, gradient

import agrad
from agrad.solvers import adjoint, linear

A = np.asarray([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
B = np.asarray([1.0, 2.0, 3.0])

Function = Callable[..., Any]
SOLVERS: dict[str, Callable[[Any], Function]] = {
    "fixed_point": lambda a: lambda b: agrad.fixed_point(lambda x: agrad.tanh(agrad.matmul(a, x) * 0.1) + b / 2, 0 * b),
    "root": lambda a: lambda b: agrad.root(lambda x: x**3 + agrad.matmul(a, x) - b, 0 * b),
    "linear_solve": lambda a: lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) * (1 + b * b), b * b),
    "cg": lambda a: lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) * agrad.sum(b * b), b, method="cg"),
    "bicgstab": lambda a: (
        lambda b: agrad.linear_solve(lambda x: agrad.matmul(a, x) + agrad.multiply(b, x), b, method="bicgstab")
    ),
}


ALL = (*DERIVATIVES, "forward over forward", "vmap of the tangent", "vmap of the gradient", "gradient of vmap")


@pytest.mark.parametrize("dense", [True, False])
@each_row(SOLVERS, elsewhere=True)
def test_solutions_and_derivatives(case: Row, dense: bool, place: Any, monkeypatch: Any) -> None:
    if not dense:
        monkeypatch.setattr(linear, "DENSE", 1)
    modes = ("value", "gradient", "tangent", "forward over reverse", "vmap")
    check_traced(case.value(place(A)), (place(B),), modes, 1e-6, plain=case.value(A))


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
            lambda y, t: agrad.sin(t + y) - agrad.multiply(b, y), b, times, rtol=1e-6, atol=1e-6
        )[-1, :],
    }


def stepped(solve: Function) -> Function:
    """Return a loop with a solve in a branch of its step."""

    def step(c: Any, v: Any) -> Any:
        return agrad.cond(agrad.sum(v) > 0, lambda: solve(0.5 * c + v) * v, lambda: c), agrad.sum(c)

    return lambda b: agrad.scan(step, b, agrad.stack([b, -b]))[0]


TIMES = np.asarray([0.0, 0.3, 1.0])


@each_row(dict.fromkeys(equations(TIMES)), elsewhere=True)
def test_in_a_branch_of_a_step(case: Row, place: Any) -> None:
    there, here = (stepped(equations(times)[case.name]) for times in (place(TIMES), TIMES))
    check_same(agrad.jit(gradient(there)), gradient(here), (place(B / 3),), ("value",), 1e-4, reference=(B / 3,))


@pytest.mark.parametrize("name", equations(TIMES))
def test_all_modes_in_a_branch_of_a_step(name: str) -> None:
    f, tolerance = stepped(equations(TIMES)[name]), 1e-4 if name == "odeint" else 1e-6
    check_traced(f, (B / 3,), ALL, tolerance)
    check_same(agrad.jit(f), f, (B / 3,), ("gradient",), tolerance)
    loop = lambda b: agrad.while_loop(lambda v: agrad.sum(v) < 9, lambda v: v + b + f(b) ** 2, b)  # noqa: E731
    check_traced(loop, (B / 3,), ("tangent",), 1e-6)


def test_an_equation_in_an_equation() -> None:
    solve = lambda b: agrad.fixed_point(  # noqa: E731
        lambda x: 0.3 * agrad.root(lambda u: u**3 + u - agrad.cos(x) * b, 0 * b) + b, b * 0
    )
    check_traced(lambda b: agrad.cond(agrad.sum(b) > 0, solve, agrad.sin, b), (B / 3,), ("value", "gradient"), 1e-6)


@pytest.mark.needs("jax")
@pytest.mark.parametrize(("name", "tolerance"), [("root", 1e-6), ("odeint", 1e-4)])
def test_with_a_compiler(name: str, tolerance: float) -> None:
    slope = gradient(stepped(equations(TIMES)[name]))
    check_same(agrad.jit(slope, compiler="jax"), slope, (B / 3,), ("value",), tolerance)


EXACT = {"rtol": 1e-6, "atol": 1e-6}
SETTINGS = [
    {"method": "tsit5", "first_step": 0.01} | EXACT,
    {"max_step": 0.1} | EXACT,
    {"method": "rk4", "max_step": 0.05},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_odeint(settings: dict[str, Any], place: Any) -> None:
    """Its methods and settings, both directions of time, and derivatives by the times."""
    times = TIMES if "method" in settings else TIMES[::-1].copy()

    def f(b: Any, t: Any) -> Any:
        start = {"u": b, "v": agrad.sum(b)}
        slope = lambda y, t: {"u": agrad.sin(t * y["u"]) - y["v"], "v": y["u"][0]}  # noqa: E731
        found = agrad.odeint(slope, start, t, **settings)
        return agrad.sum(found["u"] * b) + agrad.sum(found["v"])

    check_traced(f, (place(B), place(times)), ("value", "gradient"), 1e-4, plain=f)


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
    t, y = MANY[:40:6], np.asarray([1.0, -0.5])

    def rows(w: Any, t: Any = t) -> Any:
        f = lambda y, s: agrad.tanh(agrad.stack([w[0] * y[1], agrad.sin(s) - w[1] * y[0]]))  # noqa: E731
        return agrad.odeint(f, y * w, t, rtol=1e-5, atol=1e-5, **settings)

    w = np.asarray([1.1, 0.8])
    check_traced(rows, (w,), [*DERIVATIVES, "vmap", "vmap of the gradient"], 1e-4)
    check_traced(lambda w: rows(w, w[0] * t), (w,), ("gradient",), 1e-4)
    check_same(agrad.jit(rows), rows, (w,), ("gradient",), 1e-4)


def test_slopes_of_a_wider_dtype(place: Any) -> None:
    """A product of a float32 state and a float64 time becomes float32 again."""
    solve = lambda y: agrad.odeint(lambda y, s: -y * place(MANY)[1] * s, y, place(MANY))  # noqa: E731
    y = place(np.asarray([1.0, 2.0], np.float32))
    found = agrad.jit(solve)(y)
    assert "float32" in str(found.dtype)
    assert_close(found, host(solve(y)), "values", 1e-4)


def test_an_equation_without_a_solution_is_nan() -> None:
    """The times before it has ended are right; the gradient is NaN too."""

    def solve(y: Any, times: Any = TIMES * 2) -> Any:
        return agrad.odeint(lambda y, t: y * y, y, times)

    y = np.asarray([1.0])
    found = agrad.jit(solve)(y)
    assert_close(found[:2, 0], [1.0, 2.5], "before", 1e-5)
    assert np.isnan(found[2, 0])
    for n in (3, 90):
        times = np.linspace(0.0, 2.0, n)
        assert np.isnan(agrad.jit(gradient(lambda y, times=times: solve(y, times)))(y)).all()


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


KEPT = {"few": (3, np.asarray([0.0, 0.1, 2.5])), "many": (12, MANY[:21]), "back": (1, MANY[20::-1].copy())}


@each_row(KEPT)
def test_gradients_are_those_of_the_steps(case: Row, place: Any, monkeypatch: Any) -> None:
    """The gradient of the computed values, as outside of a trace, whatever the number of steps between two times."""
    kept, times = case.value
    monkeypatch.setattr(adjoint, "KEPT", kept)
    monkeypatch.setattr(adjoint, "FEW", 1)
    weights = np.cos(np.arange(len(times)))

    def f(times: Any, weights: Any) -> Function:
        def solved(y: Any, w: Any) -> Any:
            slope = lambda y, s: {"a": w[1] * y["b"], "b": agrad.sin(w[0] * s) - y["a"] * agrad.sum(w)}  # noqa: E731
            found = agrad.odeint(slope, {"a": y[0], "b": y[1]}, times, rtol=1e-4, atol=1e-4)
            return agrad.sum(found["a"] ** 2 * weights + found["b"])

        return solved

    there, here = f(place(times), place(weights)), f(times, weights)
    check_traced(there, (place(np.asarray([1.0, 0.5])), place(np.asarray([2.0, 7.0]))), ("gradient",), 1e-9, plain=here)


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
