"""A network for tables: quantiles, residual layers, an ensemble, averages.

Everything that it learns from the training part is in its state, so a saved model contains it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import agrad
from agrad import nn
from agrad.errors import DataError
from agrad.nn import Module, init
from agrad.nn.parameter import marked

BINS = 16
"""The largest number of intervals between quantiles of a column."""
FEWEST = 40
"""The examples for each of them, if there are fewer."""
NARROW = 1e-6
"""The width that an interval between quantiles has at least."""
FAR = 4.0
"""The standard deviations from the mean beyond which a number counts as this far."""
KEPT = 0.98
"""The share of the average of weights that a step keeps."""
INTERVALS = ("0.column", "0.low", "0.scale")
"""The names of the intervals between quantiles in the state of `network`."""
WEIGHTS = "1.module.weights."
"""The beginning of the names of the weights in it."""
STEPS = 1600
"""The steps of a fit, about."""
HELD_OUT, ENOUGH = 0.15, 40
"""The part of the training rows that is held out, and the number of rows from which on it is."""


def by_rows(rows: int, members: int | None = None, batch_size: int | None = None, epochs: int | None = None) -> Any:
    """Return the options of a fit on `rows` training examples by name.

    Options that are not None are as given.
    """
    members = members or (8 if rows < 1000 else 4 if rows < 10_000 else 2 if rows < 50_000 else 1)
    size = batch_size or (256 if rows < 10_000 else 512)
    epochs = epochs or min(max(STEPS * size // (rows * members), 20), 100)
    return {
        "hidden": (64, 64) if rows < 1000 else (128, 128),
        "members": members,
        "batch_size": size,
        "epochs": epochs,
        "patience": max(epochs // 4, 5),
        "validation": HELD_OUT if rows >= ENOUGH else 0.0,
    }


class Quantiles(nn.module.ArrayModule):
    """Numbers with their positions between quantiles: a piecewise-linear encoding.

    The result has the columns of the input, limited to `FAR`, and for each interval between two quantiles the part of
    it that lies below the number, from 0 to 1. A linear layer of the result is linear between quantiles. Columns with
    at most two values, such as indicators, have no intervals.

    Parameters
    ----------
    column : array
        Columns of the intervals, int64 (t,).
    low, scale : array
        Lower ends (t,), and reciprocals of the widths.
    """

    def __init__(self, column: Any, low: Any, scale: Any, **place: Any) -> None:
        where = {key: value for key, value in place.items() if key != "dtype"}
        self.column = nn.Buffer(agrad.asarray(column, **where))
        self.low, self.scale = (nn.Buffer(agrad.asarray(values, **place)) for values in (low, scale))

    def forward(self, x: Any, /) -> Any:
        """Return an array (n, d + t) for one of shape (n, d)."""
        places = (agrad.take(x, self.column, axis=1) - self.low) * self.scale
        return agrad.concat([agrad.clip(x, -FAR, FAR), agrad.clip(places, 0.0, 1.0)], axis=1)


class Affine(nn.module.ArrayModule):
    """Sums with a constant of each column, times a factor, plus another constant."""

    def __init__(self, before: Any, factor: Any, after: Any, **place: Any) -> None:
        constants = (nn.Buffer(agrad.asarray(values, **place)) for values in (before, factor, after))
        self.before, self.factor, self.after = constants

    def forward(self, x: Any, /) -> Any:
        """Return an array of the shape (n, d) of the input."""
        return (self.before + x) * self.factor + self.after  # x may be a plain array


def intervals(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the columns, lower ends and reciprocal widths for `Quantiles`."""
    most = min(max(X.shape[0] // FEWEST, 2), BINS)
    found: list[tuple[int, np.ndarray]] = []
    for column in range(X.shape[1]):
        values = X[:, column].astype(np.float64)
        distinct = np.unique(values).size
        if distinct > 2:
            ends = np.unique(np.quantile(values, np.linspace(0, 1, min(most, distinct) + 1)))
            found.append((column, ends))
    columns = np.repeat([column for column, _ in found], [ends.size - 1 for _, ends in found]).astype(np.int64)
    low = np.concatenate([ends[:-1] for _, ends in found] or [np.zeros(0)])
    widths = np.concatenate([np.diff(ends) for _, ends in found] or [np.ones(0)])
    return columns, low.astype(X.dtype), (1 / np.maximum(widths, NARROW)).astype(X.dtype)


class Stack(Module):
    """Linear layers of an ensemble, each with a weight (members, in, out).

    Parameters
    ----------
    members : int
        Number of independent networks.
    widths : sequence of int
        Lengths of the input and of the results of the layers.
    activation : function
        Makes the module between layers.
    dropout : float
        Probability of a zero after each activation.
    """

    def __init__(
        self, members: int, widths: Sequence[int], activation: Callable[[], Any], dropout: float, rng: Any, **place: Any
    ) -> None:
        self.ensemble, self.widths = members, tuple(widths)
        self.activation = activation()
        self.dropout = nn.Dropout(dropout, rng=rng) if dropout else None
        self.weights, self.biases = [], []
        for size, following in pairwise(widths):
            bound = size**-0.5
            self.weights.append(init.parameter(init.uniform((members, size, following), bound, rng), **place))
            self.biases.append(init.parameter(init.uniform((members, 1, following), bound, rng), **place))
        hidden = self.widths[1:-1]
        self.norms = [nn.LayerNorm(width, **place) for width in hidden]

    def forward(self, x: Any, /) -> Any:
        """Return outputs (n, k): in training, of one network per row, otherwise means."""
        n, k = x.shape[0], self.ensemble
        if self.training and k > 1:
            rows = -(-n // k)
            if rows * k > n:  # the last networks repeat rows, whose outputs are dropped
                x = agrad.concat([x] * -(-rows * k // n), axis=0)[: rows * k, :]
            x = agrad.reshape(x, (k, rows, -1))
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            y = agrad.matmul(x, weight) + bias
            if at < len(self.norms):
                y = self.activation(self.norms[at](y))
                if self.dropout is not None:
                    y = self.dropout(y)
                if at and self.widths[at] == self.widths[at + 1]:
                    y = x + y
            x = y
        return agrad.reshape(x, (-1, x.shape[2]))[:n, :] if self.training else agrad.mean(x, axis=0)


class Averaged(Module):
    """A module in training, whose averaged parameters compute in evaluation.

    Each call in training moves the averages, as batch normalization moves its statistics: they are the mean of all
    steps at first, later an exponential average.

    Parameters
    ----------
    module : Module
        The module.
    keep : float
        Share of the averages that a step keeps at least.
    """

    def __init__(self, module: Module, keep: float = KEPT) -> None:
        self.module, self.average, self.keep = module, copy.deepcopy(module), keep
        for tensor in self.average.parameters():
            tensor.requires_grad = False
            marked(tensor, nn.Buffer)
        first = module.parameters()[0]
        self.steps = nn.Buffer(agrad.zeros((), dtype=first.dtype, backend=first.backend, device=first.device))

    def forward(self, x: Any, /) -> Any:
        """Return the output of the module, or of its average in evaluation."""
        if not self.training:
            return self.average(x)
        y = self.module(x)
        with agrad.no_grad():
            self.steps.assign((self.steps + 1).bare)
            share = agrad.maximum(1 / self.steps, 1 - self.keep)
            for tensor, mean in zip(self.module.parameters(), self.average.buffers(), strict=True):
                mean.assign((mean + (tensor.detach() - mean) * share).bare)
        return y


def network(
    features: int,
    hidden: Sequence[int],
    outputs: int,
    intervals: Any,
    members: int,
    activation: Callable[[], Any],
    dropout: float,
    rng: Any,
    **place: Any,
) -> nn.Sequential:
    """Return a network for tables."""
    widths = (features + intervals[0].shape[0], *hidden, outputs)
    stack = Stack(members, widths, activation, dropout, rng, **place)
    return nn.Sequential(Quantiles(*intervals, **place), Averaged(stack))


def check_intervals(state: Mapping[str, np.ndarray], features: int, path: str) -> int:
    """Return the number of intervals in a saved state, or raise ``DataError``."""
    column, *others = (state.get(name) for name in INTERVALS)
    known = column is not None and column.ndim == 1 and column.dtype == np.int64
    if not known or any(other is None or other.shape != column.shape for other in others):
        raise DataError(f"{path!r}: expected the intervals {', '.join(INTERVALS)}, found none or others")
    if column.size and not 0 <= column.min() <= column.max() < features:
        raise DataError(f"{path!r}: expected columns from 0 to {features - 1} in {INTERVALS[0]}, found others")
    return column.shape[0]
