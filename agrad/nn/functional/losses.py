"""Losses for predictions and targets."""

import functools
import math
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError
from agrad.expect import one_of
from agrad.faces import complete_docstring
from agrad.nn.functional.along_axes import pairwise_distance
from agrad.nn.functional.real import of_arrays, real_only
from agrad.ops.shared import REDUCTIONS, Batchmean, Reduction

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "gaussian_nll_loss",
    "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss", "triplet_margin_loss",
]  # fmt: skip


def check_reduction(name: str, reduction: Any, known: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise ``ConfigurationError`` unless a reduction is known."""
    one_of(name, "reduction", reduction, known)


def reduced(name: str, losses: Any, reduction: str, weight: Any = None) -> Any:
    """Return the losses, each multiplied by a weight, or their mean or sum."""
    check_reduction(name, reduction)
    if weight is not None:
        losses = agrad.multiply(losses, weight)
    if reduction == "none":
        return losses
    return agrad.mean(losses) if reduction == "mean" else agrad.sum(losses)


def same_shape(name: str, prediction: Any, target: Any) -> None:
    """Raise ``ShapeError`` unless prediction and target have the same shape."""
    shapes = [tuple(getattr(x, "shape", ())) for x in (prediction, target)]
    if shapes[0] != shapes[1]:
        raise ShapeError(f"{name}: prediction and target must have the same shape, got {shapes[0]} and {shapes[1]}")


def positive_part(x: Any) -> Any:
    """Return numbers below 0 as 0, and others as they are.

    NaN is kept, and the derivative at 0 is 1, as in PyTorch.
    """
    return agrad.where(x < 0, 0.0, x)


class SharedByLosses:
    """Parameters and result of losses.

    Parameters
    ----------
    prediction, target : arrays of the same shape and real dtypes
        They do not broadcast.
    reduction : {"mean", "sum", "none"}
        Reduction over all losses.
    weight : array, optional
        Factor of each loss, of a shape that broadcasts.

    Returns
    -------
    array of shape (), or of the shape of the arguments
    """


def _difference(name: str, prediction: Any, target: Any) -> Any:
    same_shape(name, prediction, target)
    difference = agrad.subtract(prediction, target)
    if agrad.isdtype(difference.dtype, "complex floating"):
        raise DtypeError(f"{name}: arrays must be real, got {difference.dtype}. Take agrad.abs of complex differences.")
    return difference


@of_arrays
def mse_loss(prediction: Any, target: Any, /, reduction: Reduction = "mean", weight: Any = None) -> Any:
    """Compute the squared differences of prediction and target.

    Examples
    --------
    >>> prediction, target = np.array([1.0, 2.0]), np.array([1.0, 4.0])
    >>> agrad.nn.functional.mse_loss(prediction, target)
    np.float64(2.0)
    >>> agrad.grad(agrad.nn.functional.mse_loss)(prediction, target)
    array([ 0., -2.])
    """
    return reduced("mse_loss", agrad.square(_difference("mse_loss", prediction, target)), reduction, weight)


@of_arrays
def l1_loss(prediction: Any, target: Any, /, reduction: Reduction = "mean", weight: Any = None) -> Any:
    """Compute the absolute differences of prediction and target.

    Examples
    --------
    >>> prediction, target = np.array([1.0, 2.0]), np.array([1.5, 4.0])
    >>> agrad.nn.functional.l1_loss(prediction, target)
    np.float64(1.25)
    >>> agrad.grad(agrad.nn.functional.l1_loss)(prediction, target)
    array([-0.5, -0.5])
    """
    return reduced("l1_loss", agrad.abs(_difference("l1_loss", prediction, target)), reduction, weight)


@of_arrays
def huber_loss(
    prediction: Any, target: Any, /, reduction: Reduction = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """Compute the Huber loss.

    The loss is ``d**2 / 2`` for ``d = abs(difference)`` up to ``delta``, otherwise ``delta * (d - delta / 2)``.

    Reference: P. Huber (1964), Annals of Mathematical Statistics 35.

    Parameters
    ----------
    delta : float
        Largest absolute difference with a quadratic loss, greater than 0.

    Examples
    --------
    >>> prediction, target = np.array([0.5, 3.0]), np.array([0.0, 0.0])
    >>> agrad.nn.functional.huber_loss(prediction, target, reduction="none", delta=2.0)
    array([0.125, 4.   ])
    """
    if not delta > 0:
        raise ConfigurationError(f"huber_loss: delta must be greater than 0, got {delta!r}")
    losses = _huber(_difference("huber_loss", prediction, target), delta)
    return reduced("huber_loss", losses, reduction, weight)


def _huber(difference: Any, delta: float) -> Any:
    distance = agrad.abs(difference)
    near = distance < delta
    # a square of a large difference may overflow, and its derivative then be 0 * inf
    return agrad.where(near, 0.5 * agrad.square(agrad.where(near, difference, 0.0)), delta * (distance - 0.5 * delta))


@of_arrays
def smooth_l1_loss(prediction: Any, target: Any, /, reduction: Reduction = "mean", beta: float = 1.0) -> Any:
    """Compute the smooth L1 loss.

    The loss is ``d**2 / (2 * beta)`` for ``d = abs(difference)`` below ``beta``, otherwise ``d - beta / 2``.

    Reference: R. Girshick (2015), arXiv:1504.08083.

    Parameters
    ----------
    beta : float
        Largest absolute difference with a quadratic loss, at least 0.

    Examples
    --------
    >>> prediction, target = np.array([0.5, 3.0]), np.array([0.0, 0.0])
    >>> agrad.nn.functional.smooth_l1_loss(prediction, target, reduction="none", beta=2.0)
    array([0.0625, 2.    ])
    """
    if not beta >= 0:
        raise ConfigurationError(f"smooth_l1_loss: beta must be at least 0, got {beta!r}")
    difference = _difference("smooth_l1_loss", prediction, target)
    return reduced("smooth_l1_loss", _huber(difference, beta) / beta if beta else agrad.abs(difference), reduction)


_log_from_below: Any = agrad.elementwise(
    "log_limited",
    lambda xp, g, x: g / xp.maximum(x, xp.full_like(x, 1e-12)),
    forward=lambda xp, x, /: xp.maximum(xp.log(xp.maximum(x, xp.full_like(x, 1e-44))), xp.full_like(x, -100.0)),
    doc="Return log(x), or -100 where it is less, with the derivative 1 / max(x, 1e-12).",
)


def _check_probabilities(x: Any) -> None:
    """Raise ``OperandError`` if a NumPy array, outside a trace, has elements outside 0 to 1."""
    raw = x.data if isinstance(x, agrad.Tensor) else x
    if isinstance(raw, np.ndarray) and raw.size and (raw.min() < 0 or raw.max() > 1):
        raise OperandError(
            f"binary_cross_entropy: probabilities must be from 0 to 1, got {raw.min():.6g} to {raw.max():.6g}. Call "
            "binary_cross_entropy_with_logits for logits."
        )


@of_arrays
@real_only
def binary_cross_entropy(probability: Any, target: Any, /, weight: Any = None, reduction: Reduction = "mean") -> Any:
    """Compute the binary cross entropy of probabilities and targets from 0 to 1.

    The loss is ``-target * log(probability) - (1 - target) * log(1 - probability)``. Logarithms are clipped below at
    -100, and divisors in the derivative at 1e-12. ``binary_cross_entropy_with_logits`` needs neither limit.

    Parameters
    ----------
    probability, target : arrays of the same shape and real floating-point dtypes

    Examples
    --------
    >>> probability, target = np.array([0.5, 0.8]), np.array([0.0, 1.0])
    >>> agrad.nn.functional.binary_cross_entropy(probability, target, reduction="none").round(4)
    array([0.6931, 0.2231])
    >>> agrad.grad(agrad.nn.functional.binary_cross_entropy)(probability, target)
    array([ 1.   , -0.625])
    """
    same_shape("binary_cross_entropy", probability, target)
    _check_probabilities(probability)
    ones = agrad.multiply(target, _log_from_below(probability))
    zeros = agrad.multiply(1.0 - target, _log_from_below(1.0 - probability))
    return reduced("binary_cross_entropy", -(ones + zeros), reduction, weight)


@of_arrays
@real_only
def binary_cross_entropy_with_logits(
    logits: Any, target: Any, /, weight: Any = None, reduction: Reduction = "mean", pos_weight: Any = None
) -> Any:
    """Compute the binary cross entropy of sigmoid(logits) and targets.

    Parameters
    ----------
    logits, target : arrays of the same shape and real floating-point dtypes
        The targets are from 0 to 1.
    pos_weight : array, optional
        Factor of the positive term of each loss, of a shape that broadcasts.

    Examples
    --------
    >>> logits, target = np.array([0.0, 1000.0]), np.array([0.0, 1.0])
    >>> agrad.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none").round(4)
    array([0.6931, 0.    ])
    >>> agrad.grad(agrad.nn.functional.binary_cross_entropy_with_logits)(logits, target)
    array([0.25, 0.  ])
    """
    same_shape("binary_cross_entropy_with_logits", logits, target)
    softplus = agrad.logaddexp(-logits, 0.0)
    if pos_weight is not None:
        softplus = agrad.multiply(softplus, agrad.multiply(pos_weight - 1.0, target) + 1.0)
    losses = agrad.add(agrad.multiply(1.0 - target, logits), softplus)
    return reduced("binary_cross_entropy_with_logits", losses, reduction, weight)


@of_arrays
@real_only
def kl_div(x: Any, target: Any, /, reduction: Batchmean = "mean", log_target: bool = False) -> Any:
    """Compute the Kullback-Leibler divergence ``target * (log(target) - x)``.

    Parameters
    ----------
    x : array
        Log-probabilities.
    target : array
        Probabilities of the same shape. The loss is 0 for a probability of 0.
    reduction : {"mean", "batchmean", "sum", "none"}
        Reduction over all elements. ``"batchmean"``, the mathematical definition, divides the sum by the batch size.
    log_target : bool
        True if the target contains log-probabilities.

    Examples
    --------
    >>> p, q = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    >>> round(float(agrad.nn.functional.kl_div(np.log(q), p, reduction="sum")), 4)
    0.1438
    """
    same_shape("kl_div", x, target)
    check_reduction("kl_div", reduction, (*REDUCTIONS, "batchmean"))
    if log_target:
        losses = agrad.multiply(agrad.exp(target), agrad.subtract(target, x))
    else:
        losses = agrad.subtract(agrad.special.xlogy(target, target), agrad.multiply(target, x))
    if reduction != "batchmean":
        return reduced("kl_div", losses, reduction)
    return agrad.sum(losses) / (x.shape[0] if x.shape else 1)


@of_arrays
@real_only
def gaussian_nll_loss(
    x: Any, target: Any, var: Any, /, full: bool = False, eps: float = 1e-6, reduction: Reduction = "mean"
) -> Any:
    """Compute the negative log-likelihood of a normal distribution.

    The loss is ``(log(var) + (x - target)**2 / var) / 2``.

    Parameters
    ----------
    x, target : array
        Means and values, of the same shape and a real floating-point dtype.
    var : array
        Variances, of a shape that broadcasts. Variances below ``eps`` are treated as ``eps``, except in the derivative.
    full : bool
        True to add the constant ``log(2 * pi) / 2``.
    eps : float
        Smallest variance, greater than 0.

    Examples
    --------
    >>> mean, target, variance = np.array([0.0, 1.0]), np.array([0.0, 3.0]), np.array([1.0, 4.0])
    >>> agrad.nn.functional.gaussian_nll_loss(mean, target, variance, reduction="none").round(4)
    array([0.    , 1.1931])
    """
    same_shape("gaussian_nll_loss", x, target)
    if not eps > 0:
        raise ConfigurationError(f"gaussian_nll_loss: eps must be greater than 0, got {eps!r}")
    if len(var.shape) == len(x.shape) - 1 and tuple(var.shape) == tuple(x.shape)[:-1]:
        var = agrad.expand_dims(var, axis=-1)
    still = agrad.stop_gradient(var)
    var = var + agrad.where(still < eps, eps - still, 0.0)
    losses = 0.5 * agrad.add(agrad.log(var), agrad.divide(agrad.square(agrad.subtract(x, target)), var))
    return reduced("gaussian_nll_loss", losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@of_arrays
@real_only
def poisson_nll_loss(
    x: Any, target: Any, /, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: Reduction = "mean"
) -> Any:
    """Compute the negative log-likelihood of a Poisson distribution.

    The loss is ``exp(x) - target * x``, or ``x - target * log(x + eps)`` if ``log_input`` is False.

    Parameters
    ----------
    x, target : array
        Logarithms of rates, and counts, of the same shape.
    log_input : bool
        False if ``x`` contains the rates.
    full : bool
        True to add the Stirling approximation of log(target!) for targets above 1.
    eps : float
        Number added to a rate before its logarithm.

    Examples
    --------
    >>> log_rate, counts = np.array([0.0, 1.0]), np.array([1.0, 2.0])
    >>> agrad.grad(agrad.nn.functional.poisson_nll_loss)(log_rate, counts).round(4)  # (exp(x) - target) / 2
    array([0.    , 0.3591])
    """
    same_shape("poisson_nll_loss", x, target)
    if log_input:
        losses = agrad.subtract(agrad.exp(x), agrad.multiply(target, x))
    else:
        losses = agrad.subtract(x, agrad.multiply(target, agrad.log(x + eps)))
    if full:
        many = target > 1
        count = agrad.where(many, target, 1.0)
        stirling = count * agrad.log(count) - count + 0.5 * agrad.log(2 * math.pi * count)
        losses = losses + agrad.where(many, stirling, 0.0)
    return reduced("poisson_nll_loss", losses, reduction)


def triplet(name: str, distance: Any, arrays: tuple[Any, Any, Any], margin: float, swap: bool, reduction: str) -> Any:
    """Return the triplet margin loss of (anchor, positive, negative)."""
    check_reduction(name, reduction)
    if not margin > 0:
        raise ConfigurationError(f"{name}: margin must be greater than 0, got {margin!r}")
    anchor, positive, negative = arrays
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = agrad.minimum(far, distance(positive, negative))
    return reduced(name, positive_part(agrad.subtract(near, far) + margin), reduction)


@of_arrays
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    /,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Any:
    """Compute the triplet margin loss of distances.

    The loss is ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, where d is ``pairwise_distance``.

    Reference: V. Balntas et al. (2016), Proceedings of BMVC.

    Parameters
    ----------
    anchor, positive, negative : array
        Vectors along the last axis, of shapes that broadcast.
    margin : float
        Margin, greater than 0: the loss is 0 if the negative is farther than the positive by at least this distance.
    p : float
        Order of the norm.
    eps : float
        Number added to the differences, so that the derivative exists for equal vectors.
    swap : bool
        True to use the distance between positive and negative if it is smaller.

    Returns
    -------
    array of shape (), or of the broadcast shape without the last axis

    Examples
    --------
    >>> anchor, positive, negative = np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([[6.0, 8.0]])
    >>> round(float(agrad.nn.functional.triplet_margin_loss(anchor, positive, negative, margin=6.0)), 4)
    1.0
    """
    distance = functools.partial(pairwise_distance, p=p, eps=eps)
    return triplet("triplet_margin_loss", distance, (anchor, positive, negative), margin, swap, reduction)


@of_arrays
@real_only
def cosine_embedding_loss(x1: Any, x2: Any, target: Any, /, margin: float = 0.0, reduction: Reduction = "mean") -> Any:
    """Compute the cosine embedding loss.

    The loss is ``1 - cosine`` for target 1 and ``max(0, cosine - margin)`` for target -1.

    Parameters
    ----------
    x1, x2 : array
        Vectors along the last axis.
    target : array
        1 for similar vectors, otherwise -1.
    margin : float
        Cosine below which the loss of dissimilar vectors is 0.

    Returns
    -------
    array of shape (), or of the shape of ``target``

    Examples
    --------
    >>> x1, x2 = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> agrad.nn.functional.cosine_embedding_loss(x1, x2, np.array([1.0, 1.0]), reduction="none").round(4)
    array([0., 1.])
    """
    # as in PyTorch, 1e-12 is added to the squares, so that the divisor is not 0
    product = agrad.sum(agrad.multiply(x1, x2), axis=-1)
    squares = [agrad.sum(agrad.square(x), axis=-1) + 1e-12 for x in (x1, x2)]
    cosine = product / agrad.sqrt(squares[0] * squares[1])
    apart = agrad.where(target == -1, positive_part(cosine - margin), 0.0)
    losses = agrad.where(target == 1, 1.0 - cosine, apart)
    return reduced("cosine_embedding_loss", losses, reduction)


for _name in __all__:
    complete_docstring(globals()[_name], SharedByLosses)
