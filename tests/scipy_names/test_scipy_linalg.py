"""``agrad.scipy.linalg``: edges, errors, and what the calls do not reach."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from refusals import Refusal, refuses

import agrad
from agrad.errors import OperandError, ShapeError
from agrad.scipy import linalg

RNG = np.random.default_rng(5)
A = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
P = A @ A.T
V = np.asarray([0.5, -1.0, 2.0])


def test_only_the_triangle_is_read() -> None:
    for lower in (False, True):
        half = (np.tril if lower else np.triu)(P) + (np.triu if lower else np.tril)(A, 1 if lower else -1)
        assert_close(linalg.cholesky(half, lower=lower), linalg.cholesky(P, lower=lower), "cholesky")
        assert_close(linalg.solve(half, V, assume_a="pos", lower=lower), np.linalg.solve(P, V), "solve")
        assert_close(linalg.eigvalsh(half, lower=lower), np.linalg.eigvalsh(P), "eigvalsh")
        factor = linalg.cho_factor(P, lower=lower)[0] + (np.triu if lower else np.tril)(A, 1 if lower else -1)
        assert_close(linalg.cho_solve((factor, lower), V), np.linalg.solve(P, V), "cho_solve")


def test_the_gradient_of_a_hermitian_matrix_is_hermitian(place: Any) -> None:
    for f in (
        lambda a: 2 * agrad.sum(agrad.log(agrad.linalg.diagonal(linalg.cholesky(a)))),
        lambda a: agrad.sum(agrad.log(linalg.eigvalsh(a))),
        lambda a: agrad.sum(agrad.log(linalg.eigh(a, lower=False, eigvals_only=True))),
    ):
        assert_close(agrad.grad(f)(place(P)), np.linalg.inv(P), "of the logarithm of the determinant")


def test_exponentials_at_edges(place: Any) -> None:
    turn = np.asarray([[0.0, 1e4], [-1e4, 0.0]])
    expected = [[math.cos(1e4), math.sin(1e4)], [-math.sin(1e4), math.cos(1e4)]]
    np.testing.assert_allclose(host(linalg.expm(place(turn))), expected, rtol=0, atol=1e-10)
    fall = place(np.asarray([[-1e3, 1.0], [0.0, -1e5]]))
    assert np.all(host(agrad.grad(lambda a: agrad.sum(linalg.expm(a)))(fall)) == 0)
    zero = place(np.zeros((2, 2)))
    assert_close(linalg.expm(zero), np.eye(2), "at 0")
    assert_close(agrad.grad(lambda a: agrad.sum(linalg.expm(a)))(zero), np.ones((2, 2)), "slope at 0")
    # one member whose square would overflow beside one that is squared no more
    far = np.stack([np.diag([700.0, 1.0]), np.eye(2)])
    slope = host(agrad.grad(lambda a: agrad.sum(linalg.expm(a)[..., 1, 1]))(place(far)))
    assert_close(slope, np.asarray([np.diag([0, math.e])] * 2), "beside large ones")


def test_large_norms_in_every_way_of_calling(place: Any) -> None:
    turn = place(np.asarray([[[0.0, 1e6], [-1e6, 0.0]]]))
    for expm in (linalg.expm, agrad.vmap(linalg.expm), agrad.jit(linalg.expm), agrad.jit(agrad.vmap(linalg.expm))):
        np.testing.assert_allclose(host(expm(turn))[0, 0, 0], math.cos(1e6), atol=1e-8)


@pytest.mark.parametrize("name", ["expm", "sqrtm", "logm"])
def test_functions_that_iterate_in_programs(name: str, place: Any) -> None:
    """A traced loop of JAX's, and a read of the values elsewhere; with derivatives."""

    def f(a: Any) -> Any:
        return agrad.sum(getattr(linalg, name)(a) ** 2)

    batch = place(np.stack([P, np.eye(3), 40 * P]) / 8)
    right = agrad.grad(f)(batch)
    assert_close(agrad.jit(agrad.grad(f))(batch), host(right), "in a program", 1e-10)
    assert_close(agrad.vmap(agrad.grad(f))(batch), host(right), "mapped", 1e-10)


def test_square_roots_are_right_or_nan(place: Any) -> None:
    for x in ([[-1.0, 0.0], [0.0, 2.0]], [[-4.0, 0.0], [0.0, -9.0]], [[1.0, 2.0], [3.0, 4.0]]):
        assert np.isnan(host(linalg.sqrtm(place(np.asarray(x))))).all(), "of a negative eigenvalue"
    wide = np.diag([1e-12, 1.0, 1e6])
    assert_close(linalg.sqrtm(place(wide)), np.sqrt(wide), "of many magnitudes")
    # eigenvalues close to the negative axis
    turn = np.asarray([[math.cos(3.1), -math.sin(3.1)], [math.sin(3.1), math.cos(3.1)]])
    half = np.asarray([[math.cos(1.55), -math.sin(1.55)], [math.sin(1.55), math.cos(1.55)]])
    np.testing.assert_allclose(host(linalg.sqrtm(place(turn))), half, rtol=0, atol=1e-12)
    assert_close(linalg.sqrtm(place(np.full((2, 0, 0), 1.0))), np.full((2, 0, 0), 1.0), "empty")


def test_logarithms_are_right_or_nan(place: Any) -> None:
    assert np.isnan(host(linalg.logm(place(np.asarray([[-1.0, 0.0], [0.0, 2.0]]))))).all()
    wide = np.stack([np.diag([1e-12, 1.0, 1e6]), np.eye(3) * 1.25])
    expected = np.stack([np.diag(np.log([1e-12, 1.0, 1e6])), np.eye(3) * math.log(1.25)])
    assert_close(linalg.logm(place(wide)), expected, "of many magnitudes")
    assert_close(linalg.logm(place(np.eye(2))), np.zeros((2, 2)), "of the identity", 0.0)
    assert_close(linalg.logm(linalg.expm(place(A))), A, "of an exponential", 1e-10)


def test_gradients_of_functions_of_nearly_singular_matrices(place: Any) -> None:
    """Beyond half of the digits there is no value; a derivative has a limit of its own."""
    near = np.asarray([[1.0, 1e4], [0.0, 2e-7]])
    found = host(agrad.grad(lambda a: linalg.sqrtm(a)[0, 0])(place(near)))
    assert np.isfinite(found).all()
    assert_close(found[0, 0], 0.5, "slope of the first root", 1e-6)


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 4), (2, 4, 4), (2, 0, 3), (0, 2, 2)])
def test_pivots_and_permutations(shape: tuple[int, ...], place: Any) -> None:
    a = RNG.standard_normal(shape)
    packed, pivots = (host(x) for x in linalg.lu_factor(place(a)))
    P, L, U = (host(x) for x in linalg.lu(place(a)))
    k = min(shape[-2:])
    assert_close(packed[..., :, :k] * np.tri(*packed.shape[-2:], -1)[:, :k], L - np.eye(*L.shape[-2:]), "L", 0.0)
    assert_close(np.triu(packed[..., :k, :]), U, "U", 0.0)
    assert pivots.shape == (*shape[:-2], k) and pivots.dtype.kind == "i"
    for member in np.ndindex(shape[:-2]):
        rows = list(range(shape[-2]))
        for i, j in enumerate(pivots[member]):
            rows[i], rows[j] = rows[j], rows[i]
        assert_close(a[member][rows], L[member] @ U[member], "the rows in the order of pivots")
    where = host(linalg.lu(place(a), p_indices=True)[0])
    assert_close(np.take_along_axis(L, where[..., None], axis=-2) @ U, a, "rows by index")
    assert_close(P @ L @ U, a, "the matrix")


@pytest.mark.needs("scipy")
def test_pivots_are_those_of_scipy() -> None:
    import scipy.linalg

    for a in (A, A + 1j * P, RNG.standard_normal((4, 6)), RNG.standard_normal((7, 3))):
        expected = scipy.linalg.lu_factor(a)
        found = linalg.lu_factor(a)
        np.testing.assert_array_equal(found[1], expected[1])
        for real, other in zip(linalg.lu(a, p_indices=True), scipy.linalg.lu(a, p_indices=True), strict=True):
            assert_close(real, other, "by index")
        assert linalg.lu(a)[0].dtype == scipy.linalg.lu(a)[0].dtype
    assert_close(linalg.lu_solve(scipy.linalg.lu_factor(A), V), np.linalg.solve(A, V), "by SciPy's factors")


def test_a_mixed_sylvester_equation() -> None:
    # SciPy 1.17 solves another equation where a is complex and b is real
    a, b, q = A + 0.5j * P, A.T, A + 1j * P
    x = linalg.solve_sylvester(a, b, q)
    assert_close(a @ x + x @ b, q, "the equation")


def test_norms_without_elements_are_zero() -> None:
    for shape, order in (((0, 0), 1), ((0, 2), "fro"), ((0,), np.inf), ((2, 0), np.inf)):
        assert linalg.norm(np.zeros(shape), order) == 0
    assert linalg.norm(np.zeros((2, 0)), 1, axis=1).shape == (2,)


def test_ranks() -> None:
    flat = np.asarray([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    x, residuals, rank, s = linalg.lstsq(flat, V)
    assert_close(x, np.linalg.lstsq(flat, V)[0], "the solution of least norm")
    assert int(rank) == 1 and s.shape == (2,)
    assert_close(residuals, np.sum((flat @ x - V) ** 2), "residuals of every rank")
    assert int(linalg.pinv(flat, return_rank=True)[1]) == 1
    assert linalg.lstsq(flat.T, V[:2])[1].shape == (0,)


def test_lists_and_numbers() -> None:
    assert_close(linalg.block_diag([1, 2], 3), np.asarray([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]), "block_diag")
    assert host(linalg.block_diag()).shape == (1, 0)
    assert_close(linalg.solve([[2, 0], [0, 4]], [1, 1]), np.asarray([0.5, 0.25]), "solve")
    assert_close(linalg.toeplitz(2), np.asarray([[2.0]]), "toeplitz")


REFUSED: list[Refusal] = [
    (ShapeError, "square", lambda: linalg.solve(A[:2], V)),
    (ShapeError, "3 rows", lambda: linalg.solve(A, V[:2])),
    (OperandError, "assume_a='odd'", lambda: linalg.solve(A, V, assume_a="odd")),
    (OperandError, "transposed", lambda: linalg.solve(A + 0j, V, transposed=True)),
    (OperandError, "trans", lambda: linalg.solve_triangular(A, V, trans=3)),
    (OperandError, "trans must be 0, 1 or 2", lambda: linalg.lu_solve(linalg.lu_factor(A), V, trans=3)),
    (ShapeError, "3 rows", lambda: linalg.lu_solve(linalg.lu_factor(A), V[:2])),
    (ShapeError, "square", lambda: linalg.lu_solve(linalg.lu_factor(A[:2]), V[:2])),
    (ShapeError, "at least two axes", lambda: linalg.lu(V)),
    (ShapeError, "square", lambda: linalg.logm(A[:2])),
    (ShapeError, "Pass axis=", lambda: linalg.norm(np.ones((2, 2, 2)), 1)),
    (OperandError, "ord", lambda: linalg.norm(A, "odd")),
    (OperandError, "Pass rtol", lambda: linalg.pinv(A, atol=0.1)),
    (ShapeError, "at least two axes", lambda: linalg.cholesky(V)),
    (OperandError, "pivoting=True", lambda: linalg.qr(A, pivoting=True)),
    (OperandError, "mode", lambda: linalg.qr(A, mode="raw")),
    (OperandError, "subset_by_value", lambda: linalg.eigh(A, subset_by_value=[0, 1])),
    (OperandError, "type=2", lambda: linalg.eigh(A, P, type=2)),
    (OperandError, "solve", lambda: linalg.eig(A, P)),
    (OperandError, "left=True", lambda: linalg.eig(A, left=True)),
    (OperandError, "homogeneous", lambda: linalg.eigvals(A, homogeneous_eigvals=True)),
    (ShapeError, "3 rows, got 2", lambda: linalg.solve_banded((1, 1), A[:2], V)),
    (ShapeError, "q must have shape", lambda: linalg.solve_sylvester(A, A, V)),
    (ShapeError, "at least two axes", lambda: linalg.expm(V)),
    (ShapeError, "square", lambda: linalg.sqrtm(A[:2])),
    (ShapeError, "at least one axis", lambda: linalg.hankel(1.0)),
]
test_errors = refuses(REFUSED)
