"""How long what jitted functions make is kept, what a trace keeps, and what a fork does while one is traced."""

import gc
import linecache
import os
import queue
import re
import signal
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from jit_help import descent, memory_of
from refusals import fails

import agrad
from agrad import nn, optim
from agrad.engine.operation import Operation
from agrad.jit.trace import LARGE

X = np.ones((3, 4))


def forking(test: Any) -> Any:
    """A test that forks, whatever a test before it has imported: JAX warns of every fork."""
    test = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")(test)
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")(test)


def train() -> Any:
    model = nn.Linear(4, 2, dtype=agrad.float64)
    return descent(optim.SGD(model.parameters(), lr=1e-6, momentum=0.9), lambda x: agrad.sum(model(x) ** 2))


def recorded() -> Any:
    w = agrad.asarray(np.ones(4), requires_grad=True)
    return lambda x: agrad.sum(agrad.exp(x * w))


MADE: dict[str, Callable[[], Any]] = {
    "of arrays": lambda: lambda x: agrad.softmax(x * 2.0, axis=-1),
    "a gradient": lambda: agrad.value_and_grad(lambda x: agrad.sum(agrad.sin(x) ** 2)),
    "a training step": train,
    "recorded": recorded,
    "a loop": lambda: lambda x: agrad.scan(lambda carry, row: (carry + row, row * 2), x[0], x),
}


def programs_in_linecache() -> set[str]:
    return {name for name in linecache.cache if name.startswith("<agrad program")}


@pytest.mark.parametrize("name", MADE)
def test_a_function_that_is_dropped_leaves_nothing_to_the_collector(name: str) -> None:
    """Neither it, nor its programs, nor their text are in a cycle, before a replay and after it."""

    def use(calls: int) -> None:
        before = programs_in_linecache()
        jitted = agrad.jit(MADE[name]())
        for _ in range(calls):
            out = jitted(X)
        if name == "recorded":
            out.backward()
        if name == "of arrays":
            agrad.grad(lambda x, f=jitted: agrad.sum(f(x)))(X)
        entries = [entry for found in jitted._entries.values() for entry in found]
        assert "def program" in linecache.getline(entries[0].run.__code__.co_filename, 1)
        alive = [weakref.ref(value) for entry in entries for value in (entry.run, entry.gather, entry.write)]
        alive.append(weakref.ref(jitted))
        del jitted, entries, out
        assert [reference() for reference in alive] == [None] * len(alive)
        assert programs_in_linecache() == before

    use(2)  # what is made once in a process
    gc.collect()
    gc.freeze()  # what others made is not looked at
    gc.disable()
    try:
        use(1)
        use(2)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_programs_that_give_way_to_others_are_let_go() -> None:
    """Of many shapes a few are kept: text, objects and programs are as many at the end as at the beginning."""
    jitted = agrad.jit(MADE["a gradient"](), cache_size=2)
    gc.collect()
    gc.freeze()
    counts = []
    for n in range(1, 25):
        jitted(np.ones((n, 4)))
        if n % 8 == 0:
            gc.collect()
            counts.append((len(programs_in_linecache()), len(gc.get_objects())))
    assert jitted.cache_info().currsize == 2
    (lines, _), (_, objects), last = counts
    assert last[0] == lines
    assert abs(last[1] - objects) < 100


# ------------------------------------------------------------------ forks


def in_a_child(work: Callable[[], bool]) -> int:
    """The exit status of a fork that does ``work``: 0 where that is true. It is killed after 20 seconds."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forking
def test_a_fork_while_another_thread_traces() -> None:
    """The child has state as it was before the trace, and may trace itself; the parent's trace goes on."""
    w = agrad.asarray(np.asarray([1.0, 2.0]), requires_grad=True)
    other = agrad.jit(lambda x: agrad.sum(x * w))
    tracing, forked = threading.Event(), threading.Event()
    results: list[Any] = []

    @agrad.jit
    def slow(x: Any) -> Any:
        loss = agrad.sum(x * w)
        tracing.set()
        assert forked.wait(60)
        return loss

    thread = threading.Thread(target=lambda: results.append(slow(np.ones(2))))
    thread.start()
    assert tracing.wait(60)

    def work() -> bool:
        forked.set()
        eager = agrad.sum(np.ones(2) * w).item() if type(w.data) is np.ndarray else None
        return eager == 3.0 and other(np.ones(2)).item() == 3.0 and slow(np.ones(2)).item() == 3.0

    status = in_a_child(work)
    forked.set()
    thread.join()
    assert status == 0
    assert results[0].item() == 3.0 and slow(np.ones(2)).item() == 3.0


@forking
def test_a_fork_inside_a_function_that_is_traced() -> None:
    """The child goes on with the trace that it is in."""
    parent, pids = os.getpid(), queue.SimpleQueue[int]()

    @agrad.jit
    def f(x: Any) -> Any:
        y = x * 2.0
        pids.put(os.fork())
        return y + 1.0

    good = False
    try:
        good = np.array_equal(f(X), X * 2.0 + 1.0) and np.array_equal(f(X), X * 2.0 + 1.0)
    finally:
        if os.getpid() != parent:
            os._exit(0 if good else 1)
    assert good
    assert os.waitstatus_to_exitcode(os.waitpid(pids.get(), 0)[1]) == 0


def chain(x: Any) -> Any:
    for _ in range(20):
        x = agrad.sin(x) * 1.01
    return agrad.sum(x)


@pytest.mark.parametrize("f", [chain, agrad.grad(chain)], ids=["function", "gradient"])
def test_a_first_call_needs_no_more_memory_than_later_ones(f: Any) -> None:
    """A trace computes the shapes of large arrays, not their values."""
    jitted, x = agrad.jit(f), np.linspace(0.0, 1.0, 2 * LARGE)
    held, first = memory_of(jitted, x)
    assert first < 1.3 * (held + memory_of(jitted, x)[1])
    assert_close(jitted(x), f(x), "result", 1e-12)


def test_a_first_call_multiplies_no_large_matrices(monkeypatch: Any) -> None:
    """The trace multiplies one element of each, in any layout. The program is right."""
    gradient = agrad.grad(lambda x, w: agrad.sum(nn.functional.linear(agrad.matmul(x, w).T, w, w[0]) ** 2))
    x, w = np.linspace(0.0, 1.0, 400 * 400).reshape(400, 400).T, np.linspace(-1.0, 1.0, 400 * 400).reshape(400, 400)
    found: set[int] = set()
    sketch = Operation.sketch

    def noting(operation: Any, args: Any, settings: Any) -> Any:
        if operation.kind == "product":
            found.add(max(map(np.size, args)))
        return sketch(operation, args, settings)

    monkeypatch.setattr(Operation, "sketch", noting)
    agrad.jit(gradient).lower(x, w)
    assert found == {1}
    monkeypatch.undo()
    assert_close(agrad.jit(gradient)(x, w), gradient(x, w), "gradient", 1e-9)


@pytest.mark.parametrize("f", [agrad.matmul, agrad.add, lambda a, b: agrad.nn.functional.linear(a, a.T, b[0])])
def test_shapes_that_do_not_fit_raise_the_errors_of_the_operations(f: Any) -> None:
    """Of large arrays too, whose results are not computed."""
    a, b = np.ones((400, 400)), np.ones((401, 402))
    with pytest.raises(Exception) as eager:
        f(a, b)
    fails(type(eager.value), re.escape(str(eager.value)), lambda: agrad.jit(f)(a, b))


def test_operations_that_refuse_large_arrays_without_values() -> None:
    """The trace begins again with values; an operation that refuses these too raises its own error; no warnings."""

    @agrad.primitive(name="lifetime.above_two", constant="x")
    def above_two(xp: Any, x: Any, /) -> Any:
        if not np.all(x > 2):
            raise ValueError("not above 2")
        return x * 1

    f = agrad.jit(lambda x: agrad.sum(above_two(agrad.log(x * 1) / (x - 1))))
    x = np.full(LARGE, 1.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fails(ValueError, "not above 2", f, x)
        ready = agrad.jit(lambda x: agrad.sum(above_two(agrad.log(x * 1) + x)))
        assert_close(ready(x + 2), x.size * (np.log(3.2) + 3.2), "value", 1e-12)
