"""``agrad.scipy.ndimage``: errors, edges and dtypes."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close
from refusals import Refusal, refuses

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError, TracedValueError
from agrad.scipy import ndimage

A = np.arange(12.0).reshape(3, 4) ** 2
K = np.ones((2, 3))


REFUSED: list[Refusal] = [
    (ShapeError, "correlate: weights must be nonempty with 2 axes,", lambda: ndimage.correlate(A, K[0])),
    (ShapeError, "convolve: weights must be nonempty with 2 axes, got", lambda: ndimage.convolve(A, K[:0])),
    (ShapeError, "correlate1d: weights must be nonempty with 1 axes,", lambda: ndimage.correlate1d(A, K)),
    (ShapeError, "gaussian_filter: sigma must be one value, or", lambda: ndimage.gaussian_filter(A, (1.0, 2.0, 3.0))),
    (ShapeError, "map_coordinates: coordinates must have shape", lambda: ndimage.map_coordinates(A, [[1.0]], order=1)),
    (ShapeError, "shift: shift must have shape (2,), got", lambda: ndimage.shift(A, [1.0], order=1)),
    (ShapeError, "affine_transform: matrix must have", lambda: ndimage.affine_transform(A, np.ones((3, 2)), order=1)),
    (ShapeError, "affine_transform: offset must have", lambda: ndimage.affine_transform(A, K[:, :2], [1.0], order=1)),
    (ShapeError, "zoom: zoom must be one value, or one for each of the 2", lambda: ndimage.zoom(A, (2, 2, 2), order=1)),
    (ShapeError, "median_filter: footprint must have 2 axes and a", lambda: ndimage.median_filter(A, footprint=K[0])),
    (ShapeError, "minimum_filter: footprint must have 2 axes and", lambda: ndimage.minimum_filter(A, footprint=0 * K)),
    (ConfigurationError, "mode", lambda: ndimage.correlate(A, K, mode="symmetric")),
    (ConfigurationError, "origin", lambda: ndimage.correlate(A, K, origin=(0, 2))),
    (ConfigurationError, "output", lambda: ndimage.convolve1d(A, K[0], output=A)),
    (ConfigurationError, "order", lambda: ndimage.gaussian_filter(A, 1.0, order=-1)),
    (ConfigurationError, "radius", lambda: ndimage.gaussian_filter(A, 1.0, radius=-1)),
    (ConfigurationError, "radius", lambda: agrad.jit(lambda s: ndimage.gaussian_filter(A, s))(np.asarray(1.0))),
    (ConfigurationError, "size", lambda: ndimage.uniform_filter(A, 0)),
    (ConfigurationError, "output", lambda: ndimage.sobel(A, output=A)),
    (ConfigurationError, "axis", lambda: ndimage.laplace(A, axes=())),
    (ConfigurationError, "map_coordinates: order must be", lambda: ndimage.map_coordinates(A, [[1.0], [1.0]], order=6)),
    (ConfigurationError, "spline_filter: order must be an integer from 2 to 5,", lambda: ndimage.spline_filter(A, 1)),
    (ConfigurationError, "spline_filter: output is not supported", lambda: ndimage.spline_filter(A, output=np.float32)),
    (ConfigurationError, "spline_filter1d: mode must be one of", lambda: ndimage.spline_filter1d(A, mode="edge")),
    (ConfigurationError, "size", lambda: ndimage.maximum_filter(A)),
    (ConfigurationError, "footprint", lambda: ndimage.maximum_filter(A, 2, footprint=K)),
    (ConfigurationError, "rank", lambda: ndimage.rank_filter(A, 9, size=3)),
    (ConfigurationError, "axes must be in ascending order", lambda: ndimage.minimum_filter(A, (1, 3), axes=(1, 0))),
    (DtypeError, "must be real", lambda: ndimage.gaussian_gradient_magnitude(A + 1j, 1.0)),
    (DtypeError, "must be real", lambda: ndimage.map_coordinates(A, [[1.0], [1j]], order=1)),
    (DtypeError, "must be real", lambda: ndimage.median_filter(A + 1j, 3)),
    (ValueError, "axis 2", lambda: ndimage.correlate1d(A, K[0], axis=2)),
    (ShapeError, "rotate: angle must be a number", lambda: ndimage.rotate(A, [1.0, 2.0])),
    (ShapeError, "axes must be two different axes", lambda: ndimage.rotate(A, 3.0, (0, 0))),
    (TracedValueError, "Pass reshape=False", lambda: agrad.vmap(lambda s: ndimage.rotate(A, s))(np.ones(2))),
]
test_errors = refuses(REFUSED)


def test_the_gradient_of_a_flat_image_has_derivative_zero() -> None:
    out = agrad.grad(lambda x: agrad.sum(ndimage.gaussian_gradient_magnitude(x, 1.0)))(np.zeros((3, 3)))
    np.testing.assert_array_equal(out, np.zeros((3, 3)))


def test_a_nan_stays_in_its_neighbourhood() -> None:
    x = np.zeros(200)
    x[5] = np.nan
    assert np.isnan(ndimage.gaussian_filter(x, 20.0)).sum() == 86


def test_coordinates_that_are_not_finite() -> None:
    at = [[np.nan, 1.0], [1.0, 2.0]]
    np.testing.assert_array_equal(ndimage.map_coordinates(A, at, order=1, mode="mirror"), [np.nan, A[1, 2]])
    assert np.isnan(ndimage.map_coordinates(A, at, order=0)[0])


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("mode", ["mirror", "reflect", "wrap", "grid-wrap", "nearest", "constant", "grid-constant"])
def test_halfway_between_elements_the_nearest_one_is_scipys(mode: str) -> None:
    theirs = pytest.importorskip("scipy.ndimage")
    half = np.arange(-41, 60) / 2.0
    places = np.concatenate([half, np.nextafter(half, 100), np.nextafter(half, -100)])[None]
    for n in (1, 2, 3, 4, 7, 10):
        x = np.arange(n) + 1.0
        expected = theirs.map_coordinates(x, places, order=0, mode=mode)
        np.testing.assert_array_equal(ndimage.map_coordinates(x, places, order=0, mode=mode), expected)


def test_mirrored_coordinates_have_the_slope_above() -> None:
    def f(c: Any) -> Any:
        return agrad.sum(ndimage.map_coordinates(np.asarray([1.0, 3.0, 4.0]), c, order=1, mode="mirror"))

    places = np.asarray([[0.0, -0.5, 2.0, 2.5, -2.5, 4.0]])
    np.testing.assert_array_equal(agrad.grad(f)(places), [[2.0, -2.0, -1.0, -1.0, 1.0, 2.0]])


def test_coordinates_outside_have_finite_derivatives() -> None:
    def f(c: Any) -> Any:
        return agrad.sum(ndimage.map_coordinates(A, c, order=1, cval=0.5))

    np.testing.assert_array_equal(agrad.grad(f)(np.asarray([[-5.0, np.inf], [1.5, 1.5]])), np.zeros((2, 2)))


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "grid-wrap", "nearest"])
def test_splines_go_through_the_elements(order: int, mode: str) -> None:
    at = np.indices(A.shape).astype(float)
    np.testing.assert_allclose(ndimage.map_coordinates(A, at, order=order, mode=mode), A, rtol=1e-12, atol=1e-13)


def test_rotations() -> None:
    np.testing.assert_array_equal(ndimage.rotate(A, 90.0, order=1), np.rot90(A))


def test_widths_may_be_an_array() -> None:
    expected = ndimage.gaussian_filter(A, (1.0, 0.5))
    assert_close(ndimage.gaussian_filter(A, agrad.asarray([1.0, 0.5])), expected, "Tensor")
