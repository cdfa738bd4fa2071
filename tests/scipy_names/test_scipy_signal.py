"""``agrad.scipy.signal``: errors, edges and dtypes."""

import importlib

import numpy as np
import pytest
from refusals import Refusal, refuses

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.scipy import signal

X, Y = np.asarray([1.0, 2.0, 4.0, 3.0]), np.asarray([1.0, -1.0, 0.5])
A, Z = np.arange(12.0).reshape(3, 4), np.ones((3, 4), dtype=complex)


REFUSED: list[Refusal] = [
    (ShapeError, "convolve: in1 and in2 must have the same number of axes,", lambda: signal.convolve(X, A)),
    (ShapeError, "convolve: in1 and in2 must not be empty, got shapes", lambda: signal.convolve(X, X[:0])),
    (ShapeError, "convolve: for mode='valid' one array", lambda: signal.convolve(A, np.ones((2, 5)), mode="valid")),
    (ShapeError, "fftconvolve: inputs must broadcast along", lambda: signal.fftconvolve(A, np.ones((2, 3)), axes=1)),
    (ShapeError, "fftconvolve: axes must contain at least one axis. Leave", lambda: signal.fftconvolve(A, A, axes=())),
    (ShapeError, "convolve2d: in1 and in2 must be 2-D and not empty,", lambda: signal.convolve2d(X, X)),
    (ShapeError, "lfilter: b and a must be 1-D and not empty, got", lambda: signal.lfilter(A, Y, X)),
    (ShapeError, "lfilter: zi must have shape (2,), got (4,)", lambda: signal.lfilter(Y, Y, X, zi=X)),
    (ShapeError, "lfilter: x must have at least one axis", lambda: signal.lfilter(Y, Y, 1.0)),
    (ShapeError, "sosfilt: sos must have shape (n, 6), got", lambda: signal.sosfilt(A, X)),
    (ShapeError, "filtfilt: padlen must be at least 0 and less than", lambda: signal.filtfilt(Y, Y, X)),
    (ShapeError, "detrend: bp must be from 0 to the length 4,", lambda: signal.detrend(X, bp=[5])),
    (ShapeError, "hilbert: N must be at least 1, got 0", lambda: signal.hilbert(X, N=0)),
    (ShapeError, "savgol_filter: window_length must be at most 4 for", lambda: signal.savgol_filter(X, 5, 2)),
    (ShapeError, "welch: noverlap < nperseg <= nfft must hold, got 3,", lambda: signal.welch(X, nperseg=3, noverlap=3)),
    (ShapeError, "welch: noverlap < nperseg <= nfft must hold, got 1, 3", lambda: signal.welch(X, nperseg=3, nfft=2)),
    (ShapeError, "periodogram: window must have shape (4,), got", lambda: signal.periodogram(X, window=Y)),
    (ConfigurationError, "mode", lambda: signal.convolve(X, Y, mode="half")),
    (ConfigurationError, "method", lambda: signal.correlate(X, Y, method="fast")),
    (ConfigurationError, "boundary", lambda: signal.convolve2d(A, A, boundary="reflect")),
    (ConfigurationError, "type", lambda: signal.detrend(X, type="cubic")),
    (ConfigurationError, "overwrite_data", lambda: signal.detrend(X, overwrite_data=True)),
    (ConfigurationError, "gust", lambda: signal.filtfilt(Y, Y, X, method="gust")),
    (ConfigurationError, "padtype", lambda: signal.filtfilt(Y, Y, X, padtype="mean")),
    (ConfigurationError, "polyorder", lambda: signal.savgol_filter(X, 3, 3)),
    (ConfigurationError, "mode", lambda: signal.savgol_filter(X, 3, 1, mode="reflect")),
    (ConfigurationError, "pos", lambda: signal.savgol_coeffs(3, 1, pos=3)),
    (ConfigurationError, "use", lambda: signal.savgol_coeffs(3, 1, use="sum")),
    (ConfigurationError, "get_window: window must be one of", lambda: signal.welch(X, window="kaiser")),
    (ConfigurationError, "got 'hanning'", lambda: signal.get_window("hanning", 4)),
    (ConfigurationError, "get_window: window must be one of", lambda: signal.get_window(("hann", 2.0), 4)),
    (ConfigurationError, "center is not supported for a symmetric window", lambda: signal.windows.exponential(4, 1.0)),
    (ConfigurationError, "spectrogram: mode='phase' is not supported", lambda: signal.spectrogram(X, mode="phase")),
    (ConfigurationError, "stft: boundary must be one of", lambda: signal.stft(X, boundary="mean")),
    (ConfigurationError, "stft: scaling must be one of", lambda: signal.stft(X, scaling="density")),
    (ConfigurationError, "median", lambda: signal.welch(X, average="median")),
    (ConfigurationError, "scaling", lambda: signal.periodogram(X, scaling="power")),
    (ConfigurationError, "detrend", lambda: signal.periodogram(X, detrend="mean")),
    (ConfigurationError, "padlen", lambda: agrad.jit(lambda s: signal.sosfiltfilt(s, X))(np.eye(1, 6))),
    (DtypeError, "hilbert: x must be real", lambda: signal.hilbert(X + 1j)),
    (ShapeError, "an integer of at least 0, got 2.5", lambda: signal.windows.hann(2.5)),
    (ShapeError, "two different axes", lambda: signal.istft(Z, time_axis=0, freq_axis=0)),
    (ShapeError, "must hold, got 4, 4 and 4", lambda: signal.istft(Z, noverlap=4)),
    (ShapeError, "window must have shape (4,)", lambda: signal.istft(Z, window=np.ones(3))),
    (ShapeError, "must hold, got 2, 4 and 3", lambda: signal.stft(X, nperseg=4, nfft=3)),
]
test_errors = refuses(REFUSED)


def test_integers_give_floating_numbers() -> None:
    out = signal.convolve(np.asarray([1, 2]), [1, 1])
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, [1, 3, 2])


def test_convolutions_without_elements_by_the_fourier_transform() -> None:
    assert signal.fftconvolve(X[:0], Y).shape == (0,)


def test_the_two_correlations_agree_where_the_first_input_is_smaller() -> None:
    x, y = A[:2, :2] + 1j, A - 0.5j * A**2
    np.testing.assert_allclose(signal.correlate2d(x, y, mode="valid"), signal.correlate(x, y, mode="valid"))


@pytest.mark.needs("scipy")
def test_filters_with_poles_close_together_keep_their_digits() -> None:
    theirs = pytest.importorskip("scipy.signal")
    x = np.random.default_rng(1).normal(size=400)
    for order, cut, rtol in ((2, 0.003, 1e-10), (4, 0.1, 1e-11), (6, 0.02, 1e-6)):
        b, a = theirs.butter(order, cut)
        expected = theirs.lfilter(b, a, x)
        np.testing.assert_allclose(signal.lfilter(b, a, x), expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.needs("scipy")
def test_coefficients_are_those_of_scipy() -> None:
    theirs = pytest.importorskip("scipy.signal")
    for settings in ({}, {"deriv": 1, "delta": 0.5}, {"pos": 0}, {"use": "dot", "pos": 3}, {"deriv": 4}):
        for length in (4, 5):
            found = signal.savgol_coeffs(length, 2, **settings).numpy()
            np.testing.assert_allclose(found, theirs.savgol_coeffs(length, 2, **settings), rtol=1e-10, atol=1e-13)


def test_a_filter_goes_on_from_its_state() -> None:
    b, a = np.asarray([0.3, 0.2]), np.asarray([1.0, -0.5, 0.2])
    y, z = signal.lfilter(b, a, X[:1], zi=np.zeros(2))
    rest, _ = signal.lfilter(b, a, X[1:], zi=z)
    np.testing.assert_allclose(np.concatenate([y, rest]), signal.lfilter(b, a, X), rtol=1e-14)


@pytest.mark.needs("scipy")
@pytest.mark.parametrize("name", [name for name in signal.windows.__all__ if name in signal.windows._PLAIN])
def test_windows_are_those_of_scipy(name: str) -> None:
    theirs = importlib.import_module("scipy.signal.windows")
    for m in (0, 1, 2, 7, 8):
        for sym in (True, False):
            found = getattr(signal.windows, name)(m, sym=sym)
            assert isinstance(found, agrad.Tensor)
            np.testing.assert_allclose(found.numpy(), getattr(theirs, name)(m, sym=sym), rtol=1e-13, atol=1e-15)


def test_windows_by_name() -> None:
    assert np.array_equal(signal.get_window("hann", 6).numpy(), signal.windows.hann(6, False).numpy())
    assert np.array_equal(signal.get_window("hann_symmetric", 6).numpy(), signal.windows.hann(6).numpy())
    assert np.array_equal(signal.get_window(4.0, 6).numpy(), signal.windows.kaiser(6, 4.0, False).numpy())
    assert signal.windows.kaiser(5, np.float32(2.0)).dtype == np.float32
    # the edges of a window of alpha 0 are as high as the rest
    assert np.array_equal(signal.windows.tukey(5, 0.0).numpy(), np.ones(5))


@pytest.mark.parametrize("noverlap", [None, 6])
def test_transforms_are_undone(noverlap: int | None) -> None:
    x = np.sin(np.arange(40.0) ** 1.3)
    z = signal.stft(x, nperseg=8, noverlap=noverlap)[2]
    np.testing.assert_allclose(signal.istft(z, noverlap=noverlap)[1], x, rtol=1e-12, atol=1e-13)
