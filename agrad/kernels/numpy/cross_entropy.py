"""Softmax cross entropy on NumPy: losses, derivative, and both together.

With ``e = exp(x - max)`` and their sum by rows, the derivative is ``g * (e / sum - onehot)``. Computing losses and
derivative together needs exp only once. Short rows are transposed first: the inner loop of NumPy then runs over the
long axis.
"""

import functools
from typing import Any

import numpy as np

from agrad.backends import load
from agrad.kernels.numpy.blocks import BITS
from agrad.kernels.numpy.fused import SHORT
from agrad.registry import PRIMITIVES, kernel

Raw = Any


@functools.lru_cache(maxsize=32)
def _unsigned(dtype: np.dtype) -> Any:
    """Return the unsigned dtype of an integer dtype's width and byte order, or None."""
    return np.dtype(f"{dtype.byteorder}u{dtype.itemsize}") if dtype.kind in "iu" else None


def _is_labelled(x: Raw, labels: Raw) -> bool:
    if x.dtype not in BITS or x.ndim != 2 or not x.size or labels.shape != x.shape[:1]:
        return False
    kind = _unsigned(labels.dtype)
    # a negative label, read as unsigned, is large
    return kind is not None and bool(np.maximum.reduce(labels.view(kind)) < x.shape[1])


def layout(n: int, classes: int) -> tuple[tuple[int, int], np.ndarray, int]:
    """Return the shape of the exponentials, and the labels' offsets and step in it."""
    if classes < SHORT:
        return (classes, n), np.arange(n), n
    return (n, classes), np.arange(n) * classes, 1


def _losses(
    x: Raw, labels: Raw, e: Raw, top: Raw, total: Raw, rest: Raw, loss: Raw | None, lse: Raw | None, places: Raw | None
) -> None:
    """Write exp(x - max) into ``e``, and the losses and logsumexp(x) if requested.

    The maxima, the sums and their logarithms by rows are written into ``top`` and ``total``, which may be None, and
    ``rest``. places: the indices of the labels in ``e``, if they are known.
    """
    if x.shape[1] < SHORT:
        axis, source = 0, e
        e[...] = x.T
    else:
        axis, source = 1, x
    top = np.maximum.reduce(source, axis=axis, out=top)
    np.subtract(source, top if axis == 0 else top[:, None], out=e)
    if loss is not None and places is None:
        np.subtract(x[np.arange(x.shape[0]), labels], top, out=loss)
    elif loss is not None:
        e.reshape(-1).take(places, out=loss, mode="clip")
    np.exp(e, out=e)
    np.log(np.add.reduce(e, axis=axis, out=total), out=rest)
    if loss is not None:
        np.subtract(rest, loss, out=loss)
    if lse is not None:
        np.add(rest, top, out=lse)


@kernel("numpy", "softmax_cross_entropy", "forward", gain=8.4, when=_is_labelled)
def softmax_cross_entropy(x: Raw, labels: Raw) -> tuple[Raw, Raw]:
    n, classes = x.shape
    e = np.empty((classes, n) if classes < SHORT else (n, classes), x.dtype)
    loss, lse = np.empty(n, x.dtype), np.empty(n, x.dtype)
    _losses(x, labels, e, None, None, lse, loss, lse, None)
    return loss, lse


def _is_of_loss(g_loss: Raw, g_lse: Raw, x: Raw, labels: Raw, lse: Raw) -> bool:
    alike = g_lse is None and g_loss is not None and g_loss.dtype == x.dtype and g_loss.shape == labels.shape
    return alike and _is_labelled(x, labels)


@kernel("numpy", "softmax_cross_entropy", "vjp:x", gain=2.9, when=_is_of_loss)
def softmax_cross_entropy_vjp(g_loss: Raw, g_lse: None, x: Raw, labels: Raw, lse: Raw) -> Raw:
    n, classes = x.shape
    if classes < SHORT:
        e = np.array(x.T, order="C")
        np.exp(np.subtract(e, lse, out=e), out=e)
        np.divide(e, np.add.reduce(e, axis=0), out=e)
        e[labels, np.arange(n)] -= 1
        return np.multiply(e, g_loss, out=e).T
    out = np.subtract(x, lse[:, None])
    np.exp(out, out=out)
    np.divide(out, np.add.reduce(out, axis=1, keepdims=True), out=out)
    out[np.arange(n), labels] -= 1
    return np.multiply(out, g_loss[:, None], out=out)


# ------------------------------------------------------------------ both in one


def _may_be_joined(g_loss: Any, g_lse: Any, x: Any, labels: Any, lse: Any) -> bool:
    """Return True for variables of shapes and dtypes that ``derivative`` supports."""
    if g_lse is not None or g_loss is None or g_loss.dtype != x.dtype or not x.size:
        return False
    return bool(g_loss.shape == labels.shape == x.shape[:1] and np.dtype(labels.dtype).kind in "iu")


@kernel("numpy", "softmax_cross_entropy", "forward+vjp:x", gain=2.1, when=_may_be_joined)
def with_derivative(x: Raw, labels: Raw, g_loss: Raw) -> tuple[Raw, Raw, Raw]:
    """Return loss, logsumexp(x) and the derivative.

    Compiled programs call the functions below, with their own memory.
    """
    n, classes = x.shape
    shape, starts, step = layout(n, classes)
    e, loss, lse = np.empty(shape, x.dtype), np.empty(n, x.dtype), np.empty(n, x.dtype)
    if n == 1:
        derivative_of_one(x, labels, g_loss, e, loss, lse)
    else:
        top, total, factor = np.empty((3, n), x.dtype)
        derivative(x, labels, g_loss, e, top, total, factor, np.empty(n, np.int64), starts, step, loss, lse)
    return loss, lse, e.T if classes < SHORT else e


def derivative(
    x: Raw, labels: Raw, g: Raw, e: Raw, top: Raw, total: Raw, factor: Raw, places: Raw, starts: Raw, step: int,
    loss: Raw | None, lse: Raw | None,
) -> None:  # fmt: skip
    """Write loss and logsumexp(x), if requested, and the derivative into ``e``.

    top, total, factor: (n,) of x's dtype, and places: (n,) int64, are overwritten. Raises ``IndexRangeError`` for
    labels that are not class indices.
    """
    if np.maximum.reduce(labels.view(_unsigned(labels.dtype))) >= x.shape[1]:
        _refuse(x, labels)
    np.multiply(labels, step, out=places, dtype=places.dtype, casting="unsafe")
    np.add(places, starts, out=places)
    _losses(x, labels, e, top, total, factor, loss, lse, places)
    np.divide(g, total, out=factor)
    np.multiply(e, factor if x.shape[1] < SHORT else factor[:, None], out=e)
    np.subtract.at(e.reshape(-1), places, g)


def derivative_of_one(x: Raw, labels: Raw, g: Raw, e: Raw, loss: Raw | None, lse: Raw | None) -> None:
    """Compute ``derivative`` of a single row, with half as many calls."""
    label, flat = labels[0], e.reshape(-1)
    if not 0 <= label < flat.size:
        _refuse(x, labels)
    top = np.maximum.reduce(x[0])
    np.subtract(x[0], top, out=flat)
    right = flat[label]
    np.exp(flat, out=flat)
    total = np.add.reduce(flat)
    log = np.log(total)
    if loss is not None:
        loss[0] = log - right
    if lse is not None:
        lse[0] = log + top
    np.multiply(flat, g[0] / total, out=flat)
    flat[label] -= g[0]


def _refuse(x: Raw, labels: Raw) -> None:
    """Raise the same error as the generic rule."""
    PRIMITIVES["softmax_cross_entropy"].forward(load("numpy").xp, x, labels)
