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

    For example ``einsum("ij,jk->ik", a, b)``; differentiable in the operands.

    Operands are Tensors or arrays of one library. A Tensor given as ``out`` is rebound to the result. Raises
    ``ValueError`` for indices that do not fit the operands' shapes.
    """
    return answer(FUNCTIONS[find("einsum")], operands, settings if out is None else {**settings, "out": out})


def transpose(x: Any, axes: Sequence[int] | None = None, /) -> Tensor:
    """Return ``x`` with its axes in another order, reversed by default.

    As ``numpy.transpose``.
    """
    return answer(FUNCTIONS[find("transpose")], (x, axes), {})


def pad(x: Any, pad_width: Any, mode: Any = "constant", **settings: Any) -> Tensor:
    """Return ``x`` with more elements on its borders, as ``numpy.pad``.

    Differentiable, in the modes of ``numpy.pad``.
    """
    return answer(FUNCTIONS[find("pad")], (x, pad_width, mode), settings)


def quantile(x: Any, q: Any, **settings: Any) -> Any:
    """Return the quantiles ``q`` of ``x``, as ``numpy.quantile``.

    Differentiable in both.

    The derivative by a quantile that is an element of ``x`` is that of the interval above it, and for the greatest
    element below it.
    """
    return answer(FUNCTIONS[find("quantile")], (x, q), settings)


def cumsum(x: Any, axis: int | None = None, **settings: Any) -> Tensor:
    """Return the running sums along an axis, as ``numpy.cumsum``.

    By default those of the flattened array.
    """
    return answer(FUNCTIONS[find("cumsum")], (x, axis), settings)


def gradient(f: Any, *spacing: Any, **settings: Any) -> Any:
    """Return the differences of neighbours over their distance, as ``numpy.gradient``.

    Differentiable in ``f``. The derivative of a function is ``agrad.grad``.
    """
    return answer(FUNCTIONS[find("gradient")], (f, *spacing), settings)


__all__ = ["cumsum", "einsum", "gradient", "pad", "quantile", "transpose"]
