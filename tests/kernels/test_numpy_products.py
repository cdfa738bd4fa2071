"""NumPy's arithmetic of long arrays, in blocks that threads share: as NumPy's own, and where it is meant to be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.backends import threads
from agrad.kernels.numpy import blocks
from agrad.kernels.numpy import products as numpy_products
from agrad.registry import KERNELS, PRIMITIVES

ROWS, COLUMNS = 1200, 300
"""Of float64 2.9 MB: long enough for threads where 2 MB are."""


@pytest.fixture(autouse=True)
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_products, "_LONG", 8 * threads.BLOCK_BYTES)


def drawn(seed: int, *shape: int, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape).astype(dtype)


def filed(name: str, *arrays: Any) -> Any:
    """What a level evaluates."""
    return KERNELS["numpy", name, "level"].function(*arrays)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each run of several had."""
    found: list[int] = []

    def run_blocks(work: Callable[..., Any], count: int, at_least: int) -> None:
        found.append(count)
        threads.run_blocks(work, count, at_least)

    monkeypatch.setattr(blocks, "run_blocks", run_blocks)
    return found


OPERANDS = {
    "alike": lambda x: (x, x[::-1].copy()),
    "a row": lambda x: (x, x[0]),
    "a column": lambda x: (x[:, :1], x),
    "a number": lambda x: (2.0, x),
    "an integer": lambda x: (x, 3),
    "strided": lambda x: (x[:, 1:], x[:, :-1]),
    "transposed": lambda x: (x.T, x.T[:, ::-1]),
    "in few blocks": lambda x: (x.reshape(1, 2, -1), x.reshape(1, 2, -1)),
    "repeated": lambda x: (np.broadcast_to(x[:, None, :], (ROWS, 3, 2 * COLUMNS)), x[:, None, :]),
}


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic_of_long_arrays_is_numpys(name: str, operands: str, dtype: Any, counted: list[int]) -> None:
    x1, x2 = OPERANDS[operands](drawn(0, ROWS, 2 * COLUMNS, dtype=dtype))
    np.testing.assert_array_equal(filed(name, x1, x2), getattr(np, name)(x1, x2), strict=True)
    assert len(counted) == 1


def test_a_single_operation_has_a_few_blocks_a_thread(counted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn(0, ROWS, 3 * COLUMNS)
    for cores in (2, 3):
        monkeypatch.setattr(numpy_products, "cores", lambda cores=cores: cores)
        np.testing.assert_array_equal(filed("add", x, 1.0), x + 1.0, strict=True)
    assert counted == [4, 6]
    monkeypatch.setattr(numpy_products, "cores", lambda: 1000)
    filed("add", x, 1.0)
    assert counted[2] == -(-x.nbytes // threads.BLOCK_BYTES)  # none is shorter than the usual


def test_long_arrays_beside_empty_ones() -> None:
    x = drawn(0, 2, 1, ROWS * COLUMNS)
    for name in ("add", "subtract", "multiply", "divide"):
        assert filed(name, x, np.ones((2, 0, 1))).shape == (2, 0, ROWS * COLUMNS)
    assert agrad.vmap(lambda x, e: x * e)(x, np.ones((2, 0, 1))).shape == (2, 0, ROWS * COLUMNS)


def test_long_arrays_are_negated(counted: list[int]) -> None:
    x = drawn(0, ROWS, COLUMNS)[:, 1:]
    np.testing.assert_array_equal(filed("negative", x), -x, strict=True)
    assert len(counted) == 1


def test_what_is_not_alike_or_not_long_is_left_to_numpy(counted: list[int]) -> None:
    x = drawn(0, ROWS, COLUMNS)
    for other in (x.astype(np.float32), x.astype(int), np.float64(2.0), 2j):
        np.testing.assert_array_equal(filed("add", x, other), x + other, strict=True)
    np.testing.assert_array_equal(filed("add", x[:10], 1), x[:10] + 1, strict=True)
    for other in (x.astype(int), x.astype(">f8"), x * 1j, x[:10]):
        np.testing.assert_array_equal(filed("negative", other), -other, strict=True)
    assert counted == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", [((300, 300),) * 2, ((300, 1), (300, 300)), ((300,), (300, 1))])
def test_the_tangent_of_a_long_product(shapes: tuple[tuple[int, ...], ...], dtype: Any) -> None:
    x1, x2 = (drawn(i, *shape, dtype=dtype) for i, shape in enumerate(shapes))
    t1, t2 = (drawn(i + 2, *shape, dtype=dtype) for i, shape in enumerate(shapes))
    value, tangent = agrad.jvp(lambda a, b: a * b, (x1, x2), (t1, t2))
    np.testing.assert_array_equal(value, x1 * x2, strict=True)
    np.testing.assert_array_equal(tangent, t1 * x2 + x1 * t2, strict=True)


def test_tangents_of_one_factor_or_of_tensors_take_the_rules() -> None:
    x, t = drawn(0, ROWS, COLUMNS), drawn(1, ROWS, COLUMNS)
    np.testing.assert_array_equal(agrad.jvp(lambda a: a * x, (x,), (t,))[1], t * x)
    second = agrad.jvp(lambda a: agrad.jvp(lambda b: b * b, (a,), (a,))[1], (x,), (t,))[1]
    np.testing.assert_allclose(second, 4 * x * t)


def test_maps_of_long_arrays_run_in_blocks(counted: list[int]) -> None:
    x = drawn(0, ROWS, COLUMNS)
    found = agrad.vmap(lambda row: agrad.concat([-row, 2.0 * row + row[0]]))(x)
    assert len(counted) == 3
    np.testing.assert_array_equal(found, np.concatenate([-x, 2.0 * x + x[:, :1]], axis=1))


def test_operators_on_a_tape_are_not_asked(counted: list[int]) -> None:
    x = drawn(0, ROWS, COLUMNS)
    np.testing.assert_array_equal(agrad.grad(lambda a: agrad.sum(a * a))(x), 2 * x)
    assert counted == []


def test_a_block_that_fails_is_the_callers_error() -> None:
    def fill(out: np.ndarray, x: np.ndarray) -> None:
        raise ZeroDivisionError("in a block")

    x = drawn(0, ROWS, COLUMNS)
    with pytest.raises(ZeroDivisionError, match="in a block"):
        blocks.fill_in_blocks(fill, np.empty_like(x), x)


# ------------------------------------------------------------------ outer products


@pytest.mark.parametrize("sizes", [(7, 5), (5, 7), (1, 1)])
def test_outer_products_of_a_batch(sizes: tuple[int, int]) -> None:
    """Of mapped vectors, and the derivatives of both, also of one that all members share."""
    u, v = drawn(0, 6, sizes[0]), drawn(1, 6, sizes[1])
    expected = u[:, :, None] * v[:, None, :]
    np.testing.assert_array_equal(agrad.vmap(agrad.linalg.outer)(u, v), expected)
    np.testing.assert_array_equal(agrad.vmap(lambda a, b: a[:, None] @ b[None, :])(u, v), expected)

    def total(a: Any, b: Any) -> Any:
        return agrad.sum(agrad.vmap(agrad.linalg.outer, (0, None))(a, b) ** 2)

    by_a, by_b = agrad.grad(total, argnums=(0, 1))(u, v[0])
    np.testing.assert_allclose(by_a, 2 * u * np.sum(v[0] ** 2))
    np.testing.assert_allclose(by_b, 2 * v[0] * np.sum(u**2))


# ------------------------------------------------------------------ rules under a map


def test_an_elementwise_rules_kernel_runs_once_for_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    key, primitive, calls = ("numpy", "relu", "vjp:x"), PRIMITIVES["relu"], []
    own = KERNELS[key].function

    def watched(g: Any, y: Any) -> Any:
        calls.append(y.shape)
        return own(g, y)

    x = drawn(0, 5, 4, 3) - 1
    monkeypatch.setitem(KERNELS, key, KERNELS[key]._replace(function=watched))
    try:
        primitive.kernel_filed()
        one = agrad.grad(lambda a: agrad.sum(agrad.relu(a) * a))
        found = agrad.vmap(agrad.vmap(one))(x)
        recorded = agrad.grad(lambda a: agrad.sum(agrad.vmap(one)(a)))(x)
    finally:
        monkeypatch.undo()
        primitive.kernel_filed()
    assert calls[0] == x.shape
    np.testing.assert_allclose(found, 2 * np.maximum(x, 0))
    np.testing.assert_allclose(recorded, 2.0 * (x > 0))
