"""Power spectra and transforms of segments of ``scipy.signal``."""

import math
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import as_complex, axis_of, constant, is_complex, values_of
from agrad.scipy.shared import array, arrays, function, is_array, unsupported
from agrad.scipy.signal.sliding import EXTENSIONS, extended, windows
from agrad.scipy.signal.smoothing import detrend as without_trend
from agrad.scipy.signal.windows import get_window

__all__ = ["istft", "periodogram", "spectrogram", "stft", "welch"]


def _is_named(window: Any) -> bool:
    return isinstance(window, (str, float)) or (isinstance(window, tuple) and isinstance((*window, None)[0], str))


def _window(name: str, window: Any, length: int, like: Tensor) -> Tensor:
    """Return a periodic window by name, or given values, that matches ``like``."""
    if _is_named(window):
        if isinstance(window, tuple) and any(is_array(parameter) for parameter in window[1:]):
            return agrad.asarray(get_window(window, length))
        with agrad.use_backend("numpy"):
            return constant(values_of(get_window(window, length)).astype(like.dtype.name), like)
    if not is_array(window) and not isinstance(window, (list, tuple)):
        raise ConfigurationError(f"{name}: window must be a name or a sequence of values, got {window!r}")
    values = agrad.asarray(window) if is_array(window) and not isinstance(window, np.ndarray) else window
    return values if isinstance(values, Tensor) else constant(np.asarray(values, like.dtype.name), like)


class _Segments(NamedTuple):
    """How a signal is cut into segments that are transformed."""

    name: str
    window: Any
    length: int
    overlap: int
    bins: int
    detrend: Any
    onesided: bool

    def transformed(self, x: Tensor) -> tuple[Tensor, np.ndarray, Tensor, bool]:
        """Return the window, the frequencies, and the transforms of segments.

        The frequencies are in cycles per sample. The segments lie along the last axis of ``x``. The transforms have a
        segment for each index of the second to last axis. The last result is True if negative frequencies are omitted.
        """
        name, length = self.name, self.length
        if not 0 <= self.overlap < length or self.bins < length:
            raise ShapeError(
                f"{name}: noverlap < nperseg <= nfft must hold, got {self.overlap}, {length} and {self.bins}"
            )
        starts = np.arange(0, x.shape[-1] - length + 1, length - self.overlap)
        parts = agrad.take(windows(x, length, -1), starts, axis=-2)
        if one_of(name, "detrend", self.detrend, ("constant", "linear", False)):
            parts = without_trend(parts, type=self.detrend)
        real = agrad.real(x) if is_complex(x) else x
        w = _window(name, self.window, length, real)
        if w.shape != (length,):
            raise ShapeError(f"{name}: window must have shape ({length},), got {w.shape}")
        parts, w = arrays(parts, w)
        w = agrad.real(w) if is_complex(w) else w
        half = self.onesided and not is_complex(x)
        if half:
            return w, np.fft.rfftfreq(self.bins), agrad.fft.rfft(parts * w, n=self.bins, axis=-1), half
        return w, np.fft.fftfreq(self.bins), agrad.fft.fft(as_complex(parts * w), n=self.bins, axis=-1), half

    def power(self, x: Tensor, fs: float, scaling: str) -> tuple[np.ndarray, Tensor]:
        """Return the frequencies and the power of each segment."""
        w, frequencies, y, half = self.transformed(x)
        density = one_of(self.name, "scaling", scaling, ("density", "spectrum")) == "density"
        total = agrad.sum(w * w) * fs if density else agrad.sum(w) ** 2
        power = (agrad.real(y) ** 2 + agrad.imag(y) ** 2) / total
        if half:
            # frequencies that also represent their negatives
            twice = np.full(len(frequencies), 2.0)
            twice[0] = 1.0
            twice[-1] = 1.0 if self.bins % 2 == 0 else twice[-1]
            power = power * constant(twice.astype(power.dtype.name), power)
        return frequencies * fs, power


def _length(window: Any, nperseg: Any, n: int) -> int:
    """Return the length of segments."""
    given = 256 if _is_named(window) else math.prod(window.shape if is_array(window) else np.shape(window))
    return min(int(given if nperseg is None else nperseg), n)


def _cut(
    name: str,
    x: Any,
    axis: int,
    window: Any,
    nperseg: Any,
    noverlap: Any,
    nfft: Any,
    detrend: Any,
    onesided: bool,
    share: int = 2,
) -> tuple[Tensor, int, _Segments]:
    """Return the signal with its time last, the axis of time, and how to cut it: by default to overlap by a share."""
    x = array(x)
    axis = axis_of(axis, x.ndim)
    length = _length(window, nperseg, x.shape[axis])
    overlap = length // share if noverlap is None else int(noverlap)
    count = length if nfft is None else int(nfft)
    return agrad.moveaxis(x, axis, -1), axis, _Segments(name, window, length, overlap, count, detrend, onesided)


def _beside(frequencies: np.ndarray, like: Tensor) -> Tensor:
    """Return real host numbers on the backend of a result."""
    real = agrad.real(like) if is_complex(like) else like
    return constant(frequencies.astype(real.dtype.name), real)


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

    Like ``scipy.signal.periodogram``, differentiable with respect to ``x`` and an array ``window``. The frequencies are
    constants of shape (f,), and replace the axis of time of the power.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.cos(np.pi / 2 * np.arange(8.0))
    >>> f, power = signal.periodogram(x)
    >>> power.round(4)
    array([0., 0., 4., 0., 0.])
    >>> agrad.grad(lambda x: signal.periodogram(x)[1][2])(x)[::2].round(4)
    array([ 2., -2.,  2., -2.])
    """
    x = array(x)
    axis = axis_of(axis, x.ndim)
    if nfft is not None and nfft < x.shape[axis]:
        x = x[(*(slice(None),) * axis, slice(0, int(nfft)))]
    n = x.shape[axis]
    x, axis, segments = _cut("periodogram", x, axis, window, n, 0, nfft, detrend, return_onesided)
    frequencies, power = segments.power(x, fs, scaling)
    return _beside(frequencies, power), agrad.moveaxis(power[..., 0, :], -1, axis)


@unsupported("average", error=ConfigurationError)
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

    Like ``scipy.signal.welch``, with the results of ``periodogram``. ``average="median"`` is not supported.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.cos(np.pi / 2 * np.arange(16.0))
    >>> f, power = signal.welch(x, nperseg=8)
    >>> power.round(4)
    array([0.    , 0.6667, 2.6667, 0.6667, 0.    ])
    >>> agrad.grad(lambda x: signal.welch(x, nperseg=8)[1][2])(x)[2].round(4)
    np.float64(-0.4444)
    """
    x, axis, segments = _cut("welch", x, axis, window, nperseg, noverlap, nfft, detrend, return_onesided)
    frequencies, power = segments.power(x, fs, scaling)
    return _beside(frequencies, power), agrad.moveaxis(agrad.mean(power, axis=-2), -1, axis)


@unsupported("mode", fix="Use stft for complex values", error=ConfigurationError)
@function
def spectrogram(
    x: Any,
    fs: float = 1.0,
    window: Any = ("tukey_periodic", 0.25),
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> Any:
    """Estimate the power spectrum of each segment.

    Like ``scipy.signal.spectrogram``, with the results of ``periodogram``, and the times of segments along the last
    axis. Other modes than ``"psd"`` are not supported: use ``stft``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.cos(np.pi / 2 * np.arange(16.0))
    >>> f, t, power = signal.spectrogram(x, nperseg=8)
    >>> power.shape, power[:, 0].round(4)
    ((5, 2), array([0.1429, 0.2857, 2.5714, 0.2857, 0.1429]))
    """
    x, axis, segments = _cut("spectrogram", x, axis, window, nperseg, noverlap, nfft, detrend, return_onesided, 8)
    frequencies, power = segments.power(x, fs, scaling)
    times = (segments.length / 2 + np.arange(power.shape[-2]) * (segments.length - segments.overlap)) / fs
    return _beside(frequencies, power), _beside(times, power), agrad.moveaxis(power, -1, axis)


@function
def stft(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann_periodic",
    nperseg: Any = 256,
    noverlap: Any = None,
    nfft: Any = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> Any:
    """Return the Fourier transforms of overlapping segments.

    Like ``scipy.signal.stft``: constant frequencies of shape (f,), constant times of shape (t,), and complex transforms
    with times along the last axis. They are differentiable with respect to ``x`` and an array ``window``.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.cos(np.pi / 2 * np.arange(8.0))
    >>> f, t, z = signal.stft(x, nperseg=4)
    >>> z.shape, agrad.abs(z[:, 2]).round(4)
    ((3, 5), array([0.5, 0.5, 0.5]))
    >>> agrad.grad(lambda x: agrad.sum(agrad.abs(signal.stft(x, nperseg=4)[2]) ** 2))(x)[::2].round(4)
    array([ 1.5, -1.5,  1.5, -1.5])
    """
    x, axis, segments = _cut("stft", x, axis, window, nperseg, noverlap, nfft, detrend, return_onesided)
    length, overlap = segments.length, segments.overlap
    none = [(0, 0)] * (x.ndim - 1)
    one_of("stft", "boundary", boundary, (*EXTENSIONS, None))
    if boundary is not None:
        x = extended(x, -1 % x.ndim, length // 2, boundary)
    if padded and overlap < length:
        x = agrad.pad(x, [*none, (0, -(x.shape[-1] - length) % (length - overlap) % length)])
    w, frequencies, y, _ = segments.transformed(x)
    y = y / _scale("stft", w, fs, scaling)
    times = (np.arange(y.shape[-2]) * (length - overlap) + (length / 2 if boundary is None else 0)) / fs
    return _beside(frequencies * fs, y), _beside(times, y), agrad.moveaxis(y, -1, axis)


def _scale(name: str, w: Tensor, fs: float, scaling: str) -> Tensor:
    kind = one_of(name, "scaling", scaling, ("spectrum", "psd"))
    return agrad.sum(w) if kind == "spectrum" else agrad.sqrt(fs * agrad.sum(w * w))


def _overlaid(parts: Tensor, step: int) -> Tensor:
    """Return the sums of segments, along the last axis, each ``step`` behind the one before."""
    *others, number, length = parts.shape
    pieces = -(-length // step)
    none = [(0, 0)] * len(others)
    parts = agrad.pad(parts, [*none, (0, 0), (0, pieces * step - length)])
    total: Any = None
    for i in range(pieces):
        moved = agrad.pad(parts[..., i * step : (i + 1) * step], [*none, (i, pieces - 1 - i), (0, 0)])
        total = moved if total is None else total + moved
    return agrad.reshape(total, (*others, -1))[..., : (number - 1) * step + length]


@function
def istft(
    Zxx: Any,
    fs: float = 1.0,
    window: Any = "hann_periodic",
    nperseg: Any = None,
    noverlap: Any = None,
    nfft: Any = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> Any:
    """Return the signal of the transforms of ``stft``.

    Like ``scipy.signal.istft``, differentiable with respect to ``Zxx`` and an array ``window``. The times have the
    length of the signal, whereas SciPy returns times of another length for several signals.

    Notes
    -----
    The least-squares estimate of Griffin and Lim, Signal estimation from modified short-time Fourier transform, IEEE
    Trans. Acoust. 32 (1984). As in SciPy, samples that no window covers are not divided.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.arange(8.0)
    >>> f, t, z = signal.stft(x, nperseg=4)
    >>> signal.istft(z, nperseg=4)[1].round(4)
    array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    z = array(Zxx)
    times, places = axis_of(time_axis, z.ndim), axis_of(freq_axis, z.ndim)
    if z.ndim < 2 or times == places:
        raise ShapeError("istft: time_axis and freq_axis of Zxx must be two different axes")
    z = agrad.moveaxis(z, (times, places), (-2, -1))
    whole = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = whole if nperseg is None else int(nperseg)
    count = (whole + (input_onesided and length == whole + 1) if nfft is None else int(nfft)) or 1
    overlap = length // 2 if noverlap is None else int(noverlap)
    if not 0 <= overlap < length <= count:
        raise ShapeError(f"istft: noverlap < nperseg <= nfft must hold, got {overlap}, {length} and {count}")
    parts = (agrad.fft.irfft if input_onesided else agrad.fft.ifft)(z, n=count, axis=-1)[..., :length]
    w = _window("istft", window, length, agrad.real(parts) if is_complex(parts) else parts)
    if w.shape != (length,):
        raise ShapeError(f"istft: window must have shape ({length},), got {w.shape}")
    step = length - overlap
    total = _overlaid(parts * (w * _scale("istft", w, fs, scaling)), step)
    norm = _overlaid(agrad.broadcast_to(w * w, (z.shape[-2], length)), step)
    if boundary:
        cut = slice(length // 2, total.shape[-1] - length // 2)
        total, norm = total[..., cut], norm[cut]
    total = total / agrad.where(norm > 1e-10, norm, agrad.ones_like(norm))
    seconds = _beside(np.arange(total.shape[-1]) / fs, total)
    return seconds, agrad.moveaxis(total, -1, times - (places < times))
