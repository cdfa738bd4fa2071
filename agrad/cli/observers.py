"""Callbacks of ``agrad train``: what it prints, the log and the plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agrad.cli.outputs import check_output
from agrad.errors import listed
from agrad.train.callbacks import Callback, JSONLogger, LearningCurves
from agrad.train.display import display
from agrad.train.history import Record

MOST = 5
"""The number of classes up to which they are named."""

if TYPE_CHECKING:
    from agrad.train.trainer import Trainer


def on_terminal(quiet: bool) -> Callback:
    """Return the callback for the standard output.

    It is a bar on a terminal if rich is installed, otherwise lines.
    """
    return Callback() if quiet else display(describe_start)


def describe_start(record: Record) -> str:
    """Return the first lines about a run."""
    layers = "-".join(map(str, (record["features"], *record["hidden"], record["outputs"])))
    layers = f"convolutions, {layers}" if record["model"] == "conv" else layers
    classes = record["classes"]
    kinds = f"{record['outputs']:,} {'classes' if classes else 'to learn'}"
    kinds += f" ({listed(classes)})" if 0 < len(classes) <= MOST else ""
    parts = f"{record['train_examples']:,} training and {record['test_examples']:,} test examples"
    if record["validation_examples"]:
        parts += f", {record['validation_examples']:,} for validation"
    lines = (
        f"{record['dataset']}: {parts}, {kinds}\n"
        f"{layers} {record['activation']}, {record['parameters']:,} parameters, {record['dtype']}, "
        f"on {record['backend']} ({record['device']})"
    )
    if record["step"]:
        lines += f"\nresumed at step {record['step']:,} of {record['epochs'] * record['batches']:,}"
    return lines


class Log(JSONLogger):
    """A file with one JSON object a line: `start`, each `epoch`, and `end`."""

    what = "--log"

    def __init__(self, path: str) -> None:
        check_output("--log", path)
        super().__init__(path)


class Plot(LearningCurves):
    """A picture of losses and accuracies by epoch, drawn at the end of the run."""

    what = "--plot"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        check_output("--plot", path)

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        super().on_fit_begin(trainer, record)
        self.title: str = f"{record['dataset']}, {record['backend']} {record['dtype']}"
