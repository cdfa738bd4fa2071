"""Sums with a product of matrices on NumPy: ``x + a @ b`` is one BLAS call.

The call neither writes nor reads the product, and writes into x if x is not read afterwards.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.kernels.numpy.blas import ROUTINES, address, laid, product_adder
from agrad.kernels.numpy.updates import FEWEST
from agrad.registry import kernel


def _fits(x: Any, a: Any, b: Any) -> bool:
    if not hasattr(x, "shape"):  # a number
        return False
    alike = len({np.dtype(v.dtype) for v in (x, a, b)}) == 1 and np.dtype(x.dtype) in ROUTINES
    return alike and len(a.shape) == len(b.shape) == 2 and x.shape == (a.shape[0], b.shape[1]) and x.size >= FEWEST


@kernel("numpy", "add", "forward(x2=product)", gain=2.3, when=_fits)
def product_added(sizes: tuple[int, int, int], dtype: np.dtype) -> Callable[..., np.ndarray]:
    """Return the function of ``x + a @ b``.

    The function writes into ``out``, which may be x. If ``out`` is None, it returns a new array.
    """
    product, shape = product_adder(dtype, sizes), (sizes[0], sizes[2])

    def add(x: Any, a: Any, b: Any, out: Any) -> np.ndarray:
        of_a, of_b = laid(a), laid(b)
        if out is None:
            out = np.empty(shape, dtype)
        if not (of_a and of_b and sizes[1] and out.flags.carray):
            return np.add(x, np.matmul(a, b), out=out)
        if out is not x:
            out[...] = x
        product(of_a, of_b, 1.0, address(out))
        return out

    return add


kernel("numpy", "add", "forward(x1=product)", gain=2.3, when=lambda a, b, x: _fits(x, a, b))(product_added)
