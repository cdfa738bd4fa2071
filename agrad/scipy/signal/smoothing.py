"""Trends, Savitzky-Golay filters and analytic signals, of ``scipy.signal``."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import as_complex, axis_of, constant, is_complex, on_axis
from agrad.scipy.shared import array, created, function, unsupported
from agrad.scipy.signal.sliding import neighbours

__all__ = ["detrend", "hilbert", "savgol_coeffs", "savgol_filter"]

_EDGES = ("interp", "mirror", "constant", "nearest", "wrap")


def _of_dtype(values: Any, x: Tensor) -> Tensor:
    """Return numbers of the host as a constant of the dtype of ``x``."""
    return constant(np.asarray(values, x.dtype.name), x)


@unsupported("overwrite_data", error=ConfigurationError)
@function
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> Tensor:
    """Subtract the mean, or least-squares lines, along an axis.

    Like ``scipy.signal.detrend``: the result has the shape of ``data``. ``overwrite_data`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.asarray([1.0, 2.0, 4.0])
    >>> signal.detrend(x).round(4)
    array([ 0.1667, -0.3333,  0.1667])
    >>> agrad.grad(lambda x: signal.detrend(x)[0])(x).round(4)
    array([ 0.1667, -0.3333,  0.1667])
    """
    x = array(data)
    axis = axis_of(axis, x.ndim)
    if one_of("detrend", "type", type, ("linear", "l", "constant", "c")) in ("constant", "c"):
        return x - agrad.mean(x, axis=axis, keepdims=True)
    n = x.shape[axis]
    places = np.unique(np.concatenate([[0, n], np.atleast_1d(np.asarray(bp, int))]))
    if places[0] < 0 or places[-1] > n:
        raise ShapeError(f"detrend: bp must be from 0 to the length {n}, got {bp}")
    x, parts = agrad.moveaxis(x, axis, -1), []
    for start, stop in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
        part = x[..., start:stop]
        times = np.linspace(-1.0, 1.0, stop - start)
        # an orthonormal basis of the lines; of one value the line is that value
        basis = _of_dtype(np.linalg.qr(np.stack([np.ones_like(times), times], axis=1))[0], x)
        parts.append(part - agrad.matmul(agrad.matmul(part, basis), agrad.matrix_transpose(basis)))
    return agrad.moveaxis(agrad.concat(parts, axis=-1), -1, axis) if parts else data


@function
def hilbert(x: Any, N: int | None = None, axis: int = -1) -> Tensor:
    """Return the analytic signal, whose imaginary part is the Hilbert transform.

    Like ``scipy.signal.hilbert``: the result is complex and has the shape of the real ``x``, except for ``N``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.cos(np.linspace(0.0, 2 * np.pi, 8, endpoint=False))
    >>> agrad.abs(signal.hilbert(x)).round(4)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    >>> agrad.grad(lambda x: agrad.imag(signal.hilbert(x))[1])(x)[::2].round(4)
    array([ 0.6036, -0.6036, -0.1036,  0.1036])
    """
    x = array(x)
    if is_complex(x):
        raise DtypeError("hilbert: x must be real. Pass agrad.real(x).")
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis] if N is None else int(N)
    if n < 1:
        raise ShapeError(f"hilbert: N must be at least 1, got {n}")
    half = np.arange(n)
    factors = np.where(half == 0, 1.0, np.where(2 * half < n, 2.0, np.where(2 * half == n, 1.0, 0.0)))
    y = agrad.fft.fft(as_complex(x), n=n, axis=axis)
    return agrad.fft.ifft(y * _of_dtype(factors.reshape(on_axis(n, axis, x.ndim)), y), axis=axis)


def _savgol(window_length: int, polyorder: int, deriv: int, delta: float, pos: float, name: str) -> np.ndarray:
    """Return the weights of the values of a window, in their order."""
    if not 0 <= polyorder < window_length:
        raise ConfigurationError(f"{name}: polyorder must be from 0 to window_length - 1, got {polyorder}")
    times = np.arange(-pos, window_length - pos)
    scale = max(float(np.abs(times).max()), 1.0)
    if deriv > polyorder:
        return np.zeros(window_length)
    # the coefficients of the least-squares polynomial are linear in the values
    fit = np.linalg.pinv((times[:, None] / scale) ** np.arange(polyorder + 1))
    return np.asarray(fit[deriv] * (math.factorial(deriv) / (scale * delta) ** deriv))


@function
def savgol_coeffs(
    window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, pos: Any = None, use: str = "conv"
) -> Tensor:
    """Return the coefficients of a Savitzky-Golay filter.

    Like ``scipy.signal.savgol_coeffs``: a constant of shape (``window_length``,), computed on the host and created
    where ``agrad.numpy`` creates arrays.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.savgol_coeffs(5, 2).round(4)
    Tensor([-0.0857, 0.3429, 0.4857, 0.3429, -0.0857], dtype=float64, backend=numpy, device=cpu)
    """
    pos = (window_length - 1) / 2 if pos is None else pos
    if not 0 <= pos < window_length:
        raise ConfigurationError(f"savgol_coeffs: pos must be from 0 to {window_length - 1}, got {pos}")
    out = _savgol(window_length, polyorder, deriv, delta, pos, "savgol_coeffs")
    return created((out[::-1] if one_of("savgol_coeffs", "use", use, ("conv", "dot")) == "conv" else out).copy())


@function
def savgol_filter(
    x: Any,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: Any = 0.0,
) -> Tensor:
    """Smooth with least-squares polynomials in a moving window.

    Like ``scipy.signal.savgol_filter``: the result has the shape of ``x``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.asarray([1.0, 4.0, 9.0, 16.0, 26.0])
    >>> signal.savgol_filter(x, 3, 1).round(4)
    array([ 0.6667,  4.6667,  9.6667, 17.    , 25.5   ])
    >>> agrad.grad(lambda x: signal.savgol_filter(x, 3, 1)[2])(x)[2].round(4)
    np.float64(0.3333)
    """
    one_of("savgol_filter", "mode", mode, _EDGES)
    x = array(x)
    axis = axis_of(axis, x.ndim)
    n, half = x.shape[axis], window_length // 2

    def weights(pos: float) -> np.ndarray:
        return _savgol(window_length, polyorder, deriv, delta, pos, "savgol_filter")

    # as in SciPy, a window of even length reaches further to the right
    kernel = _of_dtype(weights((window_length - 1) / 2), x)
    y = neighbours(x, kernel, [axis], "constant" if mode == "interp" else mode, cval, [0 if window_length % 2 else -1])
    if mode != "interp":
        return y
    if window_length > n:
        raise ShapeError(f"savgol_filter: window_length must be at most {n} for mode='interp', got {window_length}")
    x, y = agrad.moveaxis(x, axis, -1), agrad.moveaxis(y, axis, -1)
    first = np.stack([weights(i) for i in range(half)], axis=1) if half else np.zeros((window_length, 0))
    last = np.stack([weights(window_length - half + i) for i in range(half)], axis=1) if half else first
    left = agrad.matmul(x[..., :window_length], _of_dtype(first, x))
    right = agrad.matmul(x[..., n - window_length :], _of_dtype(last, x))
    return agrad.moveaxis(agrad.concat([left, y[..., half : n - half], right], axis=-1), -1, axis)
