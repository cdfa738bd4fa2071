"""Sparse matrices of SciPy, which are constants, and of differentiable values.

A product needs no function from here: ``A @ x`` and ``x @ A`` are Tensors if ``x`` is one.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.sparse import linalg as linalg
from agrad.scipy.sparse.arrays import *

_list_names(globals(), "linalg")
