"""Padding of arrays."""

from collections.abc import Sequence
from operator import index
from typing import Any, Literal

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.expect import one_of
from agrad.nn.functional.real import of_array

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Modes of ``agrad.pad`` by the PyTorch names."""


def padded(x: Any, widths: Sequence[tuple[int, int]], **settings: Any) -> Any:
    """Return ``agrad.pad(x, widths)``, a plain array for a plain array."""
    wide = agrad.pad(x, widths, **settings)
    return wide if isinstance(x, agrad.Tensor) else wide.raw


def _widths(x: Any, pad: Any) -> list[tuple[int, int]]:
    """Return the numbers of elements before and after each axis."""
    try:
        found = tuple(map(index, pad)) if isinstance(pad, Sequence) else ()
    except TypeError:
        found = ()
    if not found or len(found) % 2 or len(found) > 2 * len(x.shape):
        raise ConfigurationError(
            f"pad: pad must have two integers for each padded axis, at most {2 * len(x.shape)} for shape "
            f"{tuple(x.shape)}, got {pad!r}"
        )
    pairs = list(zip(found[::2], found[1::2], strict=True))
    return [(0, 0)] * (len(x.shape) - len(pairs)) + pairs[::-1]


@of_array
def pad(
    x: Any,
    /,
    pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
    value: float | None = None,
) -> Any:
    """Add elements at the ends of the last axes of ``x``.

    Parameters
    ----------
    x : array of any shape and dtype
    pad : tuple of int
        Numbers of elements to add before and after the last axis, then the second to last axis, and so on. A negative
        number removes elements.
    mode : {"constant", "reflect", "replicate", "circular"}
        Added elements: a constant, the elements reflected about the first and last ones, the first and last elements
        repeated, or the elements of the opposite end.
    value : float, optional
        Value for the mode ``"constant"``. By default, 0.

    Returns
    -------
    array of the dtype of ``x``

    Raises
    ------
    ConfigurationError
        If the mode is unknown, ``value`` is given for another mode, or ``pad`` does not fit the number of axes.
    ShapeError
        If an axis is too short for the elements to remove, or for the mode: ``"reflect"`` requires one element more
        than it adds, ``"circular"`` as many as it adds, and ``"replicate"`` one.

    Examples
    --------
    >>> x = np.array([[1.0, 2.0, 3.0]])
    >>> agrad.nn.functional.pad(x, (1, 2), value=9.0)
    array([[9., 1., 2., 3., 9., 9.]])
    >>> agrad.nn.functional.pad(x, (1, 1), mode="circular")
    array([[3., 1., 2., 3., 1.]])
    """
    one_of("pad", "mode", mode, _MODES)
    if mode != "constant" and value:
        raise ConfigurationError(f"pad: value requires mode='constant', got mode={mode!r} and value={value!r}")
    widths = _widths(x, pad)
    shape = tuple(x.shape)
    if any(min(low, 0) + min(high, 0) + n < 0 for (low, high), n in zip(widths, shape, strict=True)):
        raise ShapeError(f"pad: pad must not remove more elements than x has, got {pad} for shape {shape}")
    if any(min(pair) < 0 for pair in widths):
        x = x[tuple(slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(widths, shape, strict=True))]
    added = [(max(low, 0), max(high, 0)) for low, high in widths]
    if not any(map(any, added)):
        return x
    if mode == "constant":
        return padded(x, added, constant_values=0.0 if value is None else value)
    for n, pair in zip(x.shape, added, strict=True):
        needed = {"reflect": max(pair) + 1, "circular": max(pair), "replicate": 1}[mode]
        if any(pair) and n < needed:
            raise ShapeError(f"pad: mode={mode!r} with {pad} requires at least {needed} elements of an axis, got {n}")
    return padded(x, added, mode=_MODES[mode])
