"""The tape and the backward pass: what is visited, what is kept, what is freed, what is recorded, what is refused."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from leaves import leaf
from refusals import Refusal, fails, refuses

import agrad
from agrad.engine.tape import Node
from agrad.errors import (
    DtypeError,
    GraphFreedError,
    MissingRuleError,
    MixedBackendsError,
    NotDifferentiableError,
    RuleError,
    ShapeError,
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The cyclic garbage collector is off: what is freed is freed by counting references."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def counted() -> tuple[Any, list[int]]:
    """Doubling, and how often its backward rule ran."""
    calls = [0]

    @agrad.primitive(linear="x")
    def double(xp: Any, x: Any, /) -> Any:
        return 2 * x

    @double.vjp
    def double_vjp(g: Any) -> Any:
        calls[0] += 1
        return 2 * g

    return double, calls


# ---------------------------------------------------------------- the backward pass


def test_each_node_is_visited_once(backend: str) -> None:
    double, calls = counted()
    x = leaf([1.0, 2.0])
    shared = double(x)
    a, b = shared * 3, shared * shared
    agrad.sum(a * b + shared).backward()
    assert calls == [1]
    assert_close(x.grad, 72 * host(x) ** 2 + 2, "gradient of (6x)(4x^2) + 2x")
    calls[0], x = 0, leaf(1.0)
    y = x
    for _ in range(60):  # 2**60 paths
        y = double(y) * 0.25 + double(y) * 0.25
    y.backward()
    assert calls == [120]
    assert x.grad.item() == 1.0


def on_the_tape() -> set[int]:
    """The nodes and Tensors that are alive."""
    # by type(): asking some libraries' lazy modules for their class warns
    return {id(thing) for thing in gc.get_objects() if issubclass(type(thing), (Node, agrad.Tensor))}


@pytest.mark.parametrize("run_backward", [True, False])
def test_a_chain_of_many_operations(no_collector: None, run_backward: bool) -> None:
    """Backward without recursion, and the freeing of the graph without recursion either."""
    before = on_the_tape()
    x = leaf(np.ones(1))
    y = x
    for _ in range(50_000):
        y = y + 1.0
    if run_backward:
        y.backward()
        assert x.grad.item() == 1.0
    del x, y
    assert on_the_tape() <= before


def test_a_graph_is_freed_without_the_collector(no_collector: None) -> None:
    """Also that of a gradient that was computed from its own leaf: ``create_graph`` makes no cycle."""
    before = on_the_tape()
    x = leaf([1.0, 2.0])
    y = agrad.exp(x) * x
    z = agrad.sum(agrad.stack([y, y[::-1]]) @ agrad.ones((2, 2)))
    z.backward(create_graph=True)
    agrad.sum(x.grad * x.grad).backward()
    agrad.grad(lambda x: agrad.sum(agrad.grad(lambda x: agrad.sum(x**3))(x)))(np.ones(2))
    agrad.jvp(agrad.sin, (np.ones(2),), (np.ones(2),))
    alone = leaf([1.0, 2.0])
    agrad.sum(alone**3).backward(create_graph=True)
    assert alone.grad.requires_grad
    del x, y, z, alone
    assert on_the_tape() <= before


# ---------------------------------------------------------------- paths, accumulation, retaining


def test_gradients_accumulate_until_zeroed(backend: str, place: Any) -> None:
    x, cotangent = leaf([1.0, 2.0]), place(np.asarray([1.0, 10.0]))
    (x + 0.0).backward(cotangent)
    (x * 1).backward(agrad.asarray([1.0, 10.0], dtype=agrad.float64))
    assert_close(x.grad, [2.0, 20.0], "gradient")
    assert host(cotangent).tolist() == [1.0, 10.0]
    agrad.sum(x * x, keepdims=True).backward()
    held = x.grad
    x.zero_grad()
    assert x.grad is None
    agrad.sum(x * x).backward()
    assert_close(x.grad, 2 * host(x), "gradient")
    assert_close(held, [4.0, 24.0], "the gradient that was held")


def test_retain_graph(backend: str) -> None:
    x = leaf([1.0, 2.0])
    middle = agrad.exp(x)
    y = agrad.sum(middle * x)
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    expected = 3 * np.exp(host(x)) * (1 + host(x))
    assert_close(x.grad, expected, "gradient")
    fails(GraphFreedError, r"freed the values that sum needs.* retain_graph=True", y.backward)
    with pytest.raises(GraphFreedError, match="exp"):  # a part of the graph, found from another output
        agrad.sum(middle * 2).backward()
    assert_close(x.grad, expected, "the gradient is unchanged")


def test_create_graph_of_a_gradient_that_was_added_to(backend: str) -> None:
    x = leaf([1.0, 2.0])
    for power in (3, 2):
        agrad.sum(x**power).backward(create_graph=True)
    total = agrad.sum(x.grad)
    x.zero_grad()
    total.backward()
    assert_close(x.grad, 6 * host(x) + 2, "second derivative")


def test_retain_grad(backend: str) -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    y.retain_grad()
    assert y.grad is None
    y.retain_grad()
    z = agrad.sum(y * y)
    z.backward(retain_graph=True)
    assert_close(y.grad, 2 * host(y), "gradient of y")
    z.backward()
    assert_close(y.grad, 4 * host(y), "gradient of y, twice")
    assert_close(x.grad, 4 * 9 * host(x), "gradient of x, twice")
    x.retain_grad()
    x = leaf([3.0, 5.0])
    y = x * x
    y.retain_grad()
    agrad.sum(agrad.where(x > 4, y, 0 * y)).backward(create_graph=True)
    assert_close(y.grad, [0.0, 1.0], "behind a where, under create_graph")
    assert_close(x.grad, [0.0, 10.0], "gradient of x")
    y = x * 2
    agrad.sum(y).backward()
    with pytest.warns(UserWarning, match=r"result of multiply is None: .*no_grad.*retain_grad"):
        assert y.grad is None


# ---------------------------------------------------------------- what is refused

X, M = np.asarray([1.0, 2.0]), np.zeros((2, 3))
ERRORS: list[Refusal] = [
    (ShapeError, "(2,)", lambda: (leaf(X) * 2).backward()),
    (ShapeError, "must have shape (2,), got (3,)", lambda: (leaf(X) * 2).backward(np.ones(3))),
    (ShapeError, "got 1.0", lambda: (leaf(X) * 2).backward(1.0)),
    (DtypeError, "float64, got float32", lambda: (leaf(X) * 2).backward(np.ones(2, np.float32))),
    (
        MixedBackendsError,
        "array_api_strict",
        lambda: agrad.asarray(X, backend="numpy", requires_grad=True).backward(
            agrad.ones(2, backend="array_api_strict", dtype=agrad.float64)
        ),
    ),
    (NotDifferentiableError, "retain_grad(): ... requires_grad=True", lambda: agrad.zeros(2).retain_grad()),
    (ShapeError, "add: shapes (2, 3) and (4,) must be broadcastable", lambda: leaf(M) + agrad.ones(4)),
    (ShapeError, "matmul: shapes (2, 3) and (2, 3) ... x1 has length 3, ... x2 has", lambda: leaf(M) @ leaf(M)),
    (ShapeError, "(2, 3)...(4,)", lambda: agrad.where(leaf(M) > 0, leaf(M), agrad.ones(4))),
    (ShapeError, "concat: ..., got (2, 3) and (2, 2)", lambda: agrad.concat([leaf(M), agrad.ones((2, 2))])),
    (ShapeError, "shape must have 6 elements, got (4, 2)", lambda: agrad.reshape(leaf(M), (4, 2))),
    (ShapeError, "axis 2", lambda: agrad.sum(leaf(M), axis=2)),
    (DtypeError, "int64...Cast", lambda: agrad.asarray([1, 2], dtype=agrad.int64, requires_grad=True)),
    (DtypeError, "bool...Cast", lambda: agrad.asarray([True], requires_grad=True)),
    (DtypeError, "Cast", lambda: setattr(agrad.asarray([1, 2]), "requires_grad", True)),
    (NotDifferentiableError, "multiply...detach", lambda: setattr(leaf(X) * 2, "requires_grad", False)),
    (MissingRuleError, "bare has no vjp rule for x...@bare.vjp", lambda: agrad.sum(bare(leaf(X))).backward()),
    (MissingRuleError, "bare has no jvp rule for x", lambda: agrad.jvp(bare, (X,), (X,))),
    (
        MixedBackendsError,
        "add...device1...device2...to_device",
        lambda: agrad.add(*[agrad.ones(1, backend="array_api_strict", device=f"device{i}") for i in (1, 2)]),
    ),
]

test_errors = refuses(ERRORS, everywhere=True)


@agrad.primitive
def bare(xp: Any, x: Any, /) -> Any:
    return x * 2


def test_a_rule_that_fails_names_operation_argument_and_shapes() -> None:
    @agrad.primitive
    def brittle(xp: Any, x: Any, other: Any, /) -> Any:
        return x * other

    brittle.vjp("x")(lambda g, other: g * other[10])
    brittle.vjp("other")(lambda g, x: g * x)
    x, ones = leaf(np.ones((2, 3))), agrad.ones((2, 3))
    with pytest.raises(RuleError, match=r"brittle for x failed.*cotangent \(2, 3\).*other \(2, 3\)") as caught:
        agrad.sum(brittle(x, ones)).backward()
    assert "detect_anomaly" in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)
    with agrad.detect_anomaly():
        y = brittle(x, ones)  # the line that is named
    fails(RuleError, r"test_engine.py:\d+: .*the line that is named", agrad.sum(y).backward)


def test_requires_grad_is_a_property_of_leaves() -> None:
    x = agrad.ones(2)
    assert not x.requires_grad
    x.requires_grad = True
    y = x * 2
    assert y.requires_grad
    y.requires_grad = True
    x.requires_grad = False
    assert not (x * 2).requires_grad
    agrad.asarray([1, 2]).requires_grad = False
