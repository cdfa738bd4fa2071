"""``numpy.fft`` on Tensors."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import Floating, is_complex
from agrad.interop.table import implements


def _transform(name: str, base: str, **defaults: Any) -> None:
    """Register a transform: the agrad function ``base`` with other defaults."""
    function = getattr(agrad.fft, base)

    def handler(a: Floating, **settings: Any) -> Tensor:
        given = {key: np.asarray(value).tolist() for key, value in settings.items() if value is not None}
        return function(_prepared(base, a), **{**defaults, **given})

    implements(f"fft.{name}")(handler)


def _prepared(name: str, x: Tensor) -> Tensor:
    if name in ("rfft", "rfftn", "ihfft") and is_complex(x):
        raise TypeError(f"numpy.fft.{name}: a must be real, got {x.dtype}")
    if name in ("rfft", "rfftn", "ihfft") or is_complex(x):
        return x
    # the standard's other transforms take complex numbers only
    return agrad.astype(x, agrad.complex64 if x.dtype == agrad.float32 else agrad.complex128)


def _shift(name: str) -> None:
    function = getattr(agrad.fft, name)

    def handler(x: Tensor, axes: Any = None) -> Tensor:
        return function(x, axes=None if axes is None else tuple(int(i) for i in np.atleast_1d(axes)))

    implements(f"fft.{name}")(handler)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn"):
    _transform(_name, _name)
for _name in ("fft", "ifft", "rfft", "irfft"):
    _transform(f"{_name}2", f"{_name}n", axes=(-2, -1))
_shift("fftshift")
_shift("ifftshift")
