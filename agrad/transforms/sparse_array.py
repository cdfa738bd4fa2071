"""``SparseArray``: differentiable values at constant coordinates."""

from collections.abc import Callable
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
from agrad.shapes import ARRAY, normalize_axis, size
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
    matrices. The classes of ``agrad.scipy.sparse`` assemble it from values and coordinates. It is a pytree with one
    leaf, the values. ``rows``, ``columns`` and ``shape`` are its coordinates.

    ``A @ x`` multiplies an array, ``A * t`` and ``A / t`` scale by a number. ``+`` and ``-`` accept a ``SparseArray``
    or a SciPy matrix. An index such as ``A[rows][:, columns]`` selects a matrix.

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

    __array_ufunc__ = None  # operators of NumPy arrays call those of this class

    def __init__(self, values: Any, where: Coordinates) -> None:
        self.values: Any = values
        self.where: Coordinates = where
        self.rows: np.ndarray = where.rows
        self.columns: np.ndarray = where.columns
        self.shape: tuple[int, ...] = where.shape

    @staticmethod
    def assemble(values: Any, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, ...]) -> "SparseArray":
        """Return the sparse matrix of values at coordinates.

        Parameters
        ----------
        values : array
            Values of shape (n,). Values at the same position are added.
        rows, columns : numpy.ndarray
            Integers of shape (n,), within ``shape``.
        shape : tuple of int
            Shape of the matrix.

        Returns
        -------
        SparseArray
            The matrix.
        """
        m, n = (int(length) for length in shape)
        flat, place = np.unique(rows.astype(np.int64) * n + columns, return_inverse=True)
        (values,) = lift_all([values])
        summed = _summed(namespace_of((values,)), values, place, flat.shape)
        return SparseArray(summed, Coordinates(*np.divmod(flat, max(n, 1)), (m, n)))

    def __matmul__(self, x: Any) -> Any:
        """Return the product with a vector or a matrix."""
        if not is_array(x) or len(x.shape) not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(f"matmul: the second operand must have shape ({self.shape[1]}, ...), got {described(x)}")
        values, x = lift_all([self.values, x])
        xp = namespace_of((values, x))
        picked = xp.take(x, placed(self.columns, x), axis=0)
        terms = picked * (values if len(x.shape) == 1 else values[:, None])
        return _summed(xp, terms, self.rows, (self.shape[0], *x.shape[1:]))

    def __mul__(self, number: Any) -> "SparseArray":
        """Return the matrix times a number."""
        if getattr(number, "shape", ()) != ():
            raise ShapeError(
                f"multiply: a SparseArray is multiplied by a number, got {described(number)}. Write A @ x."
            )
        return SparseArray(self.values * number, self.where)

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> "SparseArray":
        """Return the matrix divided by a number."""
        return self * (1 / number)

    def __neg__(self) -> "SparseArray":
        """Return the negative matrix."""
        return self * -1.0

    def __add__(self, other: Any) -> Any:
        """Return the sum of two sparse matrices."""
        if not isinstance(other, SparseArray):
            if not hasattr(other, "tocoo"):
                return NotImplemented
            entries = other.tocoo()
            other = SparseArray.assemble(entries.data, entries.row, entries.col, entries.shape)
        if self.shape != other.shape:
            raise ShapeError(f"add: the matrices must have the same shape, got {self.shape} and {other.shape}")
        values = lift_all([self.values, other.values])
        rows, columns = (np.concatenate(pair) for pair in ((self.rows, other.rows), (self.columns, other.columns)))
        return SparseArray.assemble(namespace_of(values).concat(values), rows, columns, self.shape)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        """Return the difference of two sparse matrices."""
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        """Return the difference of two sparse matrices."""
        return -self + other

    def __getitem__(self, index: Any) -> "SparseArray":
        """Return the elements of rows and columns as a matrix."""
        return self._rearranged(lambda matrix: matrix[index])

    @property
    def T(self) -> "SparseArray":
        """The transpose."""
        return self._rearranged(lambda matrix: matrix.T)

    def _rearranged(self, change: Callable[[Any], Any]) -> "SparseArray":
        """Return the matrix with the elements that a function of a SciPy matrix selects."""
        from scipy.sparse import csr_array

        ranks = np.arange(1, self.rows.size + 1)
        kept = change(csr_array((ranks, self.columns, self.where.indptr), self.shape))
        if kept.ndim != 2:  # SciPy returns vectors and numbers too
            raise ShapeError("x[i]: the index of a SparseArray must select a matrix, as A[rows][:, columns] does")
        kept = kept.tocoo()
        (values,) = lift_all([self.values])
        moved = namespace_of((values,)).take(values, placed(kept.data - 1, values), axis=0)
        return SparseArray.assemble(moved, kept.row, kept.col, kept.shape)

    def tocsr(self) -> "SparseArray":
        """Return the matrix itself, as ``tocsc`` and ``tocoo`` do.

        Returns
        -------
        SparseArray
            The matrix, which has one format.
        """
        return self

    tocsc = tocoo = tocsr

    def sum(self, axis: int | None = None) -> Any:
        """Return the sum of all elements, of each column or of each row.

        Parameters
        ----------
        axis : int, optional
            0 for the sums of columns, 1 for the sums of rows. By default, the sum of all elements.

        Returns
        -------
        array
            Array of shape (), (n,) or (m,).

        Examples
        --------
        >>> jacobian = agrad.sparse_jacobian(lambda x: x[1:] * x[:-1])(agrad.asarray([1.0, 2.0, 3.0]))
        >>> jacobian.sum(axis=1)
        Tensor([3.0, 5.0], dtype=float64, backend=numpy, device=cpu)
        """
        (values,) = lift_all([self.values])
        xp = namespace_of((values,))
        if axis is None:
            return xp.sum(values)
        axis = normalize_axis(axis, 2)
        return _summed(xp, values, (self.columns, self.rows)[axis], (self.shape[1 - axis],))

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
