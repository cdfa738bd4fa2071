"""Writes inside a mapped function: each member is what the function makes of it alone, and nothing is left behind."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad

X = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
WEIGHTS = np.asarray([1.0, 10.0, 100.0])


def swapped(c: Any) -> Any:
    c[0], c[1] = c[1], c[0]
    return c


def last_added(c: Any) -> Any:
    last = c[-1]
    c[-1] = 0.0
    c += last
    return c


def first_subtracted(c: Any) -> Any:
    first = c[0]
    for i in range(3):
        c[i] = c[i] - first
    return c


def each_raised(c: Any) -> Any:
    for element in c:
        element += 1
    return c


def unpacked(c: Any) -> Any:
    a, _, last = c
    c[0] = last
    c[2] = a
    return c


def unstacked(c: Any) -> Any:
    a, b, _ = agrad.unstack(c)
    a += 5
    c[1] = 7.0
    return c + b


def raised_in_place(c: Any) -> Any:
    view = c[0, ...]
    view += 5
    return c


def on_the_diagonal(c: Any) -> Any:
    c = agrad.reshape(c, (3, 1)) * agrad.ones((1, 3))
    c[0, 0], c[1, 1] = c[1, 1], c[0, 0]
    return c


def of_a_part(c: Any) -> Any:
    part = c[1:]
    element = part[0]
    part[0] = 0.0
    return c + element


PROGRAMS = [
    swapped, last_added, first_subtracted, each_raised, unpacked, unstacked, raised_in_place, on_the_diagonal,
    of_a_part,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_members_are_written_to_as_alone(program: Any, place: Any) -> None:
    """An element picked from an array is a copy in NumPy and a view in PyTorch; so is a member's."""

    def f(c: Any) -> Any:
        return program(c * 1.0)

    def loss(c: Any) -> Any:
        return agrad.sum(f(c) * agrad.asarray(place(WEIGHTS)))

    x = agrad.asarray(place(X))
    expected = agrad.stack([f(row) for row in (x[0, :], x[1, :])])
    slopes = agrad.stack([agrad.grad(loss)(row) for row in (x[0, :], x[1, :])])
    for found in (agrad.vmap(f)(x), agrad.jit(agrad.vmap(f))(x), agrad.vmap(agrad.jit(f))(x)):
        assert_close(found, expected, "value", 0.0)
    assert_close(agrad.vmap(agrad.grad(loss))(x), slopes, "the gradient of each", 1e-12)
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.vmap(loss)(x)))(x), slopes, "the gradient of all", 1e-12)
    wide = agrad.stack([x, x + 1.0])
    twice = agrad.stack([agrad.stack([f(row) for row in (m[0, :], m[1, :])]) for m in (x, x + 1.0)])
    assert_close(agrad.vmap(agrad.vmap(f))(wide), twice, "two maps", 0.0)


def test_what_members_write_into_a_shared_argument_stays_inside(place: Any) -> None:
    shared = agrad.asarray(place(np.zeros(3)))

    def f(a: Any, b: Any) -> Any:
        b += a
        return b * 1

    assert_close(agrad.vmap(f, in_axes=(0, None))(place(X), shared), X, "value", 0.0)
    assert_close(shared, np.zeros(3), "the argument", 0.0)
    assert_close(agrad.vmap(lambda a, d: f(a, d["b"]), in_axes=(0, None))(place(X), {"b": shared}), X, "value", 0.0)
    assert_close(shared, np.zeros(3), "in a container", 0.0)
