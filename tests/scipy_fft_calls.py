"""Calls of ``scipy.fft``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("fft")
plain = CALLS.plain
_X = np.asarray([[0.3, -1.2, 2.0, 0.7, -0.4], [1.1, 0.4, -6.0, 0.9, 0.2]])
_Z = _X * (1 - 0.5j)
for _type in (1, 2, 3, 4):
    plain("dct idct", f"{_type}", _X, _type)
    for _norm in ("ortho", "forward"):
        plain("dct idct", f"{_type} {_norm}", _X.T, _type, axis=0, norm=_norm)
plain("dct idct", "longer", _X, n=7)
plain("dct idct", "shorter", _X, 3, n=4, norm="ortho")
plain("dct idct", "complex", _Z, norm="ortho")
plain("dct idct", "not orthogonal", _X, norm="ortho", orthogonalize=False)
plain("dctn idctn", "", _X)
plain("dctn idctn", "axes", _X, 4, axes=(1,), norm="ortho")
plain("dctn idctn", "lengths", _X, s=(3, 4))
plain("fft ifft irfft hfft fftn ifftn irfftn fftshift ifftshift fft2 ifft2 irfft2 hfft2 hfftn", "", _Z)
plain("fft rfft ihfft", "length", _X.T, 4, 0, "ortho")
plain("fftn rfftn", "axes", _X, (3,), (1,), "forward")
plain("fft2 ifft2 irfft2 hfft2 hfftn", "axes", _Z, (3, 4), (1, 0), "ortho")
plain("rfft2 ihfft2 ihfftn", "", _X)
plain("rfft2 ihfft2 ihfftn", "axes", _X, (3, 4), (1, 0), "forward")
plain("hfftn ihfftn", "one", _X, s=(3,))
for _n in (1, 6, 7):
    plain("fftfreq rfftfreq", f"{_n}", _n, np.asarray(0.3))
