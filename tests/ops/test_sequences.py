"""``asarray`` of nested sequences of Tensors, arrays and numbers."""

from typing import Any

import numpy as np
import pytest
from modes import check_same
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
    def f(x: Any) -> Any:
        return agrad.asarray(nested(agrad.asarray(x)))

    x = np.asarray([0.5, -1.5, 2.5])
    start = np.asarray(nested(np.zeros(3)))
    matrix = np.stack([np.asarray(nested(unit)) - start for unit in np.eye(3)], axis=-1)
    affine = lambda x: agrad.matmul(place(matrix), x) + place(start)  # noqa: E731
    check_same(f, affine, (place(x),), ("value", "jacrev", "jacfwd", "vmap", "jit"), 1e-12)
    assert f(place(x)).backend == backend


def test_a_nested_sequence_is_joined_at_once() -> None:
    entries = [agrad.asarray(float(i), requires_grad=True) for i in range(12)]
    flat = agrad.asarray(entries)
    nested = agrad.asarray([[[a, b]] for a, b in zip(entries[::2], entries[1::2], strict=True)])
    assert nested.shape == (6, 1, 2)
    assert nodes_behind(flat) == 13
    assert nodes_behind(nested) == 14
    assert agrad.asarray([agrad.asarray(True), 3]).tolist() == [1, 3]


MIXED: list[tuple[Any, str, list[Any]]] = [
    (lambda f4, f8, i8, b1: [f4, f8], "float64", [1, 1]),
    (lambda f4, f8, i8, b1: [f4, 2.5], "float32", [1, 2.5]),
    (lambda f4, f8, i8, b1: [[2.5, f4], [3, 4.5]], "float32", [[2.5, 1], [3, 4.5]]),
    (lambda f4, f8, i8, b1: [f4[None], [2.5]], "float32", [[1], [2.5]]),
    (lambda f4, f8, i8, b1: [i8, 2], "int64", [1, 2]),
    (lambda f4, f8, i8, b1: [i8, 1.5], "float64", [1, 1.5]),
    (lambda f4, f8, i8, b1: [b1, False], "bool", [True, False]),
    (lambda f4, f8, i8, b1: [[f4, 1], [2.5, f8]], "float64", [[1, 1], [2.5, 1]]),
    (lambda f4, f8, i8, b1: [f4, 1j], "complex64", [1, 1j]),
]


@pytest.mark.parametrize("wrap", [agrad.asarray, lambda x: x], ids=["Tensors", "raw arrays"])
@pytest.mark.parametrize(("mixed", "dtype", "expected"), MIXED)
def test_dtypes_in_a_sequence(mixed: Any, dtype: str, expected: Any, wrap: Any, backend: str, place: Any) -> None:
    """Numbers beside arrays are weak, whether these are Tensors or an array library's own."""
    kinds = ("float32", "float64", "int64", "bool")
    if backend == "array_api_strict" and dtype == "float64":
        pytest.skip("stack of array-api-strict takes arrays of one dtype")
    found = agrad.asarray(mixed(*[wrap(place(np.asarray(1, kind))) for kind in kinds]))
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(found.numpy(), expected)


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
