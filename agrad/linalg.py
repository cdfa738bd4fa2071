"""Linear algebra: products, factorizations, solutions of linear systems and norms."""

from agrad.faces import list_names as _list_names
from agrad.ops.decompositions import *
from agrad.ops.determinants import *
from agrad.ops.eigenvalues import *
from agrad.ops.linear_algebra import cholesky as cholesky, inv as inv, matmul as matmul, outer as outer, solve as solve
from agrad.ops.manipulation import matrix_transpose as matrix_transpose
from agrad.ops.matrix_functions import matrix_exp as matrix_exp
from agrad.ops.norms import *
from agrad.ops.products import *
from agrad.ops.solutions import *
from agrad.registry import namespace as _namespace

_list_names(globals())
globals()["__getattr__"] = _namespace.linalg.__getattr__  # in a form that type checkers do not see
