"""Columns and tables of pandas beside Tensors: operators give Tensors of the values, the rest says its remedy."""

import operator
import re
from typing import Any

import numpy as np
import pytest
from modes import DERIVATIVES, JITTED, MAPS, check_same
from refusals import fails

import agrad
from agrad.errors import DetachError, DtypeError, MixedBackendsError, OperandError

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.needs("pandas")

VALUES = np.asarray([[1.5, 4.0, 0.5], [2.0, 0.3, 1.0], [0.7, 1.1, 2.5]])
TABLE = pd.DataFrame(VALUES, columns=["a", "b", "c"], index=[10, 20, 30])
X = np.asarray([0.4, 1.3, 2.2])
HELD = {
    "Series": TABLE["a"],
    "DataFrame": TABLE,
    "Index": pd.Index(VALUES[:, 0]),
    "nullable": pd.array(VALUES[:, 0], dtype="Float64"),
    "nullable Series": pd.Series(VALUES[:, 0], dtype="Float64"),
    "float32": TABLE["a"].astype("float32"),
    "integers": pd.Series([1, 2, 3]),
}
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv, operator.mod]
UFUNCS = [np.add, np.multiply, np.hypot, np.arctan2]


CALLS = [
    *[(op, held) for op in ARITHMETIC for held in HELD],
    # an Index and an extension array make one of their own of a ufunc's result, and so refuse one with a gradient
    *[(op, held) for op in UFUNCS for held in HELD if held in ("Series", "DataFrame", "float32", "integers")],
]


@pytest.mark.parametrize(("op", "held"), CALLS, ids=[f"{op.__name__}-{held}" for op, held in CALLS])
def test_arithmetic_is_that_of_the_values(op: Any, held: str) -> None:
    labelled = HELD[held]
    values = labelled.to_numpy()
    before = (lambda x: op(labelled, x)), (lambda x: op(values, x))
    behind = (lambda x: op(x, labelled)), (lambda x: op(x, values))
    for ours, dense in (before, behind):
        for given in (X, X[0]):
            found = ours(agrad.asarray(given, requires_grad=True))
            assert type(found).__name__ == "Tensor"
            np.testing.assert_array_equal(found.detach().numpy(), dense(agrad.asarray(given)).numpy())
            np.testing.assert_allclose(found.detach().numpy(), dense(given), rtol=1e-14)
            assert type(ours(agrad.asarray(given))).__name__ == "Tensor"
            np.testing.assert_array_equal(agrad.jacobian(ours)(given), agrad.jacobian(dense)(given))


@pytest.mark.parametrize("held", ["Series", "DataFrame"])
def test_every_mode(held: str) -> None:
    def f(a: Any) -> Any:
        return lambda x: agrad.sin(np.exp(a) * x) + x @ a / a.sum().sum()

    check_same(
        f(HELD[held]),
        f(HELD[held].to_numpy()),
        (X,),
        [mode for mode in (*DERIVATIVES, *MAPS, *JITTED) if mode != "value"],
    )


@pytest.mark.parametrize("op", [operator.lt, operator.ge, operator.eq, operator.ne], ids=lambda op: op.__name__)
def test_comparisons_are_tensors(op: Any) -> None:
    for found, wanted in (
        (op(TABLE["a"], agrad.asarray(X)), op(VALUES[:, 0], X)),
        (op(agrad.asarray(X), TABLE["a"]), op(X, VALUES[:, 0])),
    ):
        assert type(found).__name__ == "Tensor"
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_methods_and_functions_that_take_values() -> None:
    x = agrad.asarray(X, requires_grad=True)
    column = TABLE["a"]
    for found in (column.mul(x), np.where(column > 0, column.to_numpy() * x, 0.0), agrad.asarray(column) * x):
        np.testing.assert_array_equal(found.detach().numpy(), VALUES[:, 0] * X)
    for found in (agrad.matmul(TABLE.to_numpy(), x), agrad.asarray(TABLE) @ x, agrad.matmul(TABLE.values, x)):
        np.testing.assert_allclose(found.detach().numpy(), VALUES @ X, rtol=1e-15)


def test_a_missing_number_is_nan() -> None:
    found = agrad.asarray(X, requires_grad=True) * pd.Series([1.0, None, 2.0], dtype="Float64")
    np.testing.assert_array_equal(found.detach().numpy(), X * [1.0, np.nan, 2.0])


def test_in_place_with_a_constant_is_pandas_own() -> None:
    column = TABLE["a"].copy()
    column += agrad.asarray(X)
    assert isinstance(column, pd.Series)
    np.testing.assert_array_equal(column.to_numpy(), VALUES[:, 0] + X)


REMEDY = ".to_numpy()"
SILENT = "cannot convert a Tensor that requires a gradient"


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: TABLE @ x, DetachError, f"the values of the DataFrame: {REMEDY}"),
        (lambda x: TABLE["a"] @ x, DetachError, f"the values of the Series: {REMEDY}"),
        (lambda x: TABLE["a"].dot(x), DetachError, f"the values of the Series: {REMEDY}"),
        (lambda x: TABLE["a"].copy().__iadd__(x), DetachError, SILENT),
        (lambda x: pd.Series(x), DetachError, SILENT),
        (lambda x: pd.DataFrame({"a": x}), DetachError, SILENT),
        (lambda x: TABLE.assign(d=x), DetachError, SILENT),
        (lambda x: pd.Series(["a", "b", "c"]) * x, OperandError, "must hold numbers or Booleans, got values of"),
        (lambda x: x * pd.Series([1, pd.NA, 2], dtype=object), OperandError, ".to_numpy(dtype=float)"),
        (lambda x: x[pd.array([True, None, False])], OperandError, ".fillna(False) for a mask"),
        (lambda x: x[pd.Series([1.5])], DtypeError, "must have an integer or Boolean dtype, got float64"),
        (lambda x: agrad.multiply(TABLE["a"], x), OperandError, "got Series. Make an array with agrad.asarray"),
    ],
)
def test_refusals(f: Any, error: type[Exception], text: str) -> None:
    fails(error, re.escape(text), lambda: f(agrad.asarray(X, requires_grad=True)))


@pytest.mark.parametrize(
    "index",
    [
        pd.Series([True, False, True]), pd.Series([2, 0], index=["a", "b"]), pd.Index([2, -3]),
        pd.array([True, False, True]), pd.array([2, 0, 2]),
    ],
    ids=["mask", "places", "index", "nullable mask", "nullable places"],
)  # fmt: skip
def test_columns_are_indices(index: Any, backend: str) -> None:
    x = agrad.asarray(X.tolist(), requires_grad=True)
    agrad.sum(x[index] ** 2).backward()
    expected = agrad.grad(lambda x: np.sum(x[index.to_numpy()] ** 2))(X)
    np.testing.assert_allclose(np.asarray(x.grad.to("numpy").numpy()), expected, rtol=1e-6)
    y = agrad.asarray(X.tolist())
    y[index] = 5.0
    changed = X.copy()
    changed[index] = 5.0
    np.testing.assert_allclose(y.to("numpy").numpy(), changed, rtol=1e-6)
    rows = agrad.vmap(lambda x: x[index])(np.stack([X, 2 * X]))
    np.testing.assert_array_equal(rows, np.stack([X[index], 2 * X[index]]))
    np.testing.assert_array_equal(agrad.jit(lambda x: x[index])(X), X[index])


def test_other_backends(backend: str) -> None:
    x = agrad.asarray([0.4, 1.3, 2.2])
    found = TABLE["a"] * x
    assert found.backend == x.backend
    np.testing.assert_allclose(found.numpy(), VALUES[:, 0] * X, rtol=1e-6)
    if x.backend not in ("numpy", "dask"):  # Dask accepts NumPy's arrays
        with agrad.use_backend("numpy"), pytest.raises(MixedBackendsError, match="Move a Tensor"):
            TABLE["a"] * x
