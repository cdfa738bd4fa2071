"""Observers of a training run: progress bar, plain lines, log and plot."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
from array import array
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Any

import numpy as np

from agrad.cli.outputs import PICTURES, check_output
from agrad.cli.terminal import say
from agrad.data.files import write_whole
from agrad.errors import ConfigurationError, MissingExtraError, SaveError, printable

Record = dict[str, Any]


class Observer:
    """An observer that ignores the run. Its `with` block lasts as long as the run."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def start(self, record: Record) -> None:
        """Note the start: settings, `batches` an epoch, the first `step` and `batch`."""

    def steps(self, losses: np.ndarray, record: Record) -> None:
        """Note the losses (k,) of the last k steps.

        `record` has `epoch`, `batch`, `step`, `loss`, `accuracy` and `samples_per_second` so far in the epoch.
        """

    def epoch(self, record: Record) -> None:
        """Note a finished epoch."""

    def end(self, record: Record) -> None:
        """Note the end: "end", "interrupted" by a signal, or "diverged"."""


class Lines(Observer):
    """One plain line of text for each epoch, for an output that is not a terminal."""

    def start(self, record: Record) -> None:
        self._epochs = record["epochs"]
        say(describe_start(record))

    def epoch(self, record: Record) -> None:
        say(describe_epoch(record, self._epochs))


class Bar(Observer):
    """A progress bar of the current epoch, below the lines of the finished ones.

    Raises ``ImportError`` where rich is not installed.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )

    def start(self, record: Record) -> None:
        self._epochs, self._batches = record["epochs"], record["batches"]
        self._console.print(printable(describe_start(record)), markup=False)
        total = self._epochs * self._batches
        self._task = self._bar.add_task(
            f"epoch {record['epoch'] + 1}/{self._epochs}", total=total, completed=record["step"], numbers=""
        )
        self._bar.start()

    def steps(self, losses: np.ndarray, record: Record) -> None:
        accuracy = f"  accuracy {record['accuracy']:.1%}" if "accuracy" in record else ""
        numbers = f"loss {record['loss']:.4f}{accuracy}  {record['samples_per_second']:,.0f} samples/s"
        self._bar.update(
            self._task,
            completed=record["step"],
            description=f"epoch {record['epoch'] + 1}/{self._epochs}",
            numbers=numbers,
        )

    def epoch(self, record: Record) -> None:
        self._console.print(describe_epoch(record, self._epochs), markup=False)

    def __exit__(self, *error: object) -> None:
        self._bar.stop()


def on_terminal(quiet: bool) -> Observer:
    """Return the observer for the standard output.

    It is a bar on a terminal if rich is installed, else lines.
    """
    if quiet:
        return Observer()
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            return Bar()
    return Lines()


def describe_start(record: Record) -> str:
    """Return the first lines about a run."""
    layers = "-".join(map(str, (record["features"], *record["hidden"], record["outputs"])))
    layers = f"convolutions, {layers}" if record["model"] == "conv" else layers
    parts = f"{record['train_examples']:,} training and {record['test_examples']:,} test examples"
    if record["validation_examples"]:
        parts += f", {record['validation_examples']:,} for validation"
    kinds = f"{record['classes']} classes" if "classes" in record else f"{record['outputs']} to learn"
    lines = (
        f"{record['dataset']}: {parts}, {kinds}\n"
        f"{layers} {record['activation']}, {record['parameters']:,} parameters, {record['dtype']}, "
        f"on {record['backend']} ({record['device']})"
    )
    if record["step"]:
        lines += f"\nresumed at step {record['step']:,} of {record['epochs'] * record['batches']:,}"
    return lines


def describe_epoch(record: Record, epochs: int) -> str:
    """Return a line about a finished epoch."""
    line = f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}  loss {record['loss']:.4f}"
    if "accuracy" in record:
        line += f"  accuracy {record['accuracy']:.2%}"
    if "validation_loss" in record:
        line += f"  validation loss {record['validation_loss']:.4f}"
        classes = "validation_accuracy" in record
        line += f"  accuracy {record['validation_accuracy']:.2%}" if classes else f"  R2 {record['validation_r2']:.4f}"
    return f"{line}  {record['samples_per_second']:,.0f} samples/s"


class Log(Observer):
    """A file with one JSON object a line: `start`, each `epoch`, and `end`.

    A resumed run adds its lines to the file; a new one overwrites it.
    """

    def __init__(self, path: str, resumed: bool) -> None:
        check_output("--log", path)
        self._path, self._mode = path, "a" if resumed else "w"
        self._file: IO[str] | None = None

    def start(self, record: Record) -> None:
        try:
            self._file = open(self._path, self._mode, encoding="utf-8")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise self._refused(error) from error
        self._write(record)

    def epoch(self, record: Record) -> None:
        self._write(record)

    def end(self, record: Record) -> None:
        self._write(record)

    def _write(self, record: Record) -> None:
        assert self._file is not None
        try:
            self._file.write(json.dumps({key: _plain(value) for key, value in record.items()}) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SaveError:
        """Return the `SaveError` of the log."""
        return SaveError(f"--log {self._path!r} cannot be written: {error.strerror or error}")

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def _plain(value: Any) -> Any:
    """Return a value for JSON, which has no NaN; most readers refuse Python's."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Plot(Observer):
    """A picture of losses and accuracies by epoch, drawn at the end of the run."""

    def __init__(self, path: str, history: Sequence[Record]) -> None:
        self._kind = os.path.splitext(path)[1].lower()
        if self._kind not in PICTURES:
            raise ConfigurationError(f"--plot: expected a file named {', '.join(PICTURES)}, found {path!r}")
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError(
                "--plot needs the package matplotlib, which is not installed; install it with: "
                "pip install 'agrad[plot]'"
            ) from error
        check_output("--plot", path)
        self._figure = Figure
        self._path = path
        self._history = list(history)
        self._losses = array("d")

    def start(self, record: Record) -> None:
        title = f"{record['dataset']}, {record['backend']} {record['dtype']}"
        # a dollar sign begins a formula
        self._title = printable(title).replace("$", r"\$")
        self._first, self._batches = record["step"], record["batches"]

    def steps(self, losses: np.ndarray, record: Record) -> None:
        self._losses.extend(losses.tolist())

    def epoch(self, record: Record) -> None:
        self._history.append(record)

    def end(self, record: Record) -> None:
        figure = self._figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        figure.suptitle(self._title)
        at = (self._first + 1 + np.arange(len(self._losses))) / self._batches
        left.plot(at, np.array(self._losses), color="0.8", linewidth=0.8, label="each step")
        epochs = [entry["epoch"] for entry in self._history]
        score = "accuracy" if "test_loss" not in record or "test_accuracy" in record else "r2"
        for axes, name in ((left, "loss"), (right, score)):
            for part, label in (("", "training"), ("validation_", "validation")):
                known = [entry.get(part + name) for entry in self._history]
                if known and None not in known:
                    axes.plot(epochs, known, marker=".", label=label)
            if name != "loss" and f"test_{name}" in record:
                axes.axhline(record[f"test_{name}"], color="0.3", linestyle="--", label="test, at the end")
            axes.set_xlabel("epoch")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_ylabel(name)
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
        if len(self._losses) and np.nanmin(self._losses) > 0:
            left.set_yscale("log")
        content = io.BytesIO()
        figure.savefig(content, format=self._kind[1:], dpi=120)
        write_whole(self._path, content.getvalue())
