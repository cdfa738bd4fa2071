"""The scores of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

import agrad
from agrad.cli.selection import Place
from agrad.train.feed import Feed
from agrad.train.loop import evaluating
from agrad.train.step import raw

AT_ONCE = 1024
"""The number of examples that are measured at a time."""


class Scores:
    """The scores of a model: mean `loss`, `accuracy`, and predicted classes (n,)."""

    def __init__(self, losses: np.ndarray, told: np.ndarray, y: np.ndarray) -> None:
        self.loss = float(np.sum(losses, dtype=np.float64)) / y.shape[0]
        self.accuracy = float(np.mean(told == y))
        self.told = told


def predict(model: Any, X: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits (n, classes) of all examples, on the host."""
    with evaluating(model):
        parts = [raw(model(x)) for x in Feed(X, place).stretches(AT_ONCE)]
    return np.asarray(place.backend.to_host(place.backend.xp.concat(parts, axis=0)))


def measure(model: Any, X: np.ndarray, y: np.ndarray, place: Place) -> Scores:
    """Return the scores of all examples, with class numbers `y` (n,)."""
    logits = predict(model, X, place).astype(np.float64)
    return Scores(agrad.cross_entropy(logits, y, reduction="none"), np.argmax(logits, axis=1), y)
