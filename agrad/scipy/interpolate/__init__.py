"""Interpolation by the names of ``scipy.interpolate``.

Results are differentiable with respect to the evaluation points, the values and their points. At a node, the piece to
its right is used. In docstrings, the points ``x`` have shape (n,), and the values ``y`` have length n along ``axis``.
The shape of the evaluation points replaces this axis in the result. Unsorted points raise ``ShapeError``, or return NaN
if a transform hides their values.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.interpolate.cubic import *
from agrad.scipy.interpolate.piecewise import PPoly as PPoly
from agrad.scipy.interpolate.radial import RBFInterpolator as RBFInterpolator
from agrad.scipy.interpolate.splines import *
from agrad.scipy.interpolate.tables import *

_list_names(globals())
