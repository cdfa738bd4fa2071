"""Images of any number of axes by the names of ``scipy.ndimage``.

Results have the shape of ``input``, and a floating-point dtype for integers too, unless a docstring says otherwise.
``output`` is not supported. Unsupported options raise ``ConfigurationError``.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.ndimage.filters import *
from agrad.scipy.ndimage.gaussians import *
from agrad.scipy.ndimage.interpolated import *
from agrad.scipy.ndimage.ranks import *
from agrad.scipy.ndimage.splines import *

_list_names(globals())
