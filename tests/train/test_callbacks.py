"""Callbacks: early stopping, checkpoints, logs, curves, schedulers; and runs that stop and go on to the same bytes."""

import contextlib
import itertools
import json

import numpy as np
import pytest
from refusals import fails
from samples import Stop, blobs, classifier, line, regressor, values

from agrad import nn, optim, train
from agrad.errors import ConfigurationError, DataError, OperandError, SaveError
from agrad.optim import lr_scheduler
from agrad.train import (
    Checkpoint,
    EarlyStopping,
    JSONLogger,
    LambdaCallback,
    LearningCurves,
    ProgressBar,
    Scheduler,
    loop,
)

pytestmark = pytest.mark.needs("safetensors")

X, y = blobs()
LINE = line()


class Script(train.Callback):
    """Gives each epoch the validation loss of a list."""

    def __init__(self, *losses):
        self.losses = losses

    def on_epoch_end(self, trainer, record):
        record["validation_loss"] = record["validation_accuracy"] = self.losses[record["epoch"] - 1]


# -- early stopping --


def test_training_stops_and_the_best_values_come_back():
    kept = {}
    keep = LambdaCallback(on_epoch_end=lambda trainer, record: kept.update({record["epoch"]: values(trainer)}))
    stop = EarlyStopping(patience=2)
    trainer = classifier(callbacks=[Script(3, 2, 1, 1.5, 1.2, 0.1), keep, stop])
    history = trainer.fit(X, y, epochs=6, progress=False)
    assert len(history) == 5 and history.stopped and not history.interrupted
    assert stop.best_epoch == 3 and stop.best == 1
    same = {name for name, value in values(trainer).items() if kept[3][name] == value}
    assert {"0.weight", "3.weight", "0.bias"} <= same
    assert values(trainer)["o.0.m"] == kept[5]["o.0.m"]


@pytest.mark.parametrize(
    ("options", "losses", "epochs"),
    [
        ({"min_delta": 0.5}, (3, 2.9, 2.8), 3),
        ({"mode": "max"}, (3, 2, 1, 4), 3),
        ({"monitor": "validation_accuracy"}, (3, 2, 1, 4), 3),
        ({"monitor": "val_loss"}, (1, 2, 3, 0), 3),
        ({}, (3, float("nan"), float("nan"), 1), 3),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_counts_as_better(options, losses, epochs):
    trainer = classifier(callbacks=[Script(*losses), EarlyStopping(patience=2, **options)])
    assert len(trainer.fit(X, y, epochs=len(losses), progress=False)) == epochs


def test_an_entry_that_is_not_there_is_named():
    match, wrong = "monitor must be one of loss, accuracy.*, got 'val_accuracy'", EarlyStopping("val_accuracy")
    fails(ConfigurationError, match, classifier(callbacks=[wrong]).fit, X, y, progress=False)
    fails(ConfigurationError, "mode must be one of 'auto', 'min', 'max'", EarlyStopping, mode="lower")
    fails(ConfigurationError, "patience must be an integer of at least 1", EarlyStopping, patience=0)


# -- stopped and resumed --


def stopping(path, *more, **options):
    nn.manual_seed(0)
    return classifier(callbacks=[*more, EarlyStopping(patience=9), Checkpoint(path)], threads=None, **options)


def test_a_stopped_run_goes_on_to_the_same_bytes(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "INTERVAL", 3)
    given = {"epochs": 2, "batch_size": 8, "validation": 0.2, "progress": False}
    whole = stopping(tmp_path / "whole.st")
    reference = whole.fit(X, y, **given)
    path = tmp_path / "stopped.st"
    first = stopping(path, Stop(11)).fit(X, y, **given)
    assert first.interrupted and len(first) == 1
    second = stopping(path)
    history = second.fit(X, y, resume=path, **given)
    assert values(second) == values(whole)
    keys = ("epoch", "step", "loss", "accuracy", "lr", "validation_loss", "validation_accuracy")
    assert [[r[key] for key in keys] for r in history] == [[r[key] for key in keys] for r in reference]


def saving(path, method, n):
    """Return a callback that saves the run at the n-th call of a method."""
    calls = itertools.count(1)
    return LambdaCallback(**{method: lambda trainer, *args: next(calls) == n and trainer.save(path)})


def scheduled(*more):
    """A trainer whose callbacks after the first one change at each step and epoch."""
    trainer = regressor(threads=None)
    rates = lr_scheduler.ExponentialLR(trainer.optimizer, gamma=0.9)
    trainer.callbacks = [*more, Scheduler(rates, every="step"), EarlyStopping(patience=9)]
    return trainer


SAVED_AT = {"on_fit_begin": [1], "on_epoch_begin": [1, 2], "on_step_end": [2, 6, 7, 11, 12], "on_losses": [1, 2, 4]}


@pytest.mark.parametrize(("method", "calls"), [*SAVED_AT.items(), ("on_epoch_end", [1, 2])])
def test_a_run_goes_on_from_wherever_a_callback_saved_it(tmp_path, monkeypatch, method, calls):
    X, y = line(44)
    monkeypatch.setattr(loop, "INTERVAL", 4)
    given = {"epochs": 2, "batch_size": 8, "validation": (X[:9], y[:9]), "progress": False}
    whole = scheduled()
    reference = whole.fit(X, y, **given)
    keys = [key for key in reference[0] if "second" not in key]
    for n in calls:
        path = tmp_path / f"{n}.st"
        first, again = scheduled(saving(path, method, n)), scheduled(LambdaCallback())
        first.fit(X, y, **given)
        history = again.fit(X, y, resume=path, **given)
        for trainer in (first, again):
            assert values(trainer) == values(whole)
            for mine, its in zip(trainer.callbacks[1:], whole.callbacks, strict=True):
                np.testing.assert_equal(mine.state_dict(), its.state_dict())
            assert trainer.progress.step == whole.progress.step == 12
        assert [[r[k] for k in keys] for r in history] == [[r[k] for k in keys] for r in reference]


def test_after_an_error_a_run_is_exact_or_not_saved(tmp_path):
    given = {"epochs": 2, "batch_size": 10, "progress": False}
    whole = classifier(threads=None)
    whole.fit(X, y, **given)

    between = classifier(callbacks=[LambdaCallback(on_step_end=lambda trainer: 1 / 0)], threads=None)
    fails(ZeroDivisionError, "division by zero", between.fit, X, y, **given)
    between.save(tmp_path / "between.st")
    again = classifier(threads=None)
    again.fit(X, y, resume=tmp_path / "between.st", **given)
    assert values(again) == values(whole)

    within = classifier(threads=None, jit=False)
    within.optimizer.step = lambda: 1 / 0
    fails(ZeroDivisionError, "division by zero", lambda: within.fit(X, y, **given))
    fails(ConfigurationError, "the last fit ended by an error within a step", within.save, tmp_path / "within.st")
    fails(ConfigurationError, "Load a saved run first", lambda: within.fit(X, y, resume=True, **given))
    within.load(tmp_path / "between.st")
    within.save(tmp_path / "within.st")
    assert (tmp_path / "within.st").read_bytes() == (tmp_path / "between.st").read_bytes()


def test_two_calls_train_as_one_does_and_true_goes_on_in_the_middle():
    once, twice, halves = (classifier(callbacks=[Stop(n)], threads=None) for n in (99, 99, 8))
    given = {"batch_size": 10, "progress": False}
    once.fit(X, y, epochs=3, **given)
    twice.fit(X, y, epochs=1, **given)
    assert len(twice.fit(X, y, epochs=2, **given)) == 3
    assert values(twice) == values(once)
    assert halves.fit(X, y, epochs=3, **given).interrupted
    halves.fit(X, y, epochs=3, resume=True, **given)
    assert values(halves) == values(once)
    fails(ConfigurationError, "batch_size 5", lambda: halves.fit(X, y, epochs=4, batch_size=5, resume=True))


def test_an_early_stopped_run_stays_stopped(tmp_path):
    script = Script(1, 2, 3, 4, 5)
    given = {"epochs": 5, "progress": False}
    path = tmp_path / "run.st"
    classifier(callbacks=[script, EarlyStopping(patience=1), Checkpoint(path)]).fit(X, y, **given)
    again = classifier(callbacks=[script, EarlyStopping(patience=1)])
    assert len(again.fit(X, y, resume=path, **given)) == 2
    assert len(again.fit(X, y, **given)) == 4


def test_files_that_do_not_fit_change_nothing(tmp_path):
    path, other = tmp_path / "run.st", tmp_path / "other.st"
    classifier(callbacks=[EarlyStopping(), Checkpoint(path)]).fit(X, y, progress=False)
    trainer = classifier(seed=5)
    before = values(trainer)
    fails(DataError, "the state of the callback EarlyStopping, which this trainer has not", lambda: trainer.load(path))
    nn.checkpoint.save(other, {}, {"format": 3})
    fails(DataError, r"expected a run that Trainer.save wrote, found format 3", lambda: trainer.load(other))
    regressor().save(other)
    fails(DataError, "does not fit this trainer", lambda: trainer.load(other))
    assert values(trainer) == before
    nowhere = classifier(callbacks=[Checkpoint(tmp_path / "nowhere" / "x.st")])
    fails(SaveError, "nowhere", nowhere.fit, X, y, progress=False)


def test_the_best_epoch_is_in_the_file(tmp_path):
    path = tmp_path / "best.st"
    script = Script(3, 1, 2)
    best = Checkpoint(path, save_best_only=True)
    each = Checkpoint(tmp_path / "at {epoch}.st")
    classifier(callbacks=[best, each, script]).fit(X, y, epochs=3, progress=False)
    trainer = classifier(callbacks=[Checkpoint(path), Checkpoint(path)])
    trainer.load(path)
    assert trainer.history[-1]["epoch"] == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["at 1.st", "at 2.st", "at 3.st", "best.st"]
    assert path.read_bytes()[:8] == (tmp_path / "at 2.st").read_bytes()[:8]


# -- logs, curves, schedulers --


def test_the_log_holds_a_start_an_epoch_each_and_an_end(tmp_path):
    def records(*more):
        callbacks = [JSONLogger(tmp_path / "log.jsonl"), *more]
        with contextlib.suppress(ZeroDivisionError):
            regressor(callbacks=callbacks).fit(*line(), epochs=2, progress=False)
        return [json.loads(text) for text in (tmp_path / "log.jsonl").read_text().splitlines()]

    first, *epochs, last = records()
    assert (first["event"], first["parameters"], last["event"], last["step"]) == ("start", 4, "end", 4)
    assert [record["event"] for record in epochs] == ["epoch", "epoch"]
    assert records(Stop(1))[-1]["event"] == "interrupted"
    last = records(LambdaCallback(on_epoch_end=lambda trainer, record: 1 / 0))[-1]
    assert (last["event"], last["error"]) == ("failed", "ZeroDivisionError: division by zero")


@pytest.mark.needs("matplotlib")
def test_the_curves_are_a_picture(tmp_path):
    path = tmp_path / "curves.png"
    trainer = regressor(callbacks=[LearningCurves(path, title="a $ line")])
    history = trainer.fit(*LINE, epochs=2, validation=0.2, progress=False)
    assert path.read_bytes().startswith(b"\x89PNG")
    history.plot(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text().startswith("<?xml")
    trainer.callbacks = [LearningCurves(tmp_path / "nowhere" / "x.png")]
    fails(SaveError, "nowhere", trainer.fit, *LINE, progress=False)
    fails(ConfigurationError, r"the file name must end in .png, .svg, .pdf", history.plot, tmp_path / "curves.txt")


@pytest.mark.parametrize(
    ("every", "rates"), [("epoch", [0.02, 0.01, 0.005]), ("step", [0.02 * 0.5**5, 0.02 * 0.5**11])]
)
def test_a_scheduler_is_stepped(every, rates):
    trainer = classifier()
    trainer.callbacks.append(Scheduler(lr_scheduler.StepLR(trainer.optimizer, 1, gamma=0.5), every))
    history = trainer.fit(X, y, epochs=len(rates), batch_size=10, progress=False)
    assert history.column("lr") == pytest.approx(rates)


def test_a_plateau_is_seen():
    trainer = classifier(callbacks=[Script(1, 2, 3, 4)])
    trainer.callbacks.append(Scheduler(lr_scheduler.ReduceLROnPlateau(trainer.optimizer, patience=0)))
    assert trainer.fit(X, y, epochs=4, progress=False).column("lr") == pytest.approx([0.02, 0.02, 2e-3, 2e-4])
    fails(OperandError, "got Constant", Scheduler, optim.Constant(0.1))


def test_functions_are_called_in_order():
    calls = []
    names = ("on_fit_begin", "on_epoch_begin", "on_step_end", "on_losses", "on_epoch_end", "on_fit_end")
    hooks = {name: lambda *args, name=name: calls.append(name) for name in names}
    regressor(callbacks=[LambdaCallback(**hooks)]).fit(*LINE, epochs=1, batch_size=32, progress=False)
    assert calls == [*names[:3], "on_step_end", *names[3:]]
    fails(ConfigurationError, "got on_batch=1", lambda: LambdaCallback(on_batch=1))


@pytest.mark.needs("rich")
def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    classifier(callbacks=[ProgressBar(), Stop(3)]).fit(X, y, epochs=2)
    out = capsys.readouterr().out
    assert "stopped after step 3 (epoch 2, batch 1)" in out and "epoch 1/2  loss " in out
