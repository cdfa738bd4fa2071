"""Fourier transforms with their rules, of arrays padded or cropped to a length.

The matrix of a discrete Fourier transform is symmetric, and cotangents pair without conjugation: a transform is its own
transpose. The transforms between real and Hermitian arrays are transposes of each other, up to weights for coefficients
that represent two.
"""

from collections.abc import Sequence
from operator import index as as_int
from typing import Any, Literal

from agrad.engine.notation import PrimitiveFunction
from agrad.errors import OperandError, ShapeError
from agrad.ops.definition import of_library, primitive, public_of_array
from agrad.ops.elementwise import conj
from agrad.ops.indexing import getitem, scatter_add
from agrad.ops.shared import ndim_of
from agrad.shapes import normalize_axis

__all__ = ["fft", "fftn", "hfft", "ifft", "ifftn", "ihfft", "irfft", "irfftn", "rfft", "rfftn"]


Norm = Literal["backward", "ortho", "forward"]
Sizes = Sequence[int] | None

INVERSE_NORM = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norm for an inverse transform that has the same factor as the forward transform with the norm of the key."""


def _doubled(xp: Any, g: Any, n: int, axis: int, factor: float) -> Any:
    """Multiply by ``factor`` the coefficients that also represent their conjugates."""
    count = g.shape[axis]
    place = xp.arange_like(g, count)
    single = place == 0 if n % 2 else (place == 0) | (place == n // 2)
    weight = (1 - factor) * xp.astype(single, xp.real(g).dtype) + factor
    return g * xp.reshape(weight, (count, *(1,) * (len(g.shape) - 1 - axis)))


# ------------------------------------------------------------------ complex to complex, one axis


fft_p = of_library("fft.fft(x, *, axis, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


ifft_p = of_library("fft.ifft(x, *, axis, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


# ------------------------------------------------------------------ real to Hermitian and back, one axis


rfft_p = of_library("fft.rfft(x, *, axis, norm)", linear="x", batch="axis", capturable=False)


def _from_rfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """Apply the transpose of ``rfft`` of length n."""
    return xp.fft.irfft(_doubled(xp, xp.conj(g), n, axis, 0.5), n=n, axis=axis, norm=INVERSE_NORM[norm])


@rfft_p.vjp
def rfft_vjp(xp: Any, g: Any, x_meta: Any, *, axis: int, norm: str) -> Any:
    return _from_rfft(xp, g, x_meta.shape[axis], axis, norm)


irfft_p = of_library("fft.irfft(x, *, n, axis, norm)", linear="x", batch="axis", capturable=False)


def _from_irfft(xp: Any, g: Any, n: int, axis: int, norm: str) -> Any:
    """Apply the transpose of ``irfft`` of length n."""
    return _doubled(xp, xp.conj(xp.fft.rfft(g, axis=axis, norm=INVERSE_NORM[norm])), n, axis, 2.0)


@irfft_p.vjp
def irfft_vjp(xp: Any, g: Any, *, n: int, axis: int, norm: str) -> Any:
    return _from_irfft(xp, g, n, axis, norm)


# ------------------------------------------------------------------ several axes


fftn_p = of_library("fft.fftn(x, *, axes, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


ifftn_p = of_library("fft.ifftn(x, *, axes, norm)", linear="x", batch="axis", capturable=False, symmetric=True)


rfftn_p = of_library("fft.rfftn(x, *, axes, norm)", linear="x", batch="axis", capturable=False)


@rfftn_p.vjp
def rfftn_vjp(xp: Any, g: Any, x_meta: Any, *, axes: tuple[int, ...], norm: str) -> Any:
    *others, last = axes
    if others:
        g = xp.fft.fftn(g, axes=tuple(others), norm=norm)
    return _from_rfft(xp, g, x_meta.shape[last], last, norm)


@primitive(linear="x", name="fft.irfftn", batch="axis", capturable=False)
def irfftn_p(xp: Any, x: Any, /, *, n: int, axes: tuple[int, ...], norm: str) -> Any:
    lengths = [x.shape[axis] for axis in axes]
    return xp.fft.irfftn(x, s=(*lengths[:-1], n), axes=axes, norm=norm)


@irfftn_p.vjp
def irfftn_vjp(xp: Any, g: Any, *, n: int, axes: tuple[int, ...], norm: str) -> Any:
    *others, last = axes
    g = _from_irfft(xp, g, n, last, norm)
    return xp.fft.ifftn(g, axes=tuple(others), norm=norm) if others else g


# ------------------------------------------------------------------ arguments


def _norm(norm: Any, name: str) -> str:
    if norm is not None and norm not in INVERSE_NORM:
        raise OperandError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return norm or "backward"


def _axis(x: Any, axis: int, name: str) -> int:
    if not ndim_of(x, name):
        raise ShapeError(f"{name}: x must have at least 1 axis, got a scalar")
    return normalize_axis(axis, len(x.shape))


def length_of(n: Any, name: str) -> int:
    n = as_int(n)
    if n < 1:
        raise ShapeError(f"{name}: n must be at least 1, got {n}")
    return n


def _resized(x: Any, lengths: dict[int, int]) -> Any:
    """Crop axes of ``x``, or pad them with zeros at their ends, to these lengths."""
    shape = tuple(x.shape)
    cropped = tuple(slice(0, min(size, lengths.get(i, size))) for i, size in enumerate(shape))
    target = tuple(lengths.get(i, size) for i, size in enumerate(shape))
    if any(s.stop < size for s, size in zip(cropped, shape, strict=True)):
        x = getitem(x, index=cropped)
    return x if tuple(x.shape) == target else scatter_add(x, index=cropped, shape=target)


def _run(operation: PrimitiveFunction, x: Any, lengths: dict[int, int], **settings: Any) -> Any:
    """Transform ``x`` with its axes of these lengths."""
    empty = [i for i, size in enumerate(x.shape) if not size and i not in lengths]
    if not empty:
        return operation(_resized(x, lengths), **settings)
    # PyTorch does not transform an empty batch: transform one batch element, and drop it
    y = operation(_resized(x, {**lengths, **dict.fromkeys(empty, 1)}), **settings)
    return getitem(y, index=tuple(slice(0, 0 if i in empty else None) for i in range(len(x.shape))))


def _one_axis(operation: PrimitiveFunction, x: Any, n: int | None, axis: int, norm: str, name: str = "") -> Any:
    """Transform along one axis, whose length the transform keeps."""
    name = name or operation.primitive.name
    axis = _axis(x, axis, name)
    size = length_of(x.shape[axis] if n is None else n, name)
    return _run(operation, x, {axis: size}, axis=axis, norm=_norm(norm, name))


def _from_half(x: Any, n: int | None, axis: int, norm: str, name: str) -> Any:
    """Transform half of a Hermitian array to a real one of length ``n``."""
    axis = _axis(x, axis, name)
    size = length_of(2 * (x.shape[axis] - 1) if n is None else n, name)
    return _run(irfft_p, x, {axis: size // 2 + 1}, n=size, axis=axis, norm=_norm(norm, name))


def _several_axes(operation: PrimitiveFunction, x: Any, s: Any, axes: Any, norm: str) -> Any:
    """Transform along several axes, whose lengths the transform keeps."""
    name = operation.primitive.name
    chosen, sizes = _sizes(x, s, axes, name)
    return _run(operation, x, dict(zip(chosen, sizes, strict=True)), axes=chosen, norm=_norm(norm, name))


def _sizes(x: Any, s: Any, axes: Any, name: str, *, half: bool = False) -> tuple[tuple[int, ...], list[int]]:
    """Return the axes of a transform of several, and its length along each.

    ``half``: the transform is from half of a Hermitian array.
    """
    ndim = ndim_of(x, name)
    if axes is None:
        chosen = tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))
    else:
        chosen = tuple(normalize_axis(axis, ndim) for axis in axes)
    if not chosen or min(chosen) < 0 or len(set(chosen)) != len(chosen):
        raise ShapeError(f"{name}: axes must be distinct axes of an array of shape {tuple(x.shape)}, got {axes}")
    given: Sequence[Any] = [None] * len(chosen) if s is None else list(s)
    if len(given) != len(chosen):
        raise ShapeError(
            f"{name}: s and axes must have the same length, got {len(given)} lengths and {len(chosen)} axes"
        )
    sizes = []
    for i, (n, axis) in enumerate(zip(given, chosen, strict=True)):
        if n is None or n == -1:
            n = 2 * (x.shape[axis] - 1) if half and i == len(chosen) - 1 else x.shape[axis]
        sizes.append(length_of(n, name))
    return chosen, sizes


@public_of_array("fft")
def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
    """Return the discrete Fourier transform along an axis.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    n : int, optional
        Length to which ``x`` is cropped or padded with zeros.
    axis : int
        Axis. By default, the last.
    norm : str
        Position of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex.

    Examples
    --------
    >>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
    >>> agrad.fft.fft(x + 0j)
    array([ 5.+0.j,  1.+0.j, -3.+0.j,  1.+0.j])
    >>> agrad.grad(lambda x: agrad.sum(agrad.abs(agrad.fft.fft(x + 0j)) ** 2))(x)
    array([ 8., 16.,  0., 16.])
    """
    return _one_axis(fft_p, x, n, axis, norm)


@public_of_array("fft")
def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
    """Return the inverse discrete Fourier transform along an axis.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    n, axis, norm : optional
        As for ``fft``.

    Returns
    -------
    array
        Complex.

    Examples
    --------
    >>> x = np.asarray([1.0, 2.0, 0.0, 2.0]) + 0j
    >>> agrad.fft.ifft(agrad.fft.fft(x))
    array([1.+0.j, 2.+0.j, 0.+0.j, 2.+0.j])
    """
    return _one_axis(ifft_p, x, n, axis, norm)


@public_of_array("fft")
def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
    """Return the discrete Fourier transform of real values along an axis.

    Parameters
    ----------
    x : array with at least one axis and a real floating-point dtype
    n, axis, norm : optional
        As for ``fft``.

    Returns
    -------
    array
        The first n // 2 + 1 values along ``axis``; the other ones are their conjugates.

    Examples
    --------
    >>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
    >>> agrad.fft.rfft(x)
    array([ 5.+0.j,  1.+0.j, -3.+0.j])
    >>> agrad.grad(lambda x: agrad.sum(agrad.abs(agrad.fft.rfft(x)) ** 2))(x)
    array([ 6., 16.,  2., 16.])
    """
    return _one_axis(rfft_p, x, n, axis, norm)


@public_of_array("fft")
def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
    """Return the inverse of ``rfft``.

    Parameters
    ----------
    x : array with at least one axis, complex
    n : int, optional
        Length of the result. By default, 2 (m - 1) for m values along ``axis``.
    axis, norm : optional
        As for ``fft``.

    Returns
    -------
    array
        Real, of n values along ``axis``.

    Examples
    --------
    >>> agrad.fft.irfft(agrad.fft.rfft(np.asarray([1.0, 2.0, 0.0])), n=3).round(6)
    array([1., 2., 0.])
    """
    return _from_half(x, n, axis, norm, "fft.irfft")


@public_of_array("fft")
def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
    """Return the discrete Fourier transform of a Hermitian array.

    Parameters
    ----------
    x : array with at least one axis, complex: the first half of the Hermitian array
    n : int, optional
        Length of the result. By default, 2 (m - 1) for m values along ``axis``.
    axis, norm : optional
        As for ``fft``.

    Returns
    -------
    array
        Real, of n values along ``axis``.

    Examples
    --------
    >>> agrad.fft.hfft(np.asarray([1.0, 2.0, 3.0]) + 0j)
    array([ 8., -2.,  0., -2.])
    """
    ndim_of(x, "fft.hfft")
    # the transform of the conjugate goes the other way
    return _from_half(conj(x), n, axis, INVERSE_NORM[_norm(norm, "fft.hfft")], "fft.hfft")


@public_of_array("fft")
def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Any:
    """Return the inverse of ``hfft``.

    Parameters
    ----------
    x : array with at least one axis and a real floating-point dtype
    n, axis, norm : optional
        As for ``fft``.

    Returns
    -------
    array
        Complex, the first n // 2 + 1 values along ``axis``.

    Examples
    --------
    >>> agrad.fft.ihfft(np.asarray([1.0, 2.0, 0.0, 2.0]))
    array([ 1.25-0.j,  0.25-0.j, -0.75-0.j])
    """
    inverse = INVERSE_NORM[_norm(norm, "fft.ihfft")]
    return conj(_one_axis(rfft_p, x, n, axis, inverse, "fft.ihfft"))


@public_of_array("fft")
def fftn(x: Any, /, *, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Any:
    """Return the discrete Fourier transform along several axes.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    s : sequence of ints, optional
        Lengths along ``axes`` to which ``x`` is cropped or padded with zeros.
    axes : sequence of ints, optional
        Axes. By default, the last ones, one for each length in ``s``, or all.
    norm : str
        Position of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Complex.

    Examples
    --------
    >>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> agrad.fft.fftn(x + 0j)
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return _several_axes(fftn_p, x, s, axes, norm)


@public_of_array("fft")
def ifftn(x: Any, /, *, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Any:
    """Return the inverse discrete Fourier transform along several axes.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    s, axes, norm : optional
        As for ``fftn``.

    Returns
    -------
    array
        Complex.

    Examples
    --------
    >>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]]) + 0j
    >>> agrad.fft.ifftn(agrad.fft.fftn(x))
    array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]])
    """
    return _several_axes(ifftn_p, x, s, axes, norm)


@public_of_array("fft")
def rfftn(x: Any, /, *, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Any:
    """Return ``rfft`` along the last axis given, ``fftn`` along the others.

    Parameters
    ----------
    x : array with at least one axis and a real floating-point dtype
    s, axes, norm : optional
        As for ``fftn``.

    Returns
    -------
    array
        Complex, with n // 2 + 1 values along the last of ``axes``.

    Examples
    --------
    >>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> agrad.fft.rfftn(x)
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return _several_axes(rfftn_p, x, s, axes, norm)


@public_of_array("fft")
def irfftn(x: Any, /, *, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Any:
    """Return the inverse of ``rfftn``.

    Parameters
    ----------
    x : array with at least one axis, complex
    s : sequence of ints, optional
        Lengths of the result along ``axes``. By default, the last one is 2 (m - 1) for m values.
    axes : sequence of ints, optional
        Axes. By default, the last ones, one for each length in ``s``, or all.
    norm : str
        Position of the factor 1/n: ``"backward"``, ``"forward"``, or ``"ortho"`` for its root in both directions.

    Returns
    -------
    array
        Real.

    Examples
    --------
    >>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> agrad.fft.irfftn(agrad.fft.rfftn(x))
    array([[1., 2.],
           [3., 4.]])
    """
    chosen, sizes = _sizes(x, s, axes, "fft.irfftn", half=True)
    lengths = dict(zip(chosen, [*sizes[:-1], sizes[-1] // 2 + 1], strict=True))
    return _run(irfftn_p, x, lengths, n=sizes[-1], axes=chosen, norm=_norm(norm, "fft.irfftn"))
