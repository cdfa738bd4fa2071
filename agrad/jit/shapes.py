"""``eval_shape``: shapes and dtypes of a function's result."""

from collections.abc import Callable
from typing import Any

import numpy as np

from agrad.dtypes import DType, as_dtype
from agrad.engine.scalars import TracedNumber
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor
from agrad.errors import check_functions
from agrad.jit import entry as entries
from agrad.jit.api import Jitted
from agrad.jit.capture import Tracing
from agrad.jit.trace import is_raw, with_known
from agrad.ops.conversion import asarray
from agrad.ops.creation import ones
from agrad.transforms.trees import flatten, tree_map, unflatten


class ShapeDtype:
    """The shape and dtype of an array, without its values.

    Parameters
    ----------
    shape : tuple of int
        The length of each axis.
    dtype : dtype or str
        A dtype of any array library, or its name.

    Examples
    --------
    >>> x = agrad.ShapeDtype((2, 3), agrad.float32)
    >>> agrad.eval_shape(agrad.sum, x)
    ShapeDtype((), 'float32')
    >>> x.shape, x.dtype
    ((2, 3), agrad.float32)
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: DType = as_dtype(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtype) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, str(self.dtype)))

    def __repr__(self) -> str:
        return f"ShapeDtype({self.shape}, {str(self.dtype)!r})"


def eval_shape(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of ``f``'s result.

    Parameters
    ----------
    f : callable
        Function that ``jit`` accepts: its arguments and results are pytrees of arrays.
    *args, **kwargs
        Its arguments. Instead of an array, you can pass an object with ``shape`` and ``dtype``.

    Returns
    -------
    pytree
    Structure of ``f``'s result, with a ``ShapeDtype`` for each array and each floating or complex number. Other leaves
    are returned unchanged.

    Raises
    ------
    TracedValueError
        As from ``jit``: if a shape depends on values, if Python needs the value of an array, or if ``f`` changes
        captured values that are not state.

    See Also
    --------
    agrad.jit : Computes the results.

    Notes
    -----
    ``f`` is traced as by ``jit``, and its program is neither compiled nor kept. The trace evaluates each operation once
    on the arguments, and on ones instead of objects without values. Captured state is restored.

    Examples
    --------
    >>> images, weight = agrad.ShapeDtype((1000, 20), "float32"), agrad.ShapeDtype((20, 7), "float32")
    >>> agrad.eval_shape(agrad.matmul, images, weight)
    ShapeDtype((1000, 7), 'float32')
    >>> agrad.eval_shape(agrad.grad(agrad.sum), np.ones(3))
    ShapeDtype((3,), 'float64')
    """
    check_functions("eval_shape", f=f)
    function = f.__wrapped__ if isinstance(f, Jitted) else f
    leaves, spec = flatten((args, kwargs))
    leaves = [_stand_in(leaf) for leaf in leaves]

    def call(given: Any) -> Any:
        args, kwargs = unflatten(spec, given)
        return function(*args, **kwargs)

    with np.errstate(all="ignore"):
        if mode().trace is not None:  # the outer trace records the operations, and drops those that are not needed
            return tree_map(_described, call(leaves))
        known: list[Any] = []
        with entries.STATE_LOCK:
            name = getattr(function, "__name__", type(function).__name__)
            return with_known(
                f"eval_shape({name})",
                known,
                lambda keep: Tracing(function, name, leaves, call, known, (), (), {}, keep).results(_described),
            )


def _stand_in(leaf: Any) -> Any:
    """Return a leaf, or ones for an object without values."""
    if isinstance(leaf, Tensor):
        if leaf.level.tape and not isinstance(leaf.data, Tensor):
            return leaf
        # in active transforms, which are unknown to the trace
        return ones(leaf.shape, dtype=leaf.dtype, backend=leaf.backend, device=leaf.device)
    if is_raw(leaf) or not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return leaf
    return ones(leaf.shape, dtype=as_dtype(leaf.dtype))


def _described(leaf: Any) -> Any:
    """Return the shape and dtype of a leaf of the result."""
    if isinstance(leaf, TracedNumber):
        leaf = leaf.value
    if type(leaf) is float or type(leaf) is complex:
        leaf = asarray(leaf)
    return ShapeDtype(leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf
