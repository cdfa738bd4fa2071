"""NumPy kernels. Importing the package registers them."""

from agrad.kernels.numpy import (  # noqa: F401
    convolution,
    cross_entropy,
    elementwise,
    fused,
    linalg,
    normal,
    pooling,
    random,
    reductions,
    scatter,
    sums,
    updates,
)
