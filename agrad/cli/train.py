"""``agrad train``: from options to a trained model, checked before work starts."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from typing import Any

import numpy as np

import agrad
from agrad import optim
from agrad.cli import config as configs
from agrad.cli import models, report, sources
from agrad.cli.feed import Feed
from agrad.cli.interrupts import Interrupts
from agrad.cli.observers import Log, Observer, Plot, Record, on_terminal
from agrad.cli.outputs import check_output
from agrad.cli.progress import Progress
from agrad.cli.selection import Place, chosen, has_tensor_float
from agrad.cli.scores import details, summary
from agrad.cli.tasks import Scores, training_task
from agrad.cli.terminal import complain, say
from agrad.cli.training import Trainer, best_epoch, measure
from agrad.errors import AnomalyError, ConfigurationError, DataError, MissingExtraError
from agrad.nn import checkpoint


class Run:
    """A call of ``agrad train``: options, data and model, then the training."""

    def __init__(self, args: argparse.Namespace, place: Place, observers: tuple[Observer, ...] = ()) -> None:
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
        self.save_path = args.save if args.save is not None else args.resume
        self._check_outputs(args)
        history = self.saved.progress.history if self.saved is not None else []
        self.observers = [on_terminal(args.quiet), *observers]
        self.observers += [Log(args.log, self.saved is not None)] if args.log is not None else []
        self.observers += [Plot(args.plot, history)] if args.plot is not None else []
        self.quiet, self.report_path = args.quiet, args.report
        self.jit = args.jit
        self._check_precision()
        # another backend rounds differently: the command to resume names this one
        options = (("--backend", args.backend), ("--device", args.device))
        self.where = "".join(f" {name} {value}" for name, value in options if value is not None)
        self._load()

    def _find_data(self, data_dir: str | None) -> None:
        """Find the data, and note the folder to which a relative path belongs."""
        self.data_dir = data_dir
        before = self.saved.folder if self.saved is not None and self.config.data == self.saved.config.data else None
        self.source, self.source_dir = sources.located(self.config.data, data_dir, before)
        named = data_dir if self.config.data in sources.NAMED else self.config.data
        self.folder = None
        if named is not None and not os.path.isabs(named):
            self.folder = os.getcwd() if before is None or os.path.exists(named) else before

    def _check_precision(self) -> None:
        """Raise ``ConfigurationError`` if the backend cannot multiply with this precision."""
        precision = self.config.precision
        if precision == "float32":
            return
        if self.jit is False:
            raise ConfigurationError(f"--precision {precision} is of traced steps; leave --no-jit out")
        if precision == "tf32" and not has_tensor_float(self.place):
            raise ConfigurationError(
                f"--precision tf32 does nothing on {self.place.backend.name} ({self.place.device_name}), which "
                "computes in float32: TF32 is a format of NVIDIA GPUs from the Ampere generation on; leave it out"
            )
        one = self.place.backend.xp.ones((1, 1), dtype=self.place.backend.xp.float32, device=self.place.device)
        try:
            agrad.jit(agrad.matmul, precision=precision)(one, one)
        except ConfigurationError as error:
            raise ConfigurationError(f"--precision {precision}: {error}") from error

    def _check_outputs(self, args: argparse.Namespace) -> None:
        """Raise unless all output files can be written, and differ."""
        if self.save_path is not None:
            if args.save is None:
                checkpoint.check_writable(self.save_path)
            else:
                check_output("--save", self.save_path)
            if checkpoint.safetensors is None:
                raise MissingExtraError(
                    "--save needs the package safetensors, which is not installed; install it with: "
                    "pip install 'agrad[train]'"
                )
        if args.report is not None:
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
                raise ConfigurationError(f"{other} and {name} name the same file, {path!r}; give them two")

    def _load(self) -> None:
        """Load the data, and make or load model, optimizer and position."""
        config, place = self.config, self.place
        dataset = sources.load(
            self.source, config, data_dir=self.source_dir, label=config.label, report=complain
        )
        self.dataset = dataset
        n = int(dataset.y_train.shape[0])
        self.told = sources.about(dataset, config, n)
        config = self.config = configs.settled(config, dataset.task, n)
        self.fingerprint = sources.fingerprint(dataset)
        if self.saved is not None and (changed := self.saved.changed(dataset)):
            raise DataError(
                f"--resume {self.saved.path}: {dataset.name} is not the data that the run was begun on: {changed}; "
                "name the same data with --data or --data-dir"
            )
        self.description = sources.describe(dataset)
        self.rows, self.held = sources.held_out(dataset, config)
        self.task = training_task(config, dataset, self.rows, self.description, place)
        if self.saved is not None:
            self.progress = self.saved.progress
            self.model = self.saved.model(place, best=False)
        else:
            self.progress = Progress()
            self.model = models.build(config, dataset.feature_shape, dataset.n_outputs, place)
        self.batches = -(-rows.shape[0] // config.batch_size)
        self.optimizer = models.optimizer_for(config, self.model, self.batches)
        # scales small gradients into the range of float16
        self.scale = optim.LossScale(self.optimizer) if config.precision == "float16" else None
        if self.saved is not None:
            self.saved.fill(self.optimizer, self.scale)
            if not self.progress.fits(self.batches, config.batch_size) or self.optimizer.steps != self.progress.step:
                progress = self.progress
                raise DataError(
                    f"{self.saved.path!r}: the run cannot stand at step {progress.step}, batch {progress.batch} of "
                    f"{self.batches}, epoch {progress.epoch + 1}, with {progress.seen} examples seen"
                )

    def go(self) -> int:
        """Train and return the exit code. Raises ``AnomalyError`` and ``SaveError``."""
        config, dataset, place = self.config, self.dataset, self.place
        validate = None
        if self.held.size:
            y_held = dataset.y_train[self.held]
            held = Feed(dataset.X_train[self.held], y_held, place)

            def validate() -> Scores:
                return measure(self.model, held, y_held, place, self.task)

        trainer = self.trainer = Trainer(
            self.model,
            self.optimizer,
            Feed(dataset.X_train, dataset.y_train, place),
            self.rows,
            place,
            config,
            self.progress,
            self.observers,
            self.task,
            scale=self.scale,
            validate=validate,
            jit=self.jit,
            best=self.saved.best if self.saved is not None else None,
        )
        if not self.quiet:
            for line in self.told:
                say(line)
        begun = time.perf_counter()
        with Interrupts() as interrupts, contextlib.ExitStack() as stack:
            for observer in self.observers:
                stack.enter_context(observer)
            start = self._start()
            for observer in self.observers:
                observer.start(start)
            try:
                finished = trainer.run(interrupts, self._save)
            except AnomalyError as error:
                self._end("diverged", trainer, begun, error=str(error))
                raise AnomalyError(f"{error}; {self._kept()}") from error
            if not finished:
                self._save()
                self._end("interrupted", trainer, begun)
                return self._interrupted(interrupts)
            if trainer.best:
                self.model.load_state_dict(trainer.best)
            scores = measure(self.model, Feed(dataset.X_test, dataset.y_test, place), dataset.y_test, place, self.task)
            numbers = {f"test_{name}": value for name, value in scores.numbers.items()}
            end = self._end("end", trainer, begun, **numbers, test_loss=scores.loss)
        if not self.quiet:
            self._tell_end(trainer, scores)
        say(f"test {summary(scores)}, in {end['seconds']:.1f} s ({end['samples_per_second']:,.0f} samples/s)")
        if self.report_path is not None:
            report.write(self.report_path, self, scores, end)
        if self.save_path is not None and not self.quiet:
            say(f"saved to {self.save_path}")
        return 0

    def _tell_end(self, trainer: Trainer, scores: Scores) -> None:
        """Print which epoch was the best, and the scores in detail."""
        best, done = best_epoch(self.progress.history), self.progress.epoch
        if best:
            stalled = f"stopped after {done}, as none was better for {done - best}; " if trainer.stalled() else ""
            say(f"{stalled}epoch {best} of {done} had the lowest validation loss; its values are used")
        for line in details(scores, self.dataset.y_test, self.description):
            say(line)

    def _save(self) -> None:
        """Save the run, if a file is named."""
        if self.save_path is not None:
            models.save(
                self.save_path,
                self.model,
                self.optimizer,
                self.scale,
                self.config,
                self.description,
                self.progress,
                self.data_dir,
                self.fingerprint,
                self.folder,
                self.trainer.best,
            )

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

    def _start(self) -> Record:
        """Return the first record of the run."""
        config, dataset = self.config, self.dataset
        return {
            "event": "start",
            "agrad": agrad.__version__,
            "backend": self.place.backend.name,
            "backend_version": self.place.backend.version,
            "device": self.place.device_name,
            **config.as_metadata(),
            "dataset": dataset.name,
            "features": dataset.n_features,
            **({"classes": dataset.n_outputs} if dataset.task == "classification" else {}),
            "outputs": dataset.n_outputs,
            "train_examples": int(self.rows.shape[0]),
            "validation_examples": int(self.held.shape[0]),
            "test_examples": int(dataset.y_test.shape[0]),
            "parameters": sum(int(tensor.size) for tensor in self.model.parameters()),
            "batches": self.batches,
            "epoch": self.progress.epoch,
            "batch": self.progress.batch,
            "step": self.progress.step,
        }

    def _end(self, event: str, trainer: Trainer, begun: float, **more: Any) -> Record:
        """Send the last record of the run to the observers, and return it."""
        record = {
            "event": event,
            "backend": self.place.backend.name,
            "device": self.place.device_name,
            "epoch": self.progress.epoch,
            "step": self.progress.step,
            "seconds": time.perf_counter() - begun,
            "samples_per_second": trainer.samples / trainer.seconds if trainer.seconds else 0.0,
            **more,
        }
        for observer in self.observers:
            observer.end(record)
        return record


def run_train(args: argparse.Namespace) -> int:
    """Run ``agrad train`` with parsed options; return the exit code."""
    with chosen(args.backend, args.device) as place:
        return Run(args, place).go()
