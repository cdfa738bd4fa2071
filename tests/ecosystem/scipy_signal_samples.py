"""``scipy.signal`` and ``scipy.fft``."""

import functools
from operator import itemgetter

import numpy as np
import scipy
from scipy import signal

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
X = rng.normal(size=40)
K = rng.normal(size=5)
IMAGE, KERNEL = rng.normal(size=(7, 6)), rng.normal(size=(3, 3))
B, A = np.asarray([0.4, 0.3, 0.5]), np.asarray([2.0, -0.7, 0.3])
SOS = np.asarray([[0.4, 0.3, 0.5, 1.0, -0.4, 0.2], [0.5, 0.1, 0.3, 1.0, -0.2, 0.3]])
ZERO = np.asarray([-0.9 + 0.2j, -0.9 - 0.2j, -0.7 + 0j])  # apart, as a root that stands twice has no derivative
POLE = signal.butter(3, 0.3, output="zpk")[1]
ANALOG = signal.butter(2, 1.0, analog=True)
COMPLEX = X[:12] + 1j * X[12:24]
FREQUENCIES = np.linspace(0.2, 2.0, 5)
TILES = np.tile(IMAGE, (5, 5))

of, transform = (functools.partial(SAMPLES.of, scipy, module) for module in ("signal", "fft"))
of("convolve correlate fftconvolve oaconvolve", X, K)
of("convolve", X, K, mode="same", method="direct", label="direct")
of("correlate", X, K, mode="valid", method="direct", label="direct")
of("fftconvolve", IMAGE, KERNEL, mode="same", label="two axes")
of("convolve2d correlate2d", IMAGE, KERNEL)
of("choose_conv_method", X, K, then=lambda method: [0 * (method == "")])
of("detrend hilbert envelope medfilt wiener cspline1d qspline1d", X)
of("detrend", X, type="constant", label="constant")
of("hilbert2 medfilt2d", IMAGE)
of("lfilter filtfilt", B, A, X)
of("lfiltic", B, A, X[:2])
of("lfilter_zi normalize tf2zpk tf2sos", B, A)
of("sosfilt sosfiltfilt", SOS, X, fixed=(0,))
of("sosfilt_zi sos2tf", SOS, fixed=(0,))
of("deconvolve", np.convolve(X, K), K)
SAMPLES.add(
    "signal.order_filter",
    lambda x: signal.order_filter(x, np.ones(3) if isinstance(x, np.ndarray) else x[:3] * 0 + 1, 1),
    X,
)
of("resample", X, 30)
of("resample_poly", X, 3, 2)
of("upfirdn", K, X)
of("savgol_filter", X, 5, 2)
of("cspline1d_eval qspline1d_eval", X, np.linspace(1.1, 5.3, 4))
of("cspline2d spline_filter", TILES)
of("gauss_spline", X[:6], n=3)
of("vectorstrength", X, 1.3)
of("freqz", B, A, worN=8)
of("freqz_sos sosfreqz", SOS, worN=8, fixed=(0,))
of("freqs", *ANALOG, FREQUENCIES)
of("freqs_zpk", ZERO, POLE, 1.3, FREQUENCIES)
of("freqz_zpk", ZERO, POLE, 1.3, worN=8)
of("group_delay", (B, A), w=4, then=itemgetter(1))
of("bode", ANALOG, FREQUENCIES)
of("abcd_normalize", *(rng.normal(size=s) for s in ((2, 2), (2, 1), (1, 2), (1, 1))))
of("bilinear lp2lp lp2hp lp2bp lp2bs", *ANALOG)
of("bilinear_zpk", ZERO + 0.1j, POLE, 1.0, 2.0)
of("lp2lp_zpk lp2hp_zpk", ZERO + 0.1j, POLE - 1.5 + 0.2j, 1.0, 0.7)
of("lp2bp_zpk lp2bs_zpk", ZERO + 0.1j, POLE - 1.5 + 0.2j, 1.0, 0.7, 0.4)
of("minimum_phase", np.convolve(K, K[::-1]) + np.eye(1, 9, 4)[0] * 10)
of("sos2zpk", SOS[:1])
of("zpk2tf zpk2sos", ZERO, POLE, 1.3)

transform("fft ifft", COMPLEX)
transform("rfft ihfft dct idct dst idst", X)
transform("irfft hfft", COMPLEX, n=22)
transform("fft2 ifft2 fftn ifftn rfft2 rfftn ihfft2 ihfftn fftshift ifftshift dctn idctn dstn idstn", IMAGE)
transform("irfft2 irfftn hfft2 hfftn", IMAGE + 1j * IMAGE[::-1])
transform("fht ifht", X[:16], 0.1, 0.5)
