"""Functions that draw: dropout and its kinds, rrelu, gumbel_softmax.

The key of a draw is an argument. By default it is the next one of the generator that ``nn.manual_seed`` starts, also at
each call of a jitted function.
"""

from typing import Any

import agrad
from agrad import random
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.nn.expect import share
from agrad.nn.functional.real import of_array, on_axes, real_only
from agrad.nn.seeding import generator

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "gumbel_softmax",
    "rrelu",
]  # fmt: skip

_SELU_LIMIT = 1.7580993408473766
"""Minus the limit of ``selu`` for small arguments, the product of its two constants."""


def _floating(name: str, x: Any) -> agrad.Tensor:
    x = x if isinstance(x, agrad.Tensor) else agrad.asarray(x)
    if "floating" not in x.dtype.kind:
        raise DtypeError(f"{name} takes floating arrays, not {x.dtype}; cast them with agrad.astype")
    return x


def _key(x: agrad.Tensor, key: Any) -> Any:
    return generator().key(backend=x.backend, device=x.device) if key is None else key


def _uniform(x: agrad.Tensor, key: Any, draw: Any = random.uniform, **options: Any) -> Any:
    """Return random numbers of the shape and dtype of ``x``, drawn in single or double precision."""
    wide = agrad.float64 if x.dtype == agrad.float64 else agrad.float32
    return agrad.astype(draw(_key(x, key), tuple(x.shape), dtype=wide, **options), x.dtype)


def _kept(x: agrad.Tensor, p: float, key: Any, lead: int | None) -> Any:
    """Return ones for what is kept and zeros for the rest: elements, or the parts that the first axes count."""
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


@of_array
def dropout(x: Any, /, p: float = 0.5, training: bool = True, *, key: Any = None) -> Any:
    """Return ``x`` with random elements zeroed, and the rest divided by 1 - p.

    Parameters
    ----------
    x : array
        Array of any shape and a floating dtype.
    p : float
        The probability to zero an element, from 0 to 1, met to the nearest multiple of 2**-32.
    training : bool
        False to return ``x``.
    key : array, optional
        A key of ``agrad.random``, by default the next one of the generator that ``nn.manual_seed`` starts. Under
        ``vmap`` the members that share a key have the same mask, and ``vmap(..., randomness="different")`` makes a key
        for each of them of the default one.

    Returns
    -------
    array
        Array of the shape and dtype of ``x``.

    Raises
    ------
    ConfigurationError, DtypeError
        If ``p`` is not a number from 0 to 1, or the dtype is not floating.

    Notes
    -----
    N. Srivastava et al. (2014), Journal of Machine Learning Research 15.

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
"""The number of axes before those of a channel, by the number of spatial axes and that of all; 2 take (n, c, l) too."""


def _dropout(spatial: int, x: Any, /, p: float = 0.5, training: bool = True, *, key: Any = None) -> Any:
    """Return ``x`` with random channels zeroed, and the rest divided by 1 - p.

    Parameters
    ----------
    x : array
        Array of shape (n, c, {axes}) or, except for two spatial axes, (c, {axes}), and a floating dtype. As in PyTorch,
        ``dropout2d`` treats three axes as (n, c, l).
    p : float
        The probability to zero a channel, from 0 to 1.
    training : bool
        False to return ``x``.
    key : array, optional
        As for ``dropout``.

    Returns
    -------
    array
        Array of the shape and dtype of ``x``.

    Notes
    -----
    J. Tompson et al. (2015), arXiv:1411.4280.

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
    """Return ``x`` with random elements at the limit of ``selu``.

    The result is scaled and moved so that numbers of mean 0 and variance 1 keep both.

    Parameters
    ----------
    x : array
        Array of any shape and a real floating dtype.
    p : float
        The probability to set an element, from 0 to 1; at 1 all results are 0, as in PyTorch.
    training : bool
        False to return ``x``.
    key : array, optional
        A key of ``agrad.random``, by default the next one of the generator that ``nn.manual_seed`` starts.

    Returns
    -------
    array
        Array of the shape and dtype of ``x``.

    Raises
    ------
    ConfigurationError, DtypeError
        If ``p`` is not a number from 0 to 1, or the dtype is not real floating.

    Notes
    -----
    G. Klambauer et al. (2017), arXiv:1706.02515.

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
    """Return ``x`` with random channels at the limit of ``selu``.

    The result is scaled and moved so that numbers of mean 0 and variance 1 keep both.

    Parameters
    ----------
    x : array
        Array of shape (n, c, ...) and a real floating dtype.
    p : float
        The probability to set a channel, from 0 to 1; at 1 all results are 0, as in PyTorch.
    training : bool
        False to return ``x``.
    key : array, optional
        A key of ``agrad.random``, by default the next one of the generator that ``nn.manual_seed`` starts.

    Returns
    -------
    array
        Array of the shape and dtype of ``x``.

    Raises
    ------
    ShapeError, ConfigurationError, DtypeError
        If the array has fewer than two axes, ``p`` is not a number from 0 to 1, or the dtype is not real floating.

    Notes
    -----
    G. Klambauer et al. (2017), arXiv:1706.02515.

    Examples
    --------
    >>> y = agrad.nn.functional.feature_alpha_dropout(np.ones((2, 8, 5)), 0.5, training=True)
    >>> bool((y == y[:, :, :1]).all())
    True
    """
    if len(x.shape) < 2:
        raise ShapeError(f"feature_alpha_dropout takes an array of shape (n, c, ...), not {tuple(x.shape)}")
    return _alpha_dropped("feature_alpha_dropout", x, p, training, key, 2)


@of_array
@real_only
def rrelu(x: Any, /, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, *, key: Any = None) -> Any:
    """Return each element, those of 0 or less times a random slope.

    Parameters
    ----------
    x : array
        Array of any shape and a real floating dtype.
    lower, upper : float
        The bounds of the slopes.
    training : bool
        False for the mean of the bounds as slope.
    key : array, optional
        A key of ``agrad.random``, by default the next one of the generator that ``nn.manual_seed`` starts.

    Returns
    -------
    array
        Array of the shape and dtype of ``x``.

    Raises
    ------
    ConfigurationError
        If ``lower`` is greater than ``upper``.

    Notes
    -----
    B. Xu et al. (2015), arXiv:1505.00853.

    Examples
    --------
    >>> agrad.nn.functional.rrelu(np.array([-1.0, 2.0]), 0.2, 0.4).round(4)
    array([-0.3,  2. ])
    """
    if not lower <= upper:
        raise ConfigurationError(f"rrelu: lower {lower!r} is at most upper, {upper!r}")
    if not training:
        return agrad.where(x > 0, x, x * ((lower + upper) / 2))
    x = _floating("rrelu", x)
    return agrad.where(x > 0, x, x * _uniform(x, key, low=float(lower), high=float(upper)))


@of_array
@real_only
def gumbel_softmax(x: Any, /, tau: float = 1.0, hard: bool = False, dim: int = -1, *, key: Any = None) -> Any:
    """Return the softmax of logits with Gumbel noise, a sample that is differentiable.

    Parameters
    ----------
    x : array
        Logarithms of probabilities that need not sum to 1, of one or more axes and a real floating dtype.
    tau : float
        The temperature, above 0.
    hard : bool
        True for a result of ones and zeros, with the derivative of the softmax.
    dim : int
        The axis of the classes.
    key : array, optional
        A key of ``agrad.random``, by default the next one of the generator that ``nn.manual_seed`` starts.

    Returns
    -------
    array
        Array of the shape and dtype of ``x``.

    Raises
    ------
    ConfigurationError
        If ``tau`` is not above 0.

    Notes
    -----
    E. Jang, S. Gu and B. Poole (2017), arXiv:1611.01144.

    Examples
    --------
    >>> x = np.log([0.1, 0.2, 0.7])
    >>> y = agrad.nn.functional.gumbel_softmax(x, hard=True, key=agrad.random.key(0))
    >>> float(y.sum()), float(y.max())
    (1.0, 1.0)
    """
    if not tau > 0:
        raise ConfigurationError(f"gumbel_softmax: tau is above 0, not {tau!r}")
    x = _floating("gumbel_softmax", x)
    soft = agrad.softmax((x + _uniform(x, key, random.gumbel)) / tau, axis=dim)
    if not hard:
        return soft
    shape = [1] * len(x.shape)
    shape[dim] = x.shape[dim]
    places = agrad.reshape(agrad.arange(x.shape[dim], backend=x.backend, device=x.device), shape)
    chosen = agrad.astype(places == agrad.argmax(soft, axis=dim, keepdims=True), x.dtype)
    return chosen - agrad.stop_gradient(soft) + soft
