"""NumPy's own products that are sums of products, or of all pairs: no product stands in memory by itself."""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.backends.threads import BLOCK_BYTES, run_blocks
from agrad.registry import kernel

Raw = Any


def fill_in_blocks(fill: Callable[..., Any], out: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """Call ``fill(part of out, *parts of those given)`` for all parts of ``out``, some rows each, on threads; gives ``out``.

    Those given broadcast to ``out``, which is not empty.
    """
    whole, arrays = out, list(given)
    if all(a.shape == out.shape and a.flags.c_contiguous for a in arrays):
        out, *arrays = (a.reshape(-1) for a in (out, *arrays))
    while out.shape[0] == 1 < out.ndim:
        arrays = [a[0] if a.ndim == out.ndim else a for a in arrays]
        out = out[0]
    rows = out.shape[0]
    step = max(1, BLOCK_BYTES * rows // out.nbytes)
    cut = [a.ndim == out.ndim and a.shape[0] == rows for a in arrays]

    def work(take: Callable[[], int]) -> None:
        while (start := take() * step) < rows:
            part = slice(start, start + step)
            fill(out[part], *[a[part] if is_cut else a for a, is_cut in zip(arrays, cut, strict=True)])

    run_blocks(work, -(-rows // step))
    return whole


# ------------------------------------------------------------------ the tangent of a product


def _sum_of_products(out: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> None:
    np.multiply(a, b, out=out)
    np.add(out, np.multiply(c, d), out=out)


def _is_long_product(*arrays: Raw, y: Raw) -> bool:
    return (
        type(y) is np.ndarray
        and y.nbytes > BLOCK_BYTES
        and y.dtype.char in "fd"
        and all(type(a) is np.ndarray and a.dtype == y.dtype for a in arrays)
    )


@kernel(
    "numpy",
    "multiply",
    "jvp:x1,x2",
    when=lambda t_x1, t_x2, x1, x2, y: _is_long_product(t_x1, t_x2, x1, x2, y=y),
)
def multiply_jvp(t_x1: Raw, t_x2: Raw, x1: Raw, x2: Raw, y: Raw) -> Raw:
    return fill_in_blocks(_sum_of_products, np.empty(y.shape, y.dtype), t_x1, x2, x1, t_x2)


# ------------------------------------------------------------------ outer products


@kernel(
    "numpy",
    "linalg.outer",
    "forward",
    when=lambda x1, x2: x1.ndim > 1 and x1.ndim == x2.ndim and x1.dtype == x2.dtype and x1.dtype.char in "fdFD",
)
def outer(x1: Raw, x2: Raw) -> Raw:
    # of many short vectors: einsum's inner loops start in half the time of multiply's
    return np.einsum("...i,...j->...ij", x1, x2)
