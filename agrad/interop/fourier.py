"""``numpy.fft`` on Tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import inexact, is_complex, tensor
from agrad.interop.table import implements

_REAL_ONLY = ("rfft", "rfftn", "rfft2", "ihfft")


def _prepared(name: str, a: Any) -> Tensor:
    x = inexact(tensor(a))
    if name in _REAL_ONLY:
        if is_complex(x):
            raise TypeError(f"numpy.fft.{name} takes real numbers, not {x.dtype}")
        return x
    # the standard's other transforms take complex numbers only
    if is_complex(x):
        return x
    return agrad.astype(x, agrad.complex64 if x.dtype == agrad.float32 else agrad.complex128)


def _one_axis(name: str) -> Callable[..., Tensor]:
    function = getattr(agrad.fft, name)

    def handler(a: Any, n: Any = None, axis: int = -1, norm: Any = None) -> Tensor:
        return function(_prepared(name, a), n=None if n is None else int(n), axis=int(axis), norm=norm or "backward")

    return handler


def _several_axes(name: str, base: str, default: Any) -> Callable[..., Tensor]:
    function = getattr(agrad.fft, base)

    def handler(a: Any, s: Any = None, axes: Any = default, norm: Any = None) -> Tensor:
        return function(
            _prepared(name, a),
            s=None if s is None else [int(n) for n in s],
            axes=None if axes is None else [int(i) for i in axes],
            norm=norm or "backward",
        )

    return handler


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    implements(f"fft.{_name}")(_one_axis(_name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    implements(f"fft.{_name}")(_several_axes(_name, _name, None))
    implements(f"fft.{_name[:-1]}2")(_several_axes(f"{_name[:-1]}2", _name, (-2, -1)))


def _shift(name: str) -> None:
    function = getattr(agrad.fft, name)

    def handler(x: Any, axes: Any = None) -> Tensor:
        return function(tensor(x), axes=None if axes is None else tuple(int(i) for i in np.atleast_1d(axes)))

    implements(f"fft.{name}")(handler)


_shift("fftshift")
_shift("ifftshift")
