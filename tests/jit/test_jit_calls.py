"""``agrad.jit``: a call like the one before is known without its signature, and one unlike it is not taken for it."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.errors import NotDifferentiableError

RNG = np.random.default_rng(8)
X, Y = RNG.standard_normal((2, 4, 3))
WEIGHT = agrad.asarray(RNG.standard_normal((4, 3)), requires_grad=True)


def total(params: Any, x: Any = None, **named: Any) -> Any:
    """Add what is there; the order of containers and their kinds count."""
    leaves = [params, x, *named.values()]
    found = agrad.zeros(())
    for count, leaf in enumerate(leaves, 1):
        if isinstance(leaf, dict):
            leaf = [leaf[name] for name in sorted(leaf)]
        parts = leaf if isinstance(leaf, (list, tuple)) else [leaf]
        for i, part in enumerate(parts, 1 + isinstance(leaf, tuple)):
            value = agrad.sum(part) if hasattr(part, "shape") else -1 if part is None else part
            found = found + value * (i * count)
    return found


def counted(function: Callable[..., Any], **options: Any) -> tuple[Any, list[int]]:
    """The jitted function, and a list that grows whenever it takes a call's signature."""
    made, taken = agrad.jit(function, **options), []
    original = made._signature
    made._signature = lambda *given: taken.append(1) or original(*given)
    return made, taken


CALLS: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "raw": lambda: ((X, Y), {}),
    "tensors": lambda: ((agrad.asarray(X), agrad.asarray(Y)), {}),
    "mixed": lambda: ((agrad.asarray(X), Y), {}),
    "a float": lambda: ((X, 3.0), {}),
    "an int": lambda: ((X, 3), {}),
    "another int": lambda: ((X, 4), {}),
    "a bool": lambda: ((X, True), {}),
    "one tensor twice": lambda: ((WEIGHT.detach(),) * 2, {}),
    "float32": lambda: ((X.astype(np.float32), Y.astype(np.float32)), {}),
    "rows": lambda: ((X[:2], Y[:2]), {}),
    "a column": lambda: ((X, Y[:, :1]), {}),
    "with a gradient": lambda: ((WEIGHT, Y), {}),
    "on the tape": lambda: ((WEIGHT * 1, Y), {}),
    "a list": lambda: (([X, Y],), {}),
    "a tuple": lambda: (((X, Y),), {}),
    "one more": lambda: (([X, Y, X],), {}),
    "an empty list": lambda: (([], X), {}),
    "a dict": lambda: (({"w": X, "b": Y},), {}),
    "another order": lambda: (({"b": Y, "w": X},), {}),
    "a subclass": lambda: ((OrderedDict(w=X, b=Y),), {}),
    "other keys": lambda: (({"w": X, "c": Y},), {}),
    "fewer keys": lambda: (({"w": X},), {}),
    "nested": lambda: (([(X, Y)][0], {"w": X}), {}),
    "Tensors": lambda: (({"w": agrad.asarray(X), "b": agrad.asarray(Y)},), {}),
    "leaves": lambda: (({"w": WEIGHT, "b": agrad.asarray(Y)},), {}),
    "another shape": lambda: (({"w": X[:2], "b": Y},), {}),
    "a number": lambda: (({"w": X, "b": 2.0},), {}),
    "None": lambda: (({"w": X, "b": Y}, None), {}),
    "by name": lambda: ((X,), {"x": Y}),
    "a list by name": lambda: ((X,), {"x": [Y]}),
    "other names": lambda: ((X,), {"y": Y}),
    "nothing but names": lambda: ((), {"params": X}),
}


def test_each_call_is_of_its_own_signature() -> None:
    """Whatever came before, results and gradients are the function's own."""
    made, _ = counted(total)
    for name in [name for first in CALLS for later in CALLS for name in (first, later)]:
        args, named = CALLS[name]()
        right, result = total(*args, **named), made(*args, **named)
        assert result.requires_grad is right.requires_grad and result.dtype == right.dtype
        np.testing.assert_allclose(result.detach().numpy(), right.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_again_takes_no_signature(name: str) -> None:
    """Except of Tensors that are given twice or are on the tape, and of subclasses of dict."""
    made, taken = counted(total)
    for _ in range(4):
        args, named = CALLS[name]()
        made(*args, **named)
    assert len(taken) == (4 if name in ("one tensor twice", "on the tape", "a subclass") else 2)
    assert made.cache_info() == (3, 1, 64, 1)


def test_two_tensors_that_become_one() -> None:
    x, y = agrad.asarray(X.copy()), agrad.asarray(Y.copy())

    @agrad.jit
    def shift(a: Any, b: Any) -> Any:
        a += 1
        return a * b

    shift(x, y)
    np.testing.assert_array_equal(shift(x, y).numpy(), (X + 2) * Y)
    np.testing.assert_allclose(shift(x, x).numpy(), (X + 3) ** 2)


@pytest.mark.needs("torch")
def test_modes_and_the_selected_backend_count() -> None:
    w = agrad.asarray(np.ones(3), requires_grad=True)
    times = agrad.jit(lambda x: x * w)
    x = agrad.asarray(X)
    assert times(x).requires_grad and times(x).requires_grad
    with agrad.no_grad():
        assert not times(x).requires_grad
    assert times(x).requires_grad

    born = agrad.jit(lambda scale: agrad.ones(2) * scale)
    for name in ("numpy", "torch", "numpy"):
        with agrad.use_backend(name):
            assert born(2.0).backend == born(2.0).backend == name
    assert born.cache_info()[:2] == (4, 2)


def test_a_recorded_result_can_be_shown() -> None:
    w = agrad.asarray(np.ones(2), requires_grad=True)
    total = agrad.jit(lambda x: agrad.sum(x * w))(np.ones(2))
    assert "jit(<lambda>)" in repr(total) and "output_0" in repr(total)


def test_a_backward_pass_that_ends_at_an_argument_is_refused() -> None:
    """Its gradient belongs further on, to the leaf that the argument was computed from."""

    def step(y: Any) -> Any:
        agrad.sum(y * y).backward()
        return y * 1

    x = agrad.asarray(np.arange(3.0), requires_grad=True)
    fails(NotDifferentiableError, r"backward\(\) in jit\(step\) reached.*leaf 0", lambda: agrad.jit(step)(x * 2))
    assert x.grad is None
    agrad.jit(step)(x)
    np.testing.assert_array_equal(x.grad.numpy(), [0, 2, 4])
    agrad.jit(lambda y: agrad.sum(y * y))(x * 2).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 10, 20])


def test_a_tensor_that_is_an_argument_and_a_global_too() -> None:
    made, weight = agrad.jit(lambda a, b: (a - 2 * b) * WEIGHT), WEIGHT.detach().numpy()
    for _ in range(2):
        np.testing.assert_allclose(made(WEIGHT, Y).detach().numpy(), (weight - 2 * Y) * weight)


def test_state_that_stays_is_not_replaced() -> None:
    class Scales:
        traced_attributes = ("parts",)

        def __init__(self) -> None:
            self.parts = [X, 2.0]

    scales = Scales()
    before, made = scales.parts, agrad.jit(lambda y: y * scales.parts[0] * scales.parts[1])
    for _ in range(2):
        np.testing.assert_allclose(made(Y), Y * X * 2.0)
        assert scales.parts is before
    before[1] = 3.0
    np.testing.assert_allclose(made(Y), Y * X * 3.0)
    assert made.cache_info().misses == 1
