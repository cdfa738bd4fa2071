"""Loops of NumPy programs: one function of all steps, whose rows and carried arrays are written in place."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_help import same_calls
from tensors import draw

import agrad
from agrad.jit.compile import compile_program

Step = Callable[[Any, Any], tuple[Any, Any]]
N, BIG = 5, 40_000


W, PAIR = draw(4, 4, seed=1) * 0.4, (draw(4, seed=2), draw(4, seed=3))
CONSTANT = draw(4, seed=4)


def both_the_same(c: Any, x: Any) -> Any:
    new = agrad.tanh(c[0] + x)
    return (new, agrad.tanh(c[0] + x)), (new, agrad.tanh(c[0] + x))


def written_over(c: Any, x: Any) -> Any:
    a = c[0] * 2.0
    return (a - x, c[1] * a + c[0]), c[1]


STEPS: dict[str, tuple[Step, Any]] = {
    "one array": (lambda c, x: (agrad.tanh(c @ W + x),) * 2, draw(4)),
    "a row of the old value": (lambda c, x: (agrad.tanh(c @ W + x), c), draw(4)),
    "old and new": (lambda c, x: ((y := agrad.sin(c + x)), (y, c, y)), draw(4)),
    "in turn": (lambda c, x: ((c[1], c[0] * 0.5 + x), c[0] - c[1]), PAIR),
    "a delay": (lambda c, x: ((c[0] * 0.5 + x, c[0], c[1]), c[2]), (*PAIR, draw(4))),
    "changed places": (lambda c, x: ((c[1] + x, c[0] * x), None), PAIR),
    "the same twice": (lambda c, x: (((y := c[0] + x), y), c[1]), PAIR),
    "found to be the same": (both_the_same, PAIR),
    "one array for two": (lambda c, x: ((c[0] * 0.9 + c[1], c[1] + x), x), (PAIR[0], PAIR[0])),
    "written over": (written_over, PAIR),
    "a scalar": (lambda c, x: (c * 0.5 + agrad.sum(x), c), np.asarray(1.0)),
    "a view": (lambda c, x: ((c + x).T, c[0]), draw(4, 4)),
    "a constant": (lambda c, x: (CONSTANT, c), draw(4)),
    "no change": (lambda c, x: (c, x * c), draw(4)),
    "no row": (lambda c, x: (c * 0.5 + x, None), draw(4)),
    "integers and truth values": (lambda c, x: ((c[0] + 1, c[1] < x), c[0]), (np.asarray(0), np.zeros(4, bool))),
    "products of vectors": (lambda c, x: (W @ (c @ W) + x * (c @ x), x @ W), draw(4)),
    "large arrays": (lambda c, x: ((y := agrad.tanh(c * 0.5 + x[0])) * 2 - y, y), draw(BIG)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_scans(name: str, reverse: bool) -> None:
    step, init = STEPS[name]
    given = init, draw(N, 4, seed=7)

    def f(init: Any, xs: Any) -> Any:
        return agrad.scan(step, init, xs, reverse=reverse)

    def loss(init: Any, xs: Any) -> Any:
        return sum((agrad.sum(agrad.sin(part)) for part in agrad.tree.leaves(f(init, xs))), 0.0)

    kept = [leaf.copy() for leaf in agrad.tree.leaves((given, CONSTANT))]
    jitted = same_calls(f, given, given, atol=1e-13)
    results = [jitted(*given) for _ in range(2)]
    for a, b in zip(agrad.tree.leaves((given, CONSTANT)), kept, strict=True):
        np.testing.assert_array_equal(a, b)
    parts = [leaf for leaf in agrad.tree.leaves(results) if leaf.shape]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(parts) for b in [*parts[:i], *kept, CONSTANT])
    if name not in ("integers and truth values", "large arrays"):
        same_calls(agrad.grad(loss, argnums=(0, 1)), given, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_loops_with_a_condition(start: float) -> None:
    def f(x: Any) -> Any:
        return agrad.while_loop(
            lambda c: agrad.logical_and(c[0] < 4, agrad.max(c[1]) < 3.0),
            lambda c: (c[0] + 1, c[2] * 0.5 + c[1], c[1]),
            (np.asarray(0), x + start, x),
        )

    x = np.linspace(0.0, 1.0, 4)
    for a, b in zip(agrad.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, np.linspace(0.0, 1.0, 4))


def bodies(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> list[list[str]]:
    """Return the lines of the steps of the loops that a call compiles."""
    texts: list[str] = []

    def compiled(program: Any, target: Any) -> Any:
        found = compile_program(program, target)
        texts.append(found.run.text)
        return found

    monkeypatch.setattr("agrad.control.steps.compile_program", compiled)
    call()
    lines = [text.partition("for ")[2].splitlines()[1:] for text in texts]
    found = [[line.strip() for line in part if line.startswith(" " * 8)] for part in lines]
    return [[re.sub(r"_\d+\(.*", "", line) for line in part] for part in found]


def test_a_step_is_a_few_calls_without_new_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    f = agrad.jit(lambda c, xs: agrad.scan(STEPS["one array"][0], c, xs)[1])
    assert bodies(monkeypatch, lambda: f(draw(4), draw(N, 4))) == [["a0.dot(c0, b0)", "add", "tanh", "a0 = o0"]]


def test_work_for_all_steps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes of slices, and the sum of products of cotangents and states, are computed outside of the loop."""

    def last(w: Any, c: Any, xs: Any) -> Any:
        return agrad.sum(agrad.scan(lambda c, x: (agrad.tanh(w @ c + x), None), c, xs)[0])

    given = W, draw(4), draw(N, 4)
    gradient = agrad.grad(last)
    _, backward = bodies(monkeypatch, lambda: agrad.jit(gradient)(*given))
    assert backward == ["multiply", "a1.dot(o0, w0)", "a2, w0 = w0, a2"]
    np.testing.assert_allclose(agrad.jit(gradient)(*given), gradient(*given), rtol=1e-12)


def test_sums_of_steps() -> None:
    """Sums of arrays and of products, of which one also is a row, one reads slices alone, and one is of an integer."""

    def step(c: Any, x: Any) -> Any:
        state, total, squares, outer, count = c
        new = agrad.sin(state + x)
        return (new, total + new, squares + x * x, outer + x[:2, None] @ new[None, :], count + 1), new

    start = draw(4), draw(4, seed=5), np.zeros(4), draw(2, 4, seed=6), np.asarray(2)
    for xs in (draw(N, 4, seed=7), draw(0, 4)):
        f = lambda xs: agrad.scan(step, start, xs, reverse=True)  # noqa: E731
        for a, b in zip(*map(agrad.tree.leaves, (agrad.jit(f)(xs), f(xs))), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("x", [0.1, -2.5, float("nan")])
def test_choices_between_numbers_have_the_types_of_numpy(dtype: str, x: float) -> None:
    """Jitted code on NumPy chooses between scalars without ``numpy.where``; its results are the same arrays."""

    def chosen(x: Any) -> tuple[Any, Any]:
        small = agrad.where((x * x < 1) & (x == x), x * 2, 0.1)
        return agrad.where(small > 0.15, small + 1, agrad.where(x <= -2.5, -x, small)) * 3, small

    def looped(x: Any) -> Any:
        step = lambda i, c: (agrad.where(c[0] > c[1], c[0] / 2, c[1]), chosen(c[0])[0])  # noqa: E731
        return agrad.fori_loop(0, 3, step, (x + 0, x * 2))

    for given in (np.asarray(x, dtype), np.dtype(dtype).type(x)):
        for f in (chosen, looped):
            for found, expected in zip(agrad.jit(f)(given), f(given), strict=True):
                assert (type(found), found.dtype) == (type(expected), expected.dtype)
                np.testing.assert_array_equal(found, expected)
