"""Shapes and orders of elements. All are linear: each is its own forward rule."""

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

from agrad.engine.backward import sum_to
from agrad.engine.batching import shift, with_rank
from agrad.errors import OperandError, ReadOnlyViewError, ShapeError
from agrad.ops.definition import of_library, primitive, public_of_array, public_of_sequence
from agrad.ops.shared import Axes, cut, ndim_of, no_view, shape_of
from agrad.registry import public
from agrad.shapes import (
    broadcast_shapes,
    broadcasts_to,
    inverse_permutation,
    normalize_axes,
    normalize_axis,
    normalize_permutation,
    resolve_reshape,
    size,
)

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "matrix_transpose", "moveaxis", "permute_dims",
    "reshape", "squeeze", "stack",
]  # fmt: skip


def _permutation(axes: Any, x: Any) -> tuple[int, ...]:
    return normalize_permutation(axes, ndim_of(x, "permute_dims"))


@primitive(name="reshape", linear="x", kind="reshape", is_view=True, numpy_view=True)
def reshape_p(xp: Any, x: Any, /, *, shape: Any) -> Any:
    return xp.reshape(x, shape)


@reshape_p.vjp
def reshape_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    return xp.reshape(g, x_meta.shape)


@reshape_p.batch
def reshape_batch(xp: Any, x: Any, batch_size: int, *, shape: Any) -> Any:
    return xp.reshape(x, (batch_size, *shape))


@reshape_p.write_back
def reshape_put(xp: Any, x: Any, value: Any) -> Any:
    return xp.reshape(value, tuple(x.shape))


reshape_p.primitive.by_layout = True


@public_of_array
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """Return the elements, in row-major order, in another shape.

    Parameters
    ----------
    x : array of any shape and dtype
    shape : int or tuple of ints
        One length may be -1, which is inferred.
    copy : bool, optional
        If True, the result is never a view.

    Returns
    -------
    array
        A view if the library returns one.

    Examples
    --------
    >>> agrad.reshape(np.asarray([1.0, 2.0, 3.0, 4.0]), (2, -1))
    array([[1., 2.],
           [3., 4.]])
    """
    out = reshape_p(x, shape=resolve_reshape(shape, math.prod(shape_of(x, "reshape"))))
    return no_view(out) if copy else out


@primitive(name="permute_dims", linear="x", kind="transpose", is_view=True, numpy_view=True)
def permute_dims_p(xp: Any, x: Any, /, *, axes: Any) -> Any:
    return xp.permute_dims(x, axes)


@permute_dims_p.vjp
def permute_dims_vjp(xp: Any, g: Any, *, axes: Any) -> Any:
    return xp.permute_dims(g, inverse_permutation(axes))


@permute_dims_p.batch
def permute_dims_batch(xp: Any, x: Any, *, axes: Any) -> Any:
    return xp.permute_dims(x, (0, *shift(axes)))


@permute_dims_p.write_back
def permute_dims_put(xp: Any, value: Any, *, axes: Any) -> Any:
    return xp.permute_dims(value, inverse_permutation(axes))


@public_of_array
def permute_dims(x: Any, /, axes: Sequence[SupportsIndex]) -> Any:
    """Reorder the axes: axis i of the result is axis ``axes[i]`` of ``x``.

    Parameters
    ----------
    x : array of any shape and dtype
    axes : tuple of ints
        A permutation of the axes.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.permute_dims(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return permute_dims_p(x, axes=_permutation(axes, x))


@public
@public("linalg")
@primitive(linear="x", batch="leading", core_axes=2, kind="transpose", is_view=True, numpy_view=True, symmetric=True)
def matrix_transpose(xp: Any, x: Any, /) -> Any:
    """Exchange the last two axes.

    Parameters
    ----------
    x : array of shape (..., m, n) and any dtype

    Returns
    -------
    array of shape (..., n, m)

    Examples
    --------
    >>> agrad.matrix_transpose(np.asarray([[1, 2, 3], [4, 5, 6]]))
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    return xp.matrix_transpose(x)


@matrix_transpose.write_back
def matrix_transpose_put(xp: Any, value: Any) -> Any:
    return xp.matrix_transpose(value)


@public_of_array
def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Move axes to other positions; the other axes keep their order.

    Parameters
    ----------
    x : array of any shape and dtype
    source, destination : int or tuple of ints
        As many sources as destinations.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.moveaxis(np.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = ndim_of(x, "moveaxis")
    sources = [normalize_axis(a, ndim) for a in (source if isinstance(source, (tuple, list)) else (source,))]
    targets = [
        normalize_axis(a, ndim) for a in (destination if isinstance(destination, (tuple, list)) else (destination,))
    ]
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ShapeError(
            f"moveaxis: source and destination must contain equally many distinct axes, got {source} and {destination}"
        )
    order = [i for i in range(ndim) if i not in sources]
    for target, src in sorted(zip(targets, sources, strict=True)):
        order.insert(target, src)
    return permute_dims_p(x, axes=tuple(order))


@primitive(name="broadcast_to", linear="x", kind="broadcast", is_view=True)
def broadcast_to_p(xp: Any, x: Any, /, *, shape: Any) -> Any:
    return xp.broadcast_to(x, shape)


@broadcast_to_p.vjp
def broadcast_to_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    return sum_to(xp, g, x_meta.shape)


@broadcast_to_p.batch
def broadcast_to_batch(xp: Any, x: Any, batch_size: int, *, shape: Any) -> Any:
    return xp.broadcast_to(with_rank(xp, x, len(shape)), (batch_size, *shape))


@broadcast_to_p.write_back
def broadcast_to_put(xp: Any, x: Any, value: Any) -> Any:
    if size(value.shape) != size(x.shape):
        raise ReadOnlyViewError(
            f"An array of shape {tuple(x.shape)} broadcast to {tuple(value.shape)} is read-only, because its elements "
            "share memory. Assign to a copy: agrad.asarray(x, copy=True)."
        )
    return xp.reshape(value, tuple(x.shape))


@public_of_array
def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Repeat an array to a shape.

    Parameters
    ----------
    x : array of any shape and dtype
    shape : int or tuple of ints

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.broadcast_to(np.asarray([1.0, 2.0]), (3, 2))
    array([[1., 2.],
           [1., 2.],
           [1., 2.]])
    """
    ndim_of(x, "broadcast_to")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not broadcasts_to(tuple(x.shape), shape):
        raise ShapeError(f"broadcast_to: shape must be one that x of shape {tuple(x.shape)} broadcasts to, got {shape}")
    return broadcast_to_p(x, shape=shape)


@public
def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Broadcast arrays against one another.

    Parameters
    ----------
    *arrays : arrays
        Array of shapes that broadcast.

    Returns
    -------
    tuple of arrays
        Arrays of the same shape.

    Examples
    --------
    >>> x, y = agrad.broadcast_arrays(np.asarray([1.0, 2.0]), np.asarray([[10.0], [20.0]]))
    >>> x
    array([[1., 2.],
           [1., 2.]])
    >>> y
    array([[10., 10.],
           [20., 20.]])
    """
    shape = broadcast_shapes(*(tuple(x.shape) for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


@public_of_array
def expand_dims(x: Any, /, axis: SupportsIndex | Sequence[SupportsIndex] = 0) -> Any:
    """Add axes of length one.

    Parameters
    ----------
    x : array of any shape and dtype
    axis : int or tuple of ints
        Their positions in the result.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.expand_dims(np.asarray([1.0, 2.0]), axis=1)
    array([[1.],
           [2.]])
    """
    if type(axis) is int and hasattr(x, "shape"):
        old = tuple(x.shape)
        axis = normalize_axis(axis, len(old) + 1)
        return reshape_p(x, shape=(*old[:axis], 1, *old[axis:]))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normalize_axes(tuple(given), ndim_of(x, "expand_dims") + len(given))
    lengths = iter(x.shape)
    shape = [1 if i in axes else next(lengths) for i in range(len(x.shape) + len(axes))]
    return reshape_p(x, shape=tuple(shape))


@public_of_array
def squeeze(x: Any, /, axis: SupportsIndex | Sequence[SupportsIndex]) -> Any:
    """Remove axes of length one.

    Parameters
    ----------
    x : array of any shape and dtype
    axis : int or tuple of ints
        Axes to remove.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.squeeze(np.ones((2, 1, 3)), axis=1).shape
    (2, 3)
    """
    axes = normalize_axes(axis, ndim_of(x, "squeeze"))
    wrong = [a for a in axes if x.shape[a] != 1]
    if wrong:
        raise ShapeError(f"squeeze: axis {wrong[0]} must have length 1, got {x.shape[wrong[0]]}")
    return reshape_p(x, shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


def _arrays_of(arrays: Any, name: str) -> tuple[list[Any], list[tuple[int, ...]]]:
    """Return the arrays in a list, and their shapes."""
    if hasattr(arrays, "shape") and not isinstance(arrays, (tuple, list)):
        raise OperandError(f"{name}: arrays must be a list or tuple of arrays, got one array")
    found = list(arrays)
    if not found:
        raise ShapeError(f"{name}: arrays must contain at least one array")
    return found, [shape_of(x, name) for x in found]


@primitive(name="concat", linear="arrays", batch="axis", moves=True)
def concat_p(xp: Any, /, *arrays: Any, axis: Any) -> Any:
    return xp.concat(arrays, axis=axis)


@concat_p.vjp
def concat_vjp(g: Any, arrays_meta: Any, *, axis: Any) -> Any:
    out, start = [], 0
    for meta in arrays_meta:
        stop = start + meta.shape[axis]
        out.append(cut(g, axis, start, stop))
        start = stop
    return out


@public_of_sequence
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Join arrays along an axis.

    Parameters
    ----------
    arrays : sequence of arrays
        Arrays of the same shape except along ``axis``.
    axis : int, optional
        None flattens the arrays.

    Returns
    -------
    array

    Examples
    --------
    >>> x, y = np.asarray([1.0, 2.0]), np.asarray([3.0])
    >>> agrad.concat([x, y])
    array([1., 2., 3.])
    """
    found, shapes = _arrays_of(arrays, "concat")
    if axis is None:
        return concat_p(*[reshape(x, (-1,)) for x in found], axis=0)
    first = shapes[0]
    axis = normalize_axis(axis, len(first))
    for shape in shapes:
        if shape != first and (shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]):
            raise ShapeError(
                f"concat: arrays must have the same shape except along axis {axis}, got "
                f"{' and '.join(map(str, shapes))}"
            )
    return concat_p(*found, axis=axis)


@primitive(name="stack", linear="arrays", batch="axis", no_alias=True, moves=True)
def stack_p(xp: Any, /, *arrays: Any, axis: Any) -> Any:
    return xp.stack(arrays, axis=axis)


@stack_p.vjp
def stack_vjp(g: Any, arrays_meta: Any, *, axis: Any) -> Any:
    return [g[(slice(None),) * axis + (i, ...)] for i in range(len(arrays_meta))]


@public_of_sequence
def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """Join arrays along a new axis.

    Parameters
    ----------
    arrays : sequence of arrays
        Arrays of the same shape.
    axis : int
        Position of the new axis.

    Returns
    -------
    array

    Examples
    --------
    >>> agrad.stack([np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0])], axis=1)
    array([[1., 3.],
           [2., 4.]])
    """
    found, shapes = _arrays_of(arrays, "stack")
    if shapes.count(shapes[0]) != len(shapes):
        raise ShapeError(f"stack: arrays must have the same shape, got {' and '.join(map(str, shapes))}")
    return stack_p(*found, axis=normalize_axis(axis, len(shapes[0]) + 1))


def _flip_axes(axis: Any, x: Any) -> tuple[int, ...]:
    return normalize_axes(axis, ndim_of(x, "flip"))


flip_p = of_library("flip(x, *, axis)", linear="x", batch="axis", is_view=True, numpy_view=True, symmetric=True)


@flip_p.write_back
def flip_put(xp: Any, value: Any, *, axis: Any) -> Any:
    return xp.flip(value, axis=axis)


@public_of_array
def flip(x: Any, /, *, axis: Axes = None) -> Any:
    """Reverse the elements along axes.

    Parameters
    ----------
    x : array of any shape and dtype
    axis : int or tuple of ints, optional
        Axes. By default, all.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.flip(np.asarray([[1, 2], [3, 4]]), axis=0)
    array([[3, 4],
           [1, 2]])
    """
    out = flip_p(x, axis=_flip_axes(axis, x))
    return out if x.shape else no_view(out)
