"""The operations, in the standard's own sections.

Importing them fills the dictionaries of ``agrad.registry``.
"""

from agrad.engine.tensor import Tensor
from agrad.foreign import install as install_foreign
from agrad.ops import (  # noqa: F401
    arrangement,
    casting,
    composites,
    conversion,
    convolution,
    creation,
    cumulative,
    decompositions,
    determinants,
    discrete,
    eigenvalues,
    elementwise,
    fourier,
    frequencies,
    gates,
    indexing,
    inspection,
    lengths,
    linear_algebra,
    manipulation,
    matrix_functions,
    norms,
    pooling,
    products,
    sampling,
    searching,
    segments,
    selection,
    sets,
    solutions,
    sorting,
    statistical,
    transfer,
    updates,
)
from agrad.ops.operators import install
from agrad.ops.special import bessel, entropy, exponential, gamma, incomplete, normal  # noqa: F401
from agrad.registry import PRIMITIVES, namespace

install(Tensor)
install_foreign(Tensor, PRIMITIVES.keys() & vars(namespace).keys())
