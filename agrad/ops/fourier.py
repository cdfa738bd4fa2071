"""Fourier transforms. Arrays are padded or cropped to a length before them.

The matrix of a discrete Fourier transform is symmetric, and cotangents pair without conjugation, so a transform is its
own transpose. Those between real and Hermitian arrays are each other's, up to the weights of coefficients that stand
for two.
"""

from collections.abc import Sequence
from operator import index as as_int
from typing import Any

from agrad.backends import selected
from agrad.dtypes import as_dtype
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.notation import Operation
from agrad.engine.tensor import Tensor, wrap
from agrad.errors import OperandError, ShapeError
from agrad.ops.definition import primitive
from agrad.ops.indexing import getitem, scatter_add
from agrad.ops.shared import axes_of, ndim_of
from agrad.registry import public
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
    """Crop axes of ``x``, or pad them with zeros at their ends, to these lengths."""
    shape = tuple(x.shape)
    cropped = tuple(slice(0, min(size, lengths.get(i, size))) for i, size in enumerate(shape))
    target = tuple(lengths.get(i, size) for i, size in enumerate(shape))
    if any(s.stop < size for s, size in zip(cropped, shape, strict=True)):
        x = getitem(x, index=cropped)
    return x if tuple(x.shape) == target else scatter_add(x, index=cropped, shape=target)


def _run(operation: Operation, x: Any, lengths: dict[int, int], **settings: Any) -> Any:
    """Transform ``x`` with its axes of these lengths."""
    empty = [i for i, size in enumerate(x.shape) if not size and i not in lengths]
    if not empty:
        return operation(_resized(x, lengths), **settings)
    # PyTorch transforms no batch without a member: transform one, and drop it
    y = operation(_resized(x, {**lengths, **dict.fromkeys(empty, 1)}), **settings)
    return getitem(y, index=tuple(slice(0, 0 if i in empty else None) for i in range(len(x.shape))))


def _doubled(xp: Any, g: Any, n: int, axis: int, factor: float) -> Any:
    """Multiply by ``factor`` the coefficients that stand for their conjugates too."""
    count = g.shape[axis]
    place = xp.arange_like(g, count)
    single = place == 0 if n % 2 else (place == 0) | (place == n // 2)
    weight = (1 - factor) * xp.astype(single, xp.real(g).dtype) + factor
    return g * xp.reshape(weight, (count, *(1,) * (len(g.shape) - 1 - axis)))


# ------------------------------------------------------------------ complex to complex, one axis


@primitive(linear="x", name="fft.fft", batch="axis", symmetric=True)
def fft_p(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.fft(x, axis=axis, norm=norm)


@primitive(linear="x", name="fft.ifft", batch="axis", symmetric=True)
def ifft_p(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.ifft(x, axis=axis, norm=norm)


# ------------------------------------------------------------------ real to Hermitian and back, one axis


@primitive(linear="x", name="fft.rfft", batch="axis")
def rfft_p(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.rfft(x, axis=axis, norm=norm)


def _from_rfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """Apply the transpose of ``rfft`` of length n."""
    return xp.fft.irfft(_doubled(xp, xp.conj(g), n, axis, 0.5), n=n, axis=axis, norm=INVERSE_NORM[norm])


@rfft_p.vjp
def rfft_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int, norm: str) -> Any:
    return _from_rfft(xp, g, x_meta.shape[axis], axis, norm)


@primitive(linear="x", name="fft.irfft", batch="axis")
def irfft_p(xp: Any, x: Any, /, *, n: int, axis: int, norm: str) -> Any:
    return xp.fft.irfft(x, n=n, axis=axis, norm=norm)


def _from_irfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """Apply the transpose of ``irfft`` of length n."""
    return _doubled(xp, xp.conj(xp.fft.rfft(g, axis=axis, norm=INVERSE_NORM[norm])), n, axis, 2.0)


@irfft_p.vjp
def irfft_vjp(xp: Any, g: Any, *, n: int, axis: int, norm: str) -> Any:
    return _from_irfft(xp, g, n, axis, norm)


@primitive(linear="x", name="fft.hfft", batch="axis")
def hfft_p(xp: Any, x: Any, /, *, n: int, axis: int, norm: str) -> Any:
    return xp.fft.hfft(x, n=n, axis=axis, norm=norm)


@hfft_p.vjp
def hfft_vjp(xp: Any, g: Any, *, n: int, axis: int, norm: str) -> Any:
    # hfft is irfft of the conjugate under the inverse norm
    return _doubled(xp, xp.fft.rfft(g, axis=axis, norm=norm), n, axis, 2.0)


@primitive(linear="x", name="fft.ihfft", batch="axis")
def ihfft_p(xp: Any, x: Any, /, *, axis: int, norm: str) -> Any:
    return xp.fft.ihfft(x, axis=axis, norm=norm)


@ihfft_p.vjp
def ihfft_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int, norm: str) -> Any:
    n = x_meta.shape[axis]
    return xp.fft.irfft(_doubled(xp, g, n, axis, 0.5), n=n, axis=axis, norm=norm)


# ------------------------------------------------------------------ several axes


@primitive(linear="x", name="fft.fftn", batch="axis", symmetric=True)
def fftn_p(xp: Any, x: Any, /, *, axes: Axes, norm: str) -> Any:
    return xp.fft.fftn(x, axes=axes, norm=norm)


@primitive(linear="x", name="fft.ifftn", batch="axis", symmetric=True)
def ifftn_p(xp: Any, x: Any, /, *, axes: Axes, norm: str) -> Any:
    return xp.fft.ifftn(x, axes=axes, norm=norm)


@primitive(linear="x", name="fft.rfftn", batch="axis")
def rfftn_p(xp: Any, x: Any, /, *, axes: Axes, norm: str) -> Any:
    return xp.fft.rfftn(x, axes=axes, norm=norm)


@rfftn_p.vjp
def rfftn_vjp(xp: Any, g: Any, x_meta: Any, *, axes: Axes, norm: str) -> Any:
    *others, last = axes
    if others:
        g = xp.fft.fftn(g, axes=tuple(others), norm=norm)
    return _from_rfft(xp, g, x_meta.shape[last], last, norm)


@primitive(linear="x", name="fft.irfftn", batch="axis")
def irfftn_p(xp: Any, x: Any, /, *, n: int, axes: Axes, norm: str) -> Any:
    lengths = [x.shape[axis] for axis in axes]
    return xp.fft.irfftn(x, s=(*lengths[:-1], n), axes=axes, norm=norm)


@irfftn_p.vjp
def irfftn_vjp(xp: Any, g: Any, *, n: int, axes: Axes, norm: str) -> Any:
    *others, last = axes
    g = _from_irfft(xp, g, n, last, norm)
    return xp.fft.ifftn(g, axes=tuple(others), norm=norm) if others else g


# ------------------------------------------------------------------ shifts


@primitive(linear="x", name="fft.fftshift", batch="axis")
def fftshift_p(xp: Any, x: Any, /, *, axes: Axes) -> Any:
    return xp.fft.fftshift(x, axes=axes)


@primitive(linear="x", name="fft.ifftshift", batch="axis")
def ifftshift_p(xp: Any, x: Any, /, *, axes: Axes) -> Any:
    return xp.fft.ifftshift(x, axes=axes)


@fftshift_p.vjp
def fftshift_vjp(xp: Any, g: Any, *, axes: Axes) -> Any:
    return xp.fft.ifftshift(g, axes=axes)


@ifftshift_p.vjp
def ifftshift_vjp(xp: Any, g: Any, *, axes: Axes) -> Any:
    return xp.fft.fftshift(g, axes=axes)


# ------------------------------------------------------------------ the public functions


def _one_axis(operation: Operation, x: Any, n: int | None, axis: int, norm: str) -> Any:
    """Transform along one axis, whose length the transform keeps."""
    name = operation.primitive.name
    axis = _axis(x, axis, name)
    size = _length(x.shape[axis] if n is None else n, name)
    return _run(operation, x, {axis: size}, axis=axis, norm=_norm(norm, name))


def _from_half(operation: Operation, x: Any, n: int | None, axis: int, norm: str) -> Any:
    """Transform half of a Hermitian array to a real one of length ``n``."""
    name = operation.primitive.name
    axis = _axis(x, axis, name)
    size = _length(2 * (x.shape[axis] - 1) if n is None else n, name)
    return _run(operation, x, {axis: size // 2 + 1}, n=size, axis=axis, norm=_norm(norm, name))


def _several_axes(operation: Operation, x: Any, s: Any, axes: Any, norm: str) -> Any:
    """Transform along several axes, whose lengths the transform keeps."""
    name = operation.primitive.name
    chosen, sizes = _sizes(x, s, axes, name)
    return _run(operation, x, dict(zip(chosen, sizes, strict=True)), axes=chosen, norm=_norm(norm, name))


def _sizes(x: Any, s: Any, axes: Any, name: str, *, half: bool = False) -> tuple[Axes, list[int]]:
    """Return the axes of a transform of several, and its length along each.

    ``half``: the transform is from half of a Hermitian array.
    """
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


@public("fft")
def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the discrete Fourier transform along an axis.

    Parameters
    ----------
    x : array
        Of one or more axes and a floating dtype.
    n : int, optional
        The length, to which ``x`` is cropped or padded with zeros.
    axis : int
        The axis, by default the last.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _one_axis(fft_p, x, n, axis, norm)


@public("fft")
def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse discrete Fourier transform along an axis.

    Parameters
    ----------
    x : array
        Of one or more axes and a floating dtype.
    n : int, optional
        The length, to which ``x`` is cropped or padded with zeros.
    axis : int
        The axis, by default the last.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _one_axis(ifft_p, x, n, axis, norm)


@public("fft")
def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the discrete Fourier transform of real values along an axis.

    Parameters
    ----------
    x : array
        Of one or more axes and a real floating dtype.
    n : int, optional
        The length, to which ``x`` is cropped or padded with zeros.
    axis : int
        The axis, by default the last.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        The first n // 2 + 1 values along ``axis``; the others are conjugates of these.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _one_axis(rfft_p, x, n, axis, norm)


@public("fft")
def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse of ``rfft``.

    Parameters
    ----------
    x : array
        Of one or more axes, complex.
    n : int, optional
        The length of the result; by default 2 (m - 1) for m values along ``axis``.
    axis : int
        The axis, by default the last.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Real, of n values along ``axis``.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _from_half(irfft_p, x, n, axis, norm)


@public("fft")
def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the discrete Fourier transform of a Hermitian array.

    Parameters
    ----------
    x : array
        Of one or more axes, complex: the first half of the Hermitian array.
    n : int, optional
        The length of the result; by default 2 (m - 1) for m values along ``axis``.
    axis : int
        The axis, by default the last.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Real, of n values along ``axis``.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _from_half(hfft_p, x, n, axis, norm)


@public("fft")
def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse of ``hfft``.

    Parameters
    ----------
    x : array
        Of one or more axes and a real floating dtype.
    n : int, optional
        The length, to which ``x`` is cropped or padded with zeros.
    axis : int
        The axis, by default the last.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex, the first n // 2 + 1 values along ``axis``.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _one_axis(ihfft_p, x, n, axis, norm)


@public("fft")
def fftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    """Return the discrete Fourier transform along several axes.

    Parameters
    ----------
    x : array
        Of one or more axes and a floating dtype.
    s : sequence of ints, optional
        The length along each of ``axes``, to which ``x`` is cropped or padded with zeros.
    axes : sequence of ints, optional
        The axes; by default the last ones, as many as ``s`` has lengths, or all.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _several_axes(fftn_p, x, s, axes, norm)


@public("fft")
def ifftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    """Return the inverse discrete Fourier transform along several axes.

    Parameters
    ----------
    x : array
        Of one or more axes and a floating dtype.
    s : sequence of ints, optional
        The length along each of ``axes``, to which ``x`` is cropped or padded with zeros.
    axes : sequence of ints, optional
        The axes; by default the last ones, as many as ``s`` has lengths, or all.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _several_axes(ifftn_p, x, s, axes, norm)


@public("fft")
def rfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    """Return ``rfft`` along the last axis given, ``fftn`` along the others.

    Parameters
    ----------
    x : array
        Of one or more axes and a real floating dtype.
    s : sequence of ints, optional
        The length along each of ``axes``, to which ``x`` is cropped or padded with zeros.
    axes : sequence of ints, optional
        The axes; by default the last ones, as many as ``s`` has lengths, or all.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex, with n // 2 + 1 values along the last of ``axes``.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    return _several_axes(rfftn_p, x, s, axes, norm)


@public("fft")
def irfftn(
    x: Any, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Any:
    """Return the inverse of ``rfftn``.

    Parameters
    ----------
    x : array
        Of one or more axes, complex.
    s : sequence of ints, optional
        The lengths of the result along ``axes``; that of the last is by default 2 (m - 1) for m values.
    axes : sequence of ints, optional
        The axes; by default the last ones, as many as ``s`` has lengths, or all.
    norm : str
        The place of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Real.

    Raises
    ------
    ShapeError
        For a length below 1 or an axis out of range.
    OperandError
        For another ``norm``.
    """
    chosen, sizes = _sizes(x, s, axes, "fft.irfftn", half=True)
    lengths = dict(zip(chosen, [*sizes[:-1], sizes[-1] // 2 + 1], strict=True))
    return _run(irfftn_p, x, lengths, n=sizes[-1], axes=chosen, norm=_norm(norm, "fft.irfftn"))


@public("fft")
def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Move the coefficient of frequency 0 to the middle of axes.

    Parameters
    ----------
    x : array
        Of any shape and dtype.
    axes : int or tuple of ints, optional
        The axes; all by default.

    Returns
    -------
    array
        Of the shape of ``x``.

    Raises
    ------
    IndexRangeError
        For an axis out of range.
    """
    return fftshift_p(x, axes=axes_of(axes, x))


@public("fft")
def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Return the inverse of ``fftshift``.

    Parameters
    ----------
    x : array
        Of any shape and dtype.
    axes : int or tuple of ints, optional
        The axes; all by default.

    Returns
    -------
    array
        Of the shape of ``x``.

    Raises
    ------
    IndexRangeError
        For an axis out of range.
    """
    return ifftshift_p(x, axes=axes_of(axes, x))


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any) -> Tensor:
    here = selected()
    backend = here.backend
    raw = getattr(backend.xp.fft, name)(
        _length(n, name), d=d, device=here.device if device is None else backend.device(device)
    )
    if dtype is not None:
        raw = backend.xp.astype(raw, getattr(backend.xp, as_dtype(dtype).name))
    return wrap(raw, GLOBAL_TAPE)


@public("fft")
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of ``fft``.

    First 0 and the positive ones, then the negative ones.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : float
        The distance of the samples.
    dtype : dtype, optional
        By default the library's default.
    device : device, optional
        By default that of the selection.

    Returns
    -------
    Tensor
        A constant of shape (n,).

    Raises
    ------
    ShapeError
        For a length below 1.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


@public("fft")
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of ``rfft``.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : float
        The distance of the samples.
    dtype : dtype, optional
        By default the library's default.
    device : device, optional
        By default that of the selection.

    Returns
    -------
    Tensor
        A constant of shape (n // 2 + 1,).

    Raises
    ------
    ShapeError
        For a length below 1.
    """
    return _frequencies("rfftfreq", n, d, dtype, device)
