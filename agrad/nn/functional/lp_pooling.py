"""1-D, 2-D and 3-D power-average pooling."""

import math
from collections.abc import Sequence
from typing import Any

import agrad
from agrad.errors import ConfigurationError
from agrad.expect import numbers
from agrad.nn.functional.pooling import Pooling, avg_pool1d, avg_pool2d, avg_pool3d
from agrad.nn.functional.real import of_array, on_axes, real_only

__all__ = ["lp_pool1d", "lp_pool2d", "lp_pool3d"]

Lengths = int | Sequence[int]
_MEANS = (avg_pool1d, avg_pool2d, avg_pool3d)


def _lp_pool(
    spatial: int,
    x: Any,
    /,
    norm_type: float,
    kernel_size: Lengths,
    stride: Lengths | None = None,
    ceil_mode: bool = False,
) -> Any:
    """Compute the norms of {n}-D windows.

    A norm is ``sum(x**p) ** (1 / p)``, without absolute values, as in PyTorch. The derivative of a norm of 0 is 0.

    Parameters
    ----------
    norm_type : float
        Order p, greater than 0.
    ceil_mode : bool
        True to include the windows that reach beyond the end. Their norms are scaled as if the windows were complete.

    Examples
    --------
    >>> x = np.array([[3.0, 4.0, 6.0, 8.0]])
    >>> agrad.nn.functional.lp_pool1d(x, 2, 2)
    array([[ 5., 10.]])
    >>> agrad.grad(lambda x: agrad.nn.functional.lp_pool1d(x, 2, 2).sum())(x)
    array([[0.6, 0.8, 0.6, 0.8]])
    >>> agrad.nn.functional.lp_pool2d(np.arange(16.0).reshape(1, 4, 4), 1, 2)
    array([[[10., 18.],
            [42., 50.]]])
    >>> agrad.nn.functional.lp_pool3d(np.ones((1, 3, 4, 6, 8)), 2, 2).shape
    (1, 3, 2, 3, 4)
    """
    name = f"lp_pool{spatial}d"
    if not norm_type > 0 or math.isinf(norm_type):
        raise ConfigurationError(f"{name}: norm_type must be greater than 0 and finite, got {norm_type!r}")
    count = math.prod(numbers(name, "kernel_size", kernel_size, spatial, 1))
    powers = agrad.pow(x, norm_type)
    total = _MEANS[spatial - 1](powers, kernel_size, stride, ceil_mode=ceil_mode) * float(count)
    some = total != 0
    # the derivative of a norm at a window of zeros is 0
    return agrad.where(some, agrad.pow(agrad.where(some, total, 1.0), 1.0 / norm_type), 0.0)


lp_pool1d, lp_pool2d, lp_pool3d = (of_array(real_only(f)) for f in on_axes(_lp_pool, shared=Pooling))
