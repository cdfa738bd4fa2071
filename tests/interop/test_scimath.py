"""``numpy.emath`` and lists beside Tensors in operators."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad

X = np.asarray([-0.7, 2.0, 0.3])
FUNCTIONS = {name: getattr(np.emath, name) for name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")}
FUNCTIONS |= {"logn": lambda x: np.emath.logn(3.0, x), "power": lambda x: np.emath.power(x, 1.5)}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_extend_to_complex_values_with_derivatives(function: Callable[[Any], Any], backend: str) -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.abs(function(x) * (1 + 0.3j) + 0.2))

    x = agrad.asarray(X, backend=backend, requires_grad=True)
    np.testing.assert_allclose(function(x).detach().numpy(), function(X), rtol=1e-12)
    steps = 1e-6 * np.eye(3)
    expected = [(loss(X + h) - loss(X - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(agrad.grad(loss)(x.detach()).numpy(), expected, rtol=1e-6)
    inside = function(x[2:])
    assert inside.dtype == agrad.float64 and np.isrealobj(function(X[2:]))


def test_complex_arguments_and_integers(backend: str) -> None:
    z = agrad.asarray([1.0 + 2.0j, -3.0], backend=backend)
    np.testing.assert_allclose(np.emath.sqrt(z).numpy(), np.emath.sqrt(z.numpy()), rtol=1e-12)
    n = agrad.asarray([4, -1], backend=backend)
    np.testing.assert_allclose(np.emath.sqrt(n).numpy(), [2.0, 1.0j])


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: [1, 2, 3] - x,
        lambda x: x * (1.5, 2, 0),
        lambda x: [x[0], 1.0, x[2]] / x,
        lambda x: [[1, 2, 3], [0, 1, 0]] @ x,
        lambda x: x**2 <= [0.5, 5.0, 0.0],
    ],
)
def test_lists_beside_tensors_are_arrays(operation: Callable[[Any], Any], backend: str) -> None:
    x = agrad.asarray(X, backend=backend, requires_grad=True)
    np.testing.assert_array_almost_equal(operation(x).detach().numpy(), operation(X))


def test_lists_in_place_and_in_derivatives(backend: str) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y += [1, 2, 3]
        return agrad.sum([x[1], 2.0, x[0]] * y)

    x = agrad.asarray(X, backend=backend)
    expected = [X[1] + X[2] + 3, X[0] + 3, X[0]]
    np.testing.assert_allclose(agrad.grad(f)(x).numpy(), expected)


def test_words_equal_no_tensor() -> None:
    assert (agrad.asarray(X) == ["a", "b", "c"]) is False
