"""The record of a training run: a list with one dictionary an epoch."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from agrad.data.files import StrPath, optional, write_whole
from agrad.errors import ConfigurationError

Record = dict[str, Any]

PICTURES = (".png", ".svg", ".pdf")
OTHER = ("event", "epoch", "step", "loss", "lr", "seconds", "samples_per_second")
"""The entries of a record that are not metrics."""
VALIDATION = "validation_"


def entry(name: str) -> str:
    """Return the name of an entry of a record: `validation_loss` for `val_loss`."""
    return VALIDATION + name.removeprefix("val_") if name.startswith("val_") else name


class History(list[Record]):
    """The records of the finished epochs, a list of dictionaries.

    A record contains `epoch` (from 1), `step`, `loss`, the metrics, `lr`, `seconds`, `samples_per_second`, and, with
    validation examples, `validation_loss` and so on.

    Parameters
    ----------
    iterable : iterable of dict
        The records.

    Attributes
    ----------
    interrupted : bool
        True if Ctrl-C stopped the run.
    stopped : bool
        True if a callback stopped the run early.

    Examples
    --------
    >>> history = agrad.train.History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 0.5}])
    >>> history.column("loss")
    [2.0, 0.5]
    >>> history
    History(2 epochs; the last: loss 0.5)
    """

    interrupted = False
    stopped = False

    def column(self, name: str) -> list[float]:
        """Return the values of one entry, by epoch.

        Parameters
        ----------
        name : str
            The entry, such as ``"validation_loss"`` (``"val_loss"`` is the same).

        Returns
        -------
        list of float
            A number for each epoch.

        Raises
        ------
        ConfigurationError
            If the records do not contain the entry.

        Examples
        --------
        >>> history = agrad.train.History([{"validation_loss": 3.0}, {"validation_loss": 1.0}])
        >>> history.column("val_loss")
        [3.0, 1.0]
        """
        known = [record.get(entry(name)) for record in self]
        if None in known:
            have = ", ".join(key for key in self[0] if key != "event")
            raise ConfigurationError(f"history does not contain {name!r} for every epoch. It contains {have}.")
        return [float(value) for value in known]  # type: ignore[arg-type]

    def plot(self, path: StrPath, title: str = "") -> None:
        """Draw the curves of loss and metrics.

        Parameters
        ----------
        path : str or path
            The picture, named .png, .svg or .pdf.
        title : str
            The title of the picture.

        Raises
        ------
        ConfigurationError
            If the file name has another extension.
        MissingExtraError
            If Matplotlib is not installed.
        SaveError
            If the picture cannot be written.
        """
        draw(path, self, title, figure_class(path))

    def __repr__(self) -> str:
        if not self:
            return "History(no epoch)"
        last = {key: value for key, value in self[-1].items() if key == "loss" or key not in OTHER}
        shown = ", ".join(f"{key} {value:.4g}" for key, value in last.items())
        return f"History({len(self)} epoch{'s' * (len(self) > 1)}; the last: {shown})"


def metrics_of(record: Record) -> list[str]:
    """Return the names of the metrics of a record, without the part of `validation_`."""
    names = (key.removeprefix(VALIDATION) for key in record)
    return [name for name in dict.fromkeys(names) if name not in OTHER]


def figure_class(path: StrPath, what: str = "the plot") -> Any:
    """Return Matplotlib's class of figures. Raises if it cannot draw such a file."""
    if os.path.splitext(path)[1].lower() not in PICTURES:
        raise ConfigurationError(f"{what}: the file name must end in {', '.join(PICTURES)}, got {os.fspath(path)!r}")
    return optional("matplotlib.figure", "matplotlib", "plot", what).Figure


def draw(
    path: StrPath,
    history: Sequence[Record],
    title: str,
    figure_class: Any,
    losses: Sequence[float] = (),
    first: float = 0.0,
    end: Record | None = None,
) -> None:
    """Draw curves by epoch: the loss, and each metric.

    losses: the losses of the steps, numbered in epochs from `first` to the last epoch. end: a record with `test_loss`
    and the like.
    """
    names = curve_names(history)
    figure = figure_class(figsize=(5 * len(names), 4), layout="constrained")
    figure.suptitle(title.replace("$", r"\$"))  # a dollar sign begins a formula
    panels = np.atleast_1d(figure.subplots(1, len(names)))
    epochs = [record["epoch"] for record in history]
    if len(losses):
        last = end["at"] if end and "at" in end else (epochs[-1] if epochs else first + 1)
        at = first + (last - first) * np.arange(1, len(losses) + 1) / len(losses)
        panels[0].plot(at, np.array(losses), color="0.8", linewidth=0.8, label="each step")
    for axes, name in zip(panels, names, strict=True):
        draw_curve(axes, history, name, (end or {}).get(f"test_{name}"))
    content = io.BytesIO()
    figure.savefig(content, format=os.path.splitext(path)[1].lower()[1:], dpi=120)
    write_whole(path, content.getvalue())


def curve_names(history: Sequence[Record]) -> list[str]:
    """Return the names that can be drawn: the loss, and each metric of the last epoch."""
    return ["loss", *(metrics_of(history[-1]) if history else [])]


def draw_curve(axes: Any, history: Sequence[Record], name: str, test: float | None = None) -> None:
    """Draw the loss or a metric by epoch.

    One curve for the training examples and one for the validation examples. test: its value for the test examples, a
    dashed line. The axis of a loss that is positive is logarithmic.
    """
    epochs = [record["epoch"] for record in history]
    for part, label in (("", "training"), (VALIDATION, "validation")):
        known = [record.get(part + name) for record in history]
        if known and None not in known:
            axes.plot(epochs, known, marker=".", label=label)
    if name != "loss" and test is not None:
        axes.axhline(test, color="0.3", linestyle="--", label="test, at the end")
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(name.replace("_", " "))
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    shown = np.concatenate([line.get_ydata() for line in axes.lines] or [np.zeros(1)])
    if name == "loss" and np.any(shown > 0) and not np.any(shown <= 0):
        axes.set_yscale("log")
