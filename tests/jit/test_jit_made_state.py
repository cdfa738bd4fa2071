"""State that a jitted function makes itself."""

import contextvars
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad import nn
from agrad.errors import ConfigurationError

X = np.random.default_rng(3).standard_normal((12, 5))


def drawn(x: Any) -> Any:
    return x * agrad.random.uniform(agrad.random.Generator(0).key(), (), dtype=x.dtype)


def normalized(x: Any) -> Any:
    return nn.BatchNorm1d(5)(x)


def in_a_loop(x: Any) -> Any:
    return agrad.fori_loop(0, 3, lambda i, h: drawn(h), x)


@pytest.mark.parametrize("f", [drawn, normalized, in_a_loop])
def test_objects_with_state_that_a_function_makes_are_its_own(f: Callable[[Any], Any]) -> None:
    compiled = agrad.jit(f)
    for x in (X, 2 * X):
        np.testing.assert_allclose(
            agrad.asarray(compiled(x)).detach(), agrad.asarray(f(x)).detach(), rtol=1e-5, atol=1e-6
        )
    assert compiled.cache_info().misses == 1
    assert agrad.eval_shape(f, X).shape == X.shape


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda: agrad.asarray(1.0, requires_grad=True), lambda kept, x: kept * x),
        (lambda: agrad.random.Generator(0), lambda kept, x: x * agrad.random.uniform(kept.key(), ())),
    ],
)
def test_state_that_each_trace_replaces_unseen_ends_the_traces(make: Any, use: Any) -> None:
    hidden = contextvars.ContextVar[Any]("hidden")
    hidden.set(make())

    def f(x: Any) -> Any:
        kept = hidden.get()
        hidden.set(make())
        return use(kept, x)

    fails(ConfigurationError, "creates new state each time it is traced", lambda: agrad.jit(f)(np.ones(())))
