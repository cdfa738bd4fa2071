"""``agrad train``: from options to a trained model, checked before work starts."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any

import numpy as np

from agrad.backends.base import DeviceSpec
from agrad.cli import config as configs
from agrad.cli import models, report, sources
from agrad.cli.importance import leaks
from agrad.cli.observers import Log, Plot, on_terminal
from agrad.cli.outputs import check_output
from agrad.cli.scores import details, summary
from agrad.cli.selection import chosen
from agrad.cli.tasks import Scores, loss_of, measure, metrics_of
from agrad.cli.terminal import complain, say
from agrad.errors import AnomalyError, ConfigurationError, DataError
from agrad.nn import checkpoint
from agrad.parallel import world
from agrad.train import Callback, EarlyStopping, Trainer, tabular
from agrad.train.examples import split
from agrad.train.history import Record
from agrad.train.interrupts import Interrupts
from agrad.train.progress import Progress
from agrad.train.step import check_precision

NEVER = 2**31
"""The patience that never ends."""


class Run:
    """A call of ``agrad train``: options, data and model, then the training."""

    end: Record
    """The last record of the run."""
    scores: Scores
    """The scores of the test part."""

    def __init__(self, args: argparse.Namespace, place: DeviceSpec, observers: tuple[Callback, ...] = ()) -> None:
        self.place = place
        saved = self.saved = models.load(args.resume) if args.resume is not None else None
        if saved is None:
            self.config = configs.resolve(vars(args))
        else:
            self.config = configs.resumed(saved.config, vars(args), saved.progress.epoch, saved.path)
        data_dir = args.data_dir
        if data_dir is None and self.saved is not None and self.config.data == self.saved.config.data:
            data_dir = self.saved.data_dir
        sources.check_source(self.config.data, data_dir, self.config.label)
        sources.check_settings(self.config)
        self._find_data(data_dir)
        self.save_path: str | None = args.save if args.save is not None else args.resume
        self._check_outputs(args)
        self.callbacks = [About(self), on_terminal(args.quiet), *observers, Saver(self)]
        self.callbacks += [Log(args.log)] if args.log is not None else []
        self.callbacks += [Plot(args.plot)] if args.plot is not None else []
        self.quiet, self.report_path = args.quiet, args.report
        self.jit, self.threads = args.jit, args.threads
        check_precision(self.config.precision, self.jit, place, "--precision", "--no-jit")
        # another backend rounds differently: the command to resume names this one
        options = (("--backend", args.backend), ("--device", args.device))
        self.where: str = "".join(f" {name} {value}" for name, value in options if value is not None)
        self._load()

    def _find_data(self, data_dir: str | None) -> None:
        """Find the data, and note the folder to which a relative path belongs."""
        self.data_dir = data_dir
        before = self.saved.folder if self.saved is not None and self.config.data == self.saved.config.data else None
        self.source, self.source_dir = sources.located(self.config.data, data_dir, before)
        named = data_dir if self.config.data in sources.NAMED else self.config.data
        self.folder = None
        if named is not None and not os.path.isabs(named):
            self.folder: str = os.getcwd() if before is None or os.path.exists(named) else before

    def _check_outputs(self, args: argparse.Namespace) -> None:
        """Raise unless all output files can be written, and differ."""
        if self.save_path is not None:
            if args.save is None:
                checkpoint.check_writable(self.save_path)
            else:
                check_output("--save", self.save_path)
            checkpoint.check_installed("--save")
        if args.report is not None:
            if not args.report.lower().endswith((".html", ".htm")):
                raise ConfigurationError(f"--report must be a file named .html, got {args.report!r}")
            check_output("--report", args.report)
        named = [
            ("--save", self.save_path),
            ("--log", args.log),
            ("--plot", args.plot),
            ("--report", args.report),
            ("--data", self.source),
        ]
        places: dict[str, str] = {}
        for name, path in named:
            if path is None or path in sources.NAMED:
                continue
            other = places.setdefault(os.path.realpath(path), name)
            if other != name:
                raise ConfigurationError(f"{other} and {name} must be different files, got {path!r} for both")

    def _load(self) -> None:
        """Load the data, and make or load model, optimizer and position."""
        config, place = self.config, self.place
        encoder = None if self.saved is None else self.saved.description.encoder
        dataset = sources.load(self.source, config, data_dir=self.source_dir, report=complain, encoder=encoder)
        self.dataset = dataset
        if config.id is not None and encoder is None and dataset.encoder is not None:
            # it may be a number; the name finds the column in other tables
            config = replace(config, id=next(k for k, why in dataset.encoder.left_out.items() if why == "dropped"))
        n = int(dataset.y_train.shape[0])
        settled = models.settled(config, dataset.task, n)
        shown = replace(settled, task=config.task, validation=config.validation)
        self.about: list[str] = sources.about(dataset, shown, n)
        config = self.config = settled
        self.fingerprint: str = sources.fingerprint(dataset)
        if self.saved is not None and (changed := self.saved.changed(dataset)):
            raise DataError(
                f"--resume {self.saved.path}: {dataset.name} is not the data that the run was started on: {changed}. "
                "Pass the same data with --data or --data-dir."
            )
        self.description = sources.describe(dataset)
        self.rows, self.held = split(dataset.y_train, config.validation, n, config.seed)
        if config.class_weight != "none" and dataset.task != "classification":
            raise ConfigurationError(
                "--class-weight balanced requires class labels, but the targets are numeric. Omit the option."
            )
        if self.saved is not None:
            self.model: Any = self.saved.model(place, best=False)
        else:
            intervals = tabular.intervals(dataset.X_train[self.rows]) if config.model == "table" else None
            self.model = models.build(config, dataset.feature_shape, dataset.n_outputs, place, intervals)
        self._make_trainer()

    def _make_trainer(self) -> None:
        """Make the trainer, at the position of the saved run if there is one."""
        config, place = self.config, self.place
        # each member of an ensemble sees a part of a batch, and so all rows in an epoch
        self.order: np.ndarray = np.tile(self.rows, config.members)
        self.batches: int = -(-self.order.shape[0] // config.batch_size)
        optimizer = models.optimizer_for(config, self.model, self.batches)
        # the first of all, so that the others see the best epoch's values at the end
        self.early: EarlyStopping = EarlyStopping(patience=config.patience or NEVER)
        self.trainer: Trainer = Trainer(
            self.model,
            loss_of(config.task),
            optimizer,
            metrics=metrics_of(config.task),
            callbacks=[self.early, *self.callbacks] if self.held.size else self.callbacks,
            jit=self.jit,
            threads=self.threads,
            precision=config.precision,
            seed=config.seed,
        )
        self.trainer.place, self.trainer.rate_name = place, "--lr"
        if self.saved is not None:
            self.saved.fill(optimizer, self.trainer.scale, self.early if self.held.size else None)
            progress = self.trainer.progress = self.saved.progress
            if not progress.fits(self.batches, config.batch_size) or optimizer.steps != progress.step:
                raise DataError(
                    f"{self.saved.path!r}: the run cannot be at step {progress.step}, batch {progress.batch} of "
                    f"{self.batches}, epoch {progress.epoch + 1}, with {progress.seen} examples seen"
                )

    @property
    def progress(self) -> Progress:
        """The position of the run."""
        return self.trainer.progress

    def go(self) -> int:
        """Train and return the exit code. Raises ``AnomalyError`` and ``SaveError``."""
        config, dataset = self.config, self.dataset
        interrupts = self.trainer.interrupts = Interrupts()
        for line in [] if self.quiet else self.about:
            say(line)
        self.leaks = leaks(dataset)
        for line in self.leaks:
            complain(f"warning: {line}")
        X, y, held = dataset.X_train, dataset.y_train, config.validation
        if config.members > 1:
            held = (X[self.held], y[self.held]) if self.held.size else None
            X, y = X[self.order], y[self.order]
        try:
            history = self.trainer.fit(
                X,
                y,
                epochs=config.epochs,
                batch_size=config.batch_size,
                validation=held,
                class_weight=None if config.class_weight == "none" else config.class_weight,
                progress=False,
                resume=self.saved is not None,
            )
        except AnomalyError as error:
            raise AnomalyError(f"{error}; {self._kept()}") from error
        if history.interrupted:
            return self._interrupted(interrupts)
        end, scores = self.end, self.scores
        if not self.quiet:
            self._tell_end()
        say(f"test {summary(scores)}, in {end['seconds']:.1f} s ({end['samples_per_second']:,.0f} samples/s)")
        if self.report_path is not None and not self.trainer.world.rank:
            report.write(self.report_path, self)
        if self.save_path is not None and not self.quiet:
            say(f"saved to {self.save_path}")
        return 0

    def _tell_end(self) -> None:
        """Print which epoch was the best, and the scores in detail."""
        if self.held.size:
            line = f"epoch {self.early.best_epoch} of {self.progress.epoch} had the lowest validation loss"
            if self.progress.epoch < self.config.epochs:
                line += f", and none of the next {self.early.waited} a lower one"
            say(f"{line}; its values are used")
        for line in details(self.scores, self.dataset.y_test, self.description):
            say(line)

    def save(self) -> None:
        """Save the run, if a file is named."""
        if self.save_path is None:
            return
        self.trainer.world.note(checkpoint=self.save_path)
        if not self.trainer.world.rank:
            models.save(self.save_path, self)

    def _kept(self) -> str:
        """Return a text on the saved state, for the error of a run that diverged."""
        if self.save_path is None:
            return "nothing was to be saved (no --save)"
        if self.progress.epoch == (self.saved.progress.epoch if self.saved is not None else 0):
            return f"nothing was written to {self.save_path}, as no epoch was done"
        return f"{self.save_path} holds the last good state, after epoch {self.progress.epoch}"

    def _interrupted(self, interrupts: Interrupts) -> int:
        """Print how to continue, and return the exit code."""
        progress = self.progress
        where = f"stopped after step {progress.step} (epoch {progress.epoch + 1}, batch {progress.batch})"
        remedy = "nothing is saved, as there is no --save"
        if self.save_path is not None:
            remedy = f"saved to {self.save_path}; go on with: agrad train --resume {self.save_path}{self.where}"
        complain(f"agrad train: {where}; {remedy}")
        assert interrupts.received is not None
        return 128 + interrupts.received


class About(Callback):
    """Adds the options to the first record, and the test scores to the last one."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_fit_begin(self, trainer: Trainer, record: Record) -> None:
        run, dataset = self.run, self.run.dataset
        record |= {
            **run.config.as_metadata(),
            "dataset": dataset.name,
            "features": dataset.n_features,
            "outputs": dataset.n_outputs,
            "classes": list(dataset.class_names),
            "train_examples": int(run.rows.shape[0]),
            "validation_examples": int(run.held.shape[0]),
            "test_examples": int(dataset.y_test.shape[0]),
        }

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        run, dataset = self.run, self.run.dataset
        if record["event"] == "end":
            scores = run.scores = measure(run.model, dataset.X_test, dataset.y_test, run.place, run.description)
            record |= {f"test_{name}": value for name, value in scores.numbers.items()}
            record["test_loss"] = scores.loss
        run.end = record


class Saver(Callback):
    """Saves the run after each epoch, and where a signal ended it."""

    saves = True

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        self.run.save()

    def on_fit_end(self, trainer: Trainer, record: Record) -> None:
        if record["event"] == "interrupted":
            self.run.save()


def run_train(args: argparse.Namespace) -> int:
    """Run ``agrad train`` with parsed options; return the exit code."""
    world()
    with chosen(args.backend, args.device) as place:
        return Run(args, place).go()
