"""NumPy functions on Tensors: writes, ``convolve``, ``interp``, ``emath``, and lists in operators."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from modes import check_traced
from refusals import fails
from tensors import all_close

import agrad
from agrad.errors import LeafMutationError, RefusedFunctionError
from agrad.testing import check_grads

WRITES = {
    "put": lambda t: np.put(t, [0, 1], 7.0),
    "place": lambda t: np.place(t, [True, False, False, True], [7.0, 8.0]),
    "putmask": lambda t: np.putmask(t, [True, False, False, True], 7.0),
    "copyto": lambda t: np.copyto(t, 7.0),
    "put_along_axis": lambda t: np.put_along_axis(t, np.asarray([0]), 7.0, 0),
    "add.at": lambda t: np.add.at(t, [0, 0], 7.0),
    "sin.at": lambda t: np.sin.at(t, [1, 2]),
    "divide.at": lambda t: np.divide.at(t, [1, 2], 2.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_reach_tensors_and_no_array_of_the_users(name: str) -> None:
    given = np.asarray([1.0, 2.0, 3.0, 4.0])
    expected = given.copy()
    WRITES[name](expected)
    for _ in range(2):
        t = agrad.asarray(given)
        view = t[:2]
        WRITES[name](t)
        np.testing.assert_array_equal(t.numpy(), expected)
        np.testing.assert_array_equal(view.numpy(), expected[:2])
        np.testing.assert_array_equal(given, [1.0, 2.0, 3.0, 4.0])
        leaf = agrad.asarray(given, requires_grad=True)
        fails(LeafMutationError, "no_grad", WRITES[name], leaf)


def test_settings_that_write_into_an_argument() -> None:
    x = np.asarray([3.0, 1.0, np.nan])
    kept = x.copy()
    fails(RefusedFunctionError, "Leave copy out", lambda: np.nan_to_num(agrad.asarray(x), copy=False))
    assert np.isnan(np.median(agrad.asarray(x), overwrite_input=True).numpy())
    np.testing.assert_array_equal(x, kept)
    assert np.nan_to_num(agrad.asarray(x)).numpy().tolist() == [3.0, 1.0, 0.0]


def test_operations_are_seen_and_recorded() -> None:
    x = agrad.asarray(np.asarray([1.0, 2.0]))
    with agrad.profile() as report:
        np.cumsum(x)
    assert "cumulative_sum" in str(report)
    weight = agrad.asarray(np.asarray([2.0, 3.0]), requires_grad=True)
    agrad.sum(np.hstack([x, np.cumsum(weight)])).backward()
    assert weight.grad.numpy().tolist() == [2.0, 1.0]
    closed = np.apply_along_axis(lambda row: row * weight, 0, x)
    assert closed.requires_grad


def test_a_jitted_function_reads_its_tensors_anew() -> None:
    state = agrad.asarray(np.ones(3))
    f = agrad.jit(lambda x: x * np.cumsum(state))
    assert np.asarray(f(np.ones(3))).tolist() == [1.0, 2.0, 3.0]
    state[0] = 5.0
    assert np.asarray(f(np.ones(3))).tolist() == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.maximum, np.divide, np.hypot])
def test_ufunc_at_of_integers_computes_each_step_in_the_promoted_dtype(ufunc: np.ufunc) -> None:
    """A step's result is cast to the dtype of the array, as NumPy casts it."""
    expected, found = np.arange(3), agrad.asarray(np.arange(3))
    for x in (expected, found):
        ufunc.at(x, [2, 0, 2, 2], [1.5, 2.5, -0.5, 1.25])
    assert found.dtype == agrad.int64
    np.testing.assert_array_equal(found.numpy(), expected)


def test_ufunc_at_inside_transforms() -> None:
    def f(x: Any, v: Any) -> Any:
        y = agrad.asarray(x) * 1
        np.maximum.at(y, [0, 1, 0], v)
        np.multiply.at(y, [1, 1], v[:2])
        return y

    x, v = np.asarray([1.0, 2.0]), np.asarray([3.0, 1.0, 4.0])
    np.testing.assert_allclose(f(x, v).numpy(), [4.0, 6.0])
    np.testing.assert_allclose(agrad.jit(f)(x, v), [4.0, 6.0])
    np.testing.assert_allclose(agrad.vmap(f)(x[None], v[None]), [[4.0, 6.0]])
    np.testing.assert_allclose(agrad.jacrev(f, 1)(x, v), [[0, 0, 1], [2, 6, 0]])
    np.testing.assert_allclose(agrad.jacfwd(f, 1)(x, v), [[0, 0, 1], [2, 6, 0]])


A, V = np.asarray([0.5, -1.0, 2.0, 0.3, 1.1]), np.asarray([1.5, 0.2, -0.7])
MODES = ("full", "same", "valid")


def on(backend: str, x: np.ndarray) -> Any:
    return agrad.asarray(x, backend=backend)


@pytest.mark.parametrize("mapped", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("mode", MODES)
def test_vmap_maps_either_vector(backend: str, mode: str, mapped: tuple[Any, Any]) -> None:
    rows = [np.stack([x, 2 * x[::-1]]) if axis == 0 else x for x, axis in zip((A, V), mapped, strict=True)]
    found = agrad.vmap(lambda a, v: np.convolve(a, v, mode), in_axes=mapped)(*[on(backend, x) for x in rows])
    for i in range(2):
        one = [x[i] if axis == 0 else x for x, axis in zip(rows, mapped, strict=True)]
        np.testing.assert_allclose(found[i].numpy(), np.convolve(*one, mode), rtol=1e-13)


def test_jit(backend: str) -> None:
    def loss(a: Any, v: Any) -> Any:
        return agrad.sum(np.correlate(a, v, "full") ** 2)

    pair = on(backend, A), on(backend, V)
    gradient = agrad.grad(loss, argnums=(0, 1))
    all_close(agrad.jit(gradient)(*pair), gradient(*pair), rtol=1e-13)
    with agrad.use_backend("numpy"):
        all_close(gradient(*pair), gradient(A, V), rtol=1e-12)


def test_one_node() -> None:
    a, v = agrad.asarray(A, requires_grad=True), agrad.asarray(V)
    assert np.convolve(a, v).op.name == "numpy.convolve"


POINTS = np.asarray([[-1.0, 0.3, 1.0], [2.2, 5.0, 0.95]])
NODES, VALUES = np.asarray([0.1, 0.9, 1.7, 3.0]), np.asarray([0.5, -1.0, 2.0, 1.5])
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("settings", [{}, {"left": 2.0, "right": -1.0}, {"period": 3.5}, {"period": -2.2}])
def test_the_derivative_by_points_nodes_and_values(settings: dict[str, float], backend: str, place: Any) -> None:
    def f(x: Any, nodes: Any, values: Any) -> Any:
        return np.interp(agrad.asarray(x), nodes, values, **settings)

    placed = [agrad.asarray(place(a)) for a in (POINTS, NODES, VALUES)]
    expected = np.interp(POINTS, NODES, VALUES, **settings)
    np.testing.assert_allclose(f(*placed).numpy(), expected, rtol=1e-13)
    if backend == "numpy":
        check_grads(f, placed)
    np.testing.assert_allclose(agrad.jit(f)(*placed).numpy(), expected, rtol=1e-13)
    rows = [agrad.asarray(place(np.stack([a, a + 0.1]))) for a in (POINTS[0], NODES, VALUES)]
    alone = [np.interp(POINTS[0] + d, NODES + d, VALUES + d, **settings) for d in (0.0, 0.1)]
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
    fails(ValueError, "period must not be 0", lambda: np.interp(agrad.asarray(POINTS), NODES, VALUES, period=0))


def test_an_interpolation_without_derivatives_is_one_operation(backend: str, place: Any) -> None:
    """On NumPy. A compiler for NumPy arrays gets the operations of the definition."""

    def f(x: Any) -> Any:
        return np.interp(agrad.asarray(x), NODES, VALUES)

    jitted = agrad.jit(f)
    np.testing.assert_allclose(jitted(agrad.asarray(place(POINTS))).numpy(), f(POINTS).numpy(), rtol=1e-13)
    if backend == "numpy":
        assert len(jitted.lower(agrad.asarray(POINTS)).stages[-1][1].instructions) == 1


def test_derivatives_of_an_interpolation_in_a_loop_inside_jit() -> None:
    """The step is recorded before its derivatives are asked of."""

    def f(x: Any, nodes: Any, values: Any) -> Any:
        return agrad.scan(lambda c, u: (c + np.interp(u, nodes, values) ** 2, c), 0.0, x)[0]

    check_traced(f, (POINTS[1], NODES, VALUES), ("gradient", "tangent", "forward over reverse"))
    check_grads(agrad.jit(f), (POINTS[1], NODES, VALUES))
    gradient, rows = agrad.grad(f, argnums=0), np.stack([POINTS[1], POINTS[1] + 0.1])
    mapped = agrad.vmap(agrad.jit(gradient), in_axes=(0, None, None))(rows, NODES, VALUES)
    np.testing.assert_allclose(mapped[0], gradient(POINTS[1], NODES, VALUES), rtol=1e-12)


@pytest.mark.needs("jax")
def test_an_interpolation_compiled_by_jax() -> None:
    f = agrad.jit(lambda x: np.interp(x, NODES, VALUES), compiler="jax")
    np.testing.assert_allclose(f(agrad.asarray(POINTS)).numpy(), np.interp(POINTS, NODES, VALUES), rtol=1e-12)


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
        lambda x: [1, 2, 3] - x, lambda x: x * (1.5, 2, 0), lambda x: [x[0], 1.0, x[2]] / x,
        lambda x: [[1, 2, 3], [0, 1, 0]] @ x, lambda x: x**2 <= [0.5, 5.0, 0.0],
    ],
)  # fmt: skip
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
