"""SciPy's functions on arrays of every library, with derivatives.

The modules are named as in SciPy: ``from agrad.scipy import special`` in place of ``from scipy import special``.
Functions take Tensors and raw arrays of any library, Python numbers and nested lists. They return raw arrays if an
argument is a raw array and none is a Tensor, and Tensors otherwise.
"""

from agrad.scipy import fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats

__all__ = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial"]
__all__ += ["special", "stats"]
