"""Functions along an axis: softmax, gated linear units, norms of vectors."""

from typing import Any

import agrad
from agrad.errors import ShapeError
from agrad.faces import complete_docstring
from agrad.nn.functional.real import of_array, of_arrays, real_only

__all__ = ["cosine_similarity", "glu", "log_softmax", "normalize", "pairwise_distance", "softmax", "softmin"]


class _Shared:
    """Parameters and result of functions along an axis.

    Parameters
    ----------
    x : array with at least one axis and a floating-point dtype
    dim : int
        Axis.

    Returns
    -------
    array of the same shape and dtype
    """


@of_array
def softmax(x: Any, /, dim: int = -1) -> Any:
    """Return exp(x) / sum(exp(x)) along an axis, without overflow.

    Examples
    --------
    >>> agrad.nn.functional.softmax(np.array([0.0, 0.0, 1.0])).round(4)
    array([0.2119, 0.2119, 0.5761])
    """
    return agrad.softmax(x, axis=dim)


@of_array
def log_softmax(x: Any, /, dim: int = -1) -> Any:
    """Return log(softmax(x)) along an axis, without overflow.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [0.0, 1000.0]])
    >>> agrad.nn.functional.log_softmax(x)[0].round(4)
    array([-0.6931, -0.6931])
    >>> agrad.grad(lambda x: agrad.nn.functional.log_softmax(x)[0, 0])(x)
    array([[ 0.5, -0.5],
           [ 0. ,  0. ]])
    """
    return agrad.log_softmax(x, axis=dim)


@of_array
def softmin(x: Any, /, dim: int = -1) -> Any:
    """Return softmax(-x) along an axis.

    Examples
    --------
    >>> agrad.nn.functional.softmin(np.array([0.0, 0.0, 1.0])).round(4)
    array([0.4223, 0.4223, 0.1554])
    """
    return agrad.softmax(-x, axis=dim)


@of_array
def glu(x: Any, /, dim: int = -1) -> Any:
    """Return the first half along an axis times the logistic function of the second.

    Reference: Y. Dauphin et al. (2017), arXiv:1612.08083.

    Parameters
    ----------
    x : array of a floating-point dtype, whose axis ``dim`` has an even length

    Returns
    -------
    array of half the length along the axis

    Examples
    --------
    >>> agrad.nn.functional.glu(np.array([[1.0, 2.0, 0.0, 1000.0]]))
    array([[0.5, 2. ]])
    """
    shape = tuple(x.shape)
    if not -len(shape) <= dim < len(shape) or shape[dim] % 2:
        raise ShapeError(f"glu: axis {dim} of x must have an even length, got shape {shape}")
    half, axis = shape[dim] // 2, dim % len(shape)
    head = (slice(None),) * axis
    return x[(*head, slice(None, half), ...)] * agrad.sigmoid(x[(*head, slice(half, None), ...)])


@of_array
def normalize(x: Any, /, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Return vectors divided by their norms.

    Parameters
    ----------
    x : array of a floating-point dtype
    p : float
        Order of the norm.
    dim : int
        Axis of the vectors.
    eps : float
        Smallest divisor.

    Examples
    --------
    >>> agrad.nn.functional.normalize(np.array([[3.0, 4.0], [0.0, 2.0]])).round(4)
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    return x / agrad.maximum(agrad.linalg.vector_norm(x, axis=dim, keepdims=True, ord=p), eps)


@of_arrays
@real_only
def cosine_similarity(x1: Any, x2: Any, /, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return the cosine of the angle between vectors.

    Parameters
    ----------
    x1, x2 : arrays of shapes that broadcast, and a real floating-point dtype
    dim : int
        Axis of the vectors.
    eps : float
        Smallest norm to divide by.

    Returns
    -------
    array of the broadcast shape without the axis

    Examples
    --------
    >>> x1, x2 = np.array([[3.0, 4.0]]), np.array([[4.0, 3.0]])
    >>> agrad.nn.functional.cosine_similarity(x1, x2).round(4)
    array([0.96])
    """
    dot = agrad.sum(agrad.multiply(x1, x2), axis=dim)
    # the square root of at least eps**2 also has a derivative for a vector of zeros
    squares = [agrad.sum(agrad.square(x), axis=dim) for x in (x1, x2)]
    floor = eps * eps
    norms = [agrad.sqrt(agrad.where(s > floor, s, floor)) for s in squares]
    return dot / (norms[0] * norms[1])


@of_arrays
def pairwise_distance(x1: Any, x2: Any, /, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """Return the norm of ``x1 - x2 + eps`` along the last axis.

    Parameters
    ----------
    x1, x2 : arrays of shapes that broadcast, and a real floating-point dtype
    p : float
        Order of the norm.
    eps : float
        Number added to the differences, so that the derivative exists for equal vectors.
    keepdim : bool
        True to keep the axis with length 1.

    Returns
    -------
    array of the broadcast shape without the last axis

    Examples
    --------
    >>> x1, x2 = np.array([[3.0, 4.0]]), np.zeros((1, 2))
    >>> agrad.nn.functional.pairwise_distance(x1, x2).round(4)
    array([5.])
    """
    return agrad.linalg.vector_norm(agrad.subtract(x1, x2) + eps, axis=-1, ord=p, keepdims=keepdim)


for _name in __all__:
    complete_docstring(globals()[_name], _Shared)
