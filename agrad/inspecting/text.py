"""Values as text, for which only the shown elements are copied from the device."""

import math
import re
import sys
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import dtype_name
from agrad.errors import DtypeError

_LINES = 8
_EDGE = 3
_WHOLE = 48
_ROWS = 8


def _number(value: Any, digits: int) -> str:
    """Return one element with at most ``digits`` significant digits."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (complex, np.complexfloating)):
        imaginary = _number(value.imag, digits)
        return _number(value.real, digits) + (imaginary if imaginary[0] == "-" else f"+{imaginary}") + "j"
    if not isinstance(value, (float, np.floating)):
        value = float(value)  # the scalars of extended dtypes
    size = abs(float(value))
    if not math.isfinite(size):
        return str(float(value))
    if size and (size >= 1e8 or size < 1e-4):
        return np.format_float_scientific(value, precision=digits - 1, trim="-").replace(".e", "e")
    return np.format_float_positional(value, precision=digits, fractional=False, trim="0")


def host(raw: Any) -> np.ndarray:
    """Return a plain array or a number as a NumPy array."""
    backend = backend_of_type(type(raw))
    if backend is None:
        return np.asarray(raw)
    try:
        return np.asarray(backend.to_host(raw))
    except DtypeError:  # NumPy has no bfloat16, whose values are float32 values
        return np.asarray(backend.to_host(backend.xp.astype(raw, backend.xp.float32)))


def _edges(raw: Any, edge: int) -> np.ndarray:
    """Return the array on the host without the middle of its long axes.

    They keep 2 * edge + 1 elements, one more than NumPy shows, so that NumPy marks the gap.
    """
    backend = backend_of(raw)
    shape = tuple(raw.shape)
    # the longest first, because the copies on the device are then small
    for axis in sorted(range(len(shape)), key=lambda a: -shape[a]):
        if shape[axis] > 2 * edge + 1:
            front = (slice(None),) * axis
            ends = (slice(0, edge + 1), slice(shape[axis] - edge, shape[axis]))
            raw = backend.xp.concat([raw[(*front, end, ...)] for end in ends], axis=axis)
    return host(raw)


def device_name(raw: Any) -> str:
    """Return the name of the device of an array, such as ``"cuda:0"``."""
    text = str(backend_of(raw).device_of(raw))
    cuda = re.fullmatch(r"<CUDA Device (\d+)>", text)
    if cuda is not None:
        return f"cuda:{cuda[1]}"
    quoted = re.search(r"\('?(.+?)'?\)", text)  # array-api-strict and dpnp print a call
    return quoted[1] if quoted is not None else text


def _is_lazy(raw: Any) -> bool:
    """Return True if reading the array would start a computation, as in Dask."""
    return hasattr(raw, "__dask_graph__")


def _text(raw: Any, *, edge: int, whole: bool, digits: int, width: int, prefix: str = "", align: bool = False) -> str:
    shown = host(raw) if whole else _edges(raw, edge)
    if not shown.ndim:
        return _number(shown[()], digits)
    longest = max((len(_number(v, digits)) for v in shown.flat), default=0) if align else 0
    return np.array2string(
        shown,
        separator=", ",
        prefix=prefix,
        max_line_width=width,
        threshold=sys.maxsize if whole else 0,
        edgeitems=edge,
        formatter={"all": lambda v: _number(v, digits).rjust(longest)},
    )


def several_lines(raw: Any, prefix: str = "") -> tuple[str, bool]:
    """Return the values in a few lines after ``prefix``, and True if all are shown."""
    if _is_lazy(raw):
        return repr(raw), False
    shape = tuple(raw.shape)
    whole = int(np.prod(shape)) <= _WHOLE and all(n <= _ROWS for n in shape[:-1])
    edge = _EDGE if len(shape) < 3 else 1
    digits = max(1, np.get_printoptions()["precision"])
    text = _text(raw, edge=edge, whole=whole, digits=digits, width=110, prefix=prefix, align=len(shape) > 1)
    lines = text.splitlines()
    if len(lines) > _LINES:
        half = _LINES // 2
        lines = [*lines[:half], " " * len(prefix) + " ...", *lines[-half:]]
        whole = False
    return "\n".join(lines), whole and bool(np.prod(shape))


def one_line(value: Any, width: int = 36) -> str:
    """Return a number or a plain array in at most ``width`` characters.

    If the values cannot be read, dtype and shape are shown.
    """
    if not hasattr(value, "shape"):
        return _number(value, 5) if isinstance(value, (bool, int, float, complex)) else str(value)[:width]
    try:
        if _is_lazy(value):
            return "not computed yet"
        shape = tuple(value.shape)
        whole = int(np.prod(shape)) <= 6
        text = _text(value, edge=2 if len(shape) < 2 else 1, whole=whole, digits=5, width=10**6)
        text = re.sub(r"\s*\n\s*", " ", text)
    except Exception:  # a value inside a transform of another library
        return f"{dtype_name(value.dtype)}{tuple(value.shape)}"
    return text if len(text) <= width else text[: width - 3] + "..."


def aligned(table: Sequence[Sequence[str]], right: Container[int]) -> list[str]:
    """Return the lines of a table of cells, with columns at ``right`` right-aligned."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in table
    ]
