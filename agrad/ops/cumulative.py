"""Cumulative sums and products."""

from typing import Any

from agrad.errors import ShapeError
from agrad.ops.definition import of_library, public_of_array
from agrad.ops.shared import axis_of, cut, ndim_of
from agrad.ops.statistical import in_dtype

__all__ = ["cumulative_prod", "cumulative_sum"]


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
    """Return s[j] = b[j] + a[j] * s[j + 1] along the last axis, with 0 after the last.

    Two steps are joined to one, and the recurrence of half the length solved: Blelloch 1990, "Prefix sums and their
    applications". Without a division, zeros need no special case in any order of derivative.
    """
    n = b.shape[-1]
    if n <= 1:
        return b
    if n % 2:
        a = xp.concat([a, xp.zeros_like(a[..., :1])], axis=-1)
        b = xp.concat([b, xp.zeros_like(b[..., :1])], axis=-1)
    a0, a1, b0, b1 = a[..., ::2], a[..., 1::2], b[..., ::2], b[..., 1::2]
    even = _recurrence(xp, a0 * a1, b0 + a0 * b1)
    odd = b1 + a1 * xp.concat([even[..., 1:], xp.zeros_like(even[..., :1])], axis=-1)
    out = xp.stack([even, odd], axis=-1)
    return xp.reshape(out, tuple(b.shape))[..., :n]


def _before(xp: Any, x: Any) -> Any:
    """Return the product of the elements before each along the last axis."""
    return xp.cumulative_prod(xp.concat([xp.ones_like(x[..., :1]), x[..., :-1]], axis=-1), axis=x.ndim - 1)


cumulative_prod_p = of_library("cumulative_prod(x, *, axis, include_initial)", batch="axis", sparsity="before")


@cumulative_prod_p.vjp
def cumulative_prod_vjp(xp: Any, g: Any, x: Any, *, axis: int, include_initial: bool) -> Any:
    if include_initial:
        g = cut(g, axis, 1)
    if not x.shape[axis]:
        return g
    g, x = xp.moveaxis(g, axis, -1), xp.moveaxis(x, axis, -1)
    after = xp.concat([x[..., 1:], xp.ones_like(x[..., :1])], axis=-1)
    return xp.moveaxis(_before(xp, x) * _recurrence(xp, after, g), -1, axis)


@cumulative_prod_p.jvp
def cumulative_prod_jvp(xp: Any, t: Any, x: Any, *, axis: int, include_initial: bool) -> Any:
    t, x = xp.moveaxis(t, axis, -1), xp.moveaxis(x, axis, -1)
    out = t
    if x.shape[-1]:
        steps = xp.flip(_before(xp, x) * t, axis=-1)
        out = xp.flip(_recurrence(xp, xp.flip(x, axis=-1), steps), axis=-1)
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
