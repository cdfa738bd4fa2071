"""Functions that draw random numbers: dropout, rrelu, gumbel_softmax.

The random key is an argument. By default, it is the next key of the generator that ``nn.manual_seed`` seeds. This also
holds at each call of a jitted function.
"""

from typing import Any

import agrad
from agrad import random
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import share
from agrad.faces import complete_docstring
from agrad.nn.functional.real import of_array, on_axes, places, real_only
from agrad.nn.seeding import generator

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "gumbel_softmax",
    "rrelu",
]  # fmt: skip

_SELU_LIMIT = 1.7580993408473766
"""Negative of the limit of ``selu`` at minus infinity, the product of its two constants."""


def _floating(name: str, x: Any) -> agrad.Tensor:
    x = x if isinstance(x, agrad.Tensor) else agrad.asarray(x)
    if "floating" not in x.dtype.kind:
        raise DtypeError(f"{name}: x must have a floating-point dtype, got {x.dtype}. Cast it with agrad.astype.")
    return x


def _key(x: agrad.Tensor, key: Any) -> Any:
    return generator().key(backend=x.backend, device=x.device) if key is None else key


def _uniform(x: agrad.Tensor, key: Any, draw: Any = random.uniform, **options: Any) -> Any:
    """Return random numbers of the shape and dtype of ``x``, drawn in single or double precision."""
    wide = agrad.float64 if x.dtype == agrad.float64 else agrad.float32
    return agrad.astype(draw(_key(x, key), tuple(x.shape), dtype=wide, **options), x.dtype)


def _kept(x: agrad.Tensor, p: float, key: Any, lead: int | None) -> Any:
    """Return ones for the elements, or leading axes, that are kept, otherwise zeros."""
    shape = tuple(x.shape)
    shape = shape if lead is None else shape[:lead] + (1,) * (len(shape) - lead)
    return agrad.astype(random.bernoulli(_key(x, key), 1 - p, shape), x.dtype)


def _dropped(name: str, x: Any, p: float, training: bool, key: Any, lead: int | None = None) -> Any:
    share(name, "p", p)
    if not training or p == 0:
        return x
    x = _floating(name, x)
    return x * (_kept(x, p, key, lead) * (1 / (1 - p) if p < 1 else 0.0))


def _alpha_dropped(name: str, x: Any, p: float, training: bool, key: Any, lead: int | None = None) -> Any:
    share(name, "p", p)
    if not training or p == 0:
        return x
    x = _floating(name, x)
    if p == 1:
        return x * 0.0
    scale = ((1 - p) * (1 + p * _SELU_LIMIT**2)) ** -0.5
    kept = _kept(x, p, key, lead)
    return x * (kept * scale) + ((kept - 1) * (_SELU_LIMIT * scale) + _SELU_LIMIT * scale * p)


class _Shared:
    """Parameters and result of functions that draw random numbers.

    Parameters
    ----------
    x : array of any shape and a real floating-point dtype
    training : bool
        False to return ``x``.
    key : array, optional
        Key of ``agrad.random``. By default, the next key of the generator that ``nn.manual_seed`` seeds.

    Returns
    -------
    array of the shape and dtype of ``x``
    """


@of_array
def dropout(x: Any, /, p: float = 0.5, training: bool = True, *, key: Any = None) -> Any:
    """Zero random elements of ``x`` and divide the others by 1 - p.

    Reference: N. Srivastava et al. (2014), Journal of Machine Learning Research 15.

    Parameters
    ----------
    p : float
        Probability of zeroing an element, from 0 to 1, rounded to the nearest multiple of 2**-32.
    key : array, optional
        Key of ``agrad.random``. By default, the next key of the generator that ``nn.manual_seed`` seeds. Under
        ``vmap``, batch elements that share a key have the same mask. With ``vmap(..., randomness="different")``, each
        batch element has a separate key, derived from the default key.

    Returns
    -------
    array of the shape and dtype of ``x``

    Examples
    --------
    >>> x = np.ones(1000)
    >>> np.unique(agrad.nn.functional.dropout(x, 0.5, key=agrad.random.key(0)))
    Tensor([0.0, 2.0], dtype=float64, backend=numpy, device=cpu)
    >>> agrad.nn.functional.dropout(x, 0.5, training=False).mean()
    np.float64(1.0)
    """
    return _dropped("dropout", x, p, training, key)


_LEADS = {1: {2: 1, 3: 2}, 2: {3: 2, 4: 2}, 3: {4: 1, 5: 2}}
"""Number of axes before the spatial ones, by the numbers of spatial axes and of all axes."""


def _dropout(spatial: int, x: Any, /, p: float = 0.5, training: bool = True, *, key: Any = None) -> Any:
    """Zero random channels of ``x`` and divide the others by 1 - p.

    Reference: J. Tompson et al. (2015), arXiv:1411.4280.

    Parameters
    ----------
    x : array
        Array of shape (n, c, {axes}) or, except for two spatial axes, (c, {axes}), and a floating-point dtype. As in
        PyTorch, ``dropout2d`` treats three axes as (n, c, l).
    p : float
        Probability of zeroing a channel, from 0 to 1.

    Examples
    --------
    >>> y = agrad.nn.functional.dropout1d(np.ones((2, 8, 5)), 0.5)
    >>> bool((y == y[:, :, :1]).all())
    True
    >>> y = agrad.nn.functional.dropout2d(np.ones((2, 8, 5, 5)), 0.5)
    >>> bool((y == y[:, :, :1, :1]).all())
    True
    >>> y = agrad.nn.functional.dropout3d(np.ones((2, 8, 3, 3, 3)), 0.5)
    >>> bool((y == y[:, :, :1, :1, :1]).all())
    True
    """
    name, shape, leads = f"dropout{spatial}d", tuple(x.shape), _LEADS[spatial]
    if len(shape) not in leads:
        raise ShapeError(f"{name}: x must have {' or '.join(map(str, leads))} axes, got shape {shape}")
    return _dropped(name, x, p, training, key, leads[len(shape)])


dropout1d, dropout2d, dropout3d = (of_array(f) for f in on_axes(_dropout))


@of_array
@real_only
def alpha_dropout(x: Any, /, p: float = 0.5, training: bool = False, *, key: Any = None) -> Any:
    """Apply alpha dropout to the elements of ``x``.

    Dropped elements take the limit of ``selu``. The result is scaled and shifted so that mean 0 and variance 1 are
    preserved.

    Reference: G. Klambauer et al. (2017), arXiv:1706.02515.

    Parameters
    ----------
    p : float
        Probability of replacing an element, from 0 to 1. At 1 all results are 0, as in PyTorch.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=100_000)
    >>> y = agrad.nn.functional.alpha_dropout(x, 0.2, training=True, key=agrad.random.key(0))
    >>> abs(float(y.mean())) < 0.02, abs(float(y.std()) - 1) < 0.02
    (True, True)
    """
    return _alpha_dropped("alpha_dropout", x, p, training, key)


@of_array
@real_only
def feature_alpha_dropout(x: Any, /, p: float = 0.5, training: bool = False, *, key: Any = None) -> Any:
    """Apply alpha dropout to whole channels of ``x``.

    Dropped elements take the limit of ``selu``. The result is scaled and shifted so that mean 0 and variance 1 are
    preserved.

    Reference: G. Klambauer et al. (2017), arXiv:1706.02515.

    Parameters
    ----------
    x : array of shape (n, c, ...) and a real floating-point dtype
    p : float
        Probability of replacing a channel, from 0 to 1. At 1 all results are 0, as in PyTorch.

    Examples
    --------
    >>> y = agrad.nn.functional.feature_alpha_dropout(np.ones((2, 8, 5)), 0.5, training=True)
    >>> bool((y == y[:, :, :1]).all())
    True
    """
    if len(x.shape) < 2:
        raise ShapeError(f"feature_alpha_dropout: x must have shape (n, c, ...), got {tuple(x.shape)}")
    return _alpha_dropped("feature_alpha_dropout", x, p, training, key, 2)


@of_array
@real_only
def rrelu(x: Any, /, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, *, key: Any = None) -> Any:
    """Apply a leaky ReLU with a random negative slope.

    Reference: B. Xu et al. (2015), arXiv:1505.00853.

    Parameters
    ----------
    lower, upper : float
        Bounds of the negative slope.
    training : bool
        False to use the mean of the bounds.

    Examples
    --------
    >>> agrad.nn.functional.rrelu(np.array([-1.0, 2.0]), 0.2, 0.4).round(4)
    array([-0.3,  2. ])
    """
    if not lower <= upper:
        raise ConfigurationError(f"rrelu: lower must be at most upper={upper!r}, got {lower!r}")
    if not training:
        return agrad.where(x > 0, x, x * ((lower + upper) / 2))
    x = _floating("rrelu", x)
    return agrad.where(x > 0, x, x * _uniform(x, key, low=float(lower), high=float(upper)))


@of_array
@real_only
def gumbel_softmax(x: Any, /, tau: float = 1.0, hard: bool = False, dim: int = -1, *, key: Any = None) -> Any:
    """Sample from the Gumbel-softmax distribution, differentiably.

    Reference: E. Jang, S. Gu and B. Poole (2017), arXiv:1611.01144.

    Parameters
    ----------
    x : array
        Unnormalized log-probabilities with at least one axis and a real floating-point dtype.
    tau : float
        Temperature, greater than 0.
    hard : bool
        True to return one-hot samples with the derivative of the softmax.
    dim : int
        Axis of the classes.

    Examples
    --------
    >>> y = agrad.nn.functional.gumbel_softmax(np.log([0.1, 0.2, 0.7]), hard=True, key=agrad.random.key(0))
    >>> float(y.sum()), float(y.max())
    (1.0, 1.0)
    """
    if not tau > 0:
        raise ConfigurationError(f"gumbel_softmax: tau must be greater than 0, got {tau!r}")
    x = _floating("gumbel_softmax", x)
    soft = agrad.softmax((x + _uniform(x, key, random.gumbel)) / tau, axis=dim)
    if not hard:
        return soft
    shape = [1] * len(x.shape)
    shape[dim] = x.shape[dim]
    at = agrad.reshape(places(x.shape[dim], x), shape)
    chosen = agrad.astype(at == agrad.argmax(soft, axis=dim, keepdims=True), x.dtype)
    return chosen - agrad.stop_gradient(soft) + soft


for _name in __all__:
    complete_docstring(globals()[_name], _Shared)
