"""Batch and instance normalization layers, with running statistics."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import agrad
from agrad.engine.scalars import mark_state_used
from agrad.errors import ShapeError
from agrad.expect import numbers, share
from agrad.nn import functional, init
from agrad.nn.module import ArrayModule
from agrad.nn.normalization import affine_parameters

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _RunningNorm(ArrayModule):
    """Normalization of channels, with running statistics and the number of batches."""

    weight: agrad.Tensor | Any
    bias: agrad.Tensor | Any

    traced_attributes: ClassVar[tuple[str, ...]] = ("num_batches_tracked",)
    ndims: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        place: dict[str, Any],
    ) -> None:
        name = type(self).__name__
        (self.num_features,) = numbers(name, "num_features", num_features, 1, 1)
        if momentum is not None:
            share(name, "momentum", momentum)
        self.eps, self.momentum = eps, momentum
        affine_parameters(self, (self.num_features,), affine, True, place)
        mean, variance = (init.parameter(np.full(self.num_features, n), **place).detach() for n in (0.0, 1.0))
        self.running_mean = mean if track_running_stats else None
        self.running_var = variance if track_running_stats else None
        self.num_batches_tracked = 0

    def check(self, x: Any, channels: int) -> None:
        """Raise ``ShapeError`` for other axes, or another length of axis ``channels``."""
        shape = tuple(x.shape)
        if len(shape) not in self.ndims:
            axes = " or ".join(map(str, self.ndims))
            raise ShapeError(f"{type(self).__name__}: x must have {axes} axes, got shape {shape}")
        if shape[channels] != self.num_features:
            raise ShapeError(f"{type(self).__name__}: x must have {self.num_features} channels, got shape {shape}")

    def host_state(self) -> dict[str, int]:
        return {} if self.running_mean is None else {"num_batches_tracked": self.num_batches_tracked}

    def load_host_state(self, state: Mapping[str, int]) -> None:
        self.num_batches_tracked = state["num_batches_tracked"]

    def note_running(self) -> None:
        """Save the running statistics and their count, from which a checkpoint recomputes."""
        agrad.note_state(self, self._running, self._load_running)

    def _running(self) -> tuple[int, list[tuple[agrad.Tensor, Any]]]:
        tensors = [t for t in (self.running_mean, self.running_var) if isinstance(t, agrad.Tensor)]
        return self.num_batches_tracked, [(tensor, tensor.data) for tensor in tensors]

    def _load_running(self, state: tuple[int, list[tuple[agrad.Tensor, Any]]]) -> None:
        self.num_batches_tracked, values = state
        for tensor, data in values:
            tensor.assign(data)

    def torch_counts(self) -> dict[str, int]:
        return self.host_state()

    def settings(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class _BatchNorm(_RunningNorm):
    """Base class of batch normalization.

    Parameters
    ----------
    num_features : int
        Number of channels, the length of the second axis.
    eps : float
        Number added to the variance for numerical stability.
    momentum : float, optional
        Weight of the current batch in the running statistics. None for the mean over all training batches.
    affine : bool
        False for a layer without weight and bias.
    track_running_stats : bool
        False to use the mean and variance of each batch in evaluation as well.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        place = {"dtype": dtype, "backend": backend, "device": device}
        super().__init__(num_features, eps, momentum, affine, track_running_stats, place)

    def forward(self, x: Any, /) -> Any:
        """Return (n, num_features, ...) normalized; training updates the statistics."""
        self.check(x, 1)
        arrays = (x, self.running_mean, self.running_var, self.weight, self.bias)
        if not self.training or self.running_mean is None:
            return functional.batch_norm(*arrays, self.running_mean is None, eps=self.eps)
        mark_state_used(self)
        self.note_running()
        count = self.num_batches_tracked + 1
        momentum = 1.0 / count if self.momentum is None else self.momentum
        result = functional.batch_norm(*arrays, True, momentum, self.eps)
        self.num_batches_tracked = count
        return result


class _InstanceNorm(_RunningNorm):
    """Base class of instance normalization.

    Parameters
    ----------
    num_features : int
        Number of channels.
    eps : float
        Number added to the variance for numerical stability.
    momentum : float
        Weight of the current batch in the running statistics.
    affine : bool
        True for a learnable weight and bias.
    track_running_stats : bool
        True to track running statistics and use them in evaluation.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        share(type(self).__name__, "momentum", momentum)
        place = {"dtype": dtype, "backend": backend, "device": device}
        super().__init__(num_features, eps, momentum, affine, track_running_stats, place)

    def forward(self, x: Any, /) -> Any:
        """Return ([n,] num_features, ...) normalized; training updates the statistics."""
        single = len(x.shape) == self.ndims[0]
        self.check(x, 0 if single else 1)
        if self.training and self.running_mean is not None:
            self.note_running()
        result = functional.instance_norm(
            agrad.expand_dims(x, axis=0) if single else x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            self.momentum,
            self.eps,
        )
        return agrad.squeeze(result, axis=0) if single else result


class BatchNorm1d(_BatchNorm):
    """Batch normalization of arrays of shape (n, c) or (n, c, l).

    It calls ``functional.batch_norm`` with a learnable weight and bias, and updates running statistics in training.

    Examples
    --------
    >>> layer = agrad.nn.BatchNorm1d(2)
    >>> layer(np.array([[1.0, 10.0], [3.0, 30.0]])).detach().round(3)
    Tensor([[-1.0, -1.0],
            [ 1.0,  1.0]], dtype=float64, backend=numpy, device=cpu)
    >>> layer.running_mean
    Tensor([0.2, 2.0], dtype=float32, backend=numpy, device=cpu)
    """

    ndims: ClassVar[tuple[int, ...]] = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of arrays of shape (n, c, h, w), as in ``BatchNorm1d``.

    Examples
    --------
    >>> y = agrad.nn.BatchNorm2d(3)(np.random.default_rng(0).normal(5.0, 2.0, (4, 3, 8, 8)))
    >>> y.mean(axis=(0, 2, 3)).detach().round(6) + 0.0
    Tensor([0.0, 0.0, 0.0], dtype=float64, backend=numpy, device=cpu)
    """

    ndims: ClassVar[tuple[int, ...]] = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of arrays of shape (n, c, d, h, w), as in ``BatchNorm1d``.

    Examples
    --------
    >>> agrad.nn.BatchNorm3d(3)(np.ones((4, 3, 2, 5, 5))).shape
    (4, 3, 2, 5, 5)
    """

    ndims: ClassVar[tuple[int, ...]] = (5,)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of arrays of shape (n, c, l) or (c, l).

    It calls ``functional.instance_norm``, optionally with a learnable weight and bias or with running statistics.

    Examples
    --------
    >>> agrad.nn.InstanceNorm1d(2)(np.array([[[1.0, 3.0], [10.0, 30.0]]])).round(3)
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """

    ndims: ClassVar[tuple[int, ...]] = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (n, c, h, w) or (c, h, w), as in ``InstanceNorm1d``.

    Examples
    --------
    >>> y = agrad.nn.InstanceNorm2d(3)(np.random.default_rng(0).normal(5.0, 2.0, (2, 3, 8, 8)))
    >>> y.std(axis=(2, 3)).round(3)
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """

    ndims: ClassVar[tuple[int, ...]] = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (n, c, d, h, w) or (c, d, h, w).

    It differs from ``InstanceNorm1d`` only in the number of axes.

    Examples
    --------
    >>> agrad.nn.InstanceNorm3d(3)(np.ones((4, 3, 2, 5, 5))).shape
    (4, 3, 2, 5, 5)
    """

    ndims: ClassVar[tuple[int, ...]] = (4, 5)
