"""Sparse matrices of SciPy, which are constants, and Tensors.

A product needs no function from here: ``A @ x`` and ``x @ A`` are Tensors if ``x`` is one.
"""

from agrad.scipy.sparse import linalg

__all__ = ["linalg"]
