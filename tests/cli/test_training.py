"""The training loop: one result whatever the backend and wherever it is stopped, and no step with a bad loss kept."""

import dataclasses
import json
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cli_files import tensors
from refusals import fails, refuses

import agrad
from agrad import data
from agrad.backends import selected
from agrad.backends.base import DeviceSpec
from agrad.cli import config as configs
from agrad.cli import models, options, sources, tasks
from agrad.cli import train as trains
from agrad.errors import AnomalyError, ConfigurationError, DataError
from agrad.train import Callback, batches, loop
from agrad.train.batches import Feed
from agrad.train.interrupts import Interrupts

pytestmark = pytest.mark.needs("safetensors")

BATCHES = 10  # of the blobs, at the batch size in SMALL
SMALL = (
    *("--hidden", "8,6", "--batch-size", "7", "--dropout", "0.2"),
    *("--schedule", "cosine", "--lr", "0.01", "--quiet"),
)
NO_DROPOUT = ("--dropout", "0")


@pytest.fixture(scope="module")
def blobs(tmp_path_factory):
    """A file with three classes of 4 features: 66 examples to train on and 15 to test with."""
    rng = np.random.default_rng(5)
    y = np.arange(81) % 3
    X = rng.normal(size=(81, 4)) + 2.5 * np.eye(3, 4)[y]
    path = tmp_path_factory.mktemp("blobs") / "blobs.npz"
    np.savez(path, X=X[:66], y=y[:66], X_test=X[66:], y_test=y[66:])
    return str(path)


@pytest.fixture(scope="module")
def saved(blobs):
    """Return a model of one epoch."""
    path = f"{blobs}.st"
    trained("--data", blobs, *SMALL, "--epochs", "1", "--save", path)
    return path


class Collector(Callback):
    """Keeps everything that it is told."""

    def __init__(self):
        self.losses, self.records = [], []

    def on_losses(self, trainer, losses, record):
        self.losses += losses.tolist()

    def on_fit_begin(self, trainer, record):
        self.records.append(record)

    on_epoch_end = on_fit_end = on_fit_begin

    def epochs(self):
        return [record for record in self.records if record["event"] == "epoch"]


def make(*words, observers=(), place=None):
    args = options.parser().parse_args(["train", *words])
    here = selected()
    return trains.Run(args, place or DeviceSpec(here.backend, here.device), observers)


def trained(*words, place=None):
    """A run that has ended, its exit code, and what an observer saw of it."""
    seen = Collector()
    run = make(*words, observers=(seen,), place=place)
    return run, run.go(), seen


def stop_after(monkeypatch, steps):
    """Have the next runs hear Ctrl-C after so many steps (None: not at all)."""

    class Counted(Interrupts):
        asked = 0

        def __call__(self):
            self.asked += 1
            if steps is not None and self.asked >= steps:
                self.received = signal.SIGINT
            return self.received is not None

    monkeypatch.setattr(trains, "Interrupts", Counted)


# -- one seed, one curve --


def test_a_seed_gives_the_same_losses_on_every_backend(backend, blobs):
    words = ("--data", blobs, *SMALL, "--dtype", "float64", "--epochs", "2", "--lr", "0.03")
    _, _, here = trained(*words)
    with agrad.use_backend("numpy"):
        _, _, reference = trained(*words)
    assert len(here.losses) == 20
    np.testing.assert_allclose(here.losses, reference.losses, rtol=1e-9)
    assert np.mean(here.losses[-BATCHES:]) < 0.95 * np.mean(here.losses[:BATCHES])
    for one, other in zip(here.epochs(), reference.epochs(), strict=True):
        assert one["lr"] == other["lr"] and one["loss"] == pytest.approx(other["loss"], rel=1e-9)


def test_batches_gathered_on_the_host_are_the_same_ones(backend, blobs, monkeypatch):
    words = ("--data", blobs, *SMALL, *NO_DROPOUT, "--epochs", "2", "--validation", "0.2")
    _, _, resident = trained(*words)
    monkeypatch.setattr(batches, "free_bytes", lambda backend, device: 1000)
    run, _, streamed = trained(*words)
    assert not Feed((run.dataset.X_train, run.dataset.y_train), run.place).resident
    assert streamed.losses == resident.losses
    assert streamed.epochs()[-1]["validation_loss"] == resident.epochs()[-1]["validation_loss"]


def test_a_set_is_resident_where_it_takes_at_most_its_share(monkeypatch):
    here = DeviceSpec(selected().backend, None)
    X, y = np.zeros((100, 3)), np.zeros(100, dtype=np.int64)
    for free, resident in (
        (2 * (X.nbytes + y.nbytes), True),
        (2 * (X.nbytes + y.nbytes) - 1, False),
        (None, True),
    ):
        monkeypatch.setattr(batches, "free_bytes", lambda backend, device, free=free: free)
        assert Feed((X, y), here).resident is resident


# -- what the numbers are --


def test_losses_are_read_once_an_interval_and_never_in_a_step(blobs, monkeypatch):
    reads = []
    here = selected()

    def to_host(array):
        reads.append(array)
        return here.backend.to_host(array)

    monkeypatch.setattr(loop, "INTERVAL", 4)
    monkeypatch.setattr(loop, "SECONDS", 1e9)
    place = DeviceSpec(dataclasses.replace(here.backend, to_host=to_host), here.device)
    run = make("--data", blobs, *SMALL, "--epochs", "2", place=place)
    steps, inside = loop.Loop._step, []

    def step(self, *batch):
        before = len(reads)
        steps(self, *batch)
        inside.append(len(reads) - before)

    monkeypatch.setattr(loop.Loop, "_step", step)
    run.go()
    assert inside == [0] * 20
    # 4 + 4 + 2 steps an epoch, losses and hits at each; whether parameters are finite; and the logits of the test part
    assert len(reads) == 2 * (3 * 2 + 1) + 1


def test_the_validation_part_is_held_out_of_training(blobs):
    run, _, seen = trained("--data", blobs, *SMALL, "--epochs", "2", "--validation", "0.25")
    assert sorted([*run.rows, *run.held]) == list(range(66))
    assert np.bincount(run.dataset.y_train[run.held]).tolist() == [6, 6, 6]
    X, y = run.dataset.X_train[run.held], run.dataset.y_train[run.held]
    held = tasks.measure(run.model, X, y, run.place, run.description)
    assert seen.epochs()[-1]["validation_loss"] == pytest.approx(held.loss, rel=1e-6)
    assert seen.epochs()[-1]["validation_accuracy"] == held.numbers["accuracy"]
    assert run.model.training


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("constant", 0.01, 0.01),
        ("cosine", 0.01, 0.01 * 0.000247),
        ("step", 0.01, 1e-4),
        ("exponential", 0.01, 1e-4 * 1.047),
        ("warmup", 0.002, 2.47e-6),
    ],
)
def test_the_rate_follows_the_schedule(name, first, last):
    config = configs.resolve({"schedule": name, "lr": 0.01, "epochs": 10})
    rates = [models.schedule_for(config, BATCHES)(step) for step in range(10 * BATCHES)]
    assert [rates[0], rates[-1]] == pytest.approx([first, last], rel=0.01)
    assert rates[4:] == sorted(rates[4:], reverse=True) and 0.008 < rates[4] < 0.011


SIXTEEN = ("--hidden", "16", "--batch-size", "11", "--quiet")


@pytest.mark.parametrize(
    ("activation", "optimizer"), [("relu", "adam"), ("tanh", "adamw"), ("sigmoid", "sgd"), ("gelu", "sgd")]
)
def test_every_network_and_optimizer_learns(blobs, activation, optimizer):
    words = ("--data", blobs, *SIXTEEN, "--epochs", "20", "--lr", "0.1" if optimizer == "sgd" else "0.02")
    _, code, seen = trained(*words, "--activation", activation, "--optimizer", optimizer, "--weight-decay", "1e-3")
    assert code == 0 and seen.records[-1]["test_accuracy"] >= 0.8


def test_options_change_the_numbers(blobs):
    words = ("--data", blobs, *SIXTEEN, "--epochs", "2")
    options = ((), ("--weight-decay", "0.1"), ("--dropout", "0.3"), ("--seed", "1"), ("--hidden", "none"))
    runs = [trained(*words, *option) for option in options]
    assert len({tuple(seen.losses) for *_, seen in runs}) == len(options)
    assert trained(*words, "--seed", "0")[2].losses == runs[0][2].losses
    assert [parameter.shape for parameter in runs[-1][0].model.parameters()] == [(4, 3), (3,)]


# -- stopped and resumed --


def test_a_run_stopped_after_every_few_steps_goes_on_to_the_same_bytes(blobs, tmp_path, monkeypatch):
    whole, stopped = str(tmp_path / "whole.st"), str(tmp_path / "stopped.st")
    words = ("--data", blobs, *SMALL, "--epochs", "2", "--validation", "0.2", "--optimizer", "sgd")
    reference = trained(*words, "--save", whole)[2]
    stop_after(monkeypatch, 7)
    parts = [trained(*words, "--save", stopped)]
    while parts[-1][1] == 130:
        assert parts[-1][2].records[-1]["event"] == "interrupted"
        parts.append(trained("--resume", stopped, "--quiet"))
    assert parts[-1][1] == 0 and len(parts) > 2
    assert tensors(stopped) == tensors(whole)
    assert [loss for *_, seen in parts for loss in seen.losses] == reference.losses


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("label", "x"), ("dtype", "float64"), ("hidden", "8"), ("activation", "tanh"), ("batch-size", "8")),
        *(("lr", "0.02"), ("optimizer", "sgd"), ("weight-decay", "0.1"), ("dropout", "0.1"), ("schedule", "step")),
        *(("seed", "1"), ("validation", "0.2")),
    ],
)
def test_resume_refuses_another_setting_and_names_it(saved, name, value):
    words = ("--resume", saved, "--epochs", "2", f"--{name}")
    fails(ConfigurationError, rf"--{name} {value} conflicts with --resume", make, *words, value)
    same = {"hidden": "8,6", "batch-size": "7", "dropout": "0.2", "schedule": "cosine", "lr": "0.01"}.get(name)
    if same is not None:
        make(*words, same)


def test_resume_refuses_other_data_and_finished_runs(blobs, saved, tmp_path):
    for more, message in (((), "has completed 1 of 1 epochs"), (("--epochs", "1"), "above 1")):
        fails(ConfigurationError, message, make, "--resume", saved, *more)
    other, arrays = str(tmp_path / "other.npz"), dict(np.load(blobs))
    words = ("--resume", saved, "--epochs", "3", "--data", other)
    np.savez(other, **arrays)
    make(*words)
    arrays["X"][3, 1] += 0.5
    np.savez(other, **arrays)
    fails(DataError, "not the data that the run was started on", make, *words)


# -- a run that goes wrong --


def poison(monkeypatch, at):
    """Have the batch of the step numbered `at`, counted from 1, hold a NaN."""
    batch, count = Feed.batch, [0]

    def poisoned(self, *args):
        X, y = batch(self, *args)
        count[0] += 1
        return (X * float("nan"), y) if count[0] == at else (X, y)

    monkeypatch.setattr(Feed, "batch", poisoned)


@pytest.mark.parametrize("at", [BATCHES + 1, 2 * BATCHES])
def test_a_nan_loss_stops_the_run_and_keeps_the_last_good_state(backend, blobs, tmp_path, monkeypatch, at):
    good, path = str(tmp_path / "good.st"), str(tmp_path / "model.st")
    words = ("--data", blobs, *SMALL, *NO_DROPOUT, "--schedule", "constant")
    trained(*words, "--epochs", "1", "--save", good)
    monkeypatch.setattr(loop, "INTERVAL", 4)
    poison(monkeypatch, at)
    seen = Collector()
    run = make(*words, "--epochs", "3", "--save", path, observers=(seen,))
    where = rf"the loss is nan at step {at} \(epoch 2, batch {at - BATCHES} of {BATCHES}\)"
    fails(AnomalyError, rf"{where}.*{path} holds the last good state, after epoch 1", run.go)
    assert tensors(path) == tensors(good)
    assert seen.records[-1]["event"] == "diverged" and f"step {at}" in seen.records[-1]["error"]


def test_a_run_without_a_good_state_leaves_what_stood_there(blobs, tmp_path, monkeypatch):
    path = tmp_path / "model.st"
    path.write_bytes(b"")
    words = ("--data", blobs, "--save", str(path))
    straight = ("--hidden", "none", "--batch-size", "66", "--epochs", "1", "--quiet", "--optimizer", "sgd")
    match = r"weight is not finite after the step at step 1 \(epoch 1"
    fails(AnomalyError, match, trained, *words, *straight, "--lr", "1e300")
    poison(monkeypatch, 3)
    fails(AnomalyError, r"step 3 \(epoch 1.*nothing was written to", trained, *words, *SMALL)
    # nor is a bad state saved by an interrupt
    poison(monkeypatch, 2)
    stop_after(monkeypatch, 3)
    fails(AnomalyError, "step 2", trained, *words, *SMALL)
    assert path.read_bytes() == b""


def test_signals_are_heard_between_steps_and_the_second_at_once():
    before = signal.getsignal(signal.SIGINT)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupts()
            signal.raise_signal(signal.SIGTERM)
            assert interrupts() and interrupts.received == signal.SIGTERM
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGHUP, ignored)


def test_a_run_in_another_thread_leaves_signals_alone(blobs):
    words = ("--data", blobs, *SMALL, "--epochs", "1", "--backend", "numpy")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(trained, *words).result()[1] == 0


# -- the settings and what a file keeps of them --


test_a_setting_that_makes_no_sense_is_named = refuses([
    (ConfigurationError, configs.option(name), lambda name=name, value=value: configs.resolve({name: value}))
    for name, value in (
        *(("dtype", "int8"), ("activation", "swish"), ("optimizer", "lion"), ("schedule", "triangle")),
        *(("hidden", (0,)), ("hidden", (8, -1)), ("epochs", 0), ("batch_size", 0), ("seed", -1), ("seed", 2**64)),
        *(("lr", 0.0), ("lr", float("nan")), ("lr", float("inf")), ("weight_decay", -1.0)),
        *(("dropout", 1.0), ("dropout", -0.1), ("validation", 1.0), ("validation", float("nan"))),
    )
])  # fmt: skip


def test_defaults_follow_the_data_and_come_back_from_json():
    for given, name, value in (
        ({}, "lr", configs.DEFAULTS["digits"]["lr"]),
        ({"data": "mnist"}, "epochs", configs.DEFAULTS["mnist"]["epochs"]),
        ({"optimizer": "adamw"}, "weight_decay", 0.01),
        ({"optimizer": "sgd", "data": "mnist"}, "lr", 0.05),
        ({"optimizer": "sgd", "lr": 0.2}, "lr", 0.2),
    ):
        assert getattr(configs.resolve(given), name) == value
    config = configs.resolve({"data": "mnist", "lr": 1 / 3, "hidden": (), "seed": 2**64 - 1})
    assert configs.from_metadata(json.loads(json.dumps(config.as_metadata())), "file") == config
    assert configs.shown(0.001) == "0.001" != configs.shown(0.001 + 1e-12)


def test_the_fingerprint_knows_the_data_and_not_their_place(blobs):
    dataset = data.load_npz(blobs)
    mark = sources.fingerprint(dataset)
    assert sources.fingerprint(data.load_npz(blobs, dtype="float64")) == mark
    moved = dataset.y_train.copy()
    moved[[0, 1]] = moved[[1, 0]]
    assert sources.fingerprint(dataclasses.replace(dataset, y_train=moved)) != mark
    assert sources.fingerprint(dataclasses.replace(dataset, class_names=("a", "b", "c"))) != mark
