"""Threads and tasks: backward passes at once are right, and what one selects or switches off stays its own."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
from checker import assert_close
from jit_help import in_threads

import agrad

WORKERS = 4


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Threads take turns every few microseconds, so that a race has its chance."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_backward_passes_into_shared_leaves_add_up() -> None:
    w = agrad.asarray(np.ones(50_000), requires_grad=True)  # long enough for additions to let other threads run
    rounds = 25

    def work(i: int) -> None:
        for _ in range(rounds):
            agrad.sum(w * float(i + 1)).backward()

    in_threads(work, WORKERS)
    assert_close(w.grad, np.full(50_000, rounds * sum(range(1, WORKERS + 1))), "the sum of all passes")


def test_backward_passes_through_one_graph_that_is_retained() -> None:
    w = agrad.asarray(np.asarray([0.5, 1.5]), requires_grad=True)
    y = w
    for _ in range(30):
        y = agrad.tanh(y) + y * 0.5
    loss = agrad.sum(y)
    loss.backward(retain_graph=True)
    once = w.grad.numpy()
    w.zero_grad()
    rounds = 20

    def work(i: int) -> None:
        for _ in range(rounds):
            loss.backward(retain_graph=True)

    in_threads(work, WORKERS)
    assert_close(w.grad, rounds * WORKERS * once, "the sum of all passes")


def test_first_calls_of_one_operation_at_once() -> None:
    """An operation's code is generated at its first call: several at once are all right, in maps and second order."""
    for _ in range(20):
        fresh = agrad.elementwise("fresh", lambda g, x: 3 * g * x * x, forward=lambda xp, x, /: x**3)
        second = agrad.vmap(agrad.hessian(lambda x, f=fresh: agrad.sum(f(x))))
        found = in_threads(lambda i, f=second: f(np.full((2, 2), 1.0 + i)), WORKERS)
        for i, matrices in enumerate(found):
            assert_close(matrices, np.stack([6.0 * (1 + i) * np.eye(2)] * 2), f"second derivatives in thread {i}")


def test_a_new_thread_records_though_its_maker_does_not() -> None:
    """A thread starts with recording on and no inner selection; a copied context takes both along."""
    x = agrad.asarray(np.ones(2), requires_grad=True)
    seen = {}

    def look(name: str) -> None:
        seen[name] = ((x * 2).requires_grad, agrad.get_backend())

    with agrad.no_grad(), agrad.use_backend("array_api_strict"):
        context = contextvars.copy_context()
        for name, target in (("bare", lambda: look("bare")), ("copied", lambda: context.run(look, "copied"))):
            thread = threading.Thread(target=target, name=name)
            thread.start()
            thread.join()
    assert seen == {"bare": (True, agrad.get_backend()), "copied": (False, "array_api_strict")}


def test_tasks_keep_their_own_selection_and_recording() -> None:
    x = agrad.asarray(np.ones(2), requires_grad=True)

    async def work(name: str, off: bool) -> set[tuple[bool, str]]:
        seen = set()
        with agrad.use_backend(name):
            for _ in range(5):
                with agrad.no_grad() if off else nullcontext():
                    await asyncio.sleep(0)
                    seen.add(((x * 2).requires_grad, agrad.get_backend()))
                    await asyncio.sleep(0)
        return seen

    plan = [("numpy", True), ("array_api_strict", False), ("array_api_strict", True), ("numpy", False)]

    async def main() -> list[set[tuple[bool, str]]]:
        return await asyncio.gather(*[work(name, off) for name, off in plan])

    assert asyncio.run(main()) == [{(not off, name)} for name, off in plan]
