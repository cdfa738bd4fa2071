"""Sparse matrices of differentiable values, compared with dense ones."""

import sys
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from refusals import Refusal, refuses

import agrad
from agrad.errors import DetachError, MissingExtraError, ShapeError
from agrad.scipy import sparse
from agrad.testing import check_grads

theirs = pytest.importorskip("scipy.sparse")
pytestmark = pytest.mark.needs("scipy")

ROWS, COLUMNS = np.asarray([0, 0, 1, 1, 0, 2]), np.asarray([0, 1, 0, 1, 0, 2])
X = np.linspace(1.0, 2.0, 6)
L = np.asarray([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 2.0]])
FREE = np.asarray([0, 2])
NAMES = ("coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix")


def assembled(v: Any) -> Any:
    return sparse.coo_matrix((v, (ROWS, COLUMNS)), shape=(3, 3))


def scattered(v: Any) -> Any:
    return agrad.reshape(agrad.segment_sum(v, ROWS * 3 + COLUMNS, 9), (3, 3))


def by_operators(a: Any, v: Any, identity: Any, laplacian: Any) -> Any:
    return identity - v[0] * laplacian + a / v[1] + a.T * 2.0 - (-a)


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "coo_matrix"])
def test_operators_are_those_of_dense_matrices(kind: str) -> None:
    eye, laplacian = getattr(theirs, kind)(np.eye(3)), getattr(theirs, kind)(L)

    def f(v: Any) -> Any:
        matrix = by_operators(assembled(v).tocsr(), v, eye, laplacian)
        x = sparse.linalg.spsolve(matrix[FREE, :][:, FREE].tocsc(), v[:2])
        return agrad.sum(agrad.sin(x)) + agrad.sum(matrix @ v[:3])

    def dense(v: Any) -> Any:
        matrix = by_operators(scattered(v), v, np.eye(3), L)
        x = agrad.linalg.solve(matrix[FREE][:, FREE], v[:2])
        return agrad.sum(agrad.sin(x)) + agrad.sum(matrix @ v[:3])

    assert_close(f(X), dense(X), "value")
    assert_close(agrad.grad(f)(X), agrad.grad(dense)(X), "gradient")
    if kind == "csr_matrix":
        check_grads(f, (X,), order=2)
        assert_close(agrad.jit(agrad.hessian(f))(X), agrad.hessian(dense)(X), "hessian", 1e-9)
        many = np.stack([X, X[::-1]])
        assert_close(agrad.vmap(agrad.grad(f))(many), np.stack([agrad.grad(dense)(x) for x in many]), "vmap", 1e-9)


def test_on_each_backend(place: Any) -> None:
    def f(a: Any, v: Any) -> Any:
        sums = a.sum() * agrad.stack([agrad.sum(v), *a.sum(axis=-1)]) - agrad.concat([a.sum(axis=0), v[:1]])
        return agrad.sum((a.T @ v[:3]) ** 2) + agrad.sum((a[1:] * v[0]) @ v[3:]) + agrad.sum(sums**2)

    x = place(X)
    wanted = agrad.grad(lambda v: f(scattered(v), v))(X)
    assert_close(host(agrad.grad(lambda v: f(assembled(v), v))(x)), wanted, "gradient")
    assert_close(host(assembled(agrad.asarray(x)).toarray()), host(scattered(X)), "array")


DIAGONALS = {
    "three": (lambda v: [v[0], 2.0, v[:3]], [-1, 0, 1], (4, 4)),
    "one": (lambda v: v, 1, None),
    "numbers": (lambda v: [v[0], v[1]], 0, None),
    "longer": (lambda v: [v, [3, 4]], [-1, 1], (4, 2)),
}


@pytest.mark.parametrize("name", DIAGONALS)
def test_diagonals(name: str, place: Any) -> None:
    diagonals, offsets, shape = DIAGONALS[name]
    v = X[:3] if name == "longer" else X

    def f(v: Any) -> Any:
        matrix = sparse.diags(diagonals(v), offsets, shape).tocsc()
        return agrad.sum(agrad.sin(matrix.toarray()))

    def expected(v: np.ndarray) -> Any:
        return np.sum(np.sin(theirs.diags(diagonals(v), offsets, shape).toarray()))

    slopes = [(expected(v + h) - expected(v - h)) / 2e-6 for h in 1e-6 * np.eye(v.size)]
    x = place(v)
    assert_close(host(f(x)), expected(v), "value")
    assert_close(host(agrad.grad(f)(x)), np.asarray(slopes), "gradient", 1e-8)
    assert_close(host(agrad.jvp(f, (x,), (x,))[1]), np.dot(slopes, v), "tangent", 1e-8)
    second = host(agrad.hessian(f)(x))
    assert_close(host(agrad.jit(agrad.hessian(f))(x)), second, "second order in jit", 1e-12)
    many = host(agrad.vmap(agrad.grad(f))(agrad.stack([agrad.asarray(x), agrad.asarray(x)])))
    assert_close(many, np.stack([slopes, slopes]), "vmap", 1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_forms_of_the_arguments(name: str) -> None:
    made, real, values = getattr(sparse, name), getattr(theirs, name), X[:3]
    forms = [(ROWS[:3], COLUMNS[:3])], [np.asarray([0, 2, 1]), np.asarray([0, 2, 2, 3])]
    for where in forms if name[:3] != "coo" else forms[:1]:
        found, wanted = made((agrad.asarray(values), *where)), real((values, *where))
        assert isinstance(found, agrad.SparseArray) and found.shape == wanted.shape
        assert_close(host(found.toarray()), wanted.toarray(), name)
        assert isinstance(made((values, *where)), real)
    assert isinstance(made(L), real) and made((2, 3)).shape == (2, 3)
    narrow = made((agrad.asarray(values), forms[0][0]), dtype=np.float32)
    assert narrow.values.dtype == agrad.float32


def test_without_scipy_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(MissingExtraError, match=r"sparse\.coo_matrix needs SciPy\. Install it with"):
        assembled(agrad.asarray(X))


MATRIX = assembled(agrad.asarray(X))
ERRORS: list[Refusal] = [
    (ShapeError, "must select a matrix", lambda: MATRIX[0]),
    (ShapeError, "must select a matrix", lambda: MATRIX[0, 1]),
    (ShapeError, "Write A @ x", lambda: MATRIX * X[:3]),
    (ShapeError, "the same shape, got (3, 3) and (2, 2)", lambda: MATRIX + theirs.csr_array(np.eye(2))),
    (TypeError, "SparseArray", lambda: MATRIX + 1.0),
    (ValueError, "negative", lambda: sparse.coo_array((agrad.asarray(X), (ROWS - 1, COLUMNS)), shape=(3, 3))),
    (ValueError, "exceeds", lambda: sparse.coo_array((agrad.asarray(X), (ROWS, COLUMNS)), shape=(2, 2))),
    (ValueError, "length", lambda: sparse.coo_array((agrad.asarray(X), (ROWS[1:], COLUMNS)), shape=(3, 3))),
    (DetachError, "Call agrad.scipy.sparse.coo_matrix instead",
     lambda: agrad.grad(lambda v: theirs.coo_matrix((v, (ROWS, COLUMNS))).sum())(X)),
]  # fmt: skip
test_errors = refuses(ERRORS)
