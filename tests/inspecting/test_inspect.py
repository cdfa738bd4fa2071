"""Looking inside: op, parents, grad_fn and repr of a Tensor."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from checker import host
from leaves import leaf
from refusals import fails

import agrad
from agrad.backends import backend_of
from agrad.errors import DtypeError, GraphFreedError, ShapeError


@agrad.primitive(out=("s", "c"))
def sine_and_cosine(xp, x, /, *, scale=1.0):
    return xp.sin(x) * scale, xp.cos(x) * scale


@sine_and_cosine.vjp
def sine_and_cosine_vjp(g_s, g_c, s, c):
    parts = [part for part in (None if g_s is None else g_s * c, None if g_c is None else -g_c * s) if part is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


@sine_and_cosine.jvp
def sine_and_cosine_jvp(t, s, c):
    return t * c, -t * s


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(host(a), b, rtol=1e-12, atol=0)


# ---------------------------------------------------------------- op


def test_leaves_and_constants_have_no_operation(backend: str) -> None:
    for t in (leaf([1.0]), agrad.asarray([1.0]), agrad.asarray([1, 2]), leaf([1.0]).detach() * 2.0):
        assert (t.op, t.parents, t.grad_fn) == (None, (), None)


def test_args_are_the_operands_in_order(backend: str) -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    for made, name in ((x + y, "add"), (x * y, "multiply"), (x**y, "pow"), (agrad.maximum(x, y), "maximum")):
        assert made.op.name == name
        assert [*map(id, made.op.args)] == [*map(id, made.parents)] == [id(x), id(y)]
    assert [*map(id, (x * x).op.args)] == [id(x)] * 2


def test_numbers_stay_numbers(backend: str) -> None:
    x = leaf([1.0, 2.0])
    for made, number in ((x * 2.5, 2.5), (x + 3, 3)):
        assert type(made.op.args[1]) is type(number) and made.op.args[1] == number
    assert (3 - x).op.args[0] == 3 and (3 - x).op.args[1] is x
    assert [p is x for p in (2.0 / x).parents] == [True]
    assert repr((x * 2.5).op) == "<op multiply(x1, 2.5)>"
    if backend == "numpy":
        same((x * np.float64(2.0)).op.args[1], 2.0)


def test_constants_are_constant_tensors(backend: str, place: Any) -> None:
    x = leaf([1.0, 2.0])
    raw = place(np.array([5.0, 6.0]))
    for made in (x * raw, x / raw, raw * x if backend == "numpy" else agrad.multiply(raw, x)):
        held = next(a for a in made.op.args if a is not x)
        assert isinstance(held, agrad.Tensor) and held.raw is raw
        assert not held.requires_grad and held.op is None
        assert [p is x for p in made.parents] == [True]
    assert repr((x + raw).op.args[1]) == "(not kept)"  # no derivative needs it
    picked = x[agrad.asarray(place(np.array([0])))]
    assert picked.op.args[0] is x
    same(picked.op.args[1], [0])


def test_settings(backend: str) -> None:
    x = leaf([[1.0, 2.0]])
    for made, settings in (
        (agrad.sum(x, axis=-1), {"axis": (1,), "keepdims": False}),
        (x + 1.0, {}),
        (x[0, :1], {"index": (0, slice(None, 1))}),
    ):
        assert made.op.settings == settings
    assert repr(agrad.sum(x, axis=0, keepdims=True).op) == "<op sum(x, axis=(0,), keepdims=True)>"
    assert [a is x for a in agrad.concat([x, x], axis=0).op.args] == [True, True]


def test_one_call_one_operation() -> None:
    x = leaf([1.0])
    y, z = agrad.exp(x), agrad.exp(x)
    assert y.op == y.op and hash(y.op) == hash(y.op)
    assert y.op not in (z.op, "exp")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(lambda x: agrad.sin(x), lambda y: y * y, id="kept by the consumer"),
        pytest.param(lambda x: agrad.exp(x), lambda y: y + 1.0, id="kept by the operand itself"),
        pytest.param(lambda x: x + 1.0, lambda y: y - 2.0, id="computed again from a leaf"),
        pytest.param(lambda x: 3.0 * (x - 1.0) - x, lambda y: y + y, id="computed again through several"),
        pytest.param(lambda x: agrad.exp(x) + x, lambda y: agrad.sum(y), id="computed again from what is kept"),
        pytest.param(lambda x: agrad.sum(x * 2.0, axis=1), lambda y: agrad.reshape(y, (1, 2)), id="with settings"),
        pytest.param(lambda x: sine_and_cosine(x, scale=2.0)[1] + 0.0, lambda y: y + 1.0, id="through two outputs"),
        pytest.param(lambda x: x[0] + x[np.array([1, 0])], lambda y: y + 1.0, id="through an index"),
        pytest.param(lambda x: agrad.concat([x, x + 1.0]), lambda y: agrad.sum(y), id="of many"),
    ],
)
def test_operands_are_found_wherever_they_are(first: Any, second: Any, backend: str) -> None:
    x = leaf([[0.5, 1.5], [2.5, 3.5]])
    expected = host(first(x.detach()))
    y = second(first(x))
    for operand in y.op.args:
        if isinstance(operand, agrad.Tensor):
            same(operand, expected)
            assert operand.requires_grad and operand.op.name == first(x).op.name
    same(y.parents[0], expected)


def test_a_constant_that_is_gone() -> None:
    x = leaf([1.0, 2.0])
    c = agrad.asarray(np.array([5.0, 6.0]))
    y = x + c
    z, total = y - 1.0, agrad.sum(x + c)
    del c
    assert y.op.args[0] is y.parents[0] is x
    assert repr(y.op.args[1]) == "(not kept)"
    assert repr(y.op) == "<op add(x1, x2)>" and "op=add" in repr(y)
    fails(GraphFreedError, r"subtract: x1 .* retain_graph=True", lambda: z.op.args)
    rows = agrad.graph(z).rows
    assert rows[1].inputs[1].value is rows[1].value is None
    same(rows[2].value, [5.0, 7.0])
    row = agrad.graph(total).rows[1]
    assert (row.value, row.shape, row.dtype) == (None, (2,), agrad.float64)


@pytest.mark.parametrize("how", ["deleted", "no leaf for a while"])
def test_a_leaf_that_is_gone(how: str) -> None:
    x = leaf([1.0, 2.0])
    kept, lost = x * x, x + 1.0
    if how == "deleted":
        del x
    else:
        x.requires_grad = False
        x.requires_grad = True
        assert kept.op.args[0] is not x
    same(kept.op.args[0], [1.0, 2.0])
    agrad.sum(kept.op.args[0] * 3.0).backward()
    fails(GraphFreedError, r"add: x1 .* retain_graph=True", lambda: lost.op.args)


def test_values_of_the_tape_go_before_those_a_leaf_has_now() -> None:
    x = leaf([1.0, 2.0])
    y = (x + 1.0) - (x * x)
    z, w = y - 2.0, ((x * x) - (x + 1.0)) - 2.0
    x.assign(np.array([10.0, 20.0]))
    same(z.op.args[0], [1.0, -1.0])
    same(w.op.args[0], [-1.0, 1.0])
    assert y.op.args[1].op.args[0] is x
    same(y.op.args[1], [1.0, 4.0])
    same(agrad.graph(y).rows[0].value, [1.0, 2.0])
    same(agrad.graph(y).rows[1].value, [2.0, 3.0])


def test_a_leaf_of_another_shape_by_now_is_no_value_to_show() -> None:
    x = leaf([1.0, 2.0])
    c = agrad.asarray(np.ones(2))
    y = (x + c) + 1.0
    x.data = np.zeros(3)
    fails(GraphFreedError, r"add: x1 is not available, .* Keep a reference", lambda: y.op.args)
    assert "add" in str(agrad.graph(y))


def test_a_freed_graph() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    s = x + y
    total = agrad.sum(s * 2.0)
    total.backward(retain_graph=True)
    same(total.op.args[0], [8.0, 12.0])
    assert total.op.settings["axis"] == (0,)
    total.backward()
    assert (total.op.name, repr(total.op)) == ("sum", "<op sum(x)>") and "op=sum" in repr(total)
    assert s.op.args[0] is x and s.parents[1] is y
    for look in (lambda: total.op.args, lambda: total.parents, lambda: total.op.settings, lambda: total.grad_fn()):
        fails(GraphFreedError, "retain_graph=True", look)


def test_several_outputs(backend: str) -> None:
    x = leaf([0.5, 1.0])
    s, c = sine_and_cosine(x, scale=2.0)
    assert s.op == c.op
    assert (s.op.name, s.op.output, c.op.output) == ("sine_and_cosine", "s", "c")
    assert s.op.settings == {"scale": 2.0}
    assert c.op.args[0] is c.parents[0] is x
    assert repr(c.op) == "<op sine_and_cosine(x, scale=2.0), output c>"
    assert "op=sine_and_cosine, output=c" in repr(c)
    g = agrad.asarray([1.0, 10.0], dtype=agrad.float64)
    same(c.grad_fn(g)[0], [-2 * np.sin(0.5), -20 * np.sin(1.0)])
    same((c + 1.0).op.args[0], 2 * np.cos([0.5, 1.0]))


# ---------------------------------------------------------------- grad_fn


def test_grad_fn_gives_the_cotangents_of_the_parents(backend: str, place: Any) -> None:
    x, y = leaf([2.0, 3.0]), leaf([[5.0], [7.0]])
    z = x * y
    assert repr(z.grad_fn) == "<grad_fn of multiply>"
    g = place(np.array([[1.0, 10.0], [100.0, 1000.0]]))
    by_x, by_y = z.grad_fn(g)
    assert backend_of(by_x).name == backend and not isinstance(by_x, agrad.Tensor)
    same(by_x, [705.0, 7050.0])
    same(by_y, [[32.0], [3200.0]])
    as_tensors = z.grad_fn(agrad.asarray(g))
    assert all(isinstance(t, agrad.Tensor) for t in as_tensors)
    same(as_tensors[0], host(by_x))
    squared = (x * x).grad_fn(agrad.ones_like(x))
    assert len(squared) == 2
    same(squared[0], [2.0, 3.0])
    assert x.grad is None


@pytest.mark.parametrize(
    ("f", "first", "second"),
    [
        (agrad.exp, np.exp, np.exp),
        (lambda x: sine_and_cosine(x)[0], np.cos, lambda x: -np.sin(x)),
        (agrad.checkpoint(agrad.sin), np.cos, lambda x: -np.sin(x)),
    ],
    ids=["a rule of the output", "a rule of several outputs", "a checkpoint"],
)
def test_grad_fn_can_be_differentiated_again(f: Any, first: Any, second: Any, backend: str) -> None:
    x, g = leaf([0.5, 1.5]), leaf([1.0, 2.0])
    (by_x,) = f(x).grad_fn(g)
    agrad.sum(by_x).backward()
    at = np.asarray([0.5, 1.5])
    np.testing.assert_allclose(host(g.grad), first(at), rtol=1e-14)
    np.testing.assert_allclose(host(x.grad), second(at) * [1.0, 2.0], rtol=1e-14)


def test_grad_fn_checks_the_cotangent() -> None:
    y = leaf([1.0, 2.0]) * 2.0
    fails(ShapeError, "multiply", y.grad_fn)
    fails(ShapeError, r"\(3,\)", lambda: y.grad_fn(np.ones(3)))
    fails(DtypeError, "float32", lambda: y.grad_fn(np.ones(2, dtype=np.float32)))
    same(agrad.sum(y).grad_fn()[0], [1.0, 1.0])


def test_looking_adds_to_no_gradient_and_frees_nothing(backend: str) -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    y.retain_grad()
    y.grad_fn(agrad.ones_like(x))
    agrad.graph(agrad.sum(y), gradients=True)
    assert y.grad is x.grad is None
    for count in (1, 2):
        agrad.sum(y).backward(retain_graph=True)
        agrad.graph(agrad.sum(y), gradients=True)
        same(x.grad, [2.0 * count, 4.0 * count])


# ---------------------------------------------------------------- inside transforms


def test_inside_transforms() -> None:
    """The input is found although no rule needs it, and gradients flow through operands."""
    seen: list[str] = []
    w = leaf(3.0)

    def f(x: agrad.Tensor) -> Any:
        assert (x + 1.0).op.args[0] is x
        y = agrad.exp(x) * w
        assert (y.op.name, y.op.args[0].op.name, y.op.args[1] is w, len(y.parents)) == ("multiply", "exp", True, 1)
        seen.append(repr(y))
        return (agrad.exp(x) + 1.0).op.args[0] * x

    same(agrad.grad(f)(0.5), np.exp(0.5) * 1.5)
    same(agrad.grad(agrad.grad(f))(0.5), np.exp(0.5) * 2.5)
    assert seen[0].endswith("op=multiply, level=reverse)")
    assert seen[1].endswith("op=multiply, level=reverse in reverse)")


def test_inside_forward_mode() -> None:
    seen: list[str] = []

    def f(x: agrad.Tensor) -> Any:
        y = agrad.sin(x)
        assert (y.op, y.parents, y.grad_fn) == (None, (), None)
        seen.extend([repr(x), repr(y)])
        return y

    agrad.jvp(f, (0.5,), (2.0,))
    assert seen[0] == "Tensor(0.5, dtype=float64, backend=numpy, device=cpu, tangent=2.0, level=forward)"
    assert "tangent=1.7552" in seen[1]


def test_grad_fn_inside_nested_transforms() -> None:
    def f(x: agrad.Tensor) -> Any:
        return (x * agrad.sin(x)).grad_fn(agrad.ones_like(x))[1]

    # the pullback of the product for its second operand is x itself
    same(agrad.grad(f)(0.5), 1.0)


# ---------------------------------------------------------------- memory


def test_looking_makes_no_reference_cycle() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(np.ones(5))
        c = agrad.asarray(np.full(5, 2.0))
        y = agrad.sum((agrad.exp(x) + c) * x)
        s, _ = sine_and_cosine(x)
        looked: list[Any] = [y.op, y.op.args, y.parents, y.grad_fn, y.grad_fn(), repr(y), repr(y.op), s.op.args, s.op]
        looked += [y.grad_fn(agrad.asarray(1.0)), agrad.graph([y, agrad.sum(s)], gradients=True, names={"x": x})]
        looked += [str(looked[-1]), looked[-1].to_dot(), agrad.graph(y).rows]
        alive = [weakref.ref(t) for t in (x, y, y.op.args[0], x.data, c.data, looked[1][0], looked[1][0].data)]
        tape = [weakref.ref(e) for e in (*y.node.parents[0].saved,) if isinstance(e, np.ndarray)]
        assert tape
        del x, c, y, s, _, looked
        assert [r() for r in (*alive, *tape)] == [None] * (len(alive) + len(tape))
        # an error's traceback must not keep the tape either
        z = leaf([1.0]) + 1.0
        gone = weakref.ref(z)
        fails(GraphFreedError, r"add: x1 is not available, .* Keep a reference", getattr, z.op, "args")
        del z
        assert gone() is None
    finally:
        gc.enable()


def test_a_graph_object_holds_nothing_of_the_tape() -> None:
    x = leaf(np.ones(5))
    y = agrad.sum(agrad.exp(x))
    node, kept = y.node.parents[0], weakref.ref(x)
    picture = agrad.graph(y, gradients=True)
    before = str(picture)
    y.backward()
    assert node.saved is None
    del x, y
    assert kept() is None
    assert str(picture) == before
