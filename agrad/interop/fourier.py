"""``numpy.fft`` on Tensors."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import Floating, as_complex, is_complex
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
    # the standard's other transforms take complex numbers only
    return x if name in ("rfft", "rfftn", "ihfft") else as_complex(x)


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
