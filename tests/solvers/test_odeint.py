"""``odeint``: its methods, what it takes and returns, and the derivatives of each method."""

import itertools
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from refusals import Refusal, refuses

import agrad
from agrad.errors import ConfigurationError, ConvergenceError, DtypeError, ShapeError
from agrad.solvers.runge_kutta import METHODS
from agrad.testing import check_grads

T = np.asarray([0.0, 0.35, 1.0])
W = np.asarray([[0.1, -0.9], [1.1, -0.2]])
Y = np.asarray([1.0, -0.4])
LOOSE: dict[str, dict[str, Any]] = {
    "dopri5": {"rtol": 1e-4, "atol": 1e-4},
    "tsit5": {"rtol": 1e-4, "atol": 1e-4},
    "rk4": {"steps": 3},
}
"""Fewer steps where a step takes a while."""

Tree = tuple[Any, ...]


def trees(order: int) -> list[Tree]:
    """Return the rooted trees with that many nodes, each the sorted tuple of its branches."""
    found = set()

    def add(branches: Tree, left: int) -> None:
        if not left:
            found.add(tuple(sorted(branches, key=repr)))
        for size in range(1, left + 1):
            for branch in trees(size):
                add((*branches, branch), left - size)

    add((), order - 1)
    return sorted(found, key=repr)


def nodes_of(tree: Tree) -> int:
    return 1 + sum(map(nodes_of, tree))


def density(tree: Tree) -> int:
    return nodes_of(tree) * int(np.prod([density(branch) for branch in tree], dtype=int))


def elementary(tree: Tree, matrix: np.ndarray) -> np.ndarray:
    """Return the product of the tree's branches at each stage (Butcher's elementary weights)."""
    out = np.ones(len(matrix))
    for branch in tree:
        out = out * (matrix @ elementary(branch, matrix))
    return out


def matrix_of(name: str) -> np.ndarray:
    rows = METHODS[name].weights
    return np.asarray([[*row, *[0.0] * (len(rows) - len(row))] for row in rows])


ORDERS = {"dopri5": (5, 4), "tsit5": (5, 4), "rk4": (4, None)}


@pytest.mark.parametrize("name", METHODS)
def test_conditions_of_the_order(name: str) -> None:
    """Butcher's conditions: for each tree the weights give the reciprocal of its density; not so for one order more."""
    order, lower = ORDERS[name]
    matrix = matrix_of(name)
    np.testing.assert_allclose(matrix.sum(axis=1), METHODS[name].nodes, atol=1e-14)
    weights = matrix[-1]

    def off(weights: np.ndarray, count: int) -> float:
        return max(abs(weights @ elementary(tree, matrix) - 1 / density(tree)) for tree in trees(count))

    assert [len(trees(n)) for n in range(1, 7)] == [1, 1, 2, 4, 9, 20]
    assert max(off(weights, n) for n in range(1, order + 1)) < 1e-13
    assert off(weights, order + 1) > 1e-5
    if lower is not None:
        other = weights - np.asarray(METHODS[name].error)
        assert max(off(other, n) for n in range(1, lower + 1)) < 1e-13
        assert off(other, lower + 1) > 1e-5


@pytest.mark.parametrize("name", ["dopri5", "tsit5"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.77, 1.0])
def test_conditions_of_the_interpolation(name: str, part: float) -> None:
    matrix, dense = matrix_of(name), np.asarray(METHODS[name].dense)
    weights = dense @ (part ** np.arange(1, 5))
    for tree in itertools.chain.from_iterable(trees(n) for n in range(1, 5)):
        assert abs(weights @ elementary(tree, matrix) - part ** nodes_of(tree) / density(tree)) < 1e-12
    # it meets the state and its slope at both ends
    assert np.allclose(dense @ np.ones(4), matrix[-1], atol=1e-12)
    assert np.allclose(dense @ [1, 0, 0, 0], np.eye(7)[0], atol=1e-12)
    assert np.allclose(dense @ [1, 2, 3, 4], np.eye(7)[-1], atol=1e-12)


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("accuracy", [1e-4, 1e-8])
def test_as_many_calls_as_in_scipy(accuracy: float) -> None:
    from scipy.integrate import solve_ivp

    calls = [0, 0]
    t = np.linspace(0.0, 10.0, 201)

    def ours(y: Any, t: Any) -> Any:
        calls[0] += 1
        return agrad.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    def theirs(t: float, y: np.ndarray) -> np.ndarray:
        calls[1] += 1
        return np.asarray([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    found = agrad.odeint(ours, np.asarray([1.0, 0.5]), t, rtol=accuracy, atol=accuracy)
    wanted = solve_ivp(theirs, (0.0, 10.0), [1.0, 0.5], t_eval=t, rtol=accuracy, atol=accuracy).y.T
    np.testing.assert_allclose(found, wanted, atol=100 * accuracy)
    assert calls[0] <= 1.1 * calls[1]


def solution(**settings: Any) -> Any:
    def solve(w: Any, y: Any, t: Any) -> Any:
        f = lambda y, s, w: agrad.tanh(agrad.matmul(w, y)) * (1 + s * s)  # noqa: E731
        return agrad.sum(agrad.sin(agrad.odeint(f, y, t, args=(w,), **settings)))

    return solve


def along(f: Any, x: np.ndarray, v: np.ndarray) -> Any:
    """Return the difference quotient along a direction."""
    return (np.asarray(f(x + 1e-4 * v)) - np.asarray(f(x - 1e-4 * v))) / 2e-4


@pytest.mark.parametrize("name", METHODS)
def test_derivatives(name: str, place: Any) -> None:
    f = solution(method=name, **LOOSE[name])
    whole = agrad.grad(f, (0, 1, 2))(place(W), place(Y), place(T))
    by_host = solution(rtol=1e-7, atol=1e-7)
    changes = (lambda w: by_host(w, Y, T), lambda y: by_host(W, y, T), lambda t: by_host(W, Y, t))
    wanted = [along(c, x, x) for c, x in zip(changes, (W, Y, T), strict=True)]
    for g, x, w in zip(whole, (W, Y, T), wanted, strict=True):
        assert_close(agrad.sum(g * place(x)), w, name, 2e-3)
    pushed = agrad.jvp(f, (place(W), place(Y), place(T)), (place(W), place(Y), place(T)))[1]
    assert_close(pushed, sum(wanted), "forward", 2e-3)


def test_the_jacobian_of_all_times() -> None:
    """The pass back through the steps is mapped over cotangents, and differentiated forward."""
    f = lambda y: agrad.odeint(lambda y, t: agrad.tanh(agrad.matmul(W, y)), y, T, rtol=1e-8, atol=1e-8)  # noqa: E731
    assert_close(agrad.jacrev(f)(Y), agrad.jacfwd(f)(Y), "reverse", 1e-6)
    back, g = agrad.vjp(f, Y)[1], np.ones((3, 2))
    assert_close(agrad.jvp(lambda g: back(g)[0], (g,), (g,))[1], back(g)[0], "linear in the cotangent", 1e-12)


def test_gradients_through_steps_are_those_of_the_steps() -> None:
    """With few steps of a fixed size the first derivative is that of the computed value, not of the exact one."""
    f = lambda y: agrad.sum(agrad.odeint(lambda y, t: -y * y * (1 + t), y, T, method="rk4", steps=1))  # noqa: E731
    step = 1e-6
    by_difference = [(f(Y + step * e) - f(Y - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(agrad.grad(f)(Y), by_difference, rtol=1e-8)


def test_many_times_take_no_more_steps() -> None:
    calls = []

    def f(y: Any, t: Any) -> Any:
        calls.append(1)
        return -y

    for count in (2, 500):
        t = np.linspace(0.0, 3.0, count)
        y = agrad.odeint(f, np.asarray([1.0]), t, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(y[:, 0], np.exp(-t), atol=1e-6)
    assert len(calls) < 400
    backwards = agrad.odeint(lambda y, s: -y * s, np.asarray([1.0, 2.0]), t[::-1].copy())
    assert_close(backwards[:, 1], 2 * np.exp((9 - t[::-1] ** 2) / 2), "backwards in time", 1e-4)
    back = agrad.grad(lambda y: agrad.sum(agrad.odeint(lambda y, t: -y, y, t, rtol=1e-9, atol=1e-9)))(np.asarray([1.0]))
    np.testing.assert_allclose(back, [np.sum(np.exp(-t))], rtol=1e-6)


def test_arguments_beside_one_another(place: Any) -> None:
    t, y = place(T), place(Y)
    f = lambda y, s, a, b: y * (a - b * s)  # noqa: E731
    wanted = np.exp(0.5 * T - 0.2 * T**2 / 2)[:, None] * Y
    for given, args in (((0.5, 0.2), ()), ((), (0.5, 0.2)), ((0.5,), (0.2,)), ((0.5,), 0.2)):
        assert_close(agrad.odeint(f, y, t, *given, args=args, method="rk4", steps=4), wanted, "arguments", 1e-5)


RESULTS = {
    "list for an array": (Y, lambda y, t: [y[1], -y[0]], lambda y: y),
    "tuple for an array": (Y, lambda y, t: (y[1], -y[0]), lambda y: y),
    "tuple for a list": (list(Y), lambda y, t: (y[1], -y[0]), lambda y: agrad.stack(y, axis=1)),
    "list for a tuple": (tuple(Y), lambda y, t: [y[1], -y[0]], lambda y: agrad.stack(y, axis=1)),
    "dictionary": ({"x": 1.0, "v": -0.4}, lambda y, t: {"x": y["v"], "v": -y["x"]},
                   lambda y: agrad.stack([y["x"], y["v"]], axis=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_containers(name: str) -> None:
    y0, f, rows = RESULTS[name]
    wanted = np.stack([np.cos(T) - 0.4 * np.sin(T), -np.sin(T) - 0.4 * np.cos(T)], axis=1)
    assert_close(rows(agrad.odeint(f, y0, T)), wanted, name, 1e-6)


def test_entries_that_are_numbers(place: Any) -> None:
    falling = agrad.odeint(lambda y, t: [y[1], -9.81], place(np.asarray([2.0, 0.5])), place(T))
    assert_close(falling, np.stack([2 + 0.5 * T - 9.81 / 2 * T**2, 0.5 - 9.81 * T], axis=1), "falling", 1e-6)
    steady = agrad.odeint(lambda y, t: [1, -2.0], place(np.asarray([2.0, 0.5])), place(T))
    assert_close(steady, np.stack([2 + T, 0.5 - 2 * T], axis=1), "numbers alone", 1e-6)
    both = agrad.odeint(lambda y, t: {"x": y["v"], "v": 2}, {"x": place(Y[0]), "v": place(Y[1])}, place(T))
    assert_close(both["x"], 1 - 0.4 * T + T**2, "a number for a leaf", 1e-6)


def test_gradient_of_a_list() -> None:
    f = lambda k: agrad.odeint(lambda y, t, k: [y[1], -k * y[0]], Y, T, k)[-1, 0]  # noqa: E731
    check_grads(f, (np.asarray(1.3),), order=1, rtol=1e-4, atol=1e-5)


def test_complex_and_mixed_states() -> None:
    turned = agrad.odeint(lambda z, t: 1j * z, np.asarray([1.0 + 0j]), T)
    assert_close(turned[:, 0], np.exp(1j * T), "complex", 1e-6)
    f = lambda k: agrad.sum(agrad.abs(agrad.odeint(lambda z, t, k: (1j - k) * z, np.asarray([1.0 + 0j]), T, k)) ** 2)  # noqa: E731
    assert_close(agrad.grad(f)(np.asarray(0.5)), np.sum(-2 * T * np.exp(-T)), "by a real number", 1e-5)
    both = lambda a: agrad.odeint(lambda y, t: (y[0] * 1j, -y[1]), (a * (1 + 0j), a), T)[1][-1]  # noqa: E731
    assert_close(agrad.grad(both)(np.asarray(2.0)), np.exp(-1.0), "complex beside real", 1e-6)
    single = agrad.odeint(lambda y, t: -y, Y.astype(np.float32), T.astype(np.float32))
    assert single.dtype == np.float32
    assert_close(single, np.exp(-T)[:, None] * Y, "single precision", 1e-3)


def ode(f: Any = lambda y, t: -y, **settings: Any) -> Any:
    return lambda: agrad.odeint(f, Y, T, **settings)


ERRORS: list[Refusal] = [
    (ConfigurationError, "'dopri5', 'tsit5', 'rk4', got 'bdf'", ode(method="bdf")),
    (ConfigurationError, "steps must be None for method='dopri5'", ode(steps=3)),
    (ConfigurationError, "must get either steps", ode(method="rk4")),
    (ConfigurationError, "must get either steps", ode(method="rk4", steps=2, max_step=0.1)),
    (ConfigurationError, "first_step must be None for method='rk4'", ode(method="rk4", steps=2, first_step=0.1)),
    (ConfigurationError, "max_step must be positive, got -1.0", ode(max_step=-1.0)),
    (ConfigurationError, "first_step must be positive, got 0.0", ode(first_step=0.0)),
    (ConvergenceError, "a larger rtol, atol or maxsteps", ode(max_step=1e-3, maxsteps=5)),
    (DtypeError, "must return float64 like y0, got complex128", ode(lambda y, t: y * 1j)),
    (ShapeError, "the shape of the unknown, (2,), got ... (3,)", ode(lambda y, t: [y[0], y[1], 0.0])),
]

test_errors = refuses(ERRORS)


def test_a_greatest_step() -> None:
    times: list[float] = []
    agrad.odeint(lambda y, t: (times.append(t.item()), -y)[1], Y, T, max_step=0.05)
    ends = sorted(set(times))
    assert max(b - a for a, b in itertools.pairwise(ends)) <= 0.05 + 1e-12
    y = agrad.odeint(lambda y, t: -y, Y, T, method="rk4", max_step=0.02)
    assert_close(y, np.exp(-T)[:, None] * Y, "equal steps", 1e-8)
