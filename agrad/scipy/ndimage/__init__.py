"""Images of any number of axes by the names of ``scipy.ndimage``.

Results are of a floating dtype. SciPy returns integers for integers.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.ndimage.filters import *
from agrad.scipy.ndimage.gaussians import *
from agrad.scipy.ndimage.interpolated import *
from agrad.scipy.ndimage.ranks import *
from agrad.scipy.ndimage.splines import *

_list_names(globals())
