"""The convolution primitive, whose derivatives are convolutions too."""

from typing import Any

from agrad.backends.base import Steps, Windows
from agrad.backends.base import convolution as by_windows
from agrad.ops.definition import primitive
from agrad.registry import namespace


def _exchanged(xp: Any, w: Any, groups: int) -> Any:
    """Return kernels of shape (groups * o, c, ...) as (groups * c, o, ...)."""
    rows, c, *rest = w.shape
    w = xp.moveaxis(xp.reshape(w, (groups, rows // groups, c, *rest)), 1, 2)
    return xp.reshape(w, (groups * c, rows // groups, *rest))


def _swapped(xp: Any, x: Any, groups: int = 1) -> Any:
    """Return an array of shape (n, groups * c, ...) as (c, groups * n, ...)."""
    n, channels, *rest = x.shape
    x = xp.moveaxis(xp.reshape(x, (n, groups, channels // groups, *rest)), 2, 0)
    return xp.reshape(xp.moveaxis(x, 1, 2), (channels // groups, groups * n, *rest))


def _spans(shape: Any, dilation: Steps) -> list[int]:
    """Return the lengths of the spatial axes with zeros between the elements."""
    return [(n - 1) * d + 1 for n, d in zip(shape[2:], dilation, strict=True)]


@primitive(linear=("x", "w"))
def convolution(xp: Any, x: Any, w: Any, /, *, how: Windows) -> Any:
    """Correlate ``x`` with kernels ``w`` along the axes after the first two.

    The shapes are (n, c, ...) and (o, c // groups, ...); the result has shape (n, o, ...).
    """
    return xp.convolution(x, w, how=how)


convolution.primitive.definition = by_windows


@convolution.vjp("x")
def convolution_x(xp: Any, g: Any, w: Any, x_meta: Any, *, how: Windows) -> Any:
    sizes = [_spans(x_meta.shape, how.x_dilation), _spans(w.shape, how.w_dilation), _spans(g.shape, how.strides)]
    pads = [(k - 1 - low, n - out + low) for n, k, out, (low, _) in zip(*sizes, how.padding, strict=True)]
    w = xp.flip(_exchanged(xp, w, how.groups), axis=tuple(range(2, len(w.shape))))
    back = how._replace(strides=how.x_dilation, padding=tuple(pads), x_dilation=how.strides)
    return xp.convolution(g, w, how=back)


@convolution.vjp("w")
def convolution_w(xp: Any, g: Any, x: Any, w_meta: Any, *, how: Windows) -> Any:
    sizes = [_spans(x.shape, how.x_dilation), _spans(w_meta.shape, how.w_dilation), _spans(g.shape, how.strides)]
    pads = [(low, k - 1 + out - n - low) for n, k, out, (low, _) in zip(*sizes, how.padding, strict=True)]
    back = how._replace(strides=how.w_dilation, padding=tuple(pads), w_dilation=how.strides)
    return _swapped(xp, xp.convolution(_swapped(xp, x, how.groups), _swapped(xp, g), how=back))


@convolution.batch
def convolution_batch(xp: Any, x: Any, w: Any, x_mapped: bool, w_mapped: bool, batch_size: int, *, how: Windows) -> Any:
    groups = how.groups
    if not w_mapped:
        _, n, *rest = x.shape
        y = xp.convolution(xp.reshape(x, (batch_size * n, *rest)), w, how=how)
        return xp.reshape(y, (batch_size, n, *y.shape[1:]))
    _, rows, c, *rest = w.shape
    if x_mapped:
        _, n, channels, *size = x.shape
        x = xp.reshape(xp.moveaxis(x, 0, 1), (n, batch_size * channels, *size))
        w = xp.reshape(w, (batch_size * rows, c, *rest))
        y = xp.convolution(x, w, how=how._replace(groups=batch_size * groups))
        return xp.moveaxis(xp.reshape(y, (n, batch_size, rows, *y.shape[2:])), 1, 0)
    each = rows // groups
    w = xp.moveaxis(xp.reshape(w, (batch_size, groups, each, c, *rest)), 0, 1)
    y = xp.convolution(x, xp.reshape(w, (groups * batch_size * each, c, *rest)), how=how)
    y = xp.moveaxis(xp.reshape(y, (y.shape[0], groups, batch_size, each, *y.shape[2:])), 2, 0)
    return xp.reshape(y, (batch_size, y.shape[1], rows, *y.shape[4:]))


namespace.convolution = convolution
