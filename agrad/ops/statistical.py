"""Reductions, and running sums and products."""

from typing import Any

from agrad.backends.base import in_digits_of
from agrad.dtypes import as_dtype, is_complex
from agrad.errors import ShapeError
from agrad.ops.casting import astype
from agrad.ops.definition import of_library, primitive, public_of_array
from agrad.ops.elementwise import add, maximum, minimum
from agrad.ops.lengths import length
from agrad.ops.matrices import conjugate
from agrad.ops.shared import Axes, axes_of, axis_of, cut, keep, ndim_of
from agrad.shapes import size

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]


def _count(shape: tuple[int, ...], axis: tuple[int, ...]) -> int:
    return size(shape[i] for i in axis)


def _spread(xp: Any, g: Any, shape: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    """Repeat the result of a reduction over ``axis`` at the reduced elements."""
    if len(axis) != len(shape):
        g = keep(xp, g, shape, axis)
    elif len(g.shape):
        g = xp.reshape(g, ())
    return xp.broadcast_to(g, shape)


def in_dtype(operation: Any, x: Any, dtype: Any, **settings: Any) -> Any:
    """Apply a reduction to ``x`` in another dtype; None: in its own."""
    if dtype is None:
        return operation(x, **settings)
    y = operation(astype(x, dtype), **settings)
    # integers are summed in the widest dtype of their kind; casting the sum wraps around as summing does
    return y if as_dtype(y.dtype) == as_dtype(dtype) else astype(y, dtype)


sum_p = of_library("sum(x, *, axis, keepdims)", linear="x", batch="axis", kind="reduction", combine=add, moves=True)


@sum_p.vjp
def sum_vjp(xp: Any, g: Any, x_meta: Any, *, axis: Any) -> Any:
    return _spread(xp, g, x_meta.shape, axis)


@public_of_array
def sum(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the sum over axes.

    Integers are widened as the standard requires.

    Parameters
    ----------
    x : array of any shape with a numeric dtype
    axis : int or tuple of ints, optional
        Axes to reduce. By default, all.
    dtype : dtype, optional
        dtype of the returned array.
    keepdims : bool
        If True, keep the reduced axes with length one.

    Returns
    -------
    array without the reduced axes, or with them as axes of length one

    Examples
    --------
    >>> agrad.sum(np.asarray([[1.0, 5.0], [7.0, 7.0]]), axis=0)
    array([ 8., 12.])
    """
    if dtype is None:
        return sum_p(x, axis=axes_of(axis, x), keepdims=keepdims)
    return in_dtype(sum_p, x, dtype, axis=axes_of(axis, x), keepdims=keepdims)


mean_p = of_library(
    "mean(x, *, axis, keepdims)", linear="x", batch="axis", kind="reduction", combine=add, averages=True, moves=True
)


@mean_p.vjp
def mean_vjp(xp: Any, g: Any, x_meta: Any, *, axis: Any) -> Any:
    return _spread(xp, g / (_count(x_meta.shape, axis) or 1), x_meta.shape, axis)


@public_of_array
def mean(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the arithmetic mean over axes.

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array without the reduced axes, or with them as axes of length one

    Examples
    --------
    >>> agrad.mean(np.asarray([[1.0, 5.0], [7.0, 7.0]]), axis=0)
    array([4., 6.])
    """
    return mean_p(x, axis=axes_of(axis, x), keepdims=keepdims)


def _leave_one_out(xp: Any, x: Any) -> Any:
    """Return the product of all other elements along the last axis.

    By a tree of pairwise products, up and then down. Without a division, zeros need no special case in any order of
    derivative.
    """
    n = x.shape[-1]
    if n <= 1:
        return xp.ones_like(x)
    paired = n - n % 2
    left, right = x[..., :paired:2], x[..., 1:paired:2]
    rest = _leave_one_out(xp, xp.concat([left * right, x[..., paired:]], axis=-1))
    out = xp.stack([rest[..., : paired // 2] * right, rest[..., : paired // 2] * left], axis=-1)
    return xp.concat([xp.reshape(out, (*x.shape[:-1], paired)), rest[..., paired // 2 :]], axis=-1)


def _others(xp: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """Return the derivative of the product over ``axis`` by each element."""
    ndim = len(x.shape)
    if not axis:
        return xp.ones_like(x)
    order = (*(i for i in range(ndim) if i not in axis), *axis)
    moved = xp.permute_dims(x, order)
    flat = xp.reshape(moved, (*moved.shape[: ndim - len(axis)], _count(x.shape, axis)))
    out = xp.reshape(_leave_one_out(xp, flat), tuple(moved.shape))
    return xp.permute_dims(out, tuple(order.index(i) for i in range(ndim)))


@primitive(name="prod", batch="axis")
def prod_p(xp: Any, x: Any, /, *, axis: Any, keepdims: bool) -> Any:
    return xp.prod(x, axis=axis if len(axis) != 1 else axis[0], keepdims=keepdims)


@prod_p.vjp
def prod_vjp(xp: Any, g: Any, x: Any, y: Any, *, axis: Any) -> Any:
    # y is named for kernels, which divide it by the factors
    return keep(xp, g, tuple(x.shape), axis) * _others(xp, x, axis)


@prod_p.jvp
def prod_jvp(xp: Any, t: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    return xp.sum(t * _others(xp, x, axis), axis=axis, keepdims=keepdims)


@public_of_array
def prod(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the product over axes.

    Derivatives of every order are also correct at zeros.

    Parameters
    ----------
    x : array of any shape with a numeric dtype
    axis, dtype, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array without the reduced axes, or with them as axes of length one

    Examples
    --------
    >>> agrad.prod(np.asarray([[1.0, 5.0], [7.0, 7.0]]), axis=1)
    array([ 5., 49.])
    >>> agrad.grad(agrad.prod)(np.asarray([0.0, 2.0, 3.0]))
    array([6., 0., 0.])
    """
    return in_dtype(prod_p, x, dtype, axis=axes_of(axis, x), keepdims=keepdims)


def _winners(xp: Any, x: Any, y: Any, axis: Any) -> Any:
    """Return each extreme element's share of the derivative.

    Ties share it evenly, and a NaN gets all of it.
    """
    hit = xp.astype((x == keep(xp, y, tuple(x.shape), axis)) | (x != x), x.dtype)
    return hit / xp.sum(hit, axis=axis, keepdims=True)


max_p = of_library("max(x, *, axis, keepdims)", batch="axis", kind="reduction", combine=maximum)


min_p = of_library("min(x, *, axis, keepdims)", batch="axis", kind="reduction", combine=minimum)


@max_p.vjp
@min_p.vjp
def extreme_vjp(xp: Any, g: Any, x: Any, y: Any, *, axis: Any) -> Any:
    return keep(xp, g, tuple(x.shape), axis) * _winners(xp, x, y, axis)


@max_p.jvp
@min_p.jvp
def extreme_jvp(xp: Any, t: Any, x: Any, y: Any, *, axis: Any, keepdims: bool) -> Any:
    return xp.sum(t * _winners(xp, x, y, axis), axis=axis, keepdims=keepdims)


@public_of_array
def max(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the maximum over axes.

    Elements that tie share the derivative evenly.

    Parameters
    ----------
    x : array of any shape with a real dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array without the reduced axes, or with them as axes of length one

    Examples
    --------
    >>> agrad.max(np.asarray([[1.0, 5.0], [7.0, 7.0]]), axis=1)
    array([5., 7.])
    >>> agrad.grad(agrad.max)(np.asarray([1.0, 7.0, 7.0]))
    array([0. , 0.5, 0.5])
    """
    return max_p(x, axis=axes_of(axis, x), keepdims=keepdims)


@public_of_array
def min(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the minimum over axes.

    Elements that tie share the derivative evenly.

    Parameters
    ----------
    x : array of any shape with a real dtype
    axis, keepdims : optional
        As for ``sum``.

    Returns
    -------
    array without the reduced axes, or with them as axes of length one

    Examples
    --------
    >>> agrad.min(np.asarray([[1.0, 5.0], [7.0, 7.0]]), axis=1)
    array([1., 7.])
    >>> agrad.grad(agrad.min)(np.asarray([1.0, 1.0, 7.0]))
    array([0.5, 0.5, 0. ])
    """
    return min_p(x, axis=axes_of(axis, x), keepdims=keepdims)


def _deviation(xp: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """Return an array to which the derivative of the variance is proportional."""
    return conjugate(xp, x - xp.mean(x, axis=axis, keepdims=True))


def _of_deviation(x: Any, axis: tuple[int, ...], correction: float) -> Any:
    """Return the factor of ``_deviation`` in the derivative: 2 / (n - correction).

    If ``correction`` leaves no degree of freedom, the derivative is infinite or NaN, like the variance.
    """
    freedom = _count(tuple(x.shape), axis) - correction
    return in_digits_of(x, 2 / freedom, lambda xp, one: 2 * one / freedom) if freedom > 0 else float("inf")


@primitive(name="var", batch="axis", decompose=True, rule_traits={"vjp:x": {"decompose": True}})
def var_p(xp: Any, x: Any, /, *, axis: Any, correction: float, keepdims: bool) -> Any:
    if not axis:  # without axes PyTorch returns 0 also for elements that are NaN
        x, axis, keepdims = xp.expand_dims(x, axis=-1), (-1,), False
    how = {"axis": axis, "correction": correction, "keepdims": keepdims}
    if is_complex(x.dtype):  # not every library has the variance of complex numbers
        return xp.var(xp.real(x), **how) + xp.var(xp.imag(x), **how)
    return xp.var(x, **how)


def _variance(xp: Any, x: Any, /, *, axis: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    deviations = x - xp.mean(x, axis=axis, keepdims=True)
    freedom = _count(tuple(x.shape), axis) - correction
    return xp.sum(xp.square(deviations), axis=axis, keepdims=keepdims) / (freedom if freedom > 0 else 0)


var_p.primitive.definition = _variance


@var_p.vjp
def var_vjp(xp: Any, g: Any, x: Any, *, axis: Any, correction: float) -> Any:
    # the cotangent has fewer elements than x: scaled first, it saves a pass
    return _deviation(xp, x, axis) * (keep(xp, g, tuple(x.shape), axis) * _of_deviation(x, axis, correction))


@var_p.jvp
def var_jvp(xp: Any, t: Any, x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
    change = t * _deviation(xp, x, axis)
    change = xp.real(change) if is_complex(change.dtype) else change
    return xp.sum(change, axis=axis, keepdims=keepdims) * _of_deviation(x, axis, correction)


@public_of_array
def var(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the variance over axes.

    It is sum(abs(x - mean)**2) / (n - correction).

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis : int or tuple of ints, optional
        Axes to reduce. By default, all.
    correction : float
        Number to subtract from the element count in the divisor.
    keepdims : bool
        If True, keep the reduced axes with length one.

    Returns
    -------
    array with a real dtype

    Examples
    --------
    >>> agrad.var(np.asarray([1.0, 3.0]), correction=1)
    np.float64(2.0)
    >>> agrad.grad(agrad.var)(np.asarray([1.0, 3.0]))
    array([-1.,  1.])
    """
    return var_p(x, axis=axes_of(axis, x), correction=correction, keepdims=keepdims)


@public_of_array
def std(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the standard deviation over axes, the square root of ``var``.

    If all elements are equal, the derivative is 0, as for a norm at the zero vector.

    Parameters
    ----------
    x : array of any shape with a floating-point dtype
    axis : int or tuple of ints, optional
        Axes to reduce. By default, all.
    correction : float
        Number to subtract from the element count in the divisor.
    keepdims : bool
        If True, keep the reduced axes with length one.

    Returns
    -------
    array with a real dtype

    Examples
    --------
    >>> agrad.std(np.asarray([1.0, 3.0]))
    np.float64(1.0)
    >>> agrad.grad(agrad.std)(np.asarray([1.0, 3.0]))
    array([-0.5,  0.5])
    """
    return length(var(x, axis=axis, correction=correction, keepdims=keepdims))


# ------------------------------------------------------------------ running sums and products


cumulative_sum_p = of_library(
    "cumulative_sum(x, *, axis, include_initial)", linear="x", batch="axis", sparsity="before"
)


@cumulative_sum_p.vjp
def cumulative_sum_vjp(xp: Any, g: Any, *, axis: int, include_initial: bool) -> Any:
    if include_initial:
        g = cut(g, axis, 1)
    return xp.flip(xp.cumulative_sum(xp.flip(g, axis=axis), axis=axis), axis=axis)


@public_of_array
def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the running sums along an axis.

    Parameters
    ----------
    x : array of any shape with a numeric dtype
    axis : int, optional
        Axis to accumulate along. Optional for a 1-D array.
    dtype : dtype, optional
        dtype of the returned array.
    include_initial : bool
        If True, prepend the empty sum, 0.

    Returns
    -------
    array of the shape of ``x``, or one longer along ``axis``

    Examples
    --------
    >>> agrad.cumulative_sum(np.asarray([1.0, 2.0, 3.0]))
    array([1., 3., 6.])
    """
    axis = _running_axis(axis, x, "cumulative_sum")
    return in_dtype(cumulative_sum_p, x, dtype, axis=axis, include_initial=include_initial)


def _running_axis(axis: int | None, x: Any, name: str) -> int:
    if axis is None:
        if ndim_of(x, name) != 1:
            raise ShapeError(f"{name}: axis must be an integer for an array of shape {tuple(x.shape)}, got None")
        axis = 0
    return axis_of(axis, x)


def _recurrence(xp: Any, a: Any, b: Any) -> Any:
    """Return s[j] = b[j] + a[j] * s[j + 1] along the last axis; the last is b[-1], and ``a`` is one shorter.

    Two steps are joined to one, and the recurrence of half the length solved: Blelloch 1990, "Prefix sums and their
    applications". Without a division, zeros need no special case in any order of derivative. No element is padded: a
    factor that no result reads may be NaN.
    """
    n = b.shape[-1]
    if n <= 1:
        return b
    pairs = n // 2
    a0, a1, b0, b1 = a[..., ::2], a[..., 1::2], b[..., ::2], b[..., 1::2]
    joined = b0[..., :pairs] + a0 * b1
    if n % 2:
        joined = xp.concat([joined, b0[..., pairs:]], axis=-1)
    even = _recurrence(xp, a0[..., : a1.shape[-1]] * a1, joined)
    odd = xp.concat([b1[..., : a1.shape[-1]] + a1 * even[..., 1:], b[..., -1:]], axis=-1)
    return xp.reshape(xp.stack([even, odd], axis=-1), (*b.shape[:-1], 2 * even.shape[-1]))[..., :n]


cumulative_prod_p = of_library("cumulative_prod(x, *, axis, include_initial)", batch="axis", sparsity="before")


@cumulative_prod_p.vjp
def cumulative_prod_vjp(xp: Any, g: Any, x: Any, *, axis: int, include_initial: bool) -> Any:
    if include_initial:
        g = cut(g, axis, 1)
    if x.shape[axis] < 2:
        return g
    g, x = xp.moveaxis(g, axis, -1), xp.moveaxis(x, axis, -1)
    before, after = xp.cumulative_prod(x[..., :-1], axis=x.ndim - 1), _recurrence(xp, x[..., 1:], g)
    # no product has a factor that is constant: a tangent of 0 would make an infinite other one NaN
    parts = [after[..., :1], before[..., :-1] * after[..., 1:-1], before[..., -1:] * g[..., -1:]]
    return xp.moveaxis(xp.concat(parts, axis=-1), -1, axis)


@cumulative_prod_p.jvp
def cumulative_prod_jvp(xp: Any, t: Any, x: Any, *, axis: int, include_initial: bool) -> Any:
    t, x = xp.moveaxis(t, axis, -1), xp.moveaxis(x, axis, -1)
    out = t
    if x.shape[-1] > 1:
        before = xp.cumulative_prod(x[..., :-1], axis=x.ndim - 1)
        steps = xp.flip(xp.concat([t[..., :1], before * t[..., 1:]], axis=-1), axis=-1)
        out = xp.flip(_recurrence(xp, xp.flip(x[..., 1:], axis=-1), steps), axis=-1)
    if include_initial:
        first = xp.sum(xp.zeros_like(out), axis=-1, keepdims=True)
        out = xp.concat([first, out], axis=-1)
    return xp.moveaxis(out, -1, axis)


@public_of_array
def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the running products along an axis.

    Derivatives of every order are also correct at zeros.

    Parameters
    ----------
    x : array of any shape with a numeric dtype
    axis, dtype : optional
        As for ``cumulative_sum``.
    include_initial : bool
        If True, prepend the empty product, 1.

    Returns
    -------
    array of the shape of ``x``, or one longer along ``axis``

    Examples
    --------
    >>> agrad.cumulative_prod(np.asarray([1.0, 2.0, 3.0]))
    array([1., 2., 6.])
    >>> agrad.grad(lambda x: agrad.cumulative_prod(x)[-1])(np.asarray([0.0, 2.0, 3.0]))
    array([6., 0., 0.])
    """
    axis = _running_axis(axis, x, "cumulative_prod")
    return in_dtype(cumulative_prod_p, x, dtype, axis=axis, include_initial=include_initial)
