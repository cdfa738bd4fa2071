"""``compare_backends`` names the first operation that differs between backends, by value or by gradient."""

from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.engine.observing import OBSERVED
from agrad.errors import BackendUnavailableError, ConfigurationError, OperandError

X = np.asarray([[0.3, -0.4], [1.2, 0.7]])
PAIR = ("numpy", "array_api_strict")


def strict(x: Any) -> bool:
    return "array_api_strict" in type(x).__module__


def brittle(forward: float = 0.0, backward: float = 0.0) -> Any:
    """Twice x, off by a factor on array-api-strict."""

    @agrad.primitive(batch="leading")
    def double(xp: Any, x: Any, /) -> Any:
        return x * (2.0 + forward * strict(x))

    double.vjp(lambda g: g * (2.0 + backward * strict(g)))
    double.jvp(lambda t: t * 2.0)
    return double


def test_agreement(backend: str) -> None:
    def f(p: Any, x: Any) -> Any:
        h = agrad.tanh(agrad.matmul(x, p["w"]))
        return {"loss": agrad.sum(agrad.cumulative_sum(h, axis=0) ** 2), "best": agrad.argmax(h, axis=0)}

    other = "array_api_strict" if backend == "numpy" else backend
    report = agrad.compare_backends(f, {"w": X}, X + 1, backends=("numpy", other))
    assert report and report.first is None, str(report)
    # six and their five rules, and two results
    assert str(report) == f"numpy, {other}: the same in all 13 operations"


def test_the_first_value_that_differs() -> None:
    double = brittle(forward=1e-3)

    def f(x: Any) -> Any:
        y = agrad.sin(x)
        y = double(y)  # the line at fault
        return agrad.sum(agrad.exp(y))

    report = agrad.compare_backends(f, X, backends=PAIR)
    assert not report
    first = report.first
    assert (first.number, first.operation, first.direction, first.result) == (1, "double", "forward", "y")
    assert (first.backends, first.element) == (PAIR, (1, 0))
    assert (first.absolute, first.relative) == pytest.approx((1e-3 * np.sin(1.2), 5e-4), rel=1e-9)
    assert first.values == (2 * np.sin(1.2), 2.001 * np.sin(1.2)) and "the line at fault" in first.where
    for part in (
        "operation 1: the value of double differs on numpy and array_api_strict: 1.86",
        "at element [1, 0], off by 0.000932 (0.0005 of the largest value)",
        "later results differ too",
    ):
        assert part in str(report)


def test_the_first_gradient_that_differs() -> None:
    double = brittle(backward=1e-3)

    def f(x: Any) -> Any:
        return agrad.sum(agrad.exp(double(agrad.sin(x))))  # recorded here

    report = agrad.compare_backends(f, X, backends=PAIR)
    assert (report.first.operation, report.first.direction, report.first.result) == ("double", "backward", "x")
    assert report.first.relative == pytest.approx(5e-4) and "recorded here" in report.first.where
    assert [d.operation for d in report.differences] == ["double", "sin"]
    for options in ({"grad": False}, {"rtol": 1e-3}):
        assert agrad.compare_backends(f, X, backends=PAIR, **options)
    match = "the gradient of double with respect to x differs"
    fails(AssertionError, match, agrad.compare_backends, f, X, backends=PAIR, check=True)


@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "complex128"])
def test_a_cotangent_has_its_results_dtype_and_no_small_element(kind: str) -> None:
    seen: list[Any] = []

    @agrad.primitive(batch="leading")
    def same(xp: Any, x: Any, /) -> Any:
        return x * 1.0

    same.vjp(lambda g: seen.append(g) or g)
    assert agrad.compare_backends(same, np.ones((3, 4), dtype=kind), backends=PAIR)
    first, second = (np.asarray(g) for g in seen)
    np.testing.assert_array_equal(first, second, strict=True)
    assert first.dtype == kind
    for part in (first.real, first.imag) if kind.startswith("complex") else (first,):
        assert 0.5 <= part.min() < part.max() <= 1.5 and len(np.unique(part)) == 12


def test_inside_transforms() -> None:
    double = brittle(forward=1e-3)
    other = brittle()
    other.jvp(lambda t: t * (2.0 + 1e-3 * strict(t)))
    report = agrad.compare_backends(lambda x: agrad.jvp(other, (x,), (x,)), X, backends=PAIR, grad=False)
    assert "the tangent of double differs" in str(report)
    for f in (agrad.vmap(double), lambda x: agrad.jvp(double, (x,), (x,)), agrad.jacfwd(double)):
        assert agrad.compare_backends(f, X, backends=PAIR).first.operation == "double"


def test_another_way() -> None:
    def f(x: Any) -> Any:
        return agrad.sum(agrad.exp(x) if agrad.get_backend() == "numpy" else agrad.sin(x))

    def longer(x: Any) -> Any:
        return x if agrad.get_backend() == "numpy" else agrad.sin(x)

    assert "exp on the first, sin on the second" in str(agrad.compare_backends(f, X, backends=PAIR))
    assert not agrad.compare_backends(longer, X, backends=PAIR, grad=False)


def test_dtypes_shapes_and_what_is_not_finite() -> None:
    @agrad.primitive(constant="x")
    def odd(xp: Any, x: Any, /, *, how: str) -> Any:
        if not strict(x):
            return x
        return {
            "dtype": lambda: xp.astype(x, xp.float32),
            "shape": lambda: x[:1, :],
            "nan": lambda: xp.where(x > 1, xp.asarray(float("nan"), dtype=x.dtype), x),
        }[how]()

    for how, text in (("dtype", "float64 and float32"), ("shape", "shape (2, 2) and (1, 2)"), ("nan", "1.2 and nan")):
        report = agrad.compare_backends(lambda x, how=how: odd(x, how=how), X, backends=PAIR)
        assert text in str(report)
    infinite = np.asarray([np.nan, np.inf, -np.inf, 1.0])
    assert agrad.compare_backends(agrad.abs, infinite, backends=PAIR, grad=False)


def test_integers_are_exact_and_constant() -> None:
    report = agrad.compare_backends(lambda i, x: x[i], np.asarray([1, 0]), X, backends=PAIR)
    assert report and report.operations == 3


def test_errors() -> None:
    compare = agrad.compare_backends
    fails(ConfigurationError, "two or more", compare, agrad.sin, X, backends="numpy")
    fails(ConfigurationError, "two or more different names", compare, agrad.sin, X, backends=("numpy", "numpy"))
    fails(OperandError, "a function", compare, X, backends=PAIR)
    fails(BackendUnavailableError, "'nowhere'", compare, agrad.sin, X, backends=("numpy", "nowhere"))
    fails(KeyError, "0", compare, lambda x: {}[0], X, backends=PAIR)
    assert not OBSERVED


def test_outputs_whose_number_varies() -> None:
    report = agrad.compare_backends(lambda x: agrad.unstack(agrad.sin(x)), X, backends=PAIR)
    assert report, str(report)
    assert agrad.compare_backends(lambda x: agrad.jvp(agrad.unstack, (x,), (x,)), X, backends=PAIR, grad=False)
    with agrad.profile() as p:
        agrad.vjp(agrad.unstack, X)[1](tuple(X))
    rows = sorted((row.operation, row.direction, row.bytes) for row in p.rows())
    assert rows[-2:] == [("unstack", way, 32) for way in ("backward", "forward")]
