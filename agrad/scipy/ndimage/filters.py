"""The linear filters of ``scipy.ndimage``, and the center of mass."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import axes_of, axis_of, constant, is_complex
from agrad.scipy.shared import Function, P, R, array, arrays, function, named, unsupported
from agrad.scipy.signal.sliding import MODES, neighbours

if TYPE_CHECKING:
    from agrad.engine.typed import OfFirst

__all__ = ["center_of_mass", "convolve", "convolve1d", "correlate", "correlate1d", "uniform_filter", "uniform_filter1d"]


_no_output = unsupported("output", fix="Leave it out, and use the result", error=ConfigurationError)


def image_function(f: Callable[Concatenate[Any, P], R]) -> "OfFirst[P, R]":
    """Decorate as ``function`` does, and raise an error for ``output``."""
    return _no_output(function(f))


def one_each(name: str, what: str, value: Any, count: int) -> list[Any]:
    """Return a number for each axis from one number or a sequence of them."""
    if isinstance(value, (list, tuple)) or (isinstance(value, (np.ndarray, Tensor)) and value.ndim):
        if len(value) != count:
            raise ShapeError(f"{name}: {what} must be one value, or one for each of the {count} axes, got {len(value)}")
        return list(value)
    return [value] * count


def ascending_axes(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as numbers, which ascend.

    SciPy functions treat other orders differently.
    """
    chosen = axes_of(axes, ndim)
    if list(chosen) != sorted(chosen):
        raise ConfigurationError(f"{name}: axes must be in ascending order, got {axes}. Sort them and the sizes.")
    return chosen


def checked_origin(name: str, origin: Any, length: int) -> int:
    """Return an origin that lies in the kernel."""
    origin = int(origin)
    if not -(length // 2) <= origin <= (length - 1) // 2:
        raise ConfigurationError(
            f"{name}: origin must be from {-(length // 2)} to {(length - 1) // 2} for length {length}, got {origin}"
        )
    return origin


def _kernel_sum(
    name: str,
    x: Tensor,
    kernel: Tensor,
    axes: Sequence[int],
    mode: str,
    cval: Any,
    origin: Any,
    convolves: bool = False,
) -> Tensor:
    """Return the correlation or convolution with a kernel along axes."""
    one_of(name, "mode", mode, tuple(MODES))
    if kernel.ndim != len(axes) or not kernel.size:
        raise ShapeError(f"{name}: weights must be nonempty with {len(axes)} axes, got shape {kernel.shape}")
    origins = [int(i) for i in one_each(name, "origin", origin, len(axes))]
    # as in SciPy, the axes of the kernel are in the order of the array, and origins in the order of ``axes``
    axes, origins = sorted(axes), [i for _, i in sorted(zip(axes, origins, strict=True))]
    if convolves:
        # the mirrored kernel, its middle mirrored too
        kernel = agrad.flip(kernel)
        origins = [-i - (n % 2 == 0) for i, n in zip(origins, kernel.shape, strict=True)]
    elif is_complex(kernel):
        kernel = agrad.conj(kernel)
    origins = [checked_origin(name, i, n) for i, n in zip(origins, kernel.shape, strict=True)]
    return neighbours(x, kernel, axes, mode, cval, origins)


def _over_axes(name: str, what: str, convolves: bool, example: str) -> Any:
    """Return the sum of products with a kernel of some axes."""

    @image_function
    def made(
        input: Any,
        weights: Any,
        output: None = None,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Any:
        """{what}.

        Like ``scipy.ndimage.{name}``: ``weights`` has an axis for each of ``axes``, and the result the shape of
        ``input``.
        """
        x, kernel = arrays(input, weights)
        return _kernel_sum(name, x, kernel, axes_of(axes, x.ndim), mode, cval, origin, convolves)

    return named(made, name, what, "ndimage", example)


# fmt: off
correlate: Function = _over_axes("correlate",
    "Correlate an array with a kernel; a complex one is conjugated", False, example="""
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.correlate(x, np.asarray([1.0, 0.0, -1.0]))
array([-1., -3., -6., -4.])
>>> agrad.grad(lambda w: ndimage.correlate(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([1., 2., 4.])
""")
convolve: Function = _over_axes("convolve", "Convolve an array with a kernel", True, example="""
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.convolve(x, np.asarray([1.0, 0.0, -1.0]))
array([1., 3., 6., 4.])
>>> agrad.grad(lambda w: ndimage.convolve(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([4., 2., 1.])
""")
# fmt: on


def _along_axis(name: str, what: str, convolves: bool, example: str) -> Any:
    """Return the sum of products with a vector."""

    @image_function
    def made(
        input: Any,
        weights: Any,
        axis: int = -1,
        output: None = None,
        mode: str = "reflect",
        cval: Any = 0.0,
        origin: int = 0,
    ) -> Any:
        """{what}.

        Like ``scipy.ndimage.{name}``: ``weights`` has shape (n,), the result the shape of ``input``.
        """
        x, kernel = arrays(input, weights)
        return _kernel_sum(name, x, kernel, [axis_of(axis, x.ndim)], mode, cval, origin, convolves)

    return named(made, name, what, "ndimage", example)


# fmt: off
correlate1d: Function = _along_axis("correlate1d",
    "Correlate along one axis with a vector; a complex one is conjugated", False,
    example="""
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.correlate1d(x, np.asarray([1.0, 0.0, -1.0]))
array([-1., -3., -6., -4.])
>>> agrad.grad(lambda w: ndimage.correlate1d(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([1., 2., 4.])
""")
convolve1d: Function = _along_axis("convolve1d", "Convolve along one axis with a vector", True, example="""
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.convolve1d(x, np.asarray([1.0, 0.0, -1.0]))
array([1., 3., 6., 4.])
>>> agrad.grad(lambda w: ndimage.convolve1d(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([4., 2., 1.])
""")
# fmt: on


@image_function
def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: None = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> Tensor:
    """Return means of neighbors along one axis.

    Like ``scipy.ndimage.uniform_filter1d``: the result has the shape of ``input``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.uniform_filter1d(x, 3).round(4)
    array([1.3333, 2.3333, 4.6667, 6.6667])
    >>> agrad.grad(lambda x: ndimage.uniform_filter1d(x, 3)[1])(x).round(4)
    array([0.3333, 0.3333, 0.3333, 0.    ])
    """
    return _uniform(array(input), size, axis, mode, cval, origin)


def _uniform(x: Tensor, size: int, axis: int, mode: str, cval: Any, origin: int) -> Tensor:
    if size < 1:
        raise ConfigurationError(f"uniform_filter: size must be at least 1, got {size}")
    kernel = constant(np.full(int(size), 1.0 / size, x.dtype.name), x)
    return _kernel_sum("uniform_filter", x, kernel, [axis_of(axis, x.ndim)], mode, cval, origin)


@image_function
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: None = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return means of neighbors.

    Like ``scipy.ndimage.uniform_filter``: the result has the shape of ``input``.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
    >>> ndimage.uniform_filter(x, 3).round(4)
    array([1.3333, 2.3333, 4.6667, 6.6667])
    >>> agrad.grad(lambda x: ndimage.uniform_filter(x, 3)[1])(x).round(4)
    array([0.3333, 0.3333, 0.3333, 0.    ])
    """
    x = array(input)
    chosen = axes_of(axes, x.ndim)
    sizes, modes, origins = (
        one_each("uniform_filter", what, value, len(chosen))
        for what, value in (("size", size), ("mode", mode), ("origin", origin))
    )
    for i, axis in enumerate(chosen):
        x = _uniform(x, sizes[i], axis, modes[i], cval, origins[i])
    return x


@unsupported("labels", "index")
@function
def center_of_mass(input: Any, labels: None = None, index: None = None) -> Any:
    """Return the mean position along each axis, weighted by the values.

    Like ``scipy.ndimage.center_of_mass``, with a number for each axis. ``labels`` and ``index`` are not supported.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 1.0, 2.0])
    >>> round(float(ndimage.center_of_mass(x)[0]), 6), agrad.grad(lambda x: ndimage.center_of_mass(x)[0])(x)
    (1.25, array([-0.3125, -0.0625,  0.1875]))
    """
    x = array(input)
    total = agrad.sum(x)
    places = [constant(np.arange(n, dtype=x.dtype.name), x) for n in x.shape]
    return tuple([agrad.sum(agrad.moveaxis(x, axis, -1) * place) / total for axis, place in enumerate(places)])
