"""The importance of columns: the fall of a score when values are shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np

from agrad.cli.selection import Place
from agrad.cli.sources import Dataset, Description
from agrad.cli.tasks import measure
from agrad.data.order import DRAWS, permutation

ROWS, REPEATS, MOST = 2000, 3, 100
"""The examples that are used at most, the random orders of each column, and the columns that are tried at most."""


def importances(model: Any, dataset: Dataset, description: Description, place: Place) -> list[tuple[str, float]]:
    """Return the fall of the test part's accuracy, or R2, without each column.

    The mean over random orders of the column's values; the most important column first. Empty for images, and for more
    than `MOST` columns.
    """
    if dataset.encoder is not None:
        columns = dataset.encoder.parts
    elif len(dataset.feature_shape) == 1:
        names = dataset.feature_names or tuple(f"feature {k}" for k in range(dataset.n_features))
        columns = {name: slice(k, k + 1) for k, name in enumerate(names)}
    else:
        return []
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
