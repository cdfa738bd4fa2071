"""The output of a run: a progress bar on a terminal, otherwise lines."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from agrad.errors import printable
from agrad.train.history import VALIDATION, Record, metrics_of
from agrad.train.hooks import Callback

if TYPE_CHECKING:
    from agrad.train.trainer import Trainer

SHARES = ("accuracy", "acc", "top_k_accuracy", "precision", "recall", "f1")
"""Metrics that are shown in percent."""

REFRESH = 0.25
"""Seconds between two changes of the bar within an epoch."""

BESIDE = 16
"""The width of a narrow bar, the remaining time, and the spaces between."""

Heading = Callable[[Record], str]


def write(text: str, stream: TextIO) -> None:
    """Write text, with escapes for characters that cannot be shown.

    These are control characters, and those that the stream cannot encode.
    """
    encoding = stream.encoding or "utf-8"
    stream.write(printable(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


class Lines(Callback):
    """One plain line of text for each epoch."""

    first_rank_only = True

    width: float = math.inf
    """The number of characters for which a line has room."""

    def __init__(self, heading: Heading | None = None) -> None:
        self._heading = heading

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        self._epochs = record["epochs"]
        if self._heading is not None:
            self.say(self._heading(record))

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self.say(describe_epoch(record, self._epochs, self.width))

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        if self._heading is None and (line := describe_end(record)):
            self.say(line)

    def say(self, line: str) -> None:
        """Print a line."""
        write(line + "\n", sys.stdout)


class Bar(Lines):
    """A progress bar below the lines of the finished epochs.

    Raises ``ImportError`` if rich is not installed.
    """

    def __init__(self, heading: Heading | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__(heading)
        self._console = Console(highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        super().on_fit_begin(trainer, record)
        batches = record["batches"]
        done = record["epoch"] * (batches or 0) + record["batch"]
        self._shift = record["step"] - done
        total = None if batches is None else self._epochs * batches
        self._task = self._bar.add_task(self._title(record), total=total, completed=done, numbers="")
        self._bar.start()
        self._done, self._shown = done, time.perf_counter()

    def on_step_end(self, trainer: Trainer) -> None:
        self._done += 1
        if (now := time.perf_counter()) - self._shown > REFRESH:
            self._shown = now
            self._bar.update(self._task, completed=self._done)

    def on_losses(self, trainer: Trainer, losses: np.ndarray, record: Record) -> None:
        title = self._title(record)
        names = ["loss", *metrics_of({key: value for key, value in record.items() if key != "batch"})]
        numbers = [f"{name} {_number(name, record[name], 1)}" for name in names]
        room = self._console.width - len(title) - BESIDE
        numbers = _fitted([*numbers, _rate(record)], range(len(names) + 1, 0, -1), room)
        self._bar.update(self._task, completed=record["step"] - self._shift, description=title, numbers=numbers)

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self.width = self._console.width  # the window may have been resized
        super().on_epoch_end(trainer, record)
        self._bar.update(self._task, description=self._title(record))

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        self._bar.stop()
        super().on_fit_end(trainer, record)

    def say(self, line: str) -> None:
        self._console.print(printable(line), markup=False)

    def _title(self, record: Record) -> str:
        return f"epoch {min(record['epoch'] + 1, self._epochs)}/{self._epochs}"


def display(heading: Heading | None = None) -> Callback:
    """Return a bar on a terminal if rich is installed, otherwise lines."""
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            return Bar(heading)
    return Lines(heading)


class ProgressBar(Callback):
    """Shows loss and metrics on the standard output; `fit` adds one by default.

    On a terminal it is a bar if rich is installed; otherwise it prints a line for each epoch.

    Examples
    --------
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[agrad.train.ProgressBar()])
    >>> history = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=1)
    epoch 1/1  loss ...  ... samples/s
    """

    first_rank_only = True

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        self._display = display()
        self._display.on_fit_begin(trainer, record)

    def on_step_end(self, trainer: Trainer) -> None:
        self._display.on_step_end(trainer)

    def on_losses(self, trainer: Trainer, losses: np.ndarray, record: Record) -> None:
        self._display.on_losses(trainer, losses, record)

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self._display.on_epoch_end(trainer, record)

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        self._display.on_fit_end(trainer, record)


def _number(name: str, value: Any, digits: int = 2) -> str:
    return f"{value:.{digits}%}" if name in SHARES else f"{value:.4f}" if abs(value) < 1e5 else f"{value:.4g}"


def _rate(record: Record) -> str:
    return f"{record['samples_per_second']:,.0f} samples/s"


def _fitted(parts: Sequence[str], ranks: Iterable[int], width: float) -> str:
    """Return a line of parts, without those of low rank if it is too wide."""
    kept, line = [*zip(parts, ranks, strict=True)], "  ".join(parts)
    while len(line) > width and len(kept) > 1:
        kept.remove(min(kept, key=lambda entry: entry[1]))
        line = "  ".join(part for part, _ in kept)
    return line


def describe_epoch(record: Record, epochs: int, width: float = math.inf) -> str:
    """Return a line about a finished epoch, shortened to a width."""
    parts, ranks = [f"epoch {record['epoch']:>{len(str(epochs))}}/{epochs}"], [9]
    names = ["loss", *metrics_of(record)]
    for part, word, rank in (("", "", 3), (VALIDATION, "validation ", 5)):
        for name in names:
            if part + name in record:
                parts.append(f"{word}{name} {_number(name, record[part + name])}")
                ranks.append(rank + 1 if name == "loss" else rank)
                word = ""
    return _fitted([*parts, _rate(record)], [*ranks, 1], width)


def describe_end(record: Record) -> str:
    """Return a line about a run that ended before its last epoch, or ""."""
    event, epoch = record["event"], record["epoch"]
    line = ""
    if event == "interrupted":
        line = f"stopped after step {record['step']} (epoch {epoch + 1}, batch {record['batch']})"
        line += f"; saved to {record['saved']}" if "saved" in record else ""
    elif event == "end" and epoch < record["epochs"]:
        line = f"stopped early after epoch {epoch}"
    if "best_epoch" in record:
        line = (f"{line}; " if line else "") + f"the model has the values of epoch {record['best_epoch']}"
    return line
