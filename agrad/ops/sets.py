"""Sets: the distinct elements of an array, where they stand and how often. No derivative, by decision."""

from typing import Any, NamedTuple

from agrad.engine.notation import primitive
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


@primitive(constant="x", out=UniqueAll._fields)
def unique_all(xp: Any, x: Any, /) -> Any:
    return tuple(xp.unique_all(x))


@primitive(constant="x", out=UniqueCounts._fields)
def unique_counts(xp: Any, x: Any, /) -> Any:
    return tuple(xp.unique_counts(x))


@primitive(constant="x", out=UniqueInverse._fields)
def unique_inverse(xp: Any, x: Any, /) -> Any:
    return tuple(xp.unique_inverse(x))


_unique_all, _unique_counts, _unique_inverse = unique_all.bind, unique_counts.bind, unique_inverse.bind


@unique_all.door
def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements (``values``), the first place of each in the flattened ``x`` (``indices``), the place in
    ``values`` of each element of ``x`` (``inverse_indices``), and how often each stands in ``x`` (``counts``).

    x: array of any shape. No derivative.
    """
    return UniqueAll(*_unique_all(x))


@unique_counts.door
def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements (``values``) and how often each stands in ``x`` (``counts``). No derivative."""
    return UniqueCounts(*_unique_counts(x))


@unique_inverse.door
def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements (``values``) and the place in them of each element of ``x`` (``inverse_indices``).

    x: array of any shape. No derivative.
    """
    return UniqueInverse(*_unique_inverse(x))


@primitive(constant="x")
def unique_values(xp: Any, x: Any, /) -> Any:
    """The distinct elements of ``x``, an array of any shape, as an array of one dimension. No derivative."""
    return xp.unique_values(x)


def _found(xp: Any, x1: Any, x2: Any) -> Any:
    flat = xp.reshape(x2, (-1,))
    return xp.any(xp.expand_dims(x1, axis=-1) == flat, axis=-1)


@primitive(constant=("x1", "x2"))
def isin(xp: Any, x1: Any, x2: Any, /, *, invert: bool) -> Any:
    # the function is young: an array library from before it has the comparison at least
    native = getattr(xp, "isin", None)
    found = _found(xp, x1, x2) if native is None else native(x1, x2)
    return xp.logical_not(found) if invert else found  # array-api-strict's ignores the setting


_isin = isin.bind


@isin.door
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each element of ``x1`` is equal to one of ``x2`` (with ``invert``: to none). Booleans; no derivative.

    x1, x2: arrays of any shapes, one of them may be a number. Gives an array of the shape of ``x1``.
    """
    return _isin(*array_arguments("isin", x1, x2), invert=invert)


__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]
