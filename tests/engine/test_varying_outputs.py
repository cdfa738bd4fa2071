"""Operations that give as many arrays as their argument decides, ``out="*parts"``: rules, names and cost."""

from typing import Any

import numpy as np
from checker import assert_close, check_all, check_faces
from leaves import leaf

import agrad

X = np.arange(1.0, 7.0).reshape(3, 2)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_rule_is_handed_the_cotangents_there_are_by_number(place: Any) -> None:
    asked = []

    @agrad.primitive(out="*powers", batch="leading")
    def powers(xp: Any, x: Any, /, *, count: int) -> Any:
        return tuple(x**k for k in range(1, count + 1))

    @powers.vjp
    def powers_vjp(g_powers: Any, x: Any) -> Any:
        asked.append(sorted(g_powers))
        total = 0 * x
        for i, g in g_powers.items():
            total = total + g * (i + 1) * x**i
        return total

    @powers.jvp
    def powers_jvp(t: Any, x: Any, *, count: int) -> Any:
        return tuple(t * k * x ** (k - 1) for k in range(1, count + 1))

    check_all(lambda x: powers(x, count=3), [X], rng())
    check_all(lambda x: powers(x, count=3)[2] * powers(x, count=2)[0], [X], rng())
    check_faces(lambda x: powers(x, count=2), [place(X)], rng())
    asked.clear()
    x = leaf(X)
    parts = powers(x, count=4)
    agrad.sum(parts[2]).backward(retain_graph=True)
    agrad.sum(parts[3] * parts[1] + parts[3]).backward()
    assert asked == [[2], [1, 3]]
    assert parts[3].parents[0] is x
    assert powers(x, count=0) == ()
    mapped = agrad.vmap(lambda row: powers(row, count=2)[1])(X)
    assert_close(mapped, X**2, "mapped")


def test_the_outputs_have_numbers_for_names() -> None:
    x = leaf(X)
    y = agrad.unstack(x)[2]
    assert (y.op.name, y.op.output, y.op.settings) == ("unstack", "parts[2]", {"axis": 0})
    assert "op=unstack, output=parts[2]" in repr(y)
    parts = agrad.unstack(x)
    assert parts[0].op == parts[1].op != y.op
    assert "unstack.parts[2]" in str(agrad.graph(agrad.sum(y)))
    (g,) = y.grad_fn(agrad.asarray([1.0, 2.0]))
    assert_close(g, [[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]], "the pullback of one part")


def test_the_parts_of_a_long_axis_cost_one_array_in_the_backward_pass() -> None:
    """A scatter a part would make n arrays of n rows each."""
    made = []

    @agrad.primitive(linear="x")
    def watched(xp: Any, x: Any, /) -> Any:
        return 1 * x

    watched.vjp(lambda g: made.append(g.shape) or g)
    x = leaf(np.ones((50, 2)))
    y = watched(x)
    total = sum(agrad.sum(part) * i for i, part in enumerate(agrad.unstack(y)))
    nodes, stack = set(), [total.node]
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes.add(node)
            stack += node.parents
    parents_of_y = [node for node in nodes if y.node in node.parents]
    assert len(parents_of_y) == 1 and parents_of_y[0].plan.primitive.name == "unstack"
    total.backward()
    assert made == [(50, 2)]
    assert_close(x.grad, np.repeat(np.arange(50.0)[:, None], 2, axis=1), "the gradient")
