"""NumPy functions on the values of Tensors that are not recorded.

A composition of agrad functions needs up to fifty times as long on a few elements. If all Tensors contain NumPy arrays,
have no gradient and belong to no transform, and operations are not observed, the NumPy function is called instead.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad import Tensor
from agrad.interop.arguments import rewrite
from agrad.registry import CALLS

LEFT: Any = object()
"""Instead of a result: call the handler."""
_WRITES: set[Any] = set()
"""Functions that were seen to write into their first argument."""
_ALONE: set[Any] = set()
"""Functions whose results are the handler's: views, what is no array, refusals."""
_CONSTANTS = {int, float, complex, bool, str, type(None), slice, type, type(...)}
_DTYPES = "?bBhHiIlLqQfdFD"
_LONGEST = 64
"""Lists with more parts are left to the handler: a look at each would take long."""


def by_numpy(
    function: Callable[..., Any], key: Any, args: tuple[Any, ...], settings: dict[str, Any], writes: bool = False
) -> Any:
    """Return the NumPy result as Tensors, or ``LEFT`` to call the handler.

    ``writes``: the function writes into its first argument. Other functions receive read-only arrays, so that a write
    raises an error; ``ufunc.at`` ignores this.
    """
    if key in _ALONE or CALLS["is_traced"]():  # a trace reads some arrays again at each call
        return LEFT
    found: list[np.ndarray] = []
    values = _bare(args, found)
    if values is LEFT:
        return LEFT
    options = {name: _bare(value, found) for name, value in settings.items()} if settings else settings
    if settings and any(value is LEFT for value in options.values()):
        return LEFT
    writes = writes or key in _WRITES
    if writes:
        if not (args and type(args[0]) is Tensor and isinstance(values[0], np.ndarray)):
            return LEFT
        values = (args[0].data.copy(order="K"), *values[1:])
    try:
        out = function(*values, **options)
    except Exception as error:  # the handler raises its own
        if "read-only" in str(error) and not writes:
            return by_numpy(function, key, args, settings, writes=True)
        return LEFT
    if writes:
        if out is not None:  # it writes and has a result
            return LEFT
        _WRITES.add(key)
        rewrite(args[0], CALLS["lift"](values[0]))
        return None
    out = _wrapped(out, found)
    if out is LEFT:
        _ALONE.add(key)
    return out


def _bare(value: Any, found: list[np.ndarray]) -> Any:
    """Return an argument with read-only arrays instead of Tensors."""
    kind = type(value)
    if kind is Tensor:
        value = CALLS["unrecorded"](value)
        if isinstance(value, np.generic):
            value = np.asarray(value)  # so that a view of it shows
        elif value is None:
            return LEFT
        kind = type(value)
    if kind is np.ndarray:
        view = value.view()
        view.setflags(write=False)
        found.append(view)
        return view
    if kind in _CONSTANTS or isinstance(value, (np.generic, np.dtype)):
        return value
    if (kind is list or kind is tuple) and len(value) <= _LONGEST:
        parts = []
        for part in value:
            part = _bare(part, found)
            if part is LEFT:
                return LEFT
            parts.append(part)
        return kind(parts)
    return LEFT


def _wrapped(out: Any, found: list[np.ndarray]) -> Any:
    """Return a result as Tensors, if it consists of new arrays."""
    kind = type(out)
    if kind is np.ndarray or isinstance(out, np.generic):
        if out.dtype.char not in _DTYPES or not out.dtype.isnative:
            return LEFT
        if kind is np.ndarray and not out.flags.writeable:
            return LEFT
        # arguments are views, so an array with memory of its own is a new one
        if kind is np.ndarray and out.base is not None and any(np.may_share_memory(out, x) for x in found):
            return LEFT
        return CALLS["lift"](out)
    if kind is list or kind is tuple:
        parts = [_wrapped(part, found) for part in out]
        return LEFT if any(part is LEFT for part in parts) else kind(parts)
    return LEFT
