"""Metrics of predictions: functions, and classes that add up over batches.

A function takes all targets and predictions, arrays of any backend, and returns a number. The `Trainer` computes the
metrics that are sums over examples on the device, in the training step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError

__all__ = [
    "accuracy",
    "confusion_matrix",
    "f1",
    "mean_absolute_error",
    "mean_squared_error",
    "precision",
    "r2_score",
    "recall",
    "roc_auc",
    "top_k_accuracy",
]

AVERAGES = ("auto", "macro", "micro", "weighted")


class Metric:
    """Base class of metrics that are computed of sums over the examples.

    `update` runs in the training step, and must not read values. Its arrays have the same shapes for every batch.
    """

    parts = 1
    """The number of arrays that `update` returns."""

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        """Return the parts of a batch, arrays on the device."""
        raise ConfigurationError(f"{type(self).__name__} defines no update(y_true, prediction)")

    def total(self, parts: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
        """Return the sums over batches, whose numbers of examples are `sizes` (k,).

        parts: float64 arrays with the batches along the first axis.
        """
        return [*(np.sum(part, axis=0) for part in parts), np.sum(sizes)]

    def result(self, sums: Sequence[np.ndarray]) -> float:
        """Return the metric for sums over all batches."""
        raise ConfigurationError(f"{type(self).__name__} defines no result(sums)")

    def __call__(self, y_true: Any, prediction: Any) -> float:
        """Return the metric of all examples at once."""
        with agrad.no_grad():
            prediction = _array(prediction)
            parts = self.update(_array(y_true), prediction)
        sizes = np.asarray([prediction.shape[0]], np.float64)
        return self.result(self.total([np.asarray(part.numpy(), np.float64)[None] for part in parts], sizes))


class Accuracy(Metric):
    """The share of right classes."""

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        told, labels = classes(y_true, prediction, self.threshold)
        return (_each(agrad.astype(told == labels, agrad.int32)),)

    def result(self, sums: Sequence[np.ndarray]) -> float:
        return _ratio(*sums)


class TopK(Metric):
    """The share of examples whose class is among the k with the highest scores."""

    def __init__(self, k: int = 5) -> None:
        if type(k) is not int or k < 1:
            raise ConfigurationError(f"top_k_accuracy: k is an integer of 1 or more, not {k!r}")
        self.k = k

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        if prediction.ndim != 2:
            raise ShapeError(f"top_k_accuracy takes scores of shape (n, classes), not {tuple(prediction.shape)}")
        labels = _labels(y_true, prediction)
        own = agrad.take_along_axis(prediction, labels[:, None], axis=1)
        higher = agrad.sum(agrad.astype(prediction > own, agrad.int32), axis=1)
        return (_each(agrad.astype(higher < self.k, agrad.int32)),)

    def result(self, sums: Sequence[np.ndarray]) -> float:
        return _ratio(*sums)


class Error(Metric):
    """The mean of squared or absolute differences."""

    def __init__(self, power: int) -> None:
        self.power = power

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        difference = prediction - _like(y_true, prediction)
        errors = agrad.square(difference) if self.power == 2 else agrad.abs(difference)
        return (_each(errors),)

    def result(self, sums: Sequence[np.ndarray]) -> float:
        return _ratio(*sums)


class R2(Metric):
    """The share of the targets' variance that predictions explain, averaged over the targets' columns."""

    parts = 3

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        y = agrad.reshape(_like(y_true, prediction), (prediction.shape[0], -1))
        difference = y - agrad.reshape(prediction, y.shape)
        mean = agrad.mean(y, axis=0)
        spread = agrad.sum(agrad.square(y - mean), axis=0)
        return mean, spread, agrad.sum(agrad.square(difference), axis=0)

    def total(self, parts: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
        # of means and not of squares: a mean far from 0 would leave nothing of the spread
        mean, spread, rest = parts
        count = sizes[:, None]
        return [np.sum(x, axis=0) for x in (count, count * mean, count * mean**2, spread, rest)]

    def result(self, sums: Sequence[np.ndarray]) -> float:
        count, first, second, spread, rest = sums
        total = spread + np.maximum(second - first**2 / count, 0.0)
        with np.errstate(all="ignore"):
            share = np.where(total > 0, 1 - rest / total, np.where(rest == 0, 1.0, 0.0))
        return float(np.mean(share))


class Confusion(Metric):
    """A score of the confusion matrix: `precision`, `recall` or `f1`."""

    def __init__(self, name: str, average: str = "auto", threshold: float | None = None) -> None:
        if average not in AVERAGES:
            raise ConfigurationError(f"{name}: average is one of {', '.join(AVERAGES)}, not {average!r}")
        self.name, self.average, self.threshold = name, average, threshold

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        return (_confusion(y_true, prediction, self.threshold, None, self.name),)

    def result(self, sums: Sequence[np.ndarray]) -> float:
        matrix, _ = sums
        right = np.diagonal(matrix)
        told, there = np.sum(matrix, axis=0), np.sum(matrix, axis=1)
        if self.average == "micro":
            right, told, there = (np.sum(x, keepdims=True) for x in (right, told, there))
        with np.errstate(all="ignore"):
            scores = {
                "precision": np.where(told > 0, right / told, 0.0),
                "recall": np.where(there > 0, right / there, 0.0),
                "f1": np.where(told + there > 0, 2 * right / (told + there), 0.0),
            }[self.name]
        if self.average == "auto" and len(scores) == 2:
            return float(scores[1])
        if self.average == "weighted":
            return float(np.sum(scores * there) / np.sum(there))
        present = told + there > 0
        return float(np.mean(scores[present])) if present.any() else 0.0


# ------------------------------------------------------------------ functions


def accuracy(y_true: Any, prediction: Any, threshold: float | None = None) -> float:
    """Return the share of right classes.

    Parameters
    ----------
    y_true : array
        Class numbers of shape (n,), or (n, 1); or probabilities of the prediction's shape.
    prediction : array
        Class numbers of shape (n,); scores (n, classes, ...), of which the highest counts; or a score for each example,
        (n,) or (n, 1), of class 1 against 0.
    threshold : float or None
        A score above it is for class 1; None for 0.5. A number makes each entry of scores (n, k) a decision of its own.

    Returns
    -------
    float
        A number from 0 to 1.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    return Accuracy(threshold)(y_true, prediction)


def top_k_accuracy(y_true: Any, prediction: Any, k: int = 5) -> float:
    """Return the share of examples whose class is among the k highest scores.

    Parameters
    ----------
    y_true : array
        Class numbers of shape (n,).
    prediction : array
        Scores of shape (n, classes).
    k : int
        The number of scores, 1 or more.

    Returns
    -------
    float
        A number from 0 to 1.

    Raises
    ------
    ConfigurationError
        If `k` is not an integer of 1 or more.
    ShapeError
        If the shapes do not fit.
    """
    return TopK(k)(y_true, prediction)


def mean_squared_error(y_true: Any, prediction: Any) -> float:
    """Return the mean of the squared differences.

    Parameters
    ----------
    y_true, prediction : array
        Real numbers of one shape, but for an axis of length 1 behind the first.

    Returns
    -------
    float
        The mean over all elements.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    return Error(2)(y_true, prediction)


def mean_absolute_error(y_true: Any, prediction: Any) -> float:
    """Return the mean of the absolute differences.

    Parameters
    ----------
    y_true, prediction : array
        Real numbers of one shape, but for an axis of length 1 behind the first.

    Returns
    -------
    float
        The mean over all elements.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    return Error(1)(y_true, prediction)


def r2_score(y_true: Any, prediction: Any) -> float:
    """Return the share of the targets' variance that the predictions explain.

    Of several columns it is the mean of their shares. A constant column counts 1 if it is met exactly, else 0.

    Parameters
    ----------
    y_true, prediction : array
        Real numbers of one shape, but for an axis of length 1 behind the first.

    Returns
    -------
    float
        A number up to 1.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    return R2()(y_true, prediction)


def precision(y_true: Any, prediction: Any, average: str = "auto", threshold: float | None = None) -> float:
    """Return the share of right ones among the examples told to be of a class.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    average : {"auto", "macro", "micro", "weighted"}
        The mean over classes that occur; "weighted" by the number of their examples; "micro" of all decisions together;
        "auto" is that of class 1 where there are two, else "macro".
    threshold : float or None
        A score above it is for class 1; None for 0.5.

    Returns
    -------
    float
        A number from 0 to 1; 0 for a class that is never told.

    Raises
    ------
    ConfigurationError
        If `average` is another one.
    ShapeError
        If the shapes do not fit.
    """
    return Confusion("precision", average, threshold)(y_true, prediction)


def recall(y_true: Any, prediction: Any, average: str = "auto", threshold: float | None = None) -> float:
    """Return the share of the examples of a class that are told to be of it.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    average : {"auto", "macro", "micro", "weighted"}
        As for `precision`.
    threshold : float or None
        A score above it is for class 1; None for 0.5.

    Returns
    -------
    float
        A number from 0 to 1; 0 for a class that does not occur.

    Raises
    ------
    ConfigurationError
        If `average` is another one.
    ShapeError
        If the shapes do not fit.
    """
    return Confusion("recall", average, threshold)(y_true, prediction)


def f1(y_true: Any, prediction: Any, average: str = "auto", threshold: float | None = None) -> float:
    """Return the harmonic mean of precision and recall.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    average : {"auto", "macro", "micro", "weighted"}
        As for `precision`.
    threshold : float or None
        A score above it is for class 1; None for 0.5.

    Returns
    -------
    float
        A number from 0 to 1.

    Raises
    ------
    ConfigurationError
        If `average` is another one.
    ShapeError
        If the shapes do not fit.
    """
    return Confusion("f1", average, threshold)(y_true, prediction)


def confusion_matrix(
    y_true: Any, prediction: Any, n_classes: int | None = None, threshold: float | None = None
) -> np.ndarray:
    """Return the number of examples of each class that are told to be of each class.

    Parameters
    ----------
    y_true, prediction : array
        As for `accuracy`.
    n_classes : int or None
        The number of classes; by default the number of scores, or one more than the largest class number.
    threshold : float or None
        A score above it is for class 1; None for 0.5.

    Returns
    -------
    numpy.ndarray
        int64 of shape (classes, classes): rows are for the true classes, columns for those told.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    with agrad.no_grad():
        matrix = _confusion(_array(y_true), _array(prediction), threshold, n_classes, "confusion_matrix")
    return np.asarray(np.rint(matrix.numpy()), np.int64)


def roc_auc(y_true: Any, prediction: Any) -> float:
    """Return the area under the curve of true over false positives.

    It is the probability that an example of class 1 has a higher score than one of class 0, ties counted half. Of more
    classes it is the mean over the classes against the rest.

    Parameters
    ----------
    y_true : array
        Class numbers of shape (n,) or (n, 1).
    prediction : array
        Scores of class 1, of shape (n,) or (n, 1); or scores of all classes (n, classes): probabilities, or logits,
        whose softmax is taken.

    Returns
    -------
    float
        A number from 0 to 1; NaN where no example is of a class or of the rest.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    scores = np.asarray(_array(prediction).numpy(), np.float64)
    if scores.ndim == 2 and scores.shape[1] > 1:
        if (scores < 0).any() or not np.allclose(np.sum(scores, axis=1), 1.0, atol=1e-3):
            scores = np.exp(scores - np.max(scores, axis=1, keepdims=True))
            scores /= np.sum(scores, axis=1, keepdims=True)
        columns = list(scores.T) if scores.shape[1] > 2 else [scores[:, 1]]
    else:
        columns = [scores.reshape(-1)]
    labels = np.asarray(_array(y_true).numpy()).reshape(-1)
    if labels.shape != columns[0].shape:
        raise ShapeError(f"roc_auc: {labels.shape[0]} targets for predictions of shape {tuple(scores.shape)}")
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


# ------------------------------------------------------------------ parts


def _array(value: Any) -> Any:
    """Return a constant Tensor of an array or a list."""
    return (value if isinstance(value, agrad.Tensor) else agrad.asarray(value)).detach()


def _each(values: Any) -> Any:
    """Return the sum over examples of the mean of each one's values, of shape ()."""
    each = math.prod(values.shape[1:])
    if each == 1:
        return agrad.sum(values)
    return agrad.sum(agrad.astype(values, agrad.float32) if _whole(values) else values) / each


def _ratio(part: np.ndarray, whole: np.ndarray) -> float:
    return float(part) / float(whole) if whole else float("nan")


def _whole(x: Any) -> bool:
    """Return True for class numbers and truth values."""
    return not agrad.isdtype(x.dtype, ("real floating", "complex floating"))


def classes(y_true: Any, prediction: Any, threshold: float | None) -> tuple[Any, Any]:
    """Return the classes told and the true ones, integers of one shape."""
    if _whole(prediction):
        told = agrad.astype(prediction, agrad.int32)
        labels = agrad.astype(_like(y_true, told), agrad.int32)
    elif prediction.ndim >= 2 and prediction.shape[1] > 1 and threshold is None:
        told = agrad.astype(agrad.argmax(prediction, axis=1), agrad.int32)
        labels = _labels(y_true, prediction)
    else:
        told = agrad.astype(prediction > (0.5 if threshold is None else threshold), agrad.int32)
        labels = agrad.astype(_like(y_true, prediction), agrad.int32)
    return told, labels


def _labels(y_true: Any, prediction: Any) -> Any:
    """Return class numbers of targets, int32, for scores (n, classes, ...)."""
    if tuple(y_true.shape) == tuple(prediction.shape):
        return agrad.astype(agrad.argmax(y_true, axis=1), agrad.int32)
    shape = (prediction.shape[0], *prediction.shape[2:])
    if tuple(y_true.shape) not in (shape, (*shape, 1)):
        raise ShapeError(f"targets of shape {tuple(y_true.shape)} for scores of shape {tuple(prediction.shape)}")
    return agrad.astype(agrad.reshape(y_true, shape), agrad.int32)


def _like(y_true: Any, prediction: Any) -> Any:
    """Return targets in the shape of predictions, where they differ in an axis of length 1 at most."""
    here, there = ([n for k, n in enumerate(x.shape) if not k or n != 1] for x in (y_true, prediction))
    if here != there or not there:
        raise ShapeError(f"targets of shape {tuple(y_true.shape)} for predictions of shape {tuple(prediction.shape)}")
    return y_true if tuple(y_true.shape) == tuple(prediction.shape) else agrad.reshape(y_true, prediction.shape)


def _confusion(y_true: Any, prediction: Any, threshold: float | None, count: int | None, name: str) -> Any:
    """Return the confusion matrix, float32."""
    told, labels = classes(y_true, prediction, threshold)
    if count is None:
        if _whole(prediction):
            count = 1 + max(int(agrad.max(x).item()) for x in (told, labels))
        else:
            count = prediction.shape[1] if prediction.ndim >= 2 and prediction.shape[1] > 1 and threshold is None else 2
    if not isinstance(count, int) or count < 1:
        raise DtypeError(f"{name}: expected class numbers of 0 or more")
    told, labels = agrad.reshape(told, (-1, 1)), agrad.reshape(labels, (-1, 1))
    numbers = agrad.arange(count, dtype=agrad.int32, backend=told.backend, device=told.device)[None, :]
    rows, columns = (agrad.astype(x == numbers, agrad.float32) for x in (labels, told))
    return agrad.matmul(agrad.permute_dims(rows, (1, 0)), columns)


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
"""The metrics that a trainer takes by name."""


def streaming(function: Any, threshold: float | None) -> Metric | None:
    """Return the metric of sums that equals a function, or None where there is none."""
    if isinstance(function, Metric):
        return function
    for name in ("precision", "recall", "f1"):
        if function is NAMES[name]:
            return Confusion(name, threshold=threshold)
    made = {
        accuracy: lambda: Accuracy(threshold),
        top_k_accuracy: TopK,
        mean_squared_error: lambda: Error(2),
        mean_absolute_error: lambda: Error(1),
        r2_score: R2,
    }.get(function)
    return None if made is None else made()


def named(metrics: Any) -> dict[str, Any]:
    """Return the metrics of a trainer as functions by name. Raises ``ConfigurationError`` for an unknown one."""
    if isinstance(metrics, str) or callable(metrics):
        metrics = (metrics,)
    pairs = metrics.items() if isinstance(metrics, Mapping) else ((_name(metric), metric) for metric in metrics)
    found: dict[str, Any] = {}
    for name, metric in pairs:
        if isinstance(metric, str) and metric not in NAMES:
            known = ", ".join(NAMES)
            raise ConfigurationError(f"metrics: there is no metric {metric!r}; known are {known}, and functions")
        metric = NAMES[metric] if isinstance(metric, str) else metric
        if not callable(metric):
            raise ConfigurationError(f"metrics: expected names and functions, found a {type(metric).__name__}")
        if name in found or name in RESERVED:
            raise ConfigurationError(f"metrics: the name {name!r} is taken; give {{name: function}} with another one")
        if metric is confusion_matrix:
            raise ConfigurationError("metrics: confusion_matrix is no number; call it on what predict returns")
        found[name] = metric
    return found


RESERVED = ("event", "epoch", "step", "batch", "loss", "lr", "seconds", "samples_per_second")


def _name(metric: Any) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__.lower())
