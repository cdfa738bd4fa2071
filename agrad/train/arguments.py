"""Checks of the arguments of a `Trainer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import agrad
from agrad import nn, optim
from agrad.errors import ConfigurationError, DtypeError, OperandError


def check(model: Any, loss: Any, optimizer: Any) -> None:
    """Raise an error for arguments of a trainer of another kind."""
    if not isinstance(model, nn.Module):
        raise OperandError(f"Trainer: model must be a Module of agrad.nn, got {type(model).__name__}")
    if not callable(loss) or isinstance(loss, type):
        kind = f"the class {loss.__name__}; make one: {loss.__name__}()" if isinstance(loss, type) else repr(loss)
        raise OperandError(f"Trainer: loss must be a function of (output, target), such as nn.MSELoss(), got {kind}")
    if not isinstance(optimizer, optim.Optimizer):
        raise OperandError(
            f"Trainer: optimizer must be one of agrad.optim, such as Adam(model.parameters()), got {optimizer!r}"
        )
    own = {id(tensor) for tensor in model.parameters()}
    strangers = sum(id(tensor) not in own for tensor in optimizer.parameters)
    if strangers:
        raise ConfigurationError(
            f"Trainer: the optimizer must update parameters of the model, got {strangers} others among "
            f"{len(optimizer.parameters)}. Create it with model.parameters()."
        )


def class_weights(given: Any, y: Any) -> dict[int, float] | None:
    """Return the weights of classes by label.

    Raises an error for other ones, and for targets that are not class labels.
    """
    if given is None:
        return None
    labels = None if y is None else agrad.asarray(y).numpy().reshape(-1)
    if labels is not None and ((labels != np.floor(labels)).any() or labels.min() < 0):
        raise DtypeError("class_weight: targets y must be class labels (0 to C - 1)")
    if isinstance(given, str) and given == "balanced":
        if labels is None:
            raise ConfigurationError(
                "class_weight='balanced' requires arrays X and y. Pass a dict from class labels to weights instead."
            )
        counts = np.bincount(labels.astype(np.int64))
        there = np.count_nonzero(counts)
        given = {c: labels.size / (there * n) if n else 0.0 for c, n in enumerate(counts.tolist())}
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError(
            f"class_weight must be a dict from class labels to weights, or 'balanced', got {given!r}"
        )
    if any(not isinstance(c, int | np.integer) or c < 0 or not w >= 0 for c, w in given.items()):
        raise ConfigurationError(f"class_weight: class labels and weights must not be negative, got {given!r}")
    missing = set() if labels is None else set(np.unique(labels).astype(int).tolist()) - set(given)
    if missing:
        raise ConfigurationError(f"class_weight must contain a weight for every class, got none for {sorted(missing)}")
    return {int(c): float(w) for c, w in given.items()}


def real_dtype(name: str) -> str:
    """Return the data dtype for a parameter dtype.

    Raises ``ConfigurationError`` for one that NumPy lacks.
    """
    if name == "bfloat16":
        raise ConfigurationError(
            "Trainer: parameters must not have dtype bfloat16. Use float32 parameters and precision='bfloat16'."
        )
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)
