"""CuPy kernels in CUDA. Importing the package files them."""

from agrad.kernels.cupy import kernels, random  # noqa: F401
