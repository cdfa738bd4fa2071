"""Linear algebra by the names of ``scipy.linalg``.

Matrices are the last two axes; all axes before them are a batch. Arguments are converted to one floating dtype, real or
complex. Functions of a part of SciPy's options raise an error for the others.
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
