"""Functions defined by an equation: their values, and derivatives of every mode and order against unrolled loops."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from crossing import Row, each_row
from modes import DERIVATIVES, MAPS, MODES, check_same, compare, gradient, tangents
from refusals import Refusal, fails, refuses

import agrad
from agrad.errors import (
    ConfigurationError,
    ConvergenceError,
    DtypeError,
    OperandError,
    RuleError,
    ShapeError,
    TracedValueError,
)

_rng = np.random.default_rng(0)
N = 4
W, B, ROWS = _rng.standard_normal((N, N)) * 0.2, _rng.standard_normal(N), _rng.standard_normal((3, N))
T = np.asarray([0.0, 0.3, 0.7, 0.9])

Function = Callable[..., Any]


def mv(a: Any, x: Any) -> Any:
    return agrad.matmul(a, x)


def by_iteration(w: Any, b: Any) -> Any:
    return agrad.fixed_point(lambda x, b: agrad.tanh(mv(w, x) + b), agrad.zeros_like(b), b)


def by_newton(w: Any, b: Any) -> Any:
    """A container as the unknown; an argument, and a closure."""

    def f(p: Any, b: Any) -> Any:
        return {"first": p["first"] - agrad.tanh(mv(w, p["first"]) + b), "twice": [p["twice"][0] - 2 * p["first"]]}

    start = {"first": agrad.zeros_like(b), "twice": [agrad.ones_like(b)]}
    return agrad.root(f, start, b)["twice"][0] / 2


def unrolled(w: Any, b: Any) -> Any:
    x = agrad.zeros_like(b)
    for _ in range(40):
        x = agrad.tanh(mv(w, x) + b)
    return x


def by_krylov(method: str) -> Function:
    def solve(w: Any, b: Any) -> Any:
        return agrad.linear_solve(lambda x: mv(w, mv(agrad.matrix_transpose(w), x)) + x * 2, b, method=method)

    return solve


def directly(w: Any, b: Any) -> Any:
    twice = w * 0
    for i in range(N):
        twice = agrad.asarray(twice)
        twice[i, i] = 2.0
    return agrad.linalg.solve(agrad.matmul(w, agrad.matrix_transpose(w)) + twice, b)


def by_steps(w: Any, b: Any) -> Any:
    """Many small steps of the classical Runge-Kutta method, on the tape."""

    def f(y: Any, s: float) -> Any:
        return agrad.tanh(mv(w, y)) - 0.3 * s * y

    y, rows = b, [b]
    for start, end in itertools.pairwise(T):
        h = (end - start) / 5
        for i in range(5):
            s = start + i * h
            k1 = f(y, s)
            k2 = f(y + h / 2 * k1, s + h / 2)
            k3 = f(y + h / 2 * k2, s + h / 2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3, s + h))
        rows.append(y)
    return agrad.stack(rows)


def by_odeint(**how: Any) -> Function:
    def solve(w: Any, b: Any) -> Any:
        like = agrad.asarray(b)
        times = agrad.asarray(T.tolist(), dtype=agrad.float64, backend=like.backend, device=like.device)
        return agrad.odeint(lambda y, s: agrad.tanh(mv(w, y)) - y * (s * 0.3), b, times, **how)

    return solve


PAIRS: dict[str, tuple[Function, Function, float]] = {
    "fixed_point": (by_iteration, unrolled, 1e-10),
    "root": (by_newton, unrolled, 1e-10),
    "gmres": (by_krylov("gmres"), directly, 1e-10),
    "cg": (by_krylov("cg"), directly, 1e-10),
    "bicgstab": (by_krylov("bicgstab"), directly, 1e-10),
    "dopri5": (by_odeint(rtol=1e-8, atol=1e-8), by_steps, 1e-5),
    "tsit5": (by_odeint(method="tsit5", rtol=1e-8, atol=1e-8), by_steps, 1e-5),
    "rk4": (by_odeint(method="rk4", steps=5), by_steps, 1e-5),
}
# fewer steps where a step takes a while
ANYWHERE = {name: PAIRS[name] for name in ("fixed_point", "root", "gmres")} | {
    "odeint": (by_odeint(rtol=1e-5, atol=1e-5), by_steps, 1e-3)
}


FIRST = ("value", "gradient", "tangent", "forward over reverse")


@cache
def expected(reference: Function, mode: str) -> Any:
    """Return what a mode makes of a reference, which several functions share."""
    return MODES[mode](reference, (W, B), tangents((W, B)))


@pytest.mark.parametrize("name", PAIRS)
def test_every_mode_is_that_of_the_steps(name: str) -> None:
    f, reference, tolerance = PAIRS[name]
    assert np.max(np.abs(host(reference(W, B)))) > 1e-3
    for mode in (*DERIVATIVES, *MAPS, "backward twice"):
        compare(MODES[mode](f, (W, B), tangents((W, B))), expected(reference, mode), mode, tolerance)


@pytest.mark.parametrize("name", ["fixed_point", "root"])
def test_jacobians_row_by_row(name: str) -> None:
    """The pullback is mapped over cotangents, which leaves nothing of the pass around it in its result."""
    f, reference, _ = PAIRS[name]
    check_same(lambda b: f(W, b), lambda b: reference(W, b), (B,), ("jacrev",))
    assert type(agrad.jacrev(f, 1)(W, B)) is np.ndarray
    assert_close(*[agrad.jacrev(agrad.jacrev(lambda b, g=g: g(W, b)))(B) for g in (f, reference)], "twice", 1e-10)


def test_a_start_without_members_that_is_the_solution() -> None:
    """No step is taken, so that nothing of the start or of one equation has the members that others are mapped over."""

    def solved(w: Any, r: Any) -> Any:
        found = agrad.root(lambda x: {"a": x["a"] - w, "b": x["b"] * r + x["a"] - w}, {"a": w, "b": B * 0})
        return agrad.sum(found["a"] ** 2) + agrad.sum(found["b"] ** 2)

    total = lambda w: agrad.sum(agrad.vmap(lambda r: solved(w, r))(ROWS))  # noqa: E731
    assert_close(agrad.grad(total)(B), len(ROWS) * 2 * B, "by the solution", 1e-10)
    outer = agrad.vmap(lambda w: agrad.vmap(lambda r: agrad.root(lambda x: (x - w) * r, w))(ROWS))
    assert_close(outer(ROWS), np.stack([ROWS] * len(ROWS), axis=1), "mapped twice", 1e-10)


@each_row(ANYWHERE, elsewhere=True)
def test_on_every_backend(case: Row, place: Any) -> None:
    f, reference, tolerance = case.value
    check_same(f, reference, (place(W), place(B)), FIRST, tolerance, reference=(W, B))


def test_the_derivative_is_not_that_of_the_iterations() -> None:
    """The tape holds one operation, whatever it took to find the solution."""
    b = agrad.asarray(B, requires_grad=True)
    x = by_iteration(W, b)
    assert [row.op for row in agrad.graph(x).rows] == [None, "fixed_point"]


@pytest.mark.parametrize("method", ["gmres", "bicgstab", "cg"])
def test_a_complex_system(method: str, place: Any) -> None:
    """The sizes that the solvers compare are real: a library need not order complex numbers."""
    a, b = ROWS[:, :3] + 1j * ROWS[:, 1:] + 4 * np.eye(3), ROWS[0, :3] + 1j * ROWS[1, :3]
    matrix = a @ a.conj().T if method == "cg" else a
    f = lambda b: agrad.linear_solve(lambda x: mv(place(matrix), x), b, method=method)  # noqa: E731
    plain = lambda b: agrad.linalg.solve(place(matrix), b)  # noqa: E731
    check_same(f, plain, (place(b),), ("value", "gradient"), 1e-8)


def test_a_complex_rotation_has_no_length_zero() -> None:
    """The first column of the Hessenberg matrix is (i, 1), whose squares add up to 0."""
    a, b = np.asarray([[1j, 1], [1, 1]]), np.asarray([1.0 + 0j, 0])
    assert_close(agrad.linear_solve(lambda x: mv(a, x), b, maxiter=4), np.linalg.solve(a, b), "gmres", 1e-12)


def test_a_large_system_without_a_matrix() -> None:
    n = 500
    b = np.sin(np.arange(n))

    def laplacian(x: Any) -> Any:
        zero = agrad.zeros(1)
        return 2.1 * x - agrad.concat([x[1:], zero]) - agrad.concat([zero, x[:-1]])

    dense = 2.1 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    for method in ("gmres", "cg", "bicgstab"):
        assert_close(agrad.linear_solve(laplacian, b, method=method), np.linalg.solve(dense, b), method, 1e-9)
    x0 = np.linalg.solve(dense, b)
    assert_close(agrad.linear_solve(laplacian, b, x0, maxiter=1), x0, "a first guess", 1e-9)


def test_single_precision() -> None:
    w, b = W.astype(np.float32), B.astype(np.float32)
    for f in (by_iteration, by_newton, by_krylov("gmres")):
        assert gradient(f)(w, b)[0].dtype == np.float32
        check_same(f, f, (w, b), ("gradient",), 1e-4, reference=(W, B))


@pytest.mark.parametrize("method", ["gmres", "cg", "bicgstab"])
@pytest.mark.parametrize(("scale", "dtype"), [(1e25, "f4"), (1e-25, "f4"), (1e200, "f8"), (1e-200, "f8")])
def test_systems_whose_squares_overflow(method: str, scale: float, dtype: str) -> None:
    b = np.asarray([scale, 2 * scale, 0], dtype)
    x = agrad.linear_solve(lambda v: v * 2, b, method=method)
    assert x.dtype == dtype
    np.testing.assert_allclose(x, b / 2, rtol=1e-5)
    both = agrad.vmap(lambda b: agrad.linear_solve(lambda v: v * 2, b, method=method))(np.stack([b, b / b[0], 0 * b]))
    np.testing.assert_allclose(both, np.stack([b / 2, b / b[0] / 2, 0 * b]), rtol=1e-5)


def test_roots_whose_squares_overflow() -> None:
    np.testing.assert_allclose(agrad.root(lambda s: (s - 3) * np.float32(1e20), np.asarray(1.0, "f4")), 3.0, rtol=1e-5)
    np.testing.assert_allclose(agrad.root(lambda s: (s - 3) * 1e-200, np.asarray(1.0), atol=0.0), 3.0, rtol=1e-5)


def test_by_the_times() -> None:
    y0 = np.asarray([1.0, -0.5])
    exact = lambda t: agrad.exp(agrad.reshape((t - t[0]) * 0.5, (-1, 1))) * y0  # noqa: E731
    f = lambda t: agrad.odeint(lambda y, s: y * 0.5, y0, t, rtol=1e-10, atol=1e-10)  # noqa: E731
    for towers in (
        lambda f: agrad.grad(lambda t: agrad.sum(agrad.sin(f(t))))(T),
        lambda f: agrad.jvp(f, (T,), (np.arange(4.0) + 1,))[1],
        lambda f: agrad.jvp(agrad.grad(lambda t: agrad.sum(agrad.sin(f(t)))), (T,), (np.arange(4.0) + 1,))[1],
    ):
        assert_close(towers(f), towers(exact), "by the times", 1e-7)


MOVES = "fixed_point: f must converge in 1000 iterations, got ... Pass a better x0"
ONES, TIMES = np.ones(2), np.asarray([0.0, 2.0])
ERRORS: list[Refusal] = [
    (ConvergenceError, MOVES, lambda: agrad.fixed_point(lambda y: y * 2 + 1, np.asarray(0.5))),
    (ConvergenceError, MOVES, lambda: agrad.fixed_point(lambda y: y * y, np.asarray([2.0]))),
    (ConvergenceError, MOVES, lambda: agrad.vmap(lambda b: agrad.fixed_point(lambda y: y * b + 1, b))(TIMES + 0.5)),
    (ConvergenceError, "agrad.root", lambda: agrad.fixed_point(lambda x: 2 * x + 1, ONES, maxiter=20)),
    (ConvergenceError, "got inf after ... by gmres", lambda: agrad.linear_solve(lambda v: v * 2, ONES * np.inf)),
    (ConvergenceError, "got nan after ... by gmres", lambda: agrad.linear_solve(lambda v: v * 2, ONES * np.nan)),
    (ConvergenceError, "singular", lambda: agrad.linear_solve(lambda x: x * 0, ONES)),
    (ShapeError, "the unknown, (2,), got ... (1,)", lambda: agrad.linear_solve(lambda x: x[:1], ONES)),
    (ConfigurationError, "must be one of 'gmres', 'cg'", lambda: agrad.linear_solve(lambda x: x, ONES, method="lu")),
    (OperandError, "lambda x: a @ x", lambda: agrad.linear_solve(np.eye(2), ONES)),
    (ConvergenceError, "root: ... got inf. Pass an x0", lambda: agrad.root(lambda s: s * np.inf, np.asarray(1.0))),
    (ConvergenceError, "nearer", lambda: agrad.root(lambda x: x * x + 1, ONES)),
    (ShapeError, "must have the structure of the unknown", lambda: agrad.root(lambda x: (x, x), ONES)),
    (DtypeError, "Cast it", lambda: agrad.root(lambda x: x, np.asarray([1, 2]))),
    (OperandError, "must contain only arrays", lambda: agrad.root(lambda x: x, "a")),
    (OperandError, "must contain an array", lambda: agrad.root(lambda x: x, {})),
    (ShapeError, "two or more times", lambda: agrad.odeint(lambda y, s: y, ONES, ONES[:1])),
    (ShapeError, "must increase or decrease, got", lambda: agrad.odeint(lambda y, s: y, ONES, T[[0, 3, 1]])),
    (DtypeError, "real floating", lambda: agrad.odeint(lambda y, s: y, ONES, np.asarray([0, 1]))),
    (ConvergenceError, "stiff or singular", lambda: agrad.odeint(lambda y, s: y * y, ONES, TIMES)),
    (ConvergenceError, "maxsteps", lambda: agrad.odeint(lambda y, s: y, ONES, 5 * TIMES, maxsteps=2)),
    (TracedValueError, "mapped", lambda: agrad.vmap(lambda t: agrad.odeint(lambda y, s: y, ONES, t))(np.stack([T, T]))),
]

test_errors = pytest.mark.filterwarnings("ignore::RuntimeWarning")(refuses(ERRORS))


def test_a_leaf_that_the_equation_uses_between_the_times_only() -> None:
    w, v = agrad.asarray(2.0, requires_grad=True), agrad.asarray(1.0, requires_grad=True)
    with pytest.raises(RuleError, match="only between the first and the last time"):
        agrad.odeint(lambda y, s: y * w if 0.1 < s.item() < 0.9 else y, ONES, TIMES)
    y = agrad.odeint(lambda y, s: y * (w * v if 0.1 < s.item() < 0.9 else v), ONES, TIMES / 2)
    fails(RuleError, "only between the first and the last time", agrad.sum(y).backward)
    with agrad.no_grad():
        agrad.odeint(lambda y, s: y * w if 0.1 < s.item() < 0.9 else y, ONES, TIMES)


@pytest.mark.needs("dask")
def test_promises_are_kept_once_an_iteration() -> None:
    """On Dask an iteration, or step of a solver, begins with computed arrays, and not with a promise that grows."""
    import dask.array as da

    sizes = []

    def f(x: Any, b: Any) -> Any:
        y = agrad.tanh(x * 0.5 + b)
        sizes.append(len(y.raw.__dask_graph__()))
        return y

    b = da.from_array(B)
    agrad.fixed_point(f, da.zeros_like(b), b)
    agrad.odeint(lambda y, s: f(y, s * 0.1), b, da.from_array(T))
    assert len(sizes) > 40
    assert max(sizes) < 200  # of a step of six stages


def test_no_members_and_no_elements() -> None:
    none = np.zeros((0, 3))
    decay = lambda y: agrad.odeint(lambda y, t: -y, y, np.asarray([0.0, 1.0]))  # noqa: E731
    assert agrad.vmap(decay)(none).shape == (0, 2, 3)
    assert decay(none[:, 0]).shape == (2, 0)
    assert agrad.vmap(agrad.grad(lambda y: agrad.sum(decay(y))))(none).shape == (0, 3)
