"""``checkpoint``: the same derivatives of every order and mode, in less memory; what it must repeat, it repeats."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from jit_help import memory_of
from modes import MODES, check_same
from refusals import fails

import agrad
from agrad import checkpoint
from agrad.errors import GraphFreedError, OperandError, RuleError

_rng = np.random.default_rng(3)
W, X, ROWS = _rng.standard_normal((3, 3)), _rng.standard_normal(3), _rng.standard_normal((4, 3))


def body(p: dict[str, Any], w: Any) -> dict[str, Any]:
    return {"x": agrad.tanh(agrad.matmul(w, p["x"])) * p["x"] + p["x"], "n": p["n"]}


def plain(x: Any, w: Any) -> Any:
    h = w * 2
    p = body(body({"x": x, "n": 3}, w), h)
    return agrad.sum(body(p, w)["x"] ** 2)


def recomputed(x: Any, w: Any) -> Any:
    """As ``plain``: an argument, closures over a leaf and over a result, and one checkpoint inside another."""
    h = w * 2
    one = checkpoint(body)
    p = checkpoint(lambda p: one(one(p, w), h))({"x": x, "n": 3})
    return agrad.sum(checkpoint(lambda p: body(p, w))(p)["x"] ** 2)


def test_every_mode_is_as_without_checkpoints(place: Any) -> None:
    x, w = place(X), place(W)
    check_same(recomputed, plain, (x, w), [*MODES, "jit of the gradient"], 1e-12)
    third = [agrad.grad(lambda w, f=f: agrad.sum(agrad.hessian(f)(x, w) ** 2))(w) for f in (recomputed, plain)]
    assert_close(third[0], host(third[1]), "third order", 1e-12)


@pytest.mark.parametrize("over", ["part", "whole"])
def test_what_is_written_into_an_argument_is_a_result(over: str) -> None:
    def f(a: Any) -> Any:
        if over == "part":
            a[0] = a[1] * 2.0
            return agrad.sum(a * a)
        part = a[1:]
        part *= a[0]
        a += 1.0
        return a

    def around(of: Any) -> Any:
        def loss(x: Any) -> Any:
            u = x * 1.0
            view = u[:2]
            return agrad.sum(agrad.sin(of(u))) + agrad.sum(u**3) + agrad.sum(view**2)

        return loss

    modes = ("gradient", "forward over reverse", "reverse over reverse", "jacfwd", "backward")
    check_same(around(checkpoint(f)), around(f), (X,), modes, 1e-12)


def test_the_tape_holds_one_node_and_is_freed() -> None:
    x = agrad.asarray(X, requires_grad=True)
    y = checkpoint(lambda x: agrad.sum(agrad.sin(agrad.exp(x))))(x)
    assert [row.op for row in agrad.graph(y).rows] == [None, "checkpoint <lambda>"]
    y.backward(retain_graph=True)
    y.backward()
    assert_close(x.grad, 2 * np.cos(np.exp(X)) * np.exp(X), "twice")
    fails(GraphFreedError, "checkpoint", y.backward)


def test_several_results_some_unused_and_some_no_arrays() -> None:
    x = agrad.asarray(X, requires_grad=True)

    def f(x: Any) -> Any:
        s = agrad.sin(x)
        return [s, s * 2, x, "name", agrad.argmax(x), None]

    a, b, same, name, place, nothing = checkpoint(f)(x)
    assert name == "name" and nothing is None and place.item() == int(np.argmax(X))
    assert "checkpoint f.1" in str(agrad.graph(b))
    agrad.sum(b * same + a).backward()
    assert_close(x.grad, 2 * np.cos(X) * X + 2 * np.sin(X) + np.cos(X), "several")


def test_no_grad_and_constants() -> None:
    runs = []
    f = checkpoint(lambda x: runs.append(1) or agrad.sin(x))
    x = agrad.asarray(X, requires_grad=True)
    with agrad.no_grad():
        assert not f(x).requires_grad
    assert not f(agrad.asarray(X)).requires_grad and isinstance(f(X), np.ndarray)
    y = agrad.sum(f(x))
    with agrad.no_grad():
        y.backward()
    assert len(runs) == 5
    assert x.grad is not None and not x.grad.requires_grad
    assert_close(x.grad, np.cos(X), "under no_grad")


def test_functional_keys_and_generators_repeat() -> None:
    key = agrad.random.key(0)
    noisy = lambda x: x * agrad.random.normal(key, (3,))  # noqa: E731
    assert_close(
        agrad.grad(lambda x: agrad.sum(checkpoint(noisy)(x)))(X), agrad.random.normal(key, (3,)).numpy(), "a key"
    )
    source = agrad.random.Generator(5)
    drawn: list[Any] = []

    def draw(x: Any) -> Any:
        drawn.append(agrad.random.normal(source.key(), (3,)).numpy())
        return agrad.sin(x * drawn[-1])

    x = agrad.asarray(X, requires_grad=True)
    y = checkpoint(draw)(x)
    before = agrad.random.normal(source.key(), (3,)).numpy()
    agrad.sum(y).backward()
    assert len(drawn) == 2 and (drawn[0] == drawn[1]).all()
    assert source.state() == {"seed": 5, "calls": 2}
    assert (before != drawn[0]).all()
    assert_close(x.grad, drawn[0] * np.cos(X * drawn[0]), "a generator")


def test_a_numpy_generator_repeats() -> None:
    rng = np.random.default_rng(0)
    seeds: list[int] = []
    f = checkpoint(lambda x: seeds.append(agrad.nn.seeding.draw_seed(rng)) or x * x)
    agrad.grad(lambda x: agrad.sum(f(x)))(X)
    assert len(seeds) == 2 and seeds[0] == seeds[1] != agrad.nn.seeding.draw_seed(rng)


def test_other_state_is_announced() -> None:
    class Counter:
        n = 0

    counter = Counter()

    def f(x: Any) -> Any:
        agrad.note_state(counter, lambda: counter.n, lambda n: setattr(counter, "n", n))
        counter.n += 1
        return x * counter.n * x

    g = checkpoint(f)
    value = agrad.grad(lambda x: agrad.sum(g(g(x))))(np.ones(1))
    assert counter.n == 2
    assert_close(value, [8.0], "1 x^2 squared, twice")


def test_a_function_that_does_another_thing_is_found_out() -> None:
    w = agrad.asarray(X, requires_grad=True)
    v = agrad.asarray(X, requires_grad=True)
    used = iter([w, v])
    y = checkpoint(lambda x: agrad.sum(x * next(used)))(agrad.asarray(X))
    fails(RuleError, "used another Tensor", y.backward)
    sizes = iter([1, 2])
    out = checkpoint(lambda x: [x * 2] * next(sizes))(w)
    fails(RuleError, "other results", agrad.sum(out[0]).backward)
    with pytest.raises(OperandError, match="must be a function"):
        checkpoint(3)  # type: ignore[arg-type]


LAYERS, WIDTH = 1000, 1000


def peak(pieces: int) -> tuple[float, np.ndarray]:
    """The greatest memory that a gradient through a chain of layers takes, in arrays of the chain; and the gradient."""
    x = agrad.asarray(np.linspace(0.1, 0.2, WIDTH), requires_grad=True)

    def chain(x: Any, layers: int) -> Any:
        for _ in range(layers):
            x = agrad.sin(x)
        return x

    run = chain if pieces == 1 else checkpoint(chain)

    def slope() -> None:
        y, done = x, 0
        for k in range(pieces):
            layers = (LAYERS - done) // (pieces - k)
            y = run(y, layers)
            done += layers
        agrad.sum(y).backward()

    return memory_of(slope)[1] / (8 * WIDTH), x.grad.numpy()


def test_the_memory_of_a_long_chain() -> None:
    """1,000 layers: about 1,000 arrays without checkpoints, and about twice the square root of that with them."""
    whole, expected = peak(1)
    pieced, found = peak(math.isqrt(LAYERS))
    assert np.array_equal(found, expected)
    assert whole > LAYERS
    assert pieced < 100
