"""`Trainer`: fit, evaluate and predict with a model, a loss and an optimizer."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim, parallel, tree
from agrad.backends.base import DeviceSpec
from agrad.data.files import StrPath
from agrad.errors import AgradError, AnomalyError, ConfigurationError, DataError, OperandError
from agrad.expect import integer
from agrad.train import arguments, examples, saving
from agrad.train.batches import Feed, place_of
from agrad.train.display import ProgressBar
from agrad.train.history import History, Record
from agrad.train.hooks import Callback
from agrad.train.interrupts import Interrupts
from agrad.train.loop import INTERVAL, Loop, Sums, evaluating
from agrad.train.metrics import named, streaming
from agrad.train.progress import Progress
from agrad.train.ranks import RankStep
from agrad.train.step import Precision, Step, called, check_precision, parts_of, raw, step_of, threshold_of, weighted
from agrad.train.streaming import Metric
from agrad.train.threads import Choice

Loss = Callable[[Any, Any], Any]

CUT = "the last fit ended by an error within a step, so the state has no position. Load a saved run first."


class Trainer:
    """Trains, evaluates and applies a model.

    Data are arrays of any backend, or batches. The trainer moves them to the backend of the model and casts
    floating-point arrays to its dtype.

    Parameters
    ----------
    model : Module
        The model. If an input is a tuple, list or dict, each entry is an argument of the call.
    loss : function or Module
        Function of (output, target) that returns a scalar, such as ``nn.CrossEntropyLoss()``.
    optimizer : Optimizer
        Optimizer of the parameters of the model.
    metrics : sequence of str or function, or dict
        Names ("accuracy", "mse", "r2", "f1", "roc_auc" and the others of `agrad.train.metrics`), or functions of
        (targets, outputs), NumPy arrays of all examples, that return a number. A dict defines their names. The metrics
        of `agrad.train.metrics`, except for `roc_auc`, are also measured in training; other ones on validation examples
        and in `evaluate`.
    callbacks : sequence of Callback
        Callbacks of each `fit`, called in this order. Callbacks that save are called last, and first at the end.
    jit : bool or None
        If True, compile the step with `agrad.jit`. By default, compile it if that is faster. A step that cannot be
        traced runs uncompiled, with a warning.
    precision : {"float32", "tf32", "bfloat16", "float16"}
        Precision of float32 matrix products in training, as in `agrad.jit`; float16 with a loss scale.
    threads : {"auto"} or int or None
        Number of threads of NumPy matrix products.
    seed : int
        Seed of the order of examples and of the validation split.

    Attributes
    ----------
    history : History
        The records of the finished epochs.

    Raises
    ------
    OperandError
        If an argument has another type.
    ConfigurationError
        If an option is out of range, a metric is not known, or the optimizer has parameters of another model.

    Examples
    --------
    >>> agrad.nn.manual_seed(0)
    >>> X = np.linspace(-1.0, 1.0, 64)[:, None]
    >>> model = agrad.nn.Linear(1, 1)
    >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters(), lr=0.2), ["r2"])
    >>> history = trainer.fit(X, 3 * X + 1, epochs=20, progress=False)
    >>> trainer.evaluate(X, 3 * X + 1)["r2"] > 0.99
    True
    >>> trainer.predict(np.array([[2.0]])).round(1)
    array([[7.]], dtype=float32)
    """

    rate_name = "learning rate"
    """The name of the learning rate in messages."""

    signals: tuple[int, ...] = (signal.SIGINT,)
    """The signals that end `fit` between two steps."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: optim.Optimizer,
        metrics: Sequence[Any] | Mapping[str, Any] | str = (),
        callbacks: Iterable[Callback] = (),
        *,
        jit: bool | None = None,
        precision: Precision = "float32",
        threads: str | int | None = "auto",
        seed: int = 0,
    ) -> None:
        optimizer = getattr(optimizer, "inner", optimizer)  # of a ParallelOptimizer
        arguments.check(model, loss, optimizer)
        self.model = model
        self.loss: Loss = loss
        self.optimizer = optimizer
        self.callbacks: list[Callback] = list(callbacks)
        for callback in self.callbacks:
            if not isinstance(callback, Callback):
                raise OperandError(f"callbacks must be Callback objects, got {type(callback).__name__}")
        self.jit: bool | None = jit
        self.precision: str = precision
        self.threads: str | int | None = threads
        self.seed: int = seed
        first = optimizer.parameters[0]
        self.place: DeviceSpec = place_of(first)
        self.dtype: str = arguments.real_dtype(first.dtype.name)
        Choice(threads)  # raises for another value
        check_precision(precision, jit, self.place)
        if precision != "float32" and self.dtype != "float32":
            raise ConfigurationError(f"precision={precision!r} requires float32 parameters, got {self.dtype}")
        self.scale: optim.LossScale | None = optim.LossScale(optimizer) if precision == "float16" else None
        self.metrics: dict[str, Any] = named(metrics)
        found = {name: streaming(metric, threshold_of(loss)) for name, metric in self.metrics.items()}
        self.streaming: dict[str, Metric] = {name: metric for name, metric in found.items() if metric is not None}
        self.progress: Progress = Progress()
        self.world: parallel.World = parallel.world()
        self.stopping: bool = False
        self.interrupts: Interrupts | None = None
        """Asked after each step if `fit` should stop; by default one for `signals`."""
        self._data: dict[str, Any] = {}
        self._loop: Loop | None = None
        self._cut = False  # True after a fit that ended within a step
        self._steps: dict[str, Step | RankStep] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of pickles, without compiled steps, which the next `fit` makes again."""
        return {**vars(self), "_steps": {}, "world": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, world=parallel.world())

    @property
    def history(self) -> History:
        """The records of the finished epochs."""
        return History(self.progress.history)

    @property
    def rate(self) -> float:
        """The learning rate of the next step, of the first group of parameters."""
        return float(self.optimizer.settings(0)["lr"])

    def stop(self) -> None:
        """Have `fit` end after this epoch, for callbacks.

        Examples
        --------
        >>> stop = agrad.train.LambdaCallback(on_epoch_end=lambda trainer, record: trainer.stop())
        >>> model = agrad.nn.Linear(1, 1)
        >>> optimizer = agrad.optim.SGD(model.parameters())
        >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, callbacks=[stop])
        >>> len(trainer.fit(np.zeros((4, 1)), np.zeros((4, 1)), epochs=9, progress=False))
        1
        """
        self.stopping = True

    # ------------------------------------------------------------------ training

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        validation: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | str | None = None,
        progress: bool = True,
        resume: StrPath | bool | None = None,
    ) -> History:
        """Train, and return the history of all epochs.

        Ctrl-C stops training after the current step, a second one immediately. Another call trains more epochs.

        Parameters
        ----------
        X : array, pytree of arrays, or iterable of batches
            Examples along the first axis, or batches (x, y), such as a `DataLoader`, read once per epoch.
        y : array or pytree of arrays
            The targets; None for batches.
        epochs : int
            Number of epochs to train; with `resume`, of the whole run.
        batch_size : int
            Number of examples per step.
        validation : float, pair or iterable, optional
            Fraction of the examples to hold out (of each class, if `y` contains class labels), a pair (X, y), or
            batches. They are evaluated after each epoch.
        shuffle : bool
            If False, keep the order of the data.
        class_weight : dict or "balanced", optional
            Weight of each class label; "balanced" weights all classes to the same sum.
        progress : bool
            If False, print nothing.
        resume : str, path or True, optional
            File of `save` or `Checkpoint` to continue from, bit for bit if data and options are the same; True to
            continue from the current state of this trainer.

        Returns
        -------
        History
            A record for each finished epoch of the run.

        Raises
        ------
        AnomalyError
            If a loss or a parameter is not finite. The message includes the step.
        ShapeError, DtypeError, DataError, OperandError, ConfigurationError
            If data or options are not valid. Nothing is trained then.

        Examples
        --------
        >>> model = agrad.nn.Linear(1, 1)
        >>> optimizer = agrad.optim.SGD(model.parameters(), lr=0.1)
        >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer)
        >>> X, y = np.ones((10, 1)), np.zeros((10, 1))
        >>> history = trainer.fit(X, y, epochs=5, batch_size=4, validation=0.2, progress=False)
        >>> len(history), history[-1]["step"]
        (5, 10)
        >>> history[-1]["validation_loss"] < history[0]["validation_loss"]
        True
        """
        integer("Trainer.fit", "epochs", epochs)
        integer("Trainer", "batch_size", batch_size)
        source, held = self._source(X, y, batch_size, validation, shuffle)
        weights = arguments.class_weights(class_weight, y)
        loss = self.loss if weights is None else weighted(self.loss, weights, self.place, self.dtype)
        if resume not in (None, False, True):
            self.load(resume)  # type: ignore[arg-type]
        self._check_position(source, batch_size, bool(resume))
        self._cut = False
        self._data = {"examples": source.examples, "batch_size": batch_size, "seed": self.seed}
        key = repr(weights)
        if key not in self._steps:
            self._steps = {key: self._step(loss, weights)}
        callbacks = sorted(self.callbacks, key=lambda callback: callback.saves)
        if self.world.rank:
            callbacks, progress = [callback for callback in callbacks if not callback.first_rank_only], False
        if progress and not any(isinstance(callback, ProgressBar) for callback in callbacks):
            callbacks = [ProgressBar(), *callbacks]
        validate = None if held is None else lambda: self._measure(held)
        goal = epochs if resume else self.progress.epoch + epochs
        loop = Loop(self, source, goal, self._steps[key], callbacks, validate)
        self._agree(loop, batch_size=batch_size, shuffle=shuffle, class_weight=weights)
        if not self.model.training:
            self.model.train()
        return self._run(loop, bool(resume))

    def _run(self, loop: Loop, resumed: bool) -> History:
        """Run a loop between the first and the last calls of its callbacks."""
        begun, self.stopping = time.perf_counter(), False
        start = {
            "event": "start",
            "agrad": agrad.__version__,
            "backend": self.place.backend.name,
            "backend_version": self.place.backend.version,
            "device": self.place.device_name,
            "parameters": sum(int(tensor.size) for tensor in self.model.parameters()),
            "examples": loop.source.examples,
            **self._position(loop),
            "resumed": resumed,
        }
        record: Record = {"event": "failed"}
        with self.interrupts or Interrupts(self.signals) as stopped:
            self._loop = loop
            try:
                loop.begin(start)
                record["event"] = "end" if loop.run(stopped) else "interrupted"
            except AnomalyError as error:
                record |= {"event": "diverged", "error": str(error)}
                raise
            except BaseException as error:
                record["error"] = traceback.format_exception_only(error)[-1].strip()
                raise
            finally:
                loop.leave()
                self._loop, self._cut = None, not loop.exact
                rate = loop.samples / loop.seconds if loop.seconds else 0.0
                record |= {"backend": start["backend"], "device": start["device"], **self._position(loop)}
                seconds = time.perf_counter() - begun
                record |= {"seconds": seconds, "samples_per_second": rate, "ranks": self.world.size}
                _end(self, sorted(loop.begun, key=lambda callback: not callback.saves), record)
        history = self.history
        history.interrupted = record["event"] == "interrupted"
        history.stopped = not history.interrupted and self.progress.epoch < loop.epochs
        return history

    def _step(self, loss: Loss, weights: dict[int, float] | None) -> Step | RankStep:
        """Return the step of this process, or of all ranks."""
        if self.world.size > 1:
            return RankStep(self, loss, weights, self.jit)
        made = step_of(self.model, loss, self.optimizer, self.scale, list(self.streaming.values()))
        return Step(made, self.place, self.jit, self.precision)

    def _agree(self, loop: Loop, **options: Any) -> None:
        """Raise ``ConfigurationError`` if ranks disagree; send the state of rank 0."""
        shapes = {name: (value.shape, str(value.dtype)) for name, value in self.model.state_dict().items()}
        facts = {"seed": self.seed, "examples": loop.source.examples, "backend": self.place.backend.name, **options}
        facts |= {"optimizer": self.optimizer, "jit": self.jit, "precision": self.precision, "metrics": [*self.metrics]}
        self.world.check(**facts, parameters=shapes, **self._position(loop))
        self.world.share(self.model, self.optimizer, *([] if self.scale is None else [self.scale]))

    def _position(self, loop: Loop) -> Record:
        progress = self.progress
        names = {"epoch": progress.epoch, "batch": progress.batch, "step": progress.step}
        return {"epochs": loop.epochs, "batches": loop.batches, **names}

    def _source(
        self, X: Any, y: Any, batch_size: int, validation: Any, shuffle: bool
    ) -> tuple[examples.Arrays | examples.Batches, Any]:
        """Return the batches to train on, and those to validate on or None."""
        held: Any = None
        if isinstance(X, examples.Arrays):  # of the estimators of agrad.sklearn
            return X, held
        if y is None and not examples.is_examples(X):
            source: Any = examples.Batches(X, self.place, self.dtype, world=self.world)
            if isinstance(validation, float | int) and validation:
                raise ConfigurationError(
                    "validation: a fraction requires arrays X and y. Pass batches or (X, y) instead."
                )
            validation = validation or None
        else:
            X, y = examples.pair(X, y, self.dtype)
            feed = Feed((X, y), self.place)
            rows = np.arange(feed.n)
            if isinstance(validation, int | float | np.number | str):
                rows, few = examples.split(y, validation, feed.n, self.seed)
                held, validation = (feed, few) if few.size else None, None
            source = examples.Arrays(feed, rows, batch_size, self.seed, bool(shuffle), self.world)
        if validation is None:
            return source, held
        if isinstance(validation, tuple) and len(validation) == 2:
            names = ("validation[0]", "validation[1]")
            feed = Feed(examples.pair(*validation, self.dtype, names), self.place)
            return source, (feed, np.arange(feed.n))
        return source, examples.Batches(validation, self.place, self.dtype, "validation")

    def _check_position(self, source: Any, batch_size: int, resumed: bool) -> None:
        """Begin the epoch again, unless the run continues in the middle of it."""
        now = {"examples": source.examples, "batch_size": batch_size, "seed": self.seed}
        if not resumed:
            self.progress.begin_epoch()
        elif self._cut:
            raise ConfigurationError(f"resume: {CUT}")
        elif self._data and now != self._data:
            differences = [f"{name} {value} (was {self._data.get(name)})" for name, value in now.items()]
            raise ConfigurationError(f"resume: the run was started with different batches: {', '.join(differences)}")

    # ------------------------------------------------------------------ use

    def evaluate(self, X: Any, y: Any = None, batch_size: int = 1024) -> dict[str, float]:
        """Return loss and metrics of examples.

        Parameters
        ----------
        X : array, pytree of arrays, or iterable of batches
            The examples, or batches (x, y).
        y : array or pytree of arrays
            The targets; None for batches.
        batch_size : int
            Number of examples to process at a time.

        Returns
        -------
        dict of str to float
            "loss", and the metrics by name.

        Examples
        --------
        >>> model = agrad.nn.Linear(1, 1)
        >>> _ = agrad.nn.init.zeros_(model.weight), agrad.nn.init.zeros_(model.bias)
        >>> optimizer = agrad.optim.SGD(model.parameters())
        >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), optimizer, metrics=["mae"])
        >>> trainer.evaluate(np.ones((2, 1)), np.array([[1.0], [3.0]]))
        {'loss': 5.0, 'mae': 2.0}
        """
        integer("Trainer", "batch_size", batch_size)
        if y is None and not examples.is_examples(X):
            return self._measure(examples.Batches(X, self.place, self.dtype))
        feed = Feed(examples.pair(X, y, self.dtype), self.place)
        return self._measure((feed, np.arange(feed.n)), batch_size)

    def _measure(self, held: Any, batch_size: int = 1024) -> dict[str, float]:
        """Return loss and metrics of batches, or of rows of a feed."""
        if isinstance(held, tuple):
            feed, rows = held
            held = examples.Arrays(feed, rows, batch_size, 0, False)
        whole = [name for name in self.metrics if name not in self.streaming]
        sums = Sums(self.streaming, self.place)
        totals: dict[str, list[Any]] = {}
        loss, count = 0.0, 0
        outputs: list[Any] = []
        targets: list[Any] = []
        with evaluating(self.model):
            for x, y, size in held.epoch(0, 0):
                output = called(self.model, x)
                sums.add(self.loss(output, y), parts_of(list(self.streaming.values()), output, y), size)
                count += size
                if whole:
                    outputs.append(tree.map(self._host, output))
                    targets.append(tree.map(self._host, y))
                if len(sums.losses) == INTERVAL:
                    loss += float(np.dot(*sums.read(totals)))
        if not count:
            raise DataError("X must contain at least one batch to evaluate, got none")
        if sums.losses:
            loss += float(np.dot(*sums.read(totals)))
        found = {"loss": loss / count}
        results = sums.results(totals)
        if whole:
            y_pred, y_true = (tree.map(lambda *parts: np.concatenate(parts), *parts) for parts in (outputs, targets))
            results |= {name: float(self.metrics[name](y_true, y_pred)) for name in whole}
        return found | {name: results[name] for name in self.metrics}

    def _host(self, leaf: Any) -> np.ndarray:
        return np.asarray(self.place.backend.to_host(raw(leaf)))

    def predict(self, X: Any, batch_size: int = 1024) -> Any:
        """Return the outputs of the model for examples.

        Parameters
        ----------
        X : array, pytree of arrays, or iterable of batches
            Examples, or batches x or (x, y), of which y is ignored.
        batch_size : int
            Number of examples to process at a time.

        Returns
        -------
        array or pytree of arrays
            Arrays of the backend of the model, with the examples along the first axis.

        Examples
        --------
        >>> model = agrad.nn.Linear(1, 1)
        >>> _ = agrad.nn.init.ones_(model.weight), agrad.nn.init.zeros_(model.bias)
        >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters()))
        >>> trainer.predict(np.array([[1.0], [3.0]]))
        array([[1.],
               [3.]], dtype=float32)
        """
        integer("Trainer", "batch_size", batch_size)
        if examples.is_examples(X):
            X = examples.checked(X, "X", self.dtype)
            examples.length(X, "X")
            batches: Iterable[Any] = Feed(X, self.place).stretches(batch_size)
        else:
            move = examples.Batches(X, self.place, self.dtype).moved
            batches = (move(batch[0] if isinstance(batch, tuple | list) else batch) for batch in X)
        with evaluating(self.model):
            parts = [tree.map(raw, called(self.model, x)) for x in batches]
        if not parts:
            raise DataError("X must contain at least one batch to predict, got none")
        concat = self.place.backend.xp.concat
        return parts[0] if len(parts) == 1 else tree.map(lambda *arrays: concat(arrays, axis=0), *parts)

    # ------------------------------------------------------------------ files

    def save(self, path: StrPath) -> None:
        """Write model, optimizer, callbacks and position to a file, or nothing.

        A callback may save the run at any time. In a method of a callback, `save` first calls the same method of the
        callbacks after it, so that the file has their state too.

        Parameters
        ----------
        path : str or path
            The file, in the format safetensors.

        Raises
        ------
        SaveError
            If it cannot be written.
        ConfigurationError
            If the last call of `fit` ended with an error within a step, or the run diverged.

        Examples
        --------
        >>> import os, tempfile
        >>> model = agrad.nn.Linear(1, 1)
        >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters()))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trainer.save(os.path.join(folder, "run.safetensors"))
        ...     print(os.listdir(folder))
        ['run.safetensors']
        """
        if self._loop is not None:
            self._loop.settle()
        if self._cut:
            raise ConfigurationError(f"Trainer.save: {CUT}")
        if self.world.rank == 0:
            saving.save(self, path, {"data": self._data})
        self.world.note(checkpoint=str(path))

    def load(self, path: StrPath) -> None:
        """Load a file of `save`, from any backend.

        Parameters
        ----------
        path : str or path
            The file.

        Raises
        ------
        DataError
            If it is not such a file, or does not fit the trainer. Nothing is changed then.

        Examples
        --------
        >>> import os, tempfile
        >>> model = agrad.nn.Linear(1, 1)
        >>> trainer = agrad.train.Trainer(model, agrad.nn.MSELoss(), agrad.optim.SGD(model.parameters()))
        >>> weight = model.weight.detach()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trainer.save(os.path.join(folder, "run.safetensors"))
        ...     _ = agrad.nn.init.zeros_(model.weight)
        ...     trainer.load(os.path.join(folder, "run.safetensors"))
        >>> bool((model.weight == weight).all())
        True
        """
        self._data, self._cut = saving.load(self, path).get("data") or {}, False


def _end(trainer: Trainer, callbacks: Sequence[Callback], record: Record) -> None:
    """Tell all callbacks the end, then raise the first error of one of them."""
    failed: AgradError | None = None
    for callback in callbacks:
        try:
            callback.on_fit_end(trainer, record)
        except AgradError as error:
            failed = failed or error
    if failed is not None and record["event"] in ("end", "interrupted"):
        raise failed
