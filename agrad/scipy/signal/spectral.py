"""Power spectra of ``scipy.signal``."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import axis_of, constant, is_complex
from agrad.scipy.shared import array, arrays, function, is_array
from agrad.scipy.signal.sliding import choice, windows
from agrad.scipy.signal.smoothing import detrend as without_trend

_COSINES = {"boxcar": [1.0], "hann": [0.5, -0.5], "hamming": [0.54, -0.46], "blackman": [0.42, -0.5, 0.08]}
"""Windows by the coefficients of their cosines."""


def _window(name: str, window: Any, length: int) -> Any:
    """Return a periodic window by its name, or the values that were given."""
    if not isinstance(window, str):
        if not is_array(window) and not isinstance(window, (list, tuple)):
            raise ConfigurationError(f"{name}: a window is a name or a sequence of values, not {window!r}")
        if any(isinstance(value, str) for value in (() if is_array(window) else window)):
            raise ConfigurationError(f"{name}: windows with parameters are given by their values, not as {window!r}")
        return window
    coefficients = _COSINES[choice(f"{name}: window", window.removesuffix("_periodic"), tuple(_COSINES))]
    angles = 2.0 * np.pi / length * np.arange(length)
    return np.sum([c * np.cos(k * angles) for k, c in enumerate(coefficients)], axis=0)


def _power(
    name: str,
    x: Tensor,
    window: Any,
    length: int,
    overlap: int,
    settings: tuple[float, Any, Any, bool, str, int],
) -> tuple[Tensor, Tensor]:
    """Return the frequencies and the mean power of overlapping segments."""
    fs, nfft, detrend, onesided, scaling, axis = settings
    count = length if nfft is None else int(nfft)
    if not 0 <= overlap < length or count < length:
        raise ShapeError(f"{name}: {overlap} < {length} <= {count} does not hold for noverlap, nperseg and nfft")
    x = agrad.moveaxis(x, axis, -1)
    starts = np.arange(0, x.shape[-1] - length + 1, length - overlap)
    parts = agrad.take(windows(x, length, -1), starts, axis=-2)
    if choice(f"{name}: detrend", detrend, ("constant", "linear", False)):
        parts = without_trend(parts, type=detrend)
    real = agrad.real(x) if is_complex(x) else x
    values = agrad.asarray(window) if is_array(window) and not isinstance(window, np.ndarray) else window
    w = values if isinstance(values, Tensor) else constant(np.asarray(values, real.dtype.name), real)
    if w.shape != (length,):
        raise ShapeError(f"{name}: a window of the length {length}, not of the shape {w.shape}")
    parts, w = arrays(parts, w)
    w = agrad.real(w) if is_complex(w) else w
    density = choice(f"{name}: scaling", scaling, ("density", "spectrum")) == "density"
    total = agrad.sum(w * w) * fs if density else agrad.sum(w) ** 2
    half = onesided and not is_complex(x)
    if half:
        y = agrad.fft.rfft(parts * w, n=count, axis=-1)
    else:
        kind = agrad.complex64 if real.dtype == agrad.float32 else agrad.complex128
        y = agrad.fft.fft(agrad.astype(parts * w, kind), n=count, axis=-1)
    power = (agrad.real(y) ** 2 + agrad.imag(y) ** 2) / total
    frequencies = np.fft.rfftfreq(count, 1.0 / fs) if half else np.fft.fftfreq(count, 1.0 / fs)
    if half:
        # frequencies that stand for their negatives too
        twice = np.full(len(frequencies), 2.0)
        twice[0] = 1.0
        twice[-1] = 1.0 if count % 2 == 0 else twice[-1]
        power = power * constant(twice.astype(power.dtype.name), power)
    found = agrad.moveaxis(agrad.mean(power, axis=-2), -1, axis)
    return constant(frequencies.astype(found.dtype.name), found), found


@function
def periodogram(
    x: Any,
    fs: float = 1.0,
    window: Any = "boxcar",
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> Any:
    """Estimate the power spectrum by one Fourier transform.

    Parameters
    ----------
    x : array
        The signal.
    fs : float
        The number of samples in a unit of time.
    window : str or array
        ``"boxcar"``, ``"hann"``, ``"hamming"``, ``"blackman"``, or the values.
    nfft : int, optional
        The length of the transforms, for which segments are padded with zeros or cropped.
    detrend : str or False
        ``"constant"``, ``"linear"`` or False, as in ``detrend``, for each segment.
    return_onesided : bool
        For real signals the frequencies from 0 on, with the power of their negatives.
    scaling : str
        ``"density"`` for the power per frequency, ``"spectrum"`` for the power.
    axis : int
        The axis of time.

    Returns
    -------
    tuple of arrays
        The frequencies and the power, which is differentiable in ``x`` and in an array ``window``.

    Raises
    ------
    ConfigurationError
        For other options.
    ShapeError
        For lengths that do not fit each other.
    """
    x = array(x)
    axis = axis_of(axis, x.ndim)
    if nfft is not None and nfft < x.shape[axis]:
        x = x[(*(slice(None),) * axis, slice(0, int(nfft)))]
    n = x.shape[axis]
    settings = (fs, nfft, detrend, return_onesided, scaling, axis)
    return _power("periodogram", x, _window("periodogram", window, n), n, 0, settings)


@function
def welch(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann_periodic",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> Any:
    """Estimate the power spectrum by the mean over overlapping segments.

    Parameters
    ----------
    x : array
        The signal.
    fs : float
        The number of samples in a unit of time.
    window : str or array
        ``"hann"``, ``"boxcar"``, ``"hamming"``, ``"blackman"``, or the values.
    nperseg : int, optional
        The length of a segment: by default that of an array ``window``, else 256; at most that of the signal.
    noverlap : int, optional
        The overlap of segments, by default half of their length.
    nfft : int, optional
        The length of the transforms, for which segments are padded with zeros.
    detrend : str or False
        ``"constant"``, ``"linear"`` or False, as in ``detrend``, for each segment.
    return_onesided : bool
        For real signals the frequencies from 0 on, with the power of their negatives.
    scaling : str
        ``"density"`` for the power per frequency, ``"spectrum"`` for the power.
    axis : int
        The axis of time.
    average : str
        ``"mean"``; SciPy's ``"median"`` is not there.

    Returns
    -------
    tuple of arrays
        The frequencies and the power, which is differentiable in ``x`` and in an array ``window``.

    Raises
    ------
    ConfigurationError
        For other options.
    ShapeError
        For lengths that do not fit each other.
    """
    if average != "mean":
        raise ConfigurationError(f"welch has average='mean' only, not {average!r}")
    x = array(x)
    axis = axis_of(axis, x.ndim)
    given = 256 if isinstance(window, str) else math.prod(np.shape(window) if not is_array(window) else window.shape)
    length = min(int(given if nperseg is None else nperseg), x.shape[axis])
    overlap = length // 2 if noverlap is None else int(noverlap)
    settings = (fs, nfft, detrend, return_onesided, scaling, axis)
    return _power("welch", x, _window("welch", window, length), length, overlap, settings)
