"""Filters of ordered neighbors, of ``scipy.ndimage``."""

from collections.abc import Callable
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import one_of
from agrad.interop.arguments import is_complex
from agrad.scipy.ndimage.filters import ascending_axes, checked_origin, image_function, one_each
from agrad.scipy.shared import Function, array, named
from agrad.scipy.signal.sliding import MODES, padded, windows

__all__ = ["maximum_filter", "median_filter", "minimum_filter", "rank_filter"]


def _neighbours(
    name: str, input: Any, size: Any, footprint: Any, mode: Any, cval: Any, origin: Any, axes: Any
) -> Tensor:
    """Return the neighbors of every element on a new last axis."""
    x = array(input)
    if is_complex(x):
        raise DtypeError(f"{name}: input must be real, as complex numbers have no order")
    chosen = ascending_axes(name, axes, x.ndim)
    if (size is None) == (footprint is None):
        raise ConfigurationError(f"{name}: exactly one of size and footprint must be passed")
    mask = (
        np.ones(one_each(name, "size", size, len(chosen)), bool) if footprint is None else np.asarray(footprint, bool)
    )
    if mask.ndim != len(chosen) or not mask.any():
        raise ShapeError(f"{name}: footprint must have {len(chosen)} axes and a nonzero element")
    modes, origins = (one_each(name, what, v, len(chosen)) for what, v in (("mode", mode), ("origin", origin)))
    for axis, how, at, n in zip(chosen, modes, origins, mask.shape, strict=True):
        one_of(name, "mode", how, tuple(MODES))
        at = checked_origin(name, at, n)
        x = windows(padded(x, axis, n // 2 + at, n - n // 2 - 1 - at, how, cval), n, axis)
    x = agrad.reshape(x, (*x.shape[: x.ndim - mask.ndim], mask.size))
    return x if mask.all() else agrad.take(x, np.flatnonzero(mask), axis=-1)


def _filter(name: str, what: str, found: Callable[[Tensor], Tensor], example: str) -> Any:
    """Return a filter, ``found`` of the neighbors along the last axis."""

    @image_function
    def made(
        input: Any,
        size: Any = None,
        footprint: Any = None,
        output: None = None,
        mode: Any = "reflect",
        cval: Any = 0.0,
        origin: Any = 0,
        *,
        axes: Any = None,
    ) -> Any:
        """Return {what}.

        Like ``scipy.ndimage.{name}``, for real ``input``, whose shape the result has. Equal extrema share the
        derivative. ``footprint`` is read on the host.
        """
        return found(_neighbours(name, input, size, footprint, mode, cval, origin, axes))

    return named(made, name, what, "ndimage", example)


def _middle(x: Tensor) -> Tensor:
    """Return the median, the upper of the two of an even number."""
    return agrad.sort(x, axis=-1)[..., x.shape[-1] // 2]


# fmt: off
maximum_filter: Function = _filter("maximum_filter",
    "the largest of neighbors", lambda x: agrad.max(x, axis=-1), example="""
>>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
>>> ndimage.maximum_filter(x, size=3)
array([8., 8., 8., 4.])
>>> agrad.grad(lambda x: agrad.sum(ndimage.maximum_filter(x, size=3)))(x)
array([0., 3., 1., 0.])
""")
minimum_filter: Function = _filter("minimum_filter",
    "the smallest of neighbors", lambda x: agrad.min(x, axis=-1), example="""
>>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
>>> ndimage.minimum_filter(x, size=3)
array([1., 1., 2., 2.])
>>> agrad.grad(lambda x: agrad.sum(ndimage.minimum_filter(x, size=3)))(x)
array([2., 0., 0., 2.])
""")
median_filter: Function = _filter("median_filter", "the median of neighbors, the upper one of an even number", _middle,
    example="""
>>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
>>> ndimage.median_filter(x, size=3)
array([1., 4., 4., 2.])
>>> agrad.grad(lambda x: agrad.sum(ndimage.median_filter(x, size=3)))(x)
array([1., 0., 2., 1.])
""")
# fmt: on


@image_function
def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: None = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Tensor:
    """Return the neighbor of a given rank.

    Like ``scipy.ndimage.rank_filter``, for real ``input``, whose shape the result has. ``footprint`` is read on the
    host.

    Examples
    --------
    >>> from agrad.scipy import ndimage
    >>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
    >>> ndimage.rank_filter(x, 1, size=3)
    array([1., 4., 4., 2.])
    >>> agrad.grad(lambda x: agrad.sum(ndimage.rank_filter(x, 1, size=3)))(x)
    array([1., 0., 2., 1.])
    """
    x = _neighbours("rank_filter", input, size, footprint, mode, cval, origin, axes)
    if not -x.shape[-1] <= rank < x.shape[-1]:
        raise ConfigurationError(f"rank_filter: rank must be from {-x.shape[-1]} to {x.shape[-1] - 1}, got {rank}")
    return agrad.sort(x, axis=-1)[..., rank]
