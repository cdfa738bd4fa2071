"""Signals by the names of ``scipy.signal``.

Results are of a floating dtype, real for real inputs. SciPy returns integers for some functions of integers.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.signal import windows as windows
from agrad.scipy.signal.convolution import *
from agrad.scipy.signal.filtering import *
from agrad.scipy.signal.smoothing import *
from agrad.scipy.signal.spectral import *
from agrad.scipy.signal.windows import get_window as get_window

_list_names(globals(), "windows")
