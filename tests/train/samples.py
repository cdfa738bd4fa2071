"""Small data and trainers for the tests of agrad.train."""

import signal

import numpy as np

import agrad
from agrad import nn, optim, train


def blobs(n=60, seed=3):
    """Three classes of 4 features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return (rng.normal(size=(n, 4)) + 2.5 * np.eye(3, 4)[y]).astype(np.float32), y


def line(n=64, seed=4):
    """A linear relation of 3 features, with a little noise; targets of shape (n, 1)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, (X @ np.array([[1.0], [-2.0], [0.5]]) + 3 + 0.05 * rng.normal(size=(n, 1))).astype(np.float32)


def classifier(seed=0, dropout=0.2, **options):
    nn.manual_seed(seed)
    place = {"dtype": agrad.float32, "backend": agrad.get_backend()}
    layers = [nn.Linear(4, 8, **place), nn.ReLU(), nn.Linear(8, 3, **place)]
    if dropout:
        layers.insert(2, nn.Dropout(dropout))
    model = nn.Sequential(*layers)
    return made(model, nn.CrossEntropyLoss(), **{"metrics": "accuracy", **options})


def made(model, loss, lr=0.02, **options):
    return train.Trainer(model, loss, optim.Adam(model.parameters(), lr=lr), **options)


def regressor(**options):
    nn.manual_seed(0)
    model = nn.Linear(3, 1, dtype=agrad.float32, backend=agrad.get_backend())
    return made(model, nn.MSELoss(), **{"metrics": ("mse", "r2"), **options})


def values(trainer):
    """The bytes of all state of model and optimizer."""
    state = {**trainer.model.state_dict(), **{f"o.{k}": v for k, v in trainer.optimizer.state_dict().items()}}
    return {name: value.tobytes() for name, value in state.items()}


class Stop(train.Callback):
    """Presses Ctrl-C at a step."""

    def __init__(self, at):
        self.at = at

    def on_step_end(self, trainer):
        self.at -= 1
        if self.at == 0:
            signal.raise_signal(signal.SIGINT)
