"""Linear algebra by the names of ``scipy.linalg``.

The last two axes are matrices, and all axes before them are batch axes, which broadcast. Arguments are converted to one
floating-point dtype, real or complex. In docstrings, a right-hand side ``b`` has shape (..., n, k) or (n,). Options
that are not supported raise ``OperandError``, arrays of other shapes ``ShapeError``. The array library raises its own
error for a singular matrix, and for a matrix that is not positive definite.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.linalg.banded import *
from agrad.scipy.linalg.basic import *
from agrad.scipy.linalg.constant import *
from agrad.scipy.linalg.factors import *
from agrad.scipy.linalg.functions import *
from agrad.scipy.linalg.lu_factors import *
from agrad.scipy.linalg.matrices import *
from agrad.scipy.linalg.spectral import *

_list_names(globals())
