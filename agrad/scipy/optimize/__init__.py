"""SciPy minimizers, root finders and fits with derivatives of agrad."""

from agrad.faces import list_names as _list_names
from agrad.scipy.optimize.minimizers import *
from agrad.scipy.optimize.roots import *

_list_names(globals())
