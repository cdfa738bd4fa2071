"""Padding layers with the PyTorch names and arguments."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from agrad.errors import ConfigurationError
from agrad.nn import functional
from agrad.nn.functional.real import check_spatial
from agrad.nn.module import ArrayModule

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

Widths = int | Sequence[int]


class _Pad(ArrayModule):
    """Base class of padding layers, which call ``functional.pad``.

    Parameters
    ----------
    padding : int or tuple of int
        Numbers of elements to add, (left, right, top, bottom, front, back), or one number for all sides. A layer for
        fewer axes has fewer numbers. A negative number removes elements.
    """

    spatial: ClassVar[int] = 0
    mode: ClassVar[str] = ""

    def __init_subclass__(cls, *, spatial: int | None = None, mode: str | None = None, **options: Any) -> None:
        cls.spatial, cls.mode = spatial or cls.spatial, mode or cls.mode
        super().__init_subclass__(**options)

    def __init__(self, padding: Widths) -> None:
        count = 2 * self.spatial
        found = tuple(padding) if isinstance(padding, Sequence) else (padding,) * count
        if len(found) != count or not all(isinstance(n, (int, np.integer)) for n in found):
            raise ConfigurationError(f"{type(self).__name__}: padding must be an int or {count} ints, got {padding!r}")
        self.padding: tuple[int, ...] = tuple(map(int, found))
        self.value: float | None = None

    def forward(self, x: Any, /) -> Any:
        """Pad an array of shape (n, c, ...) or (c, ...)."""
        if len(x.shape) not in (self.spatial + 1, self.spatial + 2):
            check_spatial(type(self).__name__, x, self.spatial)
        return functional.pad(x, self.padding, self.mode, self.value)

    def settings(self) -> str:
        return f"{self.padding}" + ("" if self.value is None else f", value={self.value!r}")


class _ConstantPad(_Pad):
    """Base class of padding with a constant.

    Parameters
    ----------
    value : float
        Value of the added elements.
    """

    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad1d(_ConstantPad, spatial=1, mode="constant"):
    """Padding of the last axis with a constant.

    Examples
    --------
    >>> agrad.nn.ConstantPad1d((1, 2), 9.0)(np.array([[1.0, 2.0, 3.0]]))
    array([[9., 1., 2., 3., 9., 9.]])
    """


class ConstantPad2d(_ConstantPad, spatial=2, mode="constant"):
    """Padding of the last two axes with a constant.

    Examples
    --------
    >>> agrad.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    array([[[9., 1., 2.],
            [9., 3., 4.],
            [9., 9., 9.]]])
    """


class ConstantPad3d(_ConstantPad, spatial=3, mode="constant"):
    """Padding of the last three axes with a constant.

    Examples
    --------
    >>> agrad.nn.ConstantPad3d(1, 9.0)(np.ones((1, 2, 3, 4, 5))).shape
    (1, 2, 5, 6, 7)
    """


class ZeroPad1d(_Pad, spatial=1, mode="constant"):
    """Padding of the last axis with zeros.

    Examples
    --------
    >>> agrad.nn.ZeroPad1d((1, 2))(np.array([[1.0, 2.0, 3.0]]))
    array([[0., 1., 2., 3., 0., 0.]])
    """


class ZeroPad2d(_Pad, spatial=2, mode="constant"):
    """Padding of the last two axes with zeros.

    Examples
    --------
    >>> agrad.nn.ZeroPad2d((1, 0, 0, 1))(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    array([[[0., 1., 2.],
            [0., 3., 4.],
            [0., 0., 0.]]])
    """


class ZeroPad3d(_Pad, spatial=3, mode="constant"):
    """Padding of the last three axes with zeros.

    Examples
    --------
    >>> agrad.nn.ZeroPad3d(1)(np.ones((1, 2, 3, 4, 5))).shape
    (1, 2, 5, 6, 7)
    """


class ReflectionPad1d(_Pad, spatial=1, mode="reflect"):
    """Padding of the last axis with reflected elements.

    Examples
    --------
    >>> agrad.nn.ReflectionPad1d(2)(np.array([[1.0, 2.0, 3.0]]))
    array([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(_Pad, spatial=2, mode="reflect"):
    """Padding of the last two axes with reflected elements.

    Examples
    --------
    >>> agrad.nn.ReflectionPad2d((1, 0, 0, 1))(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    array([[[2., 1., 2.],
            [4., 3., 4.],
            [2., 1., 2.]]])
    """


class ReflectionPad3d(_Pad, spatial=3, mode="reflect"):
    """Padding of the last three axes with reflected elements.

    Examples
    --------
    >>> agrad.nn.ReflectionPad3d(1)(np.ones((1, 2, 3, 4, 5))).shape
    (1, 2, 5, 6, 7)
    """


class ReplicationPad1d(_Pad, spatial=1, mode="replicate"):
    """Padding of the last axis with its first and last elements.

    Examples
    --------
    >>> agrad.nn.ReplicationPad1d(2)(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 1., 1., 2., 3., 3., 3.]])
    """


class ReplicationPad2d(_Pad, spatial=2, mode="replicate"):
    """Padding of the last two axes with their first and last elements.

    Examples
    --------
    >>> agrad.nn.ReplicationPad2d((1, 0, 0, 1))(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    array([[[1., 1., 2.],
            [3., 3., 4.],
            [3., 3., 4.]]])
    """


class ReplicationPad3d(_Pad, spatial=3, mode="replicate"):
    """Padding of the last three axes with their first and last elements.

    Examples
    --------
    >>> agrad.nn.ReplicationPad3d(1)(np.ones((1, 2, 3, 4, 5))).shape
    (1, 2, 5, 6, 7)
    """


class CircularPad1d(_Pad, spatial=1, mode="circular"):
    """Circular padding of the last axis.

    Examples
    --------
    >>> agrad.nn.CircularPad1d(1)(np.array([[1.0, 2.0, 3.0]]))
    array([[3., 1., 2., 3., 1.]])
    """


class CircularPad2d(_Pad, spatial=2, mode="circular"):
    """Circular padding of the last two axes.

    Examples
    --------
    >>> agrad.nn.CircularPad2d((1, 0, 0, 1))(np.array([[[1.0, 2.0], [3.0, 4.0]]]))
    array([[[2., 1., 2.],
            [4., 3., 4.],
            [2., 1., 2.]]])
    """


class CircularPad3d(_Pad, spatial=3, mode="circular"):
    """Circular padding of the last three axes.

    Examples
    --------
    >>> agrad.nn.CircularPad3d(1)(np.ones((1, 2, 3, 4, 5))).shape
    (1, 2, 5, 6, 7)
    """
