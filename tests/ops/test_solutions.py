"""Solutions, logarithms of determinants, LU factors and exponentials: edges, errors, and other implementations."""

import math
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from refusals import fails, refuses

import agrad
from agrad.backends import load
from agrad.errors import ConfigurationError, OperandError, ShapeError
from agrad.registry import KERNELS, PRIMITIVES

RNG = np.random.default_rng(8)
A = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
AC = A + 1j * RNG.standard_normal((3, 3))
P = A @ A.T
V = np.asarray([0.5, -1.0, 2.0])
TALL = RNG.standard_normal((4, 2))


def test_only_the_triangle_is_read(place: Any) -> None:
    broken = np.where(np.tri(3, k=-1), np.nan, A)
    assert_close(agrad.linalg.solve_triangular(place(broken), place(V)), np.linalg.solve(np.triu(A), V), "upper")
    unit = np.where(np.tri(3), np.nan, A)
    found = agrad.linalg.solve_triangular(place(unit), place(V), unit_diagonal=True)
    assert_close(found, np.linalg.solve(np.triu(A, 1) + np.eye(3), V), "with ones on the diagonal")
    slope = agrad.grad(lambda a: agrad.sum(agrad.linalg.solve_triangular(a, place(V), lower=True)))(place(A))
    assert np.all(host(slope)[np.triu_indices(3, 1)] == 0)


def test_a_singular_triangle_has_no_finite_solution(place: Any) -> None:
    singular = place(np.asarray([[1.0, 2.0], [0.0, 0.0]]))
    text = ""
    try:
        found = host(agrad.linalg.solve_triangular(singular, place(V[:2])))
    except Exception as error:  # each library has its own
        found, text = np.full(2, np.nan), str(error)
    assert not np.isfinite(found).all()
    assert not text or "ingular" in text


def test_logarithms_of_determinants(place: Any) -> None:
    both = place(np.stack([P, -P]))
    found = host(agrad.linalg.logdet(both))
    assert_close(found[0], np.log(np.linalg.det(P)), "of a positive one")
    assert np.isnan(found[1])
    slope = agrad.grad(lambda x: agrad.sum(agrad.linalg.logdet(x)))(both)
    assert_close(slope, np.linalg.inv(np.stack([P, -P])).mT, "the transposed inverse", 1e-12)
    assert host(agrad.linalg.logdet(place(np.zeros((2, 2))))) == -math.inf
    turned = host(agrad.linalg.logdet(place(-P + 0j)))
    assert_close(turned, np.log(np.linalg.det(P)) + 1j * math.pi, "of a complex negative one")


def test_a_gradient_of_logdet_beyond_the_range_of_det(place: Any) -> None:
    for scale in (1e-100, 1e100):
        x = scale * np.stack([P, 2 * P])
        slope = agrad.grad(lambda x: agrad.sum(agrad.linalg.logdet(x)))(place(x))
        assert_close(host(slope) * scale, np.linalg.inv(np.stack([P, 2 * P])).mT, "gradient", 1e-12)


def test_least_squares_of_low_rank(place: Any) -> None:
    flat = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    found = agrad.linalg.lstsq(place(flat), place(V))
    assert int(host(found.rank)) == 1
    assert_close(found.solution, np.linalg.pinv(flat) @ V, "of least norm")
    assert_close(found.residuals, np.sum((flat @ np.linalg.pinv(flat) @ V - V) ** 2), "of every rank")
    # the same without a change of rank: the derivative is that of the outer product's solution
    u, w = np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, -1.0])
    slope = agrad.grad(lambda u: agrad.sum(agrad.linalg.lstsq(agrad.linalg.outer(u, place(w)), place(V)).solution ** 2))
    right = agrad.grad(lambda u: agrad.vecdot(u, place(V)) ** 2 / agrad.vecdot(u, u) ** 2 / 2)
    assert_close(slope(place(u)), host(right(place(u))), "gradient")
    near = np.diag([1.0, 1e-4])
    assert_close(agrad.linalg.lstsq(place(near), place(V[:2]), rtol=1e-3).solution, [0.5, 0.0], "rtol")
    assert_close(agrad.linalg.lstsq(place(near), place(V[:2])).solution, [0.5, -1e4], "by default")


def test_functions_of_integers_on_numpy() -> None:
    whole = np.asarray([[2, 1], [4, 3]])
    for name in ("lu", "matrix_exp", "logdet"):
        found, right = (getattr(agrad.linalg, name)(a) for a in (whole, whole.astype(np.float64)))
        for one, other in zip(np.atleast_1d(found), np.atleast_1d(right), strict=True):
            assert_close(one, other, name, 0.0)


@pytest.mark.parametrize("n", [31, 33, 70])
def test_lu_in_panels(n: int) -> None:
    for shape in ((n, n), (n, 40), (2, 40, n)):
        a = RNG.standard_normal(shape)
        P, L, U = agrad.linalg.lu(a)
        assert_close(P @ L @ U, a, "the product")
        assert np.max(np.abs(L)) == 1 and not np.triu(L, 1).any() and not np.tril(U, -1).any()


def test_exponentials(place: Any) -> None:
    assert_close(agrad.linalg.matrix_exp(place(np.diag(V))), np.diag(np.exp(V)), "of a diagonal matrix")
    turn = np.asarray([[0.0, 1.0], [-1.0, 0.0]])
    far = agrad.linalg.matrix_exp(place(np.stack([1e4 * turn, 0 * turn])))
    expected = np.stack([[[math.cos(1e4), math.sin(1e4)], [-math.sin(1e4), math.cos(1e4)]], np.eye(2)])
    np.testing.assert_allclose(host(far), expected, rtol=0, atol=1e-10)
    assert np.isnan(host(agrad.linalg.matrix_exp(place(np.full((2, 2), math.nan))))).all()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_derivative_of_an_exponential_along_any_length(scale: float, place: Any) -> None:
    x, t = A / 4, scale * RNG.standard_normal((3, 3))
    w, v = np.linalg.eig(x)
    gaps = (np.exp(w)[:, None] - np.exp(w)) / (w[:, None] - w + np.eye(3)) + np.diag(np.exp(w))
    inner = np.linalg.inv(v) @ t @ v
    expected = (v @ (inner * gaps) @ np.linalg.inv(v)).real
    found = agrad.jvp(agrad.linalg.matrix_exp, (place(x),), (place(t),))[1]
    assert_close(host(found) / scale, expected / scale, "along it", 1e-12)


def test_kernels_are_the_generic_forms(backend: str, place: Any) -> None:
    xp = load(backend.partition(":")[0]).xp
    for dtype in ("float64", "complex64"):
        x1, x2 = (
            place(RNG.standard_normal((2, 4, 3)).astype(dtype)),
            place(np.triu(AC if "c" in dtype else A).astype(dtype)),
        )
        for name, arrays, how in (("over_triangle", (x1, x2), {"upper": True}), ("matrix_exp", (x2,), {})):
            primitive = PRIMITIVES[f"linalg.{name}"]
            room = 1e-4 if dtype == "complex64" else 1e-12
            assert_close(primitive.bind(*arrays, **how), host(primitive.forward(xp, *arrays, **how)), name, room)
    assert backend not in ("torch", "jax", "cupy") or (backend, "linalg.over_triangle", "forward") in KERNELS


test_errors = refuses(
    [
        (ShapeError, "solve: b must have 3 rows, as ..., got shape (2,)", lambda: agrad.linalg.solve(A, V[:2])),
        (ShapeError, "square", lambda: agrad.linalg.solve_triangular(A[:2], V)),
        (ShapeError, "3 rows", lambda: agrad.linalg.solve_triangular(A, V[:2])),
        (OperandError, "trans must be 0, 1, 2, ... got 'H'", lambda: agrad.linalg.solve_triangular(A, V, trans="H")),
        (ShapeError, "at least 2 axes", lambda: agrad.linalg.cholesky_solve(V, V)),
        (ShapeError, "3 rows", lambda: agrad.linalg.cholesky_solve(A, np.float64(2.0))),
        (ShapeError, "square", lambda: agrad.linalg.logdet(TALL)),
        (ShapeError, "4 rows", lambda: agrad.linalg.lstsq(TALL, V)),
        (ShapeError, "at least 2 axes", lambda: agrad.linalg.lu(V)),
        (ShapeError, "square", lambda: agrad.linalg.matrix_exp(TALL)),
    ]
)


def test_lstsq_takes_the_cut_by_the_libraries_name_too() -> None:
    thin = np.asarray([[1.0, 1.0], [1.0, 1.0 + 1e-6], [1.0, 1.0]])
    cut = agrad.linalg.lstsq(thin, V[:3], rcond=1e-3).solution
    assert_close(cut, np.linalg.lstsq(thin, V[:3], rcond=1e-3)[0], "rcond", 1e-8)
    assert_close(cut, agrad.linalg.lstsq(thin, V[:3], rtol=1e-3).solution, "rtol")
    fails(ConfigurationError, "are the same option", lambda: agrad.linalg.lstsq(thin, V[:3], rcond=1e-3, rtol=1e-3))
