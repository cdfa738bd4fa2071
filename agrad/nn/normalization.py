"""Normalization layers with the PyTorch names, arguments and initial values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError
from agrad.expect import numbers
from agrad.nn import functional, init
from agrad.nn.function_module import FunctionModule
from agrad.nn.module import ArrayModule

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def affine_parameters(module: Any, shape: tuple[int, ...], affine: bool, bias: bool, place: dict[str, Any]) -> None:
    """Set ``weight`` to ones and ``bias`` to zeros, or to None."""
    module.weight = init.parameter(np.ones(shape), **place) if affine else None
    module.bias = init.parameter(np.zeros(shape), **place) if affine and bias else None


class LayerNorm(ArrayModule):
    """Layer normalization with a learnable weight and bias.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Lengths of the last axes.
    eps : float
        Number added to the variance for numerical stability.
    elementwise_affine, bias : bool
        False for a layer without weight and bias, or without bias.

    Examples
    --------
    >>> layer = agrad.nn.LayerNorm(2)
    >>> y = layer(np.array([[1.0, 3.0], [10.0, 30.0]]))
    >>> y.detach().round(3)
    Tensor([[-1.0,  1.0],
            [-1.0,  1.0]], dtype=float64, backend=numpy, device=cpu)
    >>> y[:, 1].sum().backward()
    >>> layer.weight.grad.round(3)
    Tensor([0.0, 2.0], dtype=float32, backend=numpy, device=cpu)
    """

    weight: agrad.Tensor | Any
    bias: agrad.Tensor | Any

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        count = len(normalized_shape) if isinstance(normalized_shape, Sequence) else 1
        self.normalized_shape: tuple[int, ...] = numbers("LayerNorm", "normalized_shape", normalized_shape, count, 1)
        self.eps = eps
        place = {"dtype": dtype, "backend": backend, "device": device}
        affine_parameters(self, self.normalized_shape, elementwise_affine, bias, place)

    def forward(self, x: Any, /) -> Any:
        """Normalize an array of shape ``(..., *normalized_shape)``."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def settings(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(ArrayModule):
    """RMS normalization with a learnable weight.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Lengths of the last axes.
    eps : float, optional
        Number added to the mean square. By default, the resolution of the dtype.
    elementwise_affine : bool
        False for a layer without weight.

    Examples
    --------
    >>> agrad.nn.RMSNorm(2)(np.array([[1.0, 7.0]])).detach().round(3)
    Tensor([[0.2, 1.4]], dtype=float64, backend=numpy, device=cpu)
    """

    weight: agrad.Tensor | Any

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        count = len(normalized_shape) if isinstance(normalized_shape, Sequence) else 1
        self.normalized_shape: tuple[int, ...] = numbers("RMSNorm", "normalized_shape", normalized_shape, count, 1)
        self.eps = eps
        place = {"dtype": dtype, "backend": backend, "device": device}
        self.weight = init.parameter(np.ones(self.normalized_shape), **place) if elementwise_affine else None

    def forward(self, x: Any, /) -> Any:
        """Normalize an array of shape ``(..., *normalized_shape)``."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def settings(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(ArrayModule):
    """Group normalization with a learnable weight and bias.

    Parameters
    ----------
    num_groups : int
        Number of groups of channels.
    num_channels : int
        Length of the second axis, a multiple of ``num_groups``.
    eps : float
        Number added to the variance for numerical stability.
    affine : bool
        False for a layer without weight and bias.

    Examples
    --------
    >>> agrad.nn.GroupNorm(2, 4)(np.array([[1.0, 3.0, 10.0, 30.0]])).detach().round(3)
    Tensor([[-1.0,  1.0, -1.0,  1.0]], dtype=float64, backend=numpy, device=cpu)
    """

    weight: agrad.Tensor | Any
    bias: agrad.Tensor | Any

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        self.num_groups: int = numbers("GroupNorm", "num_groups", num_groups, 1, 1)[0]
        self.num_channels: int = numbers("GroupNorm", "num_channels", num_channels, 1, 1)[0]
        if self.num_channels % self.num_groups:
            raise ConfigurationError(
                f"GroupNorm: num_channels must be a multiple of num_groups={num_groups}, got {num_channels}"
            )
        self.eps = eps
        place = {"dtype": dtype, "backend": backend, "device": device}
        affine_parameters(self, (self.num_channels,), affine, True, place)

    def forward(self, x: Any, /) -> Any:
        """Normalize an array of shape (n, num_channels, ...)."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def settings(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class LocalResponseNorm(FunctionModule, function=functional.local_response_norm):
    """Local response normalization, see ``functional.local_response_norm``.

    Examples
    --------
    >>> agrad.nn.LocalResponseNorm(1, alpha=1.0, beta=1.0)(np.array([[[1.0], [2.0]]])).round(4)
    array([[[0.5],
            [0.4]]])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0
