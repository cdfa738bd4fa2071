"""NumPy's interpolation, convolution, integration and differences, on Tensors."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Floating,
    alike,
    along,
    axes_of,
    axis_of,
    constant,
    flat,
    inexact,
    is_complex,
    like_of,
    on_axis,
    picked,
    promoted,
    tensor,
    tensors,
    values_of,
    zeros,
)
from agrad.interop.table import implements


@implements("interp")
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    like = like_of(x, xp, fp, left, right, period)
    x, xp, fp = promoted(*[tensor(v, like) for v in (x, xp, fp)], least=np.float64)
    if xp.ndim != 1 or fp.shape != xp.shape or not xp.size:
        raise ValueError("numpy.interp takes data points xp and fp of one shape (n,), n at least 1")
    if period is not None:
        if not isinstance(period, Tensor) and period == 0:
            raise ValueError("numpy.interp takes a period that is not 0")
        period = abs(period)
        x, xp = agrad.remainder(x, period), agrad.remainder(xp, period)
        order = agrad.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = agrad.concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = agrad.concat([fp[-1:], fp, fp[:1]])
        left = right = None
    n = xp.shape[0]
    below, above = x < xp[0], x > xp[-1]
    if n == 1:
        out = agrad.broadcast_to(fp[0], x.shape)
    else:
        found = agrad.searchsorted(xp, flat(x), side="right") - 1
        i = agrad.reshape(agrad.clip(found, 0, n - 2), x.shape)
        x0, x1, f0, f1 = xp[i], xp[i + 1], fp[i], fp[i + 1]
        gap = agrad.where(x1 == x0, agrad.ones_like(x0), x1 - x0)
        slope = (f1 - f0) / gap
        inside = f0 + slope * (x - x0)
        # as NumPy beside an infinity or a nan: exact at a node, else from the other node
        beside = agrad.where((x == x0) | (f0 == f1), f0, f1 + slope * (x - x1))
        inside = agrad.where(agrad.isnan(inside), beside, inside)
        out = agrad.where(x == xp[-1], fp[-1], inside)
    for outside, value, end in ((below, left, fp[0]), (above, right, fp[-1])):
        edge = end if value is None else promoted(tensor(value, fp), fp)[0]
        out = agrad.where(outside, agrad.broadcast_to(edge, x.shape), out)
    return agrad.where(agrad.isnan(x), x, out) if not is_complex(x) else out


# ------------------------------------------------------------------ convolution


def convolved(a: Tensor, v: Tensor) -> Tensor:
    """Return the full convolution of two vectors, as a product of windows."""
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    n, m = a.shape[0], v.shape[0]
    padding = zeros((m - 1,), a)
    windows = np.arange(n + m - 1)[:, None] + np.arange(m)[None, :]
    rows = picked(agrad.concat([padding, a, padding]) if m > 1 else a, windows)
    return agrad.matmul(rows, agrad.flip(v, axis=0))


def _vectors(name: str, a: Any, v: Any) -> list[Tensor]:
    out = promoted(*[flat(x) if x.ndim == 0 else x for x in tensors(a, v)])
    if any(x.ndim != 1 or not x.shape[0] for x in out):
        raise ValueError(f"numpy.{name} takes two arrays of one dimension that are not empty")
    return out


def _cut(full: Tensor, n: int, m: int, mode: Any, name: str) -> Tensor:
    """Return the part of a full convolution that a mode keeps, for ``n >= m``."""
    counts = {"full": n + m - 1, "same": n, "valid": n - m + 1}
    mode = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}.get(mode, mode)
    if mode not in counts:
        raise ValueError(f"numpy.{name}: the mode is 'full', 'same' or 'valid', not {mode!r}")
    start = (full.shape[0] - counts[mode]) // 2
    return full[start : start + counts[mode]]


@implements("convolve")
def _convolve(a: Any, v: Any, mode: Any = "full") -> Tensor:
    a, v = _vectors("convolve", a, v)
    n, m = sorted((a.shape[0], v.shape[0]), reverse=True)
    return _cut(convolved(a, v), n, m, mode, "convolve")


@implements("correlate")
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Tensor:
    a, v = _vectors("correlate", a, v)
    v = agrad.conj(v) if is_complex(v) else v
    full = convolved(a, agrad.flip(v, axis=0))
    n, m = a.shape[0], v.shape[0]
    if n >= m:
        return _cut(full, n, m, mode, "correlate")
    # NumPy correlates the longer vector with the shorter one and flips the result
    return agrad.flip(_cut(agrad.flip(full, axis=0), m, n, mode, "correlate"), axis=0)


# ------------------------------------------------------------------ integrals and differences


@implements("trapezoid", "trapz")
def _trapezoid(y: Floating, x: Tensor | None = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    axis = axis_of(axis, y.ndim)
    if x is not None:
        x, y = promoted(inexact(x), y)
        dx = agrad.diff(x, axis=axis if x.ndim > 1 else 0)
        if x.ndim == 1:
            dx = agrad.reshape(dx, on_axis(-1, axis, y.ndim))
    ends = y[along(axis, slice(1, None))] + y[along(axis, slice(None, -1))]
    return agrad.sum(dx * ends / 2.0, axis=axis)


@implements("gradient")
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = inexact(tensor(f, like_of(varargs)))
    axes = axes_of(axis, f.ndim) if axis is None else tuple(axis_of(i, f.ndim) for i in np.atleast_1d(axis))
    steps: list[Any] = list(varargs) or [1.0]
    if len(steps) == 1 and (len(axes) > 1 or not np.ndim(steps[0])):
        if np.ndim(steps[0]):
            raise TypeError("numpy.gradient takes one spacing for all axes, or one an axis")
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise TypeError(f"numpy.gradient: {len(steps)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ValueError("numpy.gradient: edge_order is 1 or 2")
    out = tuple(_slope(f, i, step, edge_order) for i, step in zip(axes, steps, strict=True))
    return out[0] if len(axes) == 1 and (axis is None or not np.ndim(axis)) else out


def _slope(f: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    """Return central differences, and one-sided ones at the ends (Fornberg 1988)."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"numpy.gradient: an axis of {n} elements is too short; it needs {edge_order + 1}")
    kind = f.dtype
    f, h = alike(f, step)
    if h.ndim:
        if h.shape != (n,):
            raise ValueError(f"numpy.gradient: {h.shape} coordinates for an axis of length {n}")
        h = agrad.reshape(agrad.diff(h), on_axis(-1, axis, f.ndim))
    else:
        h = agrad.broadcast_to(h, on_axis(n - 1, axis, f.ndim))

    def at(x: Tensor, start: int, stop: int | None) -> Tensor:
        return x[along(axis, slice(start, stop))]

    parts = []
    slopes = agrad.diff(f, axis=axis) / h
    if n > 2:
        a, b = at(h, 0, -1), at(h, 1, None)
        parts = [(at(slopes, 0, -1) * b + at(slopes, 1, None) * a) / (a + b)]
    if edge_order == 1:
        first, last = at(slopes, 0, 1), at(slopes, -1, None)
    else:
        a, b = at(h, 0, 1), at(h, 1, 2)
        first = at(slopes, 0, 1) - (at(slopes, 1, 2) - at(slopes, 0, 1)) * a / (a + b)
        a, b = at(h, -2, -1), at(h, -1, None)
        last = at(slopes, -1, None) + (at(slopes, -1, None) - at(slopes, -2, -1)) * b / (a + b)
    return agrad.astype(agrad.concat([first, *parts, last], axis=axis), kind)


@implements("unwrap")
def _unwrap(p: Tensor, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Tensor:
    x = p
    host = values_of(x)
    discont = None if discont is None else np.asarray(discont)
    out = np.unwrap(host, discont, axis, period=np.asarray(period)[()])
    # the shift is piecewise constant
    shift = out - host
    x = x if np.dtype(x.dtype.name) == shift.dtype else inexact(x) if shift.dtype.kind == "f" else x
    return x + constant(shift.astype(x.dtype.name), x)


# ------------------------------------------------------------------ special functions


@implements("sinc")
def _sinc(x: Floating) -> Tensor:
    if not is_complex(x):
        return agrad.special.sinc(x) + (x - x)  # nan at infinities, as NumPy's
    y = x * math.pi
    # a series near 0, where the quotient and its derivatives lose digits
    near = agrad.abs(y) < 0.5
    square = agrad.where(near, y, agrad.zeros_like(y)) ** 2
    series = agrad.ones_like(y)
    for k in range(9, 0, -1):
        series = 1.0 - square * series / (2.0 * k * (2 * k + 1))
    far = agrad.where(near, agrad.ones_like(y), y)
    return agrad.where(near, series, agrad.sin(far) / far)


@implements("i0")
def _i0(x: Floating) -> Tensor:
    if is_complex(x):
        raise TypeError("numpy.i0 takes no complex numbers")
    return agrad.special.i0(x)
