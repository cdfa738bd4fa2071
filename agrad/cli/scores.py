"""Scores as text: classes with their confusions, residuals, and one line for all."""

from __future__ import annotations

import numpy as np

from agrad.cli.sources import Description
from agrad.cli.tasks import Scores, by_class, confusion, units

SHOWN = 20
"""The number of classes up to which each confusion is shown."""
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
        return class_lines(confusion(scores.told, y, len(description.class_names)), description.class_names)
    return residual_lines(scores.told, units(y, description), description.target_names)


def class_lines(matrix: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Return a line for each class: its scores, and what it was taken for."""
    width = max(5, *(len(_cut(name)) for name in names))
    cells = [f"{count:,}" for count in matrix.ravel().tolist()]
    heads = [_cut(name, 8) for name in names]
    wide = max(*map(len, cells), *map(len, heads))
    few = len(names) <= SHOWN
    title = f"{'class':<{width}}  examples  precision   recall       F1  "
    title += "taken for: " + " ".join(f"{head:>{wide}}" for head in heads) if few else "most often taken for"
    lines = [title]
    scores = np.stack(by_class(matrix), axis=1).tolist()
    for number, (name, row, (precision, recall, f1)) in enumerate(zip(names, matrix, scores, strict=True)):
        line = f"{_cut(name):<{width}}  {int(np.sum(row)):>8,}  {precision:>9.2%}  {recall:>7.2%}  {f1:>7.2%}  "
        if few:
            line += " " * len("taken for: ") + " ".join(f"{count:>{wide},}" for count in row.tolist())
        else:
            others = np.where(np.arange(len(names)) == number, 0, row)
            most = int(np.argmax(others))
            line += f"{_cut(names[most])} ({int(others[most]):,})" if others[most] else ""
        lines.append(line.rstrip())
    return lines


def residual_lines(told: np.ndarray, true: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """Return a line for each target: R2, errors, and quantiles of residuals."""
    width = max(6, *(len(_cut(name)) for name in names))
    heads = "".join(f"{f'{q:.0%}':>11}" for q in QUANTILES)
    lines = [f"{'target':<{width}}         R2        MAE       RMSE  residuals:{heads}"]
    for at, name in enumerate(names):
        errors = told[:, at] - true[:, at]
        spread = float(np.mean((true[:, at] - np.mean(true[:, at])) ** 2))
        squared = float(np.mean(errors**2))
        explained = 1 - squared / spread if spread > 0 else 0.0
        quantiles = "".join(f"{value:>11.4g}" for value in np.quantile(errors, QUANTILES).tolist())
        lines.append(
            f"{_cut(name):<{width}}  {explained:>9.4f}  {float(np.mean(np.abs(errors))):>9.4g}  {squared**0.5:>9.4g}"
            f"            {quantiles}"
        )
    return lines


def _cut(name: str, length: int = 24) -> str:
    """Return a name in the width of a column."""
    name = name.replace("\n", " ")
    return name if len(name) <= length else name[: length - 1] + "…"
