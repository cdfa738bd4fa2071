"""Results of control flow: row-major arrays that share no memory with operands.

A write to a result changes no operand, and a reshape of a result is a view, whichever branch or step computed it.
"""

from collections.abc import Sequence
from typing import Any

from agrad.backends import backend_of
from agrad.engine import layouts
from agrad.engine.layouts import SHARING, apart_by_rows, copied, shares_any, with_values
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import raw_of
from agrad.engine.views import linked_base
from agrad.transforms.arguments import is_array
from agrad.transforms.trees import flatten_all, unflatten


def copy_if_aliased(results: Any, operands: Any) -> Any:
    """Return results, copied if they are not row-major or share memory.

    They share no memory with operands or with one another, and no object occurs twice. Arrays that a function closes
    over are not known.
    """
    leaves, spec = flatten_all(results)
    known = [x for x in flatten_all(operands)[0] if is_array(x)]
    for i, x in enumerate(leaves):
        if is_array(x):
            leaves[i] = _copied(x, known)
            known.append(leaves[i])
    return unflatten(spec, leaves)


def _copied(x: Any, known: Sequence[Any]) -> Any:
    raw = raw_of(x)
    if not SHARING[type(raw)]:
        shared = any(linked_base(x) is linked_base(other) for other in known)
        return namespace_of((x,)).astype(x, x.dtype, copy=True) if shared else x
    row_major = backend_of(raw).row_major
    if row_major(raw) and not shares_any(raw, map(raw_of, known)):
        return x
    x = namespace_of((x,)).astype(x, x.dtype, copy=True)
    return x if row_major(raw_of(x)) else with_values(x, copied(raw_of(x)))


def copy_raw_if_aliased(values: Sequence[Any], known: Sequence[Any], fresh: Sequence[int] = ()) -> list[Any]:
    """Return plain arrays, copied if they are not row-major or share memory.

    fresh: the indices of the values that share no memory with known ones or with one another.
    """
    rest = [x for k, x in enumerate(values) if k not in fresh]
    others = iter(layouts.copy_if_aliased(rest, known, row_major=True) if rest else ())
    return [apart_by_rows(x) if k in fresh else next(others) for k, x in enumerate(values)]
