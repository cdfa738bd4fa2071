"""NumPy interpolation, convolution, integration and differences, for Tensors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import (
    Floating,
    alike,
    along,
    are_at_hand,
    axes_of,
    axis_of,
    conjugate,
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
)
from agrad.interop.table import implements


@agrad.primitive(name="numpy.interp")
def interp_p(xp: Any, x: Any, xs: Any, fs: Any, /) -> Any:
    """Return ``numpy.interp`` as one operation: NumPy's own on NumPy arrays.

    It is for arrays without a derivative. A trace may be differentiated later, by the rules of the definition.
    """
    if isinstance(xs, np.ndarray):
        return np.interp(x, xs, fs)
    return _between(*map(agrad.asarray, (x, xs, fs)), None, None).raw


def _of_argument(place: int, *given: Any) -> Callable[[Any], Tensor]:
    """Return the definition as a function of one argument."""
    return lambda v: _between(*map(agrad.asarray, (*given[:place], v, *given[place + 1 :])), None, None)


def _pulled(place: int, g: Any, *given: Any) -> Any:
    return agrad.vjp(_of_argument(place, *given), given[place])[1](g)[0]


def _pushed(place: int, t: Any, *given: Any) -> Any:
    return agrad.jvp(_of_argument(place, *given), (given[place],), (t,))[1]


def _file_rules(place: int, name: str) -> None:
    interp_p.vjp(name)(lambda g, x, xs, fs: _pulled(place, g, x, xs, fs))
    interp_p.jvp(name)(lambda t, x, xs, fs: _pushed(place, t, x, xs, fs))


for _place, _name in enumerate(("x", "xs", "fs")):
    _file_rules(_place, _name)


def _is_plain(x: Any) -> bool:
    """Return True for a NumPy array that no transform but a trace sees."""
    if x.backend != "numpy":
        return False
    while isinstance(x, Tensor) and x.node is None:
        x = x.data
    return not isinstance(x, Tensor) or x.level.is_trace


@implements("interp")
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    like = like_of(x, xp, fp, left, right, period)
    x, xp, fp = promoted(*[tensor(v, like) for v in (x, xp, fp)], least=np.float64)
    if xp.ndim != 1 or fp.shape != xp.shape or not xp.shape[0]:
        raise ValueError(f"numpy.interp: xp and fp must be nonempty and of shape (n,), got {xp.shape}, {fp.shape}")
    if period is not None:
        if not isinstance(period, Tensor) and period == 0:
            raise ValueError("numpy.interp: period must not be 0")
        period = abs(period)
        x, xp = agrad.remainder(x, period), agrad.remainder(xp, period)
        order = agrad.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = agrad.concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = agrad.concat([fp[-1:], fp, fp[:1]])
        left = right = None
    if left is right is None and _is_plain(x) and _is_plain(xp) and _is_plain(fp) and not is_complex(x):
        return tensor(interp_p(x, xp, fp))
    return _between(x, xp, fp, left, right)


def _between(x: Tensor, xp: Tensor, fp: Tensor, left: Any, right: Any) -> Tensor:
    # if reading the values is free, constants remain arrays, and a case without elements takes no
    # operations
    like, complex_x, seen = fp, is_complex(x), are_at_hand(x, xp, fp)
    values = _raw if seen else lambda v: v
    if seen:
        x, xp, fp = (v.raw if v.node is None else v for v in (x, xp, fp))
    xs, xps, n = values(x), values(xp), xp.shape[0]

    def chosen(condition: Any, new: Callable[[], Any], out: Any) -> Any:
        if seen:
            return agrad.where(np.asarray(condition), new(), out) if condition.any() else out
        return agrad.where(condition, new(), out)

    # most calls have all positions between the nodes; one test then avoids the cases at the ends
    within = seen and n > 1 and bool(((xs > xps[0]) & (xs < xps[-1])).all())
    if n == 1:
        out = agrad.broadcast_to(fp[0, ...], x.shape)
    else:
        if seen:
            i = xps[1:-1].searchsorted(xs, side="right")
        else:
            found = agrad.searchsorted(xp, flat(x), side="right") - 1
            i = agrad.reshape(agrad.clip(found, 0, n - 2), x.shape)
        x0, x1, f0, f1 = xp[i], xp[i + 1], fp[i], fp[i + 1]
        gap = x1 - x0
        if not (seen and values(gap).all()):
            gap = agrad.where(gap == 0, agrad.ones_like(gap), gap)
        slope = (f1 - f0) / gap
        inside = (x - x0) * slope + f0
        if within and np.isfinite(values(inside)).all():
            return tensor(inside)

        def beside() -> Any:
            return agrad.where((x == x0) | (f0 == f1), f0, f1 + slope * (x - x1))

        # as in NumPy next to an infinity or NaN: exact at a node, otherwise from the other node
        out = chosen(agrad.isnan(values(inside)), beside, inside)
        out = chosen(xs == xps[-1], lambda: fp[-1, ...], out)
    for outside, value, end in ((xs < xps[0], left, 0), (xs > xps[-1], right, -1)):

        def edge(value: Any = value, end: int = end) -> Any:
            return fp[end, ...] if value is None else promoted(tensor(value, like), like)[0]

        out = chosen(outside, edge, out)
    return tensor(out if complex_x else chosen(agrad.isnan(xs), lambda: x, out))


def _raw(value: Any) -> Any:
    return value.raw if isinstance(value, Tensor) else value


# ------------------------------------------------------------------ convolution


@agrad.primitive(name="numpy.convolve", linear=("a", "v"))
def convolve_p(xp: Any, a: Any, v: Any, /, *, start: int, count: int) -> Any:
    """Return a part of the full convolution of two vectors, from ``start`` on.

    Beyond its ends they are 0.
    """
    if isinstance(a, np.ndarray):
        full = np.convolve(a, v)
        if start == 0 and count == full.size:
            return full
        inside = full[max(start, 0) : max(start + count, 0)]
        if inside.size == count:
            return inside.copy()
        out = np.zeros(count, full.dtype)
        out[max(-start, 0) : max(-start, 0) + inside.size] = inside
        return out
    return _windows_product(xp, a, v, start, count)


def _windows_product(xp: Any, a: Any, v: Any, start: int, count: int) -> Any:
    """Return the same for vectors on the last axes, as products of windows of the longer one."""
    if a.shape[-1] < v.shape[-1]:
        a, v = v, a
    n, m = a.shape[-1], v.shape[-1]
    before, after = max(m - 1 - start, 0), max(start + count - n, 0)
    lead = (slice(None),) * (len(a.shape) - 1)
    padded = xp.scatter_add(a, index=(*lead, slice(before, before + n)), shape=(*a.shape[:-1], before + n + after))
    places = xp.arange_like(a, count)[:, None] + (start + before) - xp.arange_like(a, m)
    rows = xp.take(padded, xp.reshape(places, (-1,)), axis=len(a.shape) - 1)
    return xp.matmul(xp.reshape(rows, (*a.shape[:-1], count, m)), v[..., None])[..., 0]


@convolve_p.vjp("a")
def convolve_a(xp: Any, g: Any, a_meta: Any, v: Any, *, start: int) -> Any:
    return convolve_p(g, xp.flip(v, axis=0), start=v.shape[0] - 1 - start, count=a_meta.shape[0])


@convolve_p.vjp("v")
def convolve_v(xp: Any, g: Any, v_meta: Any, a: Any, *, start: int) -> Any:
    return convolve_p(g, xp.flip(a, axis=0), start=a.shape[0] - 1 - start, count=v_meta.shape[0])


@convolve_p.batch
def convolve_batch(xp: Any, a: Any, v: Any, *, start: int, count: int) -> Any:
    return _windows_product(xp, a, v, start, count)


def convolved(a: Tensor, v: Tensor) -> Tensor:
    """Return the full convolution of two vectors."""
    return convolve_p(a, v, start=0, count=a.shape[0] + v.shape[0] - 1)


def _products(name: str, a: Any, v: Any, mode: Any) -> Tensor:
    """Return a convolution, or a correlation."""
    a, v = promoted(*[flat(x) if x.ndim == 0 else x for x in tensors(a, v)])
    if any(x.ndim != 1 or not x.shape[0] for x in (a, v)):
        raise ValueError(f"numpy.{name}: a and v must be 1-D and not empty")
    n, m = a.shape[0], v.shape[0]
    whole = n + m - 1
    counts = {"full": whole, "same": max(n, m), "valid": abs(n - m) + 1}
    mode = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}.get(mode, mode)
    if mode not in counts:
        raise ValueError(f"numpy.{name}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    start = (whole - counts[mode]) // 2
    if name == "correlate":
        # NumPy correlates the longer vector with the shorter one and flips the result
        start = start if n >= m else whole - start - counts[mode]
        v = agrad.flip(conjugate(v), axis=0)
    return convolve_p(a, v, start=start, count=counts[mode])


@implements("convolve")
def _convolve(a: Any, v: Any, mode: Any = "full") -> Tensor:
    return _products("convolve", a, v, mode)


@implements("correlate")
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Tensor:
    return _products("correlate", a, v, mode)


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
            raise TypeError("numpy.gradient: spacings must be one number, or one number or array for each axis")
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise TypeError(f"numpy.gradient: there must be one spacing or {len(axes)}, got {len(steps)}")
    if edge_order not in (1, 2):
        raise ValueError(f"numpy.gradient: edge_order must be 1 or 2, got {edge_order!r}")
    out = tuple(_slope(f, i, step, edge_order) for i, step in zip(axes, steps, strict=True))
    return out[0] if len(axes) == 1 and (axis is None or not np.ndim(axis)) else out


def _slope(f: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    """Return central differences, and one-sided ones at the ends (Fornberg 1988)."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"numpy.gradient: an axis must have at least {edge_order + 1} elements, got {n}")
    if isinstance(step, (int, float, np.integer, np.floating)):
        return _even_slope(f, axis, float(step), edge_order)
    kind = f.dtype
    f, h = alike(f, step)
    if h.ndim:
        if h.shape != (n,):
            raise ValueError(f"numpy.gradient: coordinates must have shape ({n},), got {h.shape}")
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


def _even_slope(f: Tensor, axis: int, step: float, edge_order: int) -> Tensor:
    """Return the same for evenly spaced points, as differences of two elements."""
    n = f.shape[axis]

    def over(steps: Any) -> Tensor:
        # NumPy divides by the distance of the two points
        return constant((np.asarray(steps) * step).astype(f.dtype.name).reshape(on_axis(-1, axis, f.ndim)), f)

    if edge_order == 1:
        ahead, behind = np.minimum(np.arange(n) + 1, n - 1), np.maximum(np.arange(n) - 1, 0)
        return (picked(f, ahead, axis) - picked(f, behind, axis)) / over(ahead - behind)
    inside = (f[along(axis, slice(2, None))] - f[along(axis, slice(None, -2))]) / (2.0 * step)
    near = [picked(f, np.asarray([i, n - 1 - i]), axis) for i in range(3)]
    ends = (1.5 * near[0] - 2.0 * near[1] + 0.5 * near[2]) / over([-1.0, 1.0])
    first, last = ends[along(axis, slice(1))], ends[along(axis, slice(1, None))]
    return agrad.concat([first, inside, last], axis=axis)


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
        return agrad.special.sinc(x) + (x - x)  # NaN at infinities, as in NumPy
    y = x * math.pi
    # a series near 0, because the quotient and its derivatives lose digits there
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
        raise TypeError(f"numpy.i0: x must be real, got {x.dtype}")
    return agrad.special.i0(x)
