"""``asarray`` of nested sequences of Tensors, arrays and numbers."""

from typing import Any

import numpy as np
import pytest
from refusals import each_fails

import agrad
from agrad.errors import OperandError, ShapeError


def nodes_behind(y: Any) -> int:
    seen, todo = set(), [y.node]
    while todo:
        node = todo.pop()
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            todo += node.parents
    return len(seen)


NESTED = {
    "flat": lambda x: [x[0], 2.0, x[2]],
    "rows": lambda x: [[x[0], x[1]], [1, x[2]]],
    "tuples": lambda x: (((x[0], 1.0),), ((2.0, x[1]),)),
    "vectors": lambda x: [x, [1.0, 2.0, 3.0]],
    "matrices": lambda x: [[x, [1.0, 2.0, 3.0]], [(4, 5, 6), x * 2]],
    "column": lambda x: [[entry] for entry in x],
}


@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_a_nested_sequence_keeps_values_and_derivatives(nested: Any, backend: str, place: Any) -> None:
    x = np.asarray([0.5, -1.5, 2.5])

    def f(x: Any) -> Any:
        return agrad.asarray(nested(x))

    def plain(x: np.ndarray) -> np.ndarray:
        return np.asarray(nested(x))

    result = f(agrad.asarray(place(x)))
    assert result.backend == backend
    np.testing.assert_array_equal(result.numpy(), plain(x))
    expected = np.stack([plain(x + step) - plain(x) for step in np.eye(3)], axis=-1)
    for jacobian in (agrad.jacrev, agrad.jacfwd):
        found = jacobian(f)(agrad.asarray(place(x)))
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    batch = np.stack([x, x + 1])
    np.testing.assert_array_equal(agrad.vmap(f)(agrad.asarray(place(batch))).numpy(), [plain(row) for row in batch])
    np.testing.assert_array_equal(agrad.jit(f)(agrad.asarray(place(x))).numpy(), plain(x))


def test_a_nested_sequence_is_joined_at_once() -> None:
    entries = [agrad.asarray(float(i), requires_grad=True) for i in range(12)]
    flat = agrad.asarray(entries)
    nested = agrad.asarray([[[a, b]] for a, b in zip(entries[::2], entries[1::2], strict=True)])
    assert nested.shape == (6, 1, 2)
    assert nodes_behind(flat) == 13
    assert nodes_behind(nested) == 14


@pytest.mark.parametrize(
    ("mixed", "dtype"),
    [
        (lambda f4, f8, i8: [f4, f8], "float64"),
        (lambda f4, f8, i8: [f4, 2.5], "float32"),
        (lambda f4, f8, i8: [2.5, f4], "float32"),
        (lambda f4, f8, i8: [i8, 1], "int64"),
        (lambda f4, f8, i8: [[f4, 1], [2.5, f8]], "float64"),
        (lambda f4, f8, i8: [f4, 1j], "complex64"),
    ],
)
def test_dtypes_in_a_sequence(mixed: Any, dtype: str, backend: str, place: Any) -> None:
    scalars = [agrad.asarray(place(np.asarray(1, kind))) for kind in ("float32", "float64", "int64")]
    if backend == "array_api_strict" and dtype == "float64":
        pytest.skip("stack of array-api-strict takes arrays of one dtype")
    assert agrad.asarray(mixed(*scalars)).dtype.name == dtype


def test_numpys_scalars_in_a_sequence(backend: str, place: Any) -> None:
    """They are arrays beside NumPy's arrays, numbers beside all others."""
    found = agrad.asarray([agrad.asarray(place(np.asarray(1, "float32"))), np.float64(2.5)])
    assert found.dtype.name == ("float64" if backend == "numpy" else "float32")
    np.testing.assert_array_equal(found.numpy(), [1.0, 2.5])


NO_ARRAYS: list[tuple[Any, type[Exception], str]] = [
    (lambda a: agrad.asarray([[a, a], [a]]), ShapeError, r"the same shape, got \(2,\) and \(1,\)"),
    (lambda a: agrad.asarray([[a], 2.0]), ShapeError, r"the same shape, got \(1,\) and \(\)"),
    (lambda a: agrad.asarray([a, []]), ShapeError, "at least one array"),
    (lambda a: agrad.asarray([a, None]), OperandError, "must contain only numbers and Tensors, got NoneType"),
    (lambda a: agrad.asarray(["a", a]), OperandError, "must contain only numbers and Tensors, got str"),
]


def test_what_is_no_array() -> None:
    each_fails(NO_ARRAYS, agrad.asarray(1.0, requires_grad=True))
