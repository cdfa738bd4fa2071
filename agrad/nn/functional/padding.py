"""Padding: elements added at the ends of axes."""

from collections.abc import Sequence
from operator import index
from typing import Any

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.nn.functional.real import of_array

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""The modes of ``agrad.pad`` by PyTorch's names."""


def padded(x: Any, widths: Sequence[tuple[int, int]], **settings: Any) -> Any:
    """Return ``agrad.pad(x, widths)``, a raw array for a raw array."""
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
            f"pad: pad is two integers for each axis, from the last axis on, at most {2 * len(x.shape)} for an array "
            f"of shape {tuple(x.shape)}, not {pad!r}"
        )
    pairs = list(zip(found[::2], found[1::2], strict=True))
    return [(0, 0)] * (len(x.shape) - len(pairs)) + pairs[::-1]


@of_array
def pad(x: Any, /, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Return ``x`` with elements added at the ends of its last axes.

    Parameters
    ----------
    x : array
        Array of any shape and dtype.
    pad : tuple of int
        The numbers of elements before and after the last axis, then before and after the one before it, and so on. A
        negative number takes elements away.
    mode : {"constant", "reflect", "replicate", "circular"}
        The new elements: a value; those on the other side of the first and the last one, which are not repeated; the
        first and the last one; those at the other end.
    value : float, optional
        The value of the mode ``"constant"``, by default 0.

    Returns
    -------
    array
        Array of the dtype of ``x``.

    Raises
    ------
    ConfigurationError
        For another mode, a value without its mode, or numbers that do not fit the axes.
    ShapeError
        If an axis is too short: for what is taken away, for ``"reflect"`` (one element more than is added), for
        ``"circular"`` (as many as are added) or for ``"replicate"`` (one).

    Examples
    --------
    >>> x = np.array([[1.0, 2.0, 3.0]])
    >>> agrad.nn.functional.pad(x, (1, 2), value=9.0)
    array([[9., 1., 2., 3., 9., 9.]])
    >>> agrad.nn.functional.pad(x, (1, 1), mode="circular")
    array([[3., 1., 2., 3., 1.]])
    """
    if mode not in _MODES:
        raise ConfigurationError(f"pad: mode is one of {', '.join(map(repr, _MODES))}, not {mode!r}")
    if mode != "constant" and value:
        raise ConfigurationError(f"pad: the mode {mode!r} takes no value, which is {value!r}")
    widths = _widths(x, pad)
    shape = tuple(x.shape)
    if any(min(low, 0) + min(high, 0) + n < 0 for (low, high), n in zip(widths, shape, strict=True)):
        raise ShapeError(f"pad: {pad} takes more elements away than the shape {shape} has")
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
            raise ShapeError(f"pad: the mode {mode!r} with {pad} takes {needed} elements or more of an axis, not {n}")
    return padded(x, added, mode=_MODES[mode])
