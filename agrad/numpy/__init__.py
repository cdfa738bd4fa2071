"""NumPy's functions on the arrays of every backend, with derivatives.

Replace ``import numpy as np`` by ``import agrad.numpy as np``. Functions accept arrays of every backend, Tensors, and
nested lists of them. Functions that create arrays do so on the backend of the arguments of the function that a
transform calls, and outside of transforms on the selected backend.
"""

from typing import Any

import numpy

from agrad.numpy.modules import attributes, submodule

__all__ = list(numpy.__all__)
__version__ = numpy.__version__

for _name in ("linalg", "fft", "random", "testing", "lib", "lib.scimath", "lib.stride_tricks"):
    globals()[_name] = submodule(__name__, _name)
emath = globals()["lib.scimath"]


def __getattr__(name: str) -> Any:
    return attributes(globals(), "", name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in vars(numpy) if not name.startswith("__"))})
