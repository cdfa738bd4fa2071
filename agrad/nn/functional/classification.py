"""Losses for class labels and class probabilities."""

from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, IndexRangeError, OperandError, ShapeError
from agrad.nn.functional.losses import Reduction, check_reduction, reduced
from agrad.nn.functional.real import of_array, real_only
from agrad.ops.losses import loss_by_kernel, loss_of_labels

__all__ = ["cross_entropy", "nll_loss"]


def _classes_last(x: Any) -> Any:
    """Return an array of shape (n, c, ...) as (n, ..., c), and an array of shape (c,) unchanged."""
    return agrad.moveaxis(x, 1, -1) if len(x.shape) > 2 else x


def _checked_labels(name: str, shape: tuple[int, ...], labels: Any) -> None:
    """Raise an error unless the labels fit the shape (n, c, ...) or (c,) of predictions."""
    if not hasattr(labels, "dtype"):
        raise OperandError(f"{name}: labels must be an array of class labels, got {type(labels).__name__}")
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    if not shape or tuple(labels.shape) != expected:
        raise ShapeError(
            f"{name}: for predictions of shape {shape}, with the classes along axis {min(1, max(len(shape) - 1, 0))}, "
            f"labels must have shape {expected}, got {tuple(labels.shape)}"
        )
    if not agrad.isdtype(labels.dtype, "integral"):
        raise DtypeError(f"{name}: labels must have an integer dtype, got {labels.dtype}")


def _kept(labels: Any, ignore_index: int) -> Any:
    """Return a mask of labels other than ``ignore_index``, or None if it is True for a whole NumPy array."""
    traced = isinstance(labels, agrad.Tensor) and labels.level.name in ("trace", "body")
    raw = labels.data if isinstance(labels, agrad.Tensor) else labels
    # a traced array has only the values of this call
    if isinstance(raw, np.ndarray) and not traced and not np.any(raw == ignore_index):
        return None
    limits = agrad.iinfo(labels.dtype)
    if not limits.min <= ignore_index <= limits.max:
        return None
    return agrad.not_equal(labels, ignore_index)


def check_weight(name: str, weight: Any, classes: int) -> None:
    """Raise ``ShapeError`` unless there is one weight for each class."""
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(f"{name}: weight must have shape ({classes},), one value per class, got {tuple(weight.shape)}")


def _in_range(name: str, labels: Any, classes: int) -> None:
    """Raise ``IndexRangeError`` for labels out of range in a NumPy array."""
    raw = labels.data if isinstance(labels, agrad.Tensor) else labels
    if isinstance(raw, np.ndarray) and raw.size and not 0 <= raw.min() <= raw.max() < classes:
        wrong = raw[(raw < 0) | (raw >= classes)].flat[0]
        raise IndexRangeError(
            f"{name}: labels must be from 0 to {classes - 1}, got {wrong}. Pass ignore_index={wrong} to ignore such "
            "labels."
        )


def _picked(x: Any, labels: Any) -> Any:
    """Return the elements of the last axis at the labels."""
    return agrad.squeeze(agrad.take_along_axis(x, agrad.expand_dims(labels, axis=-1), axis=-1), axis=-1)


def _negative_log(log_p: Any, labels: Any, kept: Any, weight: Any, smoothing: float) -> tuple[Any, Any]:
    """Return the loss of each label, and the weights of the mean or None."""
    picked = -_picked(log_p, labels)
    weights = None if weight is None else agrad.take(weight, agrad.reshape(labels, (-1,)), axis=0)
    if weights is not None:
        weights = agrad.reshape(weights, tuple(labels.shape))
        picked = agrad.multiply(picked, weights)
    if smoothing:
        every = -agrad.sum(log_p if weight is None else agrad.multiply(log_p, weight), axis=-1)
        picked = (1 - smoothing) * picked + (smoothing / log_p.shape[-1]) * every
    if kept is not None:
        weights = agrad.astype(kept, log_p.dtype) if weights is None else agrad.where(kept, weights, 0.0)
        picked = agrad.where(kept, picked, 0.0)
    return picked, weights


def _averaged(name: str, losses: Any, weights: Any, reduction: str) -> Any:
    """Reduce losses. A mean is weighted."""
    if "complex" in str(losses.dtype):
        raise DtypeError(f"{name}: arguments must be real, got {losses.dtype}. Pass agrad.real(x).")
    if reduction != "mean" or weights is None:
        return reduced(name, losses, reduction)
    return agrad.sum(losses) / agrad.sum(weights)


@of_array
@real_only
def nll_loss(
    log_probability: Any, labels: Any, /, weight: Any = None, ignore_index: int = -100, reduction: Reduction = "mean"
) -> Any:
    """Compute the negative log-likelihood loss of class labels.

    Parameters
    ----------
    log_probability : array
        Log-probabilities of shape (n, c, ...) or (c,).
    labels : array
        Integers in range(c), of shape (n, ...) or ().
    weight : array, optional
        Factor of each class, of shape (c,).
    ignore_index : int
        Label to ignore: its loss is 0 and it does not count in the mean.
    reduction : {"mean", "sum", "none"}
        Reduction over all labels. The mean is weighted by the class weights.

    Returns
    -------
    array of shape (), or of the shape of ``labels``

    Examples
    --------
    >>> agrad.nn.functional.nll_loss(np.log([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0]), reduction="none").round(4)
    array([0.6931, 1.3863])
    """
    check_reduction("nll_loss", reduction)
    _checked_labels("nll_loss", tuple(log_probability.shape), labels)
    kept = _kept(labels, ignore_index)
    labels = labels if kept is None else agrad.where(kept, labels, 0)
    log_probability = _classes_last(log_probability)
    _in_range("nll_loss", labels, log_probability.shape[-1])
    check_weight("nll_loss", weight, log_probability.shape[-1])
    return _averaged("nll_loss", *_negative_log(log_probability, labels, kept, weight, 0.0), reduction)


@of_array
def cross_entropy(
    logits: Any,
    target: Any,
    /,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Compute the cross entropy of softmax(logits) with labels or probabilities.

    The classes are along axis 1, as in PyTorch. ``agrad.cross_entropy`` expects them along the last axis.

    Parameters
    ----------
    logits : array of shape (n, c, ...) or (c,), and a real floating-point dtype
    target : array
        Integers in range(c) of shape (n, ...) or (), or probabilities of the shape of ``logits``.
    weight : array, optional
        Factor of each class, of shape (c,).
    ignore_index : int
        Label to ignore: its loss is 0 and it does not count in the mean.
    reduction : {"mean", "sum", "none"}
        Reduction over all targets. The mean over labels is weighted by the class weights. The mean over probabilities
        divides by the number of distributions.
    label_smoothing : float
        Share of the target, from 0 to 1, that is distributed over all classes.

    Returns
    -------
    array of shape (), or (n, ...)

    Examples
    --------
    >>> logits, labels = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([0, 1])
    >>> agrad.nn.functional.cross_entropy(logits, labels, reduction="none").round(4)
    array([0.1269, 0.6931])
    >>> agrad.grad(agrad.nn.functional.cross_entropy)(logits, labels).round(4)
    array([[-0.0596,  0.0596],
           [ 0.25  , -0.25  ]])
    """
    check_reduction("cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise ConfigurationError(f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing!r}")
    shape = tuple(logits.shape)
    logits = _classes_last(logits)
    check_weight("cross_entropy", weight, logits.shape[-1] if shape else 0)
    if shape and tuple(getattr(target, "shape", ())) == shape and agrad.isdtype(target.dtype, "real floating"):
        target = _classes_last(target)
        if label_smoothing:
            target = agrad.add(agrad.multiply(target, 1 - label_smoothing), label_smoothing / logits.shape[-1])
        if weight is not None:
            target = agrad.multiply(target, weight)
        losses = -agrad.sum(agrad.multiply(target, agrad.log_softmax(logits)), axis=-1)
        return _averaged("cross_entropy", losses, None, reduction)
    _checked_labels("cross_entropy", shape, target)
    if weight is None:
        loss = loss_by_kernel(logits, target, reduction, ignore_index, label_smoothing)
        if loss is not None:
            return loss
    kept = _kept(target, ignore_index)
    if weight is None and not label_smoothing:
        if kept is None:
            return loss_of_labels(logits, target, reduction)
        losses = loss_of_labels(logits, agrad.where(kept, target, 0), "none")
        return _averaged("cross_entropy", agrad.where(kept, losses, 0.0), agrad.astype(kept, losses.dtype), reduction)
    labels = target if kept is None else agrad.where(kept, target, 0)
    _in_range("cross_entropy", labels, logits.shape[-1])
    log_p = agrad.log_softmax(logits)
    return _averaged("cross_entropy", *_negative_log(log_p, labels, kept, weight, label_smoothing), reduction)
