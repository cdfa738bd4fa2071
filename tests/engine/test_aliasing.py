"""What leaves a transform is the caller's own: arrays to write into, which share memory with nothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad
from agrad.backends import backend_of
from agrad.transforms.trees import flatten

X = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def check_own(outs: Any, given: Any = ()) -> None:
    """No two arrays share memory, nor does one with those given; each can be written into without a change of others.

    The last of this only where a library's arrays can be written into.
    """
    arrays, before = _raws(outs), _raws(given)
    assert arrays
    backend = backend_of(arrays[0])
    if backend.shares_memory is None:
        return
    values = [np.array(host(array)) for array in (*arrays, *before)]
    for i, array in enumerate(arrays):
        if isinstance(array, np.generic):
            continue
        for other in (*arrays[:i], *before):
            assert isinstance(other, np.generic) or not backend.shares_memory(array, other)
        array[...] = 77.0 + i
        values[i] = np.full_like(values[i], 77.0 + i)
        for now, then in zip((*arrays, *before), values, strict=True):
            assert np.array_equal(host(now), then)


def _raws(tree: Any) -> list[Any]:
    leaves = [leaf.raw if isinstance(leaf, agrad.Tensor) else leaf for leaf in flatten(tree)[0]]
    return [leaf for leaf in leaves if hasattr(leaf, "shape")]


PROGRAMS: dict[str, Any] = {
    "identity": lambda x, y: x,
    "the same twice": lambda x, y: (x, x),
    "both": lambda x, y: {"a": x, "b": y},
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "exp and itself": lambda x, y: (agrad.exp(x), agrad.exp(y)),
    "a value and what uses it": lambda x, y: _kept(x),
    "views": lambda x, y: (x[0, ...], x[:, 1:], agrad.permute_dims(x, (1, 0)), agrad.reshape(y, (6,))),
    "flip": lambda x, y: (agrad.flip(x), agrad.flip(x, axis=0), agrad.real(y)),
    "broadcast": lambda x, y: (agrad.broadcast_to(x, (2, 2, 3)), y),
    "expand": lambda x, y: agrad.expand_dims(x, axis=0),
    "stack": lambda x, y: agrad.stack([x, x, y]),
    "concat": lambda x, y: agrad.concat([x, y]),
    "unstack": lambda x, y: agrad.unstack(agrad.concat([x, y])),
    "sum": lambda x, y: agrad.sum(x) + agrad.sum(y),
    "sum along an axis": lambda x, y: agrad.sum(x + y, axis=0),
    "mean": lambda x, y: agrad.mean(x, axis=1),
    "where": lambda x, y: agrad.where(x > 2.0, x, y),
    "constant": lambda x, y: (agrad.ones((2, 3)), x),
    "no copy": lambda x, y: agrad.astype(x, x.dtype, copy=False),
}


def _kept(x: Any) -> Any:
    y = agrad.tanh(x)
    return y, y * y


def _loss(f: Any) -> Any:
    return lambda x, y: sum((agrad.sum(leaf) for leaf in flatten(f(x, y))[0]), 0.0)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> Any:
    return PROGRAMS[request.param]


@pytest.fixture(params=["two", "one"])
def xy(request: pytest.FixtureRequest, place: Any) -> Sequence[Any]:
    """Two arrays, or one array twice."""
    x = place(X.copy())
    return (x, place(X + 1.0) if request.param == "two" else x)


def test_gradients(program: Any, xy: Any) -> None:
    loss = _loss(program)
    both = agrad.value_and_grad(loss, argnums=(0, 1))(*xy)
    check_own(both, xy)
    check_own(agrad.grad(loss)(*xy), xy)
    check_own(agrad.grad(lambda d: loss(d["x"], d["y"]))({"x": xy[0], "y": xy[1]}), xy)
    aux = agrad.value_and_grad(lambda x, y: (loss(x, y), (program(x, y), x)), argnums=(0, 1), has_aux=True)(*xy)
    check_own(aux, xy)


def test_pullbacks(program: Any, xy: Any) -> None:
    value, pullback, aux = agrad.vjp(lambda x, y: (program(x, y), (x, y)), *xy, has_aux=True)
    cotangent = agrad.vjp(program, *xy)[0]
    expected = [host(g).copy() for g in pullback(cotangent)]
    check_own((value, aux), xy)
    again = pullback(cotangent)
    for g, then in zip(again, expected, strict=True):
        assert_close(g, then, "after a write to the value", 0.0)
    check_own((again, cotangent), xy)


def test_tangents(program: Any, xy: Any, place: Any) -> None:
    tangents = (place(np.ones((2, 3))), place(np.ones((2, 3))))
    value, push, aux = agrad.linearize(lambda x, y: (program(x, y), x), *xy, has_aux=True)
    expected = [host(t).copy() for t in _raws(push(*tangents))]
    check_own((value, aux), xy)
    again = push(*tangents)
    for t, then in zip(_raws(again), expected, strict=True):
        assert_close(t, then, "after a write to the value", 0.0)
    check_own(again, (xy, tangents))
    check_own(agrad.jvp(lambda x, y: (program(x, y), x), xy, tangents, has_aux=True), (xy, tangents))


def test_matrices(program: Any, xy: Any) -> None:
    check_own(agrad.jacrev(program, argnums=(0, 1))(*xy), xy)
    check_own(agrad.jacfwd(program, argnums=(0, 1))(*xy), xy)
    check_own(agrad.jacobian(program)(*xy), xy)


def test_second_order(program: Any, xy: Any, place: Any) -> None:
    loss = _loss(program)
    check_own(agrad.hessian(loss, argnums=(0, 1))(*xy), xy)
    tangents = (place(np.ones((2, 3))), place(np.ones((2, 3))))
    check_own(agrad.hvp(loss, xy, tangents), (xy, tangents))


def test_checkpoints(program: Any, xy: Any) -> None:
    check_own(agrad.checkpoint(program)(*xy), xy)


def test_maps(xy: Any) -> None:
    check_own(agrad.vmap(lambda x, y: (x, y, x))(*xy), xy)
    check_own(agrad.vmap(lambda x, y: (x, x + y, x[1:]), in_axes=1, out_axes=1)(*xy), xy)
    check_own(agrad.vmap(lambda x, y: (x, y, 1.0), in_axes=(0, None))(*xy), xy)
    check_own(agrad.vmap(lambda x, y: (x, y), in_axes=(0, None), out_axes=(0, None))(*xy), xy)


def test_what_a_rule_by_hand_keeps_and_gives(xy: Any) -> None:
    @agrad.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return agrad.sum(x * y)

    f.defvjp(lambda x, y: (agrad.sum(x * y), (x, y)), lambda kept, g: (kept[1], kept[1]))
    check_own(agrad.grad(f, argnums=(0, 1))(*xy), xy)


def test_elementwise_gradients(xy: Any) -> None:
    for f in (lambda x, y: x + y, lambda x, y: x, lambda x, y: x * y):
        check_own(agrad.elementwise_grad(f, argnums=(0, 1))(*xy), xy)


def test_transposes(place: Any) -> None:
    g = place(X.copy())
    back = agrad.linear_transpose(lambda x, y: x + y, place(X), place(X))
    check_own((back(g), g))


def test_tensors_out_of_transforms(program: Any, place: Any) -> None:
    xy = (agrad.asarray(place(X.copy())), agrad.asarray(place(X + 1.0)))
    check_own(agrad.value_and_grad(_loss(program), argnums=(0, 1))(*xy), xy)


def test_gradients_of_leaves(program: Any, place: Any) -> None:
    x, y = (agrad.asarray(place(a.copy()), requires_grad=True) for a in (X, X + 1.0))
    between = x * 1.0
    between.retain_grad()
    _loss(program)(between, y * 1.0 + between).backward()
    check_own([t.grad for t in (x, y, between) if t.grad is not None], [x, y])
    x = agrad.asarray(place(X.copy()), requires_grad=True)
    g = agrad.asarray(place(X.copy()))
    x.backward(g)
    check_own([x.grad, g])
