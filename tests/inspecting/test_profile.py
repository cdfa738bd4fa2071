"""``agrad.profile``: every operation once, forward and backward, with what it gave."""

import asyncio
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.engine.observing import OBSERVED
from agrad.errors import ConfigurationError

X = np.ones((3, 4))


def counted(p: agrad.profile) -> Counter[tuple[str, str]]:
    return Counter({(row.operation, row.direction): row.calls for row in p.rows()})


def test_calls_forward_and_backward(place: Any) -> None:
    x = agrad.asarray(place(X), requires_grad=True)
    with agrad.profile() as p:
        for _ in range(2):
            agrad.sum(agrad.tanh(x) * 2.0).backward()
        agrad.exp(place(X))
        agrad.sin(agrad.asarray(place(X)))
    names = ("tanh", "multiply", "sum")
    expected = {(name, way): 2 for name in names for way in ("forward", "backward")}
    assert counted(p) == expected | {("exp", "forward"): 1, ("sin", "forward"): 1}
    sizes = {(row.operation, row.direction): row.bytes for row in p.rows()}
    assert (sizes["tanh", "forward"], sizes["sum", "forward"], sizes["sum", "backward"]) == (192, 16, 192)
    assert all(row.seconds > 0 for row in p.rows())
    assert sum(row.seconds for row in p.rows()) < p.wall


def test_transforms_count_what_runs(place: Any) -> None:
    with agrad.profile() as p:
        agrad.vmap(agrad.sin)(place(X))
        agrad.jvp(agrad.cos, (place(X),), (place(X),))
    assert counted(p) == {("sin", "forward"): 1, ("cos", "forward"): 1, ("cos", "tangent"): 1}


def test_time_is_the_operations_own() -> None:
    """A backward rule that runs operations does not count their time again."""

    @agrad.primitive
    def slow(xp: Any, x: Any, /) -> Any:
        time.sleep(0.02)
        return x * 1.0

    slow.vjp(lambda g: slow(g))
    x = agrad.asarray(X, requires_grad=True)
    with agrad.profile() as p:
        agrad.sum(slow(x)).backward()
    rows = {row.direction: row for row in p.rows() if row.operation == "slow"}
    assert (rows["forward"].calls, rows["backward"].calls) == (2, 1)
    assert rows["forward"].seconds >= 0.04 and rows["backward"].seconds < 0.015
    assert p.rows()[0].operation == "slow"


def test_lines() -> None:
    x = agrad.asarray(X, requires_grad=True)
    before = agrad.sin(x)
    with agrad.profile(lines=True) as p:
        y = agrad.tanh(before)  # the first line
        y = agrad.tanh(y)  # the second line
        agrad.sum(y).backward()
    tanh = [(row.direction, row.where) for row in p.rows() if row.operation == "tanh"]
    for line in ("the first line", "the second line"):
        assert sorted(way for way, where in tanh if where and line in where) == ["backward", "forward"]
    assert [row.where for row in p.rows() if row.operation == "sin"] == [None]
    assert "test_profile.py" in str(p) and "(recorded before the profile)" in str(p)


def test_the_table() -> None:
    with agrad.profile() as p:
        for _ in range(4):
            agrad.exp(X)
        agrad.sin(np.ones(3000))
    rows = {row.operation: row for row in p.rows("name")}
    assert [*rows] == ["exp", "sin"]
    assert (rows["exp"].mean, rows["sin"].mean) == (rows["exp"].seconds / 4, rows["sin"].seconds)
    for sort in ("mean", "time", "calls", "bytes"):
        values = [getattr(row, {"time": "seconds"}.get(sort, sort)) for row in p.rows(sort)]
        assert values == sorted(values, reverse=True), sort
    fails(ConfigurationError, "'size'", lambda: p.rows("size"))
    head, *lines, last = p.table("bytes").splitlines()
    assert head.split() == ["operation", "calls", "total", "ms", "share", "mean", "us", "bytes"]
    assert last.startswith("5 calls, ")
    whole = sum(row.seconds for row in rows.values())
    for line, (name, size) in zip(lines, (("sin", "24,000"), ("exp", "384")), strict=True):
        row = rows[name]
        times = [f"{row.seconds * 1e3:,.3f}", f"{row.seconds / whole:.1%}", f"{row.mean * 1e6:,.1f}"]
        assert line.split() == [name, "forward", f"{row.calls}", *times, size]
    assert p.table("calls", limit=1).splitlines()[1].startswith("exp")
    assert "1 more; limit=None" in p.table(limit=1)
    read = json.loads(p.to_json())
    assert {row["operation"]: row["calls"] for row in read["rows"]} == {"exp": 4, "sin": 1}
    assert read["wall_seconds"] == p.wall
    assert str(agrad.profile()).endswith("0 calls, 0.000 ms in operations of 0.000 ms in all")


def test_nested_profiles_both_count_and_one_counts_once() -> None:
    with agrad.profile() as outer:
        agrad.exp(X)
        with agrad.profile() as inner, outer:
            agrad.sin(X)
    assert counted(inner) == {("sin", "forward"): 1}
    assert counted(outer) == {("exp", "forward"): 1, ("sin", "forward"): 1}


def test_as_a_decorator_and_again() -> None:
    p = agrad.profile()

    @p
    def f() -> None:
        agrad.exp(X)

    f()
    f()
    agrad.exp(X)
    with p:
        agrad.exp(X)
    assert counted(p) == {("exp", "forward"): 3}

    @p
    async def later() -> None:
        await asyncio.sleep(0)
        agrad.exp(X)

    asyncio.run(later())
    assert counted(p) == {("exp", "forward"): 4}


def test_other_threads_are_left_alone_and_may_join() -> None:
    p = agrad.profile()

    def other() -> None:
        agrad.sin(X)
        p(lambda: agrad.cos(X))()

    with ThreadPoolExecutor(1) as pool, p:
        pool.submit(other).result()
        agrad.exp(X)
    assert counted(p) == {("cos", "forward"): 1, ("exp", "forward"): 1}


def test_nothing_stays_after_an_error() -> None:
    with pytest.raises(KeyError, match="in the middle"), agrad.profile() as p:
        agrad.exp(X)
        raise KeyError("in the middle")
    assert not OBSERVED
    agrad.exp(X)
    assert counted(p) == {("exp", "forward"): 1}


def test_threads_compute_while_another_one_looks() -> None:
    """Calls change their code under the feet of running threads, and of operations at their first use."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():

            @agrad.primitive
            def fresh(xp: Any, x: Any, /) -> Any:
                return x * 3.0

            fresh.vjp(lambda g: g * 3.0)
            found = agrad.grad(lambda x, f=fresh: agrad.sum(agrad.sin(f(x))))(X)
            np.testing.assert_allclose(found, 3.0 * np.cos(3.0 * X))

    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(work) for _ in range(3)]
        try:
            for _ in range(50):
                with agrad.profile() as p:
                    agrad.grad(lambda x: agrad.sum(agrad.exp(x)))(X)
                assert counted(p) == {(name, way): 1 for name in ("exp", "sum") for way in ("forward", "backward")}
        finally:
            stop.set()
        for other in others:
            other.result()
