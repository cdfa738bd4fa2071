"""The tasks of a network: its loss, and the scores of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import agrad
from agrad.cli.config import Config
from agrad.cli.selection import Place
from agrad.cli.sources import Dataset, Description
from agrad.errors import ConfigurationError


@dataclass(frozen=True)
class Scores:
    """The scores of a model: mean `loss`, numbers by name, and what it told (n,) or (n, k)."""

    loss: float
    numbers: dict[str, float]
    told: np.ndarray


class Classification:
    """Classes, with cross entropy; `weights` (classes,) multiply the losses of their examples."""

    main = "accuracy"
    """The score that says how good a model is."""

    def __init__(self, weights: Any = None) -> None:
        self._weights = weights

    def loss(self, output: Any, y: Any) -> Any:
        """Return the mean loss of a batch."""
        if self._weights is None:
            return agrad.cross_entropy(output, y)
        return agrad.mean(agrad.cross_entropy(output, y, reduction="none") * agrad.take(self._weights, y, axis=0))

    def right(self, output: Any, y: Any) -> Any:
        """Return the number of examples with the right class."""
        return agrad.sum(agrad.astype(agrad.argmax(output, axis=1) == y, agrad.int32))

    def scores(self, output: np.ndarray, y: np.ndarray) -> Scores:
        """Return the scores of outputs (n, classes) for class numbers (n,)."""
        output = output.astype(np.float64)
        losses, told = agrad.cross_entropy(output, y, reduction="none"), np.argmax(output, axis=1)
        numbers = {"accuracy": float(np.mean(told == y))}
        if output.shape[1] == 2:
            numbers["auc"] = auc(output[:, 1] - output[:, 0], y)
        return Scores(_mean(losses), numbers, told)


class Regression:
    """Quantities, with the mean squared error of standardised ones."""

    main = "r2"

    def __init__(self, description: Description) -> None:
        self._mean, self._scale = description.target_mean, description.target_scale

    def loss(self, output: Any, y: Any) -> Any:
        """Return the mean loss of a batch."""
        return agrad.mean((output - y) ** 2)

    def right(self, output: Any, y: Any) -> Any:
        """Return 0: no quantity is right."""
        return agrad.sum(agrad.astype(output != output, agrad.int32))

    def units(self, standardised: np.ndarray) -> np.ndarray:
        """Return standardised numbers (n, k) in the units of the file."""
        return np.asarray(standardised, dtype=np.float64) * self._scale + self._mean

    def scores(self, output: np.ndarray, y: np.ndarray) -> Scores:
        """Return the scores of outputs (n, k) for standardised targets (n, k)."""
        told, true = self.units(output), self.units(y)
        errors = told - true
        spread = np.sum((true - np.mean(true, axis=0)) ** 2, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = np.where(spread > 0, 1 - np.sum(errors**2, axis=0) / spread, 0.0)
        numbers = {"mse": _mean(errors**2), "mae": _mean(np.abs(errors)), "r2": _mean(explained)}
        return Scores(_mean((output.astype(np.float64) - y) ** 2), numbers, told)


Task = Classification | Regression


def task_of(description: Description) -> Task:
    """Return the task of a saved model."""
    return Classification() if description.task == "classification" else Regression(description)


def training_task(config: Config, dataset: Dataset, rows: np.ndarray, description: Description, place: Place) -> Task:
    """Return the task of a run, with the weights of classes. Raises ``ConfigurationError``."""
    if config.class_weight == "none":
        return task_of(description)
    if description.task != "classification":
        raise ConfigurationError("--class-weight balanced is for classes, and these are quantities; leave it out")
    counts = np.bincount(dataset.y_train[rows], minlength=dataset.n_outputs)
    weights = rows.shape[0] / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return Classification(place.backend.from_host(weights.astype(config.dtype), place.device))


def auc(scores: np.ndarray, y: np.ndarray) -> float:
    """Return the probability that an example of class 1 has a higher score than one of class 0.

    Ties count half. NaN where a class has no example.
    """
    positive = int(np.count_nonzero(y == 1))
    negative = y.shape[0] - positive
    if not positive or not negative:
        return float("nan")
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return float((np.sum(ranks[y == 1]) - positive * (positive + 1) / 2) / (positive * negative))


def confusion(told: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """Return the examples of each class (rows) by the class that they were taken for (columns)."""
    return np.bincount(y * classes + told, minlength=classes**2).reshape(classes, classes)


def by_class(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return precision, recall and F1 of each class; 0 where there is nothing to divide by."""
    right = np.diagonal(matrix).astype(np.float64)
    told, true = np.sum(matrix, axis=0), np.sum(matrix, axis=1)
    return right / np.maximum(told, 1), right / np.maximum(true, 1), 2 * right / np.maximum(told + true, 1)


def _mean(values: Any) -> float:
    return float(np.mean(np.asarray(values), dtype=np.float64))
