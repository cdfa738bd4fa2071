"""Helpers of the functions by the names of ``scipy.linalg``.

The last two axes are matrices, and all axes before them are batch axes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ShapeError
from agrad.interop.arguments import adjoint, constant
from agrad.interop.linear_algebra import completed
from agrad.scipy.shared import array


def identity(n: int, like: Tensor) -> Tensor:
    """Return the identity matrix with the dtype and device of ``like``."""
    return constant(np.eye(n, dtype=like.dtype.name), like)


def matrices(a: Any, name: str) -> Tensor:
    """Return a Tensor of matrices. Raise ``ShapeError`` for fewer than two axes."""
    a = array(a)
    if a.ndim < 2:
        raise ShapeError(f"{name}: a matrix must have at least two axes, got shape {tuple(a.shape)}")
    return a


def square(a: Any, name: str) -> Tensor:
    """Return a Tensor of square matrices. Raise ``ShapeError`` for others."""
    a = matrices(a, name)
    if a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"{name}: a matrix must be square, got shape {tuple(a.shape)}")
    return a


def mirrored(a: Tensor, lower: bool, turn: Callable[[Tensor], Tensor] = adjoint) -> Tensor:
    """Return ``completed`` with the derivative along Hermitian changes of ``a``.

    The gradient of ``a`` is then Hermitian, as in ``agrad.linalg.cholesky``.
    """
    # zeros that have the derivative of the Hermitian part
    both = (a + turn(a)) / 2
    return agrad.stop_gradient(completed(a, lower, turn)) + (both - agrad.stop_gradient(both))


def gathered(x: Tensor, index: np.ndarray) -> Tensor:
    """Return the elements of the last axis at an index of the host.

    Where the index is negative they are 0. The last axis becomes the axes of ``index``.
    """
    found = agrad.take(x, constant(np.maximum(index, 0).reshape(-1), x), axis=-1)
    found = agrad.reshape(found, (*x.shape[:-1], *index.shape))
    if (index >= 0).all():
        return found
    return agrad.where(constant(index >= 0, x), found, agrad.zeros_like(found))
