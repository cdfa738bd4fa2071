"""NumPy functions that other libraries look up in the namespace of an array.

opt_einsum uses ``einsum`` and ``transpose`` from the package of the array class. xarray uses ``pad``, ``quantile``,
``cumsum``, ``gradient`` and ``lib.stride_tricks.sliding_window_view`` from the namespace of the array. ``agrad``
defines these names; their first use loads this module.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import agrad.interop.numpy  # noqa: F401 - registers the handlers
from agrad import Tensor
from agrad.interop.table import FUNCTIONS, answer, find

lib: SimpleNamespace = SimpleNamespace(
    stride_tricks=SimpleNamespace(sliding_window_view=np.lib.stride_tricks.sliding_window_view)
)
"""The part of ``numpy.lib`` that NumPy dispatches on Tensors and xarray looks up."""


def einsum(*operands: Any, out: Tensor | None = None, **settings: Any) -> Tensor:
    """Sum products of the operands over indices, by Einstein's convention.

    As ``numpy.einsum``: ``einsum("ij,jk->ik", a, b)`` is a matrix product. Differentiable in the operands.

    Parameters
    ----------
    *operands : str and arrays
        The indices and the arrays of one library, or arrays and lists of indices in turn.
    out : Tensor, optional
        A Tensor that is rebound to the result.
    **settings : object
        Other keyword arguments of ``numpy.einsum``: ``optimize``, ``dtype``.

    Returns
    -------
    Tensor
        With an axis for each index of the result.

    Raises
    ------
    ValueError
        If the indices do not fit the shapes of the operands.
    DetachError
        If ``out`` is an array of another class and the result has a gradient.

    Examples
    --------
    >>> agrad.einsum("ij,j->i", agrad.asarray([[1.0, 2.0], [3.0, 4.0]]), agrad.asarray([1.0, 10.0]))
    Tensor([21.0, 43.0], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda a: agrad.einsum("ii", a))(agrad.ones((2, 2)))
    Tensor([[1.0, 0.0],
            [0.0, 1.0]], dtype=float64, backend=numpy, device=cpu)
    """
    return answer(FUNCTIONS[find("einsum")], operands, settings if out is None else {**settings, "out": out})


def transpose(x: Any, axes: Sequence[int] | None = None, /) -> Tensor:
    """Permute the axes of an array, as ``numpy.transpose``.

    Parameters
    ----------
    x : array
        Array of any shape and dtype.
    axes : sequence of int, optional
        The axes in their new order. By default they are reversed.

    Returns
    -------
    Tensor
        ``x`` with its axes in that order.

    Raises
    ------
    ShapeError
        If ``axes`` is not a permutation of the axes.

    Examples
    --------
    >>> agrad.transpose(agrad.asarray([[1, 2, 3], [4, 5, 6]]))
    Tensor([[1, 4],
            [2, 5],
            [3, 6]], dtype=int64, backend=numpy, device=cpu)
    """
    return answer(FUNCTIONS[find("transpose")], (x, axes), {})


def pad(x: Any, pad_width: Any, mode: Any = "constant", **settings: Any) -> Tensor:
    """Add elements at the ends of the axes, as ``numpy.pad``.

    Differentiable in ``x`` and in the values of ``settings``.

    Parameters
    ----------
    x : array
        Array of any shape and dtype.
    pad_width : int, sequence of pairs of ints, or dict
        The numbers of elements before and after each axis.
    mode : str
        A mode of ``numpy.pad`` that is named by a string, except "empty".
    **settings : object
        Keyword arguments of the mode: ``constant_values``, ``end_values``, ``stat_length``, ``reflect_type``.

    Returns
    -------
    Tensor
        ``x`` with wider axes, in its dtype.

    Raises
    ------
    RefusedFunctionError
        If the mode is a function or "empty".
    ValueError
        If a keyword argument does not belong to the mode.

    Examples
    --------
    >>> agrad.pad(agrad.asarray([1.0, 2.0]), (1, 2))
    Tensor([0.0, 1.0, 2.0, 0.0, 0.0], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda x: agrad.sum(agrad.pad(x, 2, mode="edge")))(agrad.asarray([1.0, 2.0]))
    Tensor([3.0, 3.0], dtype=float64, backend=numpy, device=cpu)
    """
    return answer(FUNCTIONS[find("pad")], (x, pad_width, mode), settings)


def quantile(x: Any, q: Any, **settings: Any) -> Any:
    """Compute quantiles, as ``numpy.quantile``.

    Differentiable with respect to ``x`` and ``q``. If a quantile is an element of ``x``, its derivative with respect to
    ``q`` is the derivative of the interval above it, or below it for the largest element.

    Parameters
    ----------
    x : array
        Array of a real dtype.
    q : float or array
        The probabilities, between 0 and 1.
    **settings : object
        Other keyword arguments of ``numpy.quantile``: ``axis``, ``method``, ``keepdims``, ``out``.

    Returns
    -------
    Tensor
        The shape of ``q``, followed by the axes of ``x`` that are not reduced.

    Raises
    ------
    TypeError
        If ``x`` is complex.
    ValueError
        If a probability lies outside of 0 and 1.

    Notes
    -----
    For the interpolation methods, see Hyndman and Fan, Sample quantiles in statistical packages, 1996.

    Examples
    --------
    >>> agrad.quantile(agrad.asarray([1.0, 4.0, 2.0]), 0.75)
    Tensor(3.0, dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda x: agrad.quantile(x, 0.75))(agrad.asarray([1.0, 4.0, 2.0]))
    Tensor([0.0, 0.5, 0.5], dtype=float64, backend=numpy, device=cpu)
    """
    return answer(FUNCTIONS[find("quantile")], (x, q), settings)


def cumsum(x: Any, axis: int | None = None, **settings: Any) -> Tensor:
    """Compute running sums along an axis, as ``numpy.cumsum``.

    Parameters
    ----------
    x : array
        Array of a numeric or Boolean dtype.
    axis : int, optional
        The axis. By default the array is flattened.
    **settings : object
        Other keyword arguments of ``numpy.cumsum``: ``dtype``, ``out``.

    Returns
    -------
    Tensor
        The shape of ``x``, flattened without ``axis``.

    Raises
    ------
    numpy.exceptions.AxisError
        If ``x`` has no such axis.

    Examples
    --------
    >>> agrad.cumsum(agrad.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([[1.0, 2.0],
            [4.0, 6.0]], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.grad(lambda x: agrad.sum(agrad.cumsum(x)))(agrad.asarray([1.0, 2.0, 3.0]))
    Tensor([3.0, 2.0, 1.0], dtype=float64, backend=numpy, device=cpu)
    """
    return answer(FUNCTIONS[find("cumsum")], (x, axis), settings)


def gradient(f: Any, *spacing: Any, **settings: Any) -> Any:
    """Compute differences of neighbors over their distance, as ``numpy.gradient``.

    Differentiable in ``f`` and ``spacing``. The derivative of a function is ``agrad.grad``.

    Parameters
    ----------
    f : array
        Values at the points of a grid.
    *spacing : float or array
        The distance of neighbors, or the coordinates of the points, for all axes or for each. By default 1.
    **settings : object
        Other keyword arguments of ``numpy.gradient``: ``axis``, ``edge_order``.

    Returns
    -------
    Tensor or tuple of Tensors
        Derivatives along each axis, with the shape of ``f``.

    Raises
    ------
    ValueError
        If an axis is too short, or the coordinates do not fit it.
    TypeError
        If the number of spacings does not fit the axes.

    Notes
    -----
    Central differences, one-sided at the ends: Fornberg, Generation of finite difference formulas on arbitrarily
    spaced grids, 1988.

    Examples
    --------
    >>> agrad.gradient(agrad.asarray([1.0, 2.0, 4.0, 8.0]))
    Tensor([1.0, 1.5, 3.0, 4.0], dtype=float64, backend=numpy, device=cpu)
    """
    return answer(FUNCTIONS[find("gradient")], (f, *spacing), settings)
