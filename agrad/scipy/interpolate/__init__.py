"""Interpolation by the names of ``scipy.interpolate``.

Values are differentiated by the places of evaluation, by the values to interpolate, and by their places. At a node the
piece to its right is taken.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.interpolate.cubic import *
from agrad.scipy.interpolate.piecewise import PPoly as PPoly
from agrad.scipy.interpolate.radial import RBFInterpolator as RBFInterpolator
from agrad.scipy.interpolate.splines import *
from agrad.scipy.interpolate.tables import *

_list_names(globals())
