"""Constant matrices of a given size with the SciPy names.

They are created where ``agrad.numpy`` creates arrays.
"""

import math
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import dtype_of
from agrad.scipy.shared import created

__all__ = ["hadamard", "hilbert", "pascal"]


def _size(name: str, n: Any) -> int:
    if int(n) != n or n < 0:
        raise ShapeError(f"{name}: n must be an integer of at least 0, got {n!r}")
    return int(n)


def hadamard(n: int, dtype: Any = int) -> Tensor:
    """Return Sylvester's Hadamard matrix of 1 and -1.

    Like ``scipy.linalg.hadamard``: a constant Tensor of shape (n, n). Every NumPy form of ``dtype`` is supported.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    size = _size("hadamard", n)
    if size.bit_count() != 1:
        raise ShapeError(f"hadamard: n must be a power of 2, got {n!r}")
    place = np.arange(size)
    odd = np.bitwise_count(place[:, None] & place) % 2
    return agrad.astype(created(1 - 2 * odd.astype(np.int64)), dtype_of(dtype))


def hilbert(n: int) -> Tensor:
    """Return the Hilbert matrix, 1 / (i + j + 1).

    Like ``scipy.linalg.hilbert``: a constant Tensor of shape (n, n) and dtype float64.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.hilbert(2).round(4).tolist()
    [[1.0, 0.5], [0.5, 0.3333]]
    """
    place = np.arange(_size("hilbert", n))
    return created(1.0 / (place[:, None] + place + 1))


def pascal(n: int, kind: str = "symmetric", exact: bool = True) -> Tensor:
    """Return the Pascal matrix of binomial coefficients.

    Like ``scipy.linalg.pascal``: a constant Tensor of shape (n, n) and dtype int64, or float64 if ``exact`` is False.
    SciPy uses uint64, and Python integers for ``n`` above 34, for which agrad raises ``ShapeError``.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.pascal(3).tolist()
    [[1, 1, 1], [1, 2, 3], [1, 3, 6]]
    """
    size = _size("pascal", n)
    if kind not in ("symmetric", "lower", "upper"):
        raise ConfigurationError(f"pascal: kind must be symmetric, lower or upper, got {kind!r}")
    if exact and size > 34:
        raise ShapeError(f"pascal: n must be at most 34 with exact=True, got {n!r}. Set exact=False.")
    whole = kind == "symmetric"
    rows = [[math.comb(i + j * whole, j) for j in range(size)] for i in range(size)]
    out = np.asarray(rows, np.int64 if exact else np.float64).reshape(size, size)
    return created(out.T if kind == "upper" else out)
