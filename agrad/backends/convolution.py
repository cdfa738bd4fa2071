"""The function ``convolution`` by matrix products of the standard."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

Pads = tuple[tuple[int, int], ...]
Steps = tuple[int, ...]


class Windows(NamedTuple):
    """The options of a convolution, with one entry for each spatial axis.

    ``x_dilation - 1`` zeros are inserted between the elements of the input, then zeros around it. A negative padding
    removes elements.
    """

    strides: Steps
    padding: Pads
    x_dilation: Steps
    w_dilation: Steps
    groups: int

    def lengths(self, x: Sequence[int], w: Sequence[int]) -> list[int]:
        """Return the spatial lengths of the result for the shapes of input and kernel."""
        sizes = zip(x[2:], w[2:], self.strides, self.padding, self.x_dilation, self.w_dilation, strict=True)
        return [
            (max((n - 1) * d + 1, 0) + low + high - (k - 1) * e - 1) // s + 1 for n, k, s, (low, high), d, e in sizes
        ]


def beside(x: Any) -> dict[str, Any]:
    """Return the keyword argument for a new array on the device of ``x``.

    For Cubed arrays it is a ``spec``. It is absent if the library's arrays do not provide their device.
    """
    where = "spec" if hasattr(x, "spec") else "device"
    return {where: getattr(x, where)} if hasattr(x, where) else {}


def zeros(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of a shape with the dtype and device of ``x``."""
    return xp.broadcast_to(xp.sum(xp.zeros_like(x), dtype=x.dtype), shape)


def zeros_between(xp: Any, x: Any, axis: int, step: int) -> Any:
    """Return ``x`` with ``step - 1`` zeros between the elements along an axis."""
    if step == 1:
        return x
    shape = tuple(x.shape)
    n = shape[axis]
    x = xp.expand_dims(x, axis=axis + 1)
    x = xp.concat([x] + [xp.zeros_like(x)] * (step - 1), axis=axis + 1)
    x = xp.reshape(x, (*shape[:axis], n * step, *shape[axis + 1 :]))
    return x[(slice(None),) * axis + (slice(0, max((n - 1) * step + 1, 0)), ...)]


def zeros_around(xp: Any, x: Any, axis: int, low: int, high: int) -> Any:
    """Return ``x`` with zeros around it along an axis; a negative number removes some."""
    n = x.shape[axis]
    if low < 0 or high < 0:
        x = x[(slice(None),) * axis + (slice(max(-low, 0), n - max(-high, 0)), ...)]
    shape = tuple(x.shape)
    parts = [zeros(xp, x, (*shape[:axis], k, *shape[axis + 1 :])) if k > 0 else None for k in (low, high)]
    parts = [part for part in (parts[0], x, parts[1]) if part is not None]
    return x if len(parts) == 1 else xp.concat(parts, axis=axis)


def convolution(xp: Any, x: Any, w: Any, /, *, how: Windows) -> Any:
    """Correlate ``x`` of shape (n, c, ...) with ``w`` of shape (o, c // groups, ...)."""
    strides, padding, x_dilation, w_dilation, groups = how
    out = how.lengths(x.shape, w.shape)
    for axis, (step, (low, high)) in enumerate(zip(x_dilation, padding, strict=True), 2):
        x = zeros_around(xp, zeros_between(xp, x, axis, step), axis, low, high)
    n, c, rows, kernel = x.shape[0], x.shape[1] // groups, w.shape[0] // groups, tuple(w.shape[2:])

    def part(starts: Sequence[int], lengths: Sequence[int], steps: Sequence[int]) -> Any:
        places = [slice(a, a + s * (m - 1) + 1, s) for a, m, s in zip(starts, lengths, steps, strict=True)]
        return xp.reshape(x[(slice(None), slice(None), *places)], (n, groups, c, math.prod(lengths)))

    if not n * c * math.prod(out):
        return zeros(xp, x, (n, groups * rows, *out))
    if math.prod(kernel) <= math.prod(out):
        w = xp.reshape(w, (groups, rows, c, *kernel))
        y = None
        for tap in product(*map(range, kernel)):
            starts = [i * d for i, d in zip(tap, w_dilation, strict=True)]
            term = xp.matmul(w[(..., *tap)], part(starts, out, strides))
            y = term if y is None else y + term
    else:
        w = xp.reshape(w, (groups, rows, c * math.prod(kernel)))
        columns = []
        for place in product(*map(range, out)):
            starts = [i * s for i, s in zip(place, strides, strict=True)]
            columns.append(xp.reshape(part(starts, kernel, w_dilation), (n, groups, c * math.prod(kernel), 1)))
        y = xp.matmul(w, xp.concat(columns, axis=3))
    return xp.reshape(y, (n, groups * rows, *out))
