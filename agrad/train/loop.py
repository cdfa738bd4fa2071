"""The training loop. A step reads nothing from the device."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import agrad
from agrad.errors import AnomalyError, DataError
from agrad.train.history import Record
from agrad.train.hooks import Callback
from agrad.train.step import Step, raw
from agrad.train.threads import Choice

if TYPE_CHECKING:
    from agrad.backends.base import DeviceSpec
    from agrad.train.examples import Arrays, Batches
    from agrad.train.ranks import RankStep
    from agrad.train.streaming import Metric
    from agrad.train.trainer import Trainer

INTERVAL = 50
"""The number of steps whose losses are read from the device at once."""

SECONDS = 0.5
"""The time after which they are read although there are fewer."""


class Sums:
    """Losses and parts of metrics of some steps, to be read together."""

    def __init__(self, metrics: dict[str, Metric], place: DeviceSpec) -> None:
        self._metrics, self._place = metrics, place
        self.losses: list[Any] = []
        self.parts: list[list[Any]] = []
        self.sizes: list[int] = []

    def add(self, loss: Any, parts: Sequence[Any], size: int) -> None:
        """Keep the results of a step of `size` examples, on the device."""
        self.sizes.append(size)
        self.losses.append(raw(loss))
        self.parts.append([raw(part) for part in parts])

    def read(self, totals: dict[str, list[Any]]) -> tuple[np.ndarray, list[int]]:
        """Return the losses (k,) and sizes, and forget them.

        The parts of metrics are added to the totals.
        """
        sizes = self.sizes
        losses = np.asarray(self._host(self.losses)).reshape(-1)
        columns = iter([np.asarray(self._host(column), np.float64) for column in zip(*self.parts, strict=True)])
        for name, metric in self._metrics.items():
            rows = metric.terms([next(columns) for _ in range(metric.parts)], np.asarray(sizes, np.float64))
            if name in totals:
                rows = [np.concatenate([[b], r]) for b, r in zip(totals[name], rows, strict=True)]
            # one after the other: the bits do not depend on how many are read at once
            totals[name] = [np.add.accumulate(r)[-1].tolist() for r in rows]
        self.losses, self.parts, self.sizes = [], [], []
        return losses, sizes

    def _host(self, arrays: Sequence[Any]) -> np.ndarray:
        return self._place.backend.to_host(self._place.backend.xp.stack(list(arrays)))

    def results(self, totals: dict[str, list[Any]]) -> dict[str, float]:
        """Return the metrics of totals by name."""
        return {name: metric.result([np.asarray(x) for x in totals[name]]) for name, metric in self._metrics.items()}


class Loop:
    """One call of `Trainer.fit`, from the trainer's position to the last epoch.

    All numbers of the run follow from the seed, the data and the options; stopping and resuming do not change them.
    """

    def __init__(
        self,
        trainer: Trainer,
        source: Arrays | Batches,
        epochs: int,
        step: Step | RankStep,
        callbacks: Sequence[Callback],
        validate: Callable[[], dict[str, float]] | None,
    ) -> None:
        self.trainer: Trainer = trainer
        self.source: Arrays | Batches = source
        self.epochs: int = epochs
        self.callbacks: Sequence[Callback] = callbacks
        self.batches: int | None = source.batches
        self.begun: list[Callback] = []
        self.samples: int = 0
        self.seconds: float = 0.0
        self._validate = validate
        self._compute = step
        self._sums = Sums(trainer.streaming, trainer.place) if isinstance(step, Step) else step.sums
        self._tensors = [*trainer.model.parameters(), *trainer.model.buffers()]
        self._checked = [t for t in self._tensors if agrad.isdtype(t.dtype, ("real floating", "complex floating"))]
        self._lazy = trainer.place.backend.lazy
        self._each_step = [
            callback.on_step_end
            for callback in callbacks
            if getattr(callback.on_step_end, "__func__", None) is not Callback.on_step_end
        ]
        self._choice = Choice(trainer.threads)
        self.exact = True
        """False while the state lies between two positions, and after a run that diverged."""
        self._untold: tuple[Iterator[Callable[..., None]], tuple[Any, ...]] = iter(()), ()
        self._since = self._started = 0.0
        self._earlier = 0

    def begin(self, record: Record) -> None:
        """Tell the callbacks the start; ``begun`` has those that took it."""

        def hook_of(callback: Callback) -> Callable[..., None]:
            def hook(trainer: Trainer, record: Record) -> None:
                callback.on_fit_begin(trainer, record)
                self.begun.append(callback)

            return hook

        self.tell(map(hook_of, self.callbacks), record)

    def run(self, stopped: Callable[[], bool]) -> bool:
        """Train to the end.

        Returns False if `stopped` ended it after a step. Raises ``AnomalyError``, with the step, if the loss or a
        parameter is not finite; no callback sees the end of an epoch with such parameters.
        """
        trainer, step = self.trainer, self._compute
        if not isinstance(step, Step):
            step.stopped, step.halted, stopped = stopped, False, lambda: step.halted
        # the losses show that a run diverges; NumPy's warnings would only repeat it
        with np.errstate(all="ignore"), self._choice:
            while trainer.progress.epoch < self.epochs and not trainer.stopping:
                if not self._epoch(stopped):
                    return False
                if stopped() and trainer.progress.epoch < self.epochs and not trainer.stopping:
                    return False
        return True

    def _epoch(self, stopped: Callable[[], bool]) -> bool:
        """Train the rest of an epoch. Returns False if it was stopped."""
        trainer, progress = self.trainer, self.trainer.progress
        self.tell(callback.on_epoch_begin for callback in self.callbacks)
        self._since = self._started = time.perf_counter()
        self._earlier = progress.seen
        batch, before = progress.batch, self._since
        for x, y, size in self.source.epoch(progress.epoch, batch):
            batch += 1
            last = batch == self.batches
            if last or self.batches is None:
                progress.rate = trainer.rate
            self._step(x, y, size)
            now = time.perf_counter()
            self._choice.step(now - before)
            before = now
            halt = not last and stopped()
            if last or halt or len(self._sums.sizes) == INTERVAL or now - self._since > SECONDS:
                self._read()
            if halt:
                self.check_parameters()
                return False
        self._read()
        if not progress.seen:
            raise DataError("X must contain at least one batch per epoch, got none")
        self.check_parameters()
        self._finish()
        return True

    def _step(self, x: Any, y: Any, size: int) -> None:
        """Take one step, and keep its results on the device."""
        self.exact = False
        loss, parts = self._compute(x, y, size)
        self._sums.add(loss, parts, size)
        if self._lazy:
            self._compute_now()
        self.exact = True
        if self._each_step:
            self.tell(self._each_step)

    def tell(self, hooks: Iterable[Callable[..., None]], *args: Any) -> None:
        """Call methods of callbacks with the trainer and more arguments."""
        before = self._untold
        self._untold = waiting, _ = iter([*hooks]), args
        try:
            for hook in waiting:
                hook(self.trainer, *args)
        finally:
            self._untold = before

    def settle(self) -> None:
        """Bring the position to the last step, for a callback that saves the run.

        The callbacks after it are called first, so that their state has the step or epoch too.
        """
        waiting, args = self._untold
        for hook in waiting:
            hook(self.trainer, *args)
        self._read()

    def leave(self) -> None:
        """Bring the position to the last step after an error, if that step is whole."""
        if self.exact and self._sums.sizes:
            with contextlib.suppress(AnomalyError):
                self._advance()

    def _compute_now(self) -> None:
        """Compute the results of a step on a lazy backend, all in one pass."""
        sums = self._sums
        results = [agrad.asarray(x) for x in (sums.losses[-1], *sums.parts[-1])]
        self.trainer.optimizer.compute(*self._tensors, *results)
        sums.losses[-1], *sums.parts[-1] = [raw(x) for x in results]

    def _read(self) -> None:
        """Read the results of the last steps, if there are any, and tell the callbacks."""
        if self._sums.sizes:
            losses = self._advance()
            record = {**self._numbers(), "batch": self.trainer.progress.batch}
            self.tell([callback.on_losses for callback in self.callbacks], losses, record)

    def _advance(self) -> np.ndarray:
        """Read the last losses, and move the position; stop at one that is not finite."""
        progress, self.exact = self.trainer.progress, False
        totals = dict(progress.sums)
        losses, sizes = self._sums.read(totals)
        now = time.perf_counter()
        for number, loss in enumerate(losses.tolist()):
            if not math.isfinite(loss):
                raise self._diverged(f"the loss is {loss}", progress.step + number, progress.batch + number)
        for loss, size in zip(losses.tolist(), sizes, strict=True):
            progress.loss += loss * size
        count = sum(sizes)
        progress.sums = totals
        progress.seen += count
        progress.batch += len(losses)
        progress.step += len(losses)
        progress.seconds += now - self._since
        self.samples += count
        self.seconds += now - self._since
        self._since, self.exact = now, True
        return losses

    def _numbers(self) -> Record:
        """Return the numbers of the epoch so far."""
        progress = self.trainer.progress
        took = self._since - self._started
        return {
            "epoch": progress.epoch,
            "step": progress.step,
            "loss": progress.loss / progress.seen,
            **self._sums.results(progress.sums),
            "samples_per_second": (progress.seen - self._earlier) / took if took > 0 else 0.0,
        }

    def _finish(self) -> None:
        """Called after each epoch."""
        progress = self.trainer.progress
        record = {
            "event": "epoch",
            **self._numbers(),
            "epoch": progress.epoch + 1,
            "lr": progress.rate,
            "seconds": self._since - self._started,
        }
        if self._validate is not None:
            record |= {f"validation_{name}": value for name, value in self._validate().items()}
        self.exact = False
        progress.epoch += 1
        progress.begin_epoch()
        progress.history.append(record)
        self.exact = True
        self.tell([callback.on_epoch_end for callback in self.callbacks], record)
        self.trainer.stopping = self.trainer.world.any(self.trainer.stopping)

    def check_parameters(self) -> None:
        """Raise ``AnomalyError`` for a parameter that is not finite after the last update."""
        backend, progress = self.trainer.place.backend, self.trainer.progress
        finite = [backend.xp.all(backend.xp.isfinite(tensor.data)) for tensor in self._checked]
        if backend.to_host(backend.xp.stack(finite)).all():
            return
        for name, value in self.trainer.model.state_dict().items():
            if not np.isfinite(value).all():
                raise self._diverged(f"{name} is not finite after the step", progress.step - 1, progress.batch - 1)

    def _diverged(self, what: str, step: int, batch: int) -> AnomalyError:
        """Return the error of a run that diverged."""
        self.exact: bool = False
        of = "" if self.batches is None else f" of {self.batches}"
        return AnomalyError(
            f"{what} at step {step + 1} (epoch {self.trainer.progress.epoch + 1}, batch {batch + 1}{of}). "
            f"Training stopped. Try a lower {self.trainer.rate_name}."
        )


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Have a model evaluate in a `with` block, without a record.

    Afterwards each module has its mode again.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with agrad.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
