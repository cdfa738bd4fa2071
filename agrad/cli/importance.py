"""Columns: their importance, leaks of the target, errors by category."""

from __future__ import annotations

import math
import shlex
from typing import Any

import numpy as np

from agrad.backends.base import DeviceSpec
from agrad.cli.sources import Dataset, Description
from agrad.cli.tasks import confusion, measure
from agrad.data.order import DRAWS, permutation
from agrad.errors import listed
from agrad.train import metrics
from agrad.train.streaming import by_class

ROWS, REPEATS, MOST = 2000, 3, 100
"""The examples that are used at most, the random orders of each column, and the columns that are tried at most."""
LEAK = 0.99
"""The score from which on a column gives the target by itself."""
GOLDEN = (math.sqrt(5) - 1) / 2
FEWEST = 10
"""The examples that a category needs to be shown, and half of those that are needed to look for leaks."""


def columns_of(dataset: Dataset) -> dict[str, slice]:
    """Return the positions of each column's numbers; nothing for images."""
    if dataset.encoder is not None:
        return dataset.encoder.parts
    if len(dataset.feature_shape) > 1:
        return {}
    names = dataset.feature_names or tuple(f"feature {k}" for k in range(dataset.n_features))
    return {name: slice(k, k + 1) for k, name in enumerate(names)}


def importances(model: Any, dataset: Dataset, description: Description, place: DeviceSpec) -> list[tuple[str, float]]:
    """Return the fall of the test part's accuracy, or R2, without each column.

    The mean over random orders of the column's values; the most important column first. Empty for images, and for more
    than `MOST` columns.
    """
    columns = columns_of(dataset)
    if len(columns) > MOST:
        return []
    X, y = dataset.X_test[:ROWS], dataset.y_test[:ROWS]

    def score(X: np.ndarray) -> float:
        scores = measure(model, X, y, place, description)
        return scores.numbers[scores.main]

    whole = score(X)
    found = []
    for number, (name, part) in enumerate(columns.items()):
        falls = []
        for repeat in range(REPEATS):
            mixed = X.copy()
            mixed[:, part] = X[permutation(X.shape[0], 0, DRAWS, number, repeat), part]
            falls.append(whole - score(mixed))
        found.append((name, float(np.mean(falls))))
    return sorted(found, key=lambda entry: -entry[1])


def leaks(dataset: Dataset) -> list[str]:
    """Return a warning for each column that gives a target by itself.

    Every second training example is predicted from the others, by those with the nearest value of the column. The score
    is R2, or the mean of the recalls of all classes.
    """
    columns, lines = columns_of(dataset), []
    X, y = dataset.X_train[: 2 * ROWS].astype(np.float64), dataset.y_train[: 2 * ROWS]
    if len(columns) > MOST or X.shape[0] < 2 * FEWEST:
        return []
    for name, part in columns.items():
        numbers = X[:, part]
        # the numbers of a category, or of a value with its mark of a missing one, as one number
        both = numbers @ (1 + np.arange(numbers.shape[1]) * GOLDEN % 1)
        score = max(_score(x, y, dataset) for x in (both, *numbers.T[:5]))
        if score > LEAK:
            what = "R2" if dataset.task == "regression" else "mean recall"
            option = f" with --drop {shlex.quote(name)}" * (dataset.encoder is not None and len(name) <= 40)
            lines.append(
                f"{dataset.name}: column {listed([name])!r} alone predicts the target ({what} {score:.3f}). If it is "
                f"not known before the target is, leave it out{option}"
            )
    return lines


def _score(x: np.ndarray, y: np.ndarray, dataset: Dataset) -> float:
    """Return the score of predicting odd examples from even ones nearest in x."""
    known, group = np.unique(x[::2], return_inverse=True)
    if y.ndim > 1:
        counts = np.bincount(group)
        means = [np.bincount(group, weights=target) / counts for target in y[::2].T]
        y_pred = np.stack([np.interp(x[1::2], known, mean) for mean in means], axis=1)
        return max(metrics.r2_score(y[1::2, at], y_pred[:, at]) for at in range(y.shape[1]))
    n = dataset.n_outputs
    pairs, counts = np.unique(group * n + y[::2], return_counts=True)
    classes = np.empty(known.shape, dtype=np.int64)
    for pair in pairs[np.argsort(counts, kind="stable")].tolist():  # the most frequent class of a group comes last
        classes[pair // n] = pair % n
    y_pred = classes[np.rint(np.interp(x[1::2], known, np.arange(known.size))).astype(np.int64)]
    recalls = by_class(confusion(y_pred, y[1::2], n))[1]
    return float(np.mean(recalls[np.unique(y[1::2])]))


def by_category(dataset: Dataset, errors: np.ndarray) -> list[tuple[str, int, float]]:
    """Return categories, test examples and mean errors, largest error first."""
    encoder, X, found = dataset.encoder, dataset.X_test, []
    parts = {} if encoder is None else encoder.parts
    for encoding in () if encoder is None else encoder.encodings:
        for at, name in enumerate(encoding.names, parts[encoding.column].start):
            if (encoder.mean[at], encoder.scale[at]) == (0, 1):
                groups = [(name, X[:, at] > 0.5)]
            elif encoding.kind == "truth":
                groups = [(f"{name}: {'no' if k else 'yes'}", (X[:, at] > 0) != k) for k in (False, True)]
            else:
                continue
            found += [(label, rows) for label, rows in groups if np.count_nonzero(rows) >= FEWEST]
    shown = [(label, int(np.count_nonzero(rows)), float(np.mean(errors[rows]))) for label, rows in found]
    return sorted(shown, key=lambda entry: -entry[2])
