"""Rows of the greatest elements and of segments."""

from typing import Any

import numpy as np
from table import complex_normal, composite, constant, distinct, ex, normal, values

import agrad


def _topk(xp: Any, x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    ordered = np.sort(x, axis=axis)
    return np.take(np.flip(ordered, axis=axis) if largest else ordered, range(k), axis=axis)


composite(
    "topk",
    ex("vector", distinct(5), 2),
    ex("axis 0", distinct(3, 2), 2, axis=0),
    ex("axis 1", distinct(2, 4, 2), 2, axis=1),
    ex("least", distinct(2, 4), 3, largest=False),
    ex("all", distinct(3), 3),
    ex("none", distinct(2, 3), 0),
    ex("ties", values([2.0, 1.0, 2.0, 3.0]), 2, kink=True),
    ex("empty", normal(0, 3), 2),
    call=lambda x, k, **how: agrad.topk(x, k, **how)[0],
    reference=_topk,
)


def _of_each(ufunc: np.ufunc, start: float) -> Any:
    """Return the reduction of segments by a ufunc, in NumPy."""

    def reference(xp: Any, x: Any, ids: Any, count: int) -> Any:
        out = np.full((count, *x.shape[1:]), start, dtype=x.dtype)
        inside = (ids >= 0) & (ids < count)
        ufunc.at(out, ids[inside], x[inside])
        return out

    return reference


def _but_segment_1(function: Any) -> Any:
    """Return a function without the second segment, which is empty and has no finite value."""
    return lambda *args: function(*args)[::2]


_REDUCTIONS = {
    "sum": _of_each(np.add, 0.0),
    "prod": _of_each(np.multiply, 1.0),
    "max": _of_each(np.maximum, -np.inf),
    "min": _of_each(np.minimum, np.inf),
}
_TWO = constant([1, 0, 1, 0, 0])
_GAP = constant([2, 0, 2, 0, 0])

for _name, _reference in _REDUCTIONS.items():
    _call = getattr(agrad, f"segment_{_name}")
    _examples = [
        ex("vector", distinct(5), _TWO, 2),
        ex("matrix", distinct(5, 2), _TWO, 2),
        ex("3-d", distinct(3, 2, 2), constant([0, 1, 0]), 2),
        ex("one segment", distinct(3), constant([0, 0, 0]), 1),
        ex("left out", distinct(6), constant([1, 0, -1, 0, 7, 1]), 2),
        ex("int32 ids", distinct(5), constant([1, 0, 1, 0, 0], np.int32), 2),
        ex("alone", distinct(2), constant([1, 0]), 2),
        ex("no columns", normal(2, 0), constant([1, 0]), 2),
        ex("no segments", normal(2), constant([1, 0]), 0),
    ]
    if _name in ("sum", "prod"):
        _examples += [
            ex("empty segment", distinct(5), _GAP, 3),
            ex("no elements", normal(0, 2), constant(np.zeros(0, np.int64)), 2),
            ex("complex", complex_normal(5), _GAP, 3),
        ]
    else:
        _examples += [
            ex("ties", values([2.0, 3.0, 2.0, 3.0, 3.0]), _TWO, 2, kink=True),
            ex("empty segment", distinct(5), _GAP, 3, call=_but_segment_1(_call), reference=_but_segment_1(_reference)),
        ]
    if _name == "prod":
        _examples += [ex("zeros", values([0.0, 0.0, 2.0, 0.0, 3.0]), constant([0, 0, 1, 1, 1]), 2)]
    composite(f"segment_{_name}", *_examples, reference=_reference)
