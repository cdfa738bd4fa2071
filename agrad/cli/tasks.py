"""The tasks of a network: loss and metrics in training, scores of outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import agrad
from agrad import nn
from agrad.backends.base import DeviceSpec
from agrad.cli.sources import Description
from agrad.train import metrics
from agrad.train.batches import Feed
from agrad.train.loop import evaluating
from agrad.train.step import raw

AT_ONCE = 1024
"""The number of examples that are measured at a time."""


@dataclass(frozen=True)
class Scores:
    """The scores of a model: mean `loss`, `numbers` by name, predictions `y_pred`.

    Classes (n,), or numeric predictions (n, k) in the units of the file; for classes also their probabilities (n, k).
    """

    loss: float
    numbers: dict[str, float]
    y_pred: np.ndarray
    shares: np.ndarray | None = None

    @property
    def main(self) -> str:
        """The name of the score that says how good a model is."""
        return "accuracy" if "accuracy" in self.numbers else "r2"


def loss_of(task: str) -> Callable[[Any, Any], Any]:
    """Return the loss of a task, of standardized targets or of classes."""
    return agrad.cross_entropy if task == "classification" else nn.MSELoss()


def metrics_of(task: str) -> tuple[str, ...]:
    """Return the metrics that are followed in training."""
    return ("accuracy",) if task == "classification" else ("r2",)


def units(standardised: np.ndarray, description: Description) -> np.ndarray:
    """Return standardized targets (n, k) in the units of the file."""
    return np.asarray(standardised, dtype=np.float64) * description.target_scale + description.target_mean


def predict(model: Any, X: np.ndarray, place: DeviceSpec) -> np.ndarray:
    """Return the outputs (n, k) of all examples, on the host."""
    with evaluating(model):
        parts = [raw(model(x)) for x in Feed(X, place).stretches(AT_ONCE)]
    return np.asarray(place.backend.to_host(place.backend.xp.concat(parts, axis=0)))


def measure(model: Any, X: np.ndarray, y: np.ndarray, place: DeviceSpec, description: Description) -> Scores:
    """Return the scores for class labels (n,) or standardized targets (n, k)."""
    output = predict(model, X, place).astype(np.float64)
    if description.task == "classification":
        losses = np.asarray(agrad.cross_entropy(output, y, reduction="none"), dtype=np.float64)
        numbers = {"accuracy": metrics.accuracy(y, output)}
        if output.shape[1] == 2 and 0 < np.mean(y) < 1:
            numbers["auc"] = metrics.roc_auc(y, output[:, 1] - output[:, 0])
        shares = np.asarray(agrad.softmax(output, axis=1))
        return Scores(float(np.mean(losses)), numbers, np.argmax(output, axis=1), shares)
    y_pred, y_true = units(output, description), units(y, description)
    numbers = {
        "mse": metrics.mean_squared_error(y_true, y_pred),
        "mae": metrics.mean_absolute_error(y_true, y_pred),
        "r2": metrics.r2_score(y_true, y_pred),
    }
    return Scores(metrics.mean_squared_error(y.astype(np.float64), output), numbers, y_pred)


def confusion(y_pred: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """Return the counts of true classes (rows) by predicted ones (columns)."""
    return metrics.confusion_matrix(y, y_pred, n_classes=classes)
