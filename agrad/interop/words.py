"""NumPy's functions that libraries look up in the namespace of an array.

opt_einsum asks the package of an array's class for ``einsum`` and ``transpose``, xarray asks the array's namespace for
``pad``, ``quantile``, ``cumsum`` and ``gradient``. ``agrad`` has them by these names, and loads this module when first
asked.
"""

from collections.abc import Sequence
from typing import Any

import agrad.interop.numpy  # noqa: F401 - registers the handlers
from agrad import Tensor
from agrad.interop.table import FUNCTIONS, answer, find


def einsum(*operands: Any, out: Tensor | None = None, **settings: Any) -> Tensor:
    """Return Einstein's sum over indices, as ``numpy.einsum``.

    For example ``einsum("ij,jk->ik", a, b)``. Differentiable in the operands.

    Parameters
    ----------
    *operands : str and arrays
        The indices, then Tensors or arrays of one library.
    out : Tensor, optional
        Rebound to the result.
    **settings : optional
        As of ``numpy.einsum``.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For indices that do not fit the operands' shapes.
    """
    return answer(FUNCTIONS[find("einsum")], operands, settings if out is None else {**settings, "out": out})


def transpose(x: Any, axes: Sequence[int] | None = None, /) -> Tensor:
    """Return an array with its axes in another order.

    As ``numpy.transpose``.

    Parameters
    ----------
    x : array
        Of any shape.
    axes : sequence of ints, optional
        The order of the axes; reversed by default.

    Returns
    -------
    Tensor
    """
    return answer(FUNCTIONS[find("transpose")], (x, axes), {})


def pad(x: Any, pad_width: Any, mode: Any = "constant", **settings: Any) -> Tensor:
    """Return an array with more elements on its borders, as ``numpy.pad``.

    Differentiable, in the modes of ``numpy.pad``.

    Parameters
    ----------
    x : array
        Of any shape.
    pad_width : int or pairs of ints
        How many elements to add before and behind, by axis.
    mode : str
        As of ``numpy.pad``.
    **settings : optional
        As of ``numpy.pad``.

    Returns
    -------
    Tensor
    """
    return answer(FUNCTIONS[find("pad")], (x, pad_width, mode), settings)


def quantile(x: Any, q: Any, **settings: Any) -> Any:
    """Return the quantiles ``q`` of ``x``, as ``numpy.quantile``.

    Differentiable in both. The derivative by a quantile that is an element of ``x`` is that of the interval above it,
    and for the greatest element below it.

    Parameters
    ----------
    x : array
        Of a real floating dtype.
    q : number or array
        From 0 to 1.
    **settings : optional
        As of ``numpy.quantile``.

    Returns
    -------
    Tensor
    """
    return answer(FUNCTIONS[find("quantile")], (x, q), settings)


def cumsum(x: Any, axis: int | None = None, **settings: Any) -> Tensor:
    """Return the running sums along an axis, as ``numpy.cumsum``.

    Parameters
    ----------
    x : array
        Of any shape and a numeric dtype.
    axis : int, optional
        The axis; by default the array is flattened.
    **settings : optional
        As of ``numpy.cumsum``.

    Returns
    -------
    Tensor
    """
    return answer(FUNCTIONS[find("cumsum")], (x, axis), settings)


def gradient(f: Any, *spacing: Any, **settings: Any) -> Any:
    """Return differences of neighbours over their distance.

    As ``numpy.gradient``; differentiable in ``f``. The derivative of a function is ``agrad.grad``.

    Parameters
    ----------
    f : array
        Values at the points of a grid.
    *spacing : numbers or arrays
        The distances or coordinates of the points, by axis.
    **settings : optional
        As of ``numpy.gradient``.

    Returns
    -------
    Tensor or list of Tensors
        Of the shape of ``f``, one for each axis.
    """
    return answer(FUNCTIONS[find("gradient")], (f, *spacing), settings)


__all__ = ["cumsum", "einsum", "gradient", "pad", "quantile", "transpose"]
