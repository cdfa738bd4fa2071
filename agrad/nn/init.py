"""Initial values: arrays drawn on the host, parameters, and PyTorch's fillings."""

import math
from typing import Any

import numpy as np

import agrad
from agrad import random
from agrad.nn.filling import (
    calculate_gain,
    constant_,
    dirac_,
    eye_,
    fans,
    kaiming_normal_,
    kaiming_uniform_,
    normal_,
    ones_,
    orthogonal_,
    sparse_,
    trunc_normal_,
    uniform_,
    xavier_normal_,
    xavier_uniform_,
    zeros_,
)
from agrad.nn.parameter import Parameter, marked
from agrad.nn.seeding import Rng, generator

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "fans",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal_",
    "parameter",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros",
    "zeros_",
]

Shape = tuple[int, ...]


def parameter(values: np.ndarray, *, dtype: Any = None, backend: str | None = None, device: Any = None) -> agrad.Tensor:
    """Return a parameter.

    Parameters
    ----------
    values : numpy.ndarray
        The values, an array on the host. They are rounded there, so every backend gets the same ones.
    dtype : dtype or None
        The dtype, by default float32.
    backend : str or None
        The backend, by default the selected one.
    device : device or None
        The device, by default that of the backend.

    Returns
    -------
    Tensor
        A leaf with the shape of ``values``.

    Examples
    --------
    >>> w = agrad.nn.init.parameter(np.zeros((2, 3)))
    >>> w.dtype, w.requires_grad
    (agrad.float32, True)
    """
    # an array of one element has the dtype, backend and device that the arguments select
    place = agrad.zeros((1,), dtype=dtype or agrad.float32, backend=backend, device=device)
    name = place.dtype.name
    host = np.array(values, dtype=None if name == "bfloat16" else name, order="C")
    made = agrad.asarray(host, dtype=place.dtype, backend=place.backend, device=place.device, requires_grad=True)
    return marked(made, Parameter)


def uniform(shape: Shape, bound: float, rng: Rng = None) -> np.ndarray:
    """Draw uniform numbers between -bound and bound.

    Parameters
    ----------
    shape : tuple of int
        The shape of the result.
    bound : float
        The largest absolute value.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of keys, None for the default one.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Examples
    --------
    >>> w = agrad.nn.init.uniform((100, 100), 0.5, np.random.default_rng(0))
    >>> round(float(w.min()), 2), round(float(w.max()), 2)
    (-0.5, 0.5)
    """
    key = generator(rng).key(backend="numpy")
    return random.uniform(key, shape, low=-bound, high=bound, dtype=agrad.float64).numpy()


def normal(shape: Shape, std: float, rng: Rng = None) -> np.ndarray:
    """Draw normal numbers of mean 0.

    Parameters
    ----------
    shape : tuple of int
        The shape of the result.
    std : float
        The standard deviation.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of keys, None for the default one.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Examples
    --------
    >>> w = agrad.nn.init.normal((100, 100), 0.5, np.random.default_rng(0))
    >>> type(w), round(float(w.std()), 1)
    (<class 'numpy.ndarray'>, 0.5)
    """
    return random.normal(generator(rng).key(backend="numpy"), shape, scale=std, dtype=agrad.float64).numpy()


def kaiming_uniform(shape: Shape, rng: Rng = None, *, a: float = math.sqrt(5)) -> np.ndarray:
    """Draw uniform numbers of variance 2 / ((1 + a**2) * inputs).

    Parameters
    ----------
    shape : tuple of int
        The shape of a weight: (inputs, outputs), or (outputs, inputs, ...) with the axes of a kernel.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of keys, None for the default one.
    a : float
        The slope of the leaky ReLU behind the weight. The default is that of PyTorch's Linear.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    Notes
    -----
    He et al. 2015, arXiv:1502.01852.

    Examples
    --------
    >>> w = agrad.nn.init.kaiming_uniform((100, 400), np.random.default_rng(0))
    >>> round(float(w.max()), 2)  # as in Linear: 1 / 400 ** 0.5
    0.1
    """
    return uniform(shape, math.sqrt(6 / ((1 + a * a) * fans(shape)[0])), rng)


def kaiming_normal(shape: Shape, rng: Rng = None, *, a: float = 0.0) -> np.ndarray:
    """Draw normal numbers of variance 2 / ((1 + a**2) * inputs).

    Parameters
    ----------
    shape : tuple of int
        The shape of a weight: (inputs, outputs), or (outputs, inputs, ...) with the axes of a kernel.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of keys, None for the default one.
    a : float
        The slope of the leaky ReLU behind the weight, 0 for a ReLU.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    Notes
    -----
    He et al. 2015, arXiv:1502.01852.

    Examples
    --------
    >>> w = agrad.nn.init.kaiming_normal((100, 800), np.random.default_rng(0))
    >>> round(float(w.std()), 2)  # (2 / 800) ** 0.5
    0.14
    """
    return normal(shape, math.sqrt(2 / ((1 + a * a) * fans(shape)[0])), rng)


def xavier_uniform(shape: Shape, rng: Rng = None, *, gain: float = 1.0) -> np.ndarray:
    """Draw uniform numbers of variance gain**2 * 2 / (inputs + outputs).

    Parameters
    ----------
    shape : tuple of int
        The shape of a weight: (inputs, outputs), or (outputs, inputs, ...) with the axes of a kernel.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of keys, None for the default one.
    gain : float
        A factor on the standard deviation.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    Notes
    -----
    Glorot and Bengio 2010, Proceedings of AISTATS.

    Examples
    --------
    >>> w = agrad.nn.init.xavier_uniform((300, 300), np.random.default_rng(0))
    >>> round(float(w.max()), 2)  # (6 / 600) ** 0.5
    0.1
    """
    return uniform(shape, gain * math.sqrt(6 / sum(fans(shape))), rng)


def xavier_normal(shape: Shape, rng: Rng = None, *, gain: float = 1.0) -> np.ndarray:
    """Draw normal numbers of variance gain**2 * 2 / (inputs + outputs).

    Parameters
    ----------
    shape : tuple of int
        The shape of a weight: (inputs, outputs), or (outputs, inputs, ...) with the axes of a kernel.
    rng : agrad.random.Generator, numpy.random.Generator or None
        The source of keys, None for the default one.
    gain : float
        A factor on the standard deviation.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    Notes
    -----
    Glorot and Bengio 2010, Proceedings of AISTATS.

    Examples
    --------
    >>> w = agrad.nn.init.xavier_normal((100, 100), np.random.default_rng(0))
    >>> round(float(w.std()), 2)  # (2 / 200) ** 0.5
    0.1
    """
    return normal(shape, gain * math.sqrt(2 / sum(fans(shape))), rng)


def zeros(shape: Shape) -> np.ndarray:
    """Return zeros.

    Parameters
    ----------
    shape : tuple of int
        The shape of the result.

    Returns
    -------
    numpy.ndarray
        A float64 array of the shape.

    Examples
    --------
    >>> agrad.nn.init.zeros((2, 3))
    array([[0., 0., 0.],
           [0., 0., 0.]])
    """
    return np.zeros(shape)
