"""Calls of ``scipy.signal``."""

from operator import itemgetter

import numpy as np
from scipy_calls import FIRST, Calls

CALLS = Calls("signal")
plain = CALLS.plain
_RNG = np.random.default_rng(5)
_X, _Y, _SHORT, _LONG = (_RNG.normal(size=n) for n in (9, 4, 1, 70))
_A, _B, _CUBE = (_RNG.normal(size=shape) for shape in ((4, 5), (3, 2), (2, 3, 4)))
_Z = _RNG.normal(size=7) + 1j * _RNG.normal(size=7)
_W = _RNG.normal(size=3) + 1j * _RNG.normal(size=3)

_ANY, _FLAT = "convolve correlate", "convolve2d correlate2d"
for _mode in ("full", "same", "valid"):
    plain(_ANY, _mode, _X, _Y, mode=_mode, how=FIRST)
    plain(_ANY, f"swapped {_mode}", _Y, _X, mode=_mode)
    plain(_FLAT, _mode, _A, _B, mode=_mode, fillvalue=0.5, how=FIRST)
plain(_FLAT, "wrap", _A, _B, mode="same", boundary="wrap")
plain(_FLAT, "symm", _A, _B, mode="same", boundary="symm")
plain(_FLAT, "complex", _A + 0.5j, _B - 1j, how=FIRST)
plain(_ANY, "complex", _Z, _W)
plain(_ANY, "complex by real", _Y, _W, method="direct")
plain(_ANY, "cube", _CUBE, _CUBE[:, :2, 1:], mode="same")
plain(_ANY, "fft", _A, _B, mode="same", method="fft")
plain(_ANY, "long", _LONG, _LONG[:66] + 0.5, how={"order": 0})
plain(_ANY, "single", _SHORT, _Y)
plain("fftconvolve", "", _X, _Y)
plain("fftconvolve", "axes", _A, _B[:1], mode="same", axes=1)
plain("fftconvolve", "complex", _Z, _W, mode="valid")
plain("oaconvolve", "", _X, _Y, mode="valid")
plain("oaconvolve", "axes", _A, _A[:, 1:4], axes=-1)

plain("detrend hilbert", "", _X)
plain("detrend", "constant", _A, axis=0, type="constant")
plain("detrend", "places", _CUBE, axis=1, bp=[2, 3])
plain("detrend", "complex", _Z, bp=3)
plain("detrend", "single", _SHORT)
plain("hilbert", "axis", _A, axis=0)
plain("hilbert", "length", _A, N=6, axis=1)
plain("savgol_filter", "", _X, 5, 2)
plain("savgol_filter", "slopes", _LONG[:14].reshape(7, 2), 5, 3, deriv=1, delta=0.5, axis=0)
for _mode in ("mirror", "constant", "nearest", "wrap"):
    plain("savgol_filter", _mode, _A, 4, 2, mode=_mode, cval=0.5)

_NUMERATOR, _FEEDBACK = np.asarray([0.4, 0.3, -0.2]), np.asarray([1.3, -0.7, 0.4, 0.2])
_SOS = np.asarray([[0.2, 0.3, 0.1, 1.0, -0.6, 0.2], [1.0, -0.5, 0.2, 1.0, 0.3, 0.4]])
plain("lfilter", "", _NUMERATOR, _FEEDBACK, _X)
plain("lfilter", "pieces", _NUMERATOR, _FEEDBACK[:3], _X)
plain("lfilter", "first order", _NUMERATOR[:2], _FEEDBACK[:2], _A, axis=0)
plain("lfilter", "no feedback", _NUMERATOR, _FEEDBACK[:1], _CUBE, axis=1)
plain("lfilter", "state", _NUMERATOR, _FEEDBACK, _X, zi=_Y[:3], how=FIRST)
plain("lfilter", "states", _Y, _FEEDBACK[:3], _A, axis=0, zi=_A[:3])
plain("lfilter", "longer state", _Y, _FEEDBACK[:2], _X[:2], zi=_Y[1:], then=itemgetter(1))
plain("lfilter", "moving average state", _NUMERATOR, _FEEDBACK[:1], _X, zi=_Y[:2])
plain("lfilter", "complex", _W, _FEEDBACK[:3] + 0.2j, _Z, how=FIRST)
plain("lfilter", "single", _NUMERATOR, _FEEDBACK, _SHORT)
plain("lfilter_zi", "", _NUMERATOR, _FEEDBACK)
plain("lfilter_zi", "longer numerator", _Y, _FEEDBACK[:2])
_EACH = FIRST | {"mapped": False}
plain("sosfilt", "", _SOS, _X, how={"fixed": (0,)})
plain("sosfilt", "axis", _SOS, _A, axis=0, how=_EACH)
plain("sosfilt", "state", _SOS, _A, axis=1, zi=_LONG[:16].reshape(2, 4, 2), how=_EACH)
plain("sosfilt_zi", "", _SOS, how={"mapped": False})
plain("sosfilt_zi", "single", _SOS[:1], how={"mapped": False})
plain("filtfilt", "", _NUMERATOR, _FEEDBACK[:3], _X, padlen=3, how=FIRST)
for _pad in ("even", "constant", None):
    plain("filtfilt", f"{_pad}", _NUMERATOR[:2], _FEEDBACK[:2], _A, axis=0, padtype=_pad, padlen=3, how=FIRST)
plain("filtfilt", "default length", _NUMERATOR, _FEEDBACK[:3], _LONG[:12], how=FIRST)
plain("sosfiltfilt", "", _SOS[:1], _X, padlen=2, how=_EACH)
plain("sosfiltfilt", "default length", _SOS[:1], _LONG[:12], how={"fixed": (0,)})

_POWER, _LAST = itemgetter(1), itemgetter(2)
plain("periodogram", "", _X, 2.0, then=_POWER)
plain("periodogram", "axis", _A, window="hann", nfft=6, detrend="linear", axis=0, how=FIRST)
plain("periodogram", "complex", _Z, scaling="spectrum", detrend=False, then=_POWER)
plain("welch", "", _X, nperseg=4, then=_POWER)
plain("welch", "axis", _A, window="blackman", nperseg=3, noverlap=2, axis=0, how=FIRST)
plain("welch", "by window", _X, window=_Y, noverlap=1, nfft=6, then=_POWER)
plain("welch", "named", _X, window=("gaussian", 1.5), nperseg=4, then=_POWER)
plain("spectrogram", "", _A, 2.0, nperseg=4, noverlap=1, how=FIRST)
plain("spectrogram", "axis", _A, window="hann", nperseg=3, nfft=4, axis=0, then=_LAST, how=FIRST)
_WAVES = np.sin(np.arange(26.0) ** 1.7).reshape(2, 13)
_FOUR = np.asarray([0.4, 1.0, 0.9, 0.3])
plain("stft", "", _WAVES, 2.0, nperseg=4, how=FIRST)
plain("stft", "by window", _WAVES[0], window=_FOUR, nperseg=4, noverlap=1, boundary="even", then=_LAST)
_BARE = {"return_onesided": False, "boundary": None, "padded": False, "scaling": "psd"}
plain("stft", "complex", _WAVES[0] + 1j * _WAVES[1], nperseg=5, noverlap=2, nfft=6, **_BARE, then=_LAST)
plain("stft", "axis", _WAVES.T, nperseg=5, detrend="linear", boundary="constant", axis=0, then=_LAST, how=FIRST)
for _boundary in ("odd", "even", "constant", None):
    _how = {"order": 2 if _boundary == "odd" else 1}
    _ends = {"boundary": _boundary, "padded": _boundary != "odd"}
    plain("stft", f"{_boundary}", _WAVES[:, :11], nperseg=6, noverlap=1, **_ends, then=_LAST, how=_how)
_SEGMENTS = _WAVES[:, :12].reshape(2, 3, 4) + 1j * np.cos(np.arange(24.0) ** 1.4).reshape(2, 3, 4)
_AXES = {"time_axis": 0, "freq_axis": -1}
plain("istft", "", _SEGMENTS, then=_POWER)
plain("istft", "by window", _SEGMENTS[0], window=_FOUR, noverlap=3, boundary=False, then=_POWER)
plain("istft", "psd", _SEGMENTS[1], 2.0, nperseg=4, noverlap=3, scaling="psd", how=FIRST)
plain("istft", "axes", _SEGMENTS.transpose(2, 0, 1), input_onesided=False, noverlap=2, **_AXES, then=_POWER)
plain("windows.gaussian", "", 6, np.asarray(1.7))
plain("windows.general_cosine", "", 6, np.asarray([0.5, 0.3, 0.2]), False)
plain("windows.general_gaussian", "", 6, np.asarray(1.3), np.asarray(2.0))
plain("windows.general_hamming", "", 6, np.asarray(0.6))
plain("windows.kaiser", "", 7, np.asarray(3.2), sym=False)
plain("windows.tukey", "", 9, np.asarray(0.55))
plain("windows.exponential", "", 6, np.asarray(2.2), np.asarray(1.3), False)
plain("get_window", "", ("kaiser", np.asarray(3.2)), 6)
plain("get_window", "symmetric", ("gaussian", np.asarray(1.2)), 6, False)
