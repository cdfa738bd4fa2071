"""What leaves a transform is the caller's own: arrays to write into, which share memory with nothing."""

from collections.abc import Iterator, Sequence
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

    Where a library's arrays cannot be written into, the Tensors are.
    """
    arrays, before = _raws(outs), _raws(given)
    assert arrays
    backend = backend_of(arrays[0])
    if backend.shares_memory is None:
        check_own_tensors([leaf for leaf in flatten(outs)[0] if isinstance(leaf, agrad.Tensor)], flatten(given)[0])
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


def check_own_tensors(results: Sequence[Any], given: Sequence[Any]) -> None:
    values = [np.array(host(x)) for x in (*results, *given)]
    for i, result in enumerate(results):
        with agrad.no_grad():
            result[...] = values[i] = np.full_like(values[i], 77.0 + i)
        for now, then in zip((*results, *given), values, strict=True):
            assert np.array_equal(host(now), then)


def _raws(tree: Any) -> list[Any]:
    leaves = [leaf.raw if isinstance(leaf, agrad.Tensor) else leaf for leaf in flatten(tree)[0]]
    return [leaf for leaf in leaves if hasattr(leaf, "shape")]


PROGRAMS: dict[str, Any] = {
    "identity": lambda x, y: x,
    "the same twice": lambda x, y: (x, x),
    "both": lambda x, y: {"a": x, "b": y},
    "add": lambda x, y: x + y,
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
    "where": lambda x, y: agrad.where(x > 2.0, x, y),
    "constant": lambda x, y: (agrad.ones((2, 3)), x),
    "no copy": lambda x, y: agrad.astype(x, x.dtype, copy=False),
}


def _kept(x: Any) -> Any:
    y = agrad.tanh(x)
    return y, y * y


def _loss(f: Any) -> Any:
    return lambda x, y: sum((agrad.sum(leaf) for leaf in flatten(f(x, y))[0]), 0.0)


def arguments(place: Any) -> Iterator[Sequence[Any]]:
    """Yield two arrays, one array twice, and the same as Tensors."""
    for given in (place, lambda a: agrad.asarray(place(a))):
        yield given(X.copy()), given(X + 1.0)
        x = given(X.copy())
        yield x, x


def ones_like(xy: Any) -> tuple[Any, ...]:
    return tuple(x * 0 + 1.0 for x in xy)


def rule(x: Any, y: Any) -> Any:
    """Return the product, with a rule that returns what it keeps."""
    f = agrad.custom_vjp(lambda x, y: agrad.sum(x * y))
    f.defvjp(lambda x, y: (agrad.sum(x * y), (x, y)), lambda kept, g: (kept[1], kept[1]))
    return f(x, y)


BOTH = (0, 1)
TRANSFORMS: dict[str, Any] = {
    "value_and_grad": lambda f, xy: agrad.value_and_grad(_loss(f), BOTH)(*xy),
    "grad": lambda f, xy: agrad.grad(_loss(f))(*xy),
    "of a dict": lambda f, xy: agrad.grad(lambda d: _loss(f)(d["x"], d["y"]))({"x": xy[0], "y": xy[1]}),
    "aux": lambda f, xy: agrad.value_and_grad(lambda x, y: (_loss(f)(x, y), (f(x, y), x)), BOTH, has_aux=True)(*xy),
    "jvp": lambda f, xy: agrad.jvp(lambda x, y: (f(x, y), x), xy, ones_like(xy), has_aux=True),
    "jacrev": lambda f, xy: agrad.jacrev(f, BOTH)(*xy),
    "jacfwd": lambda f, xy: agrad.jacfwd(f, BOTH)(*xy),
    "jacobian": lambda f, xy: agrad.jacobian(f)(*xy),
    "hessian": lambda f, xy: agrad.hessian(_loss(f), BOTH)(*xy),
    "hvp": lambda f, xy: agrad.hvp(_loss(f), xy, ones_like(xy)),
    "checkpoint": lambda f, xy: agrad.checkpoint(f)(*xy),
}
OTHERS: dict[str, Any] = {
    "vmap": lambda xy: agrad.vmap(lambda x, y: (x, y, x))(*xy),
    "vmap of columns": lambda xy: agrad.vmap(lambda x, y: (x, x + y, x[1:]), in_axes=1, out_axes=1)(*xy),
    "vmap of one": lambda xy: agrad.vmap(lambda x, y: (x, y, 1.0), in_axes=(0, None))(*xy),
    "vmap to one": lambda xy: agrad.vmap(lambda x, y: (x, y), in_axes=(0, None), out_axes=(0, None))(*xy),
    "a custom rule": lambda xy: agrad.grad(rule, BOTH)(*xy),
    **{
        f"elementwise_grad of {name}": lambda xy, f=f: agrad.elementwise_grad(f, BOTH)(*xy)
        for name, f in (("sum", lambda x, y: x + y), ("x", lambda x, y: x), ("product", lambda x, y: x * y))
    },
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_results_of_transforms(transform: str, place: Any) -> None:
    for program in PROGRAMS.values():
        for xy in arguments(place):
            if transform == "checkpoint" and isinstance(xy[0], agrad.Tensor):
                continue  # it returns what the program returns
            check_own(TRANSFORMS[transform](program, xy), xy)


def test_results_of_other_transforms(place: Any) -> None:
    for transform in OTHERS.values():
        for xy in arguments(place):
            check_own(transform(xy), xy)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pullbacks_and_pushforwards(name: str, place: Any) -> None:
    """They are as before after a write to the value."""
    for xy in arguments(place):
        check_pullback_and_pushforward(PROGRAMS[name], xy)


def check_pullback_and_pushforward(program: Any, xy: Any) -> None:
    tangents = ones_like(xy)
    value, pull, aux = agrad.vjp(lambda x, y: (program(x, y), (x, y)), *xy, has_aux=True)
    pushed_value, push, push_aux = agrad.linearize(lambda x, y: (program(x, y), x), *xy, has_aux=True)
    cotangent = agrad.vjp(program, *xy)[0]
    before = [host(g).copy() for g in _raws((pull(cotangent), push(*tangents)))]
    check_own((value, aux), xy)
    check_own((pushed_value, push_aux), xy)
    again = pull(cotangent), push(*tangents)
    for found, then in zip(_raws(again), before, strict=True):
        assert_close(found, then, "after a write to the value", 0.0)
    check_own((again[0], cotangent), xy)
    check_own(again[1], (xy, tangents))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_leaves(name: str, place: Any) -> None:
    program = PROGRAMS[name]
    x, y = (agrad.asarray(place(a.copy()), requires_grad=True) for a in (X, X + 1.0))
    between = x * 1.0
    between.retain_grad()
    _loss(program)(between, y * 1.0 + between).backward()
    check_own([t.grad for t in (x, y, between) if t.grad is not None], [x, y])
    xy = (agrad.asarray(place(X.copy())), agrad.asarray(place(X + 1.0)))
    check_own(agrad.value_and_grad(_loss(program), BOTH)(*xy), xy)


def test_given_cotangents(place: Any) -> None:
    x, g = agrad.asarray(place(X.copy()), requires_grad=True), agrad.asarray(place(X.copy()))
    x.backward(g)
    check_own([x.grad, g])
    g = place(X.copy())
    check_own((agrad.linear_transpose(lambda x, y: x + y, place(X), place(X))(g), g))
