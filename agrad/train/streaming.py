"""Metrics that are sums over examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import agrad
from agrad.errors import ConfigurationError, DtypeError, ShapeError
from agrad.expect import integer, one_of

AVERAGES = ("auto", "macro", "micro", "weighted")


class Metric:
    """Base class of metrics that are computed from sums over examples.

    `update` runs in the training step, and must not read values. Its arrays have the same shapes for every batch.
    """

    parts = 1
    """The number of arrays that `update` returns."""

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        """Return the parts of a batch, arrays on the device."""
        raise ConfigurationError(f"{type(self).__name__} does not define update(y_true, prediction)")

    def terms(self, parts: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
        """Return what each batch adds to the sums, along the first axis.

        sizes: the numbers of examples (k,). parts: float64 arrays with the batches along the first axis.
        """
        return [*parts, sizes]

    def result(self, sums: Sequence[np.ndarray]) -> float:
        """Return the metric for sums over all batches."""
        raise ConfigurationError(f"{type(self).__name__} does not define result(sums)")

    def __call__(self, y_true: Any, prediction: Any) -> float:
        """Return the metric of all examples at once."""
        with agrad.no_grad():
            prediction = array(prediction)
            parts = self.update(array(y_true), prediction)
        sizes = np.asarray([prediction.shape[0]], np.float64)
        rows = self.terms([np.asarray(part.numpy(), np.float64)[None] for part in parts], sizes)
        return self.result([row[0] for row in rows])


class Mean(Metric):
    """A metric that is the mean of one number per example."""

    def result(self, sums: Sequence[np.ndarray]) -> float:
        return _ratio(*sums)


class Accuracy(Mean):
    """The fraction of correct classes."""

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        predicted, actual = classes(y_true, prediction, self.threshold)
        return (_each(agrad.astype(predicted == actual, agrad.int32)),)


class TopK(Mean):
    """The fraction of examples whose class is among the k highest scores."""

    def __init__(self, k: int = 5) -> None:
        self.k: int = integer("top_k_accuracy", "k", k)

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        if prediction.ndim != 2:
            raise ShapeError(f"top_k_accuracy: scores must have shape (n, classes), got {tuple(prediction.shape)}")
        labels = _labels(y_true, prediction)
        own = agrad.take_along_axis(prediction, labels[:, None], axis=1)
        higher = agrad.sum(agrad.astype(prediction > own, agrad.int32), axis=1)
        return (_each(agrad.astype(higher < self.k, agrad.int32)),)


class Error(Mean):
    """The mean of squared or absolute differences."""

    def __init__(self, power: int) -> None:
        self.power = power

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        difference = prediction - _like(y_true, prediction)
        errors = agrad.square(difference) if self.power == 2 else agrad.abs(difference)
        return (_each(errors),)


class R2(Metric):
    """The coefficient of determination, averaged over columns."""

    parts = 3

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        y = agrad.reshape(_like(y_true, prediction), (prediction.shape[0], -1))
        difference = y - agrad.reshape(prediction, y.shape)
        mean = agrad.mean(y, axis=0)
        spread = agrad.sum(agrad.square(y - mean), axis=0)
        return mean, spread, agrad.sum(agrad.square(difference), axis=0)

    def terms(self, parts: Sequence[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
        # of means and not of squares: a mean far from 0 would leave nothing of the spread
        mean, spread, rest = parts
        count = sizes[:, None]
        return [count, count * mean, count * mean**2, spread, rest]

    def result(self, sums: Sequence[np.ndarray]) -> float:
        count, first, second, spread, rest = sums
        total = spread + np.maximum(second - first**2 / count, 0.0)
        with np.errstate(all="ignore"):
            share = np.where(total > 0, 1 - rest / total, np.where(rest == 0, 1.0, 0.0))
        return float(np.mean(share))


class Confusion(Metric):
    """A score of the confusion matrix: `precision`, `recall` or `f1`."""

    def __init__(self, name: str, average: str = "auto", threshold: float | None = None) -> None:
        self.name: str = name
        self.average: str = one_of(name, "average", average, AVERAGES)
        self.threshold: float | None = threshold

    def update(self, y_true: Any, prediction: Any) -> tuple[Any, ...]:
        return (confusion(y_true, prediction, self.threshold, None, self.name),)

    def result(self, sums: Sequence[np.ndarray]) -> float:
        matrix, _ = sums
        if self.average == "micro":
            return float(np.trace(matrix) / max(np.sum(matrix), 1))
        scores = dict(zip(("precision", "recall", "f1"), by_class(matrix), strict=True))[self.name]
        if self.average == "auto" and len(scores) == 2:
            return float(scores[1])
        predicted, actual = np.sum(matrix, axis=0), np.sum(matrix, axis=1)
        weights = actual if self.average == "weighted" else predicted + actual > 0
        return float(np.average(scores, weights=weights)) if weights.any() else 0.0


# ------------------------------------------------------------------ parts


def array(value: Any) -> Any:
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
    """Return True for class labels and Booleans."""
    return not agrad.isdtype(x.dtype, ("real floating", "complex floating"))


def classes(y_true: Any, prediction: Any, threshold: float | None) -> tuple[Any, Any]:
    """Return the predicted and the true classes, integers of the same shape."""
    if _whole(prediction):
        predicted = _integers(prediction)
        actual = _integers(_like(y_true, predicted))
    elif prediction.ndim >= 2 and prediction.shape[1] > 1 and threshold is None:
        predicted = agrad.argmax(prediction, axis=1)
        actual = _labels(y_true, prediction)
    else:
        predicted = agrad.astype(prediction > (0.5 if threshold is None else threshold), agrad.int32)
        actual = _integers(_like(y_true, prediction))
    return predicted, actual


def _labels(y_true: Any, prediction: Any) -> Any:
    """Return class labels of targets, int32, for scores (n, classes, ...)."""
    if tuple(y_true.shape) == tuple(prediction.shape):
        return agrad.argmax(y_true, axis=1)
    shape = (prediction.shape[0], *prediction.shape[2:])
    if tuple(y_true.shape) not in (shape, (*shape, 1)):
        raise ShapeError(f"targets must fit scores of shape {tuple(prediction.shape)}, got shape {tuple(y_true.shape)}")
    return _integers(y_true if tuple(y_true.shape) == shape else agrad.reshape(y_true, shape))


def _integers(x: Any) -> Any:
    """Return class labels as signed integers."""
    return x if agrad.isdtype(x.dtype, "signed integer") else agrad.astype(x, agrad.int32)


def _like(y_true: Any, prediction: Any) -> Any:
    """Return targets in the shape of predictions, up to axes of length 1."""
    here, there = ([n for k, n in enumerate(x.shape) if not k or n != 1] for x in (y_true, prediction))
    if here != there or not there:
        raise ShapeError(
            f"targets must fit predictions of shape {tuple(prediction.shape)}, got shape {tuple(y_true.shape)}"
        )
    return y_true if tuple(y_true.shape) == tuple(prediction.shape) else agrad.reshape(y_true, prediction.shape)


def confusion(y_true: Any, prediction: Any, threshold: float | None, count: int | None, name: str) -> Any:
    """Return the confusion matrix, float32."""
    predicted, actual = classes(y_true, prediction, threshold)
    if count is None:
        if _whole(prediction):
            count = 1 + max(int(agrad.max(x).item()) for x in (predicted, actual))
        else:
            count = prediction.shape[1] if prediction.ndim >= 2 and prediction.shape[1] > 1 and threshold is None else 2
    if not isinstance(count, int) or count < 1:
        raise DtypeError(f"{name} must contain class labels (0 to C - 1)")
    predicted, actual = agrad.reshape(predicted, (-1, 1)), agrad.reshape(actual, (-1, 1))
    numbers = agrad.arange(count, dtype=agrad.int32, backend=predicted.backend, device=predicted.device)[None, :]
    rows, columns = (agrad.astype(x == numbers, agrad.float32) for x in (actual, predicted))
    return agrad.matmul(agrad.permute_dims(rows, (1, 0)), columns)


def by_class(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return precision, recall and F1 of each class; 0 instead of 0/0."""
    right, predicted, actual = np.diagonal(matrix), np.sum(matrix, axis=0), np.sum(matrix, axis=1)
    precision, recall = (right / np.maximum(count, 1) for count in (predicted, actual))
    return precision, recall, 2 * right / np.maximum(predicted + actual, 1)
