"""Integrals and initial value problems by the names of ``scipy.integrate``."""

from agrad.faces import list_names as _list_names
from agrad.scipy.integrate.equations import *
from agrad.scipy.integrate.functions import *
from agrad.scipy.integrate.samples import *

_list_names(globals())
