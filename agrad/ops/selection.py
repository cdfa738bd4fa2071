"""``where``, and the mask of elements of a cotangent that it leaves out."""

from typing import Any

from agrad.ops.definition import of_library, primitive, public_of_arrays
from agrad.ops.shared import array_arguments, no_view
from agrad.registry import CALLS

where_p = of_library(
    "where(condition, x1, x2)",
    constant="condition",
    broadcasts=True,
    masks=True,
    moves=True,
    jointly=True,
    batch="leading",
    kind="elementwise",
)


@where_p.vjp("x1")
@where_p.jvp("x1")
def where_x1(xp: Any, g: Any, condition: Any) -> Any:
    return xp.where(condition, g, 0)


@where_p.vjp("x2")
@where_p.jvp("x2")
def where_x2(xp: Any, g: Any, condition: Any) -> Any:
    return xp.where(condition, 0, g)


@primitive(constant="used", masks=True, broadcasts=True, batch="leading", kind="elementwise")
def mask_unused(xp: Any, used: Any, part: Any, /) -> Any:
    """Return ``part``, but 0 where it is not used and not finite.

    The guard of passes behind ``where``. Both arrays have one shape. A derivative of it that is not finite is guarded
    in the same way.
    """
    return xp.where(used | xp.isfinite(part), part, xp.zeros_like(part))


@mask_unused.vjp("part")
@mask_unused.jvp("part")
def mask_unused_part(xp: Any, g: Any, used: Any, part: Any) -> Any:
    return mask_unused(used, xp.where(used | xp.isfinite(part), g, xp.zeros_like(g)))


def _zero_masked(used: Any, part: Any, exact: bool) -> Any:
    return where_p(used, part, 0) if exact else mask_unused(used, part)


CALLS["zero_masked"] = _zero_masked


@public_of_arrays
def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Select elements of one of two arrays by a condition.

    A NaN or an infinity in a branch that is not chosen does not reach the gradient: it gets the cotangent 0, whatever
    its values are.

    Parameters
    ----------
    condition : array
        Booleans.
    x1, x2 : array or number
        The three broadcast.

    Returns
    -------
    array of the broadcast shape

    Examples
    --------
    >>> x = np.asarray([1.0, 2.0, 3.0])
    >>> agrad.where(x > 1.5, x**2, 0.0)
    array([0., 4., 9.])
    >>> agrad.elementwise_grad(lambda x: agrad.where(x > 1.5, x**2, 0.0))(x)
    array([0., 4., 6.])
    """
    out = where_p(*array_arguments("where", condition, x1, x2))
    return out if out.shape else no_view(out)  # NumPy's is an array, no scalar
