"""Differentiable SciPy functions for arrays of every library.

The modules and functions have SciPy names: write ``from agrad.scipy import special`` instead of ``from scipy import
special``. A docstring contains the name of the SciPy function and the differences. Parameters that it does not
mention have the SciPy meaning.

Functions accept Tensors, plain arrays of any library, Python numbers and nested lists. They return plain arrays if an
argument is a plain array and none is a Tensor, and Tensors otherwise. Integers are converted to a floating-point dtype,
and results are differentiable with respect to every array, unless the docstring says otherwise. ``overwrite_...`` and
``check_finite`` are ignored: no argument is overwritten, and no value is checked.
"""

from agrad.scipy import fft, integrate, interpolate, linalg, ndimage, optimize, signal, sparse, spatial, special, stats

__all__ = ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial"]
__all__ += ["special", "stats"]
