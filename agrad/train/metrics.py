"""Metrics of predictions: functions, and classes that add up over batches.

A function accepts all targets and predictions, arrays of any backend, and returns a number. The `Trainer` computes the
metrics that are sums over examples on the device, in the training step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

import agrad
from agrad.errors import ConfigurationError, ShapeError
from agrad.train.streaming import R2, Accuracy, Confusion, Error, Metric, TopK, array, confusion

__all__ = [
    "accuracy", "confusion_matrix", "f1", "mean_absolute_error", "mean_squared_error", "precision", "r2_score",
    "recall", "roc_auc", "top_k_accuracy",
]  # fmt: skip


def accuracy(y_true: Any, prediction: Any, threshold: float | None = None) -> float:
    """Return the fraction of correct classes.

    Parameters
    ----------
    y_true : array
        Class labels (0 to C - 1) of shape (n,) or (n, 1), or probabilities of the shape of ``prediction``.
    prediction : array
        Class labels of shape (n,); scores of shape (n, classes, ...), of which the highest counts; or one score of
        class 1 for each example, of shape (n,) or (n, 1).
    threshold : float or None
        A score above it means class 1. None means 0.5. A number makes each entry of scores (n, k) a separate decision.

    Returns
    -------
    float
        A number from 0 to 1.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.accuracy(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]))
    0.75
    """
    return Accuracy(threshold)(y_true, prediction)


def top_k_accuracy(y_true: Any, prediction: Any, k: int = 5) -> float:
    """Return the fraction of examples whose class is among the k highest scores.

    Parameters
    ----------
    y_true : array
        Class labels of shape (n,).
    prediction : array
        Scores of shape (n, classes).
    k : int
        Number of scores, at least 1.

    Returns
    -------
    float
        A number from 0 to 1.

    Raises
    ------
    ConfigurationError
        If `k` is not an integer of at least 1.
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> scores = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    >>> agrad.train.metrics.top_k_accuracy(np.array([1, 2]), scores, k=2)
    0.5
    """
    return TopK(k)(y_true, prediction)


def mean_squared_error(y_true: Any, prediction: Any) -> float:
    """Return the mean squared difference.

    Parameters
    ----------
    y_true, prediction : array
        Real arrays of the same shape, except for an axis of length 1 after the first.

    Returns
    -------
    float
        The mean over all elements.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.mean_squared_error(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    2.0
    """
    return Error(2)(y_true, prediction)


def mean_absolute_error(y_true: Any, prediction: Any) -> float:
    """Return the mean absolute difference.

    Parameters
    ----------
    y_true, prediction : array
        Real arrays of the same shape, except for an axis of length 1 after the first.

    Returns
    -------
    float
        The mean over all elements.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.mean_absolute_error(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    1.0
    """
    return Error(1)(y_true, prediction)


def r2_score(y_true: Any, prediction: Any) -> float:
    """Return the coefficient of determination.

    For several columns, the mean of their scores. A constant column counts 1 if it is predicted exactly, otherwise 0.

    Parameters
    ----------
    y_true, prediction : array
        Real arrays of the same shape, except for an axis of length 1 after the first.

    Returns
    -------
    float
        A number of at most 1.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.r2_score(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    0.5
    """
    return R2()(y_true, prediction)


def precision(
    y_true: Any,
    prediction: Any,
    average: Literal["auto", "macro", "micro", "weighted"] = "auto",
    threshold: float | None = None,
) -> float:
    """Return the fraction of correct examples among those predicted as a class.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    average : {"auto", "macro", "micro", "weighted"}
        Mean over the classes that occur; "weighted" by their numbers of examples; "micro" over all decisions together;
        "auto" uses class 1 if there are two classes, otherwise "macro".
    threshold : float or None
        A score above it means class 1. None means 0.5.

    Returns
    -------
    float
        A number from 0 to 1; 0 for a class that is never predicted.

    Raises
    ------
    ConfigurationError
        If `average` has another value.
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> round(agrad.train.metrics.precision(np.array([0, 1, 1, 0]), np.array([0, 1, 1, 1])), 4)
    0.6667
    """
    return Confusion("precision", average, threshold)(y_true, prediction)


def recall(
    y_true: Any,
    prediction: Any,
    average: Literal["auto", "macro", "micro", "weighted"] = "auto",
    threshold: float | None = None,
) -> float:
    """Return the fraction of the examples of a class that are predicted as it.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    average : {"auto", "macro", "micro", "weighted"}
        As for `precision`.
    threshold : float or None
        A score above it means class 1. None means 0.5.

    Returns
    -------
    float
        A number from 0 to 1; 0 for a class that does not occur.

    Raises
    ------
    ConfigurationError
        If `average` has another value.
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.recall(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]))
    0.5
    """
    return Confusion("recall", average, threshold)(y_true, prediction)


def f1(
    y_true: Any,
    prediction: Any,
    average: Literal["auto", "macro", "micro", "weighted"] = "auto",
    threshold: float | None = None,
) -> float:
    """Return the harmonic mean of precision and recall.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    average : {"auto", "macro", "micro", "weighted"}
        As for `precision`.
    threshold : float or None
        A score above it means class 1. None means 0.5.

    Returns
    -------
    float
        A number from 0 to 1.

    Raises
    ------
    ConfigurationError
        If `average` has another value.
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.f1(np.array([0, 1, 1, 0]), np.array([0, 1, 1, 1]))
    0.8
    """
    return Confusion("f1", average, threshold)(y_true, prediction)


def confusion_matrix(
    y_true: Any, prediction: Any, n_classes: int | None = None, threshold: float | None = None
) -> np.ndarray:
    """Count the examples of each class that are predicted as each class.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    n_classes : int or None
        Number of classes. By default, the number of scores, or one more than the largest class label.
    threshold : float or None
        A score above it means class 1. None means 0.5.

    Returns
    -------
    numpy.ndarray
        int64 of shape (classes, classes). Rows are true classes, columns are predicted classes.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.confusion_matrix(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]))
    array([[2, 0],
           [1, 1]])
    """
    with agrad.no_grad():
        matrix = confusion(array(y_true), array(prediction), threshold, n_classes, "confusion_matrix")
    return np.asarray(np.rint(matrix.numpy()), np.int64)


def roc_auc(y_true: Any, prediction: Any) -> float:
    """Return the area under the receiver operating characteristic (ROC) curve.

    It is the probability that an example of class 1 has a higher score than an example of class 0, with ties counted
    half. For more than two classes, it is the mean over each class against the rest.

    Parameters
    ----------
    y_true : array
        Class labels of shape (n,) or (n, 1).
    prediction : array
        Scores of class 1, of shape (n,) or (n, 1); or scores of all classes (n, classes): probabilities, or logits, to
        which softmax is applied.

    Returns
    -------
    float
        A number from 0 to 1; NaN if a class or its rest has no example.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> agrad.train.metrics.roc_auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.3, 0.8]))
    0.75
    """
    scores = np.asarray(array(prediction).numpy(), np.float64)
    if scores.ndim == 2 and scores.shape[1] > 1:
        if (scores < 0).any() or not np.allclose(np.sum(scores, axis=1), 1.0, atol=1e-3):
            scores = np.exp(scores - np.max(scores, axis=1, keepdims=True))
            scores /= np.sum(scores, axis=1, keepdims=True)
        columns = list(scores.T) if scores.shape[1] > 2 else [scores[:, 1]]
    else:
        columns = [scores.reshape(-1)]
    labels = np.asarray(array(y_true).numpy()).reshape(-1)
    if labels.shape != columns[0].shape:
        raise ShapeError(
            f"roc_auc: y_true must have one target for each prediction, got {labels.shape[0]} for predictions of "
            f"shape {tuple(scores.shape)}"
        )
    numbers = range(len(columns)) if len(columns) > 1 else [1]
    return float(np.mean([_area(labels == c, column) for c, column in zip(numbers, columns, strict=True)]))


def _area(positive: np.ndarray, scores: np.ndarray) -> float:
    """Return the area under the curve of one class against the rest."""
    many, few = int(np.sum(positive)), int(np.sum(~positive))
    if not many or not few:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place.reshape(-1)]
    return float((np.sum(ranks[positive]) - many * (many + 1) / 2) / (many * few))


# ------------------------------------------------------------------ metrics of a trainer

NAMES: dict[str, Any] = {
    "accuracy": accuracy,
    "acc": accuracy,
    "top_k_accuracy": top_k_accuracy,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
    "mae": mean_absolute_error,
    "r2_score": r2_score,
    "r2": r2_score,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "roc_auc": roc_auc,
    "auc": roc_auc,
}
"""The metrics that a trainer accepts by name."""


def streaming(function: Any, threshold: float | None) -> Metric | None:
    """Return the metric of sums that equals a function, or None if there is none."""
    if isinstance(function, Metric):
        return function
    for name in ("precision", "recall", "f1"):
        if function is NAMES[name]:
            return Confusion(name, threshold=threshold)
    made: Any = {
        accuracy: lambda: Accuracy(threshold),
        top_k_accuracy: TopK,
        mean_squared_error: lambda: Error(2),
        mean_absolute_error: lambda: Error(1),
        r2_score: R2,
    }.get(function)
    return None if made is None else made()


def named(metrics: Any) -> dict[str, Any]:
    """Return metrics as functions by name. Raises for an unknown one."""
    if isinstance(metrics, str) or callable(metrics):
        metrics = (metrics,)
    pairs = metrics.items() if isinstance(metrics, Mapping) else ((_name(metric), metric) for metric in metrics)
    found: dict[str, Any] = {}
    for name, metric in pairs:
        if isinstance(metric, str) and metric not in NAMES:
            known = ", ".join(NAMES)
            raise ConfigurationError(f"metrics must be functions or the names {known}, got {metric!r}")
        metric = NAMES[metric] if isinstance(metric, str) else metric
        if not callable(metric):
            raise ConfigurationError(f"metrics must be names or functions, got {type(metric).__name__}")
        if name == "<lambda>":
            raise ConfigurationError("metrics: a lambda has no name. Pass {name: function}.")
        if name in found or name in RESERVED:
            raise ConfigurationError(
                f"metrics: the name {name!r} is already used. Pass {{name: function}} with another name."
            )
        if metric is confusion_matrix:
            raise ConfigurationError(
                "metrics: confusion_matrix does not return a number. Call it on the result of predict."
            )
        found[name] = metric
    return found


RESERVED = ("event", "epoch", "step", "batch", "loss", "lr", "seconds", "samples_per_second")


def _name(metric: Any) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__.lower())
