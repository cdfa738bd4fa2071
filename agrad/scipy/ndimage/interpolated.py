"""Values of arrays between their elements, and moved images, of ``scipy.ndimage``."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import DtypeError, ShapeError, TracedValueError
from agrad.expect import one_of
from agrad.interop.arguments import axis_of, constant, flat, is_complex, is_concrete, on_axis, values_of
from agrad.interop.scipy import WORDS
from agrad.scipy.ndimage.filters import image_function, one_each
from agrad.scipy.ndimage.splines import CONTINUED, checked_order, coefficients, weights
from agrad.scipy.shared import array, arrays
from agrad.scipy.signal.sliding import MODES, padded

__all__ = ["affine_transform", "map_coordinates", "rotate", "shift", "zoom"]

_MARGIN = 12
"""Elements by which an array is continued for the modes whose splines have no end at its own."""


def _inside(c: Tensor, n: int, order: int, mode: str) -> Tensor:
    """Return coordinates brought between the first and the last element by a mode."""
    if mode == "wrap":
        # the last element has the position at which the first one repeats; SciPy determines which of them is used
        if n == 1:
            return c * 0.0
        left, right = n - 1.0 - agrad.remainder(-c, n - 1.0), agrad.remainder(c, n - 1.0)
        return agrad.where(c < 0, left, agrad.where(c > n - 1, right, c))
    if mode == "grid-wrap":
        return agrad.remainder(c, float(n))
    if mode == "mirror" and n == 1:
        return c * 0.0
    if mode in ("mirror", "reflect", "grid-mirror"):
        twice = 0.0 if mode == "mirror" else 1.0
        period = 2.0 * (n - 1) + 2 * twice
        # half a step beyond the last element is kept on the way up and mirrored on the way down, as in SciPy
        last = agrad.where(c < 0, agrad.full_like(c, n - 1.0 + twice), agrad.full_like(c, float(n)))
        c = agrad.remainder(agrad.where(c < 0, -c - twice, c), period)
        return agrad.where(c < last, c, period - twice - c)
    # a spline of a higher order ends at its last coefficient, not at the last element
    reach = 0.0 if order < 2 else float(order)
    return agrad.clip(c, -reach, n - 1.0 + reach) if mode == "nearest" else c


def _place(i: Tensor, n: int, order: int, mode: str) -> Tensor:
    """Return the integer indices of neighbors, which may be beyond the ends."""
    if mode == "grid-wrap":
        return agrad.remainder(i, n)
    mode = CONTINUED.get(mode, mode) if mode in ("constant", "wrap") and order > 1 else mode
    if n > 1 and mode == "mirror":
        return agrad.abs(agrad.remainder(i + (n - 1), 2 * (n - 1)) - (n - 1))
    if order < 2 or mode not in ("reflect", "grid-mirror"):
        return agrad.clip(i, 0, n - 1)
    i = agrad.remainder(i, 2 * n)
    return agrad.where(i < n, i, 2 * n - 1 - i)


def _sampled(
    name: str, x: Tensor, coordinates: list[Tensor], order: Any, mode: str, cval: Any, prefilter: bool
) -> Tensor:
    """Return the values at coordinates, one Tensor for each axis, which are broadcast."""
    one_of(name, "mode", mode, tuple(MODES))
    order = checked_order(name, order)
    if not x.size:
        raise ShapeError(f"{name}: input must not be empty, got shape {x.shape}")
    if order > 1 and prefilter:
        if mode in ("nearest", "grid-constant"):
            # these splines end beyond the array, as in SciPy
            for axis in range(x.ndim):
                x = padded(x, axis, _MARGIN, _MARGIN, mode, cval)
            coordinates = [c + float(_MARGIN) for c in coordinates]
        for axis in range(x.ndim):
            x = coefficients(x, order, axis, mode)
    corners = [_corners(c, n, order, mode) for c, n in zip(coordinates, x.shape, strict=True)]
    values = flat(x)
    total: Any = None
    cval = agrad.astype(arrays(x, cval)[1], x.dtype)
    for corner in itertools.product(*corners):
        at: Any = 0
        weight: Any = 1.0
        beyond: Any = None
        for i, (place, part, off) in enumerate(corner):
            at, weight = at + place * math.prod(x.shape[i + 1 :]), weight * part
            beyond = off if beyond is None else beyond | off
        value = agrad.reshape(agrad.take(values, agrad.reshape(at, (-1,))), at.shape)
        if mode == "grid-constant":
            value = agrad.where(beyond, cval, value)
        value = weight * value
        total = value if total is None else total + value
    if mode == "constant":
        total = agrad.where(beyond, cval, total)
    return agrad.astype(total, x.dtype)


def _corners(c: Tensor, n: int, order: int, mode: str) -> list[tuple[Tensor, Tensor, Any]]:
    """Return the indices and weights of neighbors along an axis, and a mask of those outside."""
    outside: Any = (c < 0) | (c > n - 1) if mode == "constant" else None
    # for a nonfinite coordinate the result is NaN
    known = agrad.isfinite(c)
    c = agrad.where(
        known, _inside(agrad.where(known, c, agrad.zeros_like(c)), n, order, mode), agrad.full_like(c, agrad.nan)
    )
    if mode == "constant":
        known = known & ~outside
    fixed = agrad.where(known, agrad.stop_gradient(c), agrad.zeros_like(c))
    # an odd spline has knots at the elements, an even one halfway
    half = 0.0 if order % 2 else 0.5
    low = agrad.floor(fixed + half)
    first = agrad.astype(low, agrad.int64) - order // 2
    out = []
    for step, weight in enumerate(weights(order, c - low + half)):
        i = first + step
        off = (i < 0) | (i > n - 1) if mode == "grid-constant" else outside
        out.append((_place(i, n, order, mode), weight, off))
    return out


def _real_pair(name: str, input: Any, numbers: Any) -> tuple[Tensor, Tensor]:
    """Return an array, and real numbers for coordinates of the same precision."""
    x = array(input)
    wide, c = arrays(x, numbers)
    if is_complex(array(numbers)):
        raise DtypeError(f"{name}: coordinates must be real. Pass agrad.real(coordinates).")
    return agrad.astype(wide, x.dtype), agrad.real(c) if is_complex(c) else c


@image_function
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return the values of an array between its elements.

    Like ``scipy.ndimage.map_coordinates``: ``coordinates`` has shape (``input.ndim``, ...), the result has shape (...).
    It is differentiable with respect to both arrays. At an element, the derivative with respect to a coordinate is the
    derivative of the interval above it.

    For nonfinite coordinates, the result is NaN, except for ``"constant"`` at infinity. With ``"reflect"``, splines of
    orders 2 to 5 interpolate all elements, whereas SciPy splines miss those near the ends.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> places = np.asarray([[0.5, 1.5]])
    >>> ndimage.map_coordinates(x, places, order=1)
    array([1.5, 3. ])
    >>> agrad.grad(lambda places: agrad.sum(ndimage.map_coordinates(x, places, order=1)))(places)
    array([[1., 2.]])
    """
    x, c = _real_pair("map_coordinates", input, coordinates)
    if not c.ndim or not x.ndim or c.shape[0] != x.ndim:
        raise ShapeError(f"map_coordinates: coordinates must have shape ({x.ndim}, ...), got {c.shape}")
    return _sampled("map_coordinates", x, [c[i, ...] for i in range(x.ndim)], order, mode, cval, prefilter)


def _grid(c: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return the coordinates of the elements of a shape, to broadcast."""
    return [
        constant(np.arange(n, dtype=c.dtype.name).reshape(on_axis(n, i, len(shape))), c) for i, n in enumerate(shape)
    ]


@image_function
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Move an array by an affine map of coordinates.

    Like ``scipy.ndimage.affine_transform``, differentiable with respect to ``input``, ``matrix`` and ``offset``. For n
    axes, ``matrix`` has shape (n, n), (n,), (n, n + 1) or (n + 1, n + 1), and ``offset`` () or (n,). The result has the
    shape ``output_shape``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    >>> ndimage.affine_transform(x, np.eye(2), offset=0.5, order=1)
    array([[1.  , 2.5 , 0.  ],
           [1.25, 2.75, 0.  ],
           [0.  , 0.  , 0.  ]])
    >>> agrad.grad(lambda s: ndimage.affine_transform(x, np.eye(2), offset=s, order=1)[1, 1])(0.5)
    np.float64(4.0)
    """
    x, c = _real_pair("affine_transform", input, matrix)
    n = x.ndim
    if c.shape in ((n, n + 1), (n + 1, n + 1)):
        c, offset = c[:n, :n], c[:n, n]
    if c.shape not in ((n,), (n, n)):
        raise ShapeError(f"affine_transform: matrix must have shape ({n}, {n}), got {c.shape}")
    c, offset = arrays(c, offset)
    if offset.shape not in ((), (n,)):
        raise ShapeError(f"affine_transform: offset must have shape ({n},), got {offset.shape}")
    offset = agrad.broadcast_to(offset, (n,))
    grid = _grid(c, x.shape if output_shape is None else tuple(output_shape))
    coordinates = []
    for i in range(n):
        at = offset[i]
        for j in [i] if c.ndim == 1 else range(n):
            at = at + (c[i] if c.ndim == 1 else c[i, j]) * grid[j]
        coordinates.append(at)
    return _sampled("affine_transform", x, coordinates, order, mode, cval, prefilter)


@image_function
def shift(
    input: Any,
    shift: Any,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Shift an array.

    Like ``scipy.ndimage.shift``, differentiable with respect to ``input`` and ``shift``. The result has the shape of
    ``input``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.shift(x, 0.5, order=1)
    array([0. , 1.5, 3. , 6. ])
    >>> agrad.grad(lambda s: ndimage.shift(x, s, order=1)[2])(0.5)
    np.float64(-2.0)
    """
    x, c = _real_pair("shift", input, shift)
    if c.shape not in ((), (x.ndim,)):
        raise ShapeError(f"shift: shift must have shape ({x.ndim},), got {c.shape}")
    c = agrad.broadcast_to(c, (x.ndim,))
    coordinates = [at - c[i] for i, at in enumerate(_grid(c, x.shape))]
    return _sampled("shift", x, coordinates, order, mode, cval, prefilter)


def _rotation(angle: Tensor) -> Tensor:
    """Return the matrix of a rotation by degrees, whose multiples of 90 turn elements into elements."""
    cos, sin = WORDS["cosdg"](angle), WORDS["sindg"](angle)
    return agrad.stack([agrad.stack([cos, sin]), agrad.stack([-sin, cos])])


@image_function
def rotate(
    input: Any,
    angle: Any,
    axes: Sequence[int] = (1, 0),
    reshape: bool = True,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Rotate an array in the plane of two axes.

    Like ``scipy.ndimage.rotate``, differentiable with respect to ``input`` and ``angle``. If ``reshape`` is True, the
    shape of the result depends on the angle: pass False under ``jit`` and ``vmap``, which hide its value.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    >>> ndimage.rotate(x, 90.0, order=1).round(4)
    array([[4., 3., 5.],
           [2., 1., 2.],
           [1., 0., 2.]])
    >>> round(float(agrad.grad(lambda angle: ndimage.rotate(x, angle, reshape=False, order=1)[0, 1])(10.0)), 4)
    0.0313
    """
    x, angle = _real_pair("rotate", input, angle)
    if angle.ndim:
        raise ShapeError(f"rotate: angle must be a number, got shape {angle.shape}")
    plane = sorted(axis_of(i, x.ndim) for i in axes)
    if len(set(plane)) != 2 or len(axes) != 2:
        raise ShapeError(f"rotate: axes must be two different axes, got {tuple(axes)}")
    matrix = _rotation(angle)
    shape = [x.shape[i] for i in plane]
    large = np.asarray(shape)
    if reshape:
        if not is_concrete(angle):
            raise TracedValueError("rotate: the shape depends on the angle, which is not known. Pass reshape=False.")
        corners = values_of(agrad.stop_gradient(matrix)) @ np.asarray(
            [[0, 0, *shape[:1] * 2], [0, shape[1], 0, shape[1]]]
        )
        large = (np.ptp(corners, axis=1) + 0.5).astype(int)
    middle, center = (constant(((np.asarray(n) - 1) / 2).astype(angle.dtype.name), angle) for n in (large, shape))
    x = agrad.moveaxis(x, plane, (-2, -1))
    grid = _grid(angle, tuple(int(n) for n in large))
    offset = center - agrad.matmul(matrix, middle)
    coordinates = [offset[i] + matrix[i, 0] * grid[0] + matrix[i, 1] * grid[1] for i in range(2)]

    def turned(part: Tensor) -> Tensor:
        return _sampled("rotate", part, coordinates, order, mode, cval, prefilter)

    if x.ndim == 2:
        out = turned(x)
    else:
        out = agrad.vmap(turned)(agrad.reshape(x, (-1, *x.shape[-2:])))
        out = agrad.reshape(out, (*x.shape[:-2], *out.shape[-2:]))
    return agrad.moveaxis(out, (-2, -1), plane)


@image_function
def zoom(
    input: Any,
    zoom: Any,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Tensor:
    """Change the number of elements of an array along its axes.

    Like ``scipy.ndimage.zoom``, differentiable with respect to ``input``. The new lengths are rounded.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.zoom(x, 1.75, order=1).round(4)
    array([1. , 1.5, 2. , 3. , 4. , 6. , 8. ])
    >>> agrad.grad(lambda x: agrad.sum(ndimage.zoom(x, 1.75, order=1)))(x).round(4)
    array([1.5, 2. , 2. , 1.5])
    """
    x = array(input)
    factors = one_each("zoom", "zoom", zoom, x.ndim)
    c = agrad.real(x) if is_complex(x) else x
    coordinates = []
    for i, (n, factor) in enumerate(zip(x.shape, factors, strict=True)):
        count = round(n * factor)
        if grid_mode:
            places = (np.arange(count) + 0.5) * (n / max(count, 1)) - 0.5
        else:
            places = np.linspace(0.0, n - 1.0, count) if count > 1 else np.zeros(count)
        coordinates.append(constant(places.astype(c.dtype.name).reshape(on_axis(count, i, x.ndim)), c))
    return _sampled("zoom", x, coordinates, order, mode, cval, prefilter)
