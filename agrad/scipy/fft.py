"""Fourier and cosine transforms by the names of ``scipy.fft``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import along, as_complex, axes_of, axis_of, between_zeros, constant, is_complex, on_axis
from agrad.scipy.shared import Function, array, created, function, is_array, named

__all__ = [
    "dct", "dctn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "idct", "idctn", "ifft",
    "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "next_fast_len", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_NORMS = ("backward", "forward", "ortho")


def _weighted(x: Tensor, axis: int, weights: np.ndarray) -> Tensor:
    """Return ``x`` times a vector along an axis."""
    if weights.dtype.kind == "c":
        x = as_complex(x)
    return x * constant(weights.astype(x.dtype.name).reshape(on_axis(-1, axis, x.ndim)), x)


def _cosines(x: Tensor, kind: int, axis: int) -> Tensor:
    """Return the transform of a real array without a factor, like the SciPy norm "backward".

    Types 1 and 2 are Fourier transforms of the even continuation, 3 and 4 of the numbers turned by a phase.
    """
    n = x.shape[axis]
    turns = np.exp(-0.5j * math.pi / n * np.arange(n))
    if kind < 3:
        back = agrad.flip(x if kind == 2 else x[along(axis, slice(1, -1))], axis=axis)
        # a sum and not a concatenation, after which Dask transforms no axis
        whole = between_zeros(x, {axis: (0, back.shape[axis])}) + between_zeros(back, {axis: (n, 0)})
        whole = agrad.fft.rfft(whole, axis=axis)[along(axis, slice(n))]
        return agrad.real(whole if kind == 1 else _weighted(whole, axis, turns))
    first = turns * np.where(np.arange(n) > 0, 2.0, 1.0) if kind == 3 else 2 * turns
    padded = between_zeros(_weighted(x, axis, first), {axis: (0, n)})
    whole = agrad.fft.fft(padded, axis=axis)[along(axis, slice(n))]
    if kind == 4:
        whole = _weighted(whole, axis, np.exp(-0.25j * math.pi / n * (2 * np.arange(n) + 1)))
    return agrad.real(whole)


def _of_length(x: Tensor, n: int, axis: int) -> Tensor:
    """Return ``x`` cut or continued with zeros."""
    if n <= x.shape[axis]:
        return x[along(axis, slice(n))]
    return between_zeros(x, {axis: (0, n - x.shape[axis])})


def _transform(name: str, x: Tensor, kind: int, n: Any, axis: Any, norm: Any, orthogonalize: Any) -> Tensor:
    if is_complex(x):
        parts = [_transform(name, v, kind, n, axis, norm, orthogonalize) for v in (agrad.real(x), agrad.imag(x))]
        return parts[0] + parts[1] * 1j
    norm = "backward" if norm is None else norm
    if kind not in _INVERSE or norm not in _NORMS:
        raise ConfigurationError(f"{name}: type must be 1 to 4 and norm in {_NORMS}, got {kind!r}, {norm!r}")
    if name[0] == "i":
        kind, norm = _INVERSE[kind], {"backward": "forward", "forward": "backward"}.get(norm, norm)
    axis = axis_of(axis, x.ndim)
    x = x if n is None else _of_length(x, int(n), axis)
    n = x.shape[axis]
    if n < 1 + (kind == 1):
        raise ShapeError(f"{name}: type {kind} requires an axis of length {1 + (kind == 1)} or more, got {n}")
    ends = np.ones(n)
    if (norm == "ortho" if orthogonalize is None else orthogonalize) and kind < 4:
        ends[0] = math.sqrt(2)
        ends[-1] = math.sqrt(2) if kind == 1 else ends[-1]
    length = 2 * (n - 1) if kind == 1 else 2 * n
    scale = {"backward": 1.0, "forward": 1 / length, "ortho": 1 / math.sqrt(length)}[norm]
    x = _weighted(x, axis, ends) if kind in (1, 3) and ends[0] > 1 else x
    out = _cosines(x, kind, axis)
    after = scale / ends if kind in (1, 2) else np.full(n, scale)
    return out if (after == 1).all() else _weighted(out, axis, after)


def _one(name: str, what: str, example: str) -> Any:
    @function
    def transform(
        x: Any,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: Any = None,
        orthogonalize: bool | None = None,
    ) -> Any:
        """Return the {what} cosine transform along an axis.

        Like ``scipy.fft.{name}``, for real or complex ``x``; the result has the shape of ``x``, except for ``n``.
        ``orthogonalize`` applies to complex arrays too, whereas SciPy ignores it. ``overwrite_x`` and ``workers`` are
        ignored. It is computed by the fast Fourier transform of an array of twice the length.
        """
        return _transform(name, array(x), type, n, axis, norm, orthogonalize)

    return named(transform, name, what, "fft", example)


def _many(name: str, what: str, example: str) -> Any:
    @function
    def transform(
        x: Any,
        type: int = 2,
        s: Sequence[int] | None = None,
        axes: Any = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Any:
        """Return the {what} cosine transform along several axes.

        Like ``scipy.fft.{name}``, for real or complex ``x``; the result has the shape of ``x``, except for ``s``.
        ``overwrite_x`` and ``workers`` are ignored.
        """
        x = array(x)
        lengths = None if s is None else [int(n) for n in np.atleast_1d(s)]
        if axes is None and lengths is not None:
            axes = tuple(range(x.ndim - len(lengths), x.ndim))
        over = axes_of(axes, x.ndim)
        if lengths is not None and len(lengths) != len(over):
            raise ShapeError(f"{name}: s must have one length for each of {len(over)} axes, got {len(lengths)}")
        for i, axis in enumerate(over):
            x = _transform(name[:-1], x, type, lengths and lengths[i], axis, norm, orthogonalize)
        return x

    return named(transform, name, what, "fft", example)


# fmt: off
dct: Function = _one("dct", "discrete", example="""
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.dct(x).round(4)
array([10.    , -0.317 ,  1.4142, -4.4609])
>>> agrad.grad(lambda x: fft.dct(x)[1])(x).round(4)
array([ 1.8478,  0.7654, -0.7654, -1.8478])
""")
idct: Function = _one("idct", "inverse discrete", example="""
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.idct(x).round(4)
array([ 0.7783, -0.1456,  0.3956, -0.5283])
>>> agrad.grad(lambda x: fft.idct(x)[1])(x).round(4)
array([ 0.125 ,  0.0957, -0.1768, -0.231 ])
""")
dctn: Function = _many("dctn", "discrete", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 5.0]])
>>> fft.dctn(x).round(4)
array([[ 44.    ,  -8.4853],
       [-14.1421,   2.    ]])
>>> agrad.grad(lambda x: fft.dctn(x)[0, 1])(x).round(4)
array([[ 2.8284, -2.8284],
       [ 2.8284, -2.8284]])
""")
idctn: Function = _many("idctn", "inverse discrete", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 5.0]])
>>> fft.idctn(x).round(4)
array([[ 1.1294, -0.4741],
       [-0.6509,  0.2456]])
>>> agrad.grad(lambda x: fft.idctn(x)[0, 1])(x).round(4)
array([[ 0.0625, -0.0884],
       [ 0.0884, -0.125 ]])
""")
# fmt: on


def _of_one_axis(name: str, x: Tensor, n: Any, axis: Any, norm: Any) -> Tensor:
    return getattr(agrad.fft, name)(x if name in ("rfft", "ihfft") else as_complex(x), n=n, axis=axis, norm=norm)


def _of_axes(name: str, x: Tensor, s: Any, axes: Any, norm: Any) -> Tensor:
    if name in ("hfftn", "ihfftn"):
        # the transform with a real side is along the last axis
        if axes is None:
            axes = range(x.ndim) if s is None else range(-len(s), 0)
        axes = axes_of(tuple(axes), x.ndim)
        lengths = [None] * len(axes) if s is None else list(s)
        if not axes or len(lengths) != len(axes):
            raise ShapeError(f"{name}: s must have one length for each of {len(axes)} axes, at least one, got {s!r}")
        rest = None if s is None else lengths[:-1]
        if name == "ihfftn":
            x = _of_one_axis("ihfft", x, lengths[-1], axes[-1], norm)
            return agrad.fft.ifftn(x, s=rest, axes=axes[:-1], norm=norm) if axes[:-1] else x
        x = agrad.fft.fftn(as_complex(x), s=rest, axes=axes[:-1], norm=norm) if axes[:-1] else x
        return _of_one_axis("hfft", x, lengths[-1], axes[-1], norm)
    return getattr(agrad.fft, name)(x if name == "rfftn" else as_complex(x), s=s, axes=axes, norm=norm)


def _fourier(name: str, example: str = "") -> Function:
    of_plane, of_axes = name[-1] == "2", name[-1] in "2n"
    general = name.replace("2", "n")

    @function
    def one(
        x: Any, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: bool = False, workers: Any = None
    ) -> Any:
        """Return {what}, with the arguments of SciPy.

        Like ``scipy.fft.{name}``, for any dtype. ``overwrite_x`` and ``workers`` are ignored.
        """
        return _of_one_axis(name, array(x), n, axis, norm or "backward")

    @function
    def many(
        x: Any,
        s: Any = None,
        axes: Any = (-2, -1) if of_plane else None,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
    ) -> Any:
        """Return {what}, with the arguments of SciPy.

        Like ``scipy.fft.{name}``, for any dtype. ``overwrite_x`` and ``workers`` are ignored.
        """
        return _of_axes(general, array(x), s, axes, norm or "backward")

    if of_plane:
        example = globals()[general].__doc__.partition("import fft")[2].replace(general, name)
    what = f"``agrad.fft.{general}``" if hasattr(agrad.fft, general) else f"the transform ``scipy.fft.{name}``"
    return named(many if of_axes else one, name, what, "fft", example)


def _frequencies(name: str, example: str) -> Any:
    @function
    def frequencies(n: int, d: Any = 1.0) -> Any:
        """Return the frequencies of the elements of ``{what}``.

        Like ``scipy.fft.{name}``, differentiable with respect to the distance ``d`` of shape (). The result is on the
        device of an array ``d``. Otherwise it is created where ``agrad.numpy`` creates arrays.
        """
        d = array(d)
        return constant(getattr(np.fft, name)(n).astype(d.dtype.name), d) / d

    return named(frequencies, name, name.removesuffix("freq"), "fft", example)


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the smallest length from ``target`` on whose transform is fast.

    Like ``scipy.fft.next_fast_len``: a product of 2, 3 and 5, or for a complex transform of 2, 3, 5, 7 and 11.

    Examples
    --------
    >>> from agrad.scipy import fft
    >>> fft.next_fast_len(997), fft.next_fast_len(97, real=True)
    (1000, 100)
    """
    if int(target) != target or target < 1:
        raise ShapeError(f"next_fast_len: target must be a positive integer, got {target!r}")
    length = int(target)
    while True:
        rest = length
        for prime in (2, 3, 5) if real else (2, 3, 5, 7, 11):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1


def _shift(name: str, example: str) -> Any:
    @function
    def shifted(x: Any, axes: Any = None) -> Any:
        """Return ``agrad.fft.{name}``.

        Like ``scipy.fft.{name}``, for any dtype; the result has the shape of ``x``.
        """
        return getattr(agrad.fft, name)(agrad.asarray(x) if is_array(x) else created(x), axes=axes)

    return named(shifted, name, "", "fft", example)


# fmt: off
fft: Function = _fourier("fft", example="""
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.fft(x)
array([ 5.+0.j,  1.+0.j, -3.+0.j,  1.+0.j])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.fft(x)) ** 2))(x)
array([ 8., 16.,  0., 16.])
""")
ifft: Function = _fourier("ifft", example="""
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.ifft(fft.fft(x))
array([1.+0.j, 2.+0.j, 0.+0.j, 2.+0.j])
>>> agrad.grad(lambda x: agrad.real(fft.ifft(x)[0]))(x)
array([0.25, 0.25, 0.25, 0.25])
""")
rfft: Function = _fourier("rfft", example="""
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.rfft(x)
array([ 5.+0.j,  1.+0.j, -3.+0.j])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.rfft(x)) ** 2))(x)
array([ 6., 16.,  2., 16.])
""")
irfft: Function = _fourier("irfft", example="""
>>> fft.irfft(np.asarray([5.0, 1.0, -3.0]))
array([1., 2., 0., 2.])
>>> agrad.grad(lambda x: fft.irfft(x)[0])(np.asarray([5.0, 1.0, -3.0]))
array([0.25, 0.5 , 0.25])
""")
hfft: Function = _fourier("hfft", example="""
>>> fft.hfft(np.asarray([1.0, 2.0, 3.0]))
array([ 8., -2.,  0., -2.])
>>> agrad.grad(lambda x: fft.hfft(x)[0])(np.asarray([1.0, 2.0, 3.0]))
array([1., 2., 1.])
""")
ihfft: Function = _fourier("ihfft", example="""
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> agrad.real(fft.ihfft(x))
array([ 1.25,  0.25, -0.75])
>>> agrad.grad(lambda x: agrad.real(fft.ihfft(x)[0]))(x)
array([0.25, 0.25, 0.25, 0.25])
""")
fftn: Function = _fourier("fftn", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.fftn(x)
array([[10.+0.j, -2.+0.j],
       [-4.+0.j,  0.+0.j]])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.fftn(x)) ** 2))(x)
array([[ 8., 16.],
       [24., 32.]])
""")
ifftn: Function = _fourier("ifftn", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.ifftn(fft.fftn(x))
array([[1.+0.j, 2.+0.j],
       [3.+0.j, 4.+0.j]])
>>> agrad.grad(lambda x: agrad.real(fft.ifftn(x)[0, 0]))(x)
array([[0.25, 0.25],
       [0.25, 0.25]])
""")
rfftn: Function = _fourier("rfftn", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.rfftn(x)
array([[10.+0.j, -2.+0.j],
       [-4.+0.j,  0.+0.j]])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.rfftn(x)) ** 2))(x)
array([[ 8., 16.],
       [24., 32.]])
""")
irfftn: Function = _fourier("irfftn", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.irfftn(fft.rfftn(x))
array([[1., 2.],
       [3., 4.]])
>>> agrad.grad(lambda x: fft.irfftn(x)[0, 0])(x)
array([[0.25, 0.25],
       [0.25, 0.25]])
""")
hfftn: Function = _fourier("hfftn", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.hfftn(x)
array([[10., -2.],
       [-4.,  0.]])
>>> agrad.grad(lambda x: fft.hfftn(x)[0, 0])(x)
array([[1., 1.],
       [1., 1.]])
""")
ihfftn: Function = _fourier("ihfftn", example="""
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.ihfftn(x) + 0
array([[ 2.5+0.j, -0.5+0.j],
       [-1. +0.j,  0. +0.j]])
>>> agrad.grad(lambda x: agrad.real(fft.ihfftn(x)[0, 0]))(x)
array([[0.25, 0.25],
       [0.25, 0.25]])
""")
# fmt: on
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = map(_fourier, ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"))
# fmt: off
fftfreq: Function = _frequencies("fftfreq", example="""
>>> fft.fftfreq(5, np.asarray(0.5))
array([ 0. ,  0.4,  0.8, -0.8, -0.4])
>>> agrad.jacobian(lambda d: fft.fftfreq(5, d))(np.asarray(0.5))
array([-0. , -0.8, -1.6,  1.6,  0.8])
""")
rfftfreq: Function = _frequencies("rfftfreq", example="""
>>> fft.rfftfreq(5, np.asarray(0.5))
array([0. , 0.4, 0.8])
>>> agrad.jacobian(lambda d: fft.rfftfreq(5, d))(np.asarray(0.5))
array([-0. , -0.8, -1.6])
""")
fftshift: Function = _shift("fftshift", example="""
>>> fft.fftshift(np.asarray([0.0, 1.0, -2.0, -1.0]))
array([-2., -1.,  0.,  1.])
""")
ifftshift: Function = _shift("ifftshift", example="""
>>> fft.ifftshift(np.asarray([-2.0, -1.0, 0.0, 1.0]))
array([ 0.,  1., -2., -1.])
""")
# fmt: on
