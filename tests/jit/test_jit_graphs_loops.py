"""Loops of known length in CUDA graphs: written out in the capture of what surrounds them."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import host
from graph_steps import graphs_in, on_gpu, program_of
from jit_help import close, descent, same_calls

import agrad
from agrad import nn, optim
from agrad.jit.lower.cuda import program as lower_cupy
from agrad.transforms.trees import flatten

pytestmark = [pytest.mark.needs("cupy"), pytest.mark.usefixtures("on_cupy")]

Function = Callable[..., Any]


def drawn(k: int, length: int) -> list[Any]:
    """Return a matrix, a first value, and rows."""
    rng = np.random.default_rng(k)
    return on_gpu(rng.normal(size=(4, 4)) * 0.4, rng.normal(size=4), rng.normal(size=(length, 4)))


def recurrent(w: Any, start: Any, rows: Any, **settings: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        after = agrad.tanh(agrad.matmul(w, h) + row)
        return after, (after * h, agrad.sum(after), h)

    return agrad.scan(step, start, rows, **settings)


def total(w: Any, start: Any, rows: Any) -> Any:
    last, (ys, sums, hs) = recurrent(w, start, rows)
    return agrad.sum(last) + agrad.sum(ys * ys) + agrad.sum(sums * hs[:, 0])


def nested(w: Any, start: Any, rows: Any) -> Any:
    def outer(h: Any, row: Any) -> Any:
        return agrad.scan(lambda c, v: (agrad.sin(c + agrad.matmul(w, v) * row), c * v), h, rows)

    return agrad.scan(outer, start, rows)


def counted(w: Any, start: Any, rows: Any) -> Any:
    return agrad.fori_loop(1, 5, lambda i, v: agrad.sin(agrad.matmul(w, v)) + rows[0] * i, start)


def no_new_arrays(w: Any, start: Any, rows: Any) -> Any:
    """The carry becomes a constant, a view of an operand, or stays what it was."""

    def step(carry: Any, row: Any) -> Any:
        a, b, c, d, _ = carry
        return (agrad.ones_like(a), w[0], c, row, row), a + b * c - d

    return agrad.scan(step, (start, start + 1, start, start, start), rows)


FUNCTIONS: dict[str, Function] = {
    "scan": recurrent,
    "scan in reverse": lambda *args: recurrent(*args, reverse=True),
    "gradients of a scan": agrad.grad(total, argnums=(0, 1, 2)),
    "forward over reverse": lambda w, start, rows: agrad.jvp(agrad.grad(total), (w, start, rows), (w, start, rows)),
    "nested scans": nested,
    "gradients of nested scans": agrad.grad(lambda *args: agrad.sum(nested(*args)[0]), argnums=(0, 1, 2)),
    "fori_loop": counted,
    "gradients of fori_loop": agrad.grad(lambda *args: agrad.sum(counted(*args)), argnums=(0, 1, 2)),
    "a map of scans": lambda w, start, rows: agrad.vmap(lambda s: recurrent(w, s, rows))(w),
    "results that are no new arrays": no_new_arrays,
}


def and_more(f: Function) -> Function:
    """Return a function of a loop and of operations that a graph holds."""
    return lambda *args: (f(*args), agrad.sin(agrad.sort(args[1])) + agrad.cumulative_sum(args[1]))


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_in_one_graph(name: str, length: int) -> None:
    lots = and_more(FUNCTIONS[name])  # enough that it is a graph at any length
    fast, held = agrad.jit(lots), []
    for k in range(6):
        given = drawn(k, length)
        held.append((fast(*given), given))
    assert [s.captured for s in program_of(fast).segments] == [True], program_of(fast).text
    for got, given in held:  # earlier results are as they were, and on other data they are others
        close(got, lots(*given), rtol=1e-10, atol=1e-12)


def test_a_loop_without_steps() -> None:
    fast = agrad.jit(and_more(recurrent))
    for k in range(4):
        given = drawn(k, 0)
        (last, ys), _ = fast(*given)
        np.testing.assert_allclose(host(last), host(given[1]))
        assert [y.shape for y in ys] == [(0, 4), (0,), (0, 4)]


def test_results_may_be_written_into() -> None:
    fast = agrad.jit(no_new_arrays)
    for k in range(5):
        given = drawn(k, 3)
        expected, kept = [host(x) for x in flatten(no_new_arrays(*given))[0]], [host(x) for x in given]
        found = flatten(fast(*given))[0]
        close(found, expected, rtol=1e-7)
        for part in found:
            part[...] = -7.0
        close(given, kept, rtol=0)


def trained(jit: bool, length: int = 5) -> tuple[list[float], list[Any], Any]:
    rng = np.random.default_rng(0)
    model = nn.LSTM(3, 4, batch_first=True)
    model.load_state_dict({k: rng.normal(size=v.shape).astype("float32") for k, v in model.state_dict().items()})
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = descent(optimizer, lambda x: agrad.sum(model(x)[0][:, -1, :] ** 2))
    fast = agrad.jit(step) if jit else step
    losses = [fast(*on_gpu(rng.normal(size=(2, length, 3)).astype("float32"))).item() for _ in range(6)]
    return losses, [host(p) for p in model.parameters()], fast


def test_a_step_of_training_is_one_graph() -> None:
    *found, fast = trained(True)
    close(found, trained(False)[:2], rtol=1e-5, atol=1e-6)
    assert [s.captured for s in program_of(fast).segments] == [True]


def test_a_replay_launches_no_kernel_a_step(cuda_on_cpu: Any) -> None:
    asked = []
    for length in (3, 9):
        _, _, fast = trained(True, length=length)
        first, x = on_gpu(*[np.ones((2, length, 3), "float32")] * 2)
        fast(first), fast(x)  # from now on inputs are copied
        before = cuda_on_cpu.counts()
        fast(x)
        after = cuda_on_cpu.counts()
        assert after.graphs - before.graphs == 1
        asked.append((after.launches - before.launches, after.d2d - before.d2d, after.memsets - before.memsets))
    assert asked[0] == asked[1]
    assert asked[0][0] <= 2


def test_kernels_write_rows_where_they_belong(cuda_on_cpu: Any) -> None:
    def f(start: Any, rows: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            after = agrad.sin(h) * row + 1.0
            return after, (after, agrad.cos(after) * h)

        return agrad.scan(step, start, rows, reverse=True)

    fast = agrad.jit(f)
    for k in range(5):
        _, start, rows = drawn(k, 6)
        lines = cuda_on_cpu.trace(lambda start=start, rows=rows: fast(start, rows))
        last, ys = fast(start, rows)
        last[...] = 0.0  # it shares no memory with the rows
        for a, b in zip(ys, f(start, rows)[1], strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-12)
    (graph,) = [line for line in lines if line.startswith("graphLaunch")]
    assert graph.count("group_") == 6
    assert graph.count("memcpy") + graph.count("copy_") <= 1  # the last carry


def test_a_carry_that_is_donated() -> None:
    f = and_more(lambda *args: recurrent(*args)[0])
    fast = agrad.jit(f, donate_argnums=(1,))
    w, start, rows = drawn(0, 5)
    right = start.copy()
    for _ in range(6):
        start, _ = fast(w, start, rows)
        right, _ = f(w, right, rows)
        close(start, right, rtol=1e-10)


def test_long_loops_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_cupy, "NODES", 40)
    for length, inside in ((2, True), (9, False)):
        fast = same_calls(and_more(recurrent), *[drawn(k, length) for k in range(5)], rtol=1e-10)
        assert ("scan" in graphs_in(fast)[0]) == inside


def test_a_body_that_cupy_refuses_runs_between_graphs_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal is found by trying, and the loop has graphs of its own steps then."""
    monkeypatch.setattr(lower_cupy, "is_any_product", lambda instruction: False)  # its products are CuPy's
    fast = same_calls(and_more(recurrent), *[drawn(k, 4) for k in range(6)], rtol=1e-10)
    assert "scan" in graphs_in(fast)[1]
    assert [i.name for i in program_of(fast).reasons] == ["scan"]


def test_memory_of_arrays_without_a_later_use_is_used_again_in_a_graph(cupy: Any) -> None:
    def used(count: int) -> int:
        x = cupy.arange(1 << 12, dtype=float)

        def f(x: Any) -> Any:
            for _ in range(count):
                x = agrad.cumulative_sum(agrad.sort(x)) / 2.0
            return x

        fast, expected = agrad.jit(f), host(f(x))
        for _ in range(4):
            np.testing.assert_allclose(host(fast(x)), expected)
        assert graphs_in(fast)[1] == []
        return int(program_of(fast)._streams.pool.total_bytes())

    assert used(12) <= used(3)


def test_memory_of_temporaries_does_not_grow_with_the_steps(cupy: Any) -> None:
    def used(length: int) -> int:
        x, rows = cupy.ones((1 << 12,)), cupy.ones((length,))

        def step(c: Any, r: Any) -> Any:
            return agrad.cumulative_sum(agrad.sort(c) * r) / (1.0 + agrad.sort(c)), r

        fast = agrad.jit(lambda x, rows: agrad.scan(step, x, rows))
        for _ in range(4):
            fast(x, rows)
        assert graphs_in(fast)[0] == ["scan"]
        return int(program_of(fast)._streams.pool.total_bytes())

    few, many = used(4), used(40)
    gc.collect()
    assert many < few * 1.1
