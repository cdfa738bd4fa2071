"""Nested control flow with unusual carries, eager and inside ``jit``: the values and derivatives of ``jax.lax``."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad

pytestmark = [pytest.mark.needs("jax"), pytest.mark.filterwarnings("ignore:invalid value")]

X, ALONG = np.asarray([0.3, -1.2, 2.0]), np.asarray([1.0, -0.5, 0.25])


def scan_in_cond_in_while(m: Any, x: Any) -> Any:
    def body(state: Any) -> Any:
        i, c = state
        inner = lambda q: m.scan(lambda d, w: (m.xp.sin(d * w) + x[0], w), q, x)[0]  # noqa: E731
        return i + 1, m.cond(m.xp.sum(c) > 0, inner, lambda q: q + x, c)

    return m.xp.sum(m.while_loop(lambda s: s[0] < 4, body, (0, x))[1])


def carries_of_integers_and_truth(m: Any, x: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        n, b, h = carry
        return (n + 1, m.xp.logical_xor(b, v > 0), m.xp.where(b, h * v, h + v * n)), (n, b)

    (n, b, h), (ns, bs) = m.scan(step, (m.xp.sum(x > 9), x[0] > 1, x[1]), x)
    return h * n + m.xp.sum(m.xp.where(bs, x, 2 * x) * ns) + m.xp.where(b, x[0], x[2])


def carries_of_nothing(m: Any, x: Any) -> Any:
    carry, (ys, nothing) = m.scan(lambda c, v: (c, (v * v, ())), {"a": (), "b": None}, x)
    assert (carry, nothing) == ({"a": (), "b": None}, ())
    return m.xp.sum(ys * x)


def no_steps(m: Any, x: Any) -> Any:
    carry, ys = m.scan(lambda c, v: (c * v, c + v), m.xp.sum(x), x[:0])
    assert tuple(ys.shape) == (0,)
    return carry * carry + m.xp.sum(ys) + m.while_loop(lambda c: c > 100, lambda c: c * c, x[0] + x[1])


def a_branch_of_nan(m: Any, x: Any) -> Any:
    root = lambda v, c: m.cond(v > 0, lambda: m.xp.sqrt(v) * c, lambda: v * c)  # noqa: E731
    return m.xp.sum(m.scan(lambda c, v: (root(v, c), c), x[0], x)[1])


def complex_numbers(m: Any, x: Any) -> Any:
    z = x + 1j * x * x
    carry, ys = m.scan(lambda c, v: (c * v + m.xp.exp(1j * v), c), z[0], z)
    return m.xp.sum(m.xp.abs(ys) ** 2) + m.xp.real(carry) * m.xp.imag(carry)


def second_derivatives_of_a_scan_in_a_step(m: Any, x: Any) -> Any:
    inner = lambda q: m.scan(lambda c, w: (m.xp.sin(c * w), c), q, x)[0]  # noqa: E731
    return m.scan(lambda c, v: (m.grad(m.grad(inner))(c) + v, c), x[0], x)[0]


def values_of_outside(m: Any, x: Any) -> Any:
    w = m.xp.sin(x)

    def step(c: Any, v: Any) -> Any:
        u = w * v
        turn = lambda i, a: m.switch(i % 3, [lambda: a * w, lambda: a + u * i, lambda: m.xp.sin(a)])  # noqa: E731
        return m.cond(v > 0, lambda: c * w + u, lambda: c - m.fori_loop(0, 4, turn, c)), None

    return m.xp.sum(m.scan(step, x, x)[0])


def a_carry_swapped_and_one_replaced(m: Any, x: Any) -> Any:
    step = lambda c, v: ((c[1], c[0] * v, x[0] + 0 * v), c)  # noqa: E731
    (a, b, c), ys = m.scan(step, (x, x, x[1]), x, reverse=True)
    return m.xp.sum(a * b) * c + m.xp.sum(ys[0] * ys[1]) + m.xp.sum(ys[2])


FORWARD_ONLY = (scan_in_cond_in_while, no_steps)
CASES = (
    *FORWARD_ONLY,
    carries_of_integers_and_truth,
    carries_of_nothing,
    a_branch_of_nan,
    complex_numbers,
    second_derivatives_of_a_scan_in_a_step,
    values_of_outside,
    a_carry_swapped_and_one_replaced,
)


def derivatives(m: Any, f: Callable[[Any, Any], Any], asarray: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    at = lambda x: f(m, x)  # noqa: E731
    push = lambda f: lambda x: m.jvp(f, (x,), (asarray(ALONG),))[1]  # noqa: E731
    many = lambda f: lambda x: m.vmap(f)(m.xp.stack([x, 1.5 * x, -x]))  # noqa: E731
    if f in FORWARD_ONLY:
        return {"value": at, "mapped tangent": many(push(at)), "forward twice": push(push(at))}
    gradient = m.grad(at)
    twice = m.grad(lambda x: m.xp.sum(gradient(x) * asarray(ALONG)))
    return {"forward": push(at), "mapped gradient": many(gradient), "reverse twice": twice}


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_as_in_lax(f: Callable[[Any, Any], Any]) -> None:
    import jax

    with agrad.use_backend("jax"):
        pass  # float64
    ours = SimpleNamespace(**{name: getattr(agrad, name) for name in agrad.__all__}, xp=agrad)
    lax = {name: getattr(jax.lax, name) for name in ("scan", "cond", "while_loop", "fori_loop", "switch")}
    theirs = SimpleNamespace(**lax, grad=jax.grad, jvp=jax.jvp, vmap=jax.vmap, xp=jax.numpy)
    expected = derivatives(theirs, f, jax.numpy.asarray)
    for what, derivative in derivatives(ours, f, np.asarray).items():
        value = np.asarray(jax.jit(expected[what])(X))  # one program, and not one of each operation
        assert_close(derivative(X), value, what, 1e-10)
        assert_close(agrad.jit(derivative)(X), value, f"{what}, inside jit", 1e-10)
