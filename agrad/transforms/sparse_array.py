"""``SparseArray``: differentiable values at constant coordinates."""

from typing import Any

import numpy as np
import optree

from agrad.backends import backend_of
from agrad.control.bodies import example
from agrad.engine.calls import lift_all
from agrad.engine.namespaces import namespace_of
from agrad.engine.tape import mode
from agrad.engine.tensor import Tensor
from agrad.errors import ShapeError, described
from agrad.shapes import ARRAY, size
from agrad.transforms.arguments import is_array
from agrad.transforms.trees import NAMESPACE

__all__ = ["SparseArray"]


class Coordinates:
    """The positions of the elements of a sparse matrix, row by row.

    They are equal only to themselves.

    rows, columns: NumPy arrays. indptr: the start of each row.
    """

    def __init__(self, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> None:
        self.rows: np.ndarray = rows
        self.columns: np.ndarray = columns
        self.shape: tuple[int, ...] = shape
        self.indptr: np.ndarray = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(columns.dtype)


class SparseArray:
    """Sparse matrix with constant coordinates, whose values are an array.

    ``sparse_jacobian`` returns it if its values are Tensors, inside of other transforms, and on backends without sparse
    matrices. It is a pytree with one leaf, the values. ``rows``, ``columns`` and ``shape`` are its coordinates.

    Parameters
    ----------
    values : array
        Values of shape (nnz,), row by row.
    where : object
        Coordinates, the attribute ``where`` of another ``SparseArray``.

    See Also
    --------
    agrad.sparse_jacobian : Create it.
    agrad.scipy.sparse.linalg.spsolve : Solve a system with it.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0, 3.0])
    >>> matrix = agrad.sparse_jacobian(lambda x: x[1:] * x[:-1])(x)
    >>> isinstance(matrix, agrad.SparseArray), matrix.rows, matrix.columns
    (True, array([0, 0, 1, 1]), array([0, 1, 1, 2]))
    >>> matrix.values
    Tensor([2.0, 1.0, 3.0, 2.0], dtype=float64, backend=numpy, device=cpu)
    >>> (matrix @ x).numpy(), matrix.toarray().numpy()
    (array([ 4., 12.]), array([[2., 1., 0.],
           [0., 3., 2.]]))
    """

    def __init__(self, values: Any, where: Coordinates) -> None:
        self.values: Any = values
        self.where: Coordinates = where
        self.rows: np.ndarray = where.rows
        self.columns: np.ndarray = where.columns
        self.shape: tuple[int, ...] = where.shape

    def __matmul__(self, x: Any) -> Any:
        """Return the product with a vector or a matrix."""
        if not is_array(x) or len(x.shape) not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(f"matmul: the second operand must have shape ({self.shape[1]}, ...), got {described(x)}")
        values, x = lift_all([self.values, x])
        xp = namespace_of((values, x))
        picked = xp.take(x, placed(self.columns, x), axis=0)
        terms = picked * (values if len(x.shape) == 1 else values[:, None])
        return _summed(xp, terms, self.rows, (self.shape[0], *x.shape[1:]))

    def toarray(self) -> Any:
        """Return the matrix as a dense array.

        Returns
        -------
        array
            Array with the shape of the matrix.
        """
        (values,) = lift_all([self.values])
        flat = _summed(namespace_of((values,)), values, self.rows * self.shape[1] + self.columns, (size(self.shape),))
        return namespace_of((flat,)).reshape(flat, self.shape)

    def __repr__(self) -> str:
        return f"<SparseArray of shape {self.shape} with {len(self.rows)} elements>"


def _taken_apart(array: Any) -> Any:
    return (array.values,), array.where, ("values",)


def _put_together(where: Any, children: Any) -> Any:
    return SparseArray(children[0], where)


_register: Any = optree.register_pytree_node
_register(SparseArray, _taken_apart, _put_together, namespace=NAMESPACE)


def placed(index: np.ndarray, like: Any) -> Any:
    """Return a NumPy array on the backend and the device of another array."""
    raw = example(like)
    backend = backend_of(raw)
    return backend.from_host(np.asarray(index, order="C"), backend.device_of(raw))


def _summed(xp: Any, terms: Any, index: np.ndarray, shape: tuple[int, ...]) -> Any:
    return xp.scatter_add(terms, placed(index, terms), index=(ARRAY,), shape=shape)


def matrix_of(values: Any, where: Coordinates) -> Any:
    """Return a sparse matrix of the library of the values, or a ``SparseArray``."""
    made = None if isinstance(values, Tensor) or mode().trace is not None else backend_of(values).sparse
    return SparseArray(values, where) if made is None else made(values, where)
