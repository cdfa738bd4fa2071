"""Shapes and orders of elements. All are linear, so each is its own forward rule."""

from typing import Any

from agrad.engine.batching import shift, with_rank
from agrad.engine.notation import primitive
from agrad.engine.sweep import sum_to
from agrad.errors import OperandError, ReadOnlyViewError, ShapeError
from agrad.ops.shared import ndim_of, no_view, shape_of
from agrad.shapes import (
    broadcast_shapes,
    inverse_permutation,
    normalize_axes,
    normalize_axis,
    normalize_permutation,
    resolve_reshape,
    size,
)


def _permutation(axes: Any, x: Any) -> tuple[int, ...]:
    return normalize_permutation(axes, ndim_of(x, "permute_dims"))


@primitive(linear="x", kind="reshape", is_view=True)
def reshape(xp: Any, x: Any, /, *, shape: Any) -> Any:
    return xp.reshape(x, shape)


@reshape.vjp
def reshape_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    return xp.reshape(g, x_meta.shape)


@reshape.batch
def reshape_batch(xp: Any, x: Any, batch_size: int, *, shape: Any) -> Any:
    return xp.reshape(x, (batch_size, *shape))


@reshape.put
def reshape_put(xp: Any, x: Any, value: Any) -> Any:
    return xp.reshape(value, tuple(x.shape))


reshape.primitive.by_layout = True
_reshape = reshape.bind


@reshape.door
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The elements, in row-major order, in another shape; one length may be -1.

    The result is a view where the library gives one; with ``copy=True`` it never is.
    """
    out = _reshape(x, shape=resolve_reshape(shape, size(shape_of(x, "reshape"))))
    return no_view(out) if copy else out


@primitive(linear="x", kind="transpose", is_view=True)
def permute_dims(xp: Any, x: Any, /, *, axes: Any) -> Any:
    return xp.permute_dims(x, axes)


@permute_dims.vjp
def permute_dims_vjp(xp: Any, g: Any, *, axes: Any) -> Any:
    return xp.permute_dims(g, inverse_permutation(axes))


@permute_dims.batch
def permute_dims_batch(xp: Any, x: Any, *, axes: Any) -> Any:
    return xp.permute_dims(x, (0, *shift(axes)))


@permute_dims.put
def permute_dims_put(xp: Any, value: Any, *, axes: Any) -> Any:
    return xp.permute_dims(value, inverse_permutation(axes))


_permute_dims = permute_dims.bind


@permute_dims.door
def permute_dims(x: Any, /, axes: Any) -> Any:
    """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""
    return _permute_dims(x, axes=_permutation(axes, x))


@primitive(linear="x", batch="leading", kind="transpose", is_view=True)
def matrix_transpose(xp: Any, x: Any, /) -> Any:
    """The last two axes exchanged. x: array of shape (..., m, n); gives (..., n, m)."""
    return xp.matrix_transpose(x)


@matrix_transpose.vjp
def matrix_transpose_vjp(xp: Any, g: Any) -> Any:
    return xp.matrix_transpose(g)


@matrix_transpose.put
def matrix_transpose_put(xp: Any, value: Any) -> Any:
    return xp.matrix_transpose(value)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Axes moved to other places, the rest keeping their order."""
    ndim = ndim_of(x, "moveaxis")
    sources = [normalize_axis(a, ndim) for a in (source if isinstance(source, (tuple, list)) else (source,))]
    targets = [
        normalize_axis(a, ndim) for a in (destination if isinstance(destination, (tuple, list)) else (destination,))
    ]
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ShapeError(f"moveaxis takes as many distinct sources as destinations, not {source} and {destination}")
    order = [i for i in range(ndim) if i not in sources]
    for target, src in sorted(zip(targets, sources, strict=True)):
        order.insert(target, src)
    return _permute_dims(x, axes=tuple(order))


@primitive(linear="x", is_view=True)
def broadcast_to(xp: Any, x: Any, /, *, shape: Any) -> Any:
    return xp.broadcast_to(x, shape)


@broadcast_to.vjp
def broadcast_to_vjp(xp: Any, g: Any, x_meta: Any) -> Any:
    return sum_to(xp, g, x_meta.shape)


@broadcast_to.batch
def broadcast_to_batch(xp: Any, x: Any, batch_size: int, *, shape: Any) -> Any:
    return xp.broadcast_to(with_rank(xp, x, len(shape)), (batch_size, *shape))


@broadcast_to.put
def broadcast_to_put(xp: Any, x: Any, value: Any) -> Any:
    if size(value.shape) != size(x.shape):
        raise ReadOnlyViewError(
            f"a write to an array of shape {tuple(x.shape)} broadcast to {tuple(value.shape)}, in which elements share "
            "a place; write to a copy: agrad.asarray(x, copy=True)"
        )
    return xp.reshape(value, tuple(x.shape))


_broadcast_to = broadcast_to.bind


@broadcast_to.door
def broadcast_to(x: Any, /, shape: Any) -> Any:
    """The array repeated to ``shape``. Raises ``ShapeError`` where it does not broadcast to it."""
    ndim_of(x, "broadcast_to")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if broadcast_shapes(tuple(x.shape), shape) != shape:
        raise ShapeError(f"broadcast_to: an array of shape {tuple(x.shape)} does not broadcast to {shape}")
    return _broadcast_to(x, shape=shape)


def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """All arrays broadcast against one another."""
    shape = broadcast_shapes(*(tuple(x.shape) for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


def expand_dims(x: Any, /, axis: Any = 0) -> Any:
    """New axes of length one, at the places ``axis`` (an int or a tuple) of the result."""
    if type(axis) is int and hasattr(x, "shape"):
        old = tuple(x.shape)
        axis = normalize_axis(axis, len(old) + 1)
        return _reshape(x, shape=(*old[:axis], 1, *old[axis:]))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normalize_axes(tuple(given), ndim_of(x, "expand_dims") + len(given))
    lengths = iter(x.shape)
    shape = [1 if i in axes else next(lengths) for i in range(len(x.shape) + len(axes))]
    return _reshape(x, shape=tuple(shape))


def squeeze(x: Any, /, axis: Any) -> Any:
    """Without the axes ``axis`` (an int or a tuple), which must have length one."""
    axes = normalize_axes(axis, ndim_of(x, "squeeze"))
    wrong = [a for a in axes if x.shape[a] != 1]
    if wrong:
        raise ShapeError(f"squeeze: axis {wrong[0]} of shape {tuple(x.shape)} has length {x.shape[wrong[0]]}, not 1")
    return _reshape(x, shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


def _arrays_of(arrays: Any, name: str) -> tuple[list[Any], list[tuple[int, ...]]]:
    """The arrays in a list, and their shapes."""
    if hasattr(arrays, "shape") and not isinstance(arrays, (tuple, list)):
        raise OperandError(f"{name} takes a list or tuple of arrays, not one array")
    found = list(arrays)
    if not found:
        raise ShapeError(f"{name} takes at least one array")
    return found, [shape_of(x, name) for x in found]


@primitive(linear="arrays", batch="axis")
def concat(xp: Any, /, *arrays: Any, axis: Any) -> Any:
    return xp.concat(arrays, axis=axis)


@concat.vjp
def concat_vjp(g: Any, arrays_meta: Any, *, axis: Any) -> Any:
    out, start = [], 0
    for meta in arrays_meta:
        stop = start + meta.shape[axis]
        out.append(g[(slice(None),) * axis + (slice(start, stop), ...)])
        start = stop
    return out


_concat = concat.bind


@concat.door
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """The arrays joined along an existing axis (None: each flattened first). Their other lengths must agree."""
    found, shapes = _arrays_of(arrays, "concat")
    if axis is None:
        return _concat(*[reshape(x, (-1,)) for x in found], axis=0)
    first = shapes[0]
    axis = normalize_axis(axis, len(first))
    for shape in shapes:
        if shape != first and (shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]):
            raise ShapeError(f"concat: shapes {' and '.join(map(str, shapes))} differ outside of axis {axis}")
    return _concat(*found, axis=axis)


@primitive(linear="arrays", batch="axis")
def stack(xp: Any, /, *arrays: Any, axis: Any) -> Any:
    return xp.stack(arrays, axis=axis)


@stack.vjp
def stack_vjp(g: Any, arrays_meta: Any, *, axis: Any) -> Any:
    return [g[(slice(None),) * axis + (i, ...)] for i in range(len(arrays_meta))]


_stack = stack.bind


@stack.door
def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    """The arrays, all of one shape, joined along a new axis."""
    found, shapes = _arrays_of(arrays, "stack")
    if shapes.count(shapes[0]) != len(shapes):
        raise ShapeError(f"stack: the arrays must have one shape, not {' and '.join(map(str, shapes))}")
    return _stack(*found, axis=normalize_axis(axis, len(shapes[0]) + 1))


def _flip_axes(axis: Any, x: Any) -> tuple[int, ...]:
    return normalize_axes(axis, ndim_of(x, "flip"))


@primitive(linear="x", normalize={"axis": _flip_axes}, batch="axis", is_view=True)
def flip(xp: Any, x: Any, /, *, axis: Any = None) -> Any:
    """The elements in reverse order along ``axis`` (an int, a tuple, or None for all)."""
    return xp.flip(x, axis=axis)


@flip.vjp
def flip_vjp(xp: Any, g: Any, *, axis: Any) -> Any:
    return xp.flip(g, axis=axis)


@flip.put
def flip_put(xp: Any, value: Any, *, axis: Any) -> Any:
    return xp.flip(value, axis=axis)


__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "reshape",
    "squeeze",
    "stack",
]
