"""Derivatives at infinities and NaN, at edges of domains and at ties: a table of what has a closed form."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from checker import host
from table import named

import agrad

INF, NAN = math.inf, math.nan
WIDTHS = ("float64", "float32")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def quantities(f: Any, x: Any) -> dict[str, np.ndarray]:
    """The value of an elementwise function and its derivatives in both modes."""
    one = agrad.ones_like(agrad.asarray(x)).raw

    def slope(x: Any) -> Any:
        return agrad.grad(lambda x: agrad.sum(f(x)))(x)

    found = {
        "value": f(x),
        "first": slope(x),
        "first, forward": agrad.jvp(f, (x,), (one,))[1],
        "second": agrad.grad(lambda x: agrad.sum(slope(x)))(x),
        "second, forward over reverse": agrad.jvp(slope, (x,), (one,))[1],
    }
    return {label: host(part) for label, part in found.items()}


def assert_alike(found: Any, expected: Any, dtype: str, absolute: Any, what: str) -> None:
    relative = 1e-12 if dtype == "float64" else 2e-5
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    with np.errstate(invalid="ignore"):
        close = np.abs(found - expected) <= relative * np.abs(expected) + absolute
    wrong = ~(close | (found == expected) | (np.isnan(found) & np.isnan(expected)))
    assert not wrong.any(), f"{what}: {found[wrong]} is not {expected[wrong]} at {np.flatnonzero(wrong)}"


# value, first and second derivative at minus infinity, infinity; nan gives nan unless a function is in the list below
LIMITS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "exp": ((0, 0, 0), (INF, INF, INF)),
    "expm1": ((-1, 0, 0), (INF, INF, INF)),
    "log": ((NAN, 0, 0), (INF, 0, 0)),  # the derivative of the formula 1 / x, outside the domain too
    "log1p": ((NAN, 0, 0), (INF, 0, 0)),
    "log2": ((NAN, 0, 0), (INF, 0, 0)),
    "log10": ((NAN, 0, 0), (INF, 0, 0)),
    "sin": ((NAN, NAN, NAN), (NAN, NAN, NAN)),
    "cos": ((NAN, NAN, NAN), (NAN, NAN, NAN)),
    "tan": ((NAN, NAN, NAN), (NAN, NAN, NAN)),
    "asin": ((NAN, NAN, NAN), (NAN, NAN, NAN)),
    "atan": ((-math.pi / 2, 0, NAN), (math.pi / 2, 0, NAN)),
    "sinh": ((-INF, INF, -INF), (INF, INF, INF)),
    "cosh": ((INF, -INF, INF), (INF, INF, INF)),
    "tanh": ((-1, 0, 0), (1, 0, 0)),
    "asinh": ((-INF, 0, 0), (INF, 0, 0)),
    "acosh": ((NAN, NAN, NAN), (INF, 0, NAN)),
    "sqrt": ((NAN, NAN, NAN), (INF, 0, 0)),
    "reciprocal": ((0, 0, 0), (0, 0, 0)),
    "sigmoid": ((0, 0, 0), (1, 0, 0)),
    "special.expit": ((0, 0, 0), (1, 0, 0)),
    "special.log_expit": ((-INF, 1, 0), (0, 0, 0)),
    "special.erf": ((-1, 0, 0), (1, 0, 0)),
    "special.erfc": ((2, 0, 0), (0, 0, 0)),
    "special.ndtr": ((0, 0, 0), (1, 0, 0)),
    "special.sinc": ((0, 0, 0), (0, 0, 0)),
    "special.i0e": ((0, 0, 0), (0, 0, 0)),
}
# these have a second derivative or a kink that is a number everywhere: relu and abs say 0 of the slope at nan, or nan
AT_NAN: dict[str, tuple[float, float, float]] = {
    "square": (NAN, NAN, 2),
    "abs": (NAN, NAN, 0),
    "relu": (NAN, 0, 0),
    "floor": (NAN, 0, 0),
}


@pytest.mark.parametrize("name", [*LIMITS, *AT_NAN])
def test_at_infinities_and_nan(name: str, place: Any) -> None:
    points = [-INF, INF, NAN] if name in LIMITS else [NAN]
    expected = [*LIMITS.get(name, ()), AT_NAN.get(name, (NAN, NAN, NAN))]
    for dtype in WIDTHS:
        for label, got in quantities(named(agrad, name), place(np.asarray(points, dtype))).items():
            order = ("value", "first", "second").index(label.partition(",")[0])
            assert_alike(got, [row[order] for row in expected], dtype, 0.0, f"{name}, {label}, {dtype}")


# ---------------------------------------------------------------- edges of one argument, zeros of both signs

EDGES: dict[str, tuple[list[float], list[float]]] = {
    "log": ([0.0, -0.0], [INF, -INF]),
    "sqrt": ([0.0, -0.0], [INF, -INF]),
    "reciprocal": ([0.0, -0.0], [-INF, -INF]),
    "asin": ([1.0, -1.0], [INF, INF]),
    "acos": ([1.0, -1.0], [-INF, -INF]),
    "acosh": ([1.0], [INF]),
    "atanh": ([1.0, -1.0], [INF, INF]),
    "log1p": ([-1.0], [INF]),
    "abs": ([0.0, -0.0], [0, 0]),
    "relu": ([0.0, -0.0], [0, 0]),
    "special.entr": ([0.0], [INF]),
    "special.logit": ([0.0, 1.0], [INF, INF]),
    "special.xlogy": ([0.0], [math.log(2)]),
}


@pytest.mark.parametrize("name", EDGES)
def test_first_derivatives_at_edges_of_the_domain(name: str, place: Any) -> None:
    points, expected = EDGES[name]
    function = named(agrad, name)
    f = (lambda x: function(x, 2.0)) if name == "special.xlogy" else function
    for dtype in WIDTHS:
        found = quantities(f, place(np.asarray(points, dtype)))
        for label in ("first", "first, forward"):
            assert_alike(found[label], expected, dtype, 0.0, f"{name}, {label}, {dtype}")


# ---------------------------------------------------------------- two arguments

BINARY: dict[str, list[tuple[tuple[float, float], tuple[float, float]]]] = {
    "divide": [((1.0, 0.0), (INF, -INF)), ((0.0, 0.0), (INF, NAN)), ((1e30, 1e-30), (1e30, -INF)),
        ((INF, 2.0), (0.5, -INF))],
    "pow": [((0.0, 2.0), (0, 0)), ((0.0, 1.0), (1, 0)), ((0.0, 0.0), (0, 0)), ((0.0, 0.5), (INF, 0)),
        ((INF, 2.0), (INF, INF)), ((-2.0, 3.0), (12, NAN)), ((1.0, INF), (INF, 0))],
    "hypot": [((0.0, 0.0), (0, 0)), ((INF, 1.0), (1, 0)), ((3e37, 4e37), (0.6, 0.8)), ((3e-40, 0.0), (1, 0)),
        ((NAN, 1.0), (NAN, NAN))],
    "atan2": [((0.0, 0.0), (NAN, NAN)), ((3e37, 4e37), (1.6e-38, -1.2e-38)), ((0.0, -1.0), (-1, 0)),
        ((1.0, 0.0), (0, -1))],
    "logaddexp": [((INF, 1.0), (1, 0)), ((-INF, 1.0), (0, 1)), ((-INF, -INF), (0.5, 0.5)), ((INF, INF), (0.5, 0.5)),
        ((1e38, -1e38), (1, 0)), ((NAN, 1.0), (NAN, NAN))],
    # ties share; a nan on either side wins over neither
    "maximum": [((1.0, 1.0), (0.5, 0.5)), ((0.0, -0.0), (0.5, 0.5)), ((INF, INF), (0.5, 0.5)), ((NAN, 1.0), (0, 0)),
        ((-INF, 1.0), (0, 1))],
    "minimum": [((1.0, 1.0), (0.5, 0.5)), ((0.0, -0.0), (0.5, 0.5)), ((NAN, 1.0), (0, 0)), ((-INF, 1.0), (1, 0))],
    "remainder": [((-5.0, INF), (1, 1)), ((5.0, INF), (1, 0)), ((5.5, -2.0), (1, 3)), ((7.0, 7.0), (1, -1))],
    "copysign": [((0.0, -1.0), (0, 0)), ((-2.0, 1.0), (-1, 0)), ((2.0, -0.0), (-1, 0))],
    "nextafter": [((1.0, 1.0), (1, 0)), ((0.0, 1.0), (1, 0))],
}  # fmt: skip


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(name: str, dtype: str, place: Any, backend: str) -> None:
    rows = BINARY[name]
    if backend == "jax":
        rows = [row for row in rows if not 0 < abs(row[0][0]) < 1e-38]  # below the normal range of float32: 0 there
    arguments = [place(np.asarray([row[0][i] for row in rows], dtype)) for i in (0, 1)]
    f = getattr(agrad, name)
    total = lambda a, b: agrad.sum(f(a, b))  # noqa: E731
    reverse = agrad.grad(total, argnums=(0, 1))(*arguments)
    for i in (0, 1):
        expected = [row[1][i] for row in rows]
        assert_alike(host(reverse[i]), expected, dtype, 1e-45, f"{name} by argument {i}")
        one = agrad.ones_like(agrad.asarray(arguments[i])).raw

        def alone(x: Any, i: int = i) -> Any:
            return f(x, arguments[1]) if i == 0 else f(arguments[0], x)

        _, forward = agrad.jvp(alone, (arguments[i],), (one,))
        assert_alike(host(forward), expected, dtype, 1e-45, f"{name} by argument {i}, forward")


# ---------------------------------------------------------------- reductions

REDUCTIONS: dict[str, list[tuple[list[float], list[float]]]] = {
    "sum": [([INF, 1.0], [1, 1]), ([NAN, 1.0], [1, 1])],
    "mean": [([INF, 1.0], [0.5, 0.5])],
    "prod": [([0.0, 2.0, 3.0], [6, 0, 0]), ([0.0, 0.0, 3.0], [0, 0, 0]), ([1e15, 1e15, 1e-15], [1, 1, 1e30]),
        ([INF, 2.0], [2, INF]), ([0.0, INF], [INF, 0]), ([NAN, 2.0], [2, NAN])],
    "max": [([1.0, 1.0, 0.0], [0.5, 0.5, 0]), ([-INF, -INF], [0.5, 0.5]), ([INF, 1.0], [1, 0]), ([NAN, 1.0], [1, 0]),
        ([0.0, -0.0], [0.5, 0.5])],
    "min": [([1.0, 1.0, 2.0], [0.5, 0.5, 0]), ([-INF, 1.0], [1, 0]), ([NAN, 1.0], [1, 0])],
    "var": [([2.0, 2.0], [0, 0]), ([1e-30, -1e-30], [1e-30, -1e-30]), ([NAN, 1.0], [NAN, NAN]),
        ([INF, 1.0], [NAN, -INF])],
    "std": [([2.0, 2.0], [0, 0]), ([3e15, 1e15], [0.5, -0.5]), ([NAN, 1.0], [NAN, NAN])],
    "logsumexp": [([INF, 1.0], [NAN, 0]), ([-INF, 1.0], [0, 1]), ([-INF, -INF], [NAN, NAN]),
        ([INF, INF, 1.0], [NAN, NAN, 0]), ([INF, -INF], [NAN, 0]), ([1e30, 0.0], [1, 0]), ([-1e30, -1e30], [0.5, 0.5]),
        ([NAN, 1.0], [NAN, NAN])],
    "special.logsumexp": [([INF, 1.0], [NAN, 0]), ([-INF, -INF], [NAN, NAN])],
    "linalg.vector_norm": [([0.0, 0.0], [0, 0]), ([3e15, -4e15], [0.6, -0.8]), ([NAN, 1.0], [NAN, NAN]),
        ([INF, 1.0], [NAN, 0])],
    "cumulative_sum": [([INF, 1.0], [2, 1])],
    "cumulative_prod": [([0.0, 2.0, 3.0], [9, 0, 0]), ([0.0, 0.0, 3.0], [1, 0, 0])],
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, place: Any) -> None:
    f = named(agrad, name)
    wide = {"cumulative_sum": agrad.sum, "cumulative_prod": agrad.sum}.get(name, lambda y: y)
    for (values, expected), dtype in itertools.product(REDUCTIONS[name], WIDTHS):
        values = [v if dtype == "float32" or not 1e20 < abs(v) < INF else v * 1e130 for v in values]
        x = place(np.asarray(values, dtype))
        found = agrad.grad(lambda x: wide(f(x)))(x)
        assert_alike(host(found), expected, dtype, 1e-44, f"{name} of {values}")
        if np.isfinite(expected).all():  # else the tangent of one element meets the others' infinite slopes
            total = agrad.jvp(lambda x: wide(f(x)), (x,), (agrad.ones_like(agrad.asarray(x)).raw,))[1]
            if np.isfinite(values).all():
                assert_alike(host(total), np.sum(expected), dtype, 1e-7, f"{name} of {values}, forward")


def without(x: Any, *left_out: int) -> float:
    """Return the product of all elements except some."""
    return float(np.prod([v for i, v in enumerate(x) if i not in left_out]))


@pytest.mark.parametrize("values", [[NAN, 2, 3], [2, NAN, 3], [2, 3, NAN, 4, 5], [0, NAN, 0, 2], [INF, 2, 3], [2, INF]])
@pytest.mark.parametrize("way", [lambda f: f, agrad.jit])
def test_a_derivative_of_a_product_has_no_factor_that_is_not_in_it(values: list[float], way: Any, place: Any) -> None:
    """NaN and infinity reach the derivatives of the products that they are factors of, in every mode."""
    x, n = np.asarray(values, float), len(values)
    raw, one = place(x), place(np.ones(n))
    each = range(n)

    def slope(f: Any, x: Any) -> Any:
        return way(lambda x: agrad.jvp(f, (x,), (one,))[1])(x)

    def total(x: Any) -> Any:
        return agrad.sum(agrad.cumulative_prod(x))

    gradient = agrad.grad(agrad.prod)
    runs = [x[: k + 1] for k in each]
    second = [sum(without(x, i, j) for j in each if j != i) for i in each]
    later = [sum(without(run, i, j) for run in runs[i:] for j in range(len(run)) if j != i) for i in each]
    for found, expected in [
        (way(gradient)(raw), [without(x, i) for i in each]),
        (slope(agrad.prod, raw), sum(without(x, i) for i in each)),
        (way(agrad.grad(lambda x: agrad.sum(gradient(x))))(raw), second),
        (slope(gradient, raw), second),
        (way(agrad.grad(total))(raw), [sum(without(run, i) for run in runs[i:]) for i in each]),
        (slope(agrad.cumulative_prod, raw), [sum(without(run, i) for i in range(len(run))) for run in runs]),
        (way(agrad.grad(lambda x: agrad.sum(agrad.grad(total)(x))))(raw), later),
        (slope(agrad.grad(total), raw), later),
    ]:
        np.testing.assert_allclose(host(found), expected)


# ---------------------------------------------------------------- logits

HALF = [0.5, 0.5, 0.0]
LOGITS: dict[str, tuple[list[float], list[float]]] = {
    "one large": ([1e30, 0.0, -1.0], [1, 0, 0]),
    "two large": ([1e30, 1e30, 0.0], HALF),
    "all very low": ([-1e30, -1e30, -1e30], [1 / 3, 1 / 3, 1 / 3]),
    "far apart": ([-1e30, 1e30, 1e30], [0, 0.5, 0.5]),
    "one lost": ([-INF, 2.0, 2.0], [0, 0.5, 0.5]),
    "by thousands": ([4000.0, 4000.0, -4000.0], HALF),
    "infinite": ([INF, 0.0, 1.0], [NAN, NAN, NAN]),
    "none": ([-INF, -INF, -INF], [NAN, NAN, NAN]),
    "nan": ([NAN, 0.0, 1.0], [NAN, NAN, NAN]),
}
"""Logits and the softmax of them."""
ROWS = [(logits, softmax, k) for logits, softmax in LOGITS.values() for k in range(3)]


@pytest.mark.parametrize("dtype", WIDTHS)
def test_cross_entropy(dtype: str, place: Any) -> None:
    """The value, the gradient p - onehot and the Hessian diag(p) - p p^T, as PyTorch and JAX have them."""
    x, labels = place(np.asarray([row[0] for row in ROWS], dtype)), place(np.asarray([row[2] for row in ROWS]))
    p, one_hot = np.asarray([row[1] for row in ROWS]), np.eye(3)[[row[2] for row in ROWS]]
    values = [max(row) - row[k] + math.log(max(1, np.sum(np.asarray(q) > 0))) + sum(q) - 1 for row, q, k in ROWS]

    def losses(x: Any) -> Any:
        return agrad.cross_entropy(x, labels, reduction="none")

    slope = agrad.grad(lambda x: agrad.sum(losses(x)))
    v = np.broadcast_to([1.0, 2.0, 4.0], p.shape)
    along = place(np.array(v, dtype))
    assert_alike(host(losses(x)), values, dtype, 1e-7, "value")
    assert_alike(host(slope(x)), p - one_hot, dtype, 1e-7, "gradient")
    assert_alike(host(agrad.jvp(losses, (x,), (along,))[1]), np.sum((p - one_hot) * v, 1), dtype, 1e-6, "forward")
    curved = p * v - p * np.sum(p * v, 1, keepdims=True)
    assert_alike(host(agrad.jvp(slope, (x,), (along,))[1]), curved, dtype, 1e-6, "forward over reverse")
    assert_alike(host(agrad.vjp(slope, x)[1](along)[0]), curved, dtype, 1e-6, "reverse over reverse")
