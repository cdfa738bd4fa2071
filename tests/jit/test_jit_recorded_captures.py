"""Jitted functions that capture recorded Tensors: derivatives of every order, and writes. One table."""

from collections.abc import Callable
from typing import Any

import pytest
from captures import close

import agrad
from agrad.errors import NotDifferentiableError, TracedValueError

VALUES = [0.75, -1.25]

Program = Callable[[Any, Any], Any]
"""A function of ``agrad.jit``, or of the identity in its place, and of a recorded Tensor of two elements."""


def while_small(jit: Any, t: Any) -> Any:
    return agrad.while_loop(lambda h: agrad.all(agrad.abs(h) < 1.5), lambda h: jit(lambda v: v * h + h)(h), t * 1.0)


def contained(jit: Any, t: Any) -> Any:
    held = {"all": [t * t, t[:1]]}
    return jit(lambda u: u * held["all"][0] * held["all"][1])(t)


def unseen(jit: Any, t: Any) -> Any:
    values = iter([t * t] * 9)
    return jit(lambda u: u * next(values))(t)


def unseen_and_wrapped(jit: Any, t: Any) -> Any:
    values = iter([t * t] * 9)
    return jit(lambda: agrad.grad(lambda v: agrad.sum(v**3))(next(values)))()


def caught(jit: Any, t: Any) -> Any:
    values = iter([t * t] * 9)

    def f(u: Any) -> Any:
        try:
            return u * next(values)
        except Exception:
            return u

    return jit(f)(t)


def captured(function: Callable[[Any, Any], Any]) -> Program:
    """Return the program of a function of an argument and a captured Tensor."""

    def program(jit: Any, t: Any) -> Any:
        c = t * t
        return jit(lambda u: function(u, c))(t)

    return program


PROGRAMS: dict[str, Program] = {
    "returned as it is": lambda jit, t: (lambda c: jit(lambda u: c)(t) * c)(t * t),
    "mapped inside": captured(lambda u, c: agrad.vmap(lambda a, b: a * b * b)(u, c)),
    "a gradient inside": captured(lambda u, c: agrad.grad(lambda v: agrad.sum(v**3 * c))(u)),
    "a gradient at it": captured(lambda u, c: agrad.grad(lambda v: agrad.sum(v**3 * u))(c)),
    "a container, and a view": contained,
    "the carry of a while_loop": while_small,
    "not found by the search": unseen,
    "not found, in a Tensor of a transform": unseen_and_wrapped,
    "met where errors are caught": caught,
}
"""Others are among the random programs: products, results, arguments, and carries that jitted functions capture."""


def by_backward(f: Any, values: Any, order: int) -> list[Any]:
    t = agrad.asarray(values, requires_grad=True)
    out, found = f(t), []
    for _ in range(order):
        t.grad = None
        agrad.sum(out).backward(create_graph=True)
        out = t.grad
        found.append(out.detach())
    return found


def by_grad(f: Any, values: Any, order: int) -> list[Any]:
    found, x = [], agrad.asarray(values)
    for _ in range(order):
        f = agrad.grad(lambda t, f=f: agrad.sum(f(t)))
        found.append(f(x))
    return found


def mixed(f: Any, values: Any, order: int) -> list[Any]:
    """The tape's Tensor inside of a transform, forward over reverse, and reverse over a map."""
    t, x = agrad.asarray(values, requires_grad=True), agrad.asarray(values)
    slope = agrad.grad(lambda t: agrad.sum(f(t)))
    found = [agrad.jvp(slope, (x,), (x,))[1], agrad.vmap(slope)(agrad.stack([x, 2 * x]))]
    agrad.sum(agrad.grad(lambda u: agrad.sum(f(u * t)))(x)).backward()
    return [*found, t.grad, agrad.jit(slope)(x)]


@pytest.mark.parametrize("way", [by_backward, by_grad, mixed])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_without_jit(name: str, way: Any) -> None:
    f = PROGRAMS[name]
    if way is mixed and name == "the carry of a while_loop":
        way = by_grad  # the numbers of the steps of the members differ
    expected = way(lambda t: f(lambda g: g, t), VALUES, 3)
    for got, right in zip(way(lambda t: f(agrad.jit, t), VALUES, 3), expected, strict=True):
        close(got, right)


def test_a_transform_around_a_jit_of_constants(backend: str) -> None:
    """The only traced value is a captured one, of the transform."""
    ones = agrad.ones(2)

    def f(x: Any) -> Any:
        c = x * 1.0
        return agrad.sum(agrad.jit(lambda u: u * c * c)(ones))

    x = agrad.asarray(VALUES)
    close(agrad.grad(f)(x), 2 * x)
    close(agrad.jvp(f, (x,), (x,))[1], 2 * agrad.sum(x * x))
    close(agrad.vmap(f)(agrad.stack([x, 2 * x])), agrad.stack([agrad.sum(x * x), 4 * agrad.sum(x * x)]))


def test_writes() -> None:
    """Outside they change what the next call reads; inside they are refused, as is a gradient that would end there."""
    t = agrad.asarray(VALUES, requires_grad=True)
    c = t * 1.0
    jitted = agrad.jit(lambda u: u * c)
    for expected in (VALUES, [7.0, VALUES[1]]):
        close(jitted(agrad.ones(2)).detach(), expected)
        c[0] = 7.0
    agrad.sum(jitted(agrad.ones(2))).backward()
    close(t.grad, [0.0, 1.0])
    assert jitted.cache_info().misses == 1

    def write(u: Any) -> Any:
        c[0] = u
        return c * 2

    with pytest.raises(TracedValueError, match="writes into an argument or a captured Tensor"):
        agrad.jit(write)(agrad.asarray(1.0))
    with agrad.no_grad(), pytest.raises(TracedValueError, match="writes into an argument or a captured Tensor"):
        agrad.jit(write)(agrad.asarray(1.0))
    with pytest.raises(NotDifferentiableError, match="reached c, a Tensor that other operations created"):
        agrad.jit(lambda u: agrad.sum(u * c).backward())(agrad.ones(2))
    close(c.detach(), [7.0, VALUES[1]])


def test_a_view_from_outside_keeps_its_values() -> None:
    """A jitted write to its base replaces the base's array, at the first call as at the others."""
    t = agrad.asarray(VALUES, requires_grad=True)
    views = [t[:1], t.detach()[1:]]

    @agrad.jit
    def step(u: Any) -> Any:
        with agrad.no_grad():
            t[0] = u
        return t * 2

    for value in (3.0, 4.0):
        step(agrad.asarray(value))
        close(t.detach(), [value, VALUES[1]])
        close(views[0].detach() + 0, VALUES[:1])
        close(views[1] + 0, VALUES[1:])
