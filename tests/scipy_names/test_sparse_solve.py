"""Linear systems with a sparse matrix of SciPy: values as SciPy's, derivatives by the right side in every mode."""

import re
from typing import Any

import numpy as np
import pytest
from refusals import Refusal, fails, refuses

import agrad
from agrad.errors import MixedBackendsError, OperandError, ShapeError
from agrad.scipy.sparse import diags
from agrad.scipy.sparse.linalg import factorized, splu, spsolve
from agrad.testing import check_grads

sparse = pytest.importorskip("scipy.sparse")
theirs = pytest.importorskip("scipy.sparse.linalg")
pytestmark = pytest.mark.needs("scipy")

RNG = np.random.default_rng(0)
A = np.where(RNG.uniform(size=(5, 5)) < 0.4, RNG.normal(size=(5, 5)), 0.0) + 4 * np.eye(5)
COMPLEX = A + 1j * np.where(A != 0, RNG.normal(size=(5, 5)), 0.0)
SHAPES = [(5,), (5, 2), (5, 1)]
SOLVERS = {
    "spsolve": lambda a, b: spsolve(a, b),
    "splu": lambda a, b: splu(a).solve(b),
    "factorized": lambda a, b: factorized(a)(b),
}


def close(found: Any, wanted: Any, rtol: float = 1e-11) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", ["csc_array", "csr_array", "csr_matrix", "coo_array"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_values_and_derivatives(name: str, shape: tuple[int, ...], kind: str, request: pytest.FixtureRequest) -> None:
    a, solve = getattr(sparse, kind)(A), SOLVERS[name]
    b, many = RNG.normal(size=shape), RNG.normal(size=(4, *shape))
    wanted = theirs.spsolve(a.tocsc(), b) if name == "spsolve" else theirs.splu(a.tocsc()).solve(b)
    found = solve(a, b)
    assert type(found) is np.ndarray
    close(found, wanted)
    assert isinstance(solve(a, agrad.asarray(b)), agrad.Tensor)

    def f(v: Any) -> Any:
        return agrad.sum(agrad.sin(solve(a, v)))

    def dense(v: Any) -> Any:
        return agrad.sum(agrad.sin(agrad.linalg.solve(A, v)))

    close(agrad.grad(f)(b), agrad.grad(dense)(b))
    if kind != "csc_array" and not request.config.getoption("--thorough"):
        return  # the format is gone once the matrix is factored
    check_grads(f, (b,), order=2)
    close(agrad.hessian(f)(b), agrad.hessian(dense)(b))
    close(agrad.vmap(f)(many), np.stack([dense(v) for v in many]))
    close(agrad.vmap(agrad.grad(f))(many), agrad.vmap(agrad.grad(dense))(many))
    jitted = agrad.jit(agrad.grad(f))
    close(jitted(b), agrad.grad(dense)(b))
    close(jitted(2 * b), agrad.grad(dense)(2 * b))


@pytest.mark.parametrize("a", [A, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("imaginary", [0.0, 1.0])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_complex_numbers_and_transposes(a: np.ndarray, imaginary: float, trans: str) -> None:
    b = RNG.normal(size=5) + (1j * RNG.normal(size=5) if imaginary else 0.0)
    held = sparse.csc_array(a)
    matrix = {"N": a, "T": a.T, "H": a.conj().T}[trans]
    close(splu(held).solve(b, trans), np.linalg.solve(matrix, b))
    found = agrad.grad(lambda v: agrad.sum(agrad.abs(splu(held).solve(v, trans)) ** 2))(b)
    assert found.dtype == b.dtype
    close(found, agrad.grad(lambda v: agrad.sum(agrad.abs(agrad.linalg.solve(matrix, v)) ** 2))(b))


@pytest.mark.parametrize("b_dtype", ["float32", "float64", "complex64", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
def test_dtypes_are_scipys(dtype: str, b_dtype: str) -> None:
    a = sparse.csc_array(np.asarray([[4, 1], [0, 2]], dtype))
    b = np.asarray([1, 2], b_dtype)
    assert spsolve(a, b).dtype == theirs.spsolve(a, b).dtype
    close(spsolve(a, b), theirs.spsolve(a, b), rtol=1e-6)


def test_the_matrix_is_copied() -> None:
    a = sparse.csc_array(A)
    solve = factorized(a)
    a.data *= 2
    close(solve(agrad.asarray(np.ones(5))), np.linalg.solve(A, np.ones(5)))


LEAF = agrad.asarray([1.0, 2.0, 3.0], requires_grad=True)
REFUSED: list[Refusal] = [
    (OperandError, "a sparse matrix of SciPy, got ndarray. Pass a dense matrix", lambda: spsolve(np.eye(3), LEAF)),
    (OperandError, "got SparseArray. Call spsolve(A, b).", lambda: splu(diags([LEAF], [0]))),
    (ShapeError, "A must be square, got shape (3, 4)", lambda: spsolve(sparse.eye_array(3, 4), LEAF)),
    (ShapeError, "b must have 4 rows, like the matrix, got shape (3,)", lambda: spsolve(sparse.eye_array(4), LEAF)),
    (RuntimeError, "singular", lambda: splu(sparse.csc_array(np.zeros((3, 3)))).solve(LEAF)),
    (OperandError, "trans must be 'N', 'T' or 'H', got 'C'", lambda: splu(sparse.eye_array(3)).solve(LEAF, "C")),
]
test_refusals = refuses(REFUSED)


def test_other_backends_are_told_to_move(backend: str) -> None:
    x = agrad.asarray([1.0, 2.0])
    a = 2 * sparse.eye_array(2)
    if x.backend == "numpy":
        close(spsolve(a, x), [0.5, 1.0])
        return
    fails(MixedBackendsError, re.escape("x.to('numpy')"), lambda: spsolve(a, x))
    close(spsolve(a, x.to("numpy")).numpy(), [0.5, 1.0])


def test_the_values_of_a_sparse_array_are_differentiated() -> None:
    def f(x: Any) -> Any:
        p = agrad.concat([x[-1:], x, x[:1]])
        return 3 * x**3 + p[2:] * x - p[:-2] ** 2

    x, b = np.linspace(1, 2, 6), np.stack([np.arange(1.0, 7), np.ones(6)], axis=1)
    sparse, dense = agrad.sparse_jacobian(f), agrad.jacobian(f)

    def ours(x: Any, b: Any) -> Any:
        return agrad.sum(spsolve(sparse(x), b) ** 2)

    def theirs(x: Any, b: Any) -> Any:
        return agrad.sum(agrad.linalg.solve(dense(x), b) ** 2)

    for right in (b, b[:, 0]):
        for mine, other in zip(agrad.grad(ours, (0, 1))(x, right), agrad.grad(theirs, (0, 1))(x, right), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-13)
    check_grads(ours, (x, b), order=2)
    np.testing.assert_allclose(agrad.hessian(ours)(x, b), agrad.hessian(theirs)(x, b), atol=1e-11)
    np.testing.assert_allclose(agrad.jit(agrad.grad(ours))(x, b), agrad.grad(theirs)(x, b), atol=1e-13)
    many = agrad.vmap(agrad.grad(ours), in_axes=(0, None))(np.stack([x, 2 * x]), b)
    np.testing.assert_allclose(many[1], agrad.grad(theirs)(2 * x, b), atol=1e-13)
    fails(ShapeError, "b must have 6 rows", lambda: spsolve(sparse(agrad.asarray(x)), b[:3]))
    fails(ShapeError, "A must be square", lambda: spsolve(agrad.sparse_jacobian(lambda v: v[1:])(agrad.asarray(x)), b))
