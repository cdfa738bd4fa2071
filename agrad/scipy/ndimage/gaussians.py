"""Gaussian filters and filters of differences, of ``scipy.ndimage``."""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, DtypeError
from agrad.interop.arguments import axes_of, axis_of, constant, is_complex, is_concrete, values_of
from agrad.scipy.ndimage.filters import ascending_axes, correlate1d, image_function, one_each
from agrad.scipy.shared import Function, array, arrays, is_array, named

__all__ = [
    "gaussian_filter", "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace", "prewitt",
    "sobel",
]  # fmt: skip


def _weights(x: Tensor, sigma: Any, order: int, truncate: float, radius: Any) -> Tensor:
    """Return the weights of a correlation with a derivative of the Gaussian."""
    if int(order) != order or order < 0:
        raise ConfigurationError(f"gaussian_filter: order must be an integer of at least 0, got {order}")
    if radius is None:
        if isinstance(sigma, Tensor) and not is_concrete(sigma):
            raise ConfigurationError(
                "gaussian_filter: radius depends on the value of sigma, which this transform hides. Pass radius=."
            )
        radius = int(truncate * float(values_of(sigma)) + 0.5)
    if int(radius) != radius or radius < 0:
        raise ConfigurationError(f"gaussian_filter: radius must be an integer of at least 0, got {radius}")
    places: Any = np.arange(-int(radius), int(radius) + 1, dtype=float)
    exp: Any = np.exp
    if isinstance(sigma, Tensor):
        places, exp = constant(places.astype(sigma.dtype.name), sigma), agrad.exp
    # a derivative is a Hermite polynomial times the density; turned round for a correlation its sign is positive
    u = places / sigma
    density = exp(u * u * -0.5)
    before, polynomial = 0.0 * u, 0.0 * u + 1.0
    for i in range(int(order)):
        before, polynomial = polynomial, u * polynomial - i * before
    total = agrad.sum(density) if isinstance(density, Tensor) else density.sum()
    out = density / total * polynomial / sigma ** int(order)
    return out if isinstance(out, Tensor) else constant(out.astype(x.dtype.name), x)


def _gaussian(
    x: Tensor, sigma: Any, axis: int, order: int, mode: str, cval: Any, truncate: float, radius: Any
) -> Tensor:
    if is_array(sigma):
        x, sigma = arrays(x, sigma)
    return correlate1d(x, _weights(x, sigma, order, truncate, radius), axis, None, mode, cval)


@image_function
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: None = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Tensor:
    """Convolve with a Gaussian or a derivative of it along one axis.

    Like ``scipy.ndimage.gaussian_filter1d``: the result has the shape of ``input``. ``sigma`` may be an array of shape
    (), which is differentiable at a fixed radius. Pass ``radius`` if a transform hides its value.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.gaussian_filter1d(x, 1.0).round(4)
    array([1.5041, 2.5391, 4.5241, 6.4327])
    >>> round(float(agrad.grad(lambda x: ndimage.gaussian_filter1d(x, 1.0)[1])(x)[1]), 4)
    0.4034
    """
    x = array(input)
    return _gaussian(x, sigma, axis_of(axis, x.ndim), order, mode, cval, truncate, radius)


@image_function
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: None = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Tensor:
    """Convolve with a Gaussian or a derivative of it.

    Like ``scipy.ndimage.gaussian_filter``: the result has the shape of ``input``. ``sigma`` may contain arrays of shape
    (), as in ``gaussian_filter1d``. An axis is not filtered if its ``sigma`` is the number 0.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.gaussian_filter(x, 1.0).round(4)
    array([1.5041, 2.5391, 4.5241, 6.4327])
    >>> round(float(agrad.grad(lambda x: ndimage.gaussian_filter(x, 1.0)[1])(x)[1]), 4)
    0.4034
    """
    x = array(input)
    chosen = axes_of(axes, x.ndim)
    sigmas, orders, modes, radii = (
        one_each("gaussian_filter", what, value, len(chosen))
        for what, value in (("sigma", sigma), ("order", order), ("mode", mode), ("radius", radius))
    )
    for i, axis in enumerate(chosen):
        if is_array(sigmas[i]) or sigmas[i] > 1e-15:
            x = _gaussian(x, sigmas[i], axis, orders[i], modes[i], cval, truncate, radii[i])
    return x


def _differences(name: str, input: Any, axis: int, mode: Any, cval: Any, smooth: list[float]) -> Tensor:
    """Return central differences along an axis, smoothed along the others."""
    x = array(input)
    axis = axis_of(axis, x.ndim)
    modes = one_each(name, "mode", mode, x.ndim)
    for i in [axis, *(i for i in range(x.ndim) if i != axis)]:
        kernel = constant(np.asarray([-1.0, 0.0, 1.0] if i == axis else smooth, x.dtype.name), x)
        x = correlate1d(x, kernel, i, None, modes[i], cval)
    return x


def _smoothed(name: str, what: str, smooth: list[float], example: str) -> Any:
    """Return central differences, smoothed along the other axes."""

    @image_function
    def made(input: Any, axis: int = -1, output: None = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
        """Return {what}.

        Like ``scipy.ndimage.{name}``: the result has the shape of ``input``.
        """
        return _differences(name, input, axis, mode, cval, smooth)

    return named(made, name, what, "ndimage", example)


# fmt: off
sobel: Function = _smoothed("sobel",
    "central differences along an axis, smoothed by 1, 2, 1 along others", [1.0, 2.0, 1.0],
    example="""
>>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
>>> ndimage.sobel(x)[1]
array([ 3., 12.,  9.])
>>> agrad.grad(lambda x: ndimage.sobel(x)[1, 1])(x)[:, 2]
array([1., 2., 1.])
""")
prewitt: Function = _smoothed("prewitt",
    "central differences along an axis, smoothed by 1, 1, 1 along others", [1.0, 1.0, 1.0],
    example="""
>>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
>>> ndimage.prewitt(x)[1]
array([2., 9., 7.])
>>> agrad.grad(lambda x: ndimage.prewitt(x)[1, 1])(x)[:, 2]
array([1., 1., 1.])
""")
# fmt: on


def _along_each(name: str, x: Tensor, mode: Any, axes: Any, f: Callable[[int, int, list[Any]], Tensor]) -> list[Tensor]:
    """Return ``f(place, axis, modes)`` for each of the axes."""
    chosen = ascending_axes(name, axes, x.ndim)
    if not chosen:
        raise ConfigurationError(f"{name}: input must have at least one axis")
    modes = one_each(name, "mode", mode, len(chosen))
    return [f(i, axis, modes) for i, axis in enumerate(chosen)]


def _total(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@image_function
def laplace(input: Any, output: None = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> Tensor:
    """Return the sum of second differences.

    Like ``scipy.ndimage.laplace``: the result has the shape of ``input``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    >>> ndimage.laplace(x)[1]
    array([4., 3., 1.])
    >>> agrad.grad(lambda x: ndimage.laplace(x)[1, 1])(x)[:, 2]
    array([0., 1., 0.])
    """
    x = array(input)
    kernel = constant(np.asarray([1.0, -2.0, 1.0], x.dtype.name), x)

    def second(i: int, axis: int, modes: list[Any]) -> Tensor:
        return correlate1d(x, kernel, axis, None, modes[i], cval)

    return _total(_along_each("laplace", x, mode, axes, second))


def _gaussian_derivatives(
    name: str, x: Tensor, sigma: Any, order: int, mode: Any, cval: Any, axes: Any, settings: Any
) -> list[Tensor]:
    """Return the derivatives of this order along each axis."""

    def one(i: int, axis: int, modes: list[Any]) -> Tensor:
        orders = [order if j == i else 0 for j in range(len(modes))]
        # as in SciPy, the mode of this axis serves all
        return gaussian_filter(x, sigma, orders, None, modes[i], cval, axes=axes, **settings)

    return _along_each(name, x, mode, axes, one)


@image_function
def gaussian_laplace(
    input: Any,
    sigma: Any,
    output: None = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Return the sum of second derivatives of Gaussian filters.

    Like ``scipy.ndimage.gaussian_laplace``: the result has the shape of ``input``. ``sigma`` and ``**kwargs`` are as in
    ``gaussian_filter``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    >>> ndimage.gaussian_laplace(x, 1.0)[1].round(4)
    array([ 1.2634,  0.686 , -0.6382])
    >>> round(float(agrad.grad(lambda x: ndimage.gaussian_laplace(x, 1.0)[1, 1])(x)[0, 1]), 4)
    -0.0303
    """
    x = array(input)
    return _total(_gaussian_derivatives("gaussian_laplace", x, sigma, 2, mode, cval, axes, kwargs))


@image_function
def gaussian_gradient_magnitude(
    input: Any,
    sigma: Any,
    output: None = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Tensor:
    """Return the length of the gradient by Gaussian filters.

    Like ``scipy.ndimage.gaussian_gradient_magnitude``, for real ``input``, whose shape the result has. ``sigma`` and
    ``**kwargs`` are as in ``gaussian_filter``. The derivative at a length of 0 is 0.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
    >>> ndimage.gaussian_gradient_magnitude(x, 1.0)[1].round(4)
    array([0.4842, 1.0685, 0.6774])
    >>> round(float(agrad.grad(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0)[1, 1])(x)[0, 1]), 4)
    -0.0276
    """
    x = array(input)
    if is_complex(x):
        raise DtypeError("gaussian_gradient_magnitude: input must be real. Filter real and imaginary parts.")
    parts = _gaussian_derivatives("gaussian_gradient_magnitude", x, sigma, 1, mode, cval, axes, kwargs)
    return agrad.linalg.vector_norm(agrad.stack(parts), axis=0)
