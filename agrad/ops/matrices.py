"""Helpers of rules over matrices.

Matrices are the last two axes; all axes before them are a batch. Derivatives of decompositions are derived for the
inner product Re(tr(A.H @ B)). agrad pairs cotangents without conjugation, so such a rule conjugates its cotangents and
its result.
"""

import math
from typing import Any

from agrad.dtypes import is_complex
from agrad.engine.tensor import Tensor
from agrad.errors import ShapeError
from agrad.ops.definition import primitive
from agrad.ops.shared import ndim_of
from agrad.shapes import too_few_axes


def conjugate(xp: Any, x: Any) -> Any:
    """Return the conjugate of a complex array; a real one, and None, as they are."""
    return xp.conj(x) if x is not None and is_complex(x.dtype) else x


def adjoint(xp: Any, x: Any) -> Any:
    """Return the conjugate transpose."""
    return conjugate(xp, xp.matrix_transpose(x))


def hermitian_part(xp: Any, x: Any) -> Any:
    """Return the Hermitian part of square matrices."""
    return (x + adjoint(xp, x)) / 2


def real_diagonal(xp: Any, x: Any) -> Any:
    """Return the real parts of the diagonals of matrices, as vectors."""
    return xp.real(d) if is_complex((d := xp.linalg.diagonal(x)).dtype) else d


def imaginary_diagonal(xp: Any, x: Any) -> Any:
    """Return the diagonals of square matrices without their real parts, as vectors."""
    d = xp.linalg.diagonal(x)
    return d - xp.astype(xp.real(d), d.dtype)


def on_diagonal(xp: Any, d: Any, m: int, n: int, offset: int = 0) -> Any:
    """Return matrices that are zero except for ``d`` on the diagonal ``offset``.

    d: (..., k); returns (..., m, n).
    """
    batch = tuple(d.shape)[:-1]
    flat = xp.scatter_add(d, index=diagonal_index(d.shape[-1], m, n, offset), shape=(*batch, m * n))
    return xp.reshape(flat, (*batch, m, n))


def diagonal_matrices(xp: Any, d: Any, like: Any) -> Any:
    """Return diagonal matrices of ``d`` with the dtype of ``like``."""
    d = xp.astype(d, like.dtype) if is_complex(like.dtype) else d
    return on_diagonal(xp, d, d.shape[-1], d.shape[-1])


def diagonal_index(count: int, m: int, n: int, offset: int) -> tuple[Any, ...]:
    """Return the index of the diagonal ``offset`` in flattened (m, n) matrices.

    ``count``: the number of its elements.
    """
    start = offset if offset >= 0 else -offset * n
    stop = min(start + count * (n + 1), m * n)
    return (..., slice(min(start, stop), stop, n + 1))


def added(total: Any, part: Any) -> Any:
    """Return the sum, or ``part`` if ``total`` is None."""
    return part if total is None else total + part


def columns(xp: Any, d: Any) -> Any:
    """Return (..., k) vectors as factors of the k columns of matrices."""
    return xp.expand_dims(d, axis=-2)


def rows(xp: Any, d: Any) -> Any:
    """Return (..., k) vectors as factors of the k rows of matrices."""
    return xp.expand_dims(d, axis=-1)


def identity(xp: Any, like: Any) -> Any:
    """Return the identity matrix with as many rows as the last axis of ``like``."""
    place = xp.arange_like(like, like.shape[-1])
    return xp.astype(columns(xp, place) == rows(xp, place), like.dtype)


@primitive(batch="leading")
def inverse_or_nan(xp: Any, x: Any, /) -> Any:
    """Return 1 / x, and NaN if ``x`` is 0.

    It is not elementwise, because passes guard derivatives of elementwise operations.
    """
    zero = x == 0
    return xp.where(zero, xp.full_like(x, math.nan), 1 / xp.where(zero, xp.ones_like(x), x))


@inverse_or_nan.vjp
@inverse_or_nan.jvp
def inverse_or_nan_both(g: Any, y: Any) -> Any:
    return -(g * y * y)


def inverse_gaps(xp: Any, w: Any) -> Any:
    """Return 1 / (w[k] - w[j]) in row j and column k.

    It is 0 on the diagonal, and NaN if two values are equal: their vectors are any basis of one space, and the
    derivative within this space is not determined.
    """
    diagonal = identity(xp, w)
    return inverse_or_nan(columns(xp, w) - rows(xp, w) + diagonal) * (-diagonal + 1)


def check_matrices(x: Any, name: str, argument: str = "x", *, square: bool = False) -> None:
    """Raise ``ShapeError`` for an array of fewer than two axes.

    ``square``: also for matrices that are not square.
    """
    if ndim_of(x, name) < 2:
        raise too_few_axes(name, argument, x.shape, 2)
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name}: matrices must be square, got shape {tuple(x.shape)}")


def differentiated(x: Any) -> bool:
    """Return True if operations on ``x`` are differentiated, or may be later."""
    while isinstance(x, Tensor):
        if x.node is not None and (x.level.derivative or getattr(x.level, "stops", False)):
            return True
        x = x.data
    return False
