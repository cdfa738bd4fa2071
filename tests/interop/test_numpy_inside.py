"""NumPy's functions with their settings: the same values inside a transform as outside; quantiles by the quantile."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad

INF, NAN = np.inf, np.nan
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# ---------------------------------------------------------------- NumPy's own settings, inside as outside

_RNG = np.random.default_rng(0)
SQUARE = _RNG.normal(size=(4, 4))
SYMMETRIC = SQUARE + SQUARE.T
HERMITIAN = SYMMETRIC + 1j * (SQUARE - SQUARE.T)
UPPER = np.triu(SYMMETRIC @ SYMMETRIC + np.eye(4)) + np.tril(SQUARE, -1)
EDGES = np.asarray([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, -INF, NAN])
PAIR = np.stack([part.reshape(-1) for part in np.meshgrid(EDGES, EDGES)])


def after_a_write(view: Any) -> Any:
    """A function that gives a copy of a matrix after a write to what ``view`` makes of it."""

    def function(x: Any) -> Any:
        y = x * 1.0
        view(y)[...] = 2.0
        return y

    return function


VIEWS: dict[str, Any] = {
    "astype": lambda y: np.astype(y, np.float64),
    "astype, no copy": lambda y: np.astype(y, np.float64, copy=False),
    "ravel": lambda y: np.ravel(y),
    "ravel of a column": lambda y: np.ravel(y[:, 1:2]),
    "ravel of each second element": lambda y: np.ravel(y[0, ::2]),
    "ravel of a part in a row": lambda y: y[:2].ravel(),
    "ravel of the transpose": lambda y: y.T.ravel(),
    "ravel from behind": lambda y: np.ravel(y[::-1, ::-1]),
    "reshape of a column": lambda y: np.reshape(y[:, 1:2], -1),
}
INSIDE: dict[str, tuple[Any, Any]] = {
    **{f"a write to {name}": (after_a_write(view), SQUARE) for name, view in VIEWS.items()},
    **{
        f"{name}, {uplo}, {kind}": (lambda x, f=name, u=uplo: getattr(np.linalg, f)(x, u), x)
        for name in ("eigh", "eigvalsh")
        for uplo in ("L", "U")
        for kind, x in (("symmetric", SYMMETRIC), ("Hermitian", HERMITIAN), ("one triangle", SQUARE))
    },
    "svd by eigenvalues": (lambda x: np.linalg.svd(x, hermitian=True), SYMMETRIC),
    "svd of a triangle": (lambda x: np.linalg.svd(x, hermitian=True), SQUARE),
    "complex svd by eigenvalues": (lambda x: np.linalg.svd(x, hermitian=True), HERMITIAN),
    "values by eigenvalues": (lambda x: np.linalg.svd(x, compute_uv=False, hermitian=True), SQUARE),
    "pinv of a triangle": (lambda x: np.linalg.pinv(x, hermitian=True), SQUARE),
    "the upper factor": (lambda x: np.linalg.cholesky(x, upper=True), UPPER),
    "the lower factor": (lambda x: np.linalg.cholesky(x), UPPER.T),
    "diff of nothing": (lambda x: np.diff(x, n=0, prepend=0.0), SQUARE[0]),
    "diff of nothing, appended": (lambda x: np.diff(x, n=0, append=[1.0, 2.0]), SQUARE[0]),
    "angle": (lambda x: np.angle(x), EDGES),
    "angle in degrees": (lambda x: np.angle(x, deg=True), EDGES),
    "cbrt": (lambda x: np.cbrt(x), EDGES),
    "modf": (lambda x: np.modf(x), EDGES),
    **{
        f"{f}": (lambda x, f=f: getattr(np, f)(x[0], x[1]), PAIR)
        for f in ("fmod", "floor_divide", "remainder", "hypot")
    },
    "divmod": (lambda x: np.divmod(x[0], x[1]), PAIR),
    **{
        f"{function.__name__}, {where}": (lambda x, f=function, w=where: f(x, axis=0, where=w), SQUARE)
        for function in (np.mean, np.var, np.std)
        for where in (True, False)
    },
    "a start of another kind": (lambda x: np.sum(x.astype(int), initial=1.5), SQUARE),
    "a start of nothing": (lambda x: np.min(x[:0], initial=3.0), SQUARE),
    "a start beside a mask": (lambda x: np.add.reduce(x[0], where=[True, False, True, True], initial=5.0), SQUARE),
    "a bound of no axes": (lambda x: np.clip(x, np.asarray(0.5), None), SQUARE),
    "nan that replaces": (lambda x: np.nan_to_num(x, nan=INF, posinf=NAN, neginf=-1.0), EDGES),
}


@pytest.mark.parametrize("label", INSIDE)
def test_the_same_values_inside_a_transform_as_outside(label: str) -> None:
    f, x = INSIDE[label]
    inside: list[Any] = []

    def noted(x: Any) -> Any:
        inside.append(f(x))
        return agrad.real(agrad.sum(x))

    agrad.grad(noted)(x)
    outside = f(x)
    pairs = zip(inside[0], outside, strict=True) if isinstance(outside, tuple) else [(inside[0], outside)]
    for got, expected in pairs:
        values = host(got)
        assert (values.shape, values.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)
        if values.dtype.kind == "f":
            zero = expected == 0
            np.testing.assert_array_equal(np.signbit(values[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("label", VIEWS)
def test_a_write_has_the_same_effect_on_every_backend(label: str, place: Any) -> None:
    function = after_a_write(VIEWS[label])
    assert_close(function(agrad.asarray(place(SQUARE))), function(SQUARE), "values", 0.0)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_the_derivative_of_eigenvectors_of_either_triangle(uplo: str) -> None:
    weights = _RNG.normal(size=(4, 4))

    def f(x: Any) -> Any:
        w, v = np.linalg.eigh(x, uplo)
        return agrad.sum(v * weights) + agrad.sum(w * w)

    g = agrad.grad(f)(SYMMETRIC)
    direction = _RNG.normal(size=(4, 4))
    direction, h = direction + direction.T, 1e-6
    outside = lambda x: np.sum(np.linalg.eigh(x, uplo)[1] * weights) + np.sum(np.linalg.eigh(x, uplo)[0] ** 2)  # noqa: E731
    slope = (outside(SYMMETRIC + h * direction) - outside(SYMMETRIC - h * direction)) / (2 * h)
    assert_close(np.sum(g * direction), slope, "gradient", 1e-7)


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_is_as_eager_in_a_traced_function_of_any_layout(name: str) -> None:
    f = after_a_write(VIEWS[name])
    traced = agrad.jit(f)
    for x in (SQUARE, np.asfortranarray(SQUARE), SQUARE[::-1], SQUARE + 1.0):
        assert_close(traced(x), f(x), name, 0.0)


@pytest.mark.parametrize("function", [np.std, np.nanstd])
def test_the_deviation_of_equal_elements_has_the_derivative_0(function: Any, place: Any) -> None:
    for x in (place(np.asarray(-1.2)), place(np.full((3,), 0.5))):
        assert_close(agrad.grad(function)(x), np.zeros(x.shape), "gradient", 0.0)
        assert_close(agrad.jvp(function, (x,), (x,))[1], 0.0, "tangent", 0.0)


def test_the_angle_of_a_real_number_is_constant() -> None:
    for deg in (False, True):
        found = agrad.elementwise_grad(lambda x, d=deg: np.angle(x, deg=d))(np.asarray([0.0, -0.0, -2.0, 3.0]))
        assert found.tolist() == [0.0] * 4


STEPS = ("lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf", "closest_observation")
SMOOTH = ("linear", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased")


@pytest.mark.parametrize("method", STEPS + SMOOTH)
def test_quantiles_have_a_derivative_by_the_quantile(method: str) -> None:
    x = np.asarray([[3.0, 1.0, 2.0, 7.0, 5.5, -1.0], [0.0, 4.0, 9.0, 1.0, 2.0, 3.0]])
    q, h = np.asarray([0.03, 0.27, 0.55, 0.91, 0.99]), 1e-7

    def f(q: Any) -> Any:
        return np.quantile(x, q, axis=1, method=method)

    expected = (f(q + h) - f(q - h)) / (2 * h)
    found = agrad.jacobian(f)(q)
    diagonal = np.einsum("iji->ij", host(found))
    assert_close(diagonal, expected, "derivative", 1e-6)
    assert bool(expected.any()) == (method in SMOOTH)
    assert_close(agrad.jvp(f, (q,), (np.ones(5),))[1], expected, "tangent", 1e-6)
    slopes = agrad.grad(lambda q: agrad.sum(np.nanpercentile(x, q, axis=1, method=method)))(100 * q)
    assert_close(100 * slopes, expected.sum(axis=1), "of nanpercentile", 1e-6)


def test_quantiles_at_elements_and_by_both() -> None:
    x = np.asarray([3.0, 1.0, 2.0, 7.0])
    slopes = [float(agrad.grad(lambda q: np.quantile(x, q))(np.asarray(q))) for q in (0.0, 1 / 3, 1.0)]
    assert_close(np.asarray(slopes), [3.0, 3.0, 12.0], "at elements", 1e-12)
    beside = np.asarray([1.0, 2.0, INF])
    assert agrad.grad(lambda q: np.quantile(beside, q))(np.asarray(0.5)) == INF
    mixed = agrad.jacobian(agrad.grad(lambda q, x: np.quantile(x, q)), argnums=1)(np.asarray(0.5), x)
    assert_close(mixed, [3.0, 0.0, -3.0, 0.0], "second derivative by both", 1e-12)
    both = agrad.grad(lambda x, q: agrad.quantile(x, q), argnums=(0, 1))(agrad.asarray(x), agrad.asarray(0.5))
    assert_close(both[0], [0.5, 0, 0.5, 0], "by the elements")
    assert_close(both[1], 3.0, "by the quantile", 1e-12)


def test_a_selection_lies_in_memory_as_numpys() -> None:
    """Row after row, so that a write to a reshape of it is seen, whatever the order of the choices."""

    def f(x: Any) -> Any:
        y = np.select([x > 0.2, x < -0.2], [x, 2.0 * x], 0.1)
        np.reshape(y, (-1,))[1] = 7.0
        return y

    x = np.asfortranarray(SQUARE)
    np.testing.assert_array_equal(agrad.vjp(f, x)[0], f(x))
    assert f(x)[0, 1] == 7.0
