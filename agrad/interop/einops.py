"""einops on Tensors: a subclass of its ``AbstractBackend``.

einops searches the subclasses of that class. This module is loaded with einops, by ``agrad.arrival``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from einops._backends import AbstractBackend

import agrad
from agrad import Tensor


class AgradBackend(AbstractBackend):
    """Differentiable backend of einops."""

    framework_name = "agrad"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Return True for a Tensor."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        """Return a NumPy array as a constant Tensor on the selected backend."""
        return agrad.asarray(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        """Return the values. Raises ``DetachError`` if a gradient is required."""
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """Return the integers from ``start`` up to ``stop``."""
        return agrad.arange(start, stop)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return ``x`` in another shape."""
        return agrad.reshape(x, tuple(shape))

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return ``x`` with its axes in another order."""
        return agrad.permute_dims(x, tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """Reduce ``x`` over ``axes`` by the standard's function named ``operation``."""
        return getattr(agrad, operation)(x, axis=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Tensor:
        """Join Tensors of one shape along a new axis in front."""
        return agrad.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """Insert an axis of length 1."""
        return agrad.expand_dims(x, axis=new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """Repeat ``x`` along each axis; einops repeats only axes of length 1."""
        return agrad.tile(x, tuple(repeats))

    def concat(self, tensors: list[Any], axis: int) -> Tensor:
        """Join Tensors along an axis."""
        return agrad.concat(tensors, axis=axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Return True for a floating dtype, real or complex."""
        return bool(agrad.isdtype(x.dtype, ("real floating", "complex floating")))

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """Return the sum over indices that a pattern describes."""
        return agrad.einsum(pattern, *x)
