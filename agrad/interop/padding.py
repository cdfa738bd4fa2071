"""``numpy.pad`` on Tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad import Tensor
from agrad.interop.arguments import along, axis_of, cast, constant, on_axis, picked, rejects, resized, tensor
from agrad.interop.table import implements

_BY_PLACE = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


@implements("pad")
def _pad(array: Tensor, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    x = array
    if isinstance(pad_width, dict):
        given = {axis_of(k, x.ndim): v for k, v in pad_width.items()}
        pad_width = [given.get(i, (0, 0)) for i in range(x.ndim)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    widths = _pairs(pad_width, x.ndim)
    if mode in _BY_PLACE and kwargs.get("reflect_type", "even") == "even":
        for axis, (before, after) in enumerate(widths):
            if before or after:
                places = np.pad(np.arange(x.shape[axis]), (int(before), int(after)), mode, **kwargs)
                x = picked(x, places, axis)
        return x
    if mode in ("constant", "linear_ramp", *_STATISTICS):
        for axis in range(x.ndim):
            x = _padded(x, axis, widths[axis], mode, kwargs)
        return x
    named = mode if isinstance(mode, str) else getattr(mode, "__name__", "a function")
    raise rejects(
        "pad",
        f"takes no mode {named}{' with reflect_type=odd' if 'reflect_type' in kwargs else ''} for Tensors",
        f"use one of constant, linear_ramp, {', '.join((*_BY_PLACE, *_STATISTICS))}, or numpy.concatenate",
    )


def _pairs(value: Any, ndim: int) -> list[Any]:
    """Return a pair for each axis, broadcast from a number or pairs as NumPy does."""
    return np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()


def _end(value: Any, axis: int, side: int, x: Tensor) -> Tensor:
    """Return the padding value of one side of an axis as a Tensor of no dimensions."""
    ends = cast(tensor(value, x), x.dtype)
    return agrad.broadcast_to(ends, (x.ndim, 2))[axis, side] if ends.ndim else ends


def _padded(x: Tensor, axis: int, widths: Sequence[int], mode: str, settings: dict[str, Any]) -> Tensor:
    known = {"constant": "constant_values", "linear_ramp": "end_values"}.get(mode, "stat_length")
    if unknown := set(settings) - {known}:
        raise ValueError(f"numpy.pad: mode {mode} takes no {', '.join(sorted(unknown))}")
    parts = [x]
    for side, width in enumerate(widths):
        if not width:
            continue
        shape = resized(x, axis, int(width))
        if mode == "constant":
            part = agrad.broadcast_to(_end(settings.get(known, 0), axis, side, x), shape)
        elif mode == "linear_ramp":
            edge = x[along(axis, slice(0, 1) if side == 0 else slice(x.shape[axis] - 1, None))]
            end = _end(settings.get(known, 0), axis, side, x)
            steps = np.arange(width) / width
            steps = (steps if side == 0 else steps[::-1]).astype(x.dtype.name)
            ramp = constant(steps.reshape(on_axis(-1, axis, x.ndim)), x)
            part = end + (edge - end) * ramp
        else:
            length = settings.get(known)
            length = x.shape[axis] if length is None else _pairs(length, x.ndim)[axis][side]
            n = x.shape[axis]
            piece = x[along(axis, slice(0, length) if side == 0 else slice(max(n - length, 0), n))]
            part = agrad.broadcast_to(_STATISTICS[mode](piece, axis=axis, keepdims=True), shape)
        parts = [part, *parts] if side == 0 else [*parts, part]
    return agrad.concat(parts, axis=axis) if len(parts) > 1 else x
