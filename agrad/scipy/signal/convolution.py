"""The convolutions of ``scipy.signal``."""

from collections.abc import Sequence
from typing import Any

import agrad
from agrad import Tensor
from agrad.errors import ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import axes_of
from agrad.scipy.shared import arrays, function
from agrad.scipy.signal.sliding import centered, convolved, correlated, padded, transformed

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve"]

_MODES = ("full", "same", "valid")
_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "reflect"}


def _pair(name: str, in1: Any, in2: Any) -> list[Tensor]:
    """Return the inputs as Tensors of one dtype and of as many axes."""
    x, y = arrays(in1, in2)
    if x.ndim != y.ndim:
        raise ShapeError(f"{name}: in1 and in2 must have the same number of axes, got shapes {x.shape} and {y.shape}")
    return [x, y]


def _shape(name: str, mode: str, one: Sequence[int], two: Sequence[int]) -> list[int]:
    """Return the shape that a mode keeps of a full convolution."""
    if one_of(name, "mode", mode, _MODES) == "full":
        return [n + k - 1 for n, k in zip(one, two, strict=True)]
    if mode == "same":
        return list(one)
    sizes = list(zip(one, two, strict=True))
    if not (all(n >= k for n, k in sizes) or all(n <= k for n, k in sizes)):
        raise ShapeError(
            f"{name}: for mode='valid' one array must be at least as long as the other along every axis, "
            f"got shapes {tuple(one)} and {tuple(two)}"
        )
    return [abs(n - k) + 1 for n, k in sizes]


def _convolve(name: str, x: Tensor, y: Tensor, mode: str, method: str) -> Tensor:
    one_of(name, "method", method, ("auto", "direct", "fft"))
    shape = _shape(name, mode, x.shape, y.shape)
    if not x.ndim:
        return x * y
    if not (x.size and y.size):
        raise ShapeError(f"{name}: in1 and in2 must not be empty, got shapes {x.shape} and {y.shape}")
    return centered(convolved(y, x, method) if x.size < y.size else convolved(x, y, method), shape)


def _reversed(x: Tensor) -> Tensor:
    """Return the conjugate with every axis reversed."""
    return agrad.flip(agrad.conj(x))


@function
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """Convolve two arrays of any number of axes.

    Like ``scipy.signal.convolve``, for inputs of any equal number of axes. The result of ``"full"`` has length m + n -
    1 along each axis. ``method="auto"`` uses the Fourier transform if both inputs have more than 64 elements.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x, kernel = np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, -1.0])
    >>> signal.convolve(x, kernel).round(6)
    array([ 1.,  1.,  1., -3.])
    >>> agrad.grad(lambda kernel: agrad.sum(signal.convolve(x, kernel) ** 2))(kernel).round(6)
    array([ 12., -12.])
    """
    x, y = _pair("convolve", in1, in2)
    return _convolve("convolve", x, y, mode, method)


@function
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """Correlate two arrays of any number of axes.

    Like ``scipy.signal.correlate``, with the shapes and options of ``convolve``. ``in2`` is conjugated.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x, kernel = np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, -1.0])
    >>> signal.correlate(x, kernel).round(6)
    array([-1., -1., -1.,  3.])
    >>> agrad.grad(lambda kernel: agrad.sum(signal.correlate(x, kernel) ** 2))(kernel).round(6)
    array([ 12., -12.])
    """
    x, y = _pair("correlate", in1, in2)
    return _convolve("correlate", x, _reversed(y), mode, method)


@function
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Tensor:
    """Convolve two arrays by the Fourier transform.

    Like ``scipy.signal.fftconvolve``, with the shapes of ``convolve``. Inputs broadcast along axes that are not in
    ``axes``. ``oaconvolve`` is the same function.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x, kernel = np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, -1.0])
    >>> signal.fftconvolve(x, kernel).round(6), signal.oaconvolve(x, kernel).round(6)
    (array([ 1.,  1.,  1., -3.]), array([ 1.,  1.,  1., -3.]))
    >>> agrad.grad(lambda kernel: agrad.sum(signal.fftconvolve(x, kernel) ** 2))(kernel).round(6)
    array([ 12., -12.])
    """
    x, y = _pair("fftconvolve", in1, in2)
    if not x.ndim:
        return x * y
    if not (x.size and y.size):
        return agrad.reshape(x if not x.size else y, (0,))
    chosen = axes_of(axes, x.ndim)
    if not chosen:
        raise ShapeError("fftconvolve: axes must contain at least one axis. Leave it out for all axes.")
    # along an axis of length one a convolution is a product
    chosen = tuple(i for i in chosen if x.shape[i] != 1 and y.shape[i] != 1)
    rest = [i for i in range(x.ndim) if i not in chosen]
    if any(x.shape[i] != y.shape[i] and 1 not in (x.shape[i], y.shape[i]) for i in rest):
        raise ShapeError(f"fftconvolve: inputs must broadcast along the axes {rest}, got {x.shape} and {y.shape}")
    full = transformed(x, y, chosen)
    kept = _shape("fftconvolve", mode, [x.shape[i] for i in chosen], [y.shape[i] for i in chosen])
    shape = list(x.shape if mode == "same" else full.shape)
    for i, n in zip(chosen, kept, strict=True):
        shape[i] = n
    return centered(full, shape)


oaconvolve = fftconvolve


def _flat(name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, correlates: bool) -> Tensor:
    """Return the convolution or correlation of two 2-D arrays."""
    x, y = _pair(name, in1, in2)
    if x.ndim != 2 or not x.size or not y.size:
        raise ShapeError(f"{name}: in1 and in2 must be 2-D and not empty, got shapes {x.shape} and {y.shape}")
    one_of(name, "boundary", boundary, tuple(_BOUNDARIES))
    _shape(name, mode, x.shape, y.shape)
    kernel = agrad.conj(y) if correlates else agrad.flip(y)
    if mode == "valid":
        # no window reaches over the boundary
        return _convolve(name, x, agrad.flip(kernel), mode, "direct")
    for axis, k in enumerate(y.shape):
        # in mode "same" a correlation with an even kernel starts one element later than a convolution, as in SciPy
        before = k - 1 if mode == "full" else (k - 1) // 2 if correlates else k // 2
        after = k - 1 if mode == "full" else k - 1 - before
        x = padded(x, axis, before, after, _BOUNDARIES[boundary], fillvalue)
    return correlated(x, kernel)


@function
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Tensor:
    """Convolve two 2-D arrays.

    Like ``scipy.signal.convolve2d``, for inputs of shapes (m, n) and (k, l). The result of ``"full"`` has shape (m + k
    - 1, n + l - 1).

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x, kernel = np.asarray([[1.0, 2.0], [3.0, 4.0]]), np.asarray([[1.0, -1.0]])
    >>> signal.convolve2d(x, kernel)
    array([[ 1.,  1., -2.],
           [ 3.,  1., -4.]])
    >>> agrad.grad(lambda kernel: agrad.sum(signal.convolve2d(x, kernel) ** 2))(kernel)
    array([[ 32., -32.]])
    """
    return _flat("convolve2d", in1, in2, mode, boundary, fillvalue, False)


@function
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Tensor:
    """Correlate two 2-D arrays.

    Like ``scipy.signal.correlate2d``, with the shapes of ``convolve2d``. ``in2`` is conjugated.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x, kernel = np.asarray([[1.0, 2.0], [3.0, 4.0]]), np.asarray([[1.0, -1.0]])
    >>> signal.correlate2d(x, kernel)
    array([[-1., -1.,  2.],
           [-3., -1.,  4.]])
    >>> agrad.grad(lambda kernel: agrad.sum(signal.correlate2d(x, kernel) ** 2))(kernel)
    array([[ 32., -32.]])
    """
    return _flat("correlate2d", in1, in2, mode, boundary, fillvalue, True)
