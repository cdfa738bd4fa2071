"""The word ``convolution`` on NumPy: shifted views of flat frames, and BLAS.

A frame is an array with its zeros around it, its spatial axes flattened into one. What a tap of the kernel meets, at
all places of the result, is then one run of the frame, with some elements too many at the end of each row: no window is
copied out. Strides take a frame for each residue. Of the places of the result and the taps of the kernel the fewer ones
are looped over. The derivative by the kernel has few places and many taps.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from agrad.backends.convolution import Pads, out_lengths
from agrad.backends.threads import THREADED, run_blocks
from agrad.kernels.numpy.blas import ROUTINES, address
from agrad.registry import kernel

_BLOCK = 1 << 20
"""The bytes of frames and columns that are worked on at once, half of a second-level cache."""

_WIDE = 32
"""The number of channels from which on a product for each tap is faster than one product with a copy for each."""

Raw = Any


class Shifts(NamedTuple):
    """The runs of frames that a few shifts meet at many places."""

    residues: list[tuple[int, ...]]
    offsets: list[int]
    lengths: tuple[int, ...]
    """The lengths of a frame."""
    many: tuple[int, ...]
    run: int
    """The length of a run, which ends at the last place."""
    steps: tuple[int, ...]
    low: tuple[int, ...]
    """The zeros before the first element; negative for elements that are cut."""

    def frames(self, x: Raw) -> dict[tuple[int, ...], Raw]:
        """Return the flat frames of an array by residue."""
        return {residues: self._frame(x, residues) for residues in dict.fromkeys(self.residues)}

    def _frame(self, x: Raw, residues: tuple[int, ...]) -> Raw:
        m = len(residues)
        into: list[Any] = [slice(None)] * (x.ndim - m)
        of = list(into)
        for n, r, length, step, low in zip(x.shape[-m:], residues, self.lengths, self.steps, self.low, strict=True):
            first = max(-((r - low) // step), 0)
            start = r - low + first * step
            count = max(min(length - first, -((start - n) // step)), 0)
            into.append(slice(first, first + count))
            of.append(slice(start, start + (count - 1) * step + 1, step) if count else slice(0, 0))
        part = x[tuple(of)]
        if part.shape[-m:] == self.lengths:
            flat = part.reshape(*part.shape[:-m], -1)
            one, line = flat.strides[-1], flat.strides[-2]
            return flat if one == x.itemsize and line >= one * flat.shape[-1] else np.ascontiguousarray(flat)
        whole = np.zeros((*x.shape[:-m], *self.lengths), x.dtype)
        whole[tuple(into)] = part
        return whole.reshape(*whole.shape[:-m], -1)

    def runs(self, frames: dict[tuple[int, ...], Raw]) -> list[Raw]:
        """Return the run of each shift."""
        pairs = zip(self.residues, self.offsets, strict=True)
        return [frames[residues][..., offset : offset + self.run] for residues, offset in pairs]

    @property
    def framed(self) -> tuple[int, ...]:
        """Return the lengths of many places with the elements too many."""
        return (self.many[0], *self.lengths[1:])


def _shifts(few: Sequence[int], few_steps: Any, many: Sequence[int], many_steps: Any, low: Sequence[int]) -> Shifts:
    """Return the shifts by ``few * few_steps``, met at places ``many * many_steps``."""
    parts = [[divmod(i * d, s) for i in range(n)] for n, d, s in zip(few, few_steps, many_steps, strict=True)]
    lengths = tuple(axis[-1][0] + n if axis else n for axis, n in zip(parts, many, strict=True))
    lines = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    each = list(product(*parts))
    return Shifts(
        residues=[tuple(r for _, r in one) for one in each],
        offsets=[sum(q * line for (q, _), line in zip(one, lines, strict=True)) for one in each],
        lengths=lengths,
        many=tuple(many),
        run=sum((n - 1) * line for n, line in zip(many, lines, strict=True)) + 1,
        steps=tuple(many_steps),
        low=tuple(low),
    )


@kernel("numpy", "convolution", "namespace", gain=4.9)
def convolution(
    x: Raw,
    w: Raw,
    /,
    *,
    strides: Sequence[int],
    padding: Pads,
    x_dilation: Sequence[int],
    w_dilation: Sequence[int],
    groups: int,
) -> Raw:
    """Correlate ``x`` of shape (n, c, ...) with ``w`` of shape (o, c // groups, ...)."""
    kernel, out = w.shape[2:], out_lengths(x.shape[2:], w.shape[2:], strides, padding, x_dilation, w_dilation)
    dtype = np.result_type(x, w)
    y = np.empty((x.shape[0], w.shape[0], *out), dtype)
    if not y.size or not w.size or not x.size:
        y[...] = 0
        return y
    for axis, (s, d) in enumerate(zip(strides, x_dilation, strict=True)):
        if d > 1 == s:
            _by_residues(x, w, y, axis, (*strides,), (*padding,), (*x_dilation,), (*w_dilation,), groups)
            return y
    low = [p for p, _ in padding]
    if any(d > 1 for d in x_dilation):
        x = _spread(x, x_dilation)
    if math.prod(kernel) <= math.prod(out):
        _by_taps(x, w, y, _shifts(kernel, w_dilation, out, strides, low), groups)
    else:
        _by_places(x, w, y, _shifts(out, strides, kernel, w_dilation, low), groups)
    return y


def _spread(x: Raw, dilation: Sequence[int]) -> Raw:
    """Return ``x`` with zeros between its elements."""
    whole = np.zeros((*x.shape[:2], *((n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation, strict=True))), x.dtype)
    whole[(..., *(slice(None, None, d) for d in dilation))] = x
    return whole


def _by_residues(
    x: Raw,
    w: Raw,
    y: Raw,
    axis: int,
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    x_dilation: tuple[int, ...],
    w_dilation: tuple[int, ...],
    groups: int,
) -> None:
    """Fill ``y`` by a convolution for each residue of its places on an axis.

    The zeros between the elements of ``x`` are met by none of them.
    """
    n, k, d, e, low = x.shape[axis + 2], w.shape[axis + 2], x_dilation[axis], w_dilation[axis], padding[axis][0]
    step = d // math.gcd(d, e)
    for r in range(d):
        part = y[(slice(None),) * (axis + 2) + (slice(r, None, d),)]
        count = part.shape[axis + 2]
        first = next((i for i in range(min(step, k)) if (r + i * e - low) % d == 0), None)
        if first is None or not count:
            part[...] = 0
            continue
        taps, before = -((first - k) // step), -(r + first * e - low) // d
        after = count - n - before + (taps - 1) * (step * e // d)

        def with_axis(values: Sequence[Any], value: Any) -> tuple[Any, ...]:
            return (*values[:axis], value, *values[axis + 1 :])

        part[...] = convolution(
            x,
            w[(slice(None),) * (axis + 2) + (slice(first, None, step),)],
            strides=strides,
            padding=with_axis(padding, (before, after)),
            x_dilation=with_axis(x_dilation, 1),
            w_dilation=with_axis(w_dilation, step * e // d),
            groups=groups,
        )


# ------------------------------------------------------------------ few taps, many places


def _by_taps(x: Raw, w: Raw, y: Raw, shifts: Shifts, groups: int) -> None:
    n, c, rows, taps = x.shape[0], x.shape[1] // groups, w.shape[0] // groups, len(shifts.offsets)
    places, item = math.prod(shifts.framed), y.itemsize
    kernels, x = w.reshape(groups, rows, c, taps), x.reshape(n, groups, c, *x.shape[2:])
    direct = shifts.framed == shifts.many
    whole = y.reshape(n, groups, rows, *((places,) if direct else shifts.many))
    fill, each = _by_columns, places * c * taps * item
    if c == rows == 1:
        fill, each = _by_element, 3 * places * item
    elif taps == 1 or (c >= _WIDE and x.dtype == w.dtype in ROUTINES):
        fill, each = _by_tap, places * (c + rows) * item
    some = max(1, min(_BLOCK // max(each, 1), groups))
    size = max(1, min(_BLOCK // max(each * groups, 1), n))
    blocks = [(slice(i, i + size), slice(j, j + some)) for i in range(0, n, size) for j in range(0, groups, some)]

    def work(take: Callable[[], int]) -> None:
        buffer = np.empty(() if direct else (size, some, rows, places), y.dtype)
        while (number := take()) < len(blocks):
            block = blocks[number]
            to = whole[block]
            framed = to if direct else buffer[: to.shape[0], : to.shape[1]]
            fill(shifts.runs(shifts.frames(x[block])), kernels[block[1]], framed[..., : shifts.run])
            if not direct:
                framed = framed.reshape(*to.shape[:3], *shifts.framed)
                to[...] = framed[(..., *(slice(m) for m in shifts.many))]

    # BLAS has threads of its own
    run_blocks(work, len(blocks), THREADED if fill is _by_element else len(blocks) + 1)


def _by_element(runs: list[Raw], kernels: Raw, out: Raw) -> None:
    """Fill ``out`` for groups of one channel and one row, whose products are too small for BLAS."""
    term = np.empty(out.shape, out.dtype)
    for t, run in enumerate(runs):
        np.multiply(run, kernels[..., t], out=term if t else out)
        if t:
            np.add(out, term, out=out)


def _by_tap(runs: list[Raw], kernels: Raw, out: Raw) -> None:
    """Fill ``out`` by a product for each tap."""
    if len(runs) == 1:
        np.matmul(kernels[..., 0], runs[0], out=out)
        return
    gemm = ROUTINES[out.dtype].gemm
    n, groups, rows, length = out.shape
    c, item = runs[0].shape[2], out.itemsize
    by_tap = np.ascontiguousarray(np.moveaxis(kernels, 3, 0))
    for i, g in np.ndindex(n, groups):
        for t, run in enumerate(runs):
            line = run.strides[2] // item
            gemm(  # of rows in memory, both factors as they are
                101, 111, 111, rows, length, c, 1.0, address(by_tap[t, g]), c, address(run[i, g]), line,
                float(t > 0), address(out[i, g]), out.strides[2] // item,
            )  # fmt: skip


def _by_columns(runs: list[Raw], kernels: Raw, out: Raw) -> None:
    """Fill ``out`` by one product with the runs of all taps, copied."""
    n, groups, c, length = runs[0].shape
    columns = np.empty((n, groups, c, len(runs), length), out.dtype)
    for t, run in enumerate(runs):
        columns[..., t, :] = run
    np.matmul(kernels.reshape(groups, kernels.shape[1], -1), columns.reshape(n, groups, c * len(runs), length), out=out)


# ------------------------------------------------------------------ few places, many taps


def _by_places(x: Raw, w: Raw, y: Raw, shifts: Shifts, groups: int) -> None:
    n, c, rows = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    # channels are summed over: they lie beside the taps
    x = np.moveaxis(x.reshape(n, groups, c, *x.shape[2:]), 0, 1)
    w = w.reshape(groups, rows, c, *w.shape[2:])
    whole = y.reshape(n, groups, rows, -1)
    with np.errstate(invalid="ignore"):  # an infinity may meet a zero of the kernel's frame
        whole[...] = _products(x, w, shifts, y.dtype, framed=True)
    if not np.isfinite(y).all():
        whole[...] = _products(x, w, shifts, y.dtype, framed=False)


def _products(x: Raw, w: Raw, shifts: Shifts, dtype: Any, framed: bool) -> Raw:
    """Return the sums of products at each shift, of shape (n, groups, rows, shifts).

    ``framed``: the kernel gets zeros where a run has elements too many; otherwise these are cut out.
    """
    groups, n, c = x.shape[:3]
    rows, lengths, many = w.shape[1], shifts.lengths, [slice(m) for m in shifts.many]
    total = np.zeros((len(shifts.offsets), groups, n, rows), dtype)
    size = max(1, _BLOCK * 4 // (groups * (n + rows) * math.prod(lengths) * total.itemsize))
    for i in range(0, c, size):
        frames, kernels = shifts.frames(x[:, :, i : i + size]), w[:, :, i : i + size]
        if framed and lengths != shifts.many:
            whole = np.zeros((*kernels.shape[:3], *lengths), kernels.dtype)
            whole[(..., *many)] = kernels
            kernels = whole
        kernels = kernels.reshape(groups, rows, -1)
        flat = {r: frame.reshape(groups, n, -1) for r, frame in frames.items()} if framed else frames
        for sums, residues, offset in zip(total, shifts.residues, shifts.offsets, strict=True):
            if framed:
                run = flat[residues][..., offset:]
            else:
                starts = np.unravel_index(offset, lengths)
                whole = frames[residues].reshape(*frames[residues].shape[:3], *lengths)
                cut = [slice(a, a + m) for a, m in zip(starts, shifts.many, strict=True)]
                run = whole[(..., *cut)].reshape(groups, n, -1)
            sums += np.matmul(run, kernels[..., : run.shape[2]].mT)
    return np.moveaxis(total, (2, 1, 3), (0, 1, 2))
