"""Which way a Jacobian is computed: forward or in reverse, with a map or without, in how many calls."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad
from agrad.engine import batching


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def test_jacobian_takes_the_cheaper_way(monkeypatch: pytest.MonkeyPatch) -> None:
    members = []
    original = batching.Batch.__init__

    def counted(self: Any, count: int) -> None:
        members.append(count)
        original(self, count)

    monkeypatch.setattr(batching.Batch, "__init__", counted)
    x, w = draw(3), draw(20, 3)
    assert_close(agrad.jacobian(lambda x: w @ x)(x), w, "tall")
    assert_close(agrad.jacobian(lambda x: w.T @ x)(draw(20)), w.T, "wide")
    assert members == [3, 3]
    agrad.jacobian(lambda x: w @ x, chunk_size=2)(x)
    assert members[2:] == [2]  # one vector alone needs no map


def test_a_single_row_needs_no_map() -> None:
    @agrad.primitive
    def cube(xp: Any, x: Any, /) -> Any:
        return x**3

    @cube.vjp
    @cube.jvp
    def cube_rule(g: Any, x: Any) -> Any:
        return 3 * g * x**2

    x = draw(3)
    assert_close(agrad.jacrev(lambda x: agrad.sum(cube(x)))(x), 3 * x**2, "one row")
    assert_close(agrad.jacrev(cube, chunk_size=1)(x), np.diag(3 * x**2), "row by row")
    assert_close(agrad.jacfwd(cube, chunk_size=1)(x), np.diag(3 * x**2), "column by column")


def test_jacobian_calls_a_function_of_few_arguments_once() -> None:
    called = []
    x, data = draw(3), draw(7, 3)

    def f(x: Any) -> Any:
        called.append(type(x))
        q, r = agrad.linalg.qr(agrad.reshape(data @ x, (7, 1)) * agrad.exp(x[:1]))
        big = agrad.concat([agrad.maximum(data @ x, 0.1), x[1] * data[:, 0], agrad.reshape(q, (7,)) * r[0, 0]])
        return {"big": big, "of one": agrad.stack([x[0], x[0] * 2.0]), "of none": agrad.asarray(data[0])}

    for chunk_size in (None, 1, 2):
        called.clear()
        found = agrad.jacobian(f, chunk_size=chunk_size)(x)
        assert len(called) == 1
        for name, block in agrad.jacrev(f)(x).items():
            assert_close(found[name], block, name)
    second = agrad.jacrev(agrad.jacobian(lambda x: f(x)["big"]))(x)
    assert_close(second, agrad.jacfwd(agrad.jacfwd(lambda x: f(x)["big"]))(x), "of the Jacobian")
    each = agrad.vmap(agrad.jacobian(lambda x: f(x)["big"]))(draw(4, 3))
    for k, row in enumerate(draw(4, 3)):
        assert_close(each[k], agrad.jacrev(lambda x: f(x)["big"])(row), "of each")


def test_jacobian_of_functions_with_derivatives_of_their_own() -> None:
    @agrad.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * g * x**2,))
    x = draw(2)
    again = agrad.checkpoint(lambda x: agrad.concat([agrad.sin(x), x * x]))
    assert_close(
        agrad.jacobian(again)(x), np.concatenate([np.diag(np.cos(x)), np.diag(2 * x)]), "of a checkpointed function"
    )
    assert_close(agrad.jacobian(cube)(x), np.diag(3 * x**2), "in reverse")


def test_infinite_slopes_behind_where() -> None:
    """The recorded pullback keeps them: a guard puts 0 only where a branch is not used."""

    def f(x: Any) -> Any:
        return agrad.where(x >= 0, agrad.sqrt(x), 0.0 * x)

    x = np.asarray([0.0, 1.0])
    with np.errstate(all="ignore"):
        assert agrad.linearize(f, x)[1](np.ones(2)).tolist() == [np.inf, 0.5]
        tall = agrad.jacobian(lambda x: agrad.concat([f(x), x]))(x)
        assert np.diagonal(tall).tolist() == [np.inf, 0.5]
        unused = agrad.jacobian(lambda x: agrad.concat([agrad.where(x > 1.0, agrad.sqrt(x), x), x]))(x)
        assert_close(unused, np.concatenate([np.eye(2)] * 2), "of a branch that is not used")


@pytest.mark.parametrize("batch", ["vmap", "loop"])
def test_a_rule_that_takes_no_tensors_is_transposed_in_reverse(batch: str) -> None:
    @agrad.custom_vjp(batch=batch)
    def f(x: Any) -> Any:
        return np.concatenate([np.sin(x), np.cos(x)])

    def bwd(x: Any, g: Any) -> tuple[Any]:
        host = np.asarray(g)
        return (host[:2] * np.cos(x) - host[2:] * np.sin(x),)

    f.defvjp(lambda x: (f.f(x), x), bwd)
    x = draw(2)
    if batch == "loop":
        expected = np.concatenate([np.diag(np.cos(x)), np.diag(-np.sin(x))])
        assert_close(agrad.jacobian(f)(x), expected, "tall")
    else:
        with pytest.raises(agrad.errors.TracedValueError, match='batch="loop"'):
            agrad.jacobian(f)(x)
