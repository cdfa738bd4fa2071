"""The training loop. A step reads nothing from the device, and no clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import agrad
from agrad import data
from agrad.cli.config import Config
from agrad.cli.feed import LAZY, Feed
from agrad.cli.observers import Observer, Record
from agrad.cli.progress import Progress
from agrad.cli.selection import Place
from agrad.cli.tasks import Scores, Task
from agrad.errors import AnomalyError

JITTED = ("numpy", "jax", "torch", "cupy")
"""Backends on which a step is traced and replayed by default."""

INTERVAL = 50
"""The number of steps whose losses are read from the device at once."""

AT_ONCE = 1024
"""The number of examples that are measured at a time."""


def predict(model: Any, feed: Feed, place: Place) -> np.ndarray:
    """Return the outputs (n, k) for all examples, on the host."""
    xp, host = place.backend.xp, place.backend.to_host
    was_training = model.training
    model.eval()
    with agrad.no_grad():
        parts = []
        for start in range(0, feed.n, AT_ONCE):
            X, _ = feed.stretch(start, min(start + AT_ONCE, feed.n))
            parts.append(raw(model(X)))
    model.train(was_training)
    return np.asarray(host(xp.concat(parts, axis=0)))


def measure(model: Any, feed: Feed, y: np.ndarray, place: Place, task: Task) -> Scores:
    """Return the scores of all examples of `feed`, with labels or targets `y`."""
    return task.scores(predict(model, feed, place), y)


def best_epoch(history: Sequence[Record]) -> int:
    """Return the first epoch with the lowest validation loss; 0 without validation."""
    losses = [record.get("validation_loss", math.inf) for record in history]
    return 1 + int(np.argmin(losses)) if losses and min(losses) < math.inf else 0


def raw(value: Any) -> Any:
    """Return the raw array of a Tensor; a raw array as it is."""
    return value.data if isinstance(value, agrad.Tensor) else value


class Trainer:
    """One run of training, from the position `progress` to its last epoch.

    `rows` are the numbers of the examples of `feed` to train on. All numbers of the run follow from the seed, the data
    and the settings; a stop and a resumption do not change them. `scale` is the loss scale that takes the optimizer's
    steps, or None.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        feed: Feed,
        rows: np.ndarray,
        place: Place,
        config: Config,
        progress: Progress,
        observers: Sequence[Observer],
        task: Task,
        *,
        scale: Any = None,
        validate: Callable[[], Scores] | None = None,
        jit: bool | None = None,
        best: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.model, self.optimizer, self.place = model, optimizer, place
        self.config, self.progress, self.observers = config, progress, observers
        self.task = task
        self.best: dict[str, np.ndarray] = dict(best or {})
        """The network's values after the best epoch, where there is validation."""
        self.samples = 0
        self.seconds = 0.0
        self._feed, self._rows = feed, rows
        self._validate = validate
        self.batches = -(-rows.shape[0] // config.batch_size)
        self._lazy = place.backend.name in LAZY
        self._scale = scale
        narrow = None if config.precision == "float32" else config.precision
        traced = (place.backend.name in JITTED or narrow is not None) if jit is None else jit
        self._compute = agrad.jit(self._computed, precision=narrow) if traced else self._computed
        self._rate = 0.0
        self._losses: list[Any] = []
        self._hits: list[Any] = []
        self._since = 0.0

    def run(self, stopped: Callable[[], bool], save: Callable[[], None]) -> bool:
        """Train to the end, and call `save` after each epoch.

        Returns False if `stopped` ended it after a step. Raises ``AnomalyError``, with the step, if the loss or a
        parameter is not finite; `save` is not called with such parameters.
        """
        # the losses show that a run diverges; NumPy's warnings would only repeat it
        with np.errstate(all="ignore"):
            while self.progress.epoch < self.config.epochs and not self.stalled():
                if not self._epoch(stopped):
                    return False
                save()
                if stopped() and self.progress.epoch < self.config.epochs:
                    return False
        return True

    def stalled(self) -> bool:
        """Return True if the validation loss has not fallen for as many epochs as the patience is."""
        best, patience = best_epoch(self.progress.history), self.config.patience
        return bool(best and patience and self.progress.epoch - best >= patience)

    def _epoch(self, stopped: Callable[[], bool]) -> bool:
        """Train the rest of an epoch. Returns False if it was stopped."""
        progress = self.progress
        rows = self._rows[data.epoch_order(self.config.seed, progress.epoch, self._rows.shape[0])]
        order = self._feed.order(rows)
        self._since = time.perf_counter()
        self._started, self._earlier = self._since, progress.seen
        for batch in range(progress.batch, self.batches):
            start = batch * self.config.batch_size
            self._step(*self._feed.batch(order, start, min(start + self.config.batch_size, rows.shape[0])))
            last = batch == self.batches - 1
            halt = not last and stopped()
            if last or halt or len(self._losses) == INTERVAL:
                self._read()
            if halt:
                self.check_parameters()
                return False
        self.check_parameters()
        self._finish()
        return True

    def _step(self, X: Any, y: Any) -> None:
        """Take one step, and keep its results on the device."""
        self._rate = self.optimizer.rate
        loss, hits = self._compute(X, y)
        self._losses.append(loss.data)
        self._hits.append(hits.data)
        if self._lazy:
            self._compute_now()

    def _compute_now(self) -> None:
        """Compute the results of a step on a lazy backend, all in one pass.

        Otherwise the graph would grow with every step, and be computed again for each use.
        """
        parameters, arrays = self.model.parameters(), self.optimizer._arrays
        state = [array for slots in arrays for array in slots]
        made = [*(tensor.data for tensor in parameters), *state, self._losses[-1], self._hits[-1]]
        kept = iter(self.place.backend.computed(made))
        for tensor in parameters:
            tensor.assign(next(kept))
        self.optimizer._arrays = [tuple(next(kept) for _ in slots) for slots in arrays]
        self._losses[-1], self._hits[-1] = kept

    def _computed(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Take one step; return the loss before it and the number of right examples."""
        output = self.model(X)
        loss = self.task.loss(output, y)
        if self._scale is None:
            loss.backward()
            self.optimizer.step()
        else:
            self._scale(loss).backward()
            self._scale.step()
        self.optimizer.zero_grad()
        return loss, self.task.right(output, y)

    def _read(self) -> None:
        """Read the results of the last steps; stop at a loss that is not finite."""
        backend, progress = self.place.backend, self.progress
        stacked = backend.xp.stack(self._losses), backend.xp.stack(self._hits)
        losses, hits = (np.asarray(backend.to_host(values)) for values in stacked)
        now = time.perf_counter()
        sizes = np.full(losses.shape, self.config.batch_size)
        if progress.batch + len(losses) == self.batches:
            sizes[-1] = self._rows.shape[0] - (self.batches - 1) * self.config.batch_size
        for number, loss in enumerate(losses.tolist()):
            if not math.isfinite(loss):
                raise self._diverged(f"the loss is {loss}", progress.step + number, progress.batch + number)
        for loss, size in zip(losses.tolist(), sizes.tolist(), strict=True):
            progress.loss += loss * size
        count = int(np.sum(sizes))
        progress.correct += int(np.sum(hits))
        progress.seen += count
        progress.batch += len(losses)
        progress.step += len(losses)
        progress.seconds += now - self._since
        self.samples += count
        self.seconds += now - self._since
        self._since = now
        self._losses, self._hits = [], []
        record = {**self._numbers(), "batch": progress.batch}
        for observer in self.observers:
            observer.steps(losses, record)

    def _numbers(self) -> Record:
        """Return the numbers of the epoch so far."""
        progress = self.progress
        took = self._since - self._started
        return {
            "epoch": progress.epoch,
            "step": progress.step,
            "loss": progress.loss / progress.seen,
            **({"accuracy": progress.correct / progress.seen} if self.task.main == "accuracy" else {}),
            "samples_per_second": (progress.seen - self._earlier) / took if took > 0 else 0.0,
        }

    def _finish(self) -> None:
        """Note a finished epoch."""
        progress = self.progress
        record = {
            "event": "epoch",
            **self._numbers(),
            "epoch": progress.epoch + 1,
            "lr": self._rate,
            "seconds": self._since - self._started,
        }
        if self._validate is not None:
            scores = self._validate()
            record["validation_loss"] = scores.loss
            record[f"validation_{self.task.main}"] = scores.numbers[self.task.main]
        progress.epoch += 1
        progress.batch = progress.correct = progress.seen = 0
        progress.loss = 0.0
        progress.history.append(record)
        if best_epoch(progress.history) == progress.epoch:
            self.best = {name: np.array(value) for name, value in self.model.state_dict().items()}
        for observer in self.observers:
            observer.epoch(record)

    def check_parameters(self) -> None:
        """Raise ``AnomalyError`` for a parameter that is not finite after the last update."""
        for name, value in self.model.state_dict().items():
            if not np.isfinite(value).all():
                step = self.progress.step - 1
                raise self._diverged(f"{name} is not finite after the step", step, self.progress.batch - 1)

    def _diverged(self, what: str, step: int, batch: int) -> AnomalyError:
        """Return the error of a run that diverged."""
        return AnomalyError(
            f"{what} at step {step + 1} (epoch {self.progress.epoch + 1}, batch {batch + 1} of "
            f"{self.batches}); training stopped; try a lower --lr"
        )
