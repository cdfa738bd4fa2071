"""Arrays that a jitted function knows besides its arguments: read at each call, or guarded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from captures import X, close
from checker import host
from refusals import fails

import agrad
from agrad.errors import TracedValueError

ARRAYS: dict[str, tuple[Callable[[int], Any], Callable[[Any, Any], Any]]] = {
    "itself": (np.ones, lambda c, x: x * c[:3]),
    "of several values": (lambda n: np.arange(1.0, n + 1), lambda c, x: x * c[:3]),
    "zeros": (np.zeros, lambda c, x: x + c[:3]),
    "in another operation": (np.ones, lambda c, x: x * agrad.sin(c)[:3]),
    "its sum": (np.ones, lambda c, x: x * agrad.sum(c)),
    "as a tensor": (np.ones, lambda c, x: agrad.asarray(x) * agrad.sum(agrad.asarray(c)[:3])),
    "differentiated": (np.ones, lambda c, x: x * agrad.grad(lambda y: agrad.sum(y**3))(c)[:3]),
}


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_captured(name: str, size: int, backend: str, place: Any) -> None:
    """It is read at each call, or guarded: also one that is filled with one value, and of which constants are made."""
    if backend == "jax":
        pytest.skip("arrays that nothing can write into")
    make, use = ARRAYS[name]
    captured, x = place(make(size)), place(X)
    cfg = {"a": [captured]}
    jitted = agrad.jit(lambda x: use(captured, x) + use(cfg["a"][0], x))
    for value in (2.0, 3.0, 3.0):
        for _ in range(2):
            close(jitted(x), 2 * agrad.asarray(use(captured, x)))
        captured[0] = value
    close(jitted(x), 2 * agrad.asarray(use(captured, x)))
    # what tells of a write may be its bytes, or a number that counts writes
    read = size == 5000 or backend == "cupy"
    assert jitted.cache_info().misses == (4 if backend in ("torch", "dask") else 1 if read else 3)


@pytest.mark.parametrize("size", [3, 5000])
def test_a_write_to_a_captured_array(size: int, backend: str, place: Any) -> None:
    if backend in ("jax", "cupy"):
        pytest.skip("arrays that nothing can write into, or whose content is not looked at")
    captured = place(np.ones(size))

    def f(x: Any) -> Any:
        captured[0] = 2.0
        return x

    fails(TracedValueError, "changed captured while it was traced", lambda: agrad.jit(f)(place(X)))


def test_what_numpy_computes_of_a_small_array_is_guarded() -> None:
    scale, offsets = np.asarray([4.0, 9.0, 16.0]), [np.asarray(1.0)]

    def f(x: Any) -> Any:
        return x * np.sqrt(scale) + float(offsets[0])

    jitted = agrad.jit(f)
    close(jitted(X), f(X))
    scale[1] = 25.0
    close(jitted(X), f(X))
    offsets[0][...] = 7.0
    close(jitted(X), f(X))


def test_a_derivative_reads_captured_arrays_anew() -> None:
    scale = np.ones(5000)
    w = agrad.asarray(np.ones(5000), requires_grad=True)
    forward = agrad.jit(lambda: agrad.sum(w * w * scale))
    for value in (1.0, 3.0):
        scale[...] = value
        w.grad = None
        forward().backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.full(5000, 2 * value))
    assert forward.cache_info().misses == 1


def test_an_operation_made_of_another_computes_with_a_captured_array(place: Any) -> None:
    @agrad.primitive(linear="x", batch="leading")
    def halved_twice(xp: Any, x: Any, /) -> Any:
        return xp.negative(agrad.divide.bind(x, 4.0))

    held = place(np.arange(5000.0))  # large enough to be read at each call
    fast = agrad.jit(lambda y: y + halved_twice(held))
    for k in range(3):
        np.testing.assert_array_equal(host(fast(place(np.full(5000, float(k))))), k - np.arange(5000.0) / 4)
