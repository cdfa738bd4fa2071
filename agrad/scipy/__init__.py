"""Differentiable SciPy functions for arrays of every library.

The modules have the SciPy names: write ``from agrad.scipy import special`` instead of ``from scipy import special``.
Functions accept Tensors, plain arrays of any library, Python numbers and nested lists. They return plain arrays if an
argument is a plain array and none is a Tensor, and Tensors otherwise.
"""

from agrad.scipy import fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats

__all__ = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial"]
__all__ += ["special", "stats"]
