"""Layers that unfold windows, rearrange channels and pixels, and upsample."""

from collections.abc import Sequence

from agrad.nn import functional
from agrad.nn.function_module import FunctionModule
from agrad.nn.functional.interpolation import Mode

__all__ = [
    "ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip

Lengths = int | Sequence[int]
Factors = float | Sequence[float]


class Unfold(FunctionModule, function=functional.unfold):
    """Sliding windows of images as columns, see ``functional.unfold``.

    Examples
    --------
    >>> agrad.nn.Unfold((2, 2))(np.arange(9.0).reshape(1, 1, 3, 3))[0]
    array([[0., 1., 3., 4.],
           [1., 2., 4., 5.],
           [3., 4., 6., 7.],
           [4., 5., 7., 8.]])
    """

    kernel_size: Lengths
    dilation: Lengths = 1
    padding: Lengths = 0
    stride: Lengths = 1


class Fold(FunctionModule, function=functional.fold):
    """Images as sums of sliding windows, see ``functional.fold``.

    Examples
    --------
    >>> agrad.nn.Fold((3, 3), (2, 2))(np.ones((1, 4, 4)))[0, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]])
    """

    output_size: Lengths
    kernel_size: Lengths
    dilation: Lengths = 1
    padding: Lengths = 0
    stride: Lengths = 1


class PixelShuffle(FunctionModule, function=functional.pixel_shuffle):
    """Upscaling that rearranges channels, see ``functional.pixel_shuffle``.

    Parameters
    ----------
    upscale_factor : int
        Factor of height and width.

    Examples
    --------
    >>> agrad.nn.PixelShuffle(2)(np.array([[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]))[0, 0]
    array([[1., 2.],
           [3., 4.]])
    """

    upscale_factor: int


class PixelUnshuffle(FunctionModule, function=functional.pixel_unshuffle):
    """Downscaling that rearranges pixels, see ``functional.pixel_unshuffle``.

    Parameters
    ----------
    downscale_factor : int
        Divisor of height and width.

    Examples
    --------
    >>> agrad.nn.PixelUnshuffle(2)(np.array([[[[1.0, 2.0], [3.0, 4.0]]]])).ravel()
    array([1., 2., 3., 4.])
    """

    downscale_factor: int


class ChannelShuffle(FunctionModule, function=functional.channel_shuffle):
    """Interleaved groups of channels, see ``functional.channel_shuffle``.

    Parameters
    ----------
    groups : int
        Number of groups of channels.

    Examples
    --------
    >>> agrad.nn.ChannelShuffle(2)(np.array([[[1.0], [2.0], [3.0], [4.0]]])).ravel()
    array([1., 3., 2., 4.])
    """

    groups: int


class Upsample(FunctionModule, function=functional.interpolate):
    """Upsampling of images, see ``functional.interpolate``.

    Examples
    --------
    >>> agrad.nn.Upsample(scale_factor=2)(np.array([[[1.0, 2.0]]]))
    array([[[1., 1., 2., 2.]]])
    >>> agrad.nn.Upsample(size=3, mode="linear", align_corners=True)(np.array([[[1.0, 2.0]]]))
    array([[[1. , 1.5, 2. ]]])
    """

    size: Lengths | None = None
    scale_factor: Factors | None = None
    mode: Mode = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None


class UpsamplingNearest2d(FunctionModule, function=functional.interpolate):
    """Nearest-neighbor upsampling of images, see ``functional.interpolate``.

    Examples
    --------
    >>> agrad.nn.UpsamplingNearest2d(scale_factor=2)(np.array([[[[1.0, 2.0]]]]))[0, 0]
    array([[1., 1., 2., 2.],
           [1., 1., 2., 2.]])
    """

    def __init__(self, size: Lengths | None = None, scale_factor: Factors | None = None) -> None:
        self.size: Lengths | None = size
        self.scale_factor: Factors | None = scale_factor
        self.mode: str = "nearest"


class UpsamplingBilinear2d(FunctionModule, function=functional.interpolate):
    """Bilinear upsampling of images with aligned corners.

    Examples
    --------
    >>> agrad.nn.UpsamplingBilinear2d(size=(2, 3))(np.array([[[[0.0, 1.0], [2.0, 3.0]]]]))[0, 0]
    array([[0. , 0.5, 1. ],
           [2. , 2.5, 3. ]])
    """

    def __init__(self, size: Lengths | None = None, scale_factor: Factors | None = None) -> None:
        self.size: Lengths | None = size
        self.scale_factor: Factors | None = scale_factor
        self.mode: str = "bilinear"
        self.align_corners: bool = True
