"""The linear filters of ``scipy.signal``."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import along, axis_of, constant, is_concrete, on_axis, resized, values_of, zeros
from agrad.scipy.shared import arrays, function, unsupported
from agrad.scipy.signal.sliding import convolved, extended

__all__ = ["filtfilt", "lfilter", "lfilter_zi", "sosfilt", "sosfilt_zi", "sosfiltfilt"]


def _recursion(b: Tensor, a: Tensor, x: Tensor, fed: Tensor) -> tuple[Tensor, Tensor]:
    """Return the filtered rows, and the last states, in the transposed direct form II.

    ``fed`` is added to the output before it is fed back. Up to order 2 there are about ``2 * sqrt(n)`` steps: pieces of
    the rows start from the state 0, all at once; then, piece by piece, the answer to the state before is added.
    """
    (m, n), order = x.shape, a.shape[0] - 1
    # of higher orders with poles close together, powers of the shift lose too many digits: one piece
    length = math.isqrt(n - 1) + 1 if order <= 2 else n
    count = -(-n // length)
    front = ((0, 0), (count * length - n, 0))
    # with z for the state: y = z[0] + direct, and the next z is z @ shift + inputs
    direct = b[0] * x + fed
    inputs = x[..., None] * b[1:] - direct[..., None] * a[1:]
    shift = agrad.concat([-a[None, 1:], constant(np.eye(order - 1, order, dtype=x.dtype.name), x)])
    pieces = agrad.reshape(agrad.pad(inputs, (*front, (0, 0))), (m * count, length, order))
    # rows without input that start from the unit states
    pieces = agrad.concat([pieces, zeros((order, length, order), x)])
    start = agrad.concat([zeros((m * count, order), x), constant(np.eye(order, dtype=x.dtype.name), x)])
    ends, own = agrad.scan(
        lambda z, value: (agrad.matmul(z, shift) + value, z[:, 0]), start, agrad.moveaxis(pieces, 1, 0)
    )
    power, answers = ends[m * count :], agrad.matrix_transpose(own[:, m * count :])
    last, states = agrad.scan(
        lambda z, end: (agrad.matmul(z, power) + end, z),
        zeros((m, order), x),
        agrad.moveaxis(agrad.reshape(ends[: m * count], (m, count, order)), 1, 0),
    )
    own = agrad.reshape(agrad.matrix_transpose(own[:, : m * count]), (m, count, length))
    y = agrad.reshape(own + agrad.matmul(agrad.moveaxis(states, 0, 1), answers), (m, count * length))
    return y[:, count * length - n :] + direct, last


def _filtered(b: Tensor, a: Tensor, x: Tensor, zi: Tensor | None) -> tuple[Tensor, Tensor]:
    """Filter the last axis, and return the result and the last state."""
    b, a = b / a[0], a / a[0]
    n, order = x.shape[-1], max(b.shape[0], a.shape[0]) - 1
    state = zeros((*x.shape[:-1], order), x) if zi is None else zi
    # the initial values of a state are added to the output one by one, with the inputs
    fed = agrad.pad(state, [*[(0, 0)] * (x.ndim - 1), (0, n)])
    b = agrad.pad(b, (0, order + 1 - b.shape[0]))
    if a.shape[0] == 1 or not x.size:
        fed = fed + convolved(x, b) if x.size else fed
        return fed[..., :n], fed[..., n:]
    a = agrad.pad(a, (0, order + 1 - a.shape[0]))
    y, last = _recursion(b, a, agrad.reshape(x, (-1, n)), agrad.reshape(fed[..., :n], (-1, n)))
    return agrad.reshape(y, x.shape), agrad.reshape(last, state.shape) + fed[..., n:]


def _state(name: str, zi: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an initial state broadcast to its shape."""
    if zi.ndim != len(shape) or any(n not in (1, k) for n, k in zip(zi.shape, shape, strict=True)):
        raise ShapeError(f"{name}: zi must have shape {shape}, got {zi.shape}")
    return agrad.broadcast_to(zi, shape)


def _coefficients(name: str, *values: Tensor) -> list[Tensor]:
    """Return numerator and denominator as vectors with elements."""
    out = [agrad.reshape(v, (1,)) if v.ndim == 0 else v for v in values]
    if any(v.ndim != 1 or not v.size for v in out):
        raise ShapeError(f"{name}: b and a must be 1-D and not empty, got shapes {[v.shape for v in out]}")
    return out


def _signal(name: str, x: Tensor, axis: Any) -> int:
    """Return the axis of a signal."""
    if not x.ndim:
        raise ShapeError(f"{name}: x must have at least one axis")
    return axis_of(axis, x.ndim)


@function
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter a signal along an axis by a rational transfer function.

    Like ``scipy.signal.lfilter``: the coefficients ``b`` and ``a`` are 1-D, and the result has the shape of ``x``.
    ``zi`` broadcasts along the axes other than ``axis``.

    A filter without feedback and with more than 64 coefficients uses the Fourier transform. A filter with feedback
    requires one step for each value, or up to order 2 twice the square root of the length. ``sosfilt`` is faster for
    long signals, as its sections have order 2.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.asarray([1.0, 0.0, 0.0, 0.0])
    >>> signal.lfilter([1.0], [1.0, -0.5], x)
    array([1.   , 0.5  , 0.25 , 0.125])
    >>> def energy(pole):
    ...     return agrad.sum(signal.lfilter([1.0], agrad.stack([agrad.ones_like(pole), -pole]), x) ** 2)
    >>> round(float(agrad.grad(energy)(0.5)), 4)
    1.6875
    """
    b, a, x, *rest = arrays(b, a, x, *([] if zi is None else [zi]))
    b, a = _coefficients("lfilter", b, a)
    axis = _signal("lfilter", x, axis)
    state = None
    if rest:
        state = _state("lfilter", rest[0], resized(x, axis, max(b.shape[0], a.shape[0]) - 1))
        state = agrad.moveaxis(state, axis, -1)
    y, last = _filtered(b, a, agrad.moveaxis(x, axis, -1), state)
    y = agrad.moveaxis(y, -1, axis)
    return y if state is None else (y, agrad.moveaxis(last, -1, axis))


@function
def lfilter_zi(b: Any, a: Any) -> Tensor:
    """Return the state of ``lfilter`` after a long signal of ones.

    Like ``scipy.signal.lfilter_zi``: ``b`` and ``a`` are 1-D, and the length of the result is the order of the filter.
    The state is not finite if the sum of the denominator is 0.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.lfilter_zi(np.asarray([1.0]), np.asarray([1.0, -0.5]))
    array([1.])
    """
    b, a = _coefficients("lfilter_zi", *arrays(b, a))
    b, a = b / a[0], a / a[0]
    n = max(b.shape[0], a.shape[0])
    b, a = agrad.pad(b, (0, n - b.shape[0])), agrad.pad(a, (0, n - a.shape[0]))
    # in the steady state the output is the gain, and each state is what the later coefficients add
    return agrad.flip(agrad.cumulative_sum(agrad.flip((b - a * (agrad.sum(b) / agrad.sum(a)))[1:])))


def _sections(name: str, sos: Tensor) -> Tensor:
    if sos.ndim != 2 or sos.shape[1] != 6 or not sos.shape[0]:
        raise ShapeError(f"{name}: sos must have shape (n, 6), got {sos.shape}")
    return sos


@function
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter a signal along an axis by second-order sections.

    Like ``scipy.signal.sosfilt``: ``sos`` has shape (n, 6), and the result the shape of ``x``. Each row is divided by
    its fourth element, which must be 1 in SciPy.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> sections, x = np.asarray([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]]), np.asarray([1.0, 0.0, 0.0, 0.0])
    >>> signal.sosfilt(sections, x)
    array([1.   , 0.5  , 0.25 , 0.125])
    >>> agrad.grad(lambda x: signal.sosfilt(sections, x)[3])(x)
    array([0.125, 0.25 , 0.5  , 1.   ])
    """
    sos, x, *rest = arrays(sos, x, *([] if zi is None else [zi]))
    _sections("sosfilt", sos)
    axis = _signal("sosfilt", x, axis)
    states: list[Tensor] | None = None
    if rest:
        states = list(agrad.unstack(_state("sosfilt", rest[0], (sos.shape[0], *resized(x, axis, 2)))))
    y, last = agrad.moveaxis(x, axis, -1), []
    for i in range(sos.shape[0]):
        state = None if states is None else agrad.moveaxis(states[i], axis, -1)
        y, end = _filtered(sos[i, :3], sos[i, 3:], y, state)
        last.append(agrad.moveaxis(end, -1, axis))
    y = agrad.moveaxis(y, -1, axis)
    return y if states is None else (y, agrad.stack(last))


@function
def sosfilt_zi(sos: Any) -> Tensor:
    """Return the states of ``sosfilt`` after a long signal of ones.

    Like ``scipy.signal.sosfilt_zi``: ``sos`` has shape (n, 6), the result (n, 2).

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> signal.sosfilt_zi(np.asarray([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]]))
    array([[1., 0.]])
    """
    (sos,) = arrays(sos)
    _sections("sosfilt_zi", sos)
    out, scale = [], agrad.ones_like(sos[0, 0])
    for i in range(sos.shape[0]):
        b, a = sos[i, :3], sos[i, 3:]
        out.append(scale * lfilter_zi(b, a))
        scale = scale * (agrad.sum(b) / agrad.sum(a))
    return agrad.stack(out)


def _extended(name: str, x: Tensor, axis: int, padtype: Any, padlen: Any, default: int) -> tuple[Tensor, int]:
    """Return a signal continued at both ends, and by how much."""
    one_of(name, "padtype", padtype, ("odd", "even", "constant", None))
    edge = 0 if padtype is None else default if padlen is None else int(padlen)
    n = x.shape[axis]
    if not 0 <= edge < n:
        raise ShapeError(f"{name}: padlen must be at least 0 and less than the length {n} of the signal, got {edge}")
    return (extended(x, axis, edge, padtype) if edge else x), edge


def _both_ways(run: Any, x: Tensor, axis: int, edge: int) -> Tensor:
    """Filter forward and backward, and cut the ends."""
    for _ in range(2):
        x = agrad.flip(run(x, x[along(axis, slice(0, 1))]), axis=axis)
    return x[along(axis, slice(edge, x.shape[axis] - edge))]


@unsupported("method", "irlen", error=ConfigurationError)
@function
def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: Any = "odd",
    padlen: Any = None,
    method: str = "pad",
    irlen: Any = None,
) -> Tensor:
    """Filter a signal forward and backward, which shifts no phase.

    Like ``scipy.signal.filtfilt``: ``b`` and ``a`` are 1-D, and the result has the shape of ``x``. ``method="gust"``
    and ``irlen`` are not supported.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> x = np.sin(np.linspace(0.0, 3.0, 12))
    >>> signal.filtfilt([0.5], [1.0, -0.5], x)[:3].round(4)
    array([-0.0012,  0.2341,  0.4517])
    >>> round(float(agrad.grad(lambda x: signal.filtfilt([0.5], [1.0, -0.5], x)[5])(x)[5]), 4)
    0.3329
    """
    b, a, x = arrays(b, a, x)
    b, a = _coefficients("filtfilt", b, a)
    axis = _signal("filtfilt", x, axis)
    x, edge = _extended("filtfilt", x, axis, padtype, padlen, 3 * max(a.shape[0], b.shape[0]))
    zi = lfilter_zi(b, a)
    zi = agrad.reshape(zi, on_axis(zi.shape[0], axis, x.ndim))
    return _both_ways(lambda x, first: lfilter(b, a, x, axis, zi * first)[0], x, axis, edge)


@function
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Tensor:
    """Filter a signal forward and backward by second-order sections.

    Like ``scipy.signal.sosfiltfilt``: ``sos`` has shape (n, 6), and the result the shape of ``x``. The default of
    ``padlen`` depends on the values of ``sos``. Pass it if a transform hides them.

    Examples
    --------
    >>> from agrad.scipy import signal
    >>> sections, x = np.asarray([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]]), np.sin(np.linspace(0.0, 3.0, 12))
    >>> signal.sosfiltfilt(sections, x)[:3].round(4)
    array([-0.0012,  0.2341,  0.4517])
    >>> round(float(agrad.grad(lambda x: signal.sosfiltfilt(sections, x)[5])(x)[5]), 4)
    0.3329
    """
    sos, x = arrays(sos, x)
    _sections("sosfiltfilt", sos)
    axis = _signal("sosfiltfilt", x, axis)
    default = 0
    if padlen is None and padtype is not None:
        if not is_concrete(sos):
            raise ConfigurationError(
                "sosfiltfilt: padlen depends on the values of sos, which this transform hides. Pass padlen=."
            )
        values = values_of(sos)
        default = 3 * (2 * len(values) + 1 - min(int((values[:, i] == 0).sum()) for i in (2, 5)))
    x, edge = _extended("sosfiltfilt", x, axis, padtype, padlen, default)
    zi = agrad.reshape(sosfilt_zi(sos), (sos.shape[0], *on_axis(2, axis, x.ndim)))
    return _both_ways(lambda x, first: sosfilt(sos, x, axis, zi * first)[0], x, axis, edge)
