"""Python numbers as arguments of traced functions: wherever a number may stand, and with all values they take."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad
from agrad import jit, vmap

X = np.asarray([1.0, 2.0, 3.0])


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
    as_without_a_trace(FUNCTIONS[name], agrad.asarray(place(X)))


@pytest.mark.parametrize("name", OF_NUMPY)
def test_numbers_stand_beside_numpys_arrays(name: str) -> None:
    as_without_a_trace(FUNCTIONS[name], agrad.asarray(X))


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
            program(agrad.asarray(X), b)
        assert program.cache_info().misses == count, name


def test_members_beside_constants_of_the_trace() -> None:
    f = jit(lambda b: vmap(lambda w: (w * b, agrad.sin(w) / b, agrad.matmul(w, np.ones(2) * b)))(np.ones((3, 2))))
    for b in (2.0, 3.0):
        for found, expected in zip(f(b), (b, math.sin(1) / b, 2 * b), strict=True):
            np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-15)
