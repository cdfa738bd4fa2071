"""Fourier transforms. Lengths are brought about before and after each transform by padding and cropping.

The matrix of a discrete Fourier transform is symmetric, and cotangents pair without conjugation, so a transform is its
own transpose. Those between real and Hermitian arrays are each other's, up to the weights of coefficients that stand
for two.
"""

from collections.abc import Callable, Sequence
from operator import index as as_int
from typing import Any

from agrad.backends import selected
from agrad.dtypes import as_dtype
from agrad.engine.levels import AMBIENT
from agrad.engine.notation import primitive
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import OperandError, ShapeError
from agrad.ops.indexing import getitem, scatter_add
from agrad.ops.shared import axes_of, ndim_of
from agrad.shapes import normalize_axis

Axes = tuple[int, ...]

INVERSE_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm under which an inverse transform has the factor that the forward one has under the key."""


def _norm(norm: Any, name: str) -> str:
    if norm is not None and norm not in INVERSE_NORM:
        raise OperandError(f"{name}: norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    return norm or "backward"


def _axis(x: Any, axis: int, name: str) -> int:
    if not ndim_of(x, name):
        raise ShapeError(f"{name} takes an array of one or more axes")
    return normalize_axis(axis, len(x.shape))


def _length(n: Any, name: str) -> int:
    n = as_int(n)
    if n < 1:
        raise ShapeError(f"{name}: a transform has a length of 1 or more, not {n}")
    return n


def _resized(x: Any, lengths: dict[int, int]) -> Any:
    """``x`` with its axes cropped, or padded with zeros at their ends, to these lengths."""
    shape = tuple(x.shape)
    cropped = tuple(slice(0, min(size, lengths.get(i, size))) for i, size in enumerate(shape))
    target = tuple(lengths.get(i, size) for i, size in enumerate(shape))
    if any(s.stop < size for s, size in zip(cropped, shape, strict=True)):
        x = getitem.bind(x, index=cropped)
    return x if tuple(x.shape) == target else scatter_add.bind(x, index=cropped, shape=target)


def _run(bind: Callable[..., Any], x: Any, lengths: dict[int, int], **settings: Any) -> Any:
    """The transform ``bind`` of ``x`` with its axes of these lengths."""
    empty = [i for i, size in enumerate(x.shape) if not size and i not in lengths]
    if not empty:
        return bind(_resized(x, lengths), **settings)
    # PyTorch transforms no batch without a member, so one is lent
    y = bind(_resized(x, {**lengths, **dict.fromkeys(empty, 1)}), **settings)
    return getitem.bind(y, index=tuple(slice(0, 0 if i in empty else None) for i in range(len(x.shape))))


def _doubled(xp: Any, g: Any, n: int, axis: int, factor: float) -> Any:
    """``g`` with every coefficient that stands for itself and its conjugate multiplied by ``factor``."""
    count = g.shape[axis]
    place = xp.arange_like(g, count)
    single = place == 0 if n % 2 else (place == 0) | (place == n // 2)
    weight = (1 - factor) * xp.astype(single, xp.real(g).dtype) + factor
    return g * xp.reshape(weight, (count, *(1,) * (len(g.shape) - 1 - axis)))


# ------------------------------------------------------------------ complex to complex, one axis


@primitive(linear="x", name="fft.fft", batch="axis")
def fft(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.fft(x, axis=axis, norm=norm)


@fft.vjp
def fft_vjp(xp: Any, g: Any, *, axis: int, norm: str) -> Any:
    return xp.fft.fft(g, axis=axis, norm=norm)


@primitive(linear="x", name="fft.ifft", batch="axis")
def ifft(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.ifft(x, axis=axis, norm=norm)


@ifft.vjp
def ifft_vjp(xp: Any, g: Any, *, axis: int, norm: str) -> Any:
    return xp.fft.ifft(g, axis=axis, norm=norm)


# ------------------------------------------------------------------ real to Hermitian and back, one axis


@primitive(linear="x", name="fft.rfft", batch="axis")
def rfft(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.rfft(x, axis=axis, norm=norm)


def _from_rfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """The transpose of ``rfft`` of length n."""
    return xp.fft.irfft(_doubled(xp, xp.conj(g), n, axis, 0.5), n=n, axis=axis, norm=INVERSE_NORM[norm])


@rfft.vjp
def rfft_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int, norm: str) -> Any:
    return _from_rfft(xp, g, x_meta.shape[axis], axis, norm)


@primitive(linear="x", name="fft.irfft", batch="axis")
def irfft(xp: Any, x: Any, /, *, n: int, axis: int, norm: str) -> Any:
    return xp.fft.irfft(x, n=n, axis=axis, norm=norm)


def _from_irfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """The transpose of ``irfft`` of length n."""
    return _doubled(xp, xp.conj(xp.fft.rfft(g, axis=axis, norm=INVERSE_NORM[norm])), n, axis, 2.0)


@irfft.vjp
def irfft_vjp(xp: Any, g: Any, *, n: int, axis: int, norm: str) -> Any:
    return _from_irfft(xp, g, n, axis, norm)


@primitive(linear="x", name="fft.hfft", batch="axis")
def hfft(xp: Any, x: Any, /, *, n: int, axis: int, norm: str) -> Any:
    return xp.fft.hfft(x, n=n, axis=axis, norm=norm)


@hfft.vjp
def hfft_vjp(xp: Any, g: Any, *, n: int, axis: int, norm: str) -> Any:
    # hfft is irfft of the conjugate under the inverse norm
    return _doubled(xp, xp.fft.rfft(g, axis=axis, norm=norm), n, axis, 2.0)


@primitive(linear="x", name="fft.ihfft", batch="axis")
def ihfft(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.ihfft(x, axis=axis, norm=norm)


@ihfft.vjp
def ihfft_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int, norm: str) -> Any:
    n = x_meta.shape[axis]
    return xp.fft.irfft(_doubled(xp, g, n, axis, 0.5), n=n, axis=axis, norm=norm)


# ------------------------------------------------------------------ several axes


@primitive(linear="x", name="fft.fftn", batch="axis")
def fftn(xp: Any, x: Any, /, *, axes: Axes, norm: str) -> Any:
    return xp.fft.fftn(x, axes=axes, norm=norm)


@fftn.vjp
def fftn_vjp(xp: Any, g: Any, *, axes: Axes, norm: str) -> Any:
    return xp.fft.fftn(g, axes=axes, norm=norm)


@primitive(linear="x", name="fft.ifftn", batch="axis")
def ifftn(xp: Any, x: Any, /, *, axes: Axes, norm: str) -> Any:
    return xp.fft.ifftn(x, axes=axes, norm=norm)


@ifftn.vjp
def ifftn_vjp(xp: Any, g: Any, *, axes: Axes, norm: str) -> Any:
    return xp.fft.ifftn(g, axes=axes, norm=norm)


@primitive(linear="x", name="fft.rfftn", batch="axis")
def rfftn(xp: Any, x: Any, /, *, axes: Axes, norm: str) -> Any:
    return xp.fft.rfftn(x, axes=axes, norm=norm)


@rfftn.vjp
def rfftn_vjp(xp: Any, g: Any, x_meta: Any, *, axes: Axes, norm: str) -> Any:
    *others, last = axes
    if others:
        g = xp.fft.fftn(g, axes=tuple(others), norm=norm)
    return _from_rfft(xp, g, x_meta.shape[last], last, norm)


@primitive(linear="x", name="fft.irfftn", batch="axis")
def irfftn(xp: Any, x: Any, /, *, n: int, axes: Axes, norm: str) -> Any:
    lengths = [x.shape[axis] for axis in axes]
    return xp.fft.irfftn(x, s=(*lengths[:-1], n), axes=axes, norm=norm)


@irfftn.vjp
def irfftn_vjp(xp: Any, g: Any, *, n: int, axes: Axes, norm: str) -> Any:
    *others, last = axes
    g = _from_irfft(xp, g, n, last, norm)
    return xp.fft.ifftn(g, axes=tuple(others), norm=norm) if others else g


# ------------------------------------------------------------------ shifts


@primitive(linear="x", name="fft.fftshift", normalize={"axes": axes_of}, batch="axis")
def fftshift(xp: Any, x: Any, /, *, axes: Any = None) -> Any:
    """The coefficient of frequency 0 moved to the middle of ``axes`` (an int, a tuple, or None for all)."""
    return xp.fft.fftshift(x, axes=axes)


@primitive(linear="x", name="fft.ifftshift", normalize={"axes": axes_of}, batch="axis")
def ifftshift(xp: Any, x: Any, /, *, axes: Any = None) -> Any:
    """The inverse of ``fftshift``."""
    return xp.fft.ifftshift(x, axes=axes)


@fftshift.vjp
def fftshift_vjp(xp: Any, g: Any, *, axes: Axes) -> Any:
    return xp.fft.ifftshift(g, axes=axes)


@ifftshift.vjp
def ifftshift_vjp(xp: Any, g: Any, *, axes: Axes) -> Any:
    return xp.fft.fftshift(g, axes=axes)


# ------------------------------------------------------------------ the public functions

_LENGTHS = """
    Raises ``ShapeError`` for a length below 1 or an axis out of range, ``OperandError`` for another norm.
"""


def _one_axis(made: Any, text: str) -> Callable[..., Any]:
    """The public form of a transform along one axis, of which the lengths before and after are the same."""
    name, bind = made.primitive.name, made.bind

    def transform(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        axis = _axis(x, axis, name)
        size = _length(x.shape[axis] if n is None else n, name)
        return _run(bind, x, {axis: size}, axis=axis, norm=_norm(norm, name))

    transform.__doc__ = text + _LENGTHS
    return transform


def _from_half(made: Any, text: str) -> Callable[..., Any]:
    """The public form of a transform along one axis from one half of a Hermitian array to a real one."""
    name, bind = made.primitive.name, made.bind

    def transform(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        axis = _axis(x, axis, name)
        size = _length(2 * (x.shape[axis] - 1) if n is None else n, name)
        return _run(bind, x, {axis: size // 2 + 1}, n=size, axis=axis, norm=_norm(norm, name))

    transform.__doc__ = text + _LENGTHS
    return transform


def _sizes(x: Any, s: Any, axes: Any, name: str, *, half: bool = False) -> tuple[Axes, list[int]]:
    """The axes of a transform of several, and its length along each. ``half``: from half of a Hermitian array."""
    ndim = ndim_of(x, name)
    if axes is None:
        chosen = tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))
    else:
        chosen = tuple(normalize_axis(axis, ndim) for axis in axes)
    if not chosen or min(chosen) < 0 or len(set(chosen)) != len(chosen):
        raise ShapeError(f"{name}: axes {axes} are no distinct axes of an array of shape {tuple(x.shape)}")
    given: Sequence[Any] = [None] * len(chosen) if s is None else list(s)
    if len(given) != len(chosen):
        raise ShapeError(f"{name}: {len(given)} lengths for {len(chosen)} axes")
    sizes = []
    for i, (n, axis) in enumerate(zip(given, chosen, strict=True)):
        if n is None or n == -1:
            n = 2 * (x.shape[axis] - 1) if half and i == len(chosen) - 1 else x.shape[axis]
        sizes.append(_length(n, name))
    return chosen, sizes


def _several_axes(made: Any, text: str) -> Callable[..., Any]:
    name, bind = made.primitive.name, made.bind

    def transform(
        x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Any:
        chosen, sizes = _sizes(x, s, axes, name)
        return _run(bind, x, dict(zip(chosen, sizes, strict=True)), axes=chosen, norm=_norm(norm, name))

    transform.__doc__ = text + _LENGTHS
    return transform


def _public(made: Any, kind: Callable[..., Any], first: str, types: str) -> Any:
    lengths = "``n``: its length" if kind in (_one_axis, _from_half) else "``s``: its length along each of ``axes``"
    function = kind(
        made,
        f"{first}\n\n    x: {types}. {lengths}, to which ``x`` is cropped or padded with zeros.\n"
        "    ``norm``: where the factor 1/n is, ``'backward'``, ``'forward'``, or ``'ortho'`` for its root in each.",
    )
    function.__name__ = function.__qualname__ = made.primitive.identifier
    return made.door(function)


_irfftn = irfftn.bind


@irfftn.door
def irfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    """The inverse of ``rfftn``: real, from the half of a Hermitian array along the last of ``axes``.

    x: complex array. ``s``: the lengths of the result along ``axes``; that of the last is 2 (m - 1) by default.
    """
    chosen, sizes = _sizes(x, s, axes, "fft.irfftn", half=True)
    lengths = dict(zip(chosen, [*sizes[:-1], sizes[-1] // 2 + 1], strict=True))
    return _run(_irfftn, x, lengths, n=sizes[-1], axes=chosen, norm=_norm(norm, "fft.irfftn"))


_FLOATING, _REAL, _COMPLEX = "array of a floating dtype", "array of a real floating dtype", "complex array"
fft = _public(fft, _one_axis, "The discrete Fourier transform along one axis.", _FLOATING)
ifft = _public(ifft, _one_axis, "The inverse discrete Fourier transform along one axis.", _FLOATING)
rfft = _public(rfft, _one_axis, "The transform of real values along one axis: its first n // 2 + 1 values.", _REAL)
irfft = _public(irfft, _from_half, "The inverse of ``rfft``: n real values, by default 2 (m - 1).", _COMPLEX)
hfft = _public(hfft, _from_half, "The transform of a Hermitian array, from its half: n real values.", _COMPLEX)
ihfft = _public(ihfft, _one_axis, "The inverse of ``hfft``: the first n // 2 + 1 values.", _REAL)
fftn = _public(fftn, _several_axes, "The discrete Fourier transform along several axes.", _FLOATING)
ifftn = _public(ifftn, _several_axes, "The inverse discrete Fourier transform along several axes.", _FLOATING)
rfftn = _public(rfftn, _several_axes, "``rfft`` along the last of ``axes``, ``fftn`` along the others.", _REAL)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any) -> Tensor:
    here = selected()
    backend = here.backend
    raw = getattr(backend.xp.fft, name)(
        _length(n, name), d=d, device=here.device if device is None else backend.device(device)
    )
    if dtype is not None:
        raw = backend.xp.astype(raw, getattr(backend.xp, as_dtype(dtype).name))
    return wrap(raw, AMBIENT)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The n frequencies of ``fft`` for samples ``d`` apart: 0 and the positive ones, then the negative ones.

    A constant Tensor of shape (n,) on the selected backend.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The n // 2 + 1 frequencies of ``rfft`` of length n for samples ``d`` apart, on the selected backend. Constant."""
    return _frequencies("rfftfreq", n, d, dtype, device)


__all__: list[str] = []
# fmt: off
FFT = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
       "rfftfreq", "rfftn"]
# fmt: on
