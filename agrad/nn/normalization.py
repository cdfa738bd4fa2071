"""Normalization layers with PyTorch's names, arguments and initial values."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from agrad.errors import ConfigurationError, ShapeError
from agrad.nn import functional, init
from agrad.nn.functional.convolution import numbers
from agrad.nn.module import Module


def _parameters(module: Any, shape: tuple[int, ...], affine: bool, bias: bool, place: dict[str, Any]) -> None:
    """Set ``weight`` of ones and ``bias`` of zeros, or None."""
    module.weight = init.parameter(np.ones(shape), **place) if affine else None
    module.bias = init.parameter(np.zeros(shape), **place) if affine and bias else None


class LayerNorm(Module):
    """The function ``functional.layer_norm`` with a learnt weight and bias.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The lengths of the last axes.
    eps : float
        A number added to the variance.
    elementwise_affine, bias : bool
        False for no weight and bias, or for no bias.
    dtype : dtype or None
        The dtype of the parameters, by default float32.
    backend : str or None
        Their backend, by default the selected one.
    device : device or None
        Their device, by default that of the backend.
    """

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
        self.normalized_shape = numbers("LayerNorm", "normalized_shape", normalized_shape, count, 1)
        self.eps = eps
        place = {"dtype": dtype, "backend": backend, "device": device}
        _parameters(self, self.normalized_shape, elementwise_affine, bias, place)

    def forward(self, x: Any, /) -> Any:
        """Return the normalized array.

        Parameters
        ----------
        x : array
            Array of shape (..., *normalized_shape).

        Returns
        -------
        array
            Array of the same shape.
        """
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def settings(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """The function ``functional.rms_norm`` with a learnt weight.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The lengths of the last axes.
    eps : float, optional
        A number added to the mean square, by default the dtype's resolution.
    elementwise_affine : bool
        False for no weight.
    dtype : dtype or None
        The dtype of the weight, by default float32.
    backend : str or None
        Its backend, by default the selected one.
    device : device or None
        Its device, by default that of the backend.
    """

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
        self.normalized_shape = numbers("RMSNorm", "normalized_shape", normalized_shape, count, 1)
        self.eps = eps
        place = {"dtype": dtype, "backend": backend, "device": device}
        self.weight = init.parameter(np.ones(self.normalized_shape), **place) if elementwise_affine else None

    def forward(self, x: Any, /) -> Any:
        """Return the normalized array.

        Parameters
        ----------
        x : array
            Array of shape (..., *normalized_shape).

        Returns
        -------
        array
            Array of the same shape.
        """
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def settings(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """The function ``functional.group_norm`` with a learnt weight and bias.

    Parameters
    ----------
    num_groups : int
        The groups of channels.
    num_channels : int
        The length of the second axis, a multiple of ``num_groups``.
    eps : float
        A number added to the variance.
    affine : bool
        False for no weight and bias.
    dtype : dtype or None
        The dtype of the parameters, by default float32.
    backend : str or None
        Their backend, by default the selected one.
    device : device or None
        Their device, by default that of the backend.
    """

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
        (self.num_groups,) = numbers("GroupNorm", "num_groups", num_groups, 1, 1)
        (self.num_channels,) = numbers("GroupNorm", "num_channels", num_channels, 1, 1)
        if self.num_channels % self.num_groups:
            raise ConfigurationError(f"GroupNorm: num_channels={num_channels} is a multiple of num_groups={num_groups}")
        self.eps = eps
        place = {"dtype": dtype, "backend": backend, "device": device}
        _parameters(self, (self.num_channels,), affine, True, place)

    def forward(self, x: Any, /) -> Any:
        """Return the normalized array.

        Parameters
        ----------
        x : array
            Array of shape (n, num_channels, ...).

        Returns
        -------
        array
            Array of the same shape.
        """
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def settings(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _BatchNorm(Module):
    """A batch normalization of arrays of certain numbers of axes."""

    ndims: ClassVar[tuple[int, ...]]

    def torch_counts(self) -> dict[str, int]:
        return {} if self.running_mean is None else {"num_batches_tracked": 0}

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        name = type(self).__name__
        (self.num_features,) = numbers(name, "num_features", num_features, 1, 1)
        if not isinstance(momentum, (int, float)) or not 0 <= momentum <= 1:
            raise ConfigurationError(f"{name}: momentum is a number from 0 to 1, not {momentum!r}")
        self.eps, self.momentum = eps, momentum
        place = {"dtype": dtype, "backend": backend, "device": device}
        _parameters(self, (self.num_features,), affine, True, place)
        mean, variance = (init.parameter(np.full(self.num_features, n), **place).detach() for n in (0.0, 1.0))
        self.running_mean = mean if track_running_stats else None
        self.running_var = variance if track_running_stats else None

    def forward(self, x: Any, /) -> Any:
        """Return the normalized array, and in training change the running values.

        Parameters
        ----------
        x : array
            Array of shape (n, num_features, ...).

        Returns
        -------
        array
            Array of the same shape.

        Raises
        ------
        ShapeError
            For an array of other axes.
        """
        if len(x.shape) not in self.ndims:
            axes = " or ".join(map(str, self.ndims))
            raise ShapeError(f"{type(self).__name__} takes an array of {axes} axes, not of shape {tuple(x.shape)}")
        training = self.training or self.running_mean is None
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, training, self.momentum, self.eps
        )

    def settings(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Batch normalization of arrays of shape (n, c) or (n, c, l).

    It is ``functional.batch_norm`` with a learnt weight and bias, and with running values that training changes.

    Parameters
    ----------
    num_features : int
        The channels, the length of the second axis.
    eps : float
        A number added to the variance.
    momentum : float
        The part of a batch's values in the new running ones.
    affine : bool
        False for no weight and bias.
    track_running_stats : bool
        False to take mean and variance of each batch in evaluation too.
    dtype : dtype or None
        The dtype of parameters and buffers, by default float32.
    backend : str or None
        Their backend, by default the selected one.
    device : device or None
        Their device, by default that of the backend.
    """

    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of arrays of shape (n, c, h, w).

    It is ``functional.batch_norm`` with a learnt weight and bias, and with running values that training changes.

    Parameters
    ----------
    num_features : int
        The channels, the length of the second axis.
    eps : float
        A number added to the variance.
    momentum : float
        The part of a batch's values in the new running ones.
    affine : bool
        False for no weight and bias.
    track_running_stats : bool
        False to take mean and variance of each batch in evaluation too.
    dtype : dtype or None
        The dtype of parameters and buffers, by default float32.
    backend : str or None
        Their backend, by default the selected one.
    device : device or None
        Their device, by default that of the backend.
    """

    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of arrays of shape (n, c, d, h, w).

    It is ``functional.batch_norm`` with a learnt weight and bias, and with running values that training changes.

    Parameters
    ----------
    num_features : int
        The channels, the length of the second axis.
    eps : float
        A number added to the variance.
    momentum : float
        The part of a batch's values in the new running ones.
    affine : bool
        False for no weight and bias.
    track_running_stats : bool
        False to take mean and variance of each batch in evaluation too.
    dtype : dtype or None
        The dtype of parameters and buffers, by default float32.
    backend : str or None
        Their backend, by default the selected one.
    device : device or None
        Their device, by default that of the backend.
    """

    ndims = (5,)
