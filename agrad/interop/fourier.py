"""``numpy.fft`` on Tensors."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import Floating, is_complex
from agrad.interop.table import implements

_REAL_ONLY = ("rfft", "rfftn", "rfft2", "ihfft")


def _prepared(name: str, x: Tensor) -> Tensor:
    if name in _REAL_ONLY:
        if is_complex(x):
            raise TypeError(f"numpy.fft.{name} takes real numbers, not {x.dtype}")
        return x
    # the standard's other transforms take complex numbers only
    if is_complex(x):
        return x
    return agrad.astype(x, agrad.complex64 if x.dtype == agrad.float32 else agrad.complex128)


def _one_axis(name: str) -> None:
    function = getattr(agrad.fft, name)

    def handler(a: Floating, n: Any = None, axis: int = -1, norm: Any = None) -> Tensor:
        return function(_prepared(name, a), n=None if n is None else int(n), axis=int(axis), norm=norm or "backward")

    implements(f"fft.{name}")(handler)


def _several_axes(name: str, base: str, default: Any) -> None:
    function = getattr(agrad.fft, base)

    def handler(a: Floating, s: Any = None, axes: Any = default, norm: Any = None) -> Tensor:
        s = None if s is None else [int(n) for n in s]
        axes = None if axes is None else [int(i) for i in axes]
        return function(_prepared(name, a), s=s, axes=axes, norm=norm or "backward")

    implements(f"fft.{name}")(handler)


def _shift(name: str) -> None:
    function = getattr(agrad.fft, name)

    def handler(x: Tensor, axes: Any = None) -> Tensor:
        return function(x, axes=None if axes is None else tuple(int(i) for i in np.atleast_1d(axes)))

    implements(f"fft.{name}")(handler)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _one_axis(_name)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _several_axes(_name, _name, None)
    _several_axes(f"{_name[:-1]}2", _name, (-2, -1))
_shift("fftshift")
_shift("ifftshift")
