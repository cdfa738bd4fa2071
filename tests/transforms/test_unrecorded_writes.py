"""Writes under no_grad: values change, derivatives are those at the values before, in every transform and in jit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad

ROWS = np.asarray([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])


def everything(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y[...] = 5.0
    return agrad.sum(y * x)


def one(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y[0] = 5.0
    return agrad.sum(y * x)


def in_place(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y *= x
    y *= x
    return agrad.sum(y * x)


def of_another(x: Any) -> Any:
    y, z = x * x, agrad.sin(x)
    with agrad.no_grad():
        y[...] = z
    return agrad.sum(y * x) + agrad.sum(z)


def of_a_derivative(x: Any) -> Any:
    y = x * x
    with agrad.no_grad():
        y[...] = agrad.grad(lambda z: agrad.sum(z**3))(y.detach())
    return agrad.sum(y * x)


def through_a_view(x: Any) -> Any:
    y = x * x
    view = y[1:]
    with agrad.no_grad():
        view[...] = view * 0.5 + 2.0
    return agrad.sum(y * x) + agrad.sum(view * view)


def scalar(x: Any) -> Any:
    y = agrad.sum(x * x)
    with agrad.no_grad():
        y *= 3.0
    return y * x[0]


FUNCTIONS = (everything, one, in_place, of_another, of_a_derivative, scalar)


def scanned(f: Any) -> Any:
    zero, once = np.asarray(0.0), np.ones(1)

    def total(x: Any) -> Any:
        return agrad.scan(lambda c, _: (c + f(x), None), agrad.asarray(zero), agrad.asarray(once))[0]

    return total


def backward(f: Any) -> Any:
    def gradient(x: Any) -> Any:
        leaf = agrad.asarray(x, requires_grad=True)
        f(leaf).backward()
        return leaf.grad

    return gradient


def rows(d: Any) -> Any:
    return lambda x: agrad.vmap(d)(agrad.stack([x, x + 1.0]))[0]


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "backward": backward,
    "forward": agrad.jacfwd,
    "vmap of grad": lambda f: rows(agrad.grad(f)),
    "vmap of jacfwd": lambda f: rows(agrad.jacfwd(f)),
    "grad of vmap": lambda f: agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x[None, :]))),
    "checkpoint": lambda f: agrad.grad(agrad.checkpoint(f)),
    "cond": lambda f: agrad.grad(lambda x: agrad.cond(agrad.sum(x) > 0.0, f, f, x)),
    "scan": lambda f: agrad.grad(scanned(f)),
    "vmap of scan": lambda f: rows(agrad.grad(scanned(f))),
}


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("way", GRADIENTS)
def test_gradients_are_those_of_the_function_alone(way: str, f: Any, backend: str) -> None:
    x = agrad.asarray(ROWS[0]).data
    expected = agrad.grad(f)(x)
    assert_close(GRADIENTS[way](f)(x), expected, way)
    assert_close(agrad.jit(GRADIENTS[way](f))(x), expected, f"{way}, jitted")


@pytest.mark.parametrize("f", FUNCTIONS)
def test_second_derivatives(f: Any, backend: str) -> None:
    x = agrad.asarray(ROWS[0]).data
    expected = agrad.hessian(f)(x)
    for way in (agrad.jit(agrad.hessian(f)), rows(agrad.hessian(f)), agrad.jit(agrad.hessian(scanned(f)))):
        assert_close(way(x), expected, "hessian")


def test_a_view_where_there_are_views(backend: str) -> None:
    """The base and the view change together, in jit and under vmap as alone."""
    x = agrad.asarray(ROWS[0]).data
    expected = agrad.grad(through_a_view)(x)
    for way in (agrad.jit(agrad.grad(through_a_view)), rows(agrad.grad(through_a_view))):
        assert_close(way(x), expected, "gradient")


def test_members_written_to_what_all_share(backend: str) -> None:
    """The derivative of a value that is not mapped stays when each member writes its own values to it."""

    def f(x: Any, c: Any) -> Any:
        y = x * x
        with agrad.no_grad():
            y[...] = c * y
        return agrad.sum(y * x)

    x, c = (agrad.asarray(a).data for a in (ROWS[0], ROWS + 1.0))
    expected = agrad.grad(f)(x, c[0, ...]) + agrad.grad(f)(x, c[1, ...])
    total = agrad.grad(lambda x: agrad.sum(agrad.vmap(f, in_axes=(None, 0))(x, c)))
    assert_close(total(x), expected, "gradient")
    assert_close(agrad.jit(total)(x), expected, "jitted")


@pytest.mark.parametrize("by", ["all", "part", "operator"])
def test_a_jitted_step_updates_a_leaf_by_hand(by: str, backend: str) -> None:
    """Three steps of a rule that is written out agree with those of an eager run."""
    runs = []
    for made in (agrad.jit, lambda f: f):
        w = agrad.asarray(ROWS[0].tolist(), dtype=agrad.float64, requires_grad=True)

        def step(x: Any, w: Any = w) -> Any:
            loss = agrad.sum((x * w) ** 2)
            loss.backward()
            with agrad.no_grad():
                if by == "all":
                    w[...] = w - 0.1 * w.grad
                elif by == "part":
                    w[:2] = w[:2] - 0.1 * w.grad[:2]
                else:
                    w -= 0.1 * w.grad
            w.grad = None
            return loss

        run = made(step)
        losses = [run(agrad.asarray([1.0, 0.5, 0.25], dtype=agrad.float64)) for _ in range(3)]
        assert w.is_leaf
        assert w.requires_grad
        runs.append([*losses, w])
    for a, b in zip(*runs, strict=True):
        assert_close(a.detach(), b.detach(), by)


def test_a_leaf_of_no_axes_keeps_its_array(backend: str) -> None:
    """NumPy's operations return scalars there, a write in place does not; and there is one program."""
    w = agrad.asarray(2.0, dtype=agrad.float64, requires_grad=True)
    kind = type(w.data)

    @agrad.jit
    def step(x: Any) -> None:
        with agrad.no_grad():
            w.__imul__(x)

    for _ in range(3):
        step(agrad.asarray(0.5, dtype=agrad.float64))
    assert type(w.data) is kind
    assert step.cache_info().misses == 1
    assert_close(w.detach(), 0.25, "value")
