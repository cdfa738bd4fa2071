"""NumPy's functions that other libraries look up in the namespace of an array, beside those of the standard.

opt_einsum asks the package of an array's class for ``einsum`` and ``transpose``, xarray the array's namespace for
``pad``, ``quantile``, ``cumsum`` and ``gradient``. The face has them by these
names, and loads this module when first asked.
"""

from collections.abc import Sequence
from typing import Any

import agrad
from agrad import Tensor
from agrad.interop.arguments import tensor
from agrad.interop.numpy import answer
from agrad.interop.table import FUNCTIONS, find


def einsum(*operands: Any, out: Tensor | None = None, **settings: Any) -> Tensor:
    """Einstein's sum, as ``numpy.einsum`` takes it: ``einsum("ij,jk->ik", a, b)``; differentiable in the operands.

    Operands are Tensors or arrays of one library. A Tensor given as ``out`` is rebound to the result. Raises
    ``ValueError`` for indices that do not fit the operands' shapes.
    """
    return answer(FUNCTIONS[find("einsum")], operands, settings if out is None else {**settings, "out": out})


def transpose(x: Any, axes: Sequence[int] | None = None, /) -> Tensor:
    """``x`` with its axes in the order ``axes``, reversed without one: ``permute_dims`` by its name in NumPy."""
    x = tensor(x)
    return agrad.permute_dims(x, tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def pad(x: Any, pad_width: Any, mode: Any = "constant", **settings: Any) -> Tensor:
    """``x`` with more elements on its borders, as ``numpy.pad`` takes it and in its modes; differentiable."""
    return answer(FUNCTIONS[find("pad")], (x, pad_width, mode), settings)


def quantile(x: Any, q: Any, **settings: Any) -> Any:
    """The quantiles ``q`` of ``x``, as ``numpy.quantile`` takes them; differentiable in both.

    The derivative by a quantile that is an element of ``x`` is that of the interval above it, and for the greatest
    element below it.
    """
    return answer(FUNCTIONS[find("quantile")], (x, q), settings)


def cumsum(x: Any, axis: int | None = None, **settings: Any) -> Tensor:
    """The running sums along an axis, of the flattened array without one, as ``numpy.cumsum`` takes it."""
    return answer(FUNCTIONS[find("cumsum")], (x, axis), settings)


def gradient(f: Any, *spacing: Any, **settings: Any) -> Any:
    """The differences of neighbours over their distance, as ``numpy.gradient`` takes it; differentiable in ``f``.

    Not the derivative of a function, which is ``agrad.grad``.
    """
    return answer(FUNCTIONS[find("gradient")], (f, *spacing), settings)


__all__ = ["cumsum", "einsum", "gradient", "pad", "quantile", "transpose"]
