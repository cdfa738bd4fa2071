"""The tape and the backward pass: what is visited, what is kept, what is freed, what is recorded, what is refused."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

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


def leaf(values: Any) -> agrad.Tensor:
    return agrad.asarray(values, dtype=agrad.float64, requires_grad=True)


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


def test_a_diamond_is_visited_once(backend: str) -> None:
    double, calls = counted()
    x = leaf([1.0, 2.0])
    shared = double(x)
    a, b = shared * 3, shared * shared
    agrad.sum(a * b + shared).backward()
    assert calls == [1]
    # (6x)(4x^2) + 2x
    assert_close(x.grad, 72 * host(x) ** 2 + 2, "gradient")


def test_a_tower_of_diamonds_is_linear_work() -> None:
    double, calls = counted()
    x = leaf(1.0)
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
def test_a_chain_of_a_million_operations(no_collector: None, run_backward: bool) -> None:
    """Backward without recursion, and the freeing of the graph without recursion either."""
    before = on_the_tape()
    x = leaf(np.ones(1))
    y = x
    for _ in range(1_000_000 if run_backward else 100_000):
        y = y + 1.0
    if run_backward:
        y.backward()
        assert x.grad.item() == 1.0
    del x, y
    assert on_the_tape() <= before


def test_a_graph_is_freed_without_the_collector(no_collector: None) -> None:
    before = on_the_tape()
    x = leaf([1.0, 2.0])
    y = agrad.exp(x) * x
    z = agrad.sum(agrad.stack([y, y[::-1]]) @ agrad.ones((2, 2)))
    z.backward(create_graph=True)
    agrad.sum(x.grad * x.grad).backward()
    agrad.grad(lambda x: agrad.sum(agrad.grad(lambda x: agrad.sum(x**3))(x)))(np.ones(2))
    agrad.jvp(agrad.sin, (np.ones(2),), (np.ones(2),))
    del x, y, z
    assert on_the_tape() <= before


def test_a_gradient_that_is_on_the_tape_is_freed_with_its_leaf(no_collector: None) -> None:
    """``create_graph`` makes a gradient that was computed from its own leaf, and still no cycle."""
    before = on_the_tape()
    x = leaf([1.0, 2.0])
    agrad.sum(x**3).backward(create_graph=True)
    assert x.grad.requires_grad
    del x
    assert on_the_tape() <= before


# ---------------------------------------------------------------- paths, accumulation, retaining


def test_a_path_that_does_not_reach_the_output(backend: str) -> None:
    x, other = leaf([1.0, 2.0]), leaf([3.0])
    unused = other * 2 + agrad.sum(x)
    y = agrad.sum(x * 3)
    y.backward()
    assert other.grad is None
    assert_close(x.grad, [3.0, 3.0], "gradient")
    assert unused.requires_grad
    zero = agrad.grad(lambda a, b: agrad.sum(a), argnums=1)(x.raw, other.raw)
    assert not host(zero).any()
    assert zero.shape == (1,)


def test_gradients_accumulate_until_zeroed(backend: str) -> None:
    x = leaf([1.0, 2.0])
    for k in (1, 2, 3):
        agrad.sum(x * x).backward()
        assert_close(x.grad, 2 * k * host(x), "gradient")
    held = x.grad
    x.zero_grad()
    assert x.grad is None
    assert_close(held, 6 * host(x), "the gradient that was held")
    agrad.sum(x * x).backward()
    assert_close(x.grad, 2 * host(x), "gradient")
    assert_close(held, 6 * host(x), "the gradient that was held")


def test_accumulation_does_not_write_into_an_earlier_gradient() -> None:
    x = leaf(np.ones(2))
    cotangent = np.ones(2)
    (x + 0.0).backward(cotangent)
    (x + 0.0).backward(cotangent)
    assert_close(x.grad, [2.0, 2.0], "gradient")
    assert cotangent.tolist() == [1.0, 1.0]


def test_a_freed_part_is_found_from_another_output() -> None:
    x = leaf([1.0, 2.0])
    middle = agrad.exp(x)
    agrad.sum(middle).backward()
    with pytest.raises(GraphFreedError, match="exp"):
        agrad.sum(middle * 2).backward()


def test_retain_graph(backend: str) -> None:
    x = leaf([1.0, 2.0])
    y = agrad.sum(agrad.exp(x) * x)
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    assert_close(x.grad, 3 * np.exp(host(x)) * (1 + host(x)), "gradient")
    with pytest.raises(GraphFreedError, match=r"freed the values that sum needs.* retain_graph=True"):
        y.backward()
    assert_close(x.grad, 3 * np.exp(host(x)) * (1 + host(x)), "the gradient is unchanged")


def test_create_graph_to_the_third_order(backend: str) -> None:
    x = leaf([1.0, 2.0])
    values = host(x)
    y = agrad.sum(x**4)
    for expected in (4 * values**3, 12 * values**2, 24 * values, 24 + 0 * values):
        x.zero_grad()
        y.backward(create_graph=True)
        assert_close(x.grad, expected, "derivative")
        y = agrad.sum(x.grad)


def test_create_graph_adds_to_a_gradient_and_both_stay_on_the_tape() -> None:
    x = leaf(2.0)
    (x**3).backward(create_graph=True)
    (x**2).backward(create_graph=True)
    assert x.grad.requires_grad
    total = x.grad
    x.zero_grad()
    total.backward()
    assert x.grad.item() == 6 * 2 + 2


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
    with pytest.raises(NotDifferentiableError, match=r"retain_grad\(\): .* requires_grad=True"):
        agrad.zeros(2).retain_grad()


def test_grad_of_a_result_is_none_without_retain_grad() -> None:
    x = leaf([1.0])
    y = x * 2
    y.backward(np.ones(1))
    with pytest.warns(UserWarning, match=r"result of multiply is None: .*no_grad.*retain_grad"):
        assert y.grad is None


def test_retain_grad_under_create_graph() -> None:
    x = leaf(3.0)
    y = x * x
    y.retain_grad()
    (y * y).backward(create_graph=True)
    assert y.grad.item() == 18.0
    assert x.grad.item() == 4 * 27.0


def test_retain_grad_before_a_where() -> None:
    x = leaf([3.0, 5.0])
    y = x * x
    y.retain_grad()
    agrad.sum(agrad.where(x > 4, y, 0 * y)).backward()
    assert_close(y.grad, [0.0, 1.0], "gradient of y")
    assert_close(x.grad, [0.0, 10.0], "gradient of x")


# ---------------------------------------------------------------- what is refused


def test_backward_from_an_array_needs_a_cotangent(backend: str, place: Any) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        (x * x).backward()
    (x * x).backward(place(np.asarray([1.0, 10.0])))
    assert_close(x.grad, [2.0, 40.0], "gradient")
    x.zero_grad()
    (x * x).backward(agrad.asarray([1.0, 10.0], dtype=agrad.float64))
    assert_close(x.grad, [2.0, 40.0], "gradient")
    x.zero_grad()
    agrad.sum(x * x, keepdims=True).backward()
    assert_close(x.grad, [2.0, 4.0], "gradient")


def test_a_cotangent_that_does_not_fit() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    with pytest.raises(ShapeError, match=r"must have shape \(2,\), got \(3,\)"):
        y.backward(np.ones(3))
    with pytest.raises(ShapeError, match=r"got 1\.0"):
        y.backward(1.0)
    with pytest.raises(DtypeError, match=r"float64, got float32"):
        y.backward(np.ones(2, np.float32))
    with pytest.raises(MixedBackendsError, match="array_api_strict"):
        y.backward(agrad.ones(2, backend="array_api_strict"))
    assert x.grad is None
    y.backward(np.ones(2))
    assert_close(x.grad, [2.0, 2.0], "gradient")


def test_shapes_that_do_not_fit_name_both_and_the_operation(backend: str) -> None:
    x = leaf(np.zeros((2, 3)).tolist())
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(4,\) must be broadcastable"):
        x + agrad.ones(4)
    with pytest.raises(
        ShapeError,
        match=r"matmul: shapes \(2, 3\) and \(2, 3\) are incompatible: .* x1 has length 3, .* x2 has length 2",
    ):
        x @ x
    with pytest.raises(ShapeError, match=r"\(2, 3\).*\(4,\)"):
        agrad.where(x > 0, x, agrad.ones(4))
    with pytest.raises(ShapeError, match=r"concat: .*, got \(2, 3\) and \(2, 2\)"):
        agrad.concat([x, agrad.ones((2, 2))])
    with pytest.raises(ShapeError, match=r"shape must have 6 elements, got \(4, 2\)"):
        agrad.reshape(x, (4, 2))
    with pytest.raises(ShapeError, match=r"axis 2"):
        agrad.sum(x, axis=2)


def failing() -> Any:
    @agrad.primitive
    def brittle(xp: Any, x: Any, other: Any, /) -> Any:
        return x * other

    @brittle.vjp("x")
    def brittle_x(g: Any, other: Any) -> Any:
        return g * other[10]

    brittle.vjp("other")(lambda g, x: g * x)
    return brittle


def test_a_rule_that_fails_names_operation_argument_and_shapes() -> None:
    x = leaf(np.ones((2, 3)))
    y = failing()(x, agrad.ones((2, 3)))
    with pytest.raises(RuleError, match=r"brittle for x failed.*cotangent \(2, 3\).*other \(2, 3\)") as caught:
        agrad.sum(y).backward()
    assert "detect_anomaly" in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)


def test_under_detect_anomaly_a_failing_rule_names_the_users_line() -> None:
    x = leaf(np.ones((2, 3)))
    brittle = failing()
    with agrad.detect_anomaly():
        y = brittle(x, agrad.ones((2, 3)))  # the line that is named
    with pytest.raises(RuleError, match=r"test_engine.py:\d+: .*the line that is named"):
        agrad.sum(y).backward()


def test_a_missing_rule_says_how_to_write_it() -> None:
    @agrad.primitive
    def bare(xp: Any, x: Any, /) -> Any:
        return x * 2

    x = leaf(np.ones(2))
    with pytest.raises(MissingRuleError, match=r"bare has no vjp rule for x.*@bare.vjp"):
        agrad.sum(bare(x)).backward()
    with pytest.raises(MissingRuleError, match=r"bare has no jvp rule for x"):
        agrad.jvp(bare, (np.ones(2),), (np.ones(2),))


def test_integers_have_no_derivative(backend: str) -> None:
    with pytest.raises(DtypeError, match=r"int64.*Cast"):
        agrad.asarray([1, 2], dtype=agrad.int64, requires_grad=True)
    with pytest.raises(DtypeError, match=r"bool.*Cast"):
        agrad.asarray([True], requires_grad=True)
    x = agrad.asarray([1, 2])
    with pytest.raises(DtypeError, match="Cast"):
        x.requires_grad = True
    x.requires_grad = False


def test_requires_grad_can_be_told_to_leaves_alone() -> None:
    x = agrad.ones(2)
    assert not x.requires_grad
    x.requires_grad = True
    y = x * 2
    assert y.requires_grad
    with pytest.raises(NotDifferentiableError, match=r"multiply.*detach"):
        y.requires_grad = False
    y.requires_grad = True
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_two_devices_in_one_operation() -> None:
    a = agrad.ones(1, backend="array_api_strict", device="device1", requires_grad=True)
    b = agrad.ones(1, backend="array_api_strict", device="device2")
    with pytest.raises(MixedBackendsError, match=r"add.*device1.*device2.*to_device"):
        a + b
    assert str(agrad.sum(a).device) == str(a.device)


@pytest.mark.parametrize("mask", range(8))
def test_operations_of_any_number_of_arrays_record_those_on_the_tape(backend: str, mask: int) -> None:
    values = [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]
    xs = [agrad.asarray(v, dtype=agrad.float64, requires_grad=bool(mask >> i & 1)) for i, v in enumerate(values)]
    weights = agrad.asarray([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=agrad.float64)
    y = agrad.concat(xs)
    assert y.requires_grad == bool(mask)
    if mask:
        agrad.sum(y * weights).backward()
    for i, (x, expected) in enumerate(zip(xs, ([1.0, 2.0], [3.0], [4.0, 5.0, 6.0]), strict=True)):
        assert (x.grad is not None) == bool(mask >> i & 1)
        if x.grad is not None:
            assert host(x.grad).tolist() == expected
    with agrad.no_grad():
        assert not agrad.concat(xs).requires_grad


def test_operations_of_any_number_of_arrays_take_raw_ones_and_other_levels(backend: str) -> None:
    x = leaf([1.0, 2.0])
    raw = agrad.asarray([3.0], dtype=agrad.float64).data
    y = agrad.concat([raw, x, raw])
    agrad.sum(y * y).backward()
    assert host(x.grad).tolist() == [2.0, 4.0]

    def inner(a: agrad.Tensor, b: agrad.Tensor) -> agrad.Tensor:
        # the older level's array stands beside the newer level's
        return agrad.sum(agrad.concat([a, agrad.grad(lambda v: agrad.sum(agrad.concat([v * a, v, raw]) ** 3))(b)]) ** 2)

    a, b = agrad.asarray([2.0], dtype=agrad.float64), agrad.asarray([0.5], dtype=agrad.float64)
    # d/db ((b a)^3 + b^3) = 3 b^2 (a^3 + 1)
    slope = 3 * 0.25 * 9
    assert abs(float(agrad.grad(inner)(a, b)[0]) - (2 * 2 + 2 * slope * 3 * 0.25 * 12)) < 1e-9
