"""Structured matrices with the SciPy names."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import conjugate, constant
from agrad.scipy.linalg.shared import gathered
from agrad.scipy.shared import array, arrays, function

__all__ = ["block_diag", "circulant", "companion", "convolution_matrix", "fiedler", "hankel", "leslie", "toeplitz"]


def _vector(x: Tensor) -> Tensor:
    return agrad.reshape(x, (1,)) if x.ndim == 0 else x


def _joined(c: Tensor, r: Tensor) -> Tensor:
    """Return the vectors one behind the other, with broadcast batches."""
    batch = agrad.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    return agrad.concat([agrad.broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r)], axis=-1)


@function
def block_diag(*arrs: Any) -> Any:
    """Return the matrices with blocks on the diagonal.

    Like ``scipy.linalg.block_diag``: blocks have shape (..., m, n) or (n,), the result (..., sum of m, sum of n).

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.block_diag(np.asarray([[1.0, 2.0]]), np.asarray([[3.0]]))
    array([[1., 2., 0.],
           [0., 0., 3.]])
    """
    blocks = [agrad.reshape(x, (1, -1)) if x.ndim < 2 else x for x in arrays(*(arrs or ([],)))]
    batch = agrad.broadcast_shapes(*[x.shape[:-2] for x in blocks])
    width, start, rows = sum(x.shape[-1] for x in blocks), 0, []
    for x in blocks:
        x = agrad.broadcast_to(x, (*batch, *x.shape[-2:]))
        stop = start + x.shape[-1]
        rows.append(agrad.pad(x, [(0, 0)] * (len(batch) + 1) + [(start, width - stop)]))
        start = stop
    return agrad.concat(rows, axis=-2)


@function
def toeplitz(c: Any, r: Any = None) -> Tensor:
    """Return the matrix with constant diagonals.

    Like ``scipy.linalg.toeplitz``: ``c`` has shape (..., m), ``r`` (..., n), the result (..., m, n).

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.toeplitz(np.asarray([1.0, 2.0, 3.0]), np.asarray([1.0, 5.0]))
    array([[1., 5.],
           [2., 1.],
           [3., 2.]])
    >>> agrad.grad(lambda c: agrad.sum(linalg.toeplitz(c)))(np.asarray([1.0, 2.0, 3.0]))
    array([3., 4., 2.])
    """
    c, r = (array(c), None) if r is None else arrays(c, r)
    c = _vector(c)
    r = conjugate(c) if r is None else _vector(r)
    m, n = c.shape[-1], r.shape[-1]
    down = np.arange(m)[:, None] - np.arange(n)
    return gathered(_joined(c, r), np.where(down >= 0, down, m - down))


@function
def circulant(c: Any) -> Tensor:
    """Return the matrix whose columns are the first one, rotated.

    Like ``scipy.linalg.circulant``: ``c`` has shape (..., n), the result (..., n, n).

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.circulant(np.asarray([1.0, 2.0, 3.0]))
    array([[1., 3., 2.],
           [2., 1., 3.],
           [3., 2., 1.]])
    >>> agrad.grad(lambda c: agrad.sum(linalg.circulant(c)))(np.asarray([1.0, 2.0, 3.0]))
    array([3., 3., 3.])
    """
    c = _vector(array(c))
    place = np.arange(c.shape[-1])
    return gathered(c, (place[:, None] - place) % max(c.shape[-1], 1))


@function
def hankel(c: Any, r: Any = None) -> Tensor:
    """Return the matrix with constant antidiagonals.

    Like ``scipy.linalg.hankel``: ``c`` has shape (..., m), ``r`` (..., n), the result (..., m, n). Axes before the last
    are batch axes, whereas SciPy 1.17 ravels.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.hankel(np.asarray([1.0, 2.0, 3.0]), np.asarray([3.0, 4.0]))
    array([[1., 2.],
           [2., 3.],
           [3., 4.]])
    """
    c, r = (array(c), None) if r is None else arrays(c, r)
    if c.ndim == 0 or (r is not None and r.ndim == 0):
        raise ShapeError("hankel: c and r must have at least one axis")
    m, n = c.shape[-1], (c if r is None else r).shape[-1]
    across = np.arange(m)[:, None] + np.arange(n)
    if r is None:
        return gathered(c, np.where(across < m, across, -1))
    # the element m of the joined vectors is the first of r
    return gathered(_joined(c, r), np.where(across < m, across, across + 1))


@function
def companion(a: Any) -> Tensor:
    """Return the companion matrix of a polynomial, whose eigenvalues are its roots.

    Like ``scipy.linalg.companion``: ``a`` has shape (..., n), n at least 2, the result (..., n - 1, n - 1). ``a[...,
    0]`` must not be 0.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.companion(np.asarray([1.0, -3.0, 2.0]))
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    a = _vector(array(a))
    n = a.shape[-1]
    if n < 2:
        raise ShapeError(f"companion: a must have at least two coefficients, got {n}")
    row = agrad.expand_dims(-a[..., 1:] / a[..., :1], axis=-2)
    below = constant(np.eye(n - 2, n - 1).astype(a.dtype.name), a)
    return agrad.concat([row, agrad.broadcast_to(below, (*a.shape[:-1], n - 2, n - 1))], axis=-2)


@function
def leslie(f: Any, s: Any) -> Tensor:
    """Return the Leslie matrix of a population.

    Like ``scipy.linalg.leslie``: ``f`` has shape (..., n), ``s`` (..., n - 1), the result (..., n, n).

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.leslie(np.asarray([0.5, 2.0, 1.0]), np.asarray([0.25, 0.5]))
    array([[0.5 , 2.  , 1.  ],
           [0.25, 0.  , 0.  ],
           [0.  , 0.5 , 0.  ]])
    """
    f, s = (_vector(x) for x in arrays(f, s))
    n = f.shape[-1]
    if s.shape[-1] != n - 1:
        raise ShapeError(f"leslie: s must have {n - 1} elements, one fewer than f, got {s.shape[-1]}")
    place = np.full((n, n), -1)
    place[0] = np.arange(n)
    place[np.arange(1, n), np.arange(n - 1)] = n + np.arange(n - 1)
    return gathered(_joined(f, s), place)


@function
def fiedler(a: Any) -> Tensor:
    """Return the matrix of the distances of numbers.

    Like ``scipy.linalg.fiedler``: ``a`` has shape (..., n), the result (..., n, n).

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.fiedler(np.asarray([1.0, 4.0, 9.0]))
    array([[0., 3., 8.],
           [3., 0., 5.],
           [8., 5., 0.]])
    """
    a = _vector(array(a))
    return agrad.abs(agrad.expand_dims(a, axis=-1) - agrad.expand_dims(a, axis=-2))


@function
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Tensor:
    """Return the matrix whose product with a vector is the convolution with ``a``.

    Like ``scipy.linalg.convolution_matrix``: ``a`` has shape (..., m), the result (..., k, n) with the length k of the
    convolution.

    Examples
    --------
    >>> from agrad.scipy import linalg
    >>> linalg.convolution_matrix(np.asarray([1.0, -1.0]), 3)
    array([[ 1.,  0.,  0.],
           [-1.,  1.,  0.],
           [ 0., -1.,  1.],
           [ 0.,  0., -1.]])
    """
    a = _vector(array(a))
    m, n = a.shape[-1], int(n)
    if m < 1 or n < 1:
        raise ShapeError(f"convolution_matrix: a must not be empty and n at least 1, got {m} and {n}")
    cut = {"full": 0, "same": min(m, n) - 1, "valid": 2 * (min(m, n) - 1)}.get(mode)
    if cut is None:
        raise ConfigurationError(f"convolution_matrix: mode must be 'full', 'same' or 'valid', got {mode!r}")
    rows = np.arange(cut // 2, m + n - 1 - (cut - cut // 2))
    place = rows[:, None] - np.arange(n)
    return gathered(a, np.where(place < m, place, -1))
