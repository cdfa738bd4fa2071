"""Dask: chunks of results and gradients, NumPy parameters, training loops without a growing graph."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.errors import MixedBackendsError, RefusedFunctionError

pytestmark = pytest.mark.needs("dask")

ROWS = np.random.default_rng(0).standard_normal((60, 4))


def in_chunks(array: np.ndarray, *chunks: int) -> Any:
    da = pytest.importorskip("dask.array")
    return da.from_array(array, chunks=chunks)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    with pytest.importorskip("dask").config.set(scheduler="threads"):
        yield


@contextmanager
def computations() -> Iterator[list[int]]:
    """Count the graphs that Dask computes."""
    callbacks = pytest.importorskip("dask.callbacks")
    seen: list[int] = []
    with callbacks.Callback(start=lambda graph: seen.append(len(graph))):
        yield seen


def largest(x: Any) -> int:
    return math.prod(map(max, x.chunks))


def check_gradient(f: Callable[[Any], Any], X: np.ndarray, *chunks: int) -> Any:
    """Return the gradient on chunks, which must be the one on the whole array."""
    found = agrad.grad(f)(in_chunks(X, *chunks))
    np.testing.assert_allclose(found.compute(), agrad.grad(f)(X), rtol=1e-12, atol=1e-12)
    return found


def laplacian(x: Any) -> Any:
    inner = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
    return agrad.sum(inner**2)


def test_the_gradient_of_a_stencil_has_chunks_like_its_input() -> None:
    X = np.random.default_rng(1).standard_normal((60, 40))
    found = check_gradient(laplacian, X, 10, 10)
    assert largest(found) <= 1.1 * 100
    assert found.numblocks >= (6, 4)


@pytest.mark.parametrize(
    "index",
    [np.s_[3], np.s_[-1, None, 1:], np.s_[::-2, None, ...], np.s_[40:42], np.s_[...], np.s_[:, 2], np.s_[5:5]],
    ids=str,
)
def test_basic_indices_and_their_gradients(index: Any) -> None:
    found = check_gradient(lambda x: agrad.sum(agrad.exp(x[index])), ROWS, 20, 4)
    assert found.shape == ROWS.shape


def test_a_small_slice_does_not_make_small_chunks() -> None:
    x = in_chunks(np.zeros(100_000), 1000)
    assert agrad.grad(lambda x: agrad.sum(x[1999:2001] ** 2))(x).npartitions < 10


def test_writes_keep_chunks() -> None:
    x = agrad.asarray(in_chunks(ROWS, 20, 4))
    x[3] = 1.0
    x[:, -1] = agrad.asarray(in_chunks(np.arange(60.0), 20))
    expected = ROWS.copy()
    expected[3], expected[:, -1] = 1.0, np.arange(60.0)
    np.testing.assert_array_equal(x.raw.compute(), expected)
    assert x.raw.numblocks[0] == 3


@pytest.mark.parametrize("shape", [(12,), (3, 4)])
def test_take_has_the_chunks_of_its_index(shape: tuple[int, ...]) -> None:
    positions = np.random.default_rng(2).integers(-60, 60, shape)
    index = in_chunks(positions, 2, *[2] * (len(shape) - 1))
    taken = agrad.take(in_chunks(ROWS, 20, 4), index, axis=0)
    np.testing.assert_array_equal(taken.compute(), ROWS[positions])
    assert taken.numblocks[: len(shape)] == index.numblocks
    weights = np.random.default_rng(3).standard_normal((*shape, 4))
    found = agrad.grad(lambda x: agrad.sum(agrad.take(x, index, axis=0) ** 2 * weights))(in_chunks(ROWS, 20, 2))
    expected = agrad.grad(lambda x: agrad.sum(agrad.take(x, positions, axis=0) ** 2 * weights))(ROWS)
    np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


def test_take_out_of_range_raises() -> None:
    with pytest.raises(IndexError, match="60"):
        agrad.take(in_chunks(ROWS, 20, 4), in_chunks(np.array([0, 60]), 1), axis=0).compute()


def test_a_mask_is_computed_once() -> None:
    x = in_chunks(ROWS, 20, 4)
    with computations() as seen:
        agrad.grad(lambda x: agrad.sum(x[x[:, 0] > 0] ** 2))(x)
    assert len(seen) == 1
    check_gradient(lambda x: agrad.sum(x[x[:, 0] > 0] ** 2), ROWS, 20, 4)


def test_tall_qr_and_svd_keep_their_chunks() -> None:
    x = in_chunks(ROWS, 20, 4)
    q, r = agrad.linalg.qr(x)
    u, s, vh = agrad.linalg.svd(x, full_matrices=False)
    assert q.numblocks == u.numblocks == (3, 1)
    np.testing.assert_allclose((q @ r).compute(), ROWS, atol=1e-12)
    np.testing.assert_allclose(((u * s) @ vh).compute(), ROWS, atol=1e-12)
    values = agrad.linalg.svdvals(x)
    np.testing.assert_allclose(values.compute(), np.linalg.svd(ROWS)[1], rtol=1e-12)

    def of_qr(x: Any) -> Any:
        q, r = agrad.linalg.qr(x)
        return agrad.sum(q**2 * np.arange(4.0)) + agrad.sum(agrad.abs(r) ** 3)

    assert check_gradient(of_qr, ROWS, 20, 4).numblocks == (3, 1)
    assert check_gradient(lambda x: agrad.sum(agrad.linalg.svdvals(x) ** 3), ROWS, 20, 4).numblocks == (3, 1)


def test_equations_keep_the_chunks_of_right_hand_sides() -> None:
    a, b = ROWS[:4] + 5 * np.eye(4), ROWS.T.copy()
    x = agrad.linalg.solve(in_chunks(a, 2, 2), in_chunks(b, 4, 20))
    assert x.numblocks == (1, 3)
    np.testing.assert_allclose(x.compute(), np.linalg.solve(a, b), rtol=1e-12)


def test_fourier_transforms_of_chunks_along_their_axis() -> None:
    found = agrad.fft.fftn(in_chunks(ROWS, 20, 2))
    np.testing.assert_allclose(found.compute(), np.fft.fftn(ROWS), atol=1e-12)
    np.testing.assert_allclose(agrad.fft.irfft(in_chunks(ROWS, 20, 2)).compute(), np.fft.irfft(ROWS), atol=1e-12)


# ------------------------------------------------------------------ NumPy parameters


def loss(w: Any, X: Any) -> Any:
    return agrad.mean(agrad.tanh(X @ w["a"] + w["b"]) ** 2)


def test_numpy_parameters_join_and_gradients_are_numpy_arrays() -> None:
    w = {"a": np.linspace(-1, 1, 4), "b": np.array(0.5)}
    value, found = agrad.value_and_grad(loss)(w, in_chunks(ROWS, 20, 4))
    expected = agrad.grad(loss)(w, ROWS)
    assert type(found["a"]) is np.ndarray and found["b"].shape == ()
    np.testing.assert_allclose(float(value.compute()), loss(w, ROWS), rtol=1e-13)
    np.testing.assert_allclose(found["a"], expected["a"], rtol=1e-12)
    np.testing.assert_allclose(found["b"], expected["b"], rtol=1e-12)


def test_numpy_tensors_join_in_every_mode() -> None:
    X, w = in_chunks(ROWS, 20, 4), np.linspace(-1, 1, 4)

    def f(w: Any, X: Any) -> Any:
        return agrad.sum(agrad.sin(X @ w) ** 2)

    leaf = agrad.asarray(w, requires_grad=True)
    f(leaf, X).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), agrad.grad(f)(w, ROWS), rtol=1e-12)
    _, (product,) = agrad.hvp(f, (w, X), (w, X * 0)), agrad.hvp(lambda w: f(w, X), (w,), (w,))
    np.testing.assert_allclose(product, agrad.hvp(lambda w: f(w, ROWS), (w,), (w,))[0], rtol=1e-12)
    _, tangent = agrad.jvp(lambda w: f(w, X), (w,), (w,))
    np.testing.assert_allclose(float(tangent.compute()), agrad.jvp(lambda w: f(w, ROWS), (w,), (w,))[1], rtol=1e-12)
    many = agrad.vmap(lambda w: f(w, X))(np.stack([w, 2 * w]))
    np.testing.assert_allclose(many.compute(), [f(w, ROWS), f(2 * w, ROWS)], rtol=1e-12)


@pytest.mark.needs("torch")
def test_other_mixtures_are_errors() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(MixedBackendsError, match="dask and of torch"):
        agrad.matmul(in_chunks(ROWS, 20, 4), torch.ones(4, dtype=torch.float64))


# ------------------------------------------------------------------ loops, and Dask's own functions


def test_compute_keeps_the_graph_of_a_loop_constant() -> None:
    with agrad.use_backend("dask"):
        agrad.nn.manual_seed(0)
        model = agrad.nn.Linear(4, 1)
        optimizer = agrad.optim.Adam(model.parameters(), lr=0.1)
        x = agrad.asarray(in_chunks(ROWS.astype(np.float32), 20, 4))
        sizes, losses = [], []
        for _ in range(5):
            value = agrad.mean((model(x) - 1) ** 2)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            sizes.append(len(model.weight.data.__dask_graph__()))
            with computations() as seen:
                optimizer.compute(value)
            assert len(seen) == 1
            with computations():
                losses.append(value.item())
        assert max(sizes[1:]) == min(sizes[1:])
        assert len(model.weight.data.__dask_graph__()) == model.weight.data.npartitions
        assert losses[-1] < losses[0]


def test_compute_does_nothing_on_other_backends() -> None:
    w = agrad.nn.Parameter(np.ones(2))
    before = w.data
    agrad.optim.SGD([w]).compute(w)
    assert w.data is before


def test_tensors_in_blocks_of_dask_raise() -> None:
    da = pytest.importorskip("dask.array")
    x = agrad.asarray(in_chunks(ROWS, 20, 4))
    fails(RefusedFunctionError, r"map_blocks .*agrad\.parallel\.chunked", da.map_blocks, np.sin, x)
    fails(RefusedFunctionError, "map_blocks", lambda: agrad.grad(lambda x: agrad.sum(da.map_blocks(np.sin, x)))(x))
    with pytest.raises(RefusedFunctionError, match=r"map_overlap .*x\[1:\] - x\[:-1\]"):
        agrad.grad(lambda x: agrad.sum(da.map_overlap(np.sin, x, depth=1)))(x)
    with pytest.raises(TypeError, match="Tensor"):  # outside of transforms the error is Dask's own
        da.map_overlap(np.sin, x, depth=1)
    assert da.map_blocks(np.sin, x.raw).shape == (60, 4)


def test_a_traced_loop_computes_each_step_once() -> None:
    """The graph of a condition does not contain the steps before it."""
    W = 2 * np.eye(4)[::-1]
    w = in_chunks(W, 2, 2)
    doubled = agrad.jit(lambda x: agrad.while_loop(lambda v: agrad.sum(v) < 1e3, lambda v: agrad.matmul(w, v), x))
    with computations() as seen:
        found = doubled(in_chunks(np.ones(4), 2))
    assert len(seen) > 8
    assert max(seen) == max(seen[:4])
    np.testing.assert_array_equal(found.compute(), np.full(4, 256.0))


def doublings(n: int) -> Callable[[Any], Any]:
    """Return a loop of ``n`` steps, whose products Dask joins with no other operation."""
    w = in_chunks(2 * np.eye(4)[::-1], 2, 2)
    return lambda x: agrad.while_loop(
        lambda v: agrad.max(v) < 2.0**n, lambda v: agrad.matmul(w, agrad.matmul(w, v)) / 2, x
    )


MODES: dict[str, Callable[..., Callable[[Any], Any]]] = {
    "value": lambda f: f,
    "gradient": lambda f: agrad.grad(lambda x: agrad.sum(f(x))),
    "tangent": lambda f: lambda x: agrad.jvp(f, (x,), (x,))[1],
    "second order": lambda f: agrad.hessian(lambda x: agrad.sum(f(x) ** 2)),
    "vmap": lambda f: lambda x: agrad.vmap(f)(agrad.stack([x, x])),
    "Tensors": lambda f: lambda x: f(agrad.asarray(x, requires_grad=True)).raw,
    "jit": agrad.jit,
}


def minimized(n: int) -> Callable[[Any], Any]:
    """Return a function that takes ``n`` steps of L-BFGS."""

    def run(x: Any) -> Any:
        w = agrad.nn.Parameter(x)
        step = {"max_iter": n, "history_size": 2, "tolerance_grad": 0.0, "tolerance_change": 0.0}
        optimizer = agrad.optim.LBFGS([w], line_search_fn="strong_wolfe", **step)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = agrad.sum(agrad.cosh(agrad.matmul(agrad.asarray(in_chunks(ROWS[:4], 4, 4)), w)) - 1)
            loss.backward()
            return loss

        optimizer.step(closure)
        assert optimizer.iterations == n
        return w.data

    return run


@pytest.mark.parametrize(("loop", "mode"), [(minimized, "value"), *[(doublings, mode) for mode in MODES]])
def test_a_loop_computes_each_step_once(loop: Any, mode: str) -> None:
    """A condition reads a value at each step, which must not compute the steps before it again."""
    counts, results = [], []
    with agrad.use_backend("dask"):
        for n in (4, 8, 12):
            with computations() as seen:
                results.append(np.asarray(MODES[mode](loop(n))(in_chunks(np.ones(4), 4)).compute()))
            counts.append(sum(seen))
    first, second = np.diff(counts)
    assert first > 0
    assert second < 1.3 * first
    if loop is doublings and mode == "value":
        np.testing.assert_array_equal(results, [np.full(4, 2.0**n) for n in (4, 8, 12)])


def test_the_names_of_zeros_and_ones_need_no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    pickled, dumps = [], cloudpickle.dumps
    monkeypatch.setattr(cloudpickle, "dumps", lambda *args, **options: pickled.append(args) or dumps(*args, **options))
    x = agrad.asarray(in_chunks(ROWS, 20, 4))
    made = [agrad.zeros_like(x), agrad.ones_like(x), agrad.zeros_like(x, dtype=agrad.int64), agrad.zeros_like(x[:20])]
    assert not [function for function, *_ in pickled if callable(function)]
    assert len({y.raw.name for y in made}) == 4
    assert [y.dtype for y in made] == [x.dtype, x.dtype, np.int64, x.dtype]
    assert [y.numpy().sum() for y in made] == [0, ROWS.size, 0, 0]


def test_views_share_writes_after_a_loop_has_computed_them() -> None:
    with agrad.use_backend("dask"):
        for recorded in (False, True):
            x = agrad.asarray([1.0, 2.0, 3.0], requires_grad=recorded) * 1.0
            kept = x[1:]

            def body(state: Any) -> Any:
                count, x, view = state
                view[0] = view[0] + 1.0
                return count + 1, x, view

            found = agrad.while_loop(lambda state: state[0] < 3.0, body, (agrad.asarray(0.0), x, x[1:]))
            assert [v.tolist() for v in found] == [3.0, [1.0, 5.0, 3.0], [5.0, 3.0]]
            assert x.tolist() == [1.0, 5.0, 3.0]
            assert kept.tolist() == [5.0, 3.0]
            optimizer = agrad.optim.SGD([agrad.nn.Parameter(agrad.zeros(1))])
            optimizer.compute(x)
            kept[1] = 7.0
            assert x.tolist() == [1.0, 5.0, 7.0]
