"""Initial values, float64 arrays drawn on the host, and parameters of them.

The last axis of a weight counts its outputs and the others its inputs, as in ``x @ weight``.
"""

import math
from typing import Any

import numpy as np

import agrad
from agrad import random
from agrad.errors import ShapeError
from agrad.nn.seeding import Rng, generator

Shape = tuple[int, ...]


def parameter(values: np.ndarray, *, dtype: Any = None, backend: str | None = None, device: Any = None) -> agrad.Tensor:
    """Return a leaf that requires a gradient, from ``values``, an array on the host.

    It is born on the selected backend unless another is named; ``dtype`` is float32 by default. The values are
    rounded to it on the host, so that every backend gets the same ones.
    """
    # an array of one element says what the selection and the names come to
    place = agrad.zeros((1,), dtype=dtype or agrad.float32, backend=backend, device=device)
    name = place.dtype.name
    host = np.array(values, dtype=None if name == "bfloat16" else name, order="C")
    return agrad.asarray(host, dtype=place.dtype, backend=place.backend, device=place.device, requires_grad=True)


def fans(shape: Shape) -> tuple[int, int]:
    """Return the number of inputs of an output and the number of outputs of a weight."""
    if len(shape) < 2:
        raise ShapeError(f"a weight has two axes or more, (inputs, outputs); found shape {tuple(shape)}")
    return math.prod(shape[:-1]), shape[-1]


def uniform(shape: Shape, bound: float, rng: Rng = None) -> np.ndarray:
    """Uniform between -bound and bound; float64 of ``shape``."""
    key = generator(rng).key(backend="numpy")
    return random.uniform(key, shape, low=-bound, high=bound, dtype=agrad.float64).numpy()


def normal(shape: Shape, std: float, rng: Rng = None) -> np.ndarray:
    """Normal of mean 0 and standard deviation ``std``; float64 of ``shape``."""
    return random.normal(generator(rng).key(backend="numpy"), shape, scale=std, dtype=agrad.float64).numpy()


def kaiming_uniform(shape: Shape, rng: Rng = None, *, a: float = math.sqrt(5)) -> np.ndarray:
    """Draw uniform numbers for a leaky ReLU of slope ``a``.

    He et al. 2015, arXiv:1502.01852. The default slope is that of PyTorch's Linear.
    """
    return uniform(shape, math.sqrt(6 / ((1 + a * a) * fans(shape)[0])), rng)


def kaiming_normal(shape: Shape, rng: Rng = None, *, a: float = 0.0) -> np.ndarray:
    """Draw normal numbers for a leaky ReLU of slope ``a``, by default a ReLU.

    He et al. 2015, arXiv:1502.01852.
    """
    return normal(shape, math.sqrt(2 / ((1 + a * a) * fans(shape)[0])), rng)


def xavier_uniform(shape: Shape, rng: Rng = None, *, gain: float = 1.0) -> np.ndarray:
    """Glorot and Bengio 2010: uniform of variance gain**2 * 2 / (inputs + outputs)."""
    return uniform(shape, gain * math.sqrt(6 / sum(fans(shape))), rng)


def xavier_normal(shape: Shape, rng: Rng = None, *, gain: float = 1.0) -> np.ndarray:
    """Glorot and Bengio 2010: normal of variance gain**2 * 2 / (inputs + outputs)."""
    return normal(shape, gain * math.sqrt(2 / sum(fans(shape))), rng)


def zeros(shape: Shape) -> np.ndarray:
    """Zeros; float64 of ``shape``."""
    return np.zeros(shape)
