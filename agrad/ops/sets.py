"""Sets: the distinct elements of an array, where they stand and how often.

What is found has no derivative. The values are elements of the array all the same: those of a recorded Tensor are taken
from it where they stand first, so that the first of equal elements gets the cotangent.
"""

from typing import Any, NamedTuple

from agrad.engine.notation import primitive
from agrad.engine.tensor import Tensor, settle
from agrad.ops.indexing import take
from agrad.ops.manipulation import reshape
from agrad.ops.shared import array_arguments


class UniqueAll(NamedTuple):
    """What ``unique_all`` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What ``unique_counts`` gives."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What ``unique_inverse`` gives."""

    values: Any
    inverse_indices: Any


@primitive(constant="x", out=UniqueAll._fields, batch="values decide")
def unique_all(xp: Any, x: Any, /) -> Any:
    return tuple(xp.unique_all(x))


@primitive(constant="x", out=UniqueCounts._fields, batch="values decide")
def unique_counts(xp: Any, x: Any, /) -> Any:
    return tuple(xp.unique_counts(x))


@primitive(constant="x", out=UniqueInverse._fields, batch="values decide")
def unique_inverse(xp: Any, x: Any, /) -> Any:
    return tuple(xp.unique_inverse(x))


@primitive(constant="x", batch="values decide")
def unique_values(xp: Any, x: Any, /) -> Any:
    return xp.unique_values(x)


_unique_all, _unique_counts, _unique_inverse = unique_all.bind, unique_counts.bind, unique_inverse.bind
_unique_values = unique_values.bind


def _taken(x: Any) -> UniqueAll | None:
    """What is distinct in ``x``, with the values taken from it; None where nothing is recorded of it."""
    if not isinstance(settle(x), Tensor):
        return None
    found = UniqueAll(*_unique_all(x))
    return found._replace(values=take(reshape(x, (-1,)), found.indices, axis=0))


@unique_all.door
def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements (``values``), the first place of each in the flattened ``x`` (``indices``), the place in
    ``values`` of each element of ``x`` (``inverse_indices``), and how often each stands in ``x`` (``counts``).

    x: array of any shape. Differentiable in the values.
    """
    return _taken(x) or UniqueAll(*_unique_all(x))


@unique_counts.door
def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements (``values``) and how often each stands in ``x`` (``counts``).

    x: array of any shape. Differentiable in the values.
    """
    found = _taken(x)
    return UniqueCounts(*_unique_counts(x)) if found is None else UniqueCounts(found.values, found.counts)


@unique_inverse.door
def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements (``values``) and the place in them of each element of ``x`` (``inverse_indices``).

    x: array of any shape. Differentiable in the values.
    """
    found = _taken(x)
    return UniqueInverse(*_unique_inverse(x)) if found is None else UniqueInverse(found.values, found.inverse_indices)


@unique_values.door
def unique_values(x: Any, /) -> Any:
    """The distinct elements of ``x``, an array of any shape, as an array of one dimension."""
    found = _taken(x)
    return _unique_values(x) if found is None else found.values


def _found(xp: Any, x1: Any, x2: Any) -> Any:
    flat = xp.reshape(x2, (-1,))
    return xp.any(xp.expand_dims(x1, axis=-1) == flat, axis=-1)


@primitive(constant=("x1", "x2"))
def isin(xp: Any, x1: Any, x2: Any, /, *, invert: bool) -> Any:
    # the function is young: an array library from before it has the comparison at least
    native = getattr(xp, "isin", None)
    found = _found(xp, x1, x2) if native is None else native(x1, x2)
    return xp.logical_not(found) if invert else found  # array-api-strict's ignores the setting


@isin.batch
def isin_batch(xp: Any, x1: Any, x2: Any, x1_mapped: bool, x2_mapped: bool, batch_size: int, *, invert: bool) -> Any:
    if not x2_mapped:
        return isin.bind(x1, x2, invert=invert)
    ndim = len(x1.shape) - x1_mapped
    found = xp.any(xp.equal(xp.expand_dims(x1, axis=-1), xp.reshape(x2, (batch_size, *(1,) * ndim, -1))), axis=-1)
    return xp.logical_not(found) if invert else found


_isin = isin.bind


@isin.door
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each element of ``x1`` is equal to one of ``x2`` (with ``invert``: to none). Booleans; no derivative.

    x1, x2: arrays of any shapes, one of them may be a number. Gives an array of the shape of ``x1``.
    """
    return _isin(*array_arguments("isin", x1, x2), invert=invert)


__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]
