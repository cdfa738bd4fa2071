"""CuPy kernels in CUDA. Importing the package registers them."""

from agrad.kernels.cupy import kernels, pooling, random, scatter  # noqa: F401
