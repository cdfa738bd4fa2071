"""How many passes over memory a backward pass makes: what it need not write, it does not."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close
from refusals import fails

import agrad
from agrad.backends import load
from agrad.engine import backward
from agrad.errors import GraphFreedError


def test_parts_of_an_array_are_added_up_in_one_new_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each would cost an array of the whole one's size."""
    totals = []
    total = backward.SliceCotangents.total

    def counted(self: Any) -> Any:
        totals.append(len(self.parts))
        return total(self)

    monkeypatch.setattr(backward.SliceCotangents, "total", counted)
    x = np.arange(12.0).reshape(6, 2)

    def f(x: Any) -> Any:
        return agrad.sum(x * x) + sum(agrad.sum(x[i] ** 3) for i in range(6)) + agrad.sum(x[1:3, 0])

    wanted = 2 * x + 3 * x**2
    wanted[1:3, 0] += 1
    np.testing.assert_allclose(agrad.grad(f)(x), wanted)
    assert totals == [9]  # six rows, a part of a column, and two of the product
    # second derivatives, and more parts than are added at once
    np.testing.assert_allclose(agrad.hvp(f, (x,), (x,))[0], (2 + 6 * x) * x)
    many = np.linspace(0.1, 1.0, 50)
    slope = agrad.grad(lambda v: sum(v[i] ** 3 for i in range(50)))
    np.testing.assert_allclose(agrad.jacfwd(slope)(many), np.diag(6 * many))
    np.testing.assert_allclose(agrad.jacrev(slope)(many), np.diag(6 * many))


def test_a_trace_adds_parts_up_as_an_eager_pass_does() -> None:
    """A jitted gradient would else write an array of the whole one's size for each part."""
    f = agrad.jit(agrad.vmap(agrad.grad(lambda x: agrad.sum(x[0:2] ** 2) + x[1] * agrad.sum(x[3:]) - x[2] ** 3)))
    x = np.arange(10.0).reshape(2, 5)
    program = str(f.lower(x))
    assert "scatter_sum" in program and "scatter_add" not in program
    wanted = np.stack([2 * x[:, 0], 2 * x[:, 1] + x[:, 3] + x[:, 4], -3 * x[:, 2] ** 2, x[:, 1], x[:, 1]], axis=1)
    np.testing.assert_allclose(f(x), wanted)


def test_parts_are_added_to_what_hooks_and_kept_gradients_see() -> None:
    x = agrad.asarray([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    seen = []
    y.register_hook(lambda g: seen.append(g.numpy().copy()))
    part = y[0]
    part.retain_grad()
    (part + 3 * y[1] + agrad.sum(y)).backward()
    assert x.grad is not None and y.grad is not None and part.grad is not None
    np.testing.assert_array_equal(y.grad.numpy(), [2, 4, 1])
    np.testing.assert_array_equal(x.grad.numpy(), [4, 8, 2])
    assert float(part.grad) == 1 and len(seen) == 1
    np.testing.assert_array_equal(seen[0], [2, 4, 1])


def test_a_part_is_freed_by_a_pass_unless_it_is_retained(place: Any) -> None:
    x = agrad.asarray(place(np.asarray([1.0, 2.0, 3.0])), requires_grad=True)
    y = agrad.sum(x[1:])
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 3, 3])
    part = x[0]
    for _ in range(2):
        part.backward(retain_graph=True)
    part.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3, 3])
    for freed in (y, part, part * 2):
        fails(GraphFreedError, "retain_graph", freed.backward)
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3, 3])


def test_a_multiple_of_a_cotangent_is_taken_after_its_sum() -> None:
    """Of a subtrahend that was broadcast, what is negated has its size and not the result's."""
    shapes = []

    def negated(g: Any) -> Any:
        shapes.append(g.shape)
        return -g

    minus = agrad.elementwise("minus", lambda g: g, negated, forward=lambda xp, x1, x2, /: x1 - x2)
    x, mean = np.arange(12.0).reshape(4, 3), np.ones((1, 3))
    np.testing.assert_allclose(agrad.grad(lambda m: agrad.sum(minus(x, m) ** 2))(mean), -2 * np.sum(x - 1, 0)[None])
    assert shapes == [(1, 3)]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_a_product_that_is_summed_along_its_last_axis(dtype: Any) -> None:
    """The derivative by a factor that was broadcast along the last axis, and by one broadcast elsewhere."""
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal((2, 3, 5)).astype(dtype) for _ in range(2))
    room = 50 * float(np.finfo(dtype).eps)
    for shape in ((2, 3, 1), (3, 1), (1, 3, 1), (1,), (2, 1, 1), (1, 3, 5), (), (2, 3, 5)):
        scale = rng.standard_normal(shape).astype(dtype)
        for order in (lambda x, s: x * s, lambda x, s: s * x):
            _, pull = agrad.vjp(order, x, scale)
            wanted = g * x
            lead = tuple(range(3 - len(shape)))
            wanted = wanted.sum(lead)
            wanted = wanted.sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
            found = pull(g)[1]
            assert found.dtype == dtype and found.shape == shape
            np.testing.assert_allclose(found, wanted, rtol=room, atol=room * 4)
            assert_close(pull(g)[0], g * scale, "the other factor")


def test_a_summed_product_makes_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    xp = load("numpy").xp
    monkeypatch.setattr(xp, "vecdot", lambda a, b: called.append(a.shape) or np.vecdot(a, b))
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(agrad.grad(lambda s: agrad.sum(s * x))(np.ones((2, 1))), [[3.0], [12.0]])
    assert called == [(2, 3)]
