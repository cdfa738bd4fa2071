"""Calls of ``scipy.fft``."""

import numpy as np
from scipy_calls import Calls

CALLS = Calls("fft")
add = CALLS.add
_X = np.asarray([[0.3, -1.2, 2.0, 0.7, -0.4], [1.1, 0.4, -6.0, 0.9, 0.2]])
for _name in ("dct", "idct"):
    for _type in (1, 2, 3, 4):
        add(f"{_name} {_type}", lambda m, x, name=_name, type=_type: getattr(m, name)(x, type), _X)
        for _norm in ("ortho", "forward"):
            add(
                f"{_name} {_type} {_norm}",
                lambda m, x, name=_name, type=_type, norm=_norm: getattr(m, name)(x, type, axis=0, norm=norm),
                _X.T,
            )
    add(f"{_name} longer", lambda m, x, name=_name: getattr(m, name)(x, n=7), _X)
    add(f"{_name} shorter", lambda m, x, name=_name: getattr(m, name)(x, 3, n=4, norm="ortho"), _X)
    add(f"{_name} complex", lambda m, x, name=_name: getattr(m, name)(x, norm="ortho"), _X * (1 - 0.5j))
    add(f"{_name} not orthogonal", lambda m, x, name=_name: getattr(m, name)(x, norm="ortho", orthogonalize=False), _X)
    add(f"{_name}n", lambda m, x, name=_name: getattr(m, f"{name}n")(x), _X)
    add(f"{_name}n axes", lambda m, x, name=_name: getattr(m, f"{name}n")(x, 4, axes=(1,), norm="ortho"), _X)
    add(f"{_name}n lengths", lambda m, x, name=_name: getattr(m, f"{name}n")(x, s=(3, 4)), _X)
for _name in ("fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn", "fftshift", "ifftshift"):
    add(_name, lambda m, x, name=_name: getattr(m, name)(x), _X * (1 - 0.5j))
for _name in ("fft", "rfft", "ihfft"):
    add(f"{_name} length", lambda m, x, name=_name: getattr(m, name)(x, 4, 0, "ortho"), _X.T)
for _name in ("fftn", "rfftn"):
    add(f"{_name} axes", lambda m, x, name=_name: getattr(m, name)(x, (3,), (1,), "forward"), _X)
for _name in ("fft2", "ifft2", "irfft2", "hfft2", "hfftn"):
    add(_name, lambda m, x, name=_name: getattr(m, name)(x), _X * (1 - 0.5j))
    add(f"{_name} axes", lambda m, x, name=_name: getattr(m, name)(x, (3, 4), (1, 0), "ortho"), _X * (1 - 0.5j))
for _name in ("rfft2", "ihfft2", "ihfftn"):
    add(_name, lambda m, x, name=_name: getattr(m, name)(x), _X)
    add(f"{_name} axes", lambda m, x, name=_name: getattr(m, name)(x, (3, 4), (1, 0), "forward"), _X)
for _name in ("hfftn", "ihfftn"):
    add(f"{_name} one", lambda m, x, name=_name: getattr(m, name)(x, s=(3,)), _X)
for _name in ("fftfreq", "rfftfreq"):
    for _n in (1, 6, 7):
        add(f"{_name} {_n}", lambda m, d, name=_name, n=_n: getattr(m, name)(n, d), np.asarray(0.3))
