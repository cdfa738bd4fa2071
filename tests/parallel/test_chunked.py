"""Functions of Dask arrays, summed over chunks by threads of this process."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import all_close

import agrad
from agrad.errors import OperandError, ShapeError
from agrad.parallel import chunked

pytestmark = pytest.mark.needs("dask")

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((103, 4)), RNG.standard_normal(103)
W = {"a": np.linspace(-1, 1, 4), "b": (np.array(0.5),)}
T = {"a": np.ones(4), "b": (np.array(2.0),)}


def loss(w: Any, X: Any, y: Any, power: int = 2) -> Any:
    return agrad.sum(agrad.tanh(X @ w["a"] + w["b"][0] - y) ** power)


def in_chunks(X: np.ndarray = X, y: np.ndarray = Y) -> tuple[Any, Any]:
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(20, 2)), da.from_array(y, chunks=30)


def close(found: Any, expected: Any, rtol: float = 1e-11) -> None:
    all_close(agrad.tree.leaves(found), agrad.tree.leaves(expected), rtol=rtol, atol=1e-12)


def passes(function: Callable[[], Any]) -> tuple[Any, int]:
    """Return a result, and how often Dask computed a graph."""
    callbacks = pytest.importorskip("dask.callbacks")
    seen: list[Any] = []
    with callbacks.Callback(start=seen.append):
        return function(), len(seen)


def test_value_and_gradient_in_one_pass() -> None:
    f = chunked(loss)
    (value, gradient), count = passes(lambda: agrad.value_and_grad(f)(W, *in_chunks()))
    close((value, gradient), agrad.value_and_grad(loss)(W, X, Y))
    assert count == 1 and type(value) is np.float64 and type(gradient["a"]) is np.ndarray
    found, count = passes(lambda: f(W, *in_chunks()))
    close(found, loss(W, X, Y))
    assert count == 1


@pytest.mark.parametrize("jit", [True, False])
def test_other_derivatives(jit: bool) -> None:
    f, (x, y) = chunked(loss, jit=jit), in_chunks()

    def pair(transform: Callable[[Any], Any], most: int) -> None:
        found, count = passes(lambda: transform(lambda w: f(w, x, y)))
        close(found, transform(lambda w: loss(w, X, Y)), 1e-9)
        assert count <= most

    pair(lambda f: agrad.jvp(f, (W,), (T,)), 1)
    pair(lambda f: agrad.hvp(f, (W,), (T,)), 2)
    pair(lambda f: agrad.grad(lambda w: agrad.sum(agrad.grad(f)(w)["a"] ** 2))(W), 2)
    pair(lambda f: agrad.hessian(lambda a: f({**W, "a": a}))(W["a"]), 3)
    pair(lambda f: agrad.vmap(lambda a: f({**W, "a": a}))(np.stack([W["a"], -W["a"]])), 1)
    pair(lambda f: agrad.jvp(lambda w: agrad.hvp(f, (w,), (T,))[0]["a"], (W,), (T,)), 5)


def test_other_values_and_shapes_are_not_mixed_up() -> None:
    f = agrad.grad(chunked(loss))
    for power in (2, 4):
        close(f(W, *in_chunks(), power), agrad.grad(loss)(W, X, Y, power))
    wide = {**W, "a": np.linspace(-1, 1, 2)}
    close(f(wide, *in_chunks(X[:, :2].copy())), agrad.grad(loss)(wide, X[:, :2], Y))
    narrow = {"a": W["a"].astype(np.float32), "b": W["b"]}
    found = f(narrow, *in_chunks())
    assert found["a"].dtype == np.float32 and found["b"][0].dtype == np.float64
    close(found, agrad.grad(loss)(narrow, X, Y), 1e-5)


def test_tensors_and_optimizers() -> None:
    f, (x, y) = chunked(lambda w, X, y: agrad.sum((X @ w - y) ** 2)), in_chunks()
    w = agrad.nn.Parameter(np.zeros(4))
    optimizer = agrad.optim.SGD([w], lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        value = f(w, agrad.asarray(x), y)
        value.backward()
        optimizer.step()
    assert value.item() < f(np.zeros(4), x, y)


@pytest.mark.needs("torch")
def test_parameters_of_another_backend() -> None:
    torch = pytest.importorskip("torch")
    found = agrad.grad(chunked(lambda w, X: agrad.sum(agrad.sin(X @ w))))(
        torch.ones(4, dtype=torch.float64), in_chunks()[0]
    )
    assert isinstance(found, torch.Tensor)
    close(found.numpy(), agrad.grad(lambda w: agrad.sum(agrad.sin(X @ w)))(np.ones(4)))


def test_a_function_that_cannot_be_traced_runs_without_jit() -> None:
    def f(w: Any, X: Any) -> Any:
        z = agrad.sum(X @ w)
        return z if float(z.detach() if isinstance(z, agrad.Tensor) else z) > 0 else -z

    with pytest.warns(RuntimeWarning, match="cannot be traced"):
        found = chunked(f)(np.ones(4), in_chunks()[0])
    np.testing.assert_allclose(found, sum(abs(X[i : i + 20].sum()) for i in range(0, 103, 20)), rtol=1e-12)


def test_wrong_arguments() -> None:
    x, y = in_chunks()
    f = chunked(loss)
    for call, error, match in (
        (lambda: f(W, X, Y), OperandError, "must have one Dask array or more, got ndarray"),
        (lambda: f(3, x, y), OperandError, "must have a floating-point array of parameters"),
        (lambda: f(W, x, y[:50]), ShapeError, r"equal numbers of rows, got \[50, 103\]"),
        (lambda: chunked(lambda w, X: X @ w)(W["a"], x), ShapeError, r"shape \(\), got shape \(\d+,\)"),
        (lambda: f({**W, "a": W["a"] + 0j}, x, y), OperandError, "must be real"),
        (lambda: agrad.grad(f, argnums=1)(W, x, y), OperandError, "with respect to the parameters"),
    ):
        fails(error, match, call)
