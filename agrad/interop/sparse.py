"""Products of Tensors with sparse matrices of SciPy and CuPy, as constants."""

import sys
from types import ModuleType
from typing import Any

import numpy as np

import agrad
from agrad import SparseArray, Tensor
from agrad.errors import MixedBackendsError, ShapeError
from agrad.interop.arguments import constant

_LIBRARIES = {"scipy.sparse": "numpy", "cupyx.scipy.sparse": "cupy"}
"""The backends whose arrays the sparse matrices of a module multiply."""


class Matrix:
    """A sparse matrix as a keyword argument of an operation, equal only to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value

    def transposed(self) -> "Matrix":
        """Return the transpose, which shares memory if the format allows it."""
        return Matrix(self.value.T)


@agrad.primitive(name="sparse.matmul", linear="x", batch="leading", core_axes=2)
def matmul_p(xp: Any, x: Any, /, *, matrix: Any) -> Any:
    # the axes before the last two are columns too: one product for all of them
    columns = x if len(x.shape) == 2 else xp.reshape(xp.moveaxis(x, -2, 0), (x.shape[-2], -1))
    y = matrix.value @ columns
    return y if len(x.shape) == 2 else xp.moveaxis(xp.reshape(y, (y.shape[0], *x.shape[:-2], x.shape[-1])), 0, -2)


def _by_entries(xp: Any, x: Any, /, *, matrix: Any) -> Any:
    """Return the sum over the stored elements of the matrix."""
    entries = matrix.value.tocoo()
    rows, columns = (agrad.asarray(np.asarray(part, dtype=np.int64)) for part in entries.coords)
    first = agrad.moveaxis(x, -2, 0)
    data = agrad.reshape(agrad.asarray(entries.data), (-1, *(1,) * (len(x.shape) - 1)))
    return agrad.moveaxis(agrad.segment_sum(agrad.take(first, columns, axis=0) * data, rows, entries.shape[0]), 0, -2)


matmul_p.primitive.definition = _by_entries


@matmul_p.vjp
def matmul_vjp(xp: Any, g: Any, *, matrix: Any) -> Any:
    return matmul_p(g, matrix=matrix.transposed())


def library_of(value: Any) -> ModuleType | None:
    """Return the module whose sparse matrix or array ``value`` is, or None."""
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and module.issparse(value):
            return module
    return None


def check_operands(name: str, matrix: Any, x: Tensor) -> None:
    """Raise an error for operands of two libraries, or a matrix that is not 2-D."""
    module = library_of(matrix)
    backend = "numpy" if module is None else _LIBRARIES[module.__name__]
    if x.backend != backend:
        raise MixedBackendsError(
            f"{name}: the Tensor must be on {backend!r}, like the sparse matrix, got {x.backend!r}. "
            f"Move it: x.to({backend!r})."
        )
    _check_axes(name, matrix)


def _check_axes(name: str, matrix: Any) -> None:
    if len(matrix.shape) != 2:
        raise ShapeError(f"{name}: a sparse matrix must be 2-D, got shape {matrix.shape}. Reshape it first.")


def product(matrix: Any, x: Tensor) -> Any:
    """Return ``matrix @ x`` for a Tensor with at least one axis."""
    check_operands("matmul", matrix, x)
    if not x.ndim or x.shape[max(x.ndim - 2, 0)] != matrix.shape[1]:
        raise ShapeError(f"matmul: shapes {matrix.shape} and {x.shape} are incompatible")
    held = Matrix(matrix)
    return matmul_p(x[:, None], matrix=held)[:, 0] if x.ndim == 1 else matmul_p(x, matrix=held)


def product_behind(x: Tensor, matrix: Any) -> Any:
    """Return ``x @ matrix`` for a Tensor with at least one axis."""
    check_operands("matmul", matrix, x)
    if not x.ndim or x.shape[-1] != matrix.shape[0]:
        raise ShapeError(f"matmul: shapes {x.shape} and {matrix.shape} are incompatible")
    return product(matrix.T, x) if x.ndim == 1 else agrad.matrix_transpose(product(matrix.T, agrad.matrix_transpose(x)))


def combined(name: str, x1: Any, x2: Any, module: ModuleType) -> Any:
    """Return the result of an operator with a sparse matrix, or NotImplemented.

    Products are the same as in SciPy. ``*`` of two matrices (``csr_matrix``) is a matrix product. ``*`` of arrays
    (``csr_array``) or with a number, and ``/``, are elementwise, with a ``SparseArray`` as the result. Sums with arrays
    are dense.
    """
    matrix, x = (x2, x1) if isinstance(x1, Tensor) else (x1, x2)
    is_matrix = isinstance(matrix, module.spmatrix)
    if (name == "divide" and x is x2) or (name == "multiply" and not (x.ndim and is_matrix)):
        _check_axes(name, matrix)
        entries = matrix.tocoo()
        made = SparseArray.assemble(entries.data, entries.row, entries.col, entries.shape)
        factor = x if name == "multiply" else 1 / x
        if factor.ndim:
            elements = constant(made.rows, factor), constant(made.columns, factor)
            factor = agrad.broadcast_to(factor, made.shape)[elements]
        return SparseArray(made.values * factor, made.where)
    if name in ("matmul", "multiply"):
        return product(x1, x2) if x is x2 else product_behind(x1, x2)
    if name in ("add", "subtract"):
        dense = [x if isinstance(x, Tensor) else x.toarray() for x in (x1, x2)]
        return getattr(agrad, name)(*dense)
    return NotImplemented
