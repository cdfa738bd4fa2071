"""The data and the steps of a fit: by a trainer, or by L-BFGS."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

import agrad
from agrad.nn import Module
from agrad.sklearn.arrays import placed, rows
from agrad.train import Trainer
from agrad.train.batches import DeviceSpec, Feed, place_of
from agrad.train.examples import Arrays
from agrad.train.step import Step

Objective = Callable[[Any, Any], agrad.Tensor]
"""A function of outputs, and of targets and weights (or None), that returns a loss."""


class Examples(Arrays):
    """Examples in random orders as in scikit-learn.

    Batches are x, (y, weights) and the length. Sparse inputs remain on the host.

    Parameters
    ----------
    x : array or sparse matrix
        Inputs of shape (n, ...).
    y : numpy.ndarray
        Targets of shape (n, ...).
    weights : numpy.ndarray or None
        Weights of shape (n,).
    training : Training
        Training that uses them; its network determines the backend of batches.
    batch_size : int
        The length of a batch.
    rng : numpy.random.RandomState or None
        The source of the orders, or None for the order of the data.
    copies : int
        How often an epoch has each example.
    """

    def __init__(
        self, x: Any, y: Any, weights: Any, training: Training, batch_size: int, rng: Any = None, copies: int = 1
    ) -> None:
        self._sparse = x if issparse(x) else None
        rows = np.arange(x.shape[0])
        feed = Feed((x if self._sparse is None else rows, (y, weights)), place_of(training.module.parameters()[0]))
        super().__init__(feed, np.tile(rows, copies), batch_size, 0, shuffle=False)
        self._rng, self._place = rng, training.place

    def epoch(self, epoch: int, start: int) -> Iterator[tuple[Any, Any, int]]:
        """Return an iterator over the batches of the next epoch."""
        if self._rng is not None:
            order = np.arange(len(self.rows))
            self._rng.shuffle(order)  # as sklearn.utils.shuffle, without its slow checks
            self.rows: np.ndarray = self.rows[order]
        for x, y, size in super().epoch(epoch, start):
            yield x if self._sparse is None else dense(self._sparse[agrad.asarray(x).numpy()], self._place), y, size


def dense(x: Any, place: DeviceSpec) -> Any:
    """Return rows as an array on a backend and device."""
    return placed(x.toarray() if issparse(x) else x, place)


class Training:
    """A network in training, with a trainer or L-BFGS on all examples.

    Copies and pickles of it retrace the step.

    Parameters
    ----------
    module : Module
        The network.
    objective : Objective
        The loss.
    optimizer : Optimizer or None
        Optimizer. None means L-BFGS.
    place : DeviceSpec
        Backend and device of the network.
    """

    def __init__(self, module: Module, objective: Objective, optimizer: Any, place: DeviceSpec) -> None:
        self.module, self.objective, self.optimizer, self.place = module, objective, optimizer, place

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "trainer"}

    @cached_property
    def trainer(self) -> Trainer:
        """The trainer of the network."""
        return Trainer(self.module, self.objective, self.optimizer)

    def lbfgs(self, examples: Examples, max_iter: int, max_fun: int, tol: float) -> tuple[int, float]:
        """Minimize the loss of all examples, and return the iterations and the loss."""
        parameters = list(self.module.parameters())
        places = np.cumsum([0, *(p.size for p in parameters)])
        ((x, y, _),) = examples.epoch(0, 0)

        def evaluate(x: Any, y: Any) -> tuple[Any, list[Any]]:
            loss = self.objective(self.module(x), y)
            loss.backward()
            gradients = [p.grad for p in parameters]
            self.module.zero_grad()
            return loss, gradients

        step = Step(evaluate, examples.feed.place, None, "float32")

        def put(vector: np.ndarray) -> None:
            for p, start, stop in zip(parameters, places, places[1:], strict=False):
                values = vector[start:stop].reshape(p.shape).astype(p.dtype.name)
                p.assign(agrad.asarray(placed(values, self.place)).raw)

        def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
            put(vector)
            loss, gradients = step(x, y)
            parts = [np.ravel(agrad.asarray(g).numpy()).astype(np.float64) for g in gradients]
            return float(loss.item()), np.concatenate(parts)

        start = np.concatenate([np.ravel(p.detach().numpy()) for p in parameters]).astype(np.float64)
        self.module.train()
        try:
            options = {"maxiter": max_iter, "maxfun": max_fun, "gtol": tol}
            with np.errstate(all="ignore"):
                found = minimize(function, start, method="L-BFGS-B", jac=True, options=options)
        finally:
            self.module.eval()
        put(found.x)
        if found.status != 0:
            warnings.warn(
                f"lbfgs did not converge after {found.nit} iterations (status {found.status}): {found.message}. "
                "Increase max_iter, or scale the data.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return min(int(found.nit), max_iter), float(found.fun)


def predicted(module: Module, x: Any, place: DeviceSpec, size: int) -> agrad.Tensor:
    """Return the outputs of a network in evaluation, computed for some rows at a time."""
    parts = []
    with agrad.no_grad(), np.errstate(all="ignore"):
        for start in range(0, x.shape[0], size):
            batch = dense(rows(x, slice(start, min(start + size, x.shape[0]))), place)
            parts.append(agrad.asarray(module(batch)).detach())
    return parts[0] if len(parts) == 1 else agrad.concat(parts, axis=0)
