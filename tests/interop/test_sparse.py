"""Sparse matrices of SciPy beside Tensors: products in every mode, sums, and what refuses; sparse Tensors of torch."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.errors import DetachError, MixedBackendsError, ShapeError
from agrad.testing import check_grads

scipy = pytest.importorskip("scipy")
sparse = pytest.importorskip("scipy.sparse")
pytestmark = pytest.mark.needs("scipy")

RNG = np.random.default_rng(0)
A = np.where(RNG.uniform(size=(4, 3)) < 0.6, RNG.normal(size=(4, 3)), 0.0)
COMPLEX = A * (1 + 2j)
SHAPES = [(3,), (3, 2), (3, 1), (2, 3, 2)]
# SciPy before 1.16 does not convert what it divides by
CONVERTS = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 16)
DIVIDED = (
    (DetachError, "cannot convert a Tensor that requires a gradient")
    if CONVERTS
    else (TypeError, "unsupported operand type(s) for /")
)
KINDS = [f"{form}_{kind}" for form in ("csr", "csc", "coo", "dia", "bsr", "lil", "dok") for kind in ("array", "matrix")]


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_the_dense_matrix_in_every_mode(kind: str, shape: tuple[int, ...]) -> None:
    matrix = getattr(sparse, kind)(A)
    x, many = RNG.normal(size=shape), RNG.normal(size=(5, *shape))

    def before(a: Any) -> Any:
        return lambda v: agrad.sum(agrad.sin(a @ v))

    def behind(a: Any) -> Any:
        return lambda v: agrad.sum(agrad.sin((v if len(shape) == 1 else agrad.matrix_transpose(v)) @ a))

    for make, given in ((before, (matrix, A)), (behind, (matrix.T, A.T))):
        ours, dense = make(given[0]), make(given[1])
        check_grads(ours, (x,), order=2)
        close(agrad.grad(ours)(x), agrad.grad(dense)(x))
        close(agrad.hessian(ours)(x), agrad.hessian(dense)(x))
        close(agrad.jvp(ours, (x,), (x,))[1], agrad.jvp(dense, (x,), (x,))[1])
        close(agrad.vmap(ours)(many), agrad.vmap(dense)(many))
        close(agrad.vmap(agrad.grad(ours))(many), agrad.vmap(agrad.grad(dense))(many))
        mapped = agrad.vmap(ours)
        close(agrad.vjp(mapped, many)[1](np.ones(5))[0], agrad.vmap(agrad.grad(dense))(many))
        jitted = agrad.jit(agrad.grad(ours))
        close(jitted(x), agrad.grad(dense)(x))
        close(jitted(2 * x), agrad.grad(dense)(2 * x))


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "coo_array"])
def test_values_are_those_of_scipy_to_the_last_bit(kind: str) -> None:
    matrix = getattr(sparse, kind)(A)
    for x in (RNG.normal(size=3), RNG.normal(size=(3, 2))):
        found = matrix @ agrad.asarray(x, requires_grad=True)
        assert isinstance(found, agrad.Tensor)
        np.testing.assert_array_equal(found.detach().numpy(), matrix @ x)
        np.testing.assert_array_equal((matrix @ agrad.asarray(x)).numpy(), matrix @ x)
        np.testing.assert_array_equal(matrix.dot(agrad.asarray(x)).numpy(), matrix @ x)


@pytest.mark.parametrize("matrix", [A, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("x", [np.asarray([1.0, -2.0, 0.5]), np.asarray([1j, 2.0 - 1j, 0.5])], ids=["real", "complex"])
def test_complex_numbers(matrix: np.ndarray, x: np.ndarray) -> None:
    held = sparse.csr_array(matrix)
    found = agrad.grad(lambda v: agrad.sum(agrad.abs(held @ v) ** 2))(x)
    wanted = agrad.grad(lambda v: agrad.sum(agrad.abs(matrix @ v) ** 2))(x)
    assert found.dtype == x.dtype
    close(found, wanted)


@pytest.mark.parametrize("x_dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_dtypes_are_scipys_and_a_gradient_has_that_of_its_argument(dtype: str, x_dtype: str) -> None:
    matrix = sparse.csr_array(np.asarray([[1, 0, 2], [0, 3, 0]], dtype))
    x = np.asarray([1, 2, 3], x_dtype)
    assert (matrix @ agrad.asarray(x)).dtype == (matrix @ x).dtype
    found = agrad.grad(lambda v: agrad.sum(agrad.abs(matrix @ v)))(x)
    assert found.dtype == x_dtype
    close(found, [1.0, 3.0, 2.0])


def test_integers_are_multiplied() -> None:
    found = sparse.csr_array(np.asarray([[1, 0, 2]])) @ agrad.asarray([1, 2, 3])
    assert found.dtype == agrad.int64
    assert found.numpy().tolist() == [7]


def test_sums_are_dense_and_the_star_of_matrices_is_their_product() -> None:
    x = RNG.normal(size=3)
    array, matrix = sparse.csr_array(A), sparse.csr_matrix(A)
    for f, dense in (
        (lambda v: array + v, lambda v: A + v),
        (lambda v: v - array, lambda v: v - A),
        (lambda v: array - v, lambda v: A - v),
        (lambda v: matrix * v, lambda v: A @ v),
        (lambda v: v * matrix.T, lambda v: A @ v),
    ):
        close(agrad.jacobian(f)(x), agrad.jacobian(dense)(x))


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda a, x: a * x, DetachError, "Mix a Tensor with the values of the csr_array: .toarray()"),
        (lambda a, x: x * a, DetachError, "Mix a Tensor with the values of the csr_array: .toarray()"),
        (lambda a, x: a.multiply(x), DetachError, "Mix a Tensor with the values of the csr_array: .toarray()"),
        (lambda a, x: a / x, *DIVIDED),
        (lambda a, x: x / a, TypeError, "unsupported operand type(s) for /"),
        (lambda a, x: a @ x[:2], ShapeError, "matmul: shapes (4, 3) and (2,)"),
        (lambda a, x: x @ a, ShapeError, "matmul: shapes (3,) and (4, 3)"),
        (lambda a, x: a @ x[0], ShapeError, "matmul: arguments must have at least 1 axis, got a scalar"),
        (lambda a, x: a[0] @ x, ShapeError, "a sparse matrix must be 2-D, got shape (3,)"),
        (lambda a, x: agrad.matmul(a, x), agrad.errors.OperandError, "got csr_array. Make an array with"),
    ],
)
def test_refusals(f: Any, error: type[Exception], text: str) -> None:
    x = agrad.asarray([1.0, 2.0, 3.0], requires_grad=True)
    fails(error, re.escape(text), lambda: f(sparse.csr_array(A), x))


def test_a_jitted_function_reads_a_matrix_from_outside() -> None:
    matrix, x = sparse.csr_array(A), np.asarray([1.0, 2.0, 3.0])
    text = "got a csr_array, which cannot be hashed"
    with pytest.raises(agrad.errors.OperandError, match=text) as error:
        agrad.jit(lambda a, v: a @ v)(matrix, x)
    assert "let the function capture the value" in str(error.value)
    f = agrad.jit(lambda v: matrix @ v)
    close(f(x), A @ x)
    matrix.data *= 2
    close(f(x), 2 * A @ x)
    matrix = sparse.csr_array(3 * A)
    close(f(x), 3 * A @ x)


@pytest.mark.parametrize("f", [lambda a, x: a @ x, lambda a, x: x @ a.T], ids=["before", "behind"])
def test_other_backends_are_told_to_move(backend: str, f: Any) -> None:
    x = agrad.asarray([1.0, 2.0, 3.0])
    matrix = sparse.csr_array(A)
    if x.backend == "numpy":
        close(f(matrix, x), A @ np.asarray(x))
        return
    text = f"must be on 'numpy', like the sparse matrix, got {x.backend!r}. Move it: x.to('numpy')."
    fails(MixedBackendsError, re.escape(text), lambda: f(matrix, x))
    moved = f(matrix, x.to("numpy"))
    close(moved.numpy(), A @ x.to("numpy").numpy())


@pytest.mark.needs("torch")
@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
def test_sparse_tensors_of_torch_multiply_dense_ones(layout: str) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, that its CSR layout may change
        matrix = getattr(torch.tensor(A), layout)()
        x = torch.tensor(RNG.normal(size=3))

        def f(v: Any) -> Any:
            return agrad.sum(agrad.sin(matrix @ v))

        check_grads(f, (x,), order=2)
        close(agrad.grad(f)(x), A.T @ np.cos(A @ x.numpy()))
        close(agrad.vmap(agrad.grad(f))(torch.stack([x, 2 * x]))[1], A.T @ np.cos(2 * A @ x.numpy()))
        close(agrad.jit(agrad.grad(f))(x), A.T @ np.cos(A @ x.numpy()))
        columns = torch.stack([x, -x], dim=1)
        close(agrad.hessian(f)(columns), agrad.hessian(lambda v: agrad.sum(agrad.sin(A @ v)))(columns.numpy()))
        close(agrad.vmap(lambda v: matrix @ v)(torch.stack([columns, 2 * columns]))[1], 2 * A @ columns.numpy())
