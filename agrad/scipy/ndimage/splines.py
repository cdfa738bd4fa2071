"""Coefficients of splines through the elements of an array, of ``scipy.ndimage``."""

import functools
from typing import Any

import numpy as np

from agrad import Tensor
from agrad.errors import ConfigurationError
from agrad.expect import one_of
from agrad.interop.arguments import axis_of, constant, is_complex
from agrad.scipy.ndimage.filters import image_function
from agrad.scipy.shared import array
from agrad.scipy.signal.sliding import MODES, neighbours

__all__ = ["spline_filter", "spline_filter1d"]

_LENGTH = 512
"""The period of the responses to a single element, which are 0 to rounding long before its half."""
CONTINUED = {"nearest": "reflect", "constant": "mirror", "wrap": "mirror", "grid-constant": "mirror"}
"""How the filter continues the array if not by the mode itself, as in SciPy."""


def weights(order: int, share: Any) -> list[Any]:
    """Return the B-splines of an order that are not 0 at a share of a step.

    There are order + 1: de Boor, A Practical Guide to Splines, 1978, for knots of step 1.
    """
    found = [share * 0.0 + 1.0]
    for d in range(1, order + 1):
        inner = [(share + (d - j)) * found[j - 1] + (1.0 + j - share) * found[j] for j in range(1, d)]
        found = [w / d for w in ((1.0 - share) * found[0], *inner, share * found[-1])]
    return found


def checked_order(name: str, order: Any, least: int = 0) -> int:
    """Return the order of a spline. Raises ``ConfigurationError``."""
    if order not in range(least, 6):
        raise ConfigurationError(f"{name}: order must be an integer from {least} to 5, got {order!r}")
    return int(order)


@functools.cache
def _response(order: int) -> np.ndarray:
    """Return the coefficients of the spline through a single 1 among zeros, its middle at the 1."""
    # at the elements an odd spline has a knot, an even one the middle of a step
    row = np.asarray(weights(order, 0.0 if order % 2 else 0.5)[: order // 2 * 2 + 1])
    turns = 2 * np.pi / _LENGTH * np.outer(np.arange(_LENGTH), np.arange(len(row)) - len(row) // 2)
    found = np.fft.ifft(1.0 / (np.cos(turns) @ row)).real[: _LENGTH // 2]
    found = found[: np.max(np.flatnonzero(np.abs(found) > 1e-18)) + 1]
    return np.concatenate([found[:0:-1], found])


def coefficients(x: Tensor, order: int, axis: int, mode: str) -> Tensor:
    """Return the coefficients along one axis."""
    if order < 2 or x.shape[axis] < 2:
        return x
    kind = x.dtype.name.replace("complex128", "float64").replace("complex64", "float32")
    response = constant(_response(order).astype(kind if not is_complex(x) else x.dtype.name), x)
    return neighbours(x, response, [axis], CONTINUED.get(mode, mode), 0.0, [0])


@image_function
def spline_filter1d(
    input: Any, order: int = 3, axis: int = -1, output: Any = np.float64, mode: str = "mirror"
) -> Tensor:
    """Return the coefficients of the spline through the elements along one axis.

    Like ``scipy.ndimage.spline_filter1d``: the result has the shape and dtype of ``input``.

    Notes
    -----
    The recursive filters of Unser, Aldroubi and Eden, B-spline signal processing II, IEEE Trans. Signal Process. 41
    (1993), as a convolution with their response, cut off when it is 0 to rounding.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.spline_filter1d(x).round(4)
    array([ 0.4,  2.2,  2.8, 10.6])
    >>> agrad.grad(lambda x: ndimage.spline_filter1d(x)[1])(x).round(4)
    array([-0.4667,  1.8667, -0.5333,  0.1333])
    """
    order = checked_order("spline_filter1d", order)
    x = array(input)
    return coefficients(x, order, axis_of(axis, x.ndim), one_of("spline_filter1d", "mode", mode, tuple(MODES)))


@image_function
def spline_filter(input: Any, order: int = 3, output: Any = np.float64, mode: str = "mirror") -> Tensor:
    """Return the coefficients of the spline through the elements along all axes.

    Like ``scipy.ndimage.spline_filter``: the result has the shape and dtype of ``input``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.spline_filter(x).round(4)
    array([ 0.4,  2.2,  2.8, 10.6])
    >>> agrad.grad(lambda x: ndimage.spline_filter(x)[1])(x).round(4)
    array([-0.4667,  1.8667, -0.5333,  0.1333])
    """
    order, x = checked_order("spline_filter", order, 2), array(input)
    mode = one_of("spline_filter", "mode", mode, tuple(MODES))
    for axis in range(x.ndim):
        x = coefficients(x, order, axis, mode)
    return x
