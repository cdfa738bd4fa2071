"""``agrad.scipy.ndimage``: errors, edges and dtypes."""

import re
from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError, TracedValueError
from agrad.scipy import ndimage

A = np.arange(12.0).reshape(3, 4) ** 2
K = np.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ndimage.correlate(A, K[0]), "correlate: weights must be nonempty with 2 axes,"),
        (lambda: ndimage.convolve(A, K[:0]), "convolve: weights must be nonempty with 2 axes, got"),
        (lambda: ndimage.correlate1d(A, K), "correlate1d: weights must be nonempty with 1 axes,"),
        (lambda: ndimage.gaussian_filter(A, (1.0, 2.0, 3.0)), "gaussian_filter: sigma must be one value, or one for"),
        (
            lambda: ndimage.map_coordinates(A, [[1.0]], order=1),
            "map_coordinates: coordinates must have shape (2, ...),",
        ),
        (lambda: ndimage.shift(A, [1.0], order=1), "shift: shift must have shape (2,), got"),
        (
            lambda: ndimage.affine_transform(A, np.ones((3, 2)), order=1),
            "affine_transform: matrix must have shape (2, 2), got",
        ),
        (
            lambda: ndimage.affine_transform(A, K[:, :2], [1.0], order=1),
            "affine_transform: offset must have shape (2,), got",
        ),
        (lambda: ndimage.zoom(A, (2, 2, 2), order=1), "zoom: zoom must be one value, or one for each of the 2"),
        (lambda: ndimage.median_filter(A, footprint=K[0]), "median_filter: footprint must have 2 axes and a"),
        (lambda: ndimage.minimum_filter(A, footprint=0 * K), "minimum_filter: footprint must have 2 axes and a"),
    ],
)
def test_shapes_that_do_not_fit(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(text)):
        call()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: ndimage.correlate(A, K, mode="symmetric"), "mode"),
        (lambda: ndimage.correlate(A, K, origin=(0, 2)), "origin"),
        (lambda: ndimage.convolve1d(A, K[0], output=A), "output"),
        (lambda: ndimage.gaussian_filter(A, 1.0, order=-1), "order"),
        (lambda: ndimage.gaussian_filter(A, 1.0, radius=-1), "radius"),
        (lambda: agrad.jit(lambda s: ndimage.gaussian_filter(A, s))(np.asarray(1.0)), "radius"),
        (lambda: ndimage.uniform_filter(A, 0), "size"),
        (lambda: ndimage.sobel(A, output=A), "output"),
        (lambda: ndimage.laplace(A, axes=()), "axis"),
        (
            lambda: ndimage.map_coordinates(A, [[1.0], [1.0]], order=6),
            "map_coordinates: order must be an integer from 0 to 5",
        ),
        (lambda: ndimage.spline_filter(A, 1), "spline_filter: order must be an integer from 2 to 5, got 1"),
        (lambda: ndimage.spline_filter(A, output=np.float32), "spline_filter: output is not supported"),
        (lambda: ndimage.spline_filter1d(A, mode="edge"), "spline_filter1d: mode must be one of"),
        (lambda: ndimage.maximum_filter(A), "size"),
        (lambda: ndimage.maximum_filter(A, 2, footprint=K), "footprint"),
        (lambda: ndimage.rank_filter(A, 9, size=3), "rank"),
    ],
)
def test_options_that_make_no_sense(call: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        call()


def test_complex_numbers_where_they_have_no_place() -> None:
    with pytest.raises(DtypeError, match="real"):
        ndimage.gaussian_gradient_magnitude(A + 1j, 1.0)
    with pytest.raises(DtypeError, match="real"):
        ndimage.map_coordinates(A, [[1.0], [1j]], order=1)
    with pytest.raises(DtypeError, match="real"):
        ndimage.median_filter(A + 1j, 3)


def test_axes_out_of_range() -> None:
    with pytest.raises(ValueError, match="axis 2"):
        ndimage.correlate1d(A, K[0], axis=2)


def test_single_precision_stays(place: Any) -> None:
    x, k = place(A.astype(np.float32)), place(K.astype(np.float32))
    at = place(K.astype(np.float32) * 0.7)
    results = [
        ndimage.correlate(x, k),
        ndimage.gaussian_filter(x, 1.0, cval=0.5, mode="constant"),
        ndimage.uniform_filter(x),
        ndimage.sobel(x),
        ndimage.map_coordinates(x, at, order=1),
        ndimage.zoom(x, 2, order=1),
        ndimage.shift(x, 0.5, order=1, cval=1.5),
    ]
    assert all(agrad.asarray(out).dtype == agrad.float32 for out in results)


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
    with pytest.raises(ShapeError, match="rotate: angle must be a number"):
        ndimage.rotate(A, [1.0, 2.0])
    with pytest.raises(ShapeError, match="axes must be two different axes"):
        ndimage.rotate(A, 3.0, (0, 0))
    with pytest.raises(TracedValueError, match="Pass reshape=False"):
        agrad.vmap(lambda angle: ndimage.rotate(A, angle))(np.asarray([1.0, 2.0]))


def test_axes_of_footprints_ascend() -> None:
    with pytest.raises(ConfigurationError, match="axes must be in ascending order"):
        ndimage.minimum_filter(A, size=(1, 3), axes=(1, 0))


def test_widths_may_be_an_array() -> None:
    expected = ndimage.gaussian_filter(A, (1.0, 0.5))
    assert_close(ndimage.gaussian_filter(A, agrad.asarray([1.0, 0.5])), expected, "Tensor")
