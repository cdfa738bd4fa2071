"""Edges and errors of ``agrad.scipy.interpolate``."""

from typing import Any

import numpy as np
import pytest
from refusals import Refusal, refuses

import agrad
from agrad.errors import ConfigurationError, DtypeError, RefusedFunctionError, ShapeError
from agrad.scipy import interpolate

X = np.asarray([0.0, 1.0, 2.0, 3.5, 4.0, 5.0])
FLAT = np.asarray([0.0, 0.0, 0.0, 1.0, 1.0, 3.0])
Y = np.asarray([0.3, -1.0, 0.4, 2.0, 1.0, -0.5])
spline_through = interpolate.make_interp_spline
CUBIC: tuple[Any, ...] = (
    interpolate.CubicSpline,
    interpolate.PchipInterpolator,
    interpolate.Akima1DInterpolator,
    lambda x, y: interpolate.Akima1DInterpolator(x, y, method="makima"),
)


@pytest.mark.parametrize("make", CUBIC)
@pytest.mark.parametrize("y", [FLAT, np.zeros(6), np.arange(6.0)], ids=["steps", "zero", "line"])
def test_derivatives_are_finite_where_slopes_vanish_or_are_equal(make: Any, y: np.ndarray) -> None:
    t = np.linspace(0.0, 5.0, 13)
    found = agrad.grad(lambda x, y, t: agrad.sum(make(x, y)(t)), argnums=(0, 1, 2))(X, y, t)
    assert all(np.all(np.isfinite(g)) for g in found)


@pytest.mark.parametrize("make", CUBIC)
def test_interpolants_meet_their_values(make: Any) -> None:
    assert np.allclose(make(X, Y)(X), Y, rtol=1e-12, atol=1e-13)


def test_the_piece_to_the_right_of_a_node_is_taken() -> None:
    y = np.asarray([0.0, 1.0, 3.0])
    assert agrad.grad(lambda t: interpolate.interp1d(np.arange(3.0), y)(t))(np.asarray(1.0)) == 2
    lines = interpolate.PPoly(np.asarray([[1.0, 2.0], [0.0, 1.0]]), np.arange(3.0))
    assert lines(1.0, nu=1) == 2
    assert agrad.grad(lambda t: lines(t))(np.asarray(1.0)) == 2
    grid = interpolate.RegularGridInterpolator((np.arange(3.0),), y)
    assert agrad.grad(lambda t: agrad.sum(grid(t)))(np.asarray([[1.0]]))[0, 0] == 2


def test_dtype_is_kept() -> None:
    x, y = X.astype(np.float32), Y.astype(np.float32)
    for make in (*CUBIC, lambda x, y: interpolate.interp1d(x, y, fill_value="extrapolate")):
        assert make(x, y)(0.5).dtype == np.float32
    assert interpolate.CubicSpline(x, y + np.complex64(1j))(x).dtype == np.complex64
    assert interpolate.CubicSpline([0, 1, 2], [1, 2, 4])(1).dtype == agrad.float64


def test_kinds_of_arrays_given_to_the_object_and_to_the_call() -> None:
    spline = interpolate.CubicSpline(X, Y)
    assert isinstance(spline(X), np.ndarray)
    assert isinstance(spline(0.5), np.ndarray | np.generic)
    assert isinstance(spline.c, np.ndarray)
    assert isinstance(spline(agrad.asarray(X)), agrad.Tensor)
    assert isinstance(interpolate.CubicSpline(agrad.asarray(X), agrad.asarray(Y))(X), agrad.Tensor)
    assert isinstance(spline.derivative()(X), np.ndarray)


def test_places_that_do_not_increase_under_a_trace_give_nan() -> None:
    found = agrad.jit(lambda x: interpolate.CubicSpline(x, Y)(np.asarray(0.5)))(X[::-1].copy())
    assert np.isnan(found)


def test_beyond_the_ends_under_a_trace_the_fill_value_stands() -> None:
    f = agrad.jit(lambda t: interpolate.interp1d(X, Y)(t))
    assert np.array_equal(np.isnan(f(np.asarray([-1.0, 2.0, 6.0]))), [True, False, True])


def test_one_place_and_missing_places() -> None:
    one = interpolate.interp1d([1.0], np.asarray([5.0]), fill_value="extrapolate")
    assert np.array_equal(one(np.asarray([0.0, 1.0, 2.0])), [5, 5, 5])
    for kind in ("linear", "nearest", "previous", "next", "cubic"):
        assert np.isnan(interpolate.interp1d(X, Y, kind)(np.asarray(np.nan)))
    constant = interpolate.PPoly(np.ones((1, 5)), X)
    assert np.array_equal(np.isnan(constant(np.asarray([np.nan, 9.0]))), [True, False])


def test_equal_places_in_a_table_leave_derivatives_finite() -> None:
    x = np.asarray([0.0, 1.0, 1.0, 2.0])
    found = agrad.grad(lambda x: agrad.sum(interpolate.interp1d(x, Y[:4])(np.asarray([0.5, 1.5]))))(x)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("kernel", ["linear", "thin_plate_spline", "cubic", "quintic", "multiquadric", "gaussian"])
def test_radial_functions_at_their_points(kernel: str) -> None:
    points = np.asarray([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0], [1.0, 1.3], [-0.5, 0.6], [0.4, -0.7], [2.0, 0.5]])
    d = np.sin(points[:, 0]) + points[:, 1]

    def total(y: Any, d: Any, x: Any) -> Any:
        return agrad.sum(interpolate.RBFInterpolator(y, d, kernel=kernel, epsilon=1.0)(x) ** 2)

    found = agrad.grad(total, argnums=(0, 1, 2))(points, d, points)
    assert all(np.all(np.isfinite(g)) for g in found)
    # the value at a point is the value given, however the others lie
    assert np.allclose(found[1], 2 * d)
    moved = agrad.grad(lambda y: total(y, d, y))(points)
    assert np.allclose(moved, 0, atol=1e-8)


REFUSED: list[Refusal] = [
    (ShapeError, "x must be strictly increasing", lambda: interpolate.CubicSpline(X[::-1], Y)),
    (ShapeError, "at least 2", lambda: interpolate.CubicSpline(X[:1], Y[:1])),
    (ShapeError, "y must have length 6 along axis 0, like x, got 5", lambda: interpolate.PchipInterpolator(X, Y[:5])),
    (ShapeError, "dydx the shape of y", lambda: interpolate.CubicHermiteSpline(X, Y, Y[:5])),
    (DtypeError, "y must be real", lambda: interpolate.PchipInterpolator(X, Y + 1j)),
    (DtypeError, "y must be real", lambda: interpolate.Akima1DInterpolator(X, Y + 1j)),
    (DtypeError, "x must be real", lambda: interpolate.CubicSpline(X + 1j, Y)),
    (DtypeError, "x must be real", lambda: interpolate.CubicSpline(X, Y)(X + 1j)),
    (ShapeError, "must be equal for a periodic spline", lambda: interpolate.CubicSpline(X, Y, bc_type="periodic")),
    (ConfigurationError, "a pair, got 'open'", lambda: interpolate.CubicSpline(X, Y, bc_type="open")),
    (ConfigurationError, "other than", lambda: interpolate.CubicSpline(X, Y, bc_type=("natural", "periodic"))),
    (ShapeError, "got order 3", lambda: interpolate.CubicSpline(X, Y, bc_type=((3, 0.0), "natural"))),
    (ConfigurationError, "method must be", lambda: interpolate.Akima1DInterpolator(X, Y, method="other")),
    (ConfigurationError, "extrapolate must be", lambda: interpolate.CubicSpline(X, Y, extrapolate="on")),
    (ConfigurationError, "nu must be at least 0", lambda: interpolate.CubicSpline(X, Y)(X, -1)),
    (ShapeError, "must be numbers", lambda: interpolate.CubicSpline(X, Y).integrate(0.0, X)),
    (ShapeError, "must have shape (k, 5, ...)", lambda: interpolate.PPoly(np.ones((2, 6)), X)),
    (ShapeError, "within the range of the data", lambda: interpolate.interp1d(X, Y)(9.0)),
    (ShapeError, "within the range of the data", lambda: interpolate.interp1d(X, Y, fill_value=1.0)(9.0)),
    (RefusedFunctionError, "'quadratic'", lambda: interpolate.interp1d(X, Y, "quadratic")),
    (ShapeError, "at least 4", lambda: interpolate.interp1d(X[:3], Y[:3], "cubic")),
    (ConfigurationError, "extrapolate", lambda: interpolate.interp1d(X, Y, 1, -1, True, True, "extrapolate")),
    (ShapeError, "within the range of the data", lambda: interpolate.RegularGridInterpolator((X,), Y)([[9.0]])),
    (ShapeError, "got (1, 2)", lambda: interpolate.RegularGridInterpolator((X,), Y)([[1.0, 2.0]])),
    (ShapeError, "for values of shape", lambda: interpolate.RegularGridInterpolator((X,), Y[:5])),
    (RefusedFunctionError, "'cubic'", lambda: interpolate.RegularGridInterpolator((X,), Y, "cubic")),
    (RefusedFunctionError, "solver", lambda: interpolate.RegularGridInterpolator((X,), Y, solver=max)),
    (RefusedFunctionError, "neighbors", lambda: interpolate.RBFInterpolator(X[:, None], Y, neighbors=3)),
    (ConfigurationError, "requires epsilon", lambda: interpolate.RBFInterpolator(X[:, None], Y, kernel="gaussian")),
    (ConfigurationError, "got 'square'", lambda: interpolate.RBFInterpolator(X[:, None], Y, kernel="square")),
    (ConfigurationError, "must be -1 or at least 1", lambda: interpolate.RBFInterpolator(X[:, None], Y, degree=0)),
    (ShapeError, "requires 8 points, got 6", lambda: interpolate.RBFInterpolator(X[:, None], Y, degree=7)),
    (ShapeError, "x must have shape (q, 1)", lambda: interpolate.RBFInterpolator(X[:, None], Y)(X)),
    (ShapeError, "got 5 knots and 2 coefficients", lambda: interpolate.BSpline(np.arange(5.0), np.ones(2), 3)),
    (ShapeError, "the knots t must not decrease", lambda: interpolate.BSpline([0.0, 2.0, 1.0, 3.0], np.ones(2), 1)),
    (ConfigurationError, "extrapolate must be", lambda: interpolate.BSpline(np.arange(4.0), np.ones(2), 1, "no")),
    (ShapeError, "at least two knots", lambda: interpolate.BSpline.basis_element([1.0])),
    (ShapeError, "y must have length 4, like x,", lambda: spline_through(np.arange(4.0), np.ones(3))),
    (ShapeError, "must be equal for", lambda: spline_through(np.arange(4.0), np.arange(4.0), bc_type="periodic")),
    (ConfigurationError, "t is not supported", lambda: spline_through(X, np.ones(6), 3, np.arange(15.0), "periodic")),
    (ConfigurationError, "bc_type must be", lambda: spline_through(np.arange(4.0), np.ones(4), bc_type="free")),
    (ShapeError, "4 values and 1", lambda: spline_through(np.arange(4.0), np.ones(4), bc_type=("natural", None))),
]
test_errors = refuses(REFUSED)


def test_splines_end_at_their_knots() -> None:
    spline = interpolate.BSpline(np.arange(6.0), np.asarray([1.0, 2.0, 3.0]), 2, False)
    np.testing.assert_allclose(spline(np.asarray([1.9, 2.0, 3.0, 3.1])), [np.nan, 1.5, 2.5, np.nan])
    assert np.isfinite(spline(3.1, extrapolate=True))
