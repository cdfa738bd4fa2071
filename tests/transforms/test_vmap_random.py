"""Random draws under ``vmap``: an error, one draw for all members, or those of a loop with split keys."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import host
from refusals import fails

import agrad
from agrad import random
from agrad.errors import ConfigurationError
from agrad.nn import functional

X = np.random.default_rng(0).normal(size=(5, 4, 6))
W = np.random.default_rng(1).normal(size=6)
MEMBERS, ROWS = X.shape[:2]


def layer() -> agrad.nn.Dropout:
    made = agrad.nn.Dropout(0.5)
    made.load_host_state({"seed": 3, "calls": 0})
    return made


def keys(randomness: str, key: Any, count: int) -> list[Any]:
    return list(random.split(key, count)) if randomness == "different" else [key] * count


def next_keys(randomness: str, draws: int = 1) -> list[list[Any]]:
    """For each draw of ``layer()`` the keys of the members."""
    dropout = layer()
    return [keys(randomness, dropout.next_key(agrad.asarray(X)), MEMBERS) for _ in range(draws)]


def loss(w: Any, x: Any, key: Any) -> Any:
    return agrad.sum(functional.dropout(x * w, 0.5, key=key) ** 2)


def losses(dropout: Any, w: Any, x: Any) -> Any:
    return agrad.sum(dropout(x * w) ** 2)


WAYS: dict[str, Callable[..., Any]] = {
    "vmap": lambda f, **how: agrad.vmap(f, (None, 0), **how),
    "in chunks": lambda f, **how: agrad.vmap(f, (None, 0), chunk_size=2, **how),
    "jit around": lambda f, **how: agrad.jit(agrad.vmap(f, (None, 0), **how)),
    "jit inside": lambda f, **how: agrad.vmap(agrad.jit(f), (None, 0), **how),
    "checkpoint inside": lambda f, **how: agrad.vmap(agrad.checkpoint(f), (None, 0), **how),
    "checkpoint in chunks": lambda f, **how: agrad.vmap(agrad.checkpoint(f), (None, 0), chunk_size=2, **how),
}


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("way", WAYS)
def test_of_a_module_as_the_loop(way: str, randomness: str) -> None:
    """Values, the gradient of each member, and the gradient around the map; one call is counted."""
    (drawn,) = next_keys(randomness)
    values = [host(loss(W, x, k)) for x, k in zip(X, drawn, strict=True)]
    slopes = [host(agrad.grad(loss)(W, x, k)) for x, k in zip(X, drawn, strict=True)]
    dropout = layer()
    got = WAYS[way](lambda w, x: losses(dropout, w, x), randomness=randomness)(W, X)
    np.testing.assert_allclose(host(got), values)
    assert dropout.calls == 1
    inner = layer()
    got = WAYS[way](agrad.grad(lambda w, x: losses(inner, w, x)), randomness=randomness)(W, X)
    np.testing.assert_allclose(host(got), slopes)
    outer = layer()
    around = WAYS[way](lambda w, x: losses(outer, w, x), randomness=randomness)
    np.testing.assert_allclose(host(agrad.grad(lambda w: agrad.sum(around(w, X)))(W)), np.sum(slopes, axis=0))


def test_a_replay_draws_anew() -> None:
    dropout, expected = layer(), next_keys("different", 2)
    f = agrad.jit(agrad.vmap(lambda x: dropout(x), randomness="different"))
    for drawn in expected:
        members = [host(functional.dropout(x, key=k)) for x, k in zip(X, drawn, strict=True)]
        np.testing.assert_allclose(host(f(X)), members)


def test_other_operands_than_the_members_are_drawn_for_each_too() -> None:
    """Under a jitted function as well, of which the program for arrays alone draws once."""
    dropout, ((first, *_), others) = layer(), next_keys("different", 2)
    jitted = agrad.jit(lambda x: dropout(x))
    np.testing.assert_allclose(host(jitted(X[0])) != 0, host(functional.dropout(X[0], key=layer().next_key(X))) != 0)
    assert first is not None
    got = agrad.vmap(lambda w: jitted(X[0]) + 0 * w, randomness="different")(np.zeros(MEMBERS))
    np.testing.assert_allclose(host(got), [host(functional.dropout(X[0], key=k)) for k in others])


@pytest.mark.parametrize("inner", ["different", "same"])
@pytest.mark.parametrize("outer", ["different", "same"])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_each_map_says_how_its_members_draw(outer: str, inner: str, chunk_size: int | None) -> None:
    key = layer().next_key(agrad.asarray(X))
    expected = [
        [host(functional.dropout(row, key=k)) for row, k in zip(x, keys(inner, own, ROWS), strict=True)]
        for x, own in zip(X, keys(outer, key, MEMBERS), strict=True)
    ]
    rows = agrad.vmap(layer(), randomness=inner, chunk_size=chunk_size)
    np.testing.assert_allclose(host(agrad.vmap(rows, randomness=outer, chunk_size=chunk_size)(X)), expected)
    for maps in ((outer, "error"), ("error", inner)):
        twice = agrad.vmap(agrad.vmap(layer(), randomness=maps[1]), randomness=maps[0])
        fails(ConfigurationError, "Dropout: vmap must know how batch elements draw", twice, X)


DRAWS: dict[str, Callable[..., Any]] = {
    "dropout": functional.dropout,
    "dropout1d": functional.dropout1d,
    "alpha_dropout": lambda x, key=None: functional.alpha_dropout(x, 0.3, training=True, key=key),
    "feature_alpha_dropout": lambda x, key=None: functional.feature_alpha_dropout(x, 0.3, training=True, key=key),
    "rrelu": lambda x, key=None: functional.rrelu(x, training=True, key=key),
    "gumbel_softmax": lambda x, key=None: functional.gumbel_softmax(x, key=key),
    "generator": lambda x, key=None: (
        agrad.asarray(x) * random.normal(agrad.nn.generator().key() if key is None else key, (4, 6))
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_of_functions_as_the_loop(name: str, backend: str, place: Any) -> None:
    draw, x = DRAWS[name], place(X[:2])
    for randomness in ("different", "same"):
        agrad.nn.manual_seed(5)
        drawn = keys(randomness, agrad.nn.generator().key(), 2)
        expected = [host(draw(x[i, ...], key=k)) for i, k in enumerate(drawn)]
        agrad.nn.manual_seed(5)
        got = host(agrad.vmap(draw, randomness=randomness)(x))
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    fails(ConfigurationError, r'Call agrad\.vmap\(f, randomness="different"\)', agrad.vmap(draw), x)


def test_attention_drops_weights_of_each_member() -> None:
    attention = agrad.nn.MultiheadAttention(6, 2, dropout=0.5).to(agrad.float64)
    (drawn,) = next_keys("different")
    for need_weights in (True, False):
        expected = []
        for x, key in zip(X, drawn, strict=True):
            attention.dropout.next_key = lambda like, key=key: key
            expected.append(attention(x, x, x, need_weights=need_weights)[0].detach().numpy())
        del attention.dropout.next_key
        attention.dropout.load_host_state({"seed": 3, "calls": 0})
        run = agrad.vmap(lambda x, w=need_weights: attention(x, x, x, need_weights=w)[0], randomness="different")
        np.testing.assert_allclose(agrad.asarray(run(X)).detach().numpy(), expected)


def test_rules_called_member_by_member_draw_as_that_member() -> None:
    dropout = layer()

    @agrad.custom_vjp(batch="loop")
    def twice(x: Any) -> Any:
        return dropout(dropout(x))

    twice.defvjp(lambda x: (twice(x), None), lambda _, g: (g,))
    expected = []
    for x, *drawn in zip(X, *next_keys("different", 3), strict=True):
        for key in drawn:
            x = host(functional.dropout(x, key=key))
        expected.append(x)
    for chunk_size in (None, 2):
        dropout.load_host_state({"seed": 3, "calls": 0})
        f = agrad.vmap(lambda x: dropout(twice(x)), randomness="different", chunk_size=chunk_size)
        np.testing.assert_allclose(host(f(X)), expected)


def test_maps_of_derivatives_draw_once() -> None:
    dropout = layer()
    key = layer().next_key(agrad.asarray(X))
    for jacobian in (agrad.jacobian, agrad.jacfwd):
        dropout.load_host_state({"seed": 3, "calls": 0})
        got = jacobian(lambda w: dropout(agrad.asarray(X[0]) * w))(W)
        expected = jacobian(lambda w: functional.dropout(agrad.asarray(X[0]) * w, key=key))(W)
        np.testing.assert_allclose(host(got), host(expected))


def test_no_draw_no_question() -> None:
    np.testing.assert_allclose(host(agrad.vmap(agrad.nn.Dropout(0.5).eval())(X)), X)
    np.testing.assert_allclose(host(agrad.vmap(agrad.nn.Dropout(0.0))(X)), X)
    shared = agrad.vmap(lambda x: functional.dropout(x, key=random.key(1)))(np.ones((3, 50)))
    assert len(np.unique(host(shared), axis=0)) == 1  # the key is an argument like any other
    names = "vmap: randomness must be one of 'error', 'different', 'same', got 'all'"
    fails(ConfigurationError, names, agrad.vmap, agrad.sin, randomness="all")


def test_draws_of_no_members(place: Any) -> None:
    def f(x: Any) -> Any:
        here = agrad.asarray(x)
        key = agrad.random.Generator(0).key(backend=here.backend, device=here.device)
        return x * agrad.random.uniform(key, (2,))

    none = place(np.ones((0, 2)))
    mapped = agrad.vmap(f, randomness="different")
    for g in (mapped, agrad.jit(mapped), agrad.grad(lambda x: agrad.sum(mapped(x)))):
        assert g(none).shape == (0, 2)
