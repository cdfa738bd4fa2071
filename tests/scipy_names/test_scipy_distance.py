"""Edges and errors of ``agrad.scipy.spatial.distance``."""

from typing import Any

import numpy as np
import pytest
from refusals import Refusal, refuses

import agrad
from agrad.errors import ConfigurationError, DtypeError, RefusedFunctionError, ShapeError
from agrad.scipy.spatial import distance


@pytest.mark.parametrize("metric", ["euclidean", "minkowski", "jensenshannon", "cityblock", "chebyshev", "canberra"])
def test_derivatives_at_equal_points_are_zero(metric: str) -> None:
    x = np.asarray([[1.0, 2.0], [1.0, 2.0], [0.5, 3.0]])

    def total(x: Any) -> Any:
        return agrad.sum(distance.cdist(x, x, metric)[:2, :2])

    assert not np.any(agrad.grad(total)(x))
    whole = agrad.grad(lambda x: agrad.sum(distance.pdist(x, metric)))(x)
    assert np.all(np.isfinite(whole))
    assert np.any(whole)


def test_small_distances_keep_their_digits() -> None:
    u = np.asarray([1e8, 1.0])
    assert distance.sqeuclidean(u, np.asarray([1e8, 1.0 + 1e-6])) == pytest.approx(1e-12, rel=1e-9)
    v = np.asarray([1.0, 1e-7])
    assert distance.cosine(np.asarray([1.0, 0.0]), v) == pytest.approx(5e-15, rel=1e-7)
    assert np.allclose(agrad.grad(lambda v: distance.cosine(np.asarray([1.0, 0.0]), v))(v), [0, 1e-7], atol=1e-13)


def test_classes_without_probability() -> None:
    p, q = np.asarray([0.2, 0.0, 0.8, 0.0]), np.asarray([0.5, 0.0, 0.3, 0.2])
    found = agrad.grad(lambda q: distance.jensenshannon(p, q))(q)
    assert np.all(np.isfinite(found))
    found = agrad.grad(lambda p: distance.jensenshannon(p, q))(p)
    assert np.all(np.isfinite(found[[0, 1, 2]]))
    assert found[3] == -np.inf
    assert np.isfinite(distance.jensenshannon(p, q))


def test_zero_vectors_and_negative_weights_are_nan() -> None:
    zero, one = np.zeros(2), np.asarray([1.0, 2.0])
    assert np.isnan(distance.cosine(zero, one))
    assert np.isnan(distance.euclidean(zero, one, w=-one))
    assert distance.canberra(zero, np.asarray([0.0, 2.0])) == 1
    assert np.array_equal(agrad.grad(lambda v: distance.canberra(zero, v))(np.asarray([0.0, 2.0])), [0, 0])


@pytest.mark.parametrize("metric", ["cosine", "correlation", "braycurtis"])
def test_rows_without_a_distance_leave_the_derivatives_of_other_pairs(metric: str, place: Any) -> None:
    x = np.asarray([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, 5.0], [3.0, 1.0, 0.5]])
    found = np.asarray(agrad.asarray(agrad.grad(lambda x: distance.pdist(x, metric)[5])(place(x))).numpy())
    assert np.all(found[:2] == 0)
    np.testing.assert_allclose(found[2:], agrad.grad(lambda x: distance.pdist(x, metric)[0])(x[2:]), rtol=1e-12)
    assert np.isnan(float(distance.pdist(place(x), metric)[0]))


def test_vectors_without_elements_have_the_distance_zero() -> None:
    none = np.zeros((2, 0))
    for metric in ("chebyshev", "cityblock", "euclidean"):
        assert np.array_equal(distance.cdist(none, none, metric), np.zeros((2, 2)))


def test_a_weight_of_zero_has_a_derivative() -> None:
    u, v, w = np.asarray([1.0, 2.0]), np.asarray([3.0, 5.0]), np.asarray([1.0, 0.0])
    assert np.allclose(agrad.grad(lambda w: distance.euclidean(u, v, w))(w), [1.0, 9 / 4])


def test_square_forms_without_pairs() -> None:
    assert distance.squareform(np.zeros(0)).shape == (1, 1)
    assert distance.squareform(np.zeros((1, 1))).shape == (0,)


X = np.ones((3, 2))


REFUSED: list[Refusal] = [
    (ShapeError, "vectors must have the same length", lambda: distance.euclidean(X, X)),
    (ShapeError, "2-D with equal rows", lambda: distance.cdist(X, np.ones((3, 4)))),
    (ConfigurationError, "got 'hamming'", lambda: distance.pdist(X, "hamming")),
    (ConfigurationError, "p must be greater than 0", lambda: distance.minkowski(X[0], X[1], p=0)),
    (DtypeError, "distances: vectors must be real", lambda: distance.pdist(X + 1j)),
    (DtypeError, "vectors must be real", lambda: distance.cosine(X[0] * 1j, X[1])),
    (RefusedFunctionError, "pdist: out is not", lambda: distance.pdist(X, out=np.zeros(3))),
    (ShapeError, "Pass VI", lambda: distance.pdist(np.ones((2, 3)), "mahalanobis")),
    (ShapeError, "length of a vector must be", lambda: distance.squareform(np.zeros(4))),
    (ShapeError, "must be symmetric", lambda: distance.squareform(np.asarray([[0.0, 1.0], [2.0, 0.0]]))),
    (ShapeError, "force='tovector'", lambda: distance.squareform(np.zeros(3), force="tovector")),
    (ShapeError, "must be square", lambda: distance.squareform(X)),
]
test_errors = refuses(REFUSED)
