"""einops on Tensors: the backend that einops finds among the subclasses of its ``AbstractBackend``.

Loaded when einops is (see ``agrad.arrival``), so nothing has to be imported for it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

import agrad
from agrad import Tensor


class AgradBackend(AbstractBackend):
    """What einops asks of an array library, in agrad's functions: differentiable, on every backend."""

    framework_name = "agrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether an array is a Tensor."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        """An array of NumPy's as a constant Tensor on the selected backend."""
        return agrad.asarray(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        """The values; raises ``DetachError`` for a Tensor that requires a gradient."""
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """The whole numbers from ``start`` up to ``stop``."""
        return agrad.arange(start, stop)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """``x`` in another shape."""
        return agrad.reshape(x, tuple(shape))

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """``x`` with its axes in another order."""
        return agrad.permute_dims(x, tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """``x`` reduced over ``axes`` by the standard's function of the name ``operation``."""
        return getattr(agrad, operation)(x, axis=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Tensor:
        """Tensors of one shape along a new axis in front."""
        return agrad.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """``x`` with an axis of length 1 more."""
        return agrad.expand_dims(x, axis=new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """``x`` repeated along each axis, which einops asks for axes of length 1 alone."""
        return agrad.tile(x, tuple(repeats))

    def concat(self, tensors: list[Any], axis: int) -> Tensor:
        """Tensors one after the other along an axis."""
        return agrad.concat(tensors, axis=axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Whether means may be taken."""
        return bool(agrad.isdtype(x.dtype, ("real floating", "complex floating")))

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """The sum over the indices that a pattern names."""
        return agrad.einsum(pattern, *x)
