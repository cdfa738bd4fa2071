"""Sets: the distinct elements of an array, their indices and their counts.

Indices and counts have no derivative. The values are elements of the array at their first index, and the first of equal
elements gets the cotangent.
"""

from typing import Any, Generic, NamedTuple

from agrad.engine.tensor import Tensor, strip_constant_levels
from agrad.ops.definition import A, of_library, primitive, public_of_array, public_of_arrays
from agrad.ops.indexing import take
from agrad.ops.manipulation import reshape
from agrad.ops.shared import array_arguments
from agrad.registry import public

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple, Generic[A]):
    """The result of ``unique_all``."""

    values: A
    indices: A
    inverse_indices: A
    counts: A


class UniqueCounts(NamedTuple, Generic[A]):
    """The result of ``unique_counts``."""

    values: A
    counts: A


class UniqueInverse(NamedTuple, Generic[A]):
    """The result of ``unique_inverse``."""

    values: A
    inverse_indices: A


unique_all_p = of_library("unique_all(x)", constant="x", out=UniqueAll._fields, batch="values decide")


unique_counts_p = of_library("unique_counts(x)", constant="x", out=UniqueCounts._fields, batch="values decide")


unique_inverse_p = of_library("unique_inverse(x)", constant="x", out=UniqueInverse._fields, batch="values decide")


unique_values_p = of_library("unique_values(x)", constant="x", batch="values decide")


def _taken(x: Any) -> UniqueAll | None:
    """Return the distinct elements, with the values taken from ``x``.

    None if ``x`` is not recorded.
    """
    if not isinstance(strip_constant_levels(x), Tensor):
        return None
    found = UniqueAll(*unique_all_p(x))
    return found._replace(values=take(reshape(x, (-1,)), found.indices, axis=0))


@public
def unique_all(x: A, /) -> UniqueAll[A]:
    """Return the distinct elements, their indices and their counts.

    Differentiable in the values.

    Parameters
    ----------
    x : array of any shape and dtype

    Returns
    -------
    UniqueAll
        Named tuple: the distinct elements (``values``), the first index of each in the flattened ``x`` (``indices``),
        the index in ``values`` of each element of ``x`` (``inverse_indices``), and the number of times that each occurs
        (``counts``).

    Examples
    --------
    >>> found = agrad.unique_all(np.asarray([3, 1, 3]))
    >>> found.values, found.indices
    (array([1, 3]), array([1, 0]))
    >>> found.inverse_indices, found.counts
    (array([1, 0, 1]), array([1, 2]))
    """
    return _taken(x) or UniqueAll(*unique_all_p(x))


@public
def unique_counts(x: A, /) -> UniqueCounts[A]:
    """Return the distinct elements and their counts.

    Differentiable in the values.

    Parameters
    ----------
    x : array of any shape and dtype

    Returns
    -------
    UniqueCounts
        Named tuple: ``values`` and ``counts``, both 1-D.

    Examples
    --------
    >>> agrad.unique_counts(np.asarray([3, 1, 3]))
    UniqueCounts(values=array([1, 3]), counts=array([1, 2]))
    """
    found = _taken(x)
    return UniqueCounts(*unique_counts_p(x)) if found is None else UniqueCounts(found.values, found.counts)


@public
def unique_inverse(x: A, /) -> UniqueInverse[A]:
    """Return the distinct elements and the index of each element in them.

    Differentiable in the values.

    Parameters
    ----------
    x : array of any shape and dtype

    Returns
    -------
    UniqueInverse
        Named tuple: 1-D ``values``, and ``inverse_indices`` of the shape of ``x``.

    Examples
    --------
    >>> agrad.unique_inverse(np.asarray([3, 1, 3]))
    UniqueInverse(values=array([1, 3]), inverse_indices=array([1, 0, 1]))
    """
    found = _taken(x)
    return UniqueInverse(*unique_inverse_p(x)) if found is None else UniqueInverse(found.values, found.inverse_indices)


@public_of_array
def unique_values(x: Any, /) -> Any:
    """Return the distinct elements.

    Parameters
    ----------
    x : array of any shape and dtype

    Returns
    -------
    array
        Array with one axis. The first of equal elements gets the cotangent.

    Examples
    --------
    >>> agrad.unique_values(np.asarray([3, 1, 3]))
    array([1, 3])
    >>> agrad.grad(lambda x: agrad.sum(agrad.unique_values(x)))(np.asarray([3.0, 1.0, 3.0]))
    array([1., 1., 0.])
    """
    found = _taken(x)
    return unique_values_p(x) if found is None else found.values


def _found(xp: Any, x1: Any, x2: Any) -> Any:
    flat = xp.reshape(x2, (-1,))
    return xp.any(xp.expand_dims(x1, axis=-1) == flat, axis=-1)


@primitive(name="isin", constant=("x1", "x2"))
def isin_p(xp: Any, x1: Any, x2: Any, /, *, invert: bool) -> Any:
    # older array libraries have no isin
    native = getattr(xp, "isin", None)
    found = _found(xp, x1, x2) if native is None else native(x1, x2)
    return xp.logical_not(found) if invert else found  # array-api-strict ignores invert


@isin_p.batch
def isin_batch(xp: Any, x1: Any, x2: Any, x1_mapped: bool, x2_mapped: bool, batch_size: int, *, invert: bool) -> Any:
    if not x2_mapped:
        return isin_p(x1, x2, invert=invert)
    ndim = len(x1.shape) - x1_mapped
    found = xp.any(xp.equal(xp.expand_dims(x1, axis=-1), xp.reshape(x2, (batch_size, *(1,) * ndim, -1))), axis=-1)
    return xp.logical_not(found) if invert else found


@public_of_arrays
def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Test if each element is equal to any element of another array.

    Parameters
    ----------
    x1, x2 : array or number
        Arrays of any shapes, or numbers. At least one must be an array.
    invert : bool
        If True, invert the result.

    Returns
    -------
    array of the shape of ``x1``: booleans, a constant

    Examples
    --------
    >>> agrad.isin(np.asarray([1, 2, 3]), np.asarray([3, 1]))
    array([ True, False,  True])
    """
    return isin_p(*array_arguments("isin", x1, x2), invert=invert)
