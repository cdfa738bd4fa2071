"""NumPy kernels. Importing the package files them."""

from agrad.kernels.numpy import elementwise, fused, linalg, pooling, products, reductions, updates  # noqa: F401
