"""Images of any number of axes by the names of ``scipy.ndimage``.

Results are of a floating dtype. SciPy returns integers for integers.
"""

from agrad.scipy.ndimage.filters import convolve, convolve1d, correlate, correlate1d, uniform_filter, uniform_filter1d
from agrad.scipy.ndimage.gaussians import (
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
)
from agrad.scipy.ndimage.interpolated import affine_transform, map_coordinates, rotate, shift, zoom
from agrad.scipy.ndimage.ranks import maximum_filter, median_filter, minimum_filter, rank_filter
from agrad.scipy.ndimage.splines import spline_filter, spline_filter1d

__all__ = [
    "affine_transform",
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "map_coordinates",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "prewitt",
    "rank_filter",
    "rotate",
    "shift",
    "sobel",
    "spline_filter",
    "spline_filter1d",
    "uniform_filter",
    "uniform_filter1d",
    "zoom",
]
