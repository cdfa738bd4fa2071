"""Edges and errors of ``agrad.scipy.integrate``."""

from typing import Any

import numpy as np
import pytest
from refusals import Refusal, refuses

import agrad
from agrad.errors import (
    ConfigurationError,
    ConvergenceError,
    DetachError,
    DtypeError,
    RefusedFunctionError,
    ShapeError,
    TracedValueError,
)
from agrad.scipy import integrate

Y = np.asarray([[1.0, 2.0, 4.0, 3.0], [0.5, 1.5, 2.0, 1.0]])


def test_places_that_coincide_have_no_part() -> None:
    x = np.asarray([0.0, 1.0, 1.0, 2.0, 2.0])
    y = np.asarray([1.0, 2.0, 3.0, 4.0, 4.0])
    assert np.isfinite(integrate.simpson(y, x=x))
    assert np.all(np.isfinite(agrad.grad(lambda y: integrate.simpson(y, x=x))(y)))


def test_one_sample() -> None:
    assert np.array_equal(integrate.trapezoid(Y[:, :1]), [0, 0])
    assert np.array_equal(integrate.simpson(Y[:, :1]), [0, 0])
    assert integrate.cumulative_simpson(Y[:, :1]).shape == (2, 0)
    assert np.array_equal(integrate.cumulative_trapezoid(Y[:, :1], initial=0), [[0], [0]])


def test_result_of_an_initial_value_problem() -> None:
    out = integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0, 2.0], t_eval=[0.5, 1.0])
    assert (out.success, out.status, out.y.shape) == (True, 0, (2, 2))
    assert np.allclose(out.y.numpy(), np.outer([1, 2], np.exp([-0.5, -1.0])), rtol=1e-3)
    start = integrate.solve_ivp(lambda t, y: -y, (0, 1), np.ones(2), t_eval=[0.0])
    assert np.array_equal(start.y, [[1], [1]])
    assert np.array_equal(start.t, [0])


def test_errors_of_integrals_are_told() -> None:
    for f, a, b, exact in (
        (agrad.cos, 0.0, 3.0, np.sin(3.0)),
        (lambda x: agrad.abs(x - 0.3), 0.0, 1.0, 0.29),
        (lambda x: agrad.exp(-x * x), -np.inf, np.inf, np.sqrt(np.pi)),
        (lambda x: 1.0, 2.0, 1.0, -1.0),
    ):
        value, error = integrate.quad(f, a, b)
        assert isinstance(value, agrad.Tensor) and isinstance(error, float)
        assert abs(float(value) - exact) <= error < 2e-8
    out = integrate.quad(agrad.exp, np.float32(0.0), np.float32(1.0))
    assert out[0].dtype == np.float32
    # a function may use Tensors that it closes over
    by_k = agrad.grad(lambda k: integrate.quad(lambda x: agrad.exp(-k * x), 0, np.inf)[0])(np.asarray(1.3))
    np.testing.assert_allclose(by_k, -1 / 1.3**2, rtol=1e-9)


def test_full_output_of_quad_counts_as_scipy_does() -> None:
    kink = lambda x: abs(x - 0.7) * x  # noqa: E731
    value, _, info = integrate.quad(kink, 0.0, np.asarray(3.0), full_output=1)
    wanted, _, theirs = pytest.importorskip("scipy.integrate").quad(kink, 0.0, 3.0, full_output=1)
    np.testing.assert_allclose(value, wanted)
    assert info == {name: theirs[name] for name in ("neval", "last")}


def test_one_time() -> None:
    assert np.array_equal(integrate.odeint(lambda y, t: -y, Y[0], [0.0]), Y[:1])
    assert integrate.odeint(lambda y, t: -y, np.float32(1.0), [0.0, 1.0]).shape == (2, 1)


@pytest.mark.parametrize("times", [[0.0, 0.0, 1.0, 1.0, 1.0, 2.0], [1.0, 1.0, 0.2]])
def test_equal_times(times: list[float]) -> None:
    y, t = np.asarray([2.0]), np.asarray(times)
    found = integrate.odeint(lambda y, t: -y, y, t)[:, 0]
    np.testing.assert_allclose(found, 2 * np.exp(t[0] - t), rtol=1e-6)
    # each time has its own derivative, the first one all of them
    slopes = agrad.jacobian(lambda t: integrate.odeint(lambda y, t: -y, y, t)[:, 0])(t)
    expected = np.diag(-found)
    expected[:, 0] += found
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(integrate.odeint(lambda y, t: -y, y, t[:1])[:, 0], y)


def test_sizes_of_steps() -> None:
    """The settings that ``agrad.odeint`` has too: a step of at most a size, and a size to begin with."""
    for settings, wanted in ((("h0", "hmax"), integrate.odeint), (("first_step", "max_step"), integrate.solve_ivp)):
        times: list[float] = []

        def f(t: Any, y: Any, times: list[float] = times) -> Any:
            times.append(float(t))
            return -y

        given = dict(zip(settings, (0.001, 0.02), strict=True))
        if wanted is integrate.odeint:
            wanted(f, 1.0, [0.0, 1.0], tfirst=True, **given)
        else:
            wanted(f, (0.0, 1.0), np.ones(1), **given)
        ends = sorted(set(times))
        assert ends[1] <= 0.001
        assert len(ends) > 5 * 49


def test_results_as_users_of_scipy_write_them() -> None:
    t = np.linspace(0.0, 2.0, 5)
    y = integrate.odeint(lambda y, t, g: [y[1], -g], [1.0, 0.0], t, args=(9.81,))
    np.testing.assert_allclose(np.asarray(y)[:, 0], 1 - 9.81 / 2 * t**2, atol=1e-6)
    out = integrate.solve_ivp(lambda t, y: [y[1], -y[0]], (0, 2), [0.0, 1.0], "tsit5", t_eval=t, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.asarray(out.y)[0], np.sin(t), atol=1e-6)


def decay(t: Any, y: Any) -> Any:
    return -y


REFUSED: list[Refusal] = [
    (ShapeError, "got 0", lambda: integrate.trapezoid(np.zeros((2, 0)))),
    (ShapeError, "the length of y along the axis", lambda: integrate.simpson(Y, x=np.arange(3.0))),
    (ShapeError, "dx must be a number", lambda: integrate.trapezoid(Y, dx=np.ones(3))),
    (ConfigurationError, "initial must be 0 or None", lambda: integrate.cumulative_trapezoid(Y, initial=1)),
    (ShapeError, "initial must be a number", lambda: integrate.cumulative_simpson(Y, initial=np.ones((2, 1)))),
    (ShapeError, "power of 2", lambda: integrate.romb(Y)),
    (RefusedFunctionError, "show=True", lambda: integrate.romb(Y[:, :3], show=True)),
    (ShapeError, "fixed_quad: a and b must be numbers", lambda: integrate.fixed_quad(decay, np.ones(2), 2.0)),
    (ConvergenceError, "50 subdivisions leave an error", lambda: integrate.quad(lambda x: 1 / x, 0, 1)),
    (RefusedFunctionError, "quad: weight", lambda: integrate.quad(agrad.exp, 0, 1, weight="cos", wvar=2.0)),
    (ShapeError, "quad: a and b must be numbers", lambda: integrate.quad(agrad.exp, Y[0], 1)),
    (ShapeError, "points must be between the limits", lambda: integrate.quad(agrad.exp, 0, 1, points=[2.0])),
    (ShapeError, "points requires finite limits", lambda: integrate.quad(agrad.exp, -np.inf, 1, points=[0.0])),
    (ShapeError, "an array of shape", lambda: integrate.quad(lambda x: x * Y[0], 0, 1)),
    (DtypeError, "complex_func=True", lambda: integrate.quad(lambda x: agrad.exp(1j * x), 0, 1)),
    (TracedValueError, "Use fixed_quad", lambda: agrad.jit(lambda a: integrate.quad(agrad.exp, a, 1)[0])(np.zeros(()))),
    (RefusedFunctionError, "odeint: hmin", lambda: integrate.odeint(lambda y, t: -y, 1.0, [0.0, 1.0], hmin=0.1)),
    (RefusedFunctionError, "full_output", lambda: integrate.odeint(lambda y, t: -y, 1.0, [0.0, 1.0], full_output=1)),
    (ShapeError, "y0 and t must be 1-D", lambda: integrate.odeint(lambda y, t: -y, Y, [0.0, 1.0])),
    (RefusedFunctionError, "method", lambda: integrate.solve_ivp(decay, (0, 1), Y[0], "BDF")),
    (RefusedFunctionError, "dense_output", lambda: integrate.solve_ivp(decay, (0, 1), Y[0], dense_output=True)),
    (RefusedFunctionError, "events", lambda: integrate.solve_ivp(decay, (0, 1), Y[0], events=[decay])),
    (RefusedFunctionError, "lband", lambda: integrate.solve_ivp(decay, (0, 1), Y[0], lband=1)),
    (ShapeError, "t_eval must be 1-D", lambda: integrate.solve_ivp(decay, (0, 1), Y[0], t_eval=[0.5, 2])),
    (ShapeError, "the order of t_span", lambda: integrate.solve_ivp(decay, (0, 1), Y[0], t_eval=[0.5, 0.2])),
    (DetachError, "requires a", lambda: agrad.grad(lambda t: integrate.solve_ivp(decay, (0, t), Y[0]).y[0, 0])(1.0)),
]
test_errors = refuses(REFUSED)


SINGULAR: dict[str, tuple[Any, float, float]] = {
    "a slope at the limit": (lambda a: integrate.quad(agrad.sqrt, a, 1.0, limit=200)[0], 0.0, 0.0),
    "a kink": (lambda s: integrate.quad(lambda x: agrad.abs(x - s), 0.0, 1.0)[0], 0.3, -0.4),
    "a power": (lambda s: integrate.quad(lambda x: x**s, 0.0, 1.0)[0], 0.5, -1 / 2.25),
    "limit and function": (lambda b: integrate.quad(lambda x: agrad.sqrt(b * b - x * x), 0.0, b)[0], 2.0, np.pi),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", SINGULAR)
def test_derivatives_of_quad_have_its_accuracy(case: str) -> None:
    f, at, expected = SINGULAR[case]
    assert abs(agrad.grad(f)(at) - expected) < 1e-8
    assert abs(agrad.jvp(f, (at,), (1.0,))[1] - expected) < 1e-8
    assert abs(agrad.jacfwd(f)(at) - expected) < 1e-8


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinite_derivatives_of_quad_raise() -> None:
    for f in (agrad.log, lambda x: agrad.exp(-x) * agrad.sqrt(x)):
        with pytest.raises(ConvergenceError, match="in the integral or a derivative"):
            agrad.grad(lambda a, f=f: integrate.quad(f, a, np.inf if f is not agrad.log else 1.0, limit=200)[0])(0.0)
    slope = agrad.grad(lambda a: integrate.quad(agrad.exp, a, np.float32(1.0))[0])(np.float32(0.0))
    assert slope.dtype == np.float32 and abs(slope + 1) < 1e-5
