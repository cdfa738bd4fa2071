"""Whether operations are recorded: ``no_grad``, ``enable_grad``, ``detach``, leaves, coroutines and generators."""

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from leaves import leaf

import agrad


def test_no_grad_as_a_context_and_a_decorator(backend: str) -> None:
    x = leaf([1.0])
    with agrad.no_grad():
        assert not (x * 2).requires_grad
        with agrad.enable_grad():
            assert (x * 2).requires_grad
            with agrad.no_grad():
                assert not (x * 2).requires_grad
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
        assert agrad.enable_grad()(lambda v: v * 2)(x).requires_grad
    assert (x * 2).requires_grad
    assert not agrad.no_grad()(lambda v: v * 2)(x).requires_grad
    assert (x * 2).requires_grad


def test_no_grad_ends_with_errors_and_may_be_entered_again() -> None:
    x, off = leaf(1.0), agrad.no_grad()
    with pytest.raises(ZeroDivisionError, match="by zero"), off:
        1 / 0  # noqa: B018
    assert (x * 2).requires_grad
    with off, off:
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad

    @off
    def down(n: int) -> Any:
        inner = down(n - 1) if n else x * 1
        assert not (x * 2).requires_grad
        return inner

    assert not down(5).requires_grad
    assert (x * 2).requires_grad


def test_coroutines_and_generators_are_silent_while_they_run() -> None:
    x = leaf(1.0)

    @agrad.no_grad()
    async def coroutine() -> bool:
        await asyncio.sleep(0)
        return (x * 2).requires_grad

    @agrad.no_grad()
    def generator() -> Iterator[bool]:
        yield (x * 2).requires_grad
        yield (x * 2).requires_grad

    assert asyncio.run(coroutine()) is False
    steps = generator()
    for _ in range(2):
        assert (x * 2).requires_grad
        assert next(steps) is False
    assert (x * 2).requires_grad


def test_detached_values_and_leaves(backend: str) -> None:
    x = leaf([1.0, 2.0])
    cut = x.detach()
    assert not cut.requires_grad
    assert cut.raw is x.raw
    agrad.sum(x * cut).backward()
    assert_close(x.grad, host(x), "gradient")
    with agrad.no_grad():
        silent = x * 2
    leaves = (x, cut, silent, agrad.zeros(2), agrad.ones(2) * 2)
    assert all(value.is_leaf for value in leaves) and not (x * 2).is_leaf


def test_the_first_recording_of_many_arguments_takes_time_by_their_number() -> None:
    def first(count: int) -> float:
        leaves = [leaf(1.0)] * count
        begun = time.process_time()
        agrad.stack(leaves)
        return time.process_time() - begun

    few, many = (min(first(count + i) for i in range(3)) for count in (500, 4000))
    assert many < 20 * few  # by the square of the number it would be 64


def test_an_operation_adds_one_object_to_the_garbage_collector() -> None:
    """Its node. Each further one would be visited in every collection of a long tape."""
    x = agrad.asarray(np.ones(3), requires_grad=True)
    y = agrad.sin(x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(500):
        y = agrad.sin(y) * 1.01
    gc.collect()
    assert len(gc.get_objects()) - before < 1.1 * 1000
