"""Signals by the names of ``scipy.signal``.

Results have a floating-point dtype, also for integers, for which some SciPy functions return integers. They are real
for real inputs. Options that are not supported raise ``ConfigurationError``, arrays of other shapes ``ShapeError``.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.signal import windows as windows
from agrad.scipy.signal.convolution import *
from agrad.scipy.signal.filtering import *
from agrad.scipy.signal.smoothing import *
from agrad.scipy.signal.spectral import *
from agrad.scipy.signal.windows import get_window as get_window

_list_names(globals(), "windows")
