"""Dropout by kinds, RReLU and Gumbel's softmax: values by the mask, keys, state, jit, vmap, and PyTorch's moments."""

from typing import Any

import numpy as np
import pytest
from refusals import fails
from torch_parity import close, here, host

import agrad
from agrad import nn, random
from agrad.errors import ShapeError

F = nn.functional
X = np.random.default_rng(24).normal(size=(4, 6, 3, 2)) + 3.0
KINDS: list[tuple[str, np.ndarray, tuple[int, ...]]] = [
    ("dropout", X, X.shape), ("dropout1d", X[0], (6, 3, 1)), ("dropout1d", X[0, :, :, 0], (6, 1)),
    ("dropout2d", X, (4, 6, 1, 1)), ("dropout2d", X[0], (6, 3, 1)), ("dropout3d", X, (4, 1, 1, 1)),
    ("dropout3d", X[None], (1, 4, 1, 1, 1)), ("alpha_dropout", X, X.shape),
    ("feature_alpha_dropout", X, (4, 6, 1, 1)),
]  # fmt: skip
"""Functions, arrays, and the shape of the mask."""
LAYERS = [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU]


def key(seed: int = 1) -> Any:
    place = agrad.zeros((1,))
    return random.key(seed, backend=place.backend, device=place.device)


def expected(name: str, kept: np.ndarray, x: np.ndarray, p: float) -> np.ndarray:
    if "alpha" not in name:
        return x * kept / (1 - p)
    limit = -1.0507009873554805 * 1.6732632423543772
    return (np.where(kept, x, limit) - limit * p) * ((1 - p) * (1 + p * limit**2)) ** -0.5


@pytest.mark.parametrize(("name", "x", "masked"), KINDS, ids=lambda v: v if isinstance(v, str) else "")
def test_kinds(backend: str, name: str, x: np.ndarray, masked: tuple[int, ...]) -> None:
    p, function = 0.3, getattr(F, name)
    kept = host(random.bernoulli(key(), 1 - p, masked))
    assert 0 < kept.sum() < kept.size

    def f(x: Any) -> Any:
        return function(x, p, training=True, key=key())

    value = expected(name, kept, x, p)
    close(f(here(x)), value, "the value")
    close(agrad.jit(f)(here(x)), value, "the jitted value")
    slope = expected(name, kept, np.ones_like(x), p) - expected(name, kept, np.zeros_like(x), p)
    close(agrad.grad(lambda x: agrad.sum(f(x)))(here(x)), slope, "the gradient")
    close(agrad.jvp(f, (here(x),), (here(x),))[1], slope * x, "the tangent")
    assert f(here(x.astype("float32"))).dtype == agrad.float32
    array = here(x)
    assert function(array, p, training=False) is array and function(array, 0.0, training=True) is array
    assert not host(function(array, 1.0, training=True)).any()


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_each_call_draws_anew(backend: str, jitted: bool) -> None:
    def f(x: Any) -> Any:
        return F.dropout(x) + F.rrelu(-x, training=True) + F.gumbel_softmax(x)

    f = agrad.jit(f) if jitted else f
    nn.manual_seed(5)
    first = [host(f(here(X))) for _ in range(3)]
    assert not np.array_equal(first[0], first[1]) and not np.array_equal(first[1], first[2])
    nn.manual_seed(5)
    for before in first:
        np.testing.assert_array_equal(host(f(here(X))), before)


def test_keys_of_members(backend: str) -> None:
    keys, rows = random.split(key(), 3), here(np.ones((3, 64)))
    apart = host(agrad.vmap(lambda k, x: F.dropout(x, key=k))(keys, rows))
    assert len({row.tobytes() for row in apart}) == 3
    for k, row in zip(range(3), apart, strict=True):
        np.testing.assert_array_equal(host(F.dropout(rows[k, ...], key=keys[k, ...])), row)
    alike = host(agrad.vmap(lambda x: F.dropout(x, key=key()))(rows))
    assert len({row.tobytes() for row in alike}) == 1


def test_alpha_dropout_keeps_mean_and_variance(backend: str) -> None:
    nn.manual_seed(3)
    x = here(np.random.default_rng(0).normal(size=(200, 300)))
    for y in (F.alpha_dropout(x, 0.4, training=True), F.feature_alpha_dropout(x, 0.4, training=True)):
        assert abs(float(agrad.mean(y))) < 0.02 and abs(float(agrad.var(y)) - 1) < 0.02


def test_rrelu(backend: str) -> None:
    x = X - 3.0
    close(F.rrelu(here(x), 0.1, 0.3), np.where(x > 0, x, 0.2 * x), "in evaluation")
    y = host(F.rrelu(here(x), 0.1, 0.3, training=True, key=key()))
    np.testing.assert_array_equal(y[x > 0], x[x > 0])
    slopes = y[x < 0] / x[x < 0]
    assert 0.1 <= slopes.min() < 0.13 and 0.27 < slopes.max() <= 0.3
    slope = host(agrad.grad(lambda x: agrad.sum(F.rrelu(x, 0.1, 0.3, True, key=key())))(here(x)))
    np.testing.assert_allclose(slope, np.where(x > 0, 1.0, y / x))


def test_gumbel_softmax(backend: str) -> None:
    logits = here(np.log(np.array([0.2, 0.5, 0.3])) * np.ones((4000, 1)))
    soft = F.gumbel_softmax(logits, tau=0.5, key=key())
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True, key=key())
    np.testing.assert_allclose(host(soft).sum(axis=1), 1.0)
    np.testing.assert_allclose(host(hard), np.eye(3)[host(soft).argmax(axis=1)], atol=1e-15)
    np.testing.assert_allclose(host(hard).mean(axis=0), [0.2, 0.5, 0.3], atol=0.03)
    weight = here(np.random.default_rng(1).normal(size=(4000, 3)))

    def loss(x: Any, hard: bool) -> Any:
        return agrad.sum(agrad.multiply(weight, F.gumbel_softmax(x, 0.5, hard, key=key())))

    slopes = [host(agrad.grad(loss)(logits, hard)) for hard in (False, True)]
    np.testing.assert_allclose(slopes[0], slopes[1])
    across = F.gumbel_softmax(logits, hard=True, dim=0, key=key())
    np.testing.assert_allclose(host(across).sum(axis=0), 1.0)


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: make.__name__)
def test_layers(backend: str, make: Any) -> None:
    x = here((X[0] if make is nn.Dropout1d else X) - 3.0)
    layer = make(rng=random.Generator(2))
    plain = [host(layer(x)) for _ in range(3)]
    assert len({y.tobytes() for y in plain}) == 3
    fresh = make()
    jitted = agrad.jit(fresh)
    jitted(x)
    fresh.load_state_dict({**layer.state_dict(), "calls": np.array(0)})
    for y in plain:
        np.testing.assert_allclose(host(jitted(x)), y, rtol=1e-12)
    assert fresh.state_dict() == layer.state_dict() == {"seed": layer.seed, "calls": 3}
    layer.eval()
    name = make.__name__
    close(layer(x), host(F.rrelu(x) if name == "RReLU" else x), "in evaluation")
    assert layer.calls == 3
    assert repr(layer) == (f"{name}(lower=0.125, upper=0.333333)" if name == "RReLU" else f"{name}(p=0.5)")


def test_small_arrays_and_calls_that_raise(backend: str) -> None:
    assert nn.Dropout(0.5)(here(np.zeros((0, 3)))).shape == (0, 3)
    assert nn.Dropout(0.5)(here(np.array(2.0))).item() in (0.0, 4.0)
    layer = nn.Dropout1d()
    fails(ShapeError, "dropout1d", lambda: layer(here(X)))
    assert layer.calls == 0
