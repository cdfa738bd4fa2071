"""Margin losses for scores and distances."""

from collections.abc import Callable
from typing import Any

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.faces import complete_docstring
from agrad.nn.functional.activations import logsigmoid
from agrad.nn.functional.along_axes import pairwise_distance
from agrad.nn.functional.classification import check_weight
from agrad.nn.functional.losses import Reduction, SharedByLosses, positive_part, reduced, same_shape, triplet
from agrad.nn.functional.real import check_numbers, of_array, of_arrays, places, real_only

__all__ = [
    "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _like(target: Any, x: Any) -> Any:
    """Return targets, which may be integers, in the dtype of scores."""
    return agrad.astype(target, x.dtype)


@of_arrays
@real_only
def margin_ranking_loss(x1: Any, x2: Any, target: Any, /, margin: float = 0.0, reduction: Reduction = "mean") -> Any:
    """Compute the margin ranking loss ``max(0, -target * (x1 - x2) + margin)``.

    Parameters
    ----------
    x1, x2 : array
        Scores, of shapes that broadcast and a real floating-point dtype.
    target : array
        1 if ``x1`` should be larger, -1 if ``x2`` should be larger.
    margin : float
        Difference of scores at which the loss becomes 0.

    Returns
    -------
    array of shape (), or of the broadcast shape

    Examples
    --------
    >>> x1, x2 = np.array([1.0, 2.0]), np.array([3.0, 0.0])
    >>> agrad.nn.functional.margin_ranking_loss(x1, x2, np.array([1.0, 1.0]), margin=1.0, reduction="none")
    array([3., 0.])
    """
    losses = positive_part(agrad.multiply(agrad.subtract(x2, x1), _like(target, x1)) + margin)
    return reduced("margin_ranking_loss", losses, reduction)


@of_arrays
@real_only
def hinge_embedding_loss(x: Any, target: Any, /, margin: float = 1.0, reduction: Reduction = "mean") -> Any:
    """Compute the hinge embedding loss.

    The loss is ``x`` for target 1 and ``max(0, margin - x)`` for target -1.

    Parameters
    ----------
    x : array
        Distances, of any shape and a real floating-point dtype.
    target : array
        1 for similar pairs, otherwise -1, of a shape that broadcasts.
    margin : float
        Distance from which the loss of a dissimilar pair is 0.

    Returns
    -------
    array of shape (), or of the broadcast shape

    Examples
    --------
    >>> x, target = np.array([0.5, 0.25]), np.array([1.0, -1.0])
    >>> agrad.nn.functional.hinge_embedding_loss(x, target, reduction="none")
    array([0.5 , 0.75])
    """
    apart = agrad.where(target == 1, 0.0, positive_part(margin - x))
    losses = agrad.add(apart, agrad.where(target == -1, 0.0, x))
    return reduced("hinge_embedding_loss", losses, reduction)


@of_arrays
@real_only
def soft_margin_loss(x: Any, target: Any, /, reduction: Reduction = "mean") -> Any:
    """Compute the soft margin loss ``log(1 + exp(-target * x))``.

    Parameters
    ----------
    x : array
        Scores, of any shape and a real floating-point dtype.
    target : array
        1 or -1, of the same shape.

    Examples
    --------
    >>> x, target = np.array([0.0, 1.0]), np.array([1.0, -1.0])
    >>> agrad.nn.functional.soft_margin_loss(x, target, reduction="none").round(4)
    array([0.6931, 1.3133])
    """
    same_shape("soft_margin_loss", x, target)
    return reduced("soft_margin_loss", agrad.logaddexp(-agrad.multiply(x, _like(target, x)), 0.0), reduction)


def _rows(name: str, x: Any, labels: Any, same: bool) -> tuple[Any, Any]:
    """Return scores of shape (n, c) and labels of shape (n, k); ``x`` may be one row."""
    shape, expected = tuple(x.shape), tuple(x.shape) if same else tuple(x.shape)[:-1]
    if len(shape) not in (1, 2) or tuple(labels.shape) != expected:
        raise ShapeError(
            f"{name}: scores must have shape (n, c) or (c,) and labels "
            f"{'the same shape' if same else 'shape (n,) or ()'}, got {shape} and {tuple(labels.shape)}"
        )
    if not agrad.isdtype(labels.dtype, "integral"):
        raise DtypeError(f"{name}: labels must have an integer dtype, got {labels.dtype}")
    return (agrad.reshape(x, (-1, shape[-1])), agrad.reshape(labels, (-1, shape[-1] if same else 1)))


@of_array
@real_only
def multi_margin_loss(
    x: Any, labels: Any, /, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: Reduction = "mean"
) -> Any:
    """Compute the multi-class margin loss.

    The loss is the sum of ``max(0, margin - x[label] + x[i]) ** p`` over the other classes, divided by the number of
    classes.

    Parameters
    ----------
    x : array
        Scores of shape (n, c) or (c,), and a real floating-point dtype.
    labels : array
        Class labels of shape (n,) or ().
    p : {1, 2}
        Exponent.
    margin : float
        Margin.
    weight : array, optional
        Factor of each class, of shape (c,).

    Returns
    -------
    array of shape (), or of the shape of ``labels``

    Examples
    --------
    >>> x, labels = np.array([[0.0, 2.0, 1.5]]), np.array([1])
    >>> agrad.grad(agrad.nn.functional.multi_margin_loss)(x, labels).round(4)
    array([[ 0.    , -0.3333,  0.3333]])
    """
    if p not in (1, 2):
        raise ConfigurationError(f"multi_margin_loss: p must be 1 or 2, got {p!r}")
    shape = tuple(labels.shape)
    x, labels = _rows("multi_margin_loss", x, labels, False)
    check_numbers("multi_margin_loss", "the classes", labels, 0, x.shape[1] - 1)
    check_weight("multi_margin_loss", weight, x.shape[1])
    missing = agrad.relu(margin - agrad.take_along_axis(x, labels, axis=1) + x)
    if p == 2:
        missing = agrad.square(missing)
    if weight is not None:
        missing = agrad.multiply(missing, agrad.reshape(agrad.take(weight, labels[:, 0], axis=0), (-1, 1)))
    missing = agrad.where(_is_label(x, labels), 0.0, missing)
    return reduced("multi_margin_loss", agrad.reshape(agrad.mean(missing, axis=1), shape), reduction)


def _is_label(x: Any, labels: Any) -> Any:
    """Return a mask of the classes of each row that are among its labels."""
    labels = agrad.expand_dims(agrad.astype(labels, agrad.int64), axis=-1)
    return agrad.any(agrad.equal(labels, places(x.shape[1], labels)), axis=1)


@of_array
@real_only
def multilabel_margin_loss(x: Any, labels: Any, /, reduction: Reduction = "mean") -> Any:
    """Compute the multi-label margin loss.

    The loss is the sum of ``max(0, 1 - x[label] + x[i])`` over all labels and all other classes, divided by the number
    of classes.

    Parameters
    ----------
    x : array
        Scores of shape (n, c) or (c,), and a real floating-point dtype.
    labels : array
        Class labels of the same shape. In each row, labels after the first negative one are ignored.

    Returns
    -------
    array of shape (), or (n,)

    Examples
    --------
    >>> x, labels = np.array([[0.1, 0.2, 0.4, 0.8]]), np.array([[3, 0, -1, 1]])
    >>> round(float(agrad.nn.functional.multilabel_margin_loss(x, labels)), 4)
    0.85
    """
    shape = tuple(x.shape)
    x, labels = _rows("multilabel_margin_loss", x, labels, True)
    check_numbers("multilabel_margin_loss", "the classes", labels, -1, shape[-1] - 1)
    labels = agrad.astype(labels, agrad.int64)
    counted = agrad.cumulative_sum(agrad.astype(labels < 0, agrad.int64), axis=1) == 0
    others = agrad.logical_not(_is_label(x, agrad.where(counted, labels, -1)))
    scores = agrad.take_along_axis(x, agrad.where(counted, labels, 0), axis=1)
    missing = agrad.relu(1.0 - agrad.expand_dims(scores, axis=2) + agrad.expand_dims(x, axis=1))
    pairs = agrad.logical_and(agrad.expand_dims(counted, axis=2), agrad.expand_dims(others, axis=1))
    losses = agrad.sum(agrad.where(pairs, missing, 0.0), axis=(1, 2)) / shape[-1]
    return reduced("multilabel_margin_loss", agrad.reshape(losses, shape[:-1]), reduction)


@of_arrays
@real_only
def multilabel_soft_margin_loss(x: Any, target: Any, /, weight: Any = None, reduction: Reduction = "mean") -> Any:
    """Compute the mean binary cross entropy over classes.

    Parameters
    ----------
    x : array
        Logits of shape (..., c), and a real floating-point dtype.
    target : array
        1 for classes that apply and 0 for others, of the same shape.
    weight : array, optional
        Factor of each class, of shape (c,).

    Returns
    -------
    array of shape (), or of the shape of ``x`` without the last axis

    Examples
    --------
    >>> x, target = np.zeros((1, 3)), np.array([[1.0, 0.0, 1.0]])
    >>> round(float(agrad.nn.functional.multilabel_soft_margin_loss(x, target)), 4)
    0.6931
    """
    same_shape("multilabel_soft_margin_loss", x, target)
    target = _like(target, x)
    ones, zeros = agrad.multiply(target, logsigmoid(x)), agrad.multiply(1 - target, logsigmoid(-x))
    losses = -agrad.add(ones, zeros)
    if weight is not None:
        losses = agrad.multiply(losses, weight)
    return reduced("multilabel_soft_margin_loss", agrad.mean(losses, axis=-1), reduction)


@of_arrays
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    /,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Any:
    """Compute the triplet margin loss with a custom distance.

    The loss is ``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` for the distance function d.

    Reference: V. Balntas et al. (2016), Proceedings of BMVC.

    Parameters
    ----------
    anchor, positive, negative : array
        Arguments of ``distance_function``.
    distance_function : callable, optional
        Function of two arrays that returns their distances. By default, ``pairwise_distance``.
    margin : float
        Margin, greater than 0: the loss is 0 if the negative is farther than the positive by at least this distance.
    swap : bool
        True to use the distance between positive and negative if it is smaller.

    Returns
    -------
    array of shape (), or of the shape of the distances

    Examples
    --------
    >>> anchor, positive, negative = np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([[1.0, 1.0]])
    >>> distance = lambda a, b: abs(a - b).sum(-1)
    >>> agrad.nn.functional.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=distance)
    np.float64(6.0)
    """
    name, distance = "triplet_margin_with_distance_loss", distance_function or pairwise_distance
    return triplet(name, distance, (anchor, positive, negative), margin, swap, reduction)


for _name in __all__:
    complete_docstring(globals()[_name], SharedByLosses)
