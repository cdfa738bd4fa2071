"""NumPy's own arithmetic of long arrays, in blocks that threads share, and products of all pairs.

Operators on raw arrays and on a tape's are NumPy's own. These are for what is behind more calls anyway: the members of
a map, the values and tangents of forward mode. They are a part of their own, ``"level"``, because as ``"forward"``
kernels they would be in the way of the two who ask for that one: the short call path, where each operation on short
arrays would pay for the question, and traced programs, which call NumPy's own functions by these words, to have them
write into buffers and into blocks of groups.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES, THREADED, cores, run_blocks
from agrad.registry import kernel

Raw = Any

DTYPES = frozenset(map(np.dtype, ("f4", "f8")))
"""What is taken: floating dtypes of this machine's byte order."""


def fill_in_blocks(
    fill: Callable[..., Any], out: np.ndarray, *given: Raw, block_bytes: int = BLOCK_BYTES
) -> np.ndarray:
    """Call ``fill(part of out, *parts of those given)`` for all parts of ``out``, on threads; gives ``out``.

    What is given broadcasts to ``out``, which is not empty; numbers are parts of themselves. Blocks of the usual size
    suit a ``fill`` of several operations, which finds in the cache what it has just written.
    """
    whole, arrays = out, list(given)
    if all(np.shape(a) in (out.shape, ()) and (not np.ndim(a) or a.flags.c_contiguous) for a in arrays):
        out, *arrays = (a.reshape(-1) if np.ndim(a) else a for a in (out, *arrays))
    while out.shape[0] == 1 < out.ndim:
        arrays = [a[0] if np.ndim(a) == out.ndim else a for a in arrays]
        out = out[0]
    rows = out.shape[0]
    step = max(1, block_bytes * rows // out.nbytes)
    cut = [np.ndim(a) == out.ndim and a.shape[0] == rows for a in arrays]

    def work(take: Callable[[], int]) -> None:
        while (start := take() * step) < rows:
            part = slice(start, start + step)
            fill(out[part], *[a[part] if is_cut else a for a, is_cut in zip(arrays, cut, strict=True)])

    run_blocks(work, -(-rows // step), max(2, THREADED * BLOCK_BYTES // block_bytes))
    return whole


# ------------------------------------------------------------------ arithmetic

_LONG = 24 * BLOCK_BYTES
"""Bytes of an array from which on threads share the work, measured: operations on 8 MB one after the other take 0.65 of
the time, on 4 MB 0.8, on 2 MB as long; between products of matrices, whose threads spin on, 0.95 to 1.2 at any size."""


def _fill_once(fill: Callable[..., Any], out: np.ndarray, *given: Raw) -> np.ndarray:
    """As ``fill_in_blocks``, for a single operation: a few blocks a thread (0.8 of the time of those of usual size)."""
    return fill_in_blocks(fill, out, *given, block_bytes=max(BLOCK_BYTES, -(-out.nbytes // (2 * cores()))))


def _are_alike(*values: Raw) -> bool:
    """Whether all are arrays of one dtype, float32 or float64, and Python numbers."""
    found = {value.dtype if type(value) is np.ndarray else type(value) for value in values} - {int, float}
    return len(found) == 1 and found <= DTYPES


def _file_arithmetic(name: str, ufunc: np.ufunc) -> None:
    def fill(out: np.ndarray, *values: Raw) -> None:
        ufunc(*values, out=out)

    def shared(*values: Raw) -> Raw:
        if not _are_alike(*values):
            return ufunc(*values)
        out = np.empty(np.broadcast(*values).shape, next(v.dtype for v in values if type(v) is np.ndarray))
        return _fill_once(fill, out, *values) if out.size else out

    # without a guard, which is a call more: most arrays are short, and the question is all that they pay
    if ufunc.nin == 1:

        @kernel("numpy", name, "level")
        def unary(x: Raw) -> Raw:
            return shared(x) if type(x) is np.ndarray and x.nbytes >= _LONG else ufunc(x)

    else:

        @kernel("numpy", name, "level")
        def binary(x1: Raw, x2: Raw) -> Raw:
            if (type(x1) is np.ndarray and x1.nbytes >= _LONG) or (type(x2) is np.ndarray and x2.nbytes >= _LONG):
                return shared(x1, x2)
            return ufunc(x1, x2)


for _name in ("add", "subtract", "multiply", "divide", "negative"):
    _file_arithmetic(_name, getattr(np, _name))


# ------------------------------------------------------------------ joining


@kernel("numpy", "concat", "level", when=lambda *arrays: arrays[0].nbytes >= _LONG and _are_alike(*arrays))
def concat(*arrays: Raw, axis: int | None) -> Raw:
    if not axis or len(arrays) < 2:
        return np.concatenate(arrays, axis=axis)

    def fill(out: np.ndarray, *parts: np.ndarray) -> None:
        np.concatenate(parts, axis=axis, out=out)

    shape = list(arrays[0].shape)
    if shape[0] < THREADED:
        return np.concatenate(arrays, axis=axis)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return _fill_once(fill, np.empty(tuple(shape), arrays[0].dtype), *arrays)


# ------------------------------------------------------------------ outer products


def _are_batches(x1: Raw, x2: Raw) -> bool:
    return x1.ndim > 1 and x2.ndim > 1 and x1.dtype == x2.dtype and x1.dtype in DTYPES


@kernel("numpy", "linalg.outer", "forward", when=_are_batches)
def outer(x1: Raw, x2: Raw) -> Raw:
    # of many short vectors: einsum's inner loops start in half the time of multiply's
    return np.einsum("...i,...j->...ij", x1, x2)
