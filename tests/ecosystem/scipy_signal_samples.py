"""``scipy.signal`` and ``scipy.fft``."""

from typing import Any

import numpy as np
from scipy import fft, signal

from ecosystem.trial import Samples

SAMPLES = Samples()
_DESIGN = "designs a filter, a window or a grid from a few numbers"
NOT_TRIED = {
    **{
        f"signal.{name}": _DESIGN
        for name in (
            "besselap", "buttap", "butter", "buttord", "cheb1ap", "cheb1ord", "cheb2ap", "cheb2ord", "cheby1", "cheby2",
            "ellip", "ellipap", "ellipord", "bessel", "firls", "firwin", "firwin2", "gammatone", "get_window",
            "iircomb",
            "iirdesign", "iirfilter", "iirnotch", "iirpeak", "remez", "savgol_coeffs", "place_poles", "dlti", "impulse",
        )
    },
    "fft.fftfreq": "depends only on the number of samples and their distance",
    "fft.rfftfreq": "depends only on the number of samples and their distance",
}  # fmt: skip

rng = np.random.default_rng(0)
X = rng.normal(size=40)
K = rng.normal(size=5)
IMAGE, KERNEL = rng.normal(size=(7, 6)), rng.normal(size=(3, 3))
B, A = np.asarray([0.4, 0.3, 0.5]), np.asarray([2.0, -0.7, 0.3])
SOS = np.asarray([[0.4, 0.3, 0.5, 1.0, -0.4, 0.2], [0.5, 0.1, 0.3, 1.0, -0.2, 0.3]])
ZERO = np.asarray([-0.9 + 0.2j, -0.9 - 0.2j, -0.7 + 0j])  # apart, as a root that stands twice has no derivative
POLE = signal.butter(3, 0.3, output="zpk")[1]
ANALOG_B, ANALOG_A = signal.butter(2, 1.0, analog=True)
COMPLEX = X[:12] + 1j * X[12:24]
FREQUENCIES = np.linspace(0.2, 2.0, 5)


def add(name: str, *inputs: np.ndarray, label: str = "", fixed: tuple[int, ...] = (), **settings: Any) -> None:
    """File a sample of a function of ``scipy.signal``."""
    function = getattr(signal, name)
    SAMPLES.add(f"signal.{name}", lambda *a: function(*a, **settings), *inputs, label=label, fixed=fixed)


def transform(name: str, x: np.ndarray, label: str = "", **settings: Any) -> None:
    """File a sample of a function of ``scipy.fft``."""
    function = getattr(fft, name)
    SAMPLES.add(f"fft.{name}", lambda a: function(a, **settings), x, label=label)


for _name in ("convolve", "correlate", "fftconvolve", "oaconvolve"):
    add(_name, X, K)
add("convolve", X, K, mode="same", method="direct", label="direct")
add("correlate", X, K, mode="valid", method="direct", label="direct")
add("fftconvolve", IMAGE, KERNEL, mode="same", label="two axes")
add("convolve2d", IMAGE, KERNEL)
add("correlate2d", IMAGE, KERNEL)
SAMPLES.add("signal.choose_conv_method", lambda x, k: [0 * (signal.choose_conv_method(x, k) == "")], X, K)
add("detrend", X)
add("detrend", X, type="constant", label="constant")
add("hilbert", X)
add("hilbert2", IMAGE)
add("envelope", X)
add("lfilter", B, A, X)
add("lfilter_zi", B, A)
add("lfiltic", B, A, X[:2])
add("filtfilt", B, A, X)
add("sosfilt", SOS, X, fixed=(0,))
add("sosfilt_zi", SOS, fixed=(0,))
add("sosfiltfilt", SOS, X, fixed=(0,))
add("deconvolve", np.convolve(X, K), K)
add("medfilt", X)
add("medfilt2d", IMAGE)
SAMPLES.add(
    "signal.order_filter",
    lambda x: signal.order_filter(x, np.ones(3) if isinstance(x, np.ndarray) else x[:3] * 0 + 1, 1),
    X,
)
add("wiener", X)
SAMPLES.add("signal.resample", lambda x: signal.resample(x, 30), X)
SAMPLES.add("signal.resample_poly", lambda x: signal.resample_poly(x, 3, 2), X)
add("upfirdn", K, X)
SAMPLES.add("signal.savgol_filter", lambda x: signal.savgol_filter(x, 5, 2), X)
SAMPLES.add("signal.cspline1d", lambda x: signal.cspline1d(x), X)
SAMPLES.add("signal.qspline1d", lambda x: signal.qspline1d(x), X)
SAMPLES.add("signal.cspline1d_eval", lambda c, x: signal.cspline1d_eval(c, x), X, np.linspace(1.1, 5.3, 4))
SAMPLES.add("signal.qspline1d_eval", lambda c, x: signal.qspline1d_eval(c, x), X, np.linspace(1.1, 5.3, 4))
add("cspline2d", np.tile(IMAGE, (5, 5)))
add("gauss_spline", X[:6], n=3)
add("spline_filter", np.tile(IMAGE, (5, 5)))
SAMPLES.add("signal.vectorstrength", lambda e: signal.vectorstrength(e, 1.3), X)
add("freqz", B, A, worN=8)
add("freqz_sos", SOS, worN=8, fixed=(0,))
add("sosfreqz", SOS, worN=8, fixed=(0,))
add("freqs", ANALOG_B, ANALOG_A, FREQUENCIES)
SAMPLES.add("signal.freqs_zpk", lambda z, p, w: signal.freqs_zpk(z, p, 1.3, w), ZERO, POLE, FREQUENCIES)
SAMPLES.add("signal.freqz_zpk", lambda z, p: signal.freqz_zpk(z, p, 1.3, worN=8), ZERO, POLE)
SAMPLES.add("signal.group_delay", lambda b, a: signal.group_delay((b, a), w=4)[1], B, A)
SAMPLES.add("signal.bode", lambda b, a, w: signal.bode((b, a), w), ANALOG_B, ANALOG_A, FREQUENCIES)
SAMPLES.add(
    "signal.abcd_normalize",
    lambda a, b, c, d: signal.abcd_normalize(a, b, c, d),
    *(rng.normal(size=s) for s in ((2, 2), (2, 1), (1, 2), (1, 1))),
)
add("bilinear", ANALOG_B, ANALOG_A)
SAMPLES.add("signal.bilinear_zpk", lambda z, p: signal.bilinear_zpk(z, p, 1.0, 2.0), ZERO + 0.1j, POLE)
add("normalize", B, A)
for _name in ("lp2lp", "lp2hp", "lp2bp", "lp2bs"):
    add(_name, ANALOG_B, ANALOG_A)
    SAMPLES.add(
        f"signal.{_name}_zpk",
        lambda z, p, n=_name: getattr(signal, f"{n}_zpk")(z, p, 1.0, *([0.7, 0.4] if n[3] == "b" else [0.7])),
        ZERO + 0.1j,
        POLE - 1.5 + 0.2j,
    )
add("minimum_phase", np.convolve(K, K[::-1]) + np.eye(1, 9, 4)[0] * 10)
add("sos2tf", SOS, fixed=(0,))
add("sos2zpk", SOS[:1])
add("tf2zpk", B, A)
add("tf2sos", B, A)
SAMPLES.add("signal.zpk2tf", lambda z, p: signal.zpk2tf(z, p, 1.3), ZERO, POLE)
SAMPLES.add("signal.zpk2sos", lambda z, p: signal.zpk2sos(z, p, 1.3), ZERO, POLE)

for _name in ("fft", "ifft"):
    transform(_name, COMPLEX)
transform("rfft", X)
transform("ihfft", X)
for _name in ("irfft", "hfft"):
    transform(_name, COMPLEX, n=22)
for _name in ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn", "ihfft2", "ihfftn", "fftshift", "ifftshift"):
    transform(_name, IMAGE)
for _name in ("irfft2", "irfftn", "hfft2", "hfftn"):
    transform(_name, IMAGE + 1j * IMAGE[::-1])
for _name in ("dct", "idct", "dst", "idst"):
    transform(_name, X)
    transform(f"{_name}n", IMAGE)
SAMPLES.add("fft.fht", lambda x: fft.fht(x, 0.1, 0.5), X[:16])
SAMPLES.add("fft.ifht", lambda x: fft.ifht(x, 0.1, 0.5), X[:16])
