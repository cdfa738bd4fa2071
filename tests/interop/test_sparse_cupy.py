"""Sparse matrices of CuPy beside Tensors: products in every mode, sums, and what refuses."""

import importlib
from typing import Any

import numpy as np
import pytest

import agrad
from agrad.errors import MixedBackendsError
from agrad.testing import check_grads

pytestmark = pytest.mark.needs("cupy")

RNG = np.random.default_rng(0)
A = np.where(RNG.uniform(size=(4, 3)) < 0.6, RNG.normal(size=(4, 3)), 0.0)
COMPLEX = A * (1 + 2j)


def sparse(kind: str, a: np.ndarray = A) -> Any:
    module, cupy = importlib.import_module("cupyx.scipy.sparse"), importlib.import_module("cupy")
    if kind == "dia":
        diagonals = [cupy.asarray(np.diagonal(a, k)) for k in range(-3, 3)]
        return module.diags(diagonals, list(range(-3, 3)), shape=a.shape, format="dia")
    return getattr(module, f"{kind}_matrix")(cupy.asarray(a))


def close(found: Any, wanted: Any) -> None:
    assert agrad.asarray(found).backend == "cupy"
    np.testing.assert_allclose(agrad.asarray(found).numpy(), np.asarray(wanted), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia"])
@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 3, 2)], ids=str)
def test_products_are_those_of_the_dense_matrix_in_every_mode(kind: str, shape: tuple[int, ...]) -> None:
    matrix, place = sparse(kind), importlib.import_module("cupy").asarray
    x, many = RNG.normal(size=shape), RNG.normal(size=(5, *shape))

    def before(a: Any) -> Any:
        return lambda v: agrad.sum(agrad.sin(a @ v))

    def behind(a: Any) -> Any:
        return lambda v: agrad.sum(agrad.sin((v if len(shape) == 1 else agrad.matrix_transpose(v)) @ a))

    for make, a, dense in ((before, matrix, A), (behind, matrix.T, A.T)):
        ours, wanted = make(a), make(dense)
        check_grads(ours, (place(x),), order=1)
        close(agrad.grad(ours)(place(x)), agrad.grad(wanted)(x))
        close(agrad.hessian(ours)(place(x)), agrad.hessian(wanted)(x))
        close(agrad.jvp(ours, (place(x),), (place(x),))[1], agrad.jvp(wanted, (x,), (x,))[1])
        close(agrad.vmap(agrad.grad(ours))(place(many)), agrad.vmap(agrad.grad(wanted))(many))
        close(agrad.jit(agrad.grad(ours))(place(x)), agrad.grad(wanted)(x))


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_complex_numbers_sums_and_the_star(kind: str) -> None:
    place = importlib.import_module("cupy").asarray
    x, z = np.asarray([1.0, -2.0, 0.5]), np.asarray([1j, 2.0 - 1j, 0.5])
    for matrix, a, v in (
        (sparse(kind, COMPLEX), COMPLEX, x),
        (sparse(kind), A, z),
        (sparse(kind, COMPLEX), COMPLEX, z),
    ):
        found = agrad.grad(lambda v, m=matrix: agrad.sum(agrad.abs(m @ v) ** 2))(place(v))
        close(found, agrad.grad(lambda v, m=a: agrad.sum(agrad.abs(m @ v) ** 2))(v))
    matrix = sparse(kind)
    for f, dense in (
        (lambda v: matrix + v, lambda v: A + v),
        (lambda v: v - matrix, lambda v: v - A),
        (lambda v: matrix * v, lambda v: A @ v),
    ):
        close(agrad.jacobian(f)(place(x)), agrad.jacobian(dense)(x))


def test_a_tensor_of_another_library_is_refused() -> None:
    with pytest.raises(MixedBackendsError, match=r"Move it: x.to\('cupy'\)"):
        sparse("csr") @ agrad.asarray(np.ones(3), requires_grad=True)
