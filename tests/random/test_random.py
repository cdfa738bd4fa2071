"""Random numbers: the published generator, the same bits on every backend, and the faces of ``agrad.random``."""

import threading
from collections.abc import Callable
from typing import Any

import cases  # noqa: F401 - files its rows
import numpy as np
import pytest
from processes import run_program
from refusals import Refusal, fails, refuses
from table import ROWS, Case
from tensors import host

import agrad
from agrad import philox, random
from agrad.backends import backend_of, load
from agrad.errors import ConfigurationError, DataError, DtypeError, OperandError, ShapeError
from agrad.registry import KERNELS, PRIMITIVES

# Random123's kat_vectors for philox4x64 with 10 rounds: counter, key, result
ONES = 2**64 - 1
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
    ((ONES,) * 4, (ONES,) * 2, (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0)),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]


WITHOUT_ROUNDING = [f"random_{name}" for name in ("keys", "bits", "uniform", "mask", "integers", "permutation")]


def words(values: tuple[int, ...], place: Callable[[np.ndarray], Any]) -> list[Any]:
    return [place(np.asarray([philox.signed(value)], dtype=np.int64)) for value in values]


# ------------------------------------------------------------------ the generator


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_the_published_vectors(counter: Any, key: Any, expected: Any, backend: str, place: Any) -> None:
    found = philox.blocks(tuple(words(counter, place)), tuple(words(key, place)))
    assert [int(host(word)[0]) & ONES for word in found] == list(expected)


def test_the_words_of_a_seed_are_the_published_ones(backend: str) -> None:
    assert host(random.bits(random.key(0), (4,), dtype="uint64")).tolist() == list(KNOWN[0][2])
    # key and counter are the words of the seed, the lowest first, and the number of the block
    own = np.random.Philox(key=0x452821E638D01377 | 0xBE5466CF34E90C6C << 64, counter=2**256 - 1)
    seed = 0xBE5466CF34E90C6C452821E638D01377
    np.testing.assert_array_equal(host(random.bits(random.key(seed), (9,), dtype="uint64")), own.random_raw(9))


@pytest.mark.parametrize("name", WITHOUT_ROUNDING)
def test_every_way_to_draw_has_the_same_bits(name: str, backend: str, place: Any) -> None:
    """The generic code and the backend's kernel, where there is one, agree with the generic code on NumPy."""
    primitive = PRIMITIVES[name]
    for example in ROWS[name].examples:
        key, settings = Case(ROWS[name], example).arguments()[0], example.settings
        right = primitive.forward(load("numpy").xp, key, **settings)
        ways = [primitive.forward(load(backend).xp, place(key), **settings), primitive.bind(place(key), **settings)]
        for found in ways:
            assert backend_of(found).name == backend
            np.testing.assert_array_equal(host(found), right, strict=True)
    if backend != "array_api_strict":
        assert (backend, name, "forward") in KERNELS


def test_normal_numbers_are_the_same_up_to_rounding(backend: str) -> None:
    for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-14)):
        found = host(random.normal(random.key(3), (70_001,), dtype=dtype))
        right = host(random.normal(random.key(3, backend="numpy"), (70_001,), dtype=dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance)


def test_the_two_dtypes_have_the_same_samples(backend: str) -> None:
    key = random.key(5)
    for draw, tolerance in ((random.uniform, 1e-7), (random.exponential, 1e-4), (random.normal, 1e-4)):
        single, double = host(draw(key, (1000,), dtype="float32")), host(draw(key, (1000,), dtype="float64"))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, double, atol=tolerance, rtol=tolerance)


def test_pinned_numbers() -> None:
    """Fixed for ever: what is drawn of a key is part of the interface."""
    key = random.key(2024)
    assert host(random.bits(key, (3,))).tolist() == PINNED["bits"]
    assert host(random.split(key)).tolist() == PINNED["split"]
    assert host(random.fold_in(key, 2**64 + 7)).tolist() == PINNED["fold_in"]
    assert host(random.uniform(key, (2,), dtype="float64")).tolist() == PINNED["uniform"]
    assert host(random.randint(key, -5, 1000, (5,))).tolist() == PINNED["randint"]
    assert host(random.permutation(key, 7)).tolist() == PINNED["permutation"]
    np.testing.assert_allclose(host(random.normal(key, (2,), dtype="float64")), PINNED["normal"], rtol=1e-14)
    np.testing.assert_allclose(host(random.gamma(key, 0.5, (2,), dtype="float64")), PINNED["gamma"], rtol=1e-13)


PINNED: dict[str, list[Any]] = {
    "bits": [166306299, 3358236993, 2256767277],
    "split": [[1839243717, 1954238060, 2423498510, 2256607335], [3220187507, 1992476485, 3310964711, 1755235486]],
    "fold_in": [2673668308, 2810412060, 3239289562, 1254366128],
    "uniform": [0.7819004806314411, 0.8557110478927951],
    "randint": [563, 503, 617, 104, 903],
    "permutation": [5, 4, 0, 6, 1, 3, 2],
    "normal": [0.0433436430099432, -1.119749629579102],
    "gamma": [0.31224533764240275, 0.17744930096469105],
}


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64", "int8", "int32", "int64"])
def test_a_dtype_by_its_name_and_by_any_librarys_object(name: str, backend: str) -> None:
    key = random.key(3)
    draws = [lambda dtype: random.randint(key, 3, 90, (5,), dtype=dtype)]
    draws += [lambda dtype: random.bits(key, (5,), dtype=dtype)] if name[0] == "u" else []
    for draw in draws:
        right = host(draw(name))
        assert right.dtype == name
        for dtype in (getattr(agrad, name), np.dtype(name), getattr(np, name), getattr(load(backend).xp, name)):
            np.testing.assert_array_equal(host(draw(dtype)), right, strict=True)
    assert host(random.bits(key, (5,))).dtype == np.uint32


@pytest.mark.needs("jax")
def test_jax_without_64_bits_and_in_its_traces() -> None:
    code = """
import jax, jax.numpy as jnp, numpy as np, agrad
from agrad import random
from agrad.errors import DtypeError
words = np.asarray([1, 2, 3, 4], dtype=np.uint32)
key, alpha = jnp.asarray(words), np.float32(0.7)
def draws(key, alpha):
    return (random.bits(key, (5,)), random.uniform(key, (5,), dtype='float32'), random.split(key), random.permutation(
            key, 9), random.randint(key, -5, 2**31 - 1, (4,), dtype='int32'), random.bernoulli(key, 0.3, (9,)),
            random.normal(key, (5,), dtype='float32'), random.gamma(key, alpha, (5,)))
right = draws(words, np.asarray(alpha))
results = [draws(key, jnp.asarray(alpha))]
try:
    results.append(jax.jit(draws)(key, alpha))
except DtypeError as error:
    assert jax.__version_info__ < (0, 8) and "install a newer JAX" in str(error)
for found in results:
    for a, b in zip(found[:-2], right[:-2]):
        assert isinstance(a, jax.Array)
        np.testing.assert_array_equal(np.asarray(a), b)
    for a, b in zip(found[-2:], right[-2:]):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4)
assert not jax.config.jax_enable_x64
for wrong in (lambda: random.uniform(key, dtype='float64'), lambda: random.bits(key, dtype='uint64')):
    try:
        wrong()
    except DtypeError as error:
        assert "set_backend('jax')" in str(error)
    else:
        raise SystemExit('no error')
"""
    run_program(code)


@pytest.mark.needs("dask")
def test_dask_draws_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from agrad.backends import dask as dask_backend

    monkeypatch.setattr(dask_backend, "_CHUNK", 64)
    here, there = random.key(1), random.key(1, backend="dask")
    for draw in (
        lambda key: random.bits(key, (7, 43), dtype="uint16"),
        lambda key: random.uniform(key, (301,), dtype="float64"),
        lambda key: random.uniform(key, (7, 43), dtype="float32"),
        lambda key: random.bernoulli(key, 0.4, (301,)),
    ):
        np.testing.assert_array_equal(host(draw(there)), host(draw(here)))
    assert random.uniform(there, (301,)).raw.npartitions == 5


# ------------------------------------------------------------------ keys


def test_keys(backend: str) -> None:
    key = random.key(2**127 + 2**64 + 2**33 + 5)
    assert host(key).tolist() == [5, 2, 1, 2**31]
    assert (key.shape, key.dtype, key.backend) == ((4,), agrad.uint32, backend)
    rows = host(random.split(key, 50))
    assert rows.shape == (50, 4)
    folded = np.stack([host(random.fold_in(key, data)) for data in (0, 1, 2**64, 2**128 - 1)])
    every = np.concatenate([rows, folded, host(key)[None], host(random.bits(key, (4, 4)))])
    assert len(np.unique(every, axis=0)) == len(every)
    np.testing.assert_array_equal(rows[:7], host(random.split(key, 7)))
    np.testing.assert_array_equal(host(random.split(random.split(key)[1])), host(random.split(random.split(key)[1])))


def test_a_raw_key_gives_raw_arrays(backend: str, place: Any) -> None:
    key = place(np.asarray([1, 2, 3, 4], dtype=np.uint32))
    kind = type(place(np.zeros(2)))
    for drawn in (
        random.split(key), random.bits(key, (2,)), random.normal(key, (2,), loc=1.0), random.gamma(key, 2.0, (2,)),
        random.truncated_normal(key, -1, 1, (2,)), random.permutation(key, 3), random.choice(key, 5, (2,)),
    ):  # fmt: skip
        assert isinstance(drawn, kind)
        assert not isinstance(drawn, agrad.Tensor)
    assert isinstance(random.normal(key, (2,), loc=agrad.asarray(place(np.zeros(2)))), agrad.Tensor)


def test_dtypes_shapes_and_places(backend: str) -> None:
    key = random.key(0)
    default = agrad.zeros(()).dtype
    mean = agrad.asarray(np.asarray([0.0, 1.0], dtype=np.float32), backend=backend, device=key.device)
    for draw in (random.uniform, random.normal, random.exponential):
        assert draw(key).shape == ()
        assert draw(key, 3).shape == (3,)
        assert draw(key, [2, 3]).shape == (2, 3)
        assert draw(key, (0, 3)).shape == (0, 3)
        assert draw(key).dtype == default
        assert draw(key, dtype=agrad.float32).dtype == agrad.float32
        assert draw(key, (3,)).backend == backend
        assert draw(key, (3,)).device == key.device
    assert random.normal(key, loc=mean).shape == (2,)
    assert random.normal(key, loc=mean).dtype == agrad.float32
    assert random.normal(key, (4, 2), loc=mean, scale=2.0).shape == (4, 2)
    assert random.uniform(key, low=mean, high=mean + 1, dtype="float64").dtype == agrad.float64
    assert random.gamma(key, mean + 1, scale=mean + 1).dtype == agrad.float32
    spread = random.gamma(key, 2.0, scale=agrad.asarray(np.asarray([1.0, 1.0]), backend=backend, device=key.device))
    assert (spread.shape, spread.dtype) == ((2,), agrad.float64)
    assert host(spread)[0] != host(spread)[1]
    assert random.dirichlet(key, mean + 1, (3, 4)).shape == (3, 4, 2)
    assert random.beta(key, mean + 1, 2.0).shape == (2,)
    assert random.categorical(key, mean).shape == ()
    assert random.categorical(key, agrad.broadcast_to(mean, (3, 2)), (4, 3)).shape == (4, 3)
    assert random.categorical(key, agrad.broadcast_to(mean, (3, 2)), axis=0).shape == (2,)
    assert random.bernoulli(key, mean / 2, (3, 2)).dtype == agrad.bool
    assert random.randint(key, 0, 5).dtype == agrad.asarray(0).dtype
    assert random.choice(key, agrad.broadcast_to(mean, (3, 2)), (5, 4), axis=1).shape == (3, 5, 4)
    assert random.truncated_normal(key, -1.0, mean + 1).shape == (2,)


DRAWN: dict[str, Callable[[Any, Any], Any]] = {
    "split": lambda key, a: random.split(key, 3),
    "fold_in": lambda key, a: random.fold_in(key, 7),
    "bits": lambda key, a: random.bits(key, (3,), dtype="uint16"),
    "uniform": lambda key, a: random.uniform(key, (3,), low=-1.0, high=2.5),
    "uniform between arrays": lambda key, a: random.uniform(key, low=a, high=a + 2),
    "normal": lambda key, a: random.normal(key, (3,), loc=2.0, scale=0.5),
    "normal of arrays": lambda key, a: random.normal(key, loc=a, scale=a),
    "truncated_normal": lambda key, a: random.truncated_normal(key, -0.5, a, loc=1.0, scale=2.0),
    "exponential": lambda key, a: random.exponential(key, (3,), scale=4.0),
    "gamma": lambda key, a: random.gamma(key, 0.7, (3,), scale=3.0),
    "gamma of arrays": lambda key, a: random.gamma(key, a, scale=a),
    "log_gamma": lambda key, a: random.log_gamma(key, 0.7, (3,)),
    "beta": lambda key, a: random.beta(key, a, 2.0),
    "dirichlet": lambda key, a: random.dirichlet(key, a, (2,)),
    "bernoulli": lambda key, a: random.bernoulli(key, 0.3, (9,)),
    "bernoulli of arrays": lambda key, a: random.bernoulli(key, a / 4, (5, 3)),
    "categorical": lambda key, a: random.categorical(key, a, (5,)),
    "randint": lambda key, a: random.randint(key, -2, 9, (5,), dtype="int16"),
    "permutation": lambda key, a: random.permutation(key, 6),
    "permutation of an array": lambda key, a: random.permutation(key, a),
    "choice": lambda key, a: random.choice(key, 5, (4,)),
    "choice without replacement": lambda key, a: random.choice(key, a, (2,), replace=False),
    "choice by probabilities": lambda key, a: random.choice(key, 3, (6,), p=a / agrad.sum(a)),
    "choice by probabilities, without": lambda key, a: random.choice(key, a, (2,), replace=False, p=a / agrad.sum(a)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_where_the_key_is_whatever_is_selected(name: str, backend: str) -> None:
    """On one backend's device while another one is selected, by one key the same numbers."""
    draw, values = DRAWN[name], np.asarray([0.5, 1.5, 2.5])
    key = random.key(8)
    array = agrad.asarray(values, backend=backend, device=key.device) + 0.0
    with agrad.use_backend("numpy"):
        right = draw(random.key(8), agrad.asarray(values))
    with agrad.use_backend("numpy" if backend != "numpy" else "array_api_strict"):
        found = draw(key, array)
    assert (found.backend, found.device, found.shape) == (backend, key.device, right.shape)
    if agrad.isdtype(right.dtype, "real floating"):
        default = name in ("uniform", "normal", "exponential", "gamma", "log_gamma")
        assert found.dtype == (agrad.zeros(()).dtype if default else agrad.float64)  # of the key's backend
    np.testing.assert_allclose(host(found), host(right), rtol=1e-12 if found.dtype == right.dtype else 1e-5)


@pytest.mark.parametrize("n", [1, 300])
def test_refused_proposals_are_drawn_again_alike_under_jit(n: int, backend: str) -> None:
    def draw(key: Any) -> Any:
        return random.log_gamma(key, 0.5, (n,), dtype="float64")

    key = random.key(3)
    np.testing.assert_allclose(host(agrad.jit(draw)(key)), host(draw(key)), rtol=1e-10, atol=1e-12)


PARAMETERS = [
    (random.uniform, {"low": 0.0, "high": 1.0}),
    (random.normal, {"loc": 0.0, "scale": 1.0}),
    (random.truncated_normal, {"lower": -1.0, "upper": 1.0, "loc": 0.0, "scale": 1.0}),
    (random.exponential, {"scale": 1.0}),
    (random.gamma, {"alpha": 2.0, "scale": 1.0}),
    (random.log_gamma, {"alpha": 2.0}),
    (random.beta, {"a": 2.0, "b": 3.0}),
]


@pytest.mark.parametrize("draw, numbers", PARAMETERS, ids=lambda x: getattr(x, "__name__", ""))
def test_each_parameter_gives_the_shape(draw: Callable[..., Any], numbers: dict[str, float], place: Any) -> None:
    """A parameter that is an array asks for as many draws as it has elements, whichever parameter it is."""
    key = random.key(4)
    expected = host(draw(key, **numbers, shape=(8,), dtype="float64"))
    assert len(set(expected.tolist())) == 8
    for name, value in numbers.items():
        got = draw(key, **numbers | {name: place(np.full(8, value))})
        np.testing.assert_allclose(host(got), expected, rtol=1e-12, strict=True)


def test_choice_and_permutation_of_arrays_are_differentiable(backend: str) -> None:
    key = random.key(4)
    x = agrad.asarray([1.0, 2.0, 3.0, 4.0], dtype=agrad.float64, requires_grad=True)
    agrad.sum(random.permutation(key, x) * agrad.asarray([1.0, 10.0, 100.0, 1000.0], dtype=agrad.float64)).backward()
    places = host(random.permutation(key, 4))
    assert host(x.grad)[places].tolist() == [1.0, 10.0, 100.0, 1000.0]
    x.zero_grad()
    agrad.sum(random.choice(key, x, (100,))).backward()
    assert host(x.grad).sum() == 100
    np.testing.assert_array_equal(host(x.grad), np.bincount(host(random.choice(key, 4, (100,))), minlength=4))


KEY, MEAN = random.key(0, backend="numpy"), agrad.asarray([1.0, -2.0], backend="numpy")
REFUSED: list[Refusal] = [
    (ConfigurationError, "seed must be an integer from 0", lambda: random.key(-1)),
    (ConfigurationError, "seed must be an integer from 0", lambda: random.key(1.5)),
    (ConfigurationError, "seed must be an integer from 0", lambda: random.key(2**128)),
    (ConfigurationError, "data must be an intege", lambda: random.fold_in(KEY, -1)),
    (ConfigurationError, "n must be an intege", lambda: random.split(KEY, "two")),
    (OperandError, "must be a key, got int. ...agrad.random.key", lambda: random.normal(3, (2,))),
    (ShapeError, "split returns several keys", lambda: random.uniform(random.split(KEY), (2,))),
    (ShapeError, "dtype uint32", lambda: random.uniform(agrad.zeros(4), (2,))),
    (ShapeError, "a shape must be", lambda: random.uniform(KEY, (2, -1))),
    (ShapeError, "a shape must be", lambda: random.bits(KEY, 1.5)),
    (ShapeError, "do not broadcast", lambda: random.normal(KEY, (2,), loc=agrad.zeros(3))),
    (ShapeError, "do not broadcast", lambda: random.normal(KEY, (2,), loc=agrad.zeros((3, 2)))),
    (DtypeError, "float32 or float64, got float16", lambda: random.normal(KEY, (2,), dtype="float16")),
    (DtypeError, "float32 or float64, got int64", lambda: random.uniform(KEY, (2,), dtype=agrad.int64)),
    (DtypeError, "got complex", lambda: random.normal(KEY, loc=agrad.zeros(2, dtype=agrad.complex128))),
    (DtypeError, "bits: the dtype must be one of uint8, ... got int8", lambda: random.bits(KEY, (2,), dtype="int8")),
    (DtypeError, "uint32, uint64, got bool", lambda: random.bits(KEY, dtype=agrad.bool)),
    (DtypeError, "uint32, uint64, got float64", lambda: random.bits(KEY, dtype=np.dtype("float64"))),
    (DtypeError, "randint: ... an integer dtype, got float32", lambda: random.randint(KEY, 0, 5, dtype=agrad.float32)),
    (ConfigurationError, "alpha must be above 0", lambda: random.gamma(KEY, -1.0)),
    (ConfigurationError, "alpha must be above 0", lambda: random.beta(KEY, 0.0, 1.0)),
    (OperandError, "alpha must be a number or an array", lambda: random.gamma(KEY, "one")),
    (ShapeError, "alpha must have at least one axis", lambda: random.dirichlet(KEY, 1.0)),
    (ConfigurationError, "lower bound must be below", lambda: random.truncated_normal(KEY, 2, 1)),
    (ConfigurationError, "1 to 2", lambda: random.randint(KEY, 3, 3)),
    (ConfigurationError, "uint8 cannot represent", lambda: random.randint(KEY, 0, 257, dtype="uint8")),
    (OperandError, "bounds must be integers", lambda: random.randint(KEY, 0.5, 3)),
    (DtypeError, "an integer dtype", lambda: random.randint(KEY, 0, 3, dtype="float32")),
    (ConfigurationError, "from 0 to 1", lambda: random.bernoulli(KEY, 1.5)),
    (ShapeError, "must not have length 0", lambda: random.categorical(KEY, agrad.zeros((2, 0)))),
    (OperandError, "integer of at least 0", lambda: random.permutation(KEY, -1)),
    (ShapeError, "out of range", lambda: random.permutation(KEY, agrad.zeros(3), axis=1)),
    (ConfigurationError, "without replacement", lambda: random.choice(KEY, 3, (4,), replace=False)),
    (ConfigurationError, "4 of 0", lambda: random.choice(KEY, 0, (4,))),
    (ShapeError, "shape (3,)", lambda: random.choice(KEY, 3, (4,), p=agrad.ones(2))),
    (ConfigurationError, "lam must be above 0", lambda: random.poisson(KEY, -1.0)),
    (ShapeError, "(..., n) and (..., n, n), got (2,) and", lambda: random.multivariate_normal(KEY, MEAN, MEAN)),
    (ConfigurationError, "n must be an integer of at least 0, got -1", lambda: random.binomial(KEY, -1, 0.5)),
    (ConfigurationError, "n must be an integer of at least 0, got 2.5", lambda: random.binomial(KEY, 2.5, 0.5)),
    (ConfigurationError, "n must be an integer of at least 0, got inf", lambda: random.binomial(KEY, np.inf, 0.5)),
    (ConfigurationError, "binomial: p must be a number from 0 to 1 or an", lambda: random.binomial(KEY, 2, 1.5)),
    (ConfigurationError, "geometric: p must be above 0 and finite, got 0.0", lambda: random.geometric(KEY, 0.0)),
    (ConfigurationError, "geometric: p must be a number from 0 to 1 or an", lambda: random.geometric(KEY, 1.5)),
    (ConfigurationError, "seed must be an integer", lambda: random.Generator(-1)),
]
test_wrong_use_is_an_error = refuses(REFUSED)


# ------------------------------------------------------------------ a source of keys


def test_generator(backend: str) -> None:
    source, twin = random.Generator(9), random.Generator(9)
    given = [host(source.key()) for _ in range(5)]
    assert len({tuple(key) for key in given}) == 5
    np.testing.assert_array_equal(given[3], host(random.fold_in(random.key(9), 3)))
    assert source.key().backend == backend
    state = source.state()
    twin.load_state(state)
    np.testing.assert_array_equal(host(twin.key()), host(source.key()))
    assert repr(twin) == "Generator(seed=9)  # 7 keys given"
    fails(DataError, "'seed' and 'calls'", lambda: twin.load_state({"seed": 1}))


def test_threads_never_get_the_same_key() -> None:
    source, found = random.Generator(0), []

    def take() -> None:
        found.extend(tuple(host(source.key(backend="numpy"))) for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 300
