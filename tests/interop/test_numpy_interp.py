"""``numpy.interp`` of Tensors: its derivative by the nodes, and what NumPy's own does at the edges."""

from typing import Any

import numpy as np
import pytest

import agrad
from agrad.testing import check_grads

X = np.asarray([[-1.0, 0.3, 1.0], [2.2, 5.0, 0.95]])
NODES, VALUES = np.asarray([0.1, 0.9, 1.7, 3.0]), np.asarray([0.5, -1.0, 2.0, 1.5])
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("settings", [{}, {"left": 2.0, "right": -1.0}, {"period": 3.5}, {"period": -2.2}])
def test_the_derivative_by_points_nodes_and_values(settings: dict[str, float], backend: str, place: Any) -> None:
    def f(x: Any, nodes: Any, values: Any) -> Any:
        return np.interp(agrad.asarray(x), nodes, values, **settings)

    placed = [agrad.asarray(place(a)) for a in (X, NODES, VALUES)]
    expected = np.interp(X, NODES, VALUES, **settings)
    np.testing.assert_allclose(f(*placed).numpy(), expected, rtol=1e-13)
    if backend == "numpy":
        check_grads(f, placed)
    np.testing.assert_allclose(agrad.jit(f)(*placed).numpy(), expected, rtol=1e-13)
    rows = [agrad.asarray(place(np.stack([a, a + 0.1]))) for a in (X[0], NODES, VALUES)]
    alone = [np.interp(X[0] + d, NODES + d, VALUES + d, **settings) for d in (0.0, 0.1)]
    np.testing.assert_allclose(agrad.vmap(f)(*rows).numpy(), alone, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("x", "nodes", "values"),
    [
        ([0.0, 1.0, 1.5, 2.0, 3.0], [0.0, 1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]),
        ([0.5, 1.5, -INF, INF, NAN], [-INF, 1.0, 2.0], [1.0, 2.0, 4.0]),
        ([0.5, 1.0, 1.5, 2.0], [0.0, 1.0, 2.0], [1.0, INF, 2.0]),
        ([0.0, 0.5, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, NAN, 3.0]),
        ([0.5, 1.5], [0.0, 1.0, 2.0], [INF, INF, 3.0]),
        ([0.5, 1.5], [1.0], [4.0]),
    ],
)
def test_values_beside_infinities_and_repeated_nodes(
    x: list[float], nodes: list[float], values: list[float], place: Any
) -> None:
    arrays = [np.asarray(a) for a in (x, nodes, values)]
    found = np.interp(*[agrad.asarray(place(a)) for a in arrays])
    np.testing.assert_array_equal(found.numpy(), np.interp(*arrays))


def test_a_node_beside_a_nan_has_a_finite_derivative() -> None:
    slopes = agrad.grad(lambda v: np.interp(agrad.asarray(1.0), [0.0, 1.0, 2.0], v))(np.asarray([1.0, 2.0, NAN]))
    np.testing.assert_array_equal(slopes[:2], [0.0, 1.0])


def test_the_period_is_not_zero() -> None:
    with pytest.raises(ValueError, match="period must not be 0"):
        np.interp(agrad.asarray(X), NODES, VALUES, period=0)


def test_a_function_without_derivatives_is_one_operation(backend: str, place: Any) -> None:
    """On NumPy. A compiler for NumPy arrays gets the operations of the definition."""

    def f(x: Any) -> Any:
        return np.interp(agrad.asarray(x), NODES, VALUES)

    jitted = agrad.jit(f)
    np.testing.assert_allclose(jitted(agrad.asarray(place(X))).numpy(), np.interp(X, NODES, VALUES), rtol=1e-13)
    if backend == "numpy":
        assert len(jitted.lower(agrad.asarray(X)).stages[-1][1].instructions) == 1


def test_interpolation_compiled_by_jax() -> None:
    pytest.importorskip("jax")
    f = agrad.jit(lambda x: np.interp(x, NODES, VALUES), compiler="jax")
    np.testing.assert_allclose(f(agrad.asarray(X)).numpy(), np.interp(X, NODES, VALUES), rtol=1e-12)
