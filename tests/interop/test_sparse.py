"""Sparse matrices of SciPy and CuPy beside Tensors: products in every mode, sums, and refusals; and those of torch."""

import contextlib
import importlib
import re
import warnings
from typing import Any

import numpy as np
import pytest
from modes import DERIVATIVES, JITTED, MAPS, check_same
from refusals import fails

import agrad
from agrad.errors import DetachError, MixedBackendsError, ShapeError
from agrad.testing import check_grads

with contextlib.suppress(ImportError):
    from scipy import sparse

SCIPY, CUPY = pytest.mark.needs("scipy"), pytest.mark.needs("cupy")
RNG = np.random.default_rng(0)
A = np.where(RNG.uniform(size=(4, 3)) < 0.6, RNG.normal(size=(4, 3)), 0.0)
COMPLEX = A * (1 + 2j)
SHAPES = [(3,), (3, 2), (3, 1), (2, 3, 2)]
FORMS = [f"{form}_{kind}" for form in ("csr", "csc", "coo", "dia", "bsr", "lil", "dok") for kind in ("array", "matrix")]


def of_both(scipys: list[str], cupys: list[str]) -> list[Any]:
    """Return parameters for kinds of matrices of SciPy and of CuPy."""
    return [*(pytest.param(k, marks=SCIPY) for k in scipys), *(pytest.param(f"cupy {k}", marks=CUPY) for k in cupys)]


def held(kind: str, a: np.ndarray = A) -> Any:
    """Return a sparse matrix of a kind."""
    if not kind.startswith("cupy"):
        return getattr(sparse, kind)(a)
    form, module, place = kind[5:], importlib.import_module("cupyx.scipy.sparse"), place_of(kind)
    if form == "dia":
        diagonals = [place(np.diagonal(a, k)) for k in range(-3, 3)]
        return module.diags(diagonals, list(range(-3, 3)), shape=a.shape, format="dia")
    return getattr(module, f"{form}_matrix")(place(a))


def place_of(kind: str) -> Any:
    return importlib.import_module("cupy").asarray if kind.startswith("cupy") else np.asarray


def close(found: Any, wanted: Any, kind: str = "") -> None:
    assert not kind.startswith("cupy") or agrad.asarray(found).backend == "cupy"
    np.testing.assert_allclose(agrad.asarray(found).numpy(), np.asarray(wanted), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", of_both(FORMS, ["csr", "csc", "coo", "dia"]))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_the_dense_matrix_in_every_mode(kind: str, shape: tuple[int, ...]) -> None:
    matrix, x = held(kind), RNG.normal(size=shape)

    def before(a: Any) -> Any:
        return lambda v: agrad.sin(a @ v)

    def behind(a: Any) -> Any:
        return lambda v: agrad.sin((v if len(shape) == 1 else agrad.matrix_transpose(v)) @ a)

    modes = [mode for mode in (*DERIVATIVES, *MAPS, *JITTED) if mode != "value"]  # of an array it is SciPy's own
    for make, ours, dense in ((before, matrix, A), (behind, matrix.T, A.T)):
        given = place_of(kind)(x)
        check_same(make(ours), make(dense), (given,), modes, reference=(x,))
        close(make(ours)(agrad.asarray(given)), make(dense)(x), kind)


@SCIPY
@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "coo_array"])
def test_values_are_those_of_scipy_to_the_last_bit(kind: str) -> None:
    matrix = getattr(sparse, kind)(A)
    for x in (RNG.normal(size=3), RNG.normal(size=(3, 2))):
        found = matrix @ agrad.asarray(x, requires_grad=True)
        assert isinstance(found, agrad.Tensor)
        np.testing.assert_array_equal(found.detach().numpy(), matrix @ x)
        np.testing.assert_array_equal((matrix @ agrad.asarray(x)).numpy(), matrix @ x)
        np.testing.assert_array_equal(matrix.dot(agrad.asarray(x)).numpy(), matrix @ x)


@pytest.mark.parametrize("kind", of_both(["csr_array"], ["csr", "coo"]))
def test_complex_numbers(kind: str) -> None:
    place, z = place_of(kind), np.asarray([1j, 2.0 - 1j, 0.5])
    for a, x in ((COMPLEX, z.real), (A, z), (COMPLEX, z)):
        found, wanted = (
            agrad.grad(lambda v, m=m: agrad.sum(agrad.abs(m @ v) ** 2))(given)
            for m, given in ((held(kind, a), place(x)), (a, x))
        )
        assert found.dtype == x.dtype
        close(found, wanted, kind)


@SCIPY
@pytest.mark.parametrize("x_dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_dtypes_are_scipys_and_a_gradient_has_that_of_its_argument(dtype: str, x_dtype: str) -> None:
    matrix = sparse.csr_array(np.asarray([[1, 0, 2], [0, 3, 0]], dtype))
    x = np.asarray([1, 2, 3], x_dtype)
    assert (matrix @ agrad.asarray(x)).dtype == (matrix @ x).dtype
    found = agrad.grad(lambda v: agrad.sum(agrad.abs(matrix @ v)))(x)
    assert found.dtype == x_dtype
    close(found, [1.0, 3.0, 2.0])


@SCIPY
def test_integers_are_multiplied() -> None:
    found = sparse.csr_array(np.asarray([[1, 0, 2]])) @ agrad.asarray([1, 2, 3])
    assert found.dtype == agrad.int64
    assert found.numpy().tolist() == [7]
    listed = sparse.csr_array(np.asarray([[1, 0, 2]])) * list(agrad.asarray([1, 2, 3]))
    assert listed.toarray().tolist() == [[1, 0, 6]]


@pytest.mark.parametrize("kind", of_both(["csr_array", "csr_matrix"], ["csr", "coo"]))
def test_sums_are_dense_and_the_star_of_matrices_is_their_product(kind: str) -> None:
    x, m = RNG.normal(size=3), held(kind)
    for f, dense in (
        (lambda v: m + v, lambda v: A + v),
        (lambda v: v - m, lambda v: v - A),
        (lambda v: m - v, lambda v: A - v),
        *([] if "array" in kind else [(lambda v: m * v, lambda v: A @ v), (lambda v: v * m.T, lambda v: A @ v)]),
    ):
        close(agrad.jacobian(f)(place_of(kind)(x)), agrad.jacobian(dense)(x), kind)


@pytest.mark.parametrize("kind", of_both(FORMS, []))
def test_elementwise_operators_are_those_of_the_dense_matrix(kind: str) -> None:
    x, m = np.asarray([0.5, -2.0, 3.0]), held(kind)
    vectors = (lambda a, v: a / v, lambda a, v: a / agrad.reshape(v[0] * np.ones(4), (4, 1)))
    products = (lambda a, v: a * v, lambda a, v: v * a, lambda a, v: a * (v * np.ones((4, 1))))
    for f in (lambda a, v: a * v[0], lambda a, v: a / v[1], *vectors, *(products if "array" in kind else ())):
        one = lambda v, f=f: agrad.sum(agrad.sin(f(m, v).toarray()))  # noqa: E731
        modes = [mode for mode in (*DERIVATIVES, *MAPS, "jit of the gradient") if mode != "value"]
        check_same(one, lambda v, f=f: agrad.sum(agrad.sin(f(A, v))), (x,), modes, 1e-12)


@SCIPY
@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda a, x: a * x[:2], ShapeError, "(2,)"),
        (lambda a, x: a * list(x), DetachError, "cannot convert a Tensor that requires a gradient"),
        (lambda a, x: a @ list(x), DetachError, "cannot convert a Tensor that requires a gradient"),
        (lambda a, x: a[0] * x, ShapeError, "a sparse matrix must be 2-D, got shape (3,)"),
        (lambda a, x: a.multiply(x), DetachError, "Mix a Tensor with the values of the csr_array: .toarray()"),
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


@SCIPY
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


@SCIPY
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


@CUPY
def test_a_tensor_of_another_library_is_refused() -> None:
    fails(MixedBackendsError, r"Move it: x.to\('cupy'\)", lambda: held("cupy csr") @ agrad.asarray(np.ones(3)))
