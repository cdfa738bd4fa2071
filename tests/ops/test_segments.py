"""Segments and the greatest elements: edges, traced ids, errors, and what other libraries compute."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import each_fails, fails
from tensors import all_equal

import agrad
from agrad.errors import DtypeError, MixedBackendsError, OperandError, ShapeError

INF, NAN = np.inf, np.nan
NAMES = ["segment_sum", "segment_prod", "segment_max", "segment_min"]


def tensor(values: Any, place: Any, dtype: str = "float64") -> agrad.Tensor:
    return agrad.asarray(place(np.asarray(values, dtype=dtype)))


@pytest.mark.parametrize(
    ("name", "values", "expected", "slopes"),
    [
        ("segment_max", [1.0, INF, 2.0, -INF], [INF, 2.0], [0, 1, 1, 0]),
        ("segment_min", [1.0, INF, 2.0, -INF], [1.0, -INF], [1, 0, 0, 1]),
        ("segment_max", [3.0, 3.0, -INF, -INF], [3.0, -INF], [0.5, 0.5, None, None]),
        ("segment_max", [1.0, NAN, 2.0, 5.0], [NAN, 5.0], [None, None, 0, 1]),
        ("segment_min", [NAN, -INF, 2.0, 5.0], [NAN, 2.0], [None, None, 1, 0]),
    ],
)
def test_extremes_at_infinity_and_nan(
    name: str, values: list[float], expected: list[float], slopes: list[Any], place: Any
) -> None:
    """Elements that are infinite share no derivative, one of them takes it; None: not looked at."""
    ids = tensor([0, 0, 1, 1], place, "int64")
    found, pull = agrad.vjp(lambda x: getattr(agrad, name)(x, ids, 2), tensor(values, place))
    np.testing.assert_array_equal(found.numpy(), expected)
    (slope,) = pull(tensor([1.0, 1.0], place))
    for mine, theirs in zip(slope.numpy(), slopes, strict=True):
        assert theirs is None or mine == theirs


def test_ties_share_evenly_and_keep_the_value(place: Any) -> None:
    x = tensor([0.1] * 7 + [0.0], place)
    y, pull = agrad.vjp(lambda x: agrad.segment_max(x, [0] * 8, 1), x)
    assert y.numpy()[0] == 0.1
    np.testing.assert_allclose(pull(tensor([1.0], place))[0].numpy(), [1 / 7] * 7 + [0.0])


@pytest.mark.parametrize(
    ("name", "dtype", "empty"),
    [
        ("segment_sum", "int8", 0),
        ("segment_prod", "uint8", 1),
        ("segment_max", "int16", -(2**15)),
        ("segment_min", "int32", 2**31 - 1),
        ("segment_max", "uint8", 0),
        ("segment_max", "float32", -INF),
        ("segment_min", "float32", INF),
    ],
)
def test_segments_without_elements_and_dtypes(name: str, dtype: str, empty: float, place: Any) -> None:
    found = getattr(agrad, name)(tensor([5, 7], place, dtype), tensor([2, 0], place, "int8"), 300)
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(found.numpy()[:4], np.asarray([7, empty, 5, empty], dtype))
    assert found.shape == (300,)
    nothing = getattr(agrad, name)(tensor([], place, dtype), tensor([], place, "int64"), 2)
    np.testing.assert_array_equal(nothing.numpy(), np.asarray([empty, empty], dtype))


@pytest.mark.parametrize("name", NAMES)
def test_traced_and_mapped_ids(name: str, place: Any) -> None:
    """An id that no segment has leaves its element out, also where the ids are not known."""
    x, ids = np.asarray([1.5, -2.0, 3.0, 0.5]), np.asarray([[1, 0, 1, 0], [9, 1, 0, -1]])
    f = getattr(agrad, name)
    expected = [f(x, row, 2) for row in ids]
    xs, rows = tensor([x, x], place), tensor(ids, place, "int64")
    np.testing.assert_allclose(agrad.vmap(lambda x, i: f(x, i, 2))(xs, rows).numpy(), expected)
    np.testing.assert_allclose(agrad.vmap(lambda i: f(xs[0], i, 2))(rows).numpy(), expected)
    jitted = agrad.jit(lambda x, i: f(x, i, 2))
    for row, value in zip(rows, expected, strict=True):
        np.testing.assert_allclose(jitted(xs[0], row).numpy(), value)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, -1])
def test_torch_picks_the_same(largest: bool, axis: int, torch: Any) -> None:
    x = np.random.default_rng(0).normal(size=(5, 6))
    x[2, 3] = NAN
    expected = torch.topk(torch.asarray(x), 3, dim=axis, largest=largest)
    for found, theirs in zip(agrad.topk(x, 3, axis=axis, largest=largest), expected, strict=True):
        np.testing.assert_array_equal(found, theirs.numpy())


def test_topk_of_recorded_mapped_and_traced_arrays(place: Any) -> None:
    x = tensor([[3.0, 1.0, 2.0, 3.0], [0.0, 5.0, 4.0, 1.0]], place)
    found, where = agrad.topk(x, 2)
    assert not where.requires_grad
    np.testing.assert_array_equal(where.numpy(), [[0, 3], [1, 2]])
    for f in (agrad.vmap(lambda row: agrad.topk(row, 2)), agrad.jit(lambda x: agrad.topk(x, 2))):
        all_equal(f(x), (found, where))
    slope = agrad.grad(lambda x: agrad.sum(agrad.topk(x, 2)[0] * tensor([1.0, 2.0], place)))(x)
    np.testing.assert_array_equal(slope.numpy(), [[1, 0, 0, 2], [0, 1, 2, 0]])
    least, where = agrad.topk(tensor([4, 1, 1, 2], place, "int64"), 3, largest=False)
    np.testing.assert_array_equal(least.numpy(), [1, 1, 2])
    np.testing.assert_array_equal(where.numpy(), [1, 2, 3])


X = np.ones((3, 2))


WRONG: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    ((X, [0, 1], 2), ShapeError, r"one id for each element .* values of shape \(3, 2\), got shape \(2,\)"),
    ((X, np.zeros((3, 1), int), 2), ShapeError, "one id for each element"),
    ((np.ones(()), np.zeros((), int), 2), ShapeError, "one id for each element"),
    ((X, [0.0, 1.0, 1.0], 2), DtypeError, "integer"),
    ((X, [True, False, True], 2), DtypeError, "ids must be integers, got bool"),
    ((X > 0, [0, 1, 0], 2), DtypeError, "values must be numeric, got bool"),
    ((X, [0, 1, 0], -1), OperandError, "must not be negative, got -1"),
    ((X, [0, 1, 0], 1.5), TypeError, "float"),
]


def test_errors_of_segments() -> None:
    for name in NAMES:
        f = getattr(agrad, name)
        each_fails((partial(f, *at), error, message) for at, error, message in WRONG)


@pytest.mark.needs("torch")
def test_ids_of_another_library() -> None:
    fails(MixedBackendsError, r"i\.to\(", lambda: agrad.segment_sum(X, agrad.asarray([0, 1, 0], backend="torch"), 2))


@pytest.mark.parametrize("k", [-1, 4])
def test_topk_takes_no_more_than_there_are(k: int) -> None:
    fails(OperandError, f"k must be from 0 to 3, the length of axis 0, got {k}", agrad.topk, X, k, axis=0)
