"""``agrad.jit``: calls like the one before, known without their signature, and numbers with all values they take."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close
from refusals import fails

import agrad
from agrad import jit, vmap
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


# ---------------------------------------------------------------- numbers among the arguments

POINT = np.asarray([1.0, 2.0, 3.0])


def written(x: Any, b: Any) -> Any:
    x = x * 1.0
    x[0] = b
    return x


FUNCTIONS: dict[str, Any] = {
    "where": lambda x, b: agrad.where(x > b, x, b),
    "where of numbers": lambda x, b: agrad.where(x > 2, b, 0.0),
    "clip": lambda x, b: agrad.clip(x, b, 5.0),
    "maximum": agrad.maximum,
    "pow": lambda x, b: b**x + x**b,
    "full": lambda x, b: agrad.full((3,), b) + x,
    "full_like": lambda x, b: agrad.full_like(x, b) * x,
    "asarray": lambda x, b: agrad.asarray(b) * x,
    "asarray, dtype": lambda x, b: agrad.astype(agrad.asarray(b, dtype=agrad.float32), agrad.float64) * x,
    "asarray of a list": lambda x, b: agrad.asarray([b, 2.0, 1.0]) * x,
    "asarray of a list with a Tensor": lambda x, b: agrad.asarray([b, x[0], 1.0]) * x,
    "linspace": lambda x, b: agrad.linspace(0.0, b, 3) * x,
    "arange": lambda x, b: agrad.arange(b, b + 3.0) * x,
    "a write": written,
    "NumPy's product": lambda x, b: np.multiply(b, x),
    "NumPy's function of the number": lambda x, b: np.sin(b) * x,
    "NumPy's where": lambda x, b: np.where(x > b, x, b),
    "the math module": lambda x, b: math.sin(b) * x,
    "stack": lambda x, b: agrad.stack([x, agrad.asarray(b) * agrad.ones_like(x)]),
    "a branch": lambda x, b: x if b > 2 else -x,
    "beside a constant": lambda x, b: x + np.asarray([1.0, 2.0, 4.0]) * b + b * np.ones(3),
}


OF_NUMPY = [name for name in FUNCTIONS if "NumPy" in name or name == "beside a constant"]
"""Those that have NumPy's arrays beside the program's."""


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OF_NUMPY])
def test_numbers_stand_where_they_may_without_a_trace(name: str, place: Any) -> None:
    as_without_a_trace(FUNCTIONS[name], agrad.asarray(place(POINT)))


@pytest.mark.parametrize("name", OF_NUMPY)
def test_numbers_stand_beside_numpys_arrays(name: str) -> None:
    as_without_a_trace(FUNCTIONS[name], agrad.asarray(POINT))


def as_without_a_trace(f: Any, x: Any) -> None:
    xs = agrad.stack([x, x + 1.0])
    of_all, of_one, mapped = jit(f), jit(lambda b: f(x, b)), jit(lambda xs, b: vmap(f, (0, None))(xs, b))
    slope = jit(agrad.grad(lambda x, b: agrad.sum(agrad.sin(f(x, b)))))
    for b in (1.5, 2.5, 1.5):
        expected = f(x, b)
        assert_close(of_all(x, b), expected, "traced", 1e-12)
        assert_close(of_one(b), expected, "of the number alone", 1e-12)
        assert_close(mapped(xs, b), vmap(f, (0, None))(xs, b), "mapped", 1e-12)
        assert_close(slope(x, b), agrad.grad(lambda x, b: agrad.sum(agrad.sin(f(x, b))))(x, b), "the gradient", 1e-12)


def test_what_needs_no_value_is_traced_once_and_a_branch_for_each_outcome() -> None:
    once = dict.fromkeys(["where of numbers", "full", "asarray", "asarray of a list with a Tensor", "a write"], 1)
    for name, count in {**once, "a branch": 2}.items():
        program = jit(FUNCTIONS[name])
        for b in (1.5, 2.5, 1.75):
            program(agrad.asarray(POINT), b)
        assert program.cache_info().misses == count, name


def test_members_beside_constants_of_the_trace() -> None:
    f = jit(lambda b: vmap(lambda w: (w * b, agrad.sin(w) / b, agrad.matmul(w, np.ones(2) * b)))(np.ones((3, 2))))
    for b in (2.0, 3.0):
        for found, expected in zip(f(b), (b, math.sin(1) / b, 2 * b), strict=True):
            np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-15)
