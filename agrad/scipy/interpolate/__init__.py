"""Interpolation by the names of ``scipy.interpolate``.

Values are differentiated by the places of evaluation, by the values to interpolate, and by their places. At a node the
piece to its right is taken.
"""

from agrad.scipy.interpolate.cubic import Akima1DInterpolator, CubicHermiteSpline, CubicSpline, PchipInterpolator
from agrad.scipy.interpolate.piecewise import PPoly
from agrad.scipy.interpolate.radial import RBFInterpolator
from agrad.scipy.interpolate.splines import BSpline, make_interp_spline
from agrad.scipy.interpolate.tables import RegularGridInterpolator, interp1d, interpn

__all__ = [
    "Akima1DInterpolator",
    "BSpline",
    "CubicHermiteSpline",
    "CubicSpline",
    "PPoly",
    "PchipInterpolator",
    "RBFInterpolator",
    "RegularGridInterpolator",
    "interp1d",
    "interpn",
    "make_interp_spline",
]
