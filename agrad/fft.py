"""Discrete Fourier transforms and their sample frequencies."""

from agrad.faces import list_names as _list_names
from agrad.ops.fourier import *
from agrad.ops.frequencies import *
from agrad.registry import namespace as _namespace

_list_names(globals())
globals()["__getattr__"] = _namespace.fft.__getattr__  # in a form that type checkers do not see
