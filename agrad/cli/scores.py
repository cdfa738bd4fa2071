"""Scores as text: classes with their confusions, residuals, and one line for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agrad.cli.sources import Description
from agrad.cli.tasks import Scores, confusion, units
from agrad.cli.terminal import Column, breadth, cut, table, width
from agrad.train.streaming import by_class

SHOWN = 20
"""The number of classes up to which each confusion is shown. Of more than twice as many the worst are listed."""
INSTEAD = 15
"""The room that a list of confusions needs."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def summary(scores: Scores) -> str:
    """Return the scores in one line."""
    numbers = scores.numbers
    if "accuracy" in numbers:
        both = f", AUC {numbers['auc']:.4f}" if "auc" in numbers else ""
        return f"accuracy {numbers['accuracy']:.2%}, loss {scores.loss:.4f}{both}"
    return f"R2 {numbers['r2']:.4f}, MAE {numbers['mae']:.5g}, MSE {numbers['mse']:.5g}"


def details(scores: Scores, y: np.ndarray, description: Description) -> list[str]:
    """Return lines on each class, or on the residuals of each target (y standardized)."""
    if description.task == "classification":
        return class_lines(confusion(scores.y_pred, y, len(description.class_names)), description.class_names)
    return residual_lines(scores.y_pred, units(y, description), description.target_names)


def class_lines(matrix: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return a line for each class: its scores, and what it was predicted as."""
    scores = np.stack(by_class(matrix), axis=1)
    rows = np.arange(len(names))
    if len(names) > 2 * SHOWN:
        rows = np.flatnonzero(np.sum(matrix, axis=1))
        rows = rows[np.argsort(scores[rows, 2], kind="stable")][:SHOWN]
    columns = [Column("examples", [f"{count:,}" for count in np.sum(matrix[rows], axis=1).tolist()], 3)]
    for at, (title, rank) in enumerate((("precision", 4), ("recall", 5), ("F1", 1))):
        columns.append(Column(title, [f"{value:.1%}" for value in scores[rows, at].tolist()], rank))
    if few := len(names) <= SHOWN:
        texts = [[cut(name, 8, ends=True) for name in names]]
        texts += [[f"{count:,}" for count in row] for row in matrix.tolist()]
        wide = max(breadth(text) for row in texts for text in row)
        head, *lines = (" ".join(" " * (wide - breadth(text)) + text for text in row) for row in texts)
        columns.append(Column(head, lines, 2, "predicted as"))
    lines = table("class", [names[row] for row in rows], columns)
    room = width() - breadth(lines[0])
    if room >= INSTEAD and not (few and "predicted as" in lines[0]):
        others = [_mistaken(matrix[row], row, names, room - 2) for row in rows]
        lines = [f"{line}  {other}".rstrip() for line, other in zip(lines, ["mistaken for", *others], strict=True)]
    if len(rows) < len(names):
        lines.append(f"({len(rows)} of {len(names):,} classes, by lowest F1)")
    return lines


def _mistaken(counts: np.ndarray, own: int, names: Sequence[str], room: int) -> str:
    """Return the wrong predictions for a class, the most frequent first."""
    found = ""
    for other in np.argsort(-counts, kind="stable").tolist():
        entry = f" ({counts[other]:,})"
        entry = (f"{found}, " if found else "") + cut(names[other], room - breadth(entry), ends=True) + entry
        if other == own or not counts[other]:
            continue
        if breadth(entry) > room:
            break
        found = entry
    return found


def residuals(y_pred: np.ndarray, y_true: np.ndarray) -> list[float]:
    """Return R2, MAE, RMSE and quantiles of the residuals of a target."""
    errors = y_pred - y_true
    spread, squared = float(np.mean((y_true - np.mean(y_true)) ** 2)), float(np.mean(errors**2))
    explained = 1 - squared / spread if spread > 0 else 0.0
    return [explained, float(np.mean(np.abs(errors))), squared**0.5, *np.quantile(errors, QUANTILES).tolist()]


RESIDUALS = ("R2", "MAE", "RMSE", *(f"{q:.0%}" for q in QUANTILES))
"""The names of the results of `residuals`."""


def residual_lines(y_pred: np.ndarray, y_true: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return a line for each target: R2, errors, and quantiles of residuals."""
    found = [residuals(y_pred[:, at], y_true[:, at]) for at in range(len(names))]
    columns = []
    for title, values, rank in zip(RESIDUALS, zip(*found, strict=True), (9, 8, 7, 4, 1, 5, 2, 3), strict=True):
        cells = [f"{value:.4f}" if title == "R2" and value > -100 else f"{value:.4g}" for value in values]
        columns.append(Column(title, cells, rank, "predicted - true" if title.endswith("%") else ""))
    return table("target", names, columns)
