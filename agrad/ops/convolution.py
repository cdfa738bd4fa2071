"""The convolution primitive, whose derivatives are convolutions too."""

import itertools
from typing import Any

from agrad.ops.definition import primitive
from agrad.registry import namespace
from agrad.shapes import size

Pads = tuple[tuple[int, int], ...]
Steps = tuple[int, ...]


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
def convolution(
    xp: Any, x: Any, w: Any, /, *, strides: Steps, padding: Pads, x_dilation: Steps, w_dilation: Steps, groups: int
) -> Any:
    """Correlate ``x`` with kernels ``w`` along the axes after the first two.

    The shapes are (n, c, ...) and (o, c // groups, ...); the result has shape (n, o, ...). ``x_dilation - 1`` zeros are
    put between the elements of ``x``, then zeros around it; a negative padding cuts.
    """
    return xp.convolution(
        x, w, strides=strides, padding=padding, x_dilation=x_dilation, w_dilation=w_dilation, groups=groups
    )


def _spaced(xp: Any, x: Any, axis: int, low: int, high: int, step: int) -> Any:
    """Return ``x`` with ``step - 1`` zeros between elements, padded or cut."""
    lead = (slice(None),) * axis
    shape = (*x.shape[:axis], max((x.shape[axis] - 1) * step + 1, 0), *x.shape[axis + 1 :])
    x = xp.scatter_add(x, index=(*lead, slice(0, None, step)), shape=shape)
    x = x[(*lead, slice(max(-low, 0), shape[axis] - max(-high, 0)))]
    first, n = max(low, 0), x.shape[axis]
    whole = (*shape[:axis], n + first + max(high, 0), *shape[axis + 1 :])
    return xp.scatter_add(x, index=(*lead, slice(first, first + n)), shape=whole)


def _by_windows(
    xp: Any, x: Any, w: Any, /, *, strides: Steps, padding: Pads, x_dilation: Steps, w_dilation: Steps, groups: int
) -> Any:
    """Return the sum over kernel positions of products with the elements there."""
    rows, own, *kernel = w.shape
    for axis, ((low, high), step) in enumerate(zip(padding, x_dilation, strict=True), 2):
        x = _spaced(xp, x, axis, low, high, step)
    spans = zip(x.shape[2:], kernel, w_dilation, strides, strict=True)
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in spans]
    total = None
    for place in itertools.product(*map(range, kernel)):
        starts = zip(place, w_dilation, strides, out, strict=True)
        part = x[(slice(None), slice(None), *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, s, n in starts))]
        part = xp.reshape(part, (x.shape[0], groups, own, size(out)))
        one = xp.matmul(xp.reshape(w[(slice(None), slice(None), *place)], (groups, rows // groups, own)), part)
        total = one if total is None else total + one
    return xp.reshape(total, (x.shape[0], rows, *out))


convolution.primitive.definition = _by_windows


@convolution.vjp("x")
def convolution_x(
    xp: Any,
    g: Any,
    w: Any,
    x_meta: Any,
    *,
    strides: Steps,
    padding: Pads,
    x_dilation: Steps,
    w_dilation: Steps,
    groups: int,
) -> Any:
    axes = tuple(range(2, len(w.shape)))
    sizes = zip(_spans(x_meta.shape, x_dilation), _spans(w.shape, w_dilation), _spans(g.shape, strides), strict=True)
    pads = [(k - 1 - low, n - out + low) for (n, k, out), (low, _) in zip(sizes, padding, strict=True)]
    return xp.convolution(
        g,
        xp.flip(_exchanged(xp, w, groups), axis=axes),
        strides=x_dilation,
        padding=tuple(pads),
        x_dilation=strides,
        w_dilation=w_dilation,
        groups=groups,
    )


@convolution.vjp("w")
def convolution_w(
    xp: Any,
    g: Any,
    x: Any,
    w_meta: Any,
    *,
    strides: Steps,
    padding: Pads,
    x_dilation: Steps,
    w_dilation: Steps,
    groups: int,
) -> Any:
    sizes = zip(_spans(x.shape, x_dilation), _spans(w_meta.shape, w_dilation), _spans(g.shape, strides), strict=True)
    pads = [(low, k - 1 + out - n - low) for (n, k, out), (low, _) in zip(sizes, padding, strict=True)]
    y = xp.convolution(
        _swapped(xp, x, groups),
        _swapped(xp, g),
        strides=w_dilation,
        padding=tuple(pads),
        x_dilation=x_dilation,
        w_dilation=strides,
        groups=groups,
    )
    return _swapped(xp, y)


@convolution.batch
def convolution_batch(
    xp: Any,
    x: Any,
    w: Any,
    x_mapped: bool,
    w_mapped: bool,
    batch_size: int,
    *,
    strides: Steps,
    padding: Pads,
    x_dilation: Steps,
    w_dilation: Steps,
    groups: int,
) -> Any:
    how = {"strides": strides, "padding": padding, "x_dilation": x_dilation, "w_dilation": w_dilation}
    if not w_mapped:
        _, n, *rest = x.shape
        y = xp.convolution(xp.reshape(x, (batch_size * n, *rest)), w, groups=groups, **how)
        return xp.reshape(y, (batch_size, n, *y.shape[1:]))
    _, rows, c, *rest = w.shape
    if x_mapped:
        _, n, channels, *size = x.shape
        x = xp.reshape(xp.moveaxis(x, 0, 1), (n, batch_size * channels, *size))
        w = xp.reshape(w, (batch_size * rows, c, *rest))
        y = xp.convolution(x, w, groups=batch_size * groups, **how)
        return xp.moveaxis(xp.reshape(y, (n, batch_size, rows, *y.shape[2:])), 1, 0)
    each = rows // groups
    w = xp.moveaxis(xp.reshape(w, (batch_size, groups, each, c, *rest)), 0, 1)
    y = xp.convolution(x, xp.reshape(w, (groups * batch_size * each, c, *rest)), groups=groups, **how)
    y = xp.moveaxis(xp.reshape(y, (y.shape[0], groups, batch_size, each, *y.shape[2:])), 2, 0)
    return xp.reshape(y, (batch_size, y.shape[1], rows, *y.shape[4:]))


namespace.convolution = convolution
