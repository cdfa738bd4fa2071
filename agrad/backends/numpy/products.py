"""NumPy's arithmetic of long arrays on threads, and outer products.

These kernels serve maps and forward mode. They are of the part ``"level"``, since as ``"forward"`` kernels they would
also be asked on the call path, where short arrays would pay for it, and in traced programs, which write the results of
NumPy's own functions into buffers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.numpy.blocks import fill_in_blocks
from agrad.backends.threads import BLOCK_BYTES, THREADED, cores
from agrad.registry import kernel

Raw = Any

DTYPES = frozenset(map(np.dtype, ("f4", "f8")))
"""Native floating dtypes that the kernels take."""


# ------------------------------------------------------------------ arithmetic

_LONG = 24 * BLOCK_BYTES
"""Bytes from which on threads share the work, measured: operations on 8 MB one after the other take 0.65 of the time,
on 4 MB 0.8, on 2 MB as long; between products of matrices, whose threads spin on, 0.95 to 1.2 at any size."""


def _fill_once(fill: Callable[..., Any], out: np.ndarray, *given: Raw) -> np.ndarray:
    """Call ``fill_in_blocks`` with two blocks a thread, for a single operation.

    That takes 0.8 of the time of usual blocks.
    """
    return fill_in_blocks(fill, out, *given, block_bytes=max(BLOCK_BYTES, -(-out.nbytes // (2 * cores()))))


def _are_alike(*values: Raw) -> bool:
    """Return whether all are numbers, or arrays of float32 alone or float64 alone."""
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

    # without a guard, which would be one more call for the short arrays that most are
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
