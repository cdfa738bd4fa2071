"""Matrix products, triangles, solutions and factors.

Matrices are the last two axes; all axes before them are a batch.
"""

from collections.abc import Callable
from typing import Any

from agrad.engine.batching import with_rank
from agrad.engine.levels import CAPTURED
from agrad.engine.observing import OBSERVED
from agrad.engine.tensor import Tensor
from agrad.errors import OperandError, ShapeError
from agrad.ops.definition import of_library, primitive, public_of_arrays
from agrad.ops.indexing import get_at
from agrad.ops.manipulation import expand_dims, reshape
from agrad.ops.matrices import adjoint, check_matrices, conjugate, identity
from agrad.ops.shared import ndim_of
from agrad.registry import public
from agrad.shapes import product_mismatch, size, too_few_axes


@primitive(linear=("x1", "x2"), broadcasts=True, name="linalg.outer", batch="leading", core_axes=1)
def outer_p(xp: Any, x1: Any, x2: Any, /) -> Any:
    # of the last axes; those before them are a batch
    return xp.multiply(xp.expand_dims(x1, axis=-1), xp.expand_dims(x2, axis=-2))


@outer_p.vjp("x1")
def outer_x1(xp: Any, g: Any, x2: Any) -> Any:
    return xp.squeeze(xp.matmul(g, xp.expand_dims(x2, axis=-1)), axis=-1)


@outer_p.vjp("x2")
def outer_x2(xp: Any, g: Any, x1: Any) -> Any:
    return xp.squeeze(xp.matmul(xp.expand_dims(x1, axis=-2), g), axis=-2)


@public_of_arrays("linalg")
def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products ``x1[i] * x2[j]``.

    Parameters
    ----------
    x1 : array of shape (m,) with a numeric dtype
    x2 : array of shape (n,)

    Returns
    -------
    array of shape (m, n)

    Examples
    --------
    >>> x, y = np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0])
    >>> agrad.linalg.outer(x, y)
    array([[3., 4.],
           [6., 8.]])
    """
    for x in (x1, x2):
        if ndim_of(x, "outer") != 1:
            raise ShapeError(f"outer: arguments must be 1-D, got shape {tuple(x.shape)}")
    return outer_p(x1, x2)


matmul_p = of_library("matmul(x1, x2)", linear=("x1", "x2"), broadcasts=True, kind="product")


@matmul_p.vjp("x1")
def matmul_x1(xp: Any, g: Any, x2: Any) -> Any:
    return xp.matmul(g, xp.matrix_transpose(x2))


@matmul_p.vjp("x2")
def matmul_x2(xp: Any, g: Any, x1: Any) -> Any:
    return xp.matmul(xp.matrix_transpose(x1), g)


@matmul_p.batch
def matmul_batch(xp: Any, x1: Any, x2: Any, x1_mapped: bool, x2_mapped: bool) -> Any:
    if not x2_mapped and len(x2.shape) == 2:
        # one product of all rows; a stack of matrices would be one product each
        y = xp.matmul(xp.reshape(x1, (size(x1.shape[:-1]), x1.shape[-1])), x2)
        return xp.reshape(y, (*x1.shape[:-1], x2.shape[-1]))
    if not x1_mapped and len(x1.shape) == 2 and x2.shape[-1] == 1:
        y = xp.matmul(xp.reshape(x2, (size(x2.shape[:-2]), x2.shape[-2])), xp.matrix_transpose(x1))
        return xp.reshape(y, (*x2.shape[:-2], x1.shape[0], 1))
    ndim = max(len(x1.shape) - x1_mapped, len(x2.shape) - x2_mapped)
    x1 = with_rank(xp, x1, ndim) if x1_mapped else x1
    x2 = with_rank(xp, x2, ndim) if x2_mapped else x2
    if not x1.shape[-1] == 1 == x2.shape[-2]:
        return xp.matmul(x1, x2)
    column, row = xp.squeeze(x1, axis=-1), xp.squeeze(x2, axis=-2)
    if column.shape[-1] > row.shape[-1]:
        # outer products are written row by row: the longer the rows, the fewer inner loops
        return xp.matrix_transpose(outer_p(row, column))
    return outer_p(column, row)


def _is_constant(x: Any) -> bool:
    """Return True for a plain array, and for an unrecorded Tensor of one."""
    return not isinstance(x, Tensor) or (type(x) is Tensor and x.node is None and not isinstance(x.data, Tensor))


@public
@public_of_arrays("linalg")
def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product.

    A 1-D argument is a row on the left or a column on the right, and the result omits its axis.

    Parameters
    ----------
    x1 : array of shape (..., m, k) or (k,) with a numeric dtype
    x2 : array
        Array of shape (..., k, n) or (k,); the leading axes broadcast.

    Returns
    -------
    array of shape (..., m, n)

    Examples
    --------
    >>> a, x = np.asarray([[1.0, 2.0], [3.0, 4.0]]), np.asarray([1.0, 10.0])
    >>> agrad.matmul(a, x)
    array([21., 43.])
    """
    n1, n2 = ndim_of(x1, "matmul"), ndim_of(x2, "matmul")
    if n1 >= 2 and n2 >= 2:
        return matmul_p(x1, x2)
    if not n1 or not n2:
        # on OperandError an operator asks the other operand; between arrays the error is final
        arrays = hasattr(x1, "shape") and hasattr(x2, "shape")
        kind = ShapeError if arrays else OperandError
        raise kind("matmul: arguments must have at least 1 axis, got a scalar. Use * to multiply by a number.")
    if (n1 == 1 and x1.shape[0] != x2.shape[max(n2 - 2, 0)]) or (n2 == 1 and x2.shape[0] != x1.shape[-1]):
        shapes = tuple(x1.shape), tuple(x2.shape)
        why = product_mismatch(*shapes)
        raise ShapeError(f"matmul: shapes {shapes[0]} and {shapes[1]} are incompatible: {why}")
    if not (OBSERVED or CAPTURED) and _is_constant(x1) and _is_constant(x2):
        return matmul_p(x1, x2)  # only rules need matrices
    y = matmul_p(expand_dims(x1, 0) if n1 == 1 else x1, expand_dims(x2, -1) if n2 == 1 else x2)
    if n1 == n2 == 1:
        return get_at(y, (0, 0))  # a scalar if the product of the library returns one
    shape = tuple(y.shape)
    if n1 == 1:
        shape = shape[:-2] + shape[-1:]
    return reshape(y, shape[:-1] if n2 == 1 else shape)


@public
@primitive(linear="x", batch="leading", core_axes=2, symmetric=True, sparsity="picks")
def tril(xp: Any, x: Any, /, *, k: int = 0) -> Any:
    """Return the lower triangle, with zeros above a diagonal.

    Parameters
    ----------
    x : array of shape (..., m, n) with a numeric dtype
    k : int
        Offset of the diagonal to the right of the main one.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.tril(np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 0.],
           [3., 4.]])
    """
    if x.ndim < 2:  # some libraries make a matrix of a vector
        raise too_few_axes("tril", "x", x.shape, 2)
    return xp.tril(x, k=k)


@public
@primitive(linear="x", batch="leading", core_axes=2, symmetric=True, sparsity="picks")
def triu(xp: Any, x: Any, /, *, k: int = 0) -> Any:
    """Return the upper triangle, with zeros below a diagonal.

    Parameters
    ----------
    x : array of shape (..., m, n) with a numeric dtype
    k : int
        As for ``tril``.

    Returns
    -------
    array of the shape of ``x``

    Examples
    --------
    >>> agrad.triu(np.asarray([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [0., 4.]])
    """
    if x.ndim < 2:  # some libraries make a matrix of a vector
        raise too_few_axes("triu", "x", x.shape, 2)
    return xp.triu(x, k=k)


solve_p = of_library("linalg.solve(x1, x2)", linear="x2", broadcasts=True, batch="leading", core_axes=2, raises=True)


@primitive(linear="x2", broadcasts=True, name="linalg.solve_or_nan", batch="leading", core_axes=2)
def solve_or_nan(xp: Any, x1: Any, x2: Any, /) -> Any:
    """Return the solution y of ``x1 @ y = x2``, not finite if ``x1`` is singular.

    For rules, which must not raise if the function itself returns a value. Shapes as for ``solve``.
    """
    return xp.linalg.solve_or_nan(x1, x2)


@solve_or_nan.vjp("x1", "x2")
@solve_p.vjp("x1", "x2")
def solve_vjp(xp: Any, g: Any, y: Any, x1: Any) -> Any:
    # Giles 2008, "An extended collection of matrix derivative results", section 2.3.1: one solve serves both
    b = solve_or_nan(xp.matrix_transpose(x1), g)
    return -xp.matmul(b, xp.matrix_transpose(y)), b


@solve_or_nan.jvp("x1")
@solve_p.jvp("x1")
def solve_jvp(xp: Any, t: Any, y: Any, x1: Any) -> Any:
    return -solve_or_nan(x1, xp.matmul(t, y))


@public_of_arrays("linalg")
def solve(x1: Any, x2: Any, /) -> Any:
    """Return the solution y of ``x1 @ y = x2``.

    Parameters
    ----------
    x1 : array of shape (..., n, n) with a floating-point dtype
    x2 : array of shape (..., n, k) or (n,)

    Returns
    -------
    array of the shape of ``x2``, with the batch axes of both

    Raises
    ------
    ShapeError
        If the shapes do not fit. For a singular matrix, the array library raises its own error.

    Notes
    -----
    Derivatives: M. Giles, "An extended collection of matrix derivative results" (2008), section 2.3.1.

    Examples
    --------
    >>> a, b = np.asarray([[2.0, 1.0], [1.0, 3.0]]), np.asarray([3.0, 4.0])
    >>> agrad.linalg.solve(a, b).round(6)
    array([1., 1.])
    """
    check_matrices(x1, "solve", "x1", square=True)
    return on_columns(lambda columns: solve_p(x1, columns), x2, x1.shape[-1], "solve")


def on_columns(solver: Callable[[Any], Any], b: Any, n: int, name: str) -> Any:
    """Return ``solver(b)``. A 1-D ``b`` is one column.

    Raise ``ShapeError`` if ``b`` does not have n rows.
    """
    ndim = ndim_of(b, name)
    if ndim == 0 or b.shape[-2 if ndim > 1 else 0] != n:
        raise ShapeError(f"{name}: b must have {n} rows, as the matrices do, got shape {tuple(b.shape)}")
    if ndim > 1:
        return solver(b)
    return reshape(y := solver(expand_dims(b, -1)), tuple(y.shape)[:-1])


@primitive(linear="x1", broadcasts=True, name="linalg.over_triangle", batch="leading", core_axes=2, raises=True)
def over_triangle(xp: Any, x1: Any, x2: Any, /, *, upper: bool, checked: bool = False) -> Any:
    """Return the solution y of ``y @ x2 = x1`` with a triangular matrix.

    x1: (..., m, n), x2: (..., n, n). If ``checked``, a 0 on the diagonal is the error of an array library that has one;
    otherwise y is not finite.
    """
    solve = xp.linalg.solve if checked else xp.linalg.solve_or_nan
    return xp.matrix_transpose(solve(xp.matrix_transpose(x2), xp.matrix_transpose(x1)))


@over_triangle.vjp("x1", "x2")
def over_triangle_vjp(xp: Any, g: Any, y: Any, x2: Any, *, upper: bool) -> Any:
    # Giles 2008, section 2.3.1, transposed
    b = over_triangle(g, xp.matrix_transpose(x2), upper=not upper)
    return b, -xp.matmul(xp.matrix_transpose(y), b)


@over_triangle.jvp("x2")
def over_triangle_jvp(xp: Any, t: Any, y: Any, x2: Any, *, upper: bool) -> Any:
    return -over_triangle(xp.matmul(y, t), x2, upper=upper)


def under_triangle(xp: Any, x1: Any, x2: Any, *, upper: bool, checked: bool = False) -> Any:
    """Return the solution y of ``x2 @ y = x1`` with a triangular matrix."""
    transpose = xp.matrix_transpose
    return transpose(over_triangle(transpose(x1), transpose(x2), upper=not upper, checked=checked))


@public("linalg")
@primitive(name="linalg.inv", batch="leading", core_axes=2, raises=True)
def inv(xp: Any, x: Any, /) -> Any:
    """Return the inverse of each matrix.

    For a singular matrix, the array library raises its own error.

    Parameters
    ----------
    x : array of shape (..., n, n) with a floating-point dtype

    Returns
    -------
    array of the shape of ``x``

    Notes
    -----
    Derivatives: M. Giles, "An extended collection of matrix derivative results" (2008), section 2.2.3.

    Examples
    --------
    >>> a = np.asarray([[2.0, 1.0], [1.0, 1.0]])
    >>> agrad.linalg.inv(a).round(6)
    array([[ 1., -1.],
           [-1.,  2.]])
    """
    return xp.linalg.inv(x)


@inv.vjp
def inv_vjp(xp: Any, g: Any, y: Any) -> Any:
    # Giles 2008, section 2.2.3
    yt = xp.matrix_transpose(y)
    return -xp.matmul(yt, xp.matmul(g, yt))


@inv.jvp
def inv_jvp(xp: Any, t: Any, y: Any) -> Any:
    return -xp.matmul(y, xp.matmul(t, y))


def _half_lower(xp: Any, x: Any) -> Any:
    """Return the lower triangle with its diagonal halved."""
    return (xp.tril(x) + xp.tril(x, k=-1)) / 2


@public("linalg")
@primitive(name="linalg.cholesky", batch="leading", core_axes=2, raises=True)
def cholesky(xp: Any, x: Any, /, *, upper: bool = False) -> Any:
    """Return the triangular factor of each positive-definite matrix.

    It is L with ``L @ L.H = x``, or with ``upper`` U with ``U.H @ U = x``. The derivative is along Hermitian changes of
    ``x``, returned as a Hermitian gradient. For a matrix that is not positive definite, the array library raises its
    own error.

    Parameters
    ----------
    x : array
        Hermitian matrices of shape (..., n, n) and a floating dtype.
    upper : bool
        If True, return the upper factor.

    Returns
    -------
    array of the shape of ``x``

    Notes
    -----
    Derivatives: I. Murray, "Differentiation of the Cholesky decomposition" (2016), arXiv:1602.07527.

    Examples
    --------
    >>> a = np.asarray([[4.0, 2.0], [2.0, 5.0]])
    >>> agrad.linalg.cholesky(a)
    array([[2., 0.],
           [1., 2.]])
    >>> agrad.grad(lambda a: agrad.linalg.cholesky(a)[0, 0])(a)
    array([[0.25, 0.  ],
           [0.  , 0.  ]])
    """
    return xp.linalg.cholesky(x, upper=upper)


@cholesky.jvp
def cholesky_jvp(xp: Any, t: Any, y: Any, *, upper: bool) -> Any:
    # Murray 2016, "Differentiation of the Cholesky decomposition", equation 8
    lower = adjoint(xp, y) if upper else y
    t = (t + adjoint(xp, t)) / 2
    across = adjoint(xp, lower)
    s = over_triangle(adjoint(xp, over_triangle(t, across, upper=True)), across, upper=True)
    out = xp.matmul(lower, _half_lower(xp, s))
    return adjoint(xp, out) if upper else out


@cholesky.vjp
def cholesky_vjp(xp: Any, g: Any, y: Any, *, upper: bool) -> Any:
    # Murray 2016, equation 10. No conjugation: cotangents pair without it, so g replaces conj(g)
    lower = adjoint(xp, y) if upper else y
    g = xp.matrix_transpose(g) if upper else conjugate(xp, g)
    p = _half_lower(xp, xp.matmul(adjoint(xp, lower), xp.tril(g)))
    # one inverse serves both sides
    inverse = over_triangle(identity(xp, lower), lower, upper=False)
    s = xp.matmul(adjoint(xp, inverse), xp.matmul(p, inverse))
    s = (s + adjoint(xp, s)) / 2
    return conjugate(xp, s)
