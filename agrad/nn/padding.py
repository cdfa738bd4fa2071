"""Padding layers with PyTorch's names and arguments."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from agrad.errors import ConfigurationError, ShapeError
from agrad.nn import functional
from agrad.nn.module import Module

Widths = int | Sequence[int]


class _Pad(Module):
    """The function ``functional.pad`` on a number of spatial axes."""

    spatial: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Widths) -> None:
        count = 2 * self.spatial
        found = tuple(padding) if isinstance(padding, Sequence) else (padding,) * count
        if len(found) != count or not all(isinstance(n, (int, np.integer)) for n in found):
            raise ConfigurationError(
                f"{type(self).__name__}: padding is an integer, or {count} of them, not {padding!r}"
            )
        self.padding = tuple(map(int, found))
        self.value: float | None = None

    def forward(self, x: Any, /) -> Any:
        """Return ``x`` with elements added at the ends of its spatial axes.

        Parameters
        ----------
        x : array
            Array of shape (n, c, ...) or (c, ...).

        Returns
        -------
        array
            Array of as many axes.

        Raises
        ------
        ShapeError
            If ``x`` has another number of axes, or an axis is too short.
        """
        if len(x.shape) not in (self.spatial + 1, self.spatial + 2):
            raise ShapeError(
                f"{type(self).__name__} takes an array of shape (n, c, ...) or (c, ...) with {self.spatial} spatial "
                f"axes, not {tuple(x.shape)}"
            )
        return functional.pad(x, self.padding, self.mode, self.value)

    def settings(self) -> str:
        return f"{self.padding}" + ("" if self.value is None else f", value={self.value!r}")


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Widths, value: float) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad1d(_ConstantPad):
    """A value added at both ends of the last axis.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right), or one for all. A negative number takes elements away.
    value : float
        The value of new elements.
    """

    spatial = 1


class ConstantPad2d(_ConstantPad):
    """A value added at both ends of the last two axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom), or one for all. A negative number takes elements away.
    value : float
        The value of new elements.
    """

    spatial = 2


class ConstantPad3d(_ConstantPad):
    """A value added at both ends of the last three axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom, front, back), or one for all. A negative number takes
        elements away.
    value : float
        The value of new elements.
    """

    spatial = 3


class ZeroPad1d(_Pad):
    """Zeros added at both ends of the last axis.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right), or one for all. A negative number takes elements away.
    """

    spatial = 1
    mode = "constant"


class ZeroPad2d(_Pad):
    """Zeros added at both ends of the last two axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom), or one for all. A negative number takes elements away.
    """

    spatial = 2
    mode = "constant"


class ZeroPad3d(_Pad):
    """Zeros added at both ends of the last three axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom, front, back), or one for all. A negative number takes
        elements away.
    """

    spatial = 3
    mode = "constant"


class ReflectionPad1d(_Pad):
    """Mirrored elements added at both ends of the last axis.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right), or one for all. A negative number takes elements away.
    """

    spatial = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Mirrored elements added at both ends of the last two axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom), or one for all. A negative number takes elements away.
    """

    spatial = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Mirrored elements added at both ends of the last three axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom, front, back), or one for all. A negative number takes
        elements away.
    """

    spatial = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """The first and the last element repeated at the ends of the last axis.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right), or one for all. A negative number takes elements away.
    """

    spatial = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The first and the last element repeated at the ends of the last two axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom), or one for all. A negative number takes elements away.
    """

    spatial = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The first and the last element repeated at the ends of the last three axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom, front, back), or one for all. A negative number takes
        elements away.
    """

    spatial = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Elements of the other end added at both ends of the last axis.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right), or one for all. A negative number takes elements away.
    """

    spatial = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Elements of the other end added at both ends of the last two axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom), or one for all. A negative number takes elements away.
    """

    spatial = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Elements of the other end added at both ends of the last three axes.

    Parameters
    ----------
    padding : int or tuple of int
        The numbers of elements, (left, right, top, bottom, front, back), or one for all. A negative number takes
        elements away.
    """

    spatial = 3
    mode = "circular"
