"""Products of vectors and matrices, diagonals and traces, powers."""

from operator import index as as_int
from typing import Any

from agrad.engine.batching import shift
from agrad.engine.tensor import Tensor
from agrad.errors import OperandError, ShapeError
from agrad.ops.definition import of_library, primitive, public_of_array, public_of_arrays
from agrad.ops.linear_algebra import inv, matmul
from agrad.ops.matrices import check_matrices, conjugate, diagonal_index, on_diagonal
from agrad.ops.shared import ndim_of
from agrad.ops.statistical import sum as sum_
from agrad.registry import namespace, public
from agrad.shapes import inverse_permutation, normalize_axis, size

__all__ = ["cross", "diagonal", "matrix_power", "tensordot", "trace", "vecdot"]

Axes = tuple[int, ...]


diagonal_p = of_library("linalg.diagonal(x, *, offset)", linear="x", batch="leading", core_axes=2, is_view=True)


@diagonal_p.vjp
def diagonal_vjp(xp: Any, g: Any, x_meta: Any, *, offset: int) -> Any:
    m, n = x_meta.shape[-2:]
    return on_diagonal(xp, g, m, n, offset)


@diagonal_p.write_back
def diagonal_put(xp: Any, x: Any, value: Any, *, offset: int) -> Any:
    *batch, m, n = x.shape
    flat = xp.reshape(x, (*batch, m * n))
    return xp.reshape(xp.setitem(flat, value, index=diagonal_index(value.shape[-1], m, n, offset)), (*batch, m, n))


@public_of_array("linalg")
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the elements ``x[..., i, i + offset]``.

    Parameters
    ----------
    x : array of shape (..., m, n) and any dtype
    offset : int
        Offset of the diagonal to the right of the main one.

    Returns
    -------
    array
        Array of shape (..., k); k is 0 beyond the corners. A view if the library returns one.

    Examples
    --------
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> agrad.linalg.diagonal(a)
    array([4., 5.])
    """
    check_matrices(x, "diagonal")
    return diagonal_p(x, offset=as_int(offset))


@public_of_array("linalg")
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sum of a diagonal of each matrix.

    Parameters
    ----------
    x : array of shape (..., m, n) with a numeric dtype
    offset : int
        Offset of the diagonal to the right of the main one.
    dtype : dtype, optional
        dtype of the returned array.

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> a = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> agrad.linalg.trace(a)
    np.float64(5.0)
    """
    check_matrices(x, "trace")
    return sum_(diagonal_p(x, offset=as_int(offset)), axis=-1, dtype=dtype)


def _from_last(axis: int, n1: int, n2: int) -> int:
    """Return an axis of arrays of ``n1`` and ``n2`` axes, counted from the last."""
    axis = as_int(axis)
    return axis if axis < 0 else normalize_axis(axis, min(n1, n2)) - max(n1, n2)


@primitive(linear=("x1", "x2"), broadcasts=True, name="linalg.cross", batch="leading")
def cross_p(xp: Any, x1: Any, x2: Any, /, *, axis: int) -> Any:
    if hasattr(xp.linalg, "cross"):
        return xp.linalg.cross(x1, x2, axis=axis)
    (a, b, c), (d, e, f) = (xp.unstack(x, axis=axis) for x in (x1, x2))
    return xp.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=axis)


@cross_p.vjp("x1")
def cross_x1(g: Any, x2: Any, *, axis: int) -> Any:
    # the triple product is cyclic: g . (t x b) = t . (b x g)
    return cross(x2, g, axis=axis)


@cross_p.vjp("x2")
def cross_x2(g: Any, x1: Any, *, axis: int) -> Any:
    return cross(g, x1, axis=axis)


@public_of_arrays("linalg")
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross product of vectors of length 3.

    Parameters
    ----------
    x1, x2 : array
        Numeric arrays. All axes except ``axis`` broadcast.
    axis : int
        Axis of the vectors. A negative axis counts from the last axis of each array.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> x, y = np.asarray([1.0, 0.0, 0.0]), np.asarray([0.0, 1.0, 0.0])
    >>> agrad.linalg.cross(x, y)
    array([0., 0., 1.])
    """
    n1, n2 = ndim_of(x1, "cross"), ndim_of(x2, "cross")
    axis = _from_last(axis, n1, n2)
    if not n1 or not n2 or -axis > min(n1, n2) or x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError(
            f"cross: vectors must have length 3 along axis {axis}, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}"
        )
    return cross_p(x1, x2, axis=axis)


vecdot_p = of_library("vecdot(x1, x2, *, axis)", linear=("x1", "x2"), broadcasts=True, batch="leading")


@vecdot_p.vjp("x1")
def vecdot_x1(xp: Any, g: Any, x2: Any, *, axis: int) -> Any:
    # the product conjugates x1: Re(g conj(t) b) = Re(conj(g b) t)
    return conjugate(xp, xp.expand_dims(g, axis=axis) * x2)


@vecdot_p.vjp("x2")
def vecdot_x2(xp: Any, g: Any, x1: Any, *, axis: int) -> Any:
    return xp.expand_dims(g, axis=axis) * conjugate(xp, x1)


@public
@public_of_arrays("linalg")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the sum of ``conj(x1) * x2`` along an axis.

    Parameters
    ----------
    x1, x2 : array
        Numeric arrays. All axes except ``axis`` broadcast.
    axis : int
        Axis of the sum. A negative axis counts from the last axis of each array.

    Returns
    -------
    array of the broadcast shape without ``axis``

    Examples
    --------
    >>> x, y = np.asarray([[1.0, 2.0], [3.0, 4.0]]), np.asarray([1.0, 10.0])
    >>> agrad.vecdot(x, y)
    array([21., 43.])
    """
    n1, n2 = ndim_of(x1, "vecdot"), ndim_of(x2, "vecdot")
    axis = _from_last(axis, n1, n2)
    if not n1 or not n2 or -axis > min(n1, n2) or x1.shape[axis] != x2.shape[axis]:
        raise ShapeError(
            f"vecdot: shapes {tuple(x1.shape)} and {tuple(x2.shape)} are incompatible: they differ along axis {axis}"
        )
    return vecdot_p(x1, x2, axis=axis)


def _free(ndim: int, axes: Axes) -> Axes:
    return tuple(i for i in range(ndim) if i not in axes)


def _in_place_of(xp: Any, value: Any, order: Axes) -> Any:
    """Move axis i of ``value`` to the position ``order[i]``."""
    back = inverse_permutation(order)
    return value if back == tuple(range(len(order))) else xp.permute_dims(value, back)


tensordot_p = of_library("tensordot(x1, x2, *, axes)", linear=("x1", "x2"))


@tensordot_p.vjp("x1")
def tensordot_x1(xp: Any, g: Any, x1_meta: Any, x2: Any, *, axes: tuple[Axes, Axes]) -> Any:
    first, second = axes
    free1, free2 = _free(len(x1_meta.shape), first), _free(len(x2.shape), second)
    out = xp.tensordot(g, x2, axes=(tuple(range(len(free1), len(free1) + len(free2))), free2))
    # the axes left of x2 are the summed ones, in their own order
    return _in_place_of(xp, out, (*free1, *(first[second.index(axis)] for axis in sorted(second))))


@tensordot_p.vjp("x2")
def tensordot_x2(xp: Any, g: Any, x2_meta: Any, x1: Any, *, axes: tuple[Axes, Axes]) -> Any:
    first, second = axes
    free1, free2 = _free(len(x1.shape), first), _free(len(x2_meta.shape), second)
    out = xp.tensordot(x1, g, axes=(free1, tuple(range(len(free1)))))
    return _in_place_of(xp, out, (*(second[first.index(axis)] for axis in sorted(first)), *free2))


def _by_matmul(xp: Any, x1: Any, x2: Any, /, *, axes: tuple[Axes, Axes]) -> Any:
    first, second = axes
    free1, free2 = _free(len(x1.shape), first), _free(len(x2.shape), second)
    left, right = xp.permute_dims(x1, (*free1, *first)), xp.permute_dims(x2, (*second, *free2))
    lead, inner, rest = left.shape[: len(free1)], size(left.shape[len(free1) :]), right.shape[len(second) :]
    product = xp.matmul(xp.reshape(left, (size(lead), inner)), xp.reshape(right, (inner, size(rest))))
    return xp.reshape(product, (*lead, *rest))


tensordot_p.primitive.definition = _by_matmul


@tensordot_p.batch
def tensordot_batch(
    xp: Any, x1: Any, x2: Any, x1_mapped: bool, x2_mapped: bool, batch_size: int, *, axes: tuple[Axes, Axes]
) -> Any:
    first, second = axes
    if not x2_mapped:
        return xp.tensordot(x1, x2, axes=(shift(first), second))
    if not x1_mapped:
        return xp.moveaxis(xp.tensordot(x1, x2, axes=(first, shift(second))), len(x1.shape) - len(first), 0)
    free1, free2 = _free(len(x1.shape) - 1, first), _free(len(x2.shape) - 1, second)
    left = [tuple(x1.shape[a + 1] for a in axes) for axes in (free1, first)]
    right = tuple(x2.shape[a + 1] for a in free2)
    rows = xp.reshape(xp.permute_dims(x1, (0, *shift((*free1, *first)))), (batch_size, size(left[0]), size(left[1])))
    cols = xp.reshape(xp.permute_dims(x2, (0, *shift((*second, *free2)))), (batch_size, size(left[1]), size(right)))
    return xp.reshape(xp.matmul(rows, cols), (batch_size, *left[0], *right))


@public
@public_of_arrays("linalg")
def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Any:
    """Return the sum of products over pairs of axes.

    Parameters
    ----------
    x1, x2 : array
        Arrays of any shapes with a numeric dtype.
    axes : int or pair of sequences of ints
        How many last axes of ``x1`` and first ones of ``x2`` to sum over, or the axes of each.

    Returns
    -------
    array with the other axes of ``x1`` followed by the other axes of ``x2``

    Examples
    --------
    >>> a = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> agrad.tensordot(a, a, axes=2)
    array(30.)
    """
    n1, n2 = ndim_of(x1, "tensordot"), ndim_of(x2, "tensordot")
    if hasattr(axes, "__index__"):
        count = as_int(axes)
        if not 0 <= count <= min(n1, n2):
            raise ShapeError(
                f"tensordot: axes must be at most the number of axes of both arrays, got {count} for shapes "
                f"{tuple(x1.shape)} and {tuple(x2.shape)}"
            )
        pair: tuple[Axes, Axes] = (tuple(range(n1 - count, n1)), tuple(range(count)))
    else:
        try:
            left, right = axes
        except (TypeError, ValueError):
            raise OperandError(f"tensordot: axes must be an int or a pair of sequences, got {axes!r}") from None
        left, right = (a if isinstance(a, (tuple, list)) else (a,) for a in (left, right))
        pair = tuple(normalize_axis(a, n1) for a in left), tuple(normalize_axis(a, n2) for a in right)
    if len(pair[0]) != len(pair[1]) or any(len(set(p)) != len(p) for p in pair):
        raise ShapeError(f"tensordot: axes must be pairs of distinct axes, got {axes!r}")
    if any(x1.shape[a] != x2.shape[b] for a, b in zip(*pair, strict=True)):
        raise ShapeError(
            f"tensordot: shapes {tuple(x1.shape)} and {tuple(x2.shape)} are incompatible along axes {axes!r}"
        )
    out = tensordot_p(x1, x2, axes=pair)
    if isinstance(out, Tensor) and not out.shape:
        out._link = None  # a 0-D array, not a scalar: it has views
    return out


def _identity(x: Any) -> Any:
    """Return identity matrices of the shape and dtype of ``x``."""
    ones = namespace.ones_like(x[..., 0]) if x.shape[-1] else x[..., 0:0]
    return namespace.reshape(on_diagonal(namespace, ones, *x.shape[-2:]), tuple(x.shape)) if x.shape[-1] else x


@public_of_array("linalg")
def matrix_power(x: Any, n: int, /) -> Any:
    """Return the product of ``n`` factors ``x``, or of ``-n`` inverses.

    Parameters
    ----------
    x : array of shape (..., k, k) with a floating-point dtype
    n : int
        The power. 0 returns identity matrices, which are constant.

    Returns
    -------
    array of the shape of ``x``

    Raises
    ------
    ShapeError
        If the matrices are not square. For a singular matrix and a negative power, the array library raises its own
        error.

    Examples
    --------
    >>> a = np.asarray([[1.0, 1.0], [0.0, 1.0]])
    >>> agrad.linalg.matrix_power(a, 5)
    array([[1., 5.],
           [0., 1.]])
    """
    check_matrices(x, "matrix_power", square=True)
    n = as_int(n)
    if n == 0:
        return _identity(x)
    if n < 0:
        x, n = inv(x), -n
    result = None
    while True:
        if n % 2:
            result = x if result is None else matmul(result, x)
        n //= 2
        if not n:
            return result
        x = matmul(x, x)
