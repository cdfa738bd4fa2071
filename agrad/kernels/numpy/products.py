"""Arithmetic of long arrays on threads with NumPy, and outer products.

The arithmetic serves maps and forward mode: its kernels are of the part ``"level"``. As ``"forward"`` kernels they
would also run on the call path, where they would slow down short arrays, and in traced programs, which write the
results of NumPy's own functions into buffers.
"""

from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES, cores
from agrad.kernels.numpy.blocks import fill_in_blocks
from agrad.registry import kernel

Raw = Any

DTYPES = frozenset(map(np.dtype, ("f4", "f8")))
"""Native floating dtypes that the kernels take."""


# ------------------------------------------------------------------ arithmetic

_LONG = 24 * BLOCK_BYTES
"""The number of bytes from which on threads share the work, measured. A sequence of operations on 8 MB takes 0.65 of
the time, on 4 MB 0.8, on 2 MB the same. Between products of matrices, whose threads keep spinning, it takes 0.95 to 1.2
at any size."""


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
        if not out.size:
            return out
        # a single operation takes 0.8 of the time with two blocks a thread
        return fill_in_blocks(fill, out, *values, block_bytes=max(BLOCK_BYTES, -(-out.nbytes // (2 * cores()))))

    # without a guard, which would be one more call for short arrays, the usual ones
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


# ------------------------------------------------------------------ outer products


def _are_batches(x1: Raw, x2: Raw) -> bool:
    return x1.ndim > 1 and x2.ndim > 1 and x1.dtype == x2.dtype and x1.dtype in DTYPES


@kernel("numpy", "linalg.outer", "forward", when=_are_batches)
def outer(x1: Raw, x2: Raw) -> Raw:
    # for many short vectors: einsum's inner loops start in half the time of multiply's
    return np.einsum("...i,...j->...ij", x1, x2)
