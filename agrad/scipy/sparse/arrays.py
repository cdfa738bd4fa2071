"""Sparse matrices with differentiable values, by the names of SciPy."""

from typing import Any

import numpy as np

import agrad
from agrad.interop.arguments import flat, picked, promoted, tensors, values_of
from agrad.numpy.calls import first
from agrad.scipy.shared import Function, is_array, library, named

__all__ = ["coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix", "diags"]


def _class(name: str) -> Any:
    def made(arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> Any:
        """Assemble a sparse matrix from values and coordinates.

        Like ``scipy.sparse.{name}``, whose object is returned if the values are a NumPy array. If they are a Tensor or
        another array, the result is an ``agrad.SparseArray``, which is differentiable with respect to them. Values at
        the same position are added. The coordinates are constants.
        """
        sparse = library("scipy.sparse", f"agrad.scipy.sparse.{name}")
        if not isinstance(arg1, tuple) or not is_array(arg1[0]) or isinstance(arg1[0], np.ndarray | np.generic):
            return getattr(sparse, name)(arg1, shape, dtype, copy)
        values = arg1[0] if dtype is None else agrad.astype(arg1[0], np.dtype(dtype).name)
        where = [np.asarray(values_of(i)) for i in (arg1[1] if len(arg1) == 2 else arg1[1:])]
        ranks, kind = np.arange(values.shape[0]), "coo_array" if len(arg1) == 2 else name
        pattern = getattr(sparse, kind)((ranks, where) if len(arg1) == 2 else (ranks, *where), shape).tocoo()
        return agrad.SparseArray.assemble(values, pattern.row, pattern.col, pattern.shape)

    return named(
        made,
        name,
        "",
        "sparse",
        f"""
>>> where = [0, 0, 1], [0, 0, 1]
>>> sparse.{name}((agrad.asarray([1.0, 2.0, 4.0]), where), shape=(2, 2)).toarray().numpy()
array([[3., 0.],
       [0., 4.]])
>>> agrad.grad(lambda v: (sparse.{name}((v, where), shape=(2, 2)) @ v[1:])[0])(np.asarray([1.0, 2.0, 4.0]))
array([2., 5., 0.])
""",
    )


coo_array: Function = _class("coo_array")
coo_matrix: Function = _class("coo_matrix")
csc_array: Function = _class("csc_array")
csc_matrix: Function = _class("csc_matrix")
csr_array: Function = _class("csr_array")
csr_matrix: Function = _class("csr_matrix")


def diags(diagonals: Any, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None) -> Any:
    """Assemble a sparse matrix from its diagonals.

    Like ``scipy.sparse.diags``, whose object is returned if no diagonal is or contains a Tensor or another array than a
    NumPy array. Otherwise, the result is an ``agrad.SparseArray``, which is differentiable with respect to them.

    Examples
    --------
    >>> from agrad.scipy import sparse
    >>> sparse.diags([1.0, agrad.asarray([2.0, 3.0])], [0, 1], shape=(3, 3)).toarray().numpy()
    array([[1., 2., 0.],
           [0., 1., 3.],
           [0., 0., 1.]])
    >>> agrad.grad(lambda v: (sparse.diags([v, -v[:2]], [0, 1]) @ v)[0])(np.asarray([1.0, 2.0, 4.0]))
    array([ 0., -1.,  0.])
    """
    sparse = library("scipy.sparse", "agrad.scipy.sparse.diags")
    if first((diagonals,)) is None:
        return sparse.diags(diagonals, offsets, shape, format, dtype)
    if np.ndim(offsets) == 0:
        diagonals, offsets = [diagonals], [offsets]
    parts = [flat(part) for part in promoted(*tensors(*diagonals))]
    ends = np.cumsum([part.size for part in parts])
    ranks = [np.arange(end - part.size, end) + 1 for part, end in zip(parts, ends, strict=True)]
    pattern = sparse.diags(ranks, offsets, shape, dtype=np.int64).tocoo()
    values = picked(agrad.concat(parts), pattern.data - 1)
    values = values if dtype is None else agrad.astype(values, np.dtype(dtype).name)
    return agrad.SparseArray.assemble(values, pattern.row, pattern.col, pattern.shape)
