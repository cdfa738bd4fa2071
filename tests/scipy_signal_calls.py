"""Calls of ``scipy.signal``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("signal")
add = CALLS.add
_RNG = np.random.default_rng(5)
_X, _Y, _SHORT, _LONG = (_RNG.normal(size=n) for n in (9, 4, 1, 70))
_A, _B, _CUBE = (_RNG.normal(size=shape) for shape in ((4, 5), (3, 2), (2, 3, 4)))
_Z = _RNG.normal(size=7) + 1j * _RNG.normal(size=7)
_W = _RNG.normal(size=3) + 1j * _RNG.normal(size=3)

for _name in ("convolve", "correlate"):
    for _mode in ("full", "same", "valid"):
        add(f"{_name} {_mode}", lambda m, x, y, f=_name, mode=_mode: getattr(m, f)(x, y, mode=mode), _X, _Y, order=1)
        add(f"{_name} swapped {_mode}", lambda m, x, y, f=_name, mode=_mode: getattr(m, f)(x, y, mode=mode), _Y, _X)
        add(
            f"{_name}2d {_mode}",
            lambda m, x, y, f=_name, mode=_mode: getattr(m, f + "2d")(x, y, mode=mode, fillvalue=0.5), _A, _B, order=1,
        )  # fmt: skip
    for _boundary in ("wrap", "symm"):
        add(
            f"{_name}2d {_boundary}",
            lambda m, x, y, f=_name, b=_boundary: getattr(m, f + "2d")(x, y, mode="same", boundary=b), _A, _B,
        )  # fmt: skip
    add(f"{_name} complex", lambda m, x, y, f=_name: getattr(m, f)(x, y), _Z, _W)
    add(f"{_name} complex by real", lambda m, x, y, f=_name: getattr(m, f)(x, y, method="direct"), _Y, _W)
    add(f"{_name} cube", lambda m, x, y, f=_name: getattr(m, f)(x, y, mode="same"), _CUBE, _CUBE[:, :2, 1:])
    add(f"{_name} fft", lambda m, x, y, f=_name: getattr(m, f)(x, y, mode="same", method="fft"), _A, _B)
    add(f"{_name} long", lambda m, x, y, f=_name: getattr(m, f)(x, y), _LONG, _LONG[:66] + 0.5, order=0)
    add(f"{_name} single", lambda m, x, y, f=_name: getattr(m, f)(x, y), _SHORT, _Y)
    add(f"{_name}2d complex", lambda m, x, y, f=_name: getattr(m, f + "2d")(x, y), _A + 0.5j, _B - 1j, order=1)

add("fftconvolve", lambda m, x, y: m.fftconvolve(x, y), _X, _Y)
add("fftconvolve axes", lambda m, x, y: m.fftconvolve(x, y, mode="same", axes=1), _A, _B[:1])
add("fftconvolve complex", lambda m, x, y: m.fftconvolve(x, y, mode="valid"), _Z, _W)
add("oaconvolve", lambda m, x, y: m.oaconvolve(x, y, mode="valid"), _X, _Y)
add("oaconvolve axes", lambda m, x, y: m.oaconvolve(x, y, axes=-1), _A, _A[:, 1:4])

add("detrend", lambda m, x: m.detrend(x), _X)
add("detrend constant", lambda m, x: m.detrend(x, axis=0, type="constant"), _A)
add("detrend places", lambda m, x: m.detrend(x, axis=1, bp=[2, 3]), _CUBE)
add("detrend complex", lambda m, x: m.detrend(x, bp=3), _Z)
add("detrend single", lambda m, x: m.detrend(x), _SHORT)
add("hilbert", lambda m, x: m.hilbert(x), _X)
add("hilbert axis", lambda m, x: m.hilbert(x, axis=0), _A)
add("hilbert length", lambda m, x: m.hilbert(x, N=6, axis=1), _A)
add("savgol_filter", lambda m, x: m.savgol_filter(x, 5, 2), _X)
add("savgol_filter slopes", lambda m, x: m.savgol_filter(x, 5, 3, deriv=1, delta=0.5, axis=0), _LONG[:14].reshape(7, 2))
for _mode in ("mirror", "constant", "nearest", "wrap"):
    add(f"savgol_filter {_mode}", lambda m, x, mode=_mode: m.savgol_filter(x, 4, 2, mode=mode, cval=0.5), _A)

_NUMERATOR, _FEEDBACK = np.asarray([0.4, 0.3, -0.2]), np.asarray([1.3, -0.7, 0.4, 0.2])
_SOS = np.asarray([[0.2, 0.3, 0.1, 1.0, -0.6, 0.2], [1.0, -0.5, 0.2, 1.0, 0.3, 0.4]])
add("lfilter", lambda m, b, a, x: m.lfilter(b, a, x), _NUMERATOR, _FEEDBACK, _X)
add("lfilter pieces", lambda m, b, a, x: m.lfilter(b, a, x), _NUMERATOR, _FEEDBACK[:3], _X)
add("lfilter first order", lambda m, b, a, x: m.lfilter(b, a, x, axis=0), _NUMERATOR[:2], _FEEDBACK[:2], _A)
add("lfilter no feedback", lambda m, b, a, x: m.lfilter(b, a, x, axis=1), _NUMERATOR, _FEEDBACK[:1], _CUBE)
add("lfilter state", lambda m, b, a, x, z: m.lfilter(b, a, x, zi=z), _NUMERATOR, _FEEDBACK, _X, _Y[:3], order=1)
add("lfilter states", lambda m, b, a, x, z: m.lfilter(b, a, x, axis=0, zi=z), _Y, _FEEDBACK[:3], _A, _A[:3])
add("lfilter longer state", lambda m, b, a, x, z: m.lfilter(b, a, x, zi=z)[1], _Y, _FEEDBACK[:2], _X[:2], _Y[1:])
add(
    "lfilter moving average state", lambda m, b, a, x, z: m.lfilter(b, a, x, zi=z), _NUMERATOR, _FEEDBACK[:1], _X,
    _Y[:2],
)  # fmt: skip
add("lfilter complex", lambda m, b, a, x: m.lfilter(b, a, x), _W, _FEEDBACK[:3] + 0.2j, _Z, order=1)
add("lfilter single", lambda m, b, a, x: m.lfilter(b, a, x), _NUMERATOR, _FEEDBACK, _SHORT)
add("lfilter_zi", lambda m, b, a: m.lfilter_zi(b, a), _NUMERATOR, _FEEDBACK)
add("lfilter_zi longer numerator", lambda m, b, a: m.lfilter_zi(b, a), _Y, _FEEDBACK[:2])
add("sosfilt", lambda m, s, x: m.sosfilt(s, x), _SOS, _X, fixed=(0,))
add("sosfilt axis", lambda m, s, x: m.sosfilt(s, x, axis=0), _SOS, _A, mapped=False, order=1)
add(
    "sosfilt state", lambda m, s, x, z: m.sosfilt(s, x, axis=1, zi=z), _SOS, _A, _LONG[:16].reshape(2, 4, 2),
    mapped=False, order=1,
)  # fmt: skip
add("sosfilt_zi", lambda m, s: m.sosfilt_zi(s), _SOS, mapped=False)
add("sosfilt_zi single", lambda m, s: m.sosfilt_zi(s), _SOS[:1], mapped=False)
add("filtfilt", lambda m, b, a, x: m.filtfilt(b, a, x, padlen=3), _NUMERATOR, _FEEDBACK[:3], _X, order=1)
for _pad in ("even", "constant", None):
    add(
        f"filtfilt {_pad}", lambda m, b, a, x, p=_pad: m.filtfilt(b, a, x, axis=0, padtype=p, padlen=3), _NUMERATOR[:2],
        _FEEDBACK[:2], _A, order=1,
    )  # fmt: skip
add("filtfilt default length", lambda m, b, a, x: m.filtfilt(b, a, x), _NUMERATOR, _FEEDBACK[:3], _LONG[:12], order=1)
add("sosfiltfilt", lambda m, s, x: m.sosfiltfilt(s, x, padlen=2), _SOS[:1], _X, mapped=False, order=1)
add("sosfiltfilt default length", lambda m, s, x: m.sosfiltfilt(s, x), _SOS[:1], _LONG[:12], fixed=(0,))

add("periodogram", lambda m, x: m.periodogram(x, 2.0)[1], _X)
add("periodogram axis", lambda m, x: m.periodogram(x, window="hann", nfft=6, detrend="linear", axis=0), _A, order=1)
add("periodogram complex", lambda m, x: m.periodogram(x, scaling="spectrum", detrend=False)[1], _Z)
add("welch", lambda m, x: m.welch(x, nperseg=4)[1], _X)
add("welch axis", lambda m, x: m.welch(x, window="blackman", nperseg=3, noverlap=2, axis=0), _A, order=1)
add("welch by window", lambda m, x, w: m.welch(x, window=w, noverlap=1, nfft=6)[1], _X, _Y)
add("welch named", lambda m, x: m.welch(x, window=("gaussian", 1.5), nperseg=4)[1], _X)
add("spectrogram", lambda m, x: m.spectrogram(x, 2.0, nperseg=4, noverlap=1), _A, order=1)
add("spectrogram axis", lambda m, x: m.spectrogram(x, window="hann", nperseg=3, nfft=4, axis=0)[2], _A, order=1)
_WAVES = np.sin(np.arange(26.0) ** 1.7).reshape(2, 13)
_FOUR = np.asarray([0.4, 1.0, 0.9, 0.3])
add("stft", lambda m, x: m.stft(x, 2.0, nperseg=4), _WAVES, order=1)
add("stft by window", lambda m, x, w: m.stft(x, window=w, nperseg=4, noverlap=1, boundary="even")[2], _WAVES[0], _FOUR)
add(
    "stft complex",
    lambda m, x: m.stft(
        x, nperseg=5, noverlap=2, nfft=6, return_onesided=False, boundary=None, padded=False, scaling="psd"
    )[2],
    _WAVES[0] + 1j * _WAVES[1],
)
add("stft axis", lambda m, x: m.stft(x, nperseg=5, detrend="linear", boundary="constant", axis=0)[2], _WAVES.T, order=1)
for _boundary in ("odd", "even", "constant", None):
    add(
        f"stft {_boundary}",
        lambda m, x, b=_boundary: m.stft(x, nperseg=6, noverlap=1, boundary=b, padded=b != "odd")[2],
        _WAVES[:, :11],
        order=2 if _boundary == "odd" else 1,
    )
_SEGMENTS = _WAVES[:, :12].reshape(2, 3, 4) + 1j * np.cos(np.arange(24.0) ** 1.4).reshape(2, 3, 4)
add("istft", lambda m, z: m.istft(z)[1], _SEGMENTS)
add("istft by window", lambda m, z, w: m.istft(z, window=w, noverlap=3, boundary=False)[1], _SEGMENTS[0], _FOUR)
add("istft psd", lambda m, z: m.istft(z, 2.0, nperseg=4, noverlap=3, scaling="psd"), _SEGMENTS[1], order=1)
add(
    "istft axes",
    lambda m, z: m.istft(z, input_onesided=False, noverlap=2, time_axis=0, freq_axis=-1)[1],
    _SEGMENTS.transpose(2, 0, 1),
)
add("windows.gaussian", lambda m, s: m.windows.gaussian(6, s), np.asarray(1.7))
add("windows.general_cosine", lambda m, a: m.windows.general_cosine(6, a, False), np.asarray([0.5, 0.3, 0.2]))
add("windows.general_gaussian", lambda m, p, s: m.windows.general_gaussian(6, p, s), np.asarray(1.3), np.asarray(2.0))
add("windows.general_hamming", lambda m, a: m.windows.general_hamming(6, a), np.asarray(0.6))
add("windows.kaiser", lambda m, b: m.windows.kaiser(7, b, sym=False), np.asarray(3.2))
add("windows.tukey", lambda m, a: m.windows.tukey(9, a), np.asarray(0.55))
add("windows.exponential", lambda m, c, t: m.windows.exponential(6, c, t, False), np.asarray(2.2), np.asarray(1.3))
add("get_window", lambda m, b: m.get_window(("kaiser", b), 6), np.asarray(3.2))
add("get_window symmetric", lambda m, s: m.get_window(("gaussian", s), 6, False), np.asarray(1.2))
