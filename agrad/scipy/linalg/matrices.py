"""Structured matrices with the SciPy names."""

from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, ShapeError
from agrad.interop.arguments import constant
from agrad.scipy.linalg.shared import conjugate, gathered
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

    Parameters
    ----------
    *arrs : arrays
        Blocks of shape (..., m, n). A block of shape (n,) is a row. Batch axes broadcast.

    Returns
    -------
    array
        Array of a floating dtype and shape (..., sum of m, sum of n).

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

    Parameters
    ----------
    c : array
        The first column, of shape (..., m).
    r : array, optional
        The first row, of shape (..., n), by default the conjugate of ``c``. Its first element is not read.

    Returns
    -------
    array
        Array of a floating dtype and shape (..., m, n).

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

    Parameters
    ----------
    c : array
        The first column, of shape (..., n).

    Returns
    -------
    array
        Array of a floating dtype and shape (..., n, n).

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

    Parameters
    ----------
    c : array
        The first column, of shape (..., m).
    r : array, optional
        The last row, of shape (..., n), by default zeros like ``c``. Its first element is not read.

    Returns
    -------
    array
        Array of a floating dtype and shape (..., m, n).

    Raises
    ------
    ShapeError
        If an array is a scalar.

    Notes
    -----
    Axes before the last are batch axes, whereas SciPy 1.17 ravels.

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

    Parameters
    ----------
    a : array
        Coefficients from the highest power, shape (..., n), n at least 2. The first must not be 0.

    Returns
    -------
    array
        Array of a floating dtype and shape (..., n - 1, n - 1).

    Raises
    ------
    ShapeError
        If there are fewer than two coefficients.

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

    Parameters
    ----------
    f : array
        Fecundities, of shape (..., n).
    s : array
        Survival coefficients, of shape (..., n - 1).

    Returns
    -------
    array
        Array of a floating dtype and shape (..., n, n), with ``f`` in the first row and ``s`` below the diagonal.

    Raises
    ------
    ShapeError
        If lengths do not match.

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

    Parameters
    ----------
    a : array
        Array of shape (..., n).

    Returns
    -------
    array
        ``abs(a[..., i] - a[..., j])``, of a floating dtype and shape (..., n, n).

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

    Parameters
    ----------
    a : array
        Array of shape (..., m).
    n : int
        The number of columns: the length of the vector.
    mode : {"full", "same", "valid"}
        The part of the convolution, as of ``numpy.convolve``.

    Returns
    -------
    array
        Array of a floating dtype and shape (..., k, n).

    Raises
    ------
    ShapeError
        If ``a`` is empty, or if ``n`` is less than 1.
    ConfigurationError
        If ``mode`` is not supported.

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
