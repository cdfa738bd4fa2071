"""Callbacks of a `Trainer`, which receive the records of a run."""

from __future__ import annotations

import inspect
import json
import math
import os
from array import array
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from agrad.data.files import StrPath, check_writable
from agrad.errors import ConfigurationError, OperandError, SaveError, printable
from agrad.expect import integer, one_of
from agrad.nn.module import check_state
from agrad.train.display import ProgressBar
from agrad.train.history import Record, draw, entry, figure_class
from agrad.train.hooks import Callback

if TYPE_CHECKING:
    from agrad.train.trainer import Trainer

__all__ = [
    "Callback", "Checkpoint", "EarlyStopping", "JSONLogger", "LambdaCallback", "LearningCurves", "ProgressBar",
    "Scheduler",
]  # fmt: skip

HIGHER = ("accuracy", "acc", "precision", "recall", "f1", "auc", "r2", "score")
"""Parts of the names of entries of which more is better."""


def monitored(callback: Any, record: Record) -> tuple[str, float]:
    """Return the name and the value of the entry that a callback monitors."""
    name = callback.monitor or ("validation_loss" if "validation_loss" in record else "loss")
    if entry(name) not in record:
        have = ", ".join(key for key in record if key not in ("event", "epoch", "step"))
        raise ConfigurationError(f"{type(callback).__name__}: monitor must be one of {have}, got {name!r}")
    return name, record[entry(name)]


class Monitored(Callback):
    """Base class of callbacks that look for the best epoch.

    Parameters
    ----------
    monitor : str or None
        Entry of the records to monitor. By default, `validation_loss`, or `loss` without validation.
    mode : {"auto", "min", "max"}
        Direction of improvement. "auto" infers it from the name.
    min_delta : float
        Smallest change that counts as an improvement.

    Raises
    ------
    ConfigurationError
        If `mode` has another value, or `min_delta` is negative.
    """

    def __init__(self, monitor: str | None, mode: str, min_delta: float = 0.0) -> None:
        what = type(self).__name__
        if not min_delta >= 0:
            raise ConfigurationError(f"{what}: min_delta must be at least 0, got {min_delta!r}")
        self.monitor: str | None = monitor
        self.mode: str = one_of(what, "mode", mode, ("auto", "min", "max"))
        self.min_delta: float = float(min_delta)
        self.best: float | None = None

    def better(self, record: Record) -> bool:
        """Note the value of an epoch, and return True if it is the best so far."""
        name, value = monitored(self, record)
        more = self.mode == "max" or (self.mode == "auto" and any(part in name for part in HIGHER))
        sign = -1.0 if more else 1.0
        if math.isnan(value) or (self.best is not None and sign * (self.best - value) <= self.min_delta):
            return False
        self.best = float(value)
        return True

    def state_dict(self) -> dict[str, np.ndarray]:
        return {} if self.best is None else {"best": np.array(self.best, np.float64)}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        best = {"best": ((), "float64")} if "best" in state else {}
        check_state(f"the state of {type(self).__name__}", state, best, ())
        self.best = float(state["best"]) if "best" in state else None


class EarlyStopping(Monitored):
    """Stops training when an entry of the records stops improving.

    Parameters
    ----------
    monitor : str or None
        Entry of the records to monitor. By default, `validation_loss`, or `loss` without validation.
    patience : int
        Number of epochs without improvement after which training stops.
    min_delta : float
        Smallest change that counts as an improvement.
    mode : {"auto", "min", "max"}
        Direction of improvement. "auto" infers it from the name.
    restore_best : bool
        If True, restore the parameters of the best epoch when training ends.

    Raises
    ------
    ConfigurationError
        If an option is out of range, or during training if the record lacks the entry.

    Examples
    --------
    >>> stop = agrad.train.EarlyStopping(patience=3)
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.0)
    >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[stop])
    >>> history = trainer.fit(np.ones((4, 1)), np.zeros((4, 1)), epochs=100, progress=False)
    >>> len(history), history.stopped
    (4, True)
    """

    def __init__(
        self,
        monitor: str | None = None,
        patience: int = 5,
        min_delta: float = 0.0,
        mode: Literal["auto", "min", "max"] = "auto",
        restore_best: bool = True,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience: int = integer("EarlyStopping", "patience", patience)
        self.restore_best: bool = restore_best
        self.waited: int = 0
        self.best_epoch: int = 0
        self._values: dict[str, np.ndarray] = {}

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        if not record["resumed"]:
            self.best: Any = None
            self.waited = 0
            self.best_epoch = 0
            self._values = {}
        if self.waited >= self.patience:
            trainer.stop()

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        if self.better(record):
            self.waited, self.best_epoch = 0, record["epoch"]
            self._values = trainer.model.state_dict() if self.restore_best else {}
        else:
            self.waited += 1
        if self.waited >= self.patience:
            trainer.stop()

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        if record["event"] == "end" and self._values:
            trainer.model.load_state_dict(self._values)
            record["best_epoch"] = self.best_epoch

    def state_dict(self) -> dict[str, np.ndarray]:
        counts = {"waited": np.array(self.waited), "best_epoch": np.array(self.best_epoch)}
        return super().state_dict() | counts | {f"values.{name}": value for name, value in self._values.items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        start = "values."
        best = {"best": ((), "float64")} if "best" in state or np.any(state.get("best_epoch", 0)) else {}
        own = {name: value for name, value in state.items() if not name.startswith(start)}
        check_state("the state of EarlyStopping", own, best, ("waited", "best_epoch"))
        super().load_state_dict({name: own[name] for name in best})
        self.waited, self.best_epoch = int(state["waited"]), int(state["best_epoch"])
        self._values = {name.removeprefix(start): v for name, v in state.items() if name.startswith(start)}


class Checkpoint(Monitored):
    """Saves the run after each epoch, or after each best epoch so far.

    The file has the format of `Trainer.save`, so a run can resume from it. It is also written when Ctrl-C stops
    training, unless it contains the best epoch.

    Parameters
    ----------
    path : str or path
        The file. `{epoch}` in it is replaced by the epoch index.
    monitor : str or None
        Entry of the records to monitor. By default, `validation_loss`, or `loss` without validation.
    save_best_only : bool
        If True, write only after the best epochs.
    mode : {"auto", "min", "max"}
        Direction of improvement. "auto" infers it from the name.

    Raises
    ------
    ConfigurationError
        If `mode` has another value, or during training if the record lacks the entry.
    SaveError
        If the file cannot be written during training.

    Examples
    --------
    >>> import os, tempfile
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save = agrad.train.Checkpoint(os.path.join(folder, "run-{epoch}.npz"))
    ...     trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[save])
    ...     _ = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=2, progress=False)
    ...     print(sorted(os.listdir(folder)))
    ['run-1.npz', 'run-2.npz']
    """

    saves = True

    def __init__(
        self,
        path: StrPath,
        monitor: str | None = None,
        save_best_only: bool = False,
        mode: Literal["auto", "min", "max"] = "auto",
    ) -> None:
        super().__init__(monitor, mode)
        self.path: str = os.fspath(path)
        self.save_best_only: bool = save_best_only

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        check_writable(self._place(record["epoch"] + 1))
        if not record["resumed"]:
            self.best: Any = None

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        if not self.save_best_only or self.better(record):
            trainer.save(self._place(record["epoch"]))

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        if record["event"] == "interrupted" and not (self.save_best_only and self.best is not None):
            record["saved"] = self._place(record["epoch"])
            trainer.save(record["saved"])

    def _place(self, epoch: int) -> str:
        return self.path.replace("{epoch}", str(epoch))


class JSONLogger(Callback):
    """Writes a file with one JSON object per line: start, each epoch, and end.

    A resumed run appends its lines; a new run overwrites the file.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    SaveError
        If the file cannot be written during training.

    Examples
    --------
    >>> import json, os, tempfile
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = agrad.train.JSONLogger(os.path.join(folder, "log.jsonl"))
    ...     trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[log])
    ...     _ = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=2, progress=False)
    ...     with open(log.path) as file:
    ...         print([json.loads(line)["event"] for line in file])
    ['start', 'epoch', 'epoch', 'end']
    """

    first_rank_only = True

    def __init__(self, path: StrPath) -> None:
        self.path: str = os.fspath(path)

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        self._write(record, "a" if record["resumed"] else "w")

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self._write(record)

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        self._write(record)

    def _write(self, record: Record, mode: str = "a") -> None:
        text = json.dumps({key: _plain(value) for key, value in record.items()})
        try:
            with open(self.path, mode, encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            raise SaveError(f"{self.what} {self.path!r} cannot be written: {error.strerror or error}") from error

    what = "the log"


def _plain(value: Any) -> Any:
    """Return a value for JSON, which does not define NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class LearningCurves(Callback):
    """Draws the curves of loss and metrics when training ends.

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
        If the picture cannot be written during training.

    Examples
    --------
    >>> import os, tempfile
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     curves = agrad.train.LearningCurves(os.path.join(folder, "curves.png"))
    ...     trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[curves])
    ...     _ = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=2, progress=False)
    ...     print(os.listdir(folder))
    ['curves.png']
    """

    what = "LearningCurves"

    first_rank_only = True

    def __init__(self, path: StrPath, title: str = "") -> None:
        self._figure = figure_class(path, self.what)
        self.path: str = os.fspath(path)
        self.title: str = title
        self._losses = array("d")

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        check_writable(self.path)
        self._losses = array("d")
        self._first = _epochs_of(record)

    def on_losses(self, trainer: Trainer, losses: np.ndarray, record: Record) -> None:
        self._losses.extend(losses.tolist())

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        title = printable(self.title)
        end = {**record, "at": _epochs_of(record)}
        draw(self.path, trainer.history, title, self._figure, self._losses, self._first, end)


def _epochs_of(record: Record) -> float:
    """Return the position of a run in epochs, as a fraction."""
    return record["epoch"] + (record["batch"] / record["batches"] if record["batches"] else 0.0)


class Scheduler(Callback):
    """Steps a scheduler of `agrad.optim.lr_scheduler`.

    Parameters
    ----------
    scheduler : LRScheduler
        The scheduler of the trainer's optimizer. If its `step` accepts metrics, it receives `monitor`.
    every : {"epoch", "step"}
        When to step it: after each epoch, or after each training step.
    monitor : str or None
        Entry of the records to pass. By default, `validation_loss`, or `loss` without validation.

    Raises
    ------
    OperandError
        If `scheduler` has no method `step`.
    ConfigurationError
        If `every` has another value.

    Examples
    --------
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = agrad.train.Scheduler(agrad.optim.lr_scheduler.StepLR(optimizer, step_size=1))
    >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[schedule])
    >>> history = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=3, progress=False)
    >>> np.round(history.column("lr"), 4)
    array([0.1  , 0.01 , 0.001])
    """

    def __init__(self, scheduler: Any, every: str = "epoch", monitor: str | None = None) -> None:
        if not callable(getattr(scheduler, "step", None)) or not hasattr(scheduler, "state_dict"):
            raise OperandError(
                f"Scheduler: scheduler must be one of agrad.optim.lr_scheduler, got {type(scheduler).__name__}"
            )
        self._metrics = bool(inspect.signature(scheduler.step).parameters)
        if every not in ("epoch", "step") or (every == "step" and self._metrics):
            raise ConfigurationError(
                f"Scheduler: every must be 'epoch', or 'step' for a scheduler without metrics, got {every!r}"
            )
        self.scheduler: Any = scheduler
        self.every = every
        self.monitor: str | None = monitor
        if every == "step":
            self.on_step_end = lambda trainer: scheduler.step()  # type: ignore[method-assign]

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        if self._metrics:
            self.scheduler.step(monitored(self, record)[1])
        elif self.every == "epoch":
            self.scheduler.step()

    def state_dict(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in self.scheduler.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        self.scheduler.load_state_dict(state)


class LambdaCallback(Callback):
    """Calls custom functions.

    Parameters
    ----------
    **hooks : function
        Functions, named like the methods of `Callback`, such as ``on_epoch_end=lambda trainer, record: ...``.

    Raises
    ------
    ConfigurationError
        If a name is not a method of `Callback`.

    Examples
    --------
    >>> show = agrad.train.LambdaCallback(on_epoch_end=lambda trainer, record: print("epoch", record["epoch"]))
    >>> model = agrad.nn.Linear(1, 1)
    >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
    >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[show])
    >>> _ = trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=2, progress=False)
    epoch 1
    epoch 2
    """

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        known = [name for name in vars(Callback) if name.startswith("on_")]
        for name, hook in hooks.items():
            if name not in known or not callable(hook):
                raise ConfigurationError(
                    f"LambdaCallback: arguments must be functions named {', '.join(known)}, got {name}={hook!r}"
                )
            setattr(self, name, hook)
