"""Initial values: arrays drawn on the host, and functions that fill a Tensor."""

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

import agrad
from agrad import random
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.expect import one_of, share
from agrad.faces import complete_docstring
from agrad.nn.parameter import Parameter, marked
from agrad.nn.seeding import Rng, generator
from agrad.nn.state import put

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "fans", "kaiming_normal", "kaiming_normal_", "kaiming_uniform",
    "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal_", "parameter", "sparse_", "trunc_normal_", "uniform",
    "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros", "zeros_",
]  # fmt: skip

Shape = tuple[int, ...]


class _Shared:
    """Parameters of functions that draw or fill.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result. For a weight, it is as in ``fans``.
    tensor : Tensor
        Leaf Tensor, such as a parameter. For a weight, its shape is as in ``fans``.
    rng : agrad.random.Generator, numpy.random.Generator or None
        Source of keys. By default, the default generator.
    """


def parameter(values: np.ndarray, *, dtype: Any = None, backend: str | None = None, device: Any = None) -> agrad.Tensor:
    """Create a parameter, a leaf Tensor.

    Parameters
    ----------
    values : numpy.ndarray
        Values, which are rounded on the host, so all backends get the same values.
    dtype, backend, device
        By default, float32, the selected backend and its default device.

    Returns
    -------
    Tensor of the shape of ``values``

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


def _drawn(draw: Callable[..., agrad.Tensor], shape: Shape, rng: Rng, *bounds: float, **options: float) -> np.ndarray:
    return draw(generator(rng).key(backend="numpy"), *bounds, shape, dtype=agrad.float64, **options).numpy()


def uniform(shape: Shape, bound: float, rng: Rng = None) -> np.ndarray:
    """Draw an array of uniform numbers between -bound and bound.

    Parameters
    ----------
    bound : float
        Largest absolute value.

    Examples
    --------
    >>> w = agrad.nn.init.uniform((100, 100), 0.5, np.random.default_rng(0))
    >>> round(float(w.min()), 2), round(float(w.max()), 2)
    (-0.5, 0.5)
    """
    return _drawn(random.uniform, shape, rng, low=-bound, high=bound)


def normal(shape: Shape, std: float, rng: Rng = None) -> np.ndarray:
    """Draw an array of normal numbers of mean 0.

    Parameters
    ----------
    std : float
        Standard deviation.

    Examples
    --------
    >>> w = agrad.nn.init.normal((100, 100), 0.5, np.random.default_rng(0))
    >>> type(w), round(float(w.std()), 1)
    (<class 'numpy.ndarray'>, 0.5)
    """
    return _drawn(random.normal, shape, rng, scale=std)


def kaiming_uniform(shape: Shape, rng: Rng = None, *, a: float = math.sqrt(5)) -> np.ndarray:
    """Draw an array of uniform numbers of variance 2 / ((1 + a**2) * inputs).

    Reference: He et al. 2015, arXiv:1502.01852.

    Parameters
    ----------
    a : float
        Negative slope of the leaky ReLU after the weight. The default is the value of the PyTorch ``Linear``.

    Examples
    --------
    >>> w = agrad.nn.init.kaiming_uniform((100, 400), np.random.default_rng(0))
    >>> round(float(w.max()), 2)  # as in Linear: 1 / 400 ** 0.5
    0.1
    """
    return uniform(shape, math.sqrt(6 / ((1 + a * a) * fans(shape)[0])), rng)


def kaiming_normal(shape: Shape, rng: Rng = None, *, a: float = 0.0) -> np.ndarray:
    """Draw an array of normal numbers of variance 2 / ((1 + a**2) * inputs).

    Reference: He et al. 2015, arXiv:1502.01852.

    Parameters
    ----------
    a : float
        Negative slope of the leaky ReLU after the weight, 0 for a ReLU.

    Examples
    --------
    >>> w = agrad.nn.init.kaiming_normal((100, 800), np.random.default_rng(0))
    >>> round(float(w.std()), 2)  # (2 / 800) ** 0.5
    0.14
    """
    return normal(shape, math.sqrt(2 / ((1 + a * a) * fans(shape)[0])), rng)


def xavier_uniform(shape: Shape, rng: Rng = None, *, gain: float = 1.0) -> np.ndarray:
    """Draw an array of uniform numbers of variance gain**2 * 2 / (inputs + outputs).

    Reference: Glorot and Bengio 2010, Proceedings of AISTATS.

    Parameters
    ----------
    gain : float
        Factor of the standard deviation.

    Examples
    --------
    >>> w = agrad.nn.init.xavier_uniform((300, 300), np.random.default_rng(0))
    >>> round(float(w.max()), 2)  # (6 / 600) ** 0.5
    0.1
    """
    return uniform(shape, gain * math.sqrt(6 / sum(fans(shape))), rng)


def xavier_normal(shape: Shape, rng: Rng = None, *, gain: float = 1.0) -> np.ndarray:
    """Draw an array of normal numbers of variance gain**2 * 2 / (inputs + outputs).

    Reference: Glorot and Bengio 2010, Proceedings of AISTATS.

    Parameters
    ----------
    gain : float
        Factor of the standard deviation.

    Examples
    --------
    >>> w = agrad.nn.init.xavier_normal((100, 100), np.random.default_rng(0))
    >>> round(float(w.std()), 2)  # (2 / 200) ** 0.5
    0.1
    """
    return normal(shape, gain * math.sqrt(2 / sum(fans(shape))), rng)


def zeros(shape: Shape) -> np.ndarray:
    """Return an array of zeros.

    Examples
    --------
    >>> agrad.nn.init.zeros((2, 3))
    array([[0., 0., 0.],
           [0., 0., 0.]])
    """
    return np.zeros(shape)


def fans(shape: Shape) -> tuple[int, int]:
    """Return the fan-in and fan-out of a weight.

    Parameters
    ----------
    shape : tuple of int
        Shape of a weight: (inputs, outputs), or (outputs, inputs, ...) with the axes of a kernel.

    Returns
    -------
    tuple of int
        (fan-in, fan-out): the numbers of inputs and outputs, each multiplied by the number of kernel elements.

    Examples
    --------
    >>> agrad.nn.init.fans((20, 10)), agrad.nn.init.fans((8, 3, 5, 5))
    ((20, 10), (75, 200))
    """
    if len(shape) < 2:
        raise ShapeError(f"a weight must have at least two axes, (inputs, outputs), got shape {tuple(shape)}")
    if len(shape) == 2:
        return shape[0], shape[1]
    kernel = math.prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


def _shape(tensor: agrad.Tensor, what: str, drawn: bool = True) -> Shape:
    """Return the shape of a leaf, checked to be floating-point if ``drawn``."""
    if not isinstance(tensor, agrad.Tensor) or not tensor.is_leaf:
        raise OperandError(f"{what}: tensor must be a leaf Tensor, such as a parameter, got {repr(tensor)[:80]}")
    if drawn and not tensor.dtype.kind.endswith("floating"):
        raise DtypeError(f"{what}: tensor must have a floating-point dtype, got {tensor.dtype}")
    return tensor.shape


def _fill(tensor: agrad.Tensor, values: Any) -> agrad.Tensor:
    """Write float64 host values into a leaf and return it."""
    name = tensor.dtype.name
    # rounded on the host, so every backend gets the same values
    host = np.array(np.broadcast_to(values, tensor.shape), dtype=None if name == "bfloat16" else name)
    put([(tensor, host)])
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain of an activation function.

    Parameters
    ----------
    nonlinearity : str
        ``"linear"``, ``"sigmoid"``, ``"tanh"``, ``"relu"``, ``"leaky_relu"``, ``"selu"``, or the name of a convolution.
    param : float, optional
        Negative slope of ``"leaky_relu"``. By default, 0.01.

    Returns
    -------
    float

    Examples
    --------
    >>> agrad.nn.init.calculate_gain("tanh"), round(agrad.nn.init.calculate_gain("leaky_relu", 1.0), 4)
    (1.6666666666666667, 1.0)
    """
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    gains |= {f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)}
    gains["leaky_relu"] = math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    return gains[one_of("calculate_gain", "nonlinearity", nonlinearity, gains)]


def uniform_(tensor: agrad.Tensor, a: float = 0.0, b: float = 1.0, rng: Rng = None) -> agrad.Tensor:
    """Fill a Tensor with uniform numbers between ``a`` and ``b``, and return it.

    Parameters
    ----------
    a, b : float
        Bounds.

    Examples
    --------
    >>> w = agrad.nn.init.uniform_(agrad.nn.Linear(100, 100).weight, 2.0, 3.0).detach()
    >>> float(w.min()) >= 2.0, float(w.max()) <= 3.0
    (True, True)
    """
    return _fill(tensor, _drawn(random.uniform, _shape(tensor, "uniform_"), rng, low=a, high=b))


def normal_(tensor: agrad.Tensor, mean: float = 0.0, std: float = 1.0, rng: Rng = None) -> agrad.Tensor:
    """Fill a Tensor with normal numbers, and return it.

    Parameters
    ----------
    mean, std : float
        Mean and standard deviation.

    Examples
    --------
    >>> w = agrad.nn.init.normal_(agrad.nn.Linear(100, 100).weight, std=0.01, rng=np.random.default_rng(0)).detach()
    >>> round(float(w.std()), 3)
    0.01
    """
    return _fill(tensor, _drawn(random.normal, _shape(tensor, "normal_"), rng, loc=mean, scale=std))


def trunc_normal_(
    tensor: agrad.Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, rng: Rng = None
) -> agrad.Tensor:
    """Fill a Tensor with truncated normal numbers, and return it.

    Parameters
    ----------
    mean, std : float
        Mean and standard deviation of the normal distribution before truncation.
    a, b : float
        Bounds.

    Examples
    --------
    >>> float(abs(agrad.nn.init.trunc_normal_(agrad.nn.Linear(100, 100).weight, a=-1.0, b=1.0).detach()).max()) <= 1.0
    True
    """
    if not a < b:
        raise ConfigurationError(f"trunc_normal_: a must be less than b, got a={a!r} and b={b!r}")
    bounds = ((bound - mean) / std for bound in (a, b))
    drawn = _drawn(random.truncated_normal, _shape(tensor, "trunc_normal_"), rng, *bounds)
    return _fill(tensor, np.clip(drawn * std + mean, a, b))


def constant_(tensor: agrad.Tensor, val: float) -> agrad.Tensor:
    """Fill a Tensor with a constant, and return it.

    Parameters
    ----------
    val : float
        Constant.

    Examples
    --------
    >>> agrad.nn.init.constant_(agrad.nn.Linear(2, 2).bias, 0.5).detach()
    Tensor([0.5, 0.5], dtype=float32, backend=numpy, device=cpu)
    """
    _shape(tensor, "constant_", drawn=False)
    return _fill(tensor, val)


def ones_(tensor: agrad.Tensor) -> agrad.Tensor:
    """Fill a Tensor with ones, and return it.

    Examples
    --------
    >>> agrad.nn.init.ones_(agrad.nn.Linear(2, 2).bias).detach()
    Tensor([1.0, 1.0], dtype=float32, backend=numpy, device=cpu)
    """
    _shape(tensor, "ones_", drawn=False)
    return _fill(tensor, 1.0)


def zeros_(tensor: agrad.Tensor) -> agrad.Tensor:
    """Fill a Tensor with zeros, and return it.

    Examples
    --------
    >>> agrad.nn.init.zeros_(agrad.nn.Linear(2, 2).bias).detach()
    Tensor([0.0, 0.0], dtype=float32, backend=numpy, device=cpu)
    """
    _shape(tensor, "zeros_", drawn=False)
    return _fill(tensor, 0.0)


def eye_(tensor: agrad.Tensor) -> agrad.Tensor:
    """Fill a matrix with ones on its diagonal and zeros elsewhere.

    Parameters
    ----------
    tensor : Tensor
        2-D leaf Tensor.

    Examples
    --------
    >>> agrad.nn.init.eye_(agrad.nn.Linear(2, 2, bias=False).weight).detach()
    Tensor([[1.0, 0.0],
            [0.0, 1.0]], dtype=float32, backend=numpy, device=cpu)
    """
    if len(_shape(tensor, "eye_", drawn=False)) != 2:
        raise ShapeError(f"eye_: tensor must be a matrix, got shape {tensor.shape}")
    return _fill(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: agrad.Tensor, groups: int = 1) -> agrad.Tensor:
    """Fill the weight of a convolution so that it preserves the channels.

    Parameters
    ----------
    tensor : Tensor
        Leaf Tensor of shape (out_channels, in_channels // groups, ...).
    groups : int
        Number of groups of channels.

    Examples
    --------
    >>> layer = agrad.nn.Conv1d(1, 1, kernel_size=3, padding=1, bias=False)
    >>> agrad.nn.init.dirac_(layer.weight).detach()
    Tensor([[[0.0, 1.0, 0.0]]], dtype=float32, backend=numpy, device=cpu)
    >>> layer(np.array([[1.0, 2.0, 4.0]], np.float32)).detach()
    Tensor([[1.0, 2.0, 4.0]], dtype=float32, backend=numpy, device=cpu)
    """
    shape = _shape(tensor, "dirac_", drawn=False)
    if not 3 <= len(shape) <= 5 or shape[0] % groups:
        raise ShapeError(f"dirac_: tensor must have 3 to 5 axes, the first a multiple of {groups}, got shape {shape}")
    values = np.zeros(shape)
    rows = shape[0] // groups
    middle = tuple(n // 2 for n in shape[2:])
    for row in range(shape[0]):
        if row % rows < shape[1]:
            values[(row, row % rows, *middle)] = 1.0
    return _fill(tensor, values)


def xavier_uniform_(tensor: agrad.Tensor, gain: float = 1.0, rng: Rng = None) -> agrad.Tensor:
    """Fill a weight with uniform numbers of variance gain**2 * 2 / (inputs + outputs).

    Parameters
    ----------
    gain : float
        Factor of the standard deviation.

    Examples
    --------
    >>> w = agrad.nn.init.xavier_uniform_(agrad.nn.Linear(300, 300).weight, rng=np.random.default_rng(0)).detach()
    >>> round(float(w.max()), 2)  # (6 / 600) ** 0.5
    0.1
    """
    return _fill(tensor, xavier_uniform(_shape(tensor, "xavier_uniform_"), rng, gain=gain))


def xavier_normal_(tensor: agrad.Tensor, gain: float = 1.0, rng: Rng = None) -> agrad.Tensor:
    """Fill a weight with normal numbers of variance gain**2 * 2 / (inputs + outputs).

    Parameters
    ----------
    gain : float
        Factor of the standard deviation.

    Examples
    --------
    >>> w = agrad.nn.init.xavier_normal_(agrad.nn.Linear(100, 100).weight, rng=np.random.default_rng(0)).detach()
    >>> round(float(w.std()), 2)  # (2 / 200) ** 0.5
    0.1
    """
    return _fill(tensor, xavier_normal(_shape(tensor, "xavier_normal_"), rng, gain=gain))


def _kaiming(what: str, tensor: agrad.Tensor, a: float, mode: str, nonlinearity: str) -> float:
    one_of(what, "mode", mode, ("fan_in", "fan_out"))
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(_shape(tensor, what))[mode == "fan_out"])


def kaiming_uniform_(
    tensor: agrad.Tensor,
    a: float = 0.0,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    nonlinearity: str = "leaky_relu",
    rng: Rng = None,
) -> agrad.Tensor:
    """Fill a weight with uniform numbers of variance gain**2 / inputs.

    Parameters
    ----------
    a : float
        Negative slope of a leaky ReLU after the weight.
    mode : {"fan_in", "fan_out"}
        ``"fan_in"`` to divide by the number of inputs, ``"fan_out"`` by the number of outputs.
    nonlinearity : str
        Activation function after the weight, as for ``calculate_gain``.

    Examples
    --------
    >>> w = agrad.nn.init.kaiming_uniform_(agrad.nn.Linear(600, 100).weight, rng=np.random.default_rng(0)).detach()
    >>> round(float(w.max()), 2)  # (6 / 600) ** 0.5
    0.1
    """
    bound = math.sqrt(3.0) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return _fill(tensor, uniform(tensor.shape, bound, rng))


def kaiming_normal_(
    tensor: agrad.Tensor,
    a: float = 0.0,
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    nonlinearity: str = "leaky_relu",
    rng: Rng = None,
) -> agrad.Tensor:
    """Fill a weight with normal numbers of variance gain**2 / inputs.

    Parameters
    ----------
    a, mode, nonlinearity
        Same as for ``kaiming_uniform_``.

    Examples
    --------
    >>> w = agrad.nn.init.kaiming_normal_(agrad.nn.Linear(1000, 100).weight, rng=np.random.default_rng(0)).detach()
    >>> round(float(w.std()), 3)  # (2 / 1000) ** 0.5
    0.045
    """
    std = _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity)
    return _fill(tensor, normal(tensor.shape, std, rng))


def orthogonal_(tensor: agrad.Tensor, gain: float = 1.0, rng: Rng = None) -> agrad.Tensor:
    """Fill a weight with a random matrix of orthogonal rows or columns.

    Reference: Saxe et al. 2013, arXiv:1312.6120. The distribution is uniform over all such matrices.

    Parameters
    ----------
    tensor : Tensor
        Leaf Tensor with at least two axes. The axes after the first one are flattened.
    gain : float
        Factor of the matrix.

    Examples
    --------
    >>> w = agrad.nn.init.orthogonal_(agrad.nn.Linear(3, 3).weight).detach()
    >>> abs(w @ w.T).round(4)
    Tensor([[1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [0.0, 0.0, 1.0]], dtype=float32, backend=numpy, device=cpu)
    """
    if len(_shape(tensor, "orthogonal_")) < 2:
        raise ShapeError(f"orthogonal_: tensor must have at least two axes, got shape {tensor.shape}")
    if not tensor.size:
        return tensor
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    drawn = normal((max(rows, columns), min(rows, columns)), 1.0, rng)
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # without the signs of R the matrix would not be uniform
    return _fill(tensor, gain * (q.T if rows < columns else q).reshape(tensor.shape))


def sparse_(tensor: agrad.Tensor, sparsity: float, std: float = 0.01, rng: Rng = None) -> agrad.Tensor:
    """Fill a matrix with normal numbers and zeros.

    Parameters
    ----------
    tensor : Tensor
        2-D leaf Tensor.
    sparsity : float
        Share of zeros in each column, rounded up to whole elements.
    std : float
        Standard deviation of the other elements.

    Examples
    --------
    >>> int((agrad.nn.init.sparse_(agrad.nn.Linear(100, 100).weight, sparsity=0.9).detach() != 0).sum())
    1000
    """
    if len(_shape(tensor, "sparse_")) != 2:
        raise ShapeError(f"sparse_: tensor must be a matrix, got shape {tensor.shape}")
    share("sparse_", "sparsity", sparsity)
    values = normal(tensor.shape, std, rng)
    order = np.argsort(_drawn(random.uniform, tensor.shape, rng), axis=0)
    values[order < math.ceil(sparsity * tensor.shape[0])] = 0.0
    return _fill(tensor, values)


for _name in __all__:
    complete_docstring(globals()[_name], _Shared)
