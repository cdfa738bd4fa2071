"""Results of jitted functions are arrays of their own: the caller may write into them, and into the arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad

VALUES = np.arange(1.0, 13.0).reshape(3, 4)
KEPT = np.arange(12.0).reshape(3, 4)
WRITABLE = ("numpy", "torch", "array_api_strict", "cupy", "dask")


@agrad.primitive(batch="loop")
def own_view(xp: Any, x: Any, /) -> Any:
    """An operation of the user's that gives a view."""
    return x[1:, :]


@own_view.vjp
def own_view_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    return xp.zeros(x_meta.shape)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "twice": lambda x: (x, x),
    "computed twice": lambda x: (agrad.sin(x), agrad.sin(x)),
    "in a dict": lambda x: {"a": x, "b": [x * 2.0, x]},
    "all of it": lambda x: x[...],
    "a part": lambda x: x[1:],
    "two parts that overlap": lambda x: (x[:2], x[1:]),
    "parts of a result": lambda x: (lambda y: (y[:2], y[1:], y))(x * 2.0),
    "transposed": lambda x: x.T,
    "reshaped": lambda x: agrad.reshape(x, (-1,)),
    "reshaped and transposed": lambda x: agrad.reshape(x.T, (-1,)),
    "flipped": lambda x: agrad.flip(x, axis=0),
    "broadcast": lambda x: agrad.broadcast_to(x, (2, 3, 4)),
    "a result, broadcast": lambda x: agrad.broadcast_to(agrad.sum(x, axis=0), (2, 4)),
    "times one": lambda x: x * 1.0,
    "a view of times one": lambda x: (x * 1.0).T,
    "of the same dtype": lambda x: agrad.astype(x, agrad.float64, copy=False),
    "positive": lambda x: +x,
    "real": agrad.real,
    "rounded integers": lambda x: (agrad.floor(agrad.astype(x, agrad.int64)), agrad.astype(x, agrad.int64)),
    "first power": lambda x: agrad.linalg.matrix_power(x[:, :3], 1),
    "joined": lambda x: agrad.concat([x]),
    "unstacked": lambda x: agrad.unstack(x, axis=0),
    "the user's own view": own_view,
    "a constant": lambda x: (x + 1.0, KEPT),
    "a view of a constant": lambda x: (x + 1.0, KEPT[1:]),
    "gradients": lambda x: agrad.grad(lambda a, b: agrad.sum(a + b), argnums=(0, 1))(x, x),
    "a gradient that is an argument": lambda x: agrad.grad(lambda y: agrad.sum(y * x))(x + 1.0),
}


def arrays_of(out: Any) -> list[Any]:
    leaves = agrad.transforms.trees.flatten(out)[0]
    return [leaf.data if isinstance(leaf, agrad.Tensor) else leaf for leaf in leaves]


def host(raw: Any) -> Any:
    return agrad.asarray(raw).numpy().copy()


@pytest.mark.parametrize("tensor", [False, True], ids=["raw", "tensor"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_may_be_written_into(name: str, tensor: bool, backend: str, place: Any) -> None:
    """It changes neither the argument, nor another result, nor what the next call gives."""
    if backend not in WRITABLE:
        pytest.skip("arrays that nothing can write into")
    jitted = agrad.jit(FUNCTIONS[name])
    x, kept = place(VALUES.copy()), KEPT.copy()
    given = agrad.asarray(x) if tensor else x
    expected = [host(raw) for raw in arrays_of(jitted(given))]
    for _ in range(2):
        found = arrays_of(jitted(given))
        for i, raw in enumerate(found):
            np.testing.assert_array_equal(host(raw), expected[i])
            raw[...] = -1 - i
        for i, raw in enumerate(found):
            np.testing.assert_array_equal(host(raw), np.full(raw.shape, -1 - i))
        np.testing.assert_array_equal(host(x), VALUES)
        np.testing.assert_array_equal(KEPT, kept)
    assert jitted.cache_info().misses == 1


def test_results_that_are_new_are_not_looked_at() -> None:
    """A copy is made only where memory may be shared, and where it is: the transpose of an array, not what is added."""
    jitted = agrad.jit(lambda x: (x * 2.0 + 1.0, agrad.matmul(x, x.T), agrad.sum(x), agrad.exp(x)))
    jitted(VALUES)
    ((entry,),) = jitted._entries.values()
    assert not entry.copies.steps
    jitted = agrad.jit(lambda x: agrad.reshape(x * 2.0, (-1,)))
    first, second = jitted(VALUES), jitted(VALUES)
    assert first.base is not None and not np.shares_memory(first, second)  # no copy: the view of a new array


def test_a_gradient_of_state_is_no_view_of_an_argument() -> None:
    w = agrad.asarray(np.ones((3, 4)), requires_grad=True)

    @agrad.jit
    def step(x: Any) -> Any:
        loss = agrad.sum(agrad.reshape(w, (12,)) * x)
        loss.backward()
        return w.grad

    x = np.arange(12.0)
    given = step(x)
    assert not np.shares_memory(w.grad.data, x) and not np.shares_memory(given.data, w.grad.data)
    x[...] = -1.0
    given.data[...] = -2.0
    np.testing.assert_array_equal(w.grad.numpy(), np.arange(12.0).reshape(3, 4))


def test_a_parameter_that_is_a_result_does_not_follow_updates() -> None:
    w = agrad.asarray(np.ones(3), requires_grad=True)
    read = agrad.jit(lambda: w.detach())
    given = read()
    assert not np.shares_memory(given.data, w.data)
    given.data[...] = 5.0
    np.testing.assert_array_equal(w.detach().numpy(), np.ones(3))
