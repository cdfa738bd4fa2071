"""The results of control flow: arrays of their own, in row-major order.

A write to a result changes no operand, and a reshape of it is a view, whichever branch or step made it.
"""

from collections.abc import Sequence
from typing import Any

from agrad.backends import backend_of
from agrad.engine.layouts import SHARING, apart_by_rows, copied, shares_any, with_values
from agrad.engine.namespaces import namespace_of
from agrad.engine.tensor import Tensor
from agrad.transforms.arguments import is_array
from agrad.transforms.trees import flatten_all, unflatten


def own(results: Any, operands: Any) -> Any:
    """Return results, copied if they are not row-major or share memory.

    They must share none with operands, nor with one another, and be no object twice. Arrays that a function has from
    elsewhere are not known.
    """
    leaves, spec = flatten_all(results)
    known = [x for x in flatten_all(operands)[0] if is_array(x)]
    for i, x in enumerate(leaves):
        if is_array(x):
            leaves[i] = _own(x, known)
            known.append(leaves[i])
    return unflatten(spec, leaves)


def _raw(x: Any) -> Any:
    return x.raw if isinstance(x, Tensor) else x


def _own(x: Any, known: Sequence[Any]) -> Any:
    raw = _raw(x)
    if not SHARING[type(raw)]:  # a write to a Tensor changes that object alone
        return namespace_of((x,)).astype(x, x.dtype, copy=True) if any(x is other for other in known) else x
    row_major = backend_of(raw).row_major
    if row_major(raw) and not shares_any(raw, map(_raw, known)):
        return x
    x = namespace_of((x,)).astype(x, x.dtype, copy=True)
    return x if row_major(_raw(x)) else with_values(x, copied(_raw(x)))


def apart(values: Sequence[Any], known: Sequence[Any], own: Sequence[int] = ()) -> list[Any]:
    """Return raw arrays, row-major and apart in memory, from known ones too.

    own: the numbers of the values that share no memory, with one another or with known ones.
    """
    others, found = list(known), []
    for k, x in enumerate(values):
        found.append(apart_by_rows(x, () if k in own else others))
        if k not in own:
            others.append(found[-1])
    return found
