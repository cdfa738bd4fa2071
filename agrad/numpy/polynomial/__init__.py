"""``numpy.polynomial`` on the arrays of every backend.

The modules are NumPy's own; here they call ``agrad.numpy``.
"""

import importlib
from typing import Any

import numpy.polynomial as _original

import agrad.numpy as _names

__path__ = list(_original.__path__)  # the files of NumPy, which are loaded once more under the names of this package
__all__ = list(_original.__all__)

for _name in ("polyutils", "_polybase", "polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre"):
    _module: Any = importlib.import_module(f"{__name__}.{_name}")
    _module.np = _names
    globals().update({name: value for name, value in vars(_module).items() if name in __all__})


def set_default_printstyle(style: str) -> None:
    _original.set_default_printstyle(style)
    importlib.import_module(f"{__name__}._polybase").ABCPolyBase._use_unicode = style == "unicode"


set_default_printstyle.__doc__ = _original.set_default_printstyle.__doc__
