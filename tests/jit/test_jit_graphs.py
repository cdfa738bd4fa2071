"""Programs in CUDA graphs, on CuPy: what graphs hold, what runs between them, and that nothing is left over.

Where there is no GPU, CuPy runs on a CUDA of the tests' own, which keeps to the letter of a capture.
"""

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import cotangents, host, outputs, random_like, raw
from crossing import each
from graph_steps import batch, draw, graphs_in, mlp, on_gpu, program_of
from jit_help import close, same_calls
from table import Case
from test_jit import DIFFERENTIABLE

import agrad
from agrad.jit.lower.cuda import graphs
from agrad.jit.lower.cuda import program as lower_cupy
from agrad.jit.lower.cuda.graphs import CAPTURES
from agrad.jit.lower.cuda.segments import segments
from agrad.jit.program import HostCall, Program

pytestmark = [pytest.mark.needs("cupy"), pytest.mark.usefixtures("small_graphs", "on_cupy")]


# ------------------------------------------------------------------ training


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("scheduled", [False, True])
def test_training_in_graphs(optimizer: str, scheduled: bool) -> None:
    def run(jit: bool) -> tuple[Any, Any]:
        step, model = mlp(optimizer)
        fast, losses = agrad.jit(step) if jit else step, []
        for k in range(7):
            if scheduled:
                step.optimizer.lr = 0.1 / (k + 1)  # type: ignore[attr-defined]
            losses.append(fast(*batch(k)))
        return [losses, list(model.parameters())], fast

    found, fast = run(True)
    close(found, run(False)[0], rtol=1e-5, atol=1e-6)
    program = program_of(fast)
    assert [s.captured for s in program.segments] == [True]
    assert not program.reasons
    assert program._captures <= 2
    if optimizer == "adam":  # numbers of all four parameters, which took the same steps, are computed on the host
        (update,) = [i for i in program.program.instructions if i.operation.flags]
        assert len(update.operation.groups) == 4 and len(program.pairs) == 3


def test_state_is_updated_in_place_and_no_array_of_the_caller_is_kept() -> None:
    step, model = mlp()
    fast = agrad.jit(step)
    addresses = []
    for _ in range(5):
        fast(*batch())
        addresses.append([p.data.data.ptr for p in model.parameters()])
    assert addresses[0] == addresses[-1]
    captures = program_of(fast)._captures
    held = [weakref.ref(p.data) for p in model.parameters()]
    for p in model.parameters():
        p.data = p.data + 1
    gc.collect()
    assert [array() for array in held] == [None] * 4
    before = [host(p) for p in model.parameters()]
    fast(*batch())  # the old addresses are nobody's now
    assert program_of(fast)._captures == captures + 1
    for p, old in zip(model.parameters(), before, strict=True):
        assert 0 < np.abs(host(p) - old).max() < 10


# ------------------------------------------------------------------ what graphs hold


def integers(x: Any, n: Any) -> Any:
    hit = agrad.argmax(x, axis=1) == n
    right = agrad.sum(agrad.astype(hit, agrad.int32))
    low = agrad.argmin(x, axis=0) + n[:1] * 2
    odd = agrad.bitwise_and(n, 1) > 0
    return (
        right, low, agrad.all(hit), agrad.any(odd, axis=0), agrad.prod(x, axis=1), agrad.maximum(n, 2) // 3, x[:, n],
    )  # fmt: skip


def refused(x: Any) -> Any:
    y = agrad.sin(x) * 2.0
    z = agrad.linalg.inv(y @ agrad.matrix_transpose(y))  # cuSOLVER
    return agrad.sum(agrad.concat([agrad.exp(-(z * z)), x], axis=2) * 3.0, axis=0), agrad.argmax(z, axis=1)


def transformed(x: Any, w: Any) -> Any:
    y = agrad.fft.fft(x)
    return y, agrad.exp(agrad.sin(x) * w) / 3.0


def of_integers(x: Any) -> Any:
    """A product of cuBLASLt's has no integers. Where a graph had its memory is free when it is computed."""
    y = agrad.cumulative_sum(agrad.sort(x * 3 + 1, axis=0), axis=0)
    return agrad.matmul(y, y)


def branching(w: Any, start: Any, rows: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = agrad.cond(agrad.sum(row) > 0, lambda v: agrad.matmul(w, v) + row, lambda v: v - row, h)
        return h, agrad.sin(h)

    return agrad.scan(step, start, rows), agrad.sin(agrad.sort(start))


def counting(w: Any, start: Any, rows: Any) -> Any:
    counts, first = agrad.astype(w * 3, agrad.int64), agrad.astype(start, agrad.int64)
    return agrad.scan(lambda n, row: (agrad.matmul(counts, n) + 1, n * row), first, rows), agrad.sin(agrad.sort(start))


def loop_arguments(k: int) -> list[Any]:
    rng = np.random.default_rng(k)
    return on_gpu(rng.normal(size=(4, 4)) * 0.4, rng.normal(size=4), rng.normal(size=(4, 4)))


HELD: dict[str, tuple[Any, Callable[[int], Any], str, str, list[str]]] = {
    "searching, counting and integers": (
        integers, lambda k: (draw("float64", 4, 3) * (1 - 2 * (k % 2)), *on_gpu((np.arange(4) + k) % 3)),
        "any all argmax argmin prod equal floor_divide getitem", "", [],
    ),
    "a library that refuses a capture": (
        refused, lambda k: (draw("float64", 2, 3, 3) * (k + 1),),
        "matmul argmax fused sum", "linalg.inv", ["linalg.inv"],
    ),
    "nothing but that library": (agrad.linalg.inv, lambda k: (draw("float64", 3, 3),), "", "linalg.inv", []),
    "results of what is not captured": (
        transformed, lambda k: (draw("complex128", 6) + k, draw("complex128", 6)), "sin exp", "fft.fft", [],
    ),
    "products of integers": (
        of_integers, lambda k: on_gpu(np.arange(9).reshape(3, 3) * 7 % 5 + k), "sort cumulative_sum", "matmul", [],
    ),
    "a loop with a branch": (branching, loop_arguments, "sort", "scan", []),
    "a loop of integers": (counting, loop_arguments, "sort", "scan", []),
}  # fmt: skip
"""Functions and arguments of calls; what is in graphs and between them, and what a capture found out."""


@pytest.mark.parametrize("name", HELD)
def test_what_graphs_hold(name: str, cupy: Any) -> None:
    """All results are compared at the end: they are arrays of their own."""
    f, make, inside, between, found_out = HELD[name]
    fast, calls = agrad.jit(f), [make(k) for k in range(6)]
    results = [fast(*args) for args in calls]
    for got, args in zip(results, calls, strict=True):
        close(got, f(*args), rtol=1e-9, atol=1e-12)
    code = fast.lower(*calls[0]).code
    if not inside:
        assert "without graphs: nothing in it can be captured" in code
        return
    for found, expected in zip(graphs_in(fast), (inside, between), strict=True):
        assert all(part in " ".join(found) for part in expected.split())
        assert bool(found) is bool(expected)
    program = program_of(fast)
    assert [i.name for i in program.reasons] == found_out
    assert code.count("could not be captured: ") == len(found_out)
    assert program._captures == 1
    # a capture that was refused leaves nothing behind: this copies from the host, and calls a library
    stream = cupy.cuda.get_current_stream()
    assert not stream.is_capturing() and not program._streams.stream.is_capturing()
    y = cupy.asarray(np.arange(6.0))
    assert stream.ptr == 0 and float((y.reshape(2, 3) @ y[:3]).sum()) == 19.0


def test_a_users_operation_is_called_each_time() -> None:
    calls = itertools.count()

    @agrad.primitive(constant="x")
    def seen(xp: Any, x: Any, /) -> Any:
        next(calls)
        return x + 1

    fast = agrad.jit(lambda x: agrad.sin(seen(agrad.cos(x) * 2.0)))
    for k in range(5):
        x = draw("float64", 3) + k
        np.testing.assert_allclose(host(fast(x)), np.sin(np.cos(host(x)) * 2 + 1), rtol=1e-12)
    assert next(calls) == 6  # and once while it was traced


def test_segments_of_a_step() -> None:
    step, _ = mlp()
    program = agrad.jit(step).lower(*batch()).stages[-1][1]
    device = [i for i in program.instructions if not isinstance(i.operation, HostCall)]

    def can(instruction: Any) -> bool:
        return instruction.name != "linear" and lower_cupy.can_capture(instruction)

    found = segments(Program(program.inputs, {}, device, []).instructions, can, set())
    flags = [s.captured for s in found]
    assert all(a != b for a, b in itertools.pairwise(flags))
    assert [i for s in found for i in s.instructions] == device


# ------------------------------------------------------------------ addresses


def test_views_of_parameters_between_graphs_follow_them() -> None:
    def f(x: Any, w: Any) -> Any:
        return agrad.sum(agrad.linalg.solve(agrad.matrix_transpose(w), x) * 1.5)

    x, w = draw("float64", 3, 2), draw("float64", 3, 3)
    fast = agrad.jit(f)
    for k in range(5):
        w += k
        expected = np.sum(np.linalg.solve(host(w).T, host(x) + k) * 1.5)
        np.testing.assert_allclose(host(fast(x + k, w)), expected, rtol=1e-9)


def test_arrays_that_move_are_copied_and_captures_are_limited() -> None:
    fast = agrad.jit(lambda x, y: agrad.sin(x) * y + 1.0)
    x, others = draw("float64", 5), [draw("float64", 5) + k for k in range(40)]
    for k in range(40):  # the second stays for three calls, then moves: found out once
        y = others[k // 3]
        np.testing.assert_allclose(host(fast(x, y)), np.sin(host(x)) * host(y) + 1, rtol=1e-13)
    program = program_of(fast)
    assert program._captures == 2 < CAPTURES
    assert not program.given_up


def test_parameters_that_are_replaced_now_and_then_do_not_end_the_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WORTH", 3)
    step, model = mlp()
    fast = agrad.jit(step)
    for _ in range(CAPTURES + 2):
        for p in model.parameters():
            p.data = p.data + 0
        for _ in range(graphs.WORTH + 2):
            fast(*batch())
    assert not program_of(fast).given_up
    for k in range(CAPTURES + 2):
        assert not program_of(fast).given_up or k > 3
        for p in model.parameters():
            p.data = p.data + 0
        fast(*batch())
    assert "its arrays lay elsewhere" in program_of(fast).given_up


# ------------------------------------------------------------------ rows

ROWS = [case for case in DIFFERENTIABLE if not case.slow and "mask" not in case.name and "random" not in case.name]
"""Of which a few are taken, as each compiles kernels of its own: how much a mask picks depends on values."""


@each(ROWS[::151])
@pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning")
def test_rows_in_graphs(case: Case, cupy: Any) -> None:
    """Each row forward and backward, captured and replayed, on arrays that lie elsewhere each time."""
    f, xs = case.problem(cupy.asarray)

    def chain(*xs: Any) -> Any:
        out = outputs(f(*[x * 0.5 + x * 0.5 if x.shape else x for x in xs]))
        return tuple([y * 2 + agrad.abs(y) if y.shape else y * 2 for y in out])

    def pulled(xs: Any, gs: Any) -> Any:
        y, pull = agrad.vjp(chain, *xs)
        return y, pull(cotangents(y, gs))

    def on_device(values: Any) -> Any:
        return tuple([cupy.array(raw(x)) for x in values])

    gs = on_device(random_like(outputs(chain(*xs)), case.rng()))
    same_calls(pulled, *[(on_device(xs), on_device(gs)) for _ in range(4)], rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ few launches


def test_few_launches_and_large_results_are_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    def few(x: Any) -> Any:
        return agrad.sin(x) * 2.0

    def several(x: Any) -> Any:
        return agrad.cumulative_sum(agrad.cumulative_prod(agrad.sin(agrad.sort(x))), axis=0) * 2.0

    def large(x: Any) -> Any:
        y = several(x)
        return agrad.expand_dims(y, axis=1) * y

    for f, size, graphs_of in ((few, 8, 0), (several, 8, 1), (large, 8, 1), (large, 1 << 10, 0)):
        fast = agrad.jit(f)
        x = draw("float64", size)
        for _ in range(4):
            np.testing.assert_allclose(host(fast(x)), host(f(x)), rtol=1e-12)
        assert sum(s.captured for s in program_of(fast).segments) == graphs_of, (f, size)


BATCHES = {(2, 3, 4): (4, 5), (3, 2, 4): (3, 4, 5), (3, 1, 2, 4): (2, 4, 5), (2, 4): (3, 4, 5), (2, 0, 4): (2, 4, 5)}


@pytest.mark.parametrize(("left", "right"), BATCHES.items())
def test_products_of_batches_are_in_graphs(left: tuple[int, ...], right: tuple[int, ...], cupy: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        return (
            x @ w,
            agrad.matrix_transpose(agrad.matrix_transpose(w) @ agrad.matrix_transpose(x)),
            agrad.permute_dims(x, (*range(x.ndim - 2), x.ndim - 2, x.ndim - 1)) @ (w * 2.0),
        )

    for order in ("C", "F"):
        given = tuple([cupy.asarray(draw("float64", *shape), order=order) for shape in (left, right)])
        fast = same_calls(f, *[given] * 4)
        if 0 not in left:
            inside, between = graphs_in(fast)
            assert inside.count("matmul") == 3
            assert not between


def test_a_branch_that_returned_its_operand_in_the_capture_may_be_left(cupy: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        y = agrad.cond(agrad.sum(x) > 0, lambda: w, lambda: w * 2.0)
        return x, y, agrad.exp(agrad.sin(y) * x)

    fast, w = agrad.jit(f), draw("float64", 3)
    for k in (1.0, 2.0, 3.0, -1.0, 4.0, -2.0):
        x = draw("float64", 3) ** 2 * k
        found = fast(x, w)
        close(found, f(x, w))
        assert not any(cupy.shares_memory(a, b) for a in found for b in (x, w))
