"""Convolution layers with the PyTorch names, arguments and initial values."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import agrad
from agrad.errors import ConfigurationError
from agrad.expect import numbers, one_of
from agrad.nn import functional, init
from agrad.nn.module import Module
from agrad.nn.seeding import Rng

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Lengths = int | Sequence[int]
PADDINGS = ("zeros", "reflect", "replicate", "circular")
"""Values around the input of a convolution."""


class _Convolution(Module):
    """Base class of convolution layers."""

    spatial: ClassVar[int]
    transposed: ClassVar[bool] = False

    def _start(
        self, sizes: tuple[int, int, Lengths], groups: int, bias: bool, rng: Rng, place: dict[str, Any], **how: Any
    ) -> None:
        name = type(self).__name__
        padding_mode = one_of(name, "padding_mode", how.pop("padding_mode", "zeros"), PADDINGS)
        (channels,), (rows,), (self.groups,) = (
            numbers(name, what, n, 1, 1)
            for what, n in (("in_channels", sizes[0]), ("out_channels", sizes[1]), ("groups", groups))
        )
        self.in_channels, self.out_channels = channels, rows
        self.kernel_size: tuple[int, ...] = numbers(name, "kernel_size", sizes[2], self.spatial, 1)
        if channels % self.groups or rows % self.groups:
            raise ConfigurationError(
                f"{name}: numbers of channels must be multiples of groups={self.groups}, got {channels} and {rows}"
            )
        self.options = {"groups": self.groups, **how}
        self.padding_mode = padding_mode
        first, second = (channels, rows) if self.transposed else (rows, channels)
        shape = (first, second // self.groups, *self.kernel_size)
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        self.weight = init.parameter(init.uniform(shape, bound, rng), **place)
        self.bias: agrad.Tensor | Any = None
        if bias:
            self.bias = init.parameter(init.uniform((rows,), bound, rng), **place)

    def forward(self, x: Any, /) -> agrad.Tensor:
        """Return the output for an input (n, in_channels, ...) or (in_channels, ...)."""
        options = self.options
        if self.padding_mode != "zeros":
            x, options = functional.pad(x, self._around(), mode=self.padding_mode), {**options, "padding": 0}
        kind = "conv_transpose" if self.transposed else "conv"
        return getattr(functional, f"{kind}{self.spatial}d")(x, self.weight, self.bias, **options)

    def _around(self) -> list[int]:
        """Return the padding before and after each axis, beginning with the last axis."""
        name, padding = type(self).__name__, self.options["padding"]
        if padding == "valid":
            return [0] * (2 * self.spatial)
        if padding == "same":
            steps = numbers(name, "dilation", self.options["dilation"], self.spatial, 1)
            whole = [d * (k - 1) for d, k in zip(steps, self.kernel_size, strict=True)]
            return [part for n in reversed(whole) for part in (n // 2, n - n // 2)]
        return [p for p in reversed(numbers(name, "padding", padding, self.spatial, 0)) for _ in range(2)]

    def settings(self) -> str:
        shown = [f"{name}={value}" for name, value in self.options.items() if value not in (0, 1)]
        shown += [] if self.bias is not None else ["bias=False"]
        shown += [] if self.padding_mode == "zeros" else [f"padding_mode={self.padding_mode!r}"]
        return ", ".join([f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}", *shown])


class _Conv(_Convolution):
    """Base class of convolution layers.

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of input and output channels, multiples of ``groups``.
    kernel_size : int or tuple of int
        Kernel size.
    stride, padding, dilation, groups
        Options of ``functional.conv1d``, ``conv2d`` or ``conv3d``.
    bias : bool
        False for a layer without bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        Padding mode, as for ``functional.pad``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Any = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: Literal["zeros", "reflect", "replicate", "circular"] = "zeros",
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        place = {"dtype": dtype, "backend": backend, "device": device}
        sizes = (in_channels, out_channels, kernel_size)
        how = {"stride": stride, "padding": padding, "dilation": dilation, "padding_mode": padding_mode}
        self._start(sizes, groups, bias, rng, place, **how)


class _ConvTranspose(_Convolution):
    """Base class of transposed convolution layers.

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of input and output channels, multiples of ``groups``.
    kernel_size : int or tuple of int
        Kernel size.
    stride, padding, output_padding, groups, dilation
        Options of ``functional.conv_transpose1d``, ``conv_transpose2d`` or ``conv_transpose3d``.
    bias : bool
        False for a layer without bias.
    """

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Lengths,
        stride: Lengths = 1,
        padding: Lengths = 0,
        output_padding: Lengths = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Lengths = 1,
        *,
        rng: Rng = None,
        dtype: Any = None,
        backend: str | None = None,
        device: Any = None,
    ) -> None:
        place = {"dtype": dtype, "backend": backend, "device": device}
        sizes = (in_channels, out_channels, kernel_size)
        how = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        self._start(sizes, groups, bias, rng, place, **how)


class Conv1d(_Conv):
    """1-D convolution with a learnable weight and bias.

    Inputs have the shape (n, in_channels, l) or (in_channels, l). ``weight`` has the shape (out_channels, in_channels
    // groups, ...), ``bias`` (out_channels,). Initial values are uniform between -b and b, where 1 / b**2 is the
    product of all lengths of ``weight`` except the first.

    Examples
    --------
    >>> layer = agrad.nn.Conv1d(2, 4, kernel_size=3, padding=1)
    >>> layer(np.ones((8, 2, 10), np.float32)).shape, layer.weight.shape
    ((8, 4, 10), (4, 2, 3))
    """

    spatial = 1


class Conv2d(_Conv):
    """2-D convolution of arrays (n, in_channels, h, w) or (in_channels, h, w).

    ``Conv1d`` describes the weight, the bias and their initial values.

    Examples
    --------
    >>> layer = agrad.nn.Conv2d(3, 8, kernel_size=3, stride=2)
    >>> layer(np.ones((1, 3, 11, 11), np.float32)).shape, layer.weight.shape
    ((1, 8, 5, 5), (8, 3, 3, 3))
    """

    spatial = 2


class Conv3d(_Conv):
    """3-D convolution of arrays (n, in_channels, d, h, w) or (in_channels, d, h, w).

    ``Conv1d`` describes the weight, the bias and their initial values.

    Examples
    --------
    >>> agrad.nn.Conv3d(2, 4, kernel_size=(1, 3, 3), padding="same")(np.ones((1, 2, 4, 5, 6), np.float32)).shape
    (1, 4, 4, 5, 6)
    """

    spatial = 3


class ConvTranspose1d(_ConvTranspose):
    """1-D transposed convolution with a learnable weight and bias.

    Inputs have the shape (n, in_channels, l) or (in_channels, l). ``weight`` has the shape (in_channels, out_channels
    // groups, ...), ``bias`` (out_channels,). Initial values are drawn as for ``Conv1d``.

    Examples
    --------
    >>> agrad.nn.ConvTranspose1d(2, 4, kernel_size=2, stride=2)(np.ones((8, 2, 10), np.float32)).shape
    (8, 4, 20)
    """

    spatial = 1


class ConvTranspose2d(_ConvTranspose):
    """2-D transposed convolution, from (n, in_channels, h, w) or (in_channels, h, w).

    ``ConvTranspose1d`` describes the weight, the bias and their initial values.

    Examples
    --------
    >>> layer = agrad.nn.ConvTranspose2d(8, 3, kernel_size=3, stride=2, padding=1, output_padding=1)
    >>> layer(np.ones((1, 8, 5, 5), np.float32)).shape
    (1, 3, 10, 10)
    """

    spatial = 2


class ConvTranspose3d(_ConvTranspose):
    """3-D transposed convolution, from arrays with the axes d, h and w.

    ``ConvTranspose1d`` describes the shapes, the weight, the bias and their initial values.

    Examples
    --------
    >>> agrad.nn.ConvTranspose3d(2, 4, kernel_size=2, stride=2)(np.ones((1, 2, 2, 3, 4), np.float32)).shape
    (1, 4, 4, 6, 8)
    """

    spatial = 3
