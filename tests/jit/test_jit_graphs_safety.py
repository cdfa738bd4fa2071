"""Programs in CUDA graphs among streams, threads, errors and too little memory, and what a step launches."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from checker import host
from graph_steps import batch, draw, mlp, program_of
from jit_help import in_threads
from refusals import fails

import agrad
from agrad import backends
from agrad.jit.lower.cuda import graphs

pytestmark = [pytest.mark.needs("cupy"), pytest.mark.usefixtures("small_graphs", "on_cupy")]


# ------------------------------------------------------------------ streams, threads, memory, errors


def test_a_program_captured_on_one_stream_runs_on_another(cupy: Any) -> None:
    step, _ = mlp()
    expected = [step(*batch(k)).item() for k in range(6)]
    step, _ = mlp()
    fast, losses = agrad.jit(step), []
    streams = [cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null, cupy.cuda.Stream()]
    for k in range(6):
        with streams[k // 2]:
            losses.append(fast(*batch(k)))
            cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_allclose([loss.item() for loss in losses], expected, rtol=1e-5)
    assert program_of(fast)._captures <= 2


def test_inside_a_capture_of_the_users_a_program_runs_plainly(cupy: Any) -> None:
    fast = agrad.jit(lambda x, rate: agrad.sin(x) * rate)
    x = draw("float64", 5)
    for _ in range(3):
        fast(x, 2.0)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        y = fast(x, 3.0)
        graph = stream.end_capture()
    # nothing was done then, so that the number is not in the program's own graph yet
    np.testing.assert_allclose(host(fast(x, 3.0)), np.sin(host(x)) * 3, rtol=1e-13)
    with stream:
        graph.launch(stream)
        stream.synchronize()
    np.testing.assert_allclose(host(y), np.sin(host(x)) * 3, rtol=1e-13)


def test_threads_may_share_a_program(cupy: Any) -> None:
    fast = agrad.jit(lambda x: agrad.sum(agrad.sin(x) * 2.0, axis=0))

    def work(k: int) -> None:
        with agrad.use_backend("cupy"), cupy.cuda.Stream(non_blocking=True) as stream:
            for i in range(20):
                x = draw("float64", 5, 3) + k + i
                got = fast(x)
                stream.synchronize()
                np.testing.assert_allclose(host(got), np.sum(np.sin(host(x)) * 2, axis=0), rtol=1e-12)

    in_threads(work, 3)
    assert not program_of(fast).given_up


def test_an_error_in_between_does_not_spoil_the_next_call() -> None:
    raising = [False]

    @agrad.primitive(constant="x")
    def unlucky(xp: Any, x: Any, /) -> Any:
        if raising[0]:
            raise ValueError("not now")
        return x + 1

    fast = agrad.jit(lambda x, rate: agrad.sin(unlucky(agrad.cos(x) * rate)) * rate)
    x = draw("float64", 3)
    for k in range(8):
        raising[0] = k in (1, 4)  # the build, and a replay
        rate = 1.0 + k // 3
        if raising[0]:
            fails(ValueError, "not now", fast, x, rate)
        else:
            np.testing.assert_allclose(
                host(fast(x, rate)), np.sin(np.cos(host(x)) * rate + 1) * rate, rtol=1e-12, err_msg=str(k)
            )
    assert not program_of(fast).given_up


Spoil = Callable[[Callable[[], None], int], tuple[Any, Any]]


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Spoil:
    """A function that lets a thread work in some captures of a program; it returns jitted function and input."""

    def make(work: Callable[[], None], times: int) -> tuple[Any, Any]:
        fast = agrad.jit(lambda x: agrad.floor_divide(agrad.sin(x) * 2.0, 0.5) + agrad.sort(x, axis=0))
        x = draw("float64", 7)
        fast(x)
        program, left = program_of(fast), [times]
        (divide,) = [i for i in program.functions if i.name == "floor_divide"]
        own = program.functions[divide]

        def beside(*args: Any, **settings: Any) -> Any:
            import cupy

            if left[0] and cupy.cuda.get_current_stream().is_capturing():
                left[0] -= 1
                work()
            return own(*args, **settings)

        program.functions[divide] = beside
        return fast, x

    return make


def check_sums(fast: Any, x: Any) -> None:
    right = np.floor_divide(np.sin(host(x)) * 2, 0.5) + np.sort(host(x))
    np.testing.assert_allclose(host(fast(x)), right, rtol=1e-13)


def in_thread(work: Callable[[], Any]) -> list[str]:
    """Do some work in a thread; return the error."""
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(work).exception()
    return [] if error is None else [str(error)]


@pytest.mark.parametrize("times", [1, 3, 100])
def test_a_thread_that_waits_for_the_device_keeps_nothing_out_of_graphs(spoilt: Spoil, times: int, cupy: Any) -> None:
    errors: list[str] = []
    fast, x = spoilt(lambda: errors.extend(in_thread(cupy.cuda.Device().synchronize)), times)
    for _ in range(3):
        check_sums(fast, x)
    assert errors
    program = program_of(fast)
    blamed = [i.name for i in program.reasons]
    assert not program.given_up
    if times < 100:
        assert not blamed
        assert "between" not in program.text
    else:  # in all captures at this very instruction
        assert blamed == ["floor_divide"]


def test_captures_that_are_spoilt_here_and_there_leave_one_call_without_graphs(
    spoilt: Spoil, monkeypatch: pytest.MonkeyPatch, cupy: Any
) -> None:
    monkeypatch.setattr(graphs, "SPOILT", 100)
    fast, x = spoilt(lambda: in_thread(cupy.cuda.Device().synchronize) and None, graphs.TRIES)
    check_sums(fast, x)
    program = program_of(fast)
    assert program._streams.recording is None
    for _ in range(2):
        check_sums(fast, x)
    assert program._streams.recording is not None
    assert not program.reasons
    assert not program.given_up


def test_agrads_own_wait_for_the_device_waits_for_a_capture_of_another_thread(spoilt: Spoil) -> None:
    threads: list[threading.Thread] = []
    errors: list[str] = []

    def begin() -> None:
        threads.append(threading.Thread(target=lambda: errors.extend(in_thread(backends.load("cupy").synchronize))))
        threads[0].start()
        threads[0].join(0.05)
        assert threads[0].is_alive()

    fast, x = spoilt(begin, 1)
    for _ in range(3):
        check_sums(fast, x)
    threads[0].join()
    assert not errors
    assert len(threads) == 1
    assert not program_of(fast).reasons


def test_an_interrupt_in_a_capture_ends_it(spoilt: Spoil) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    fast, x = spoilt(interrupt, 1)
    with pytest.raises(KeyboardInterrupt):
        fast(x)
    for _ in range(3):
        check_sums(fast, x)
    assert not program_of(fast).reasons
    assert not program_of(fast).given_up


@pytest.fixture
def scarce() -> Iterator[Callable[[int], None]]:
    """Leave so many bytes beside what is in use; 0 leaves all."""
    import cupy

    # a pool of its own: free parts of blocks that other tests hold would count as nothing
    pool = cupy.cuda.MemoryPool()

    def leave(count: int) -> None:
        gc.collect()
        pool.free_all_blocks()
        pool.set_limit(count and pool.total_bytes() + count)

    with cupy.cuda.using_allocator(pool.malloc):
        yield leave


@pytest.mark.parametrize("more", range(4))
def test_without_memory_for_graphs_a_program_runs_without(scarce: Callable[[int], None], more: int) -> None:
    @agrad.primitive(constant="x")
    def apart(xp: Any, x: Any, /) -> Any:
        return x + 1

    def f(x: Any) -> Any:
        x = agrad.sin(x) * 2.0  # a graph, the operation in between, and another graph
        y = apart(agrad.floor_divide(x, 0.5))
        return agrad.sum(agrad.floor_divide(agrad.exp(-y), 0.1), axis=0), y[0, :]

    row = 64 << 10
    x = draw("float64", 2, row // 8)
    least = row
    while True:  # what an ordinary run wants
        scarce(least)
        try:
            f(x)
            break
        except MemoryError:
            least += row
    scarce(0)
    fast, right = agrad.jit(f), f(x)
    fast(x)
    scarce(least + (2 + more) * row)
    for _ in range(3):
        for a, b in zip(fast(x), right, strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-12)
    assert program_of(fast).given_up.startswith("OutOfMemoryError: ") or more > 0


def test_memory_does_not_grow_and_is_given_back(cupy: Any) -> None:
    pool = cupy.get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    start = pool.used_bytes()
    step, model = mlp("adam")
    fast = agrad.jit(step)
    used = []
    for k in range(60):
        fast(*batch(k))
        if k % 20 == 19:
            used.append(pool.used_bytes())
    assert len(set(used)) == 1
    gc.collect()
    gc.disable()
    try:
        program = weakref.ref(program_of(fast))
        fast.cache_clear()
        assert program() is None  # in no cycle
    finally:
        gc.enable()
    del fast, step, model
    gc.collect()
    assert pool.used_bytes() == start


def test_programs_that_are_dropped_leave_no_memory_behind(cupy: Any) -> None:
    def run() -> int:
        fast = agrad.jit(lambda x: agrad.sum(agrad.floor_divide(agrad.sin(x) * 2.0, 0.3), axis=0))
        for _ in range(3):
            fast(draw("float64", 100, 100))
        assert "graph:" in fast.lower(draw("float64", 100, 100)).code
        del fast
        gc.collect()
        return int(cupy.get_default_memory_pool().total_bytes())

    run()
    assert len({run() for _ in range(4)}) == 1
