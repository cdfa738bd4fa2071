"""Shape arithmetic on plain integers, without an array library."""

import math
from collections.abc import Iterable, Sequence
from operator import index as as_int
from typing import Any, NamedTuple

from agrad.errors import AgradError, IndexRangeError, OperandError, ShapeError, described

Shape = tuple[int, ...]


class _ArraySlot:
    """The type of ``ARRAY``."""

    def __repr__(self) -> str:
        return "ARRAY"

    def __reduce__(self) -> str:
        return "ARRAY"


ARRAY = _ArraySlot()
"""The placeholder of an array in an index template. The arrays themselves are operands of the primitive."""


def too_few_axes(name: str, argument: str, shape: Iterable[int], least: int) -> ShapeError:
    """Return the error of an array with fewer axes than a function requires."""
    return ShapeError(
        f"{name}: {argument} must have at least {least} {'axis' if least == 1 else 'axes'}, got shape {tuple(shape)}"
    )


def integer(value: Any, name: str, required: str = "an integer or a tuple of integers") -> int:
    """Return an argument as an integer. The error includes its ``name``."""
    try:
        return as_int(value)
    except TypeError as error:
        if isinstance(error, AgradError):
            raise
        raise OperandError(f"{name} must be {required}, got {described(value)}") from None


def shape_of_lengths(shape: Any) -> Shape:
    """Return the shape of a new array, given as an integer or a sequence of them."""
    try:
        return tuple(map(as_int, shape)) if isinstance(shape, (tuple, list)) else (as_int(shape),)
    except (TypeError, ValueError) as error:
        if isinstance(error, AgradError):
            raise
        raise OperandError(f"shape must be an integer or a tuple of integers, got {described(shape)}") from None


def normalize_axis(axis: int, ndim: int) -> int:
    """Return one axis as a number in ``range(ndim)``."""
    axis = integer(axis, "axis")
    if not -ndim <= axis < ndim:
        raise IndexRangeError(f"axis {axis} is out of range for an array of {ndim} dimensions")
    return axis % ndim if ndim else axis


def normalize_axes(axis: int | Sequence[int] | None, ndim: int) -> Shape:
    """Return the axes of a reduction, sorted and in ``range(ndim)``. None means all."""
    if axis is None:
        return tuple(range(ndim))
    axes = [normalize_axis(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axis must not contain an axis twice, got {axis}")
    return tuple(sorted(axes))


def normalize_permutation(axes: Sequence[int], ndim: int) -> Shape:
    """Return a permutation of all axes as non-negative numbers."""
    if not isinstance(axes, Iterable):
        raise OperandError(f"axes must be a tuple of integers, got {described(axes)}")
    out = tuple(normalize_axis(a, ndim) for a in axes)
    if len(out) != ndim or len(set(out)) != ndim:
        raise ShapeError(f"axes must be a permutation of the {ndim} axes of the array, got {tuple(axes)}")
    return out


def inverse_permutation(axes: Sequence[int]) -> Shape:
    """Return the permutation that undoes ``axes``."""
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis] = i
    return tuple(inverse)


def kept_shape(shape: Shape, axes: Iterable[int]) -> Shape:
    """Return ``shape`` with the given axes of length one, as ``keepdims`` leaves it."""
    axes = set(axes)
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def size(shape: Iterable[int]) -> int:
    """Return the number of elements of an array of a shape."""
    return math.prod(shape)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape that arrays of the given shapes broadcast to.

    Parameters
    ----------
    *shapes : tuple of int
        Shapes.

    Returns
    -------
    tuple of int
        Broadcast shape, ``()`` for no shapes.

    Raises
    ------
    ShapeError
        If the shapes are not broadcastable.

    Examples
    --------
    >>> agrad.broadcast_shapes((3, 1), (2,))
    (3, 2)
    """
    out: list[int] = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        for i, n in enumerate(shape, len(out) - len(shape)):
            if n != 1 and out[i] not in (1, n):
                raise ShapeError(f"shapes {' and '.join(map(str, shapes))} must be broadcastable")
            if n != 1:
                out[i] = n
    return tuple(out)


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Return True if an array of ``shape`` broadcasts to exactly ``target``."""
    lead = len(target) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, target[lead:], strict=True))


def broadcast_axes(shape: Shape, target: Shape) -> Shape:
    """Return the axes of ``target`` along which broadcasting repeats ``shape``."""
    lead = len(target) - len(shape)
    return tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and target[i + lead] != 1)


def resolve_reshape(shape: int | tuple[int, ...] | list[int], count: int) -> Shape:
    """Return the target of a reshape of ``count`` elements, without -1."""
    target = tuple(integer(n, "shape") for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    unknown: int | None = None
    known = 1
    for i, n in enumerate(target):
        if n >= 0:
            known *= n
        elif n < -1 or unknown is not None:
            raise ShapeError(f"shape must have at most one -1 and no other negative length, got {target}")
        else:
            unknown = i
    if unknown is not None:
        if not known or count % known:
            raise ShapeError(f"shape must have lengths that divide {count} elements, got {target}")
        return (*target[:unknown], count // known, *target[unknown + 1 :])
    if known != count:
        raise ShapeError(f"shape must have {count} elements, got {target}")
    return target


def fill_index(index: tuple[Any, ...], arrays: Sequence[Any]) -> Any:
    """Return an index template with its array operands instead of ``ARRAY``."""
    if arrays:
        rest = iter(arrays)
        index = tuple(next(rest) if entry is ARRAY else entry for entry in index)
    return index[0] if len(index) == 1 else index


class PartAxis(NamedTuple):
    """Positions ``start + k * step`` of a part along an axis, ``k`` below ``length``.

    part_axis: the axis of the part, -1 if it has none.
    """

    start: int
    step: int
    length: int
    part_axis: int

    def turned(self) -> tuple[int, int]:
        """Return the lowest position of a descending axis, and its positive step."""
        return self.start + (self.length - 1) * self.step, -self.step


def axes_of_part(index: tuple[Any, ...], shape: tuple[int, ...]) -> list[PartAxis] | None:
    """Return the positions of a part along each axis, or None.

    None stands for an index with other entries than numbers, slices, None and an ellipsis.
    """
    if not all(entry is None or entry is Ellipsis or type(entry) in (int, slice) for entry in index):
        return None
    named = sum(type(entry) in (int, slice) for entry in index)
    whole = [slice(None)] * (len(shape) - named)
    at = next((k for k, entry in enumerate(index) if entry is Ellipsis), len(index))
    found: list[PartAxis] = []
    part_axis = 0
    for entry in (*index[:at], *whole, *index[at + 1 :]):
        if entry is not None:
            n = shape[len(found)]
            if type(entry) is int:
                found.append(PartAxis(entry % n, 1, 1, -1))
                continue
            places = range(n)[entry]
            found.append(PartAxis(places.start, places.step, len(places), part_axis))
        part_axis += 1
    return found


def product_mismatch(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    """Return why matrices of these shapes cannot be multiplied, or an empty string."""
    if not a or not b:
        return "an operand has no axes"
    axis = -2 if len(b) > 1 else 0
    if a[-1] != b[axis]:
        return f"the last axis of x1 has length {a[-1]}, axis {axis} of x2 has length {b[axis]}"
    try:
        broadcast_shapes(a[:-2], b[:-2])
    except ShapeError:
        return f"the batch axes {a[:-2]} and {b[:-2]} are not broadcastable"
    return ""


def window_places(
    shape: Sequence[int], axis: int, length: int, step: int, dilation: int = 1
) -> list[tuple[slice, ...]]:
    """Return the index of each element of the windows along an axis."""
    span = (shape[axis] - dilation * (length - 1) - 1) // step * step + 1
    before, after = (slice(None),) * axis, (slice(None),) * (len(shape) - axis - 1)
    return [(*before, slice(i * dilation, i * dilation + span, step), *after) for i in range(length)]
