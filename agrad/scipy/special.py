"""Special functions by the names of ``scipy.special``.

The elementwise functions are those of ``agrad.special``. Functions here have SciPy's names and arguments.
"""

from typing import Any

import agrad
from agrad.scipy.shared import array, arrays, function


@function
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Return the logarithm of the sum of exponentials.

    Parameters
    ----------
    a : array
        Of any shape.
    axis : int or tuple of ints, optional
        The axes to sum over; all by default.
    b : array, optional
        Real factors of the exponentials, broadcast to the shape of ``a``.
    keepdims : bool
        Keep the axes with length one.
    return_sign : bool
        Return the logarithm of the sum's absolute value, and its sign.

    Returns
    -------
    array, or tuple of arrays
        The logarithm, and with ``return_sign`` the sign.

    Notes
    -----
    With m the largest of the terms' logarithms: ``m + log|sum(b exp(a - m))|``.
    """
    if b is None and not return_sign:
        return agrad.logsumexp(array(a), axis=axis, keepdims=keepdims)
    a, b = arrays(a, 1.0 if b is None else b)
    a, b = agrad.broadcast_arrays(a, b)
    # an element without a factor has no part, also where it is infinite
    a = agrad.where(b == 0, agrad.full_like(a, -agrad.inf), a)
    top = agrad.stop_gradient(agrad.max(a, axis=axis, keepdims=True))
    top = agrad.where(agrad.isfinite(top), top, agrad.zeros_like(top))
    total = agrad.sum(b * agrad.exp(a - top), axis=axis, keepdims=True)
    sign = agrad.sign(total)
    out = agrad.log(agrad.abs(total) if return_sign else total) + top
    if not keepdims:
        axes = tuple(range(a.ndim)) if axis is None else axis
        out, sign = agrad.squeeze(out, axis=axes), agrad.squeeze(sign, axis=axes)
    return (out, sign) if return_sign else out


@function
def softmax(x: Any, axis: Any = None) -> Any:
    """Return exponentials over their sum.

    Parameters
    ----------
    x : array
        Of any shape.
    axis : int or tuple of ints, optional
        The axes to sum over; all by default.

    Returns
    -------
    array
        Of the shape of ``x``; its sums over the axes are 1.
    """
    x = array(x)
    return agrad.exp(x - agrad.logsumexp(x, axis=axis, keepdims=True))


@function
def log_softmax(x: Any, axis: Any = None) -> Any:
    """Return the logarithm of ``softmax``.

    Parameters
    ----------
    x : array
        Of any shape.
    axis : int or tuple of ints, optional
        The axes to sum over; all by default.

    Returns
    -------
    array
        Of the shape of ``x``.
    """
    x = array(x)
    return x - agrad.logsumexp(x, axis=axis, keepdims=True)
