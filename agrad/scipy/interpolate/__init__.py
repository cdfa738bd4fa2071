"""Interpolation by the names of ``scipy.interpolate``.

Results are differentiable with respect to the evaluation points, the values and their points. At a node, the piece to
its right is used.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.interpolate.cubic import *
from agrad.scipy.interpolate.piecewise import PPoly as PPoly
from agrad.scipy.interpolate.radial import RBFInterpolator as RBFInterpolator
from agrad.scipy.interpolate.splines import *
from agrad.scipy.interpolate.tables import *

_list_names(globals())
