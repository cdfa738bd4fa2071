"""The steps of a fit: by an optimizer on batches, or by L-BFGS on all examples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

import agrad
from agrad.errors import TracedValueError
from agrad.nn import Module
from agrad.sklearn.arrays import Place, rows

JITTED = ("numpy", "jax", "torch", "cupy")
"""The backends on which steps are traced and replayed."""

Objective = Callable[[Any, Any, Any], agrad.Tensor]
"""A function of inputs, targets and weights (or None) that returns a loss."""


class Examples:
    """Inputs, targets and weights of examples. Sparse inputs stay on the host.

    Parameters
    ----------
    x : array or sparse matrix
        Raw inputs of shape (n, ...).
    y : numpy.ndarray
        Targets of shape (n, ...).
    weights : numpy.ndarray or None
        Weights of shape (n,).
    place : Place
        Where batches are computed with.
    """

    def __init__(self, x: Any, y: np.ndarray, weights: np.ndarray | None, place: Place) -> None:
        self.place, self.size = place, x.shape[0]
        self.x = x if issparse(x) else place.put(x)
        self.y = place.put(y)
        self.weights = None if weights is None else place.put(weights)

    def batches(self, size: int, order: np.ndarray | None) -> Iterator[tuple[Any, Any, Any, int]]:
        """Yield inputs, targets, weights and lengths of batches, by an order if given."""
        # rows of sparse inputs are made dense on the host
        there = order if order is None or issparse(self.x) else self.place.put(order)
        targets = order if order is None else self.place.put(order)
        for start in range(0, self.size, size):
            batch = slice(start, min(start + size, self.size))
            chosen = batch if targets is None else targets[batch]
            x = dense(rows(self.x, batch if there is None else there[batch]), self.place)
            y, weights = rows(self.y, chosen), None if self.weights is None else rows(self.weights, chosen)
            yield x, y, weights, y.shape[0]


def dense(x: Any, place: Place) -> Any:
    """Return rows as an array at a place."""
    return place.put(x.toarray() if issparse(x) else x)


class Training:
    """A network in training: the step that is traced once, and the optimizer's state.

    Copies and pickles of it trace anew.

    Parameters
    ----------
    module : Module
        The network.
    objective : Objective
        The loss.
    optimizer : Optimizer or None
        The optimizer, None for L-BFGS.
    place : Place
        Where the network is.
    """

    def __init__(self, module: Module, objective: Objective, optimizer: Any, place: Place) -> None:
        self.module, self.objective, self.optimizer, self.place = module, objective, optimizer, place
        self._steps: list[Callable[..., Any]] = []
        """The steps of whole batches and of the last one, which has another shape."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_steps": []}

    def _traced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step that is replayed where that is faster, and where it can be."""
        if self.place.backend not in JITTED:
            return function
        jitted = agrad.jit(function)

        def step(*args: Any) -> Any:
            nonlocal jitted
            try:
                return jitted(*args)
            except TracedValueError:
                jitted = function  # the failed trace has put all state back
                return function(*args)

        return step

    def _update(self, x: Any, y: Any, weights: Any) -> agrad.Tensor:
        loss = self.objective(x, y, weights)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def epoch(self, examples: Examples, batch_size: int, order: np.ndarray | None) -> float:
        """Take a step on each batch, and return the mean of the losses before the steps."""
        if not self._steps:
            self._steps = [self._traced(self._update), self._traced(self._update)]
        losses, sizes = [], []
        if not self.module.training:
            self.module.train()
        with np.errstate(all="ignore"):  # a fit that diverges is told of once, at its end
            for x, y, weights, size in examples.batches(batch_size, order):
                losses.append(self._steps[size < batch_size](x, y, weights).data)
                sizes.append(size)
        if self.place.backend == "numpy":
            return sum([float(a) * n for a, n in zip(losses, sizes, strict=True)]) / examples.size
        return float(np.dot(agrad.stack([agrad.asarray(a) for a in losses]).numpy(), sizes)) / examples.size

    def lbfgs(self, examples: Examples, max_iter: int, max_fun: int, tol: float) -> tuple[int, float]:
        """Minimize the loss of all examples, and return the iterations and the loss."""
        parameters = list(self.module.parameters())
        places = np.cumsum([0, *(p.size for p in parameters)])
        ((x, y, weights, _),) = examples.batches(examples.size, None)

        def evaluate(x: Any, y: Any, weights: Any) -> tuple[Any, list[Any]]:
            loss = self.objective(x, y, weights)
            loss.backward()
            gradients = [p.grad for p in parameters]
            self.module.zero_grad()
            return loss, gradients

        step = self._traced(evaluate)

        def put(vector: np.ndarray) -> None:
            for p, start, stop in zip(parameters, places, places[1:], strict=False):
                p.assign(agrad.asarray(self.place.put(vector[start:stop].reshape(p.shape).astype(p.dtype.name))).raw)

        def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
            put(vector)
            loss, gradients = step(x, y, weights)
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
                f"lbfgs did not converge after {found.nit} iterations (status {found.status}): {found.message}; "
                "raise max_iter, or scale the data",
                ConvergenceWarning,
                stacklevel=2,
            )
        return min(int(found.nit), max_iter), float(found.fun)


def predicted(module: Module, x: Any, place: Place, size: int) -> agrad.Tensor:
    """Return the outputs of a network in evaluation, computed for some rows at a time."""
    parts = []
    with agrad.no_grad(), np.errstate(all="ignore"):
        for start in range(0, x.shape[0], size):
            batch = dense(rows(x, slice(start, min(start + size, x.shape[0]))), place)
            parts.append(agrad.asarray(module(batch)).detach())
    return parts[0] if len(parts) == 1 else agrad.concat(parts, axis=0)
