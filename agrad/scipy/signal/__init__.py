"""Signals by the names of ``scipy.signal``.

Results are of a floating dtype, real for real inputs. SciPy returns integers for some functions of integers.
"""

from agrad.scipy.signal import windows
from agrad.scipy.signal.convolution import convolve, convolve2d, correlate, correlate2d, fftconvolve, oaconvolve
from agrad.scipy.signal.filtering import filtfilt, lfilter, lfilter_zi, sosfilt, sosfilt_zi, sosfiltfilt
from agrad.scipy.signal.smoothing import detrend, hilbert, savgol_coeffs, savgol_filter
from agrad.scipy.signal.spectral import istft, periodogram, spectrogram, stft, welch
from agrad.scipy.signal.windows import get_window

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "get_window",
    "hilbert",
    "istft",
    "lfilter",
    "lfilter_zi",
    "oaconvolve",
    "periodogram",
    "savgol_coeffs",
    "savgol_filter",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
    "spectrogram",
    "stft",
    "welch",
    "windows",
]
