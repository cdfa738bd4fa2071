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
        raise OperandError(f"Trainer: model is a Module of agrad.nn, not a {type(model).__name__}")
    if not callable(loss) or isinstance(loss, type):
        kind = f"the class {loss.__name__}; make one: {loss.__name__}()" if isinstance(loss, type) else repr(loss)
        raise OperandError(f"Trainer: loss is a function of (output, target), such as nn.MSELoss(), not {kind}")
    if not isinstance(optimizer, optim.Optimizer):
        raise OperandError(
            f"Trainer: optimizer is one of agrad.optim, such as Adam(model.parameters()), not {optimizer!r}"
        )
    own = {id(tensor) for tensor in model.parameters()}
    strangers = sum(id(tensor) not in own for tensor in optimizer.parameters)
    if strangers:
        raise ConfigurationError(
            f"Trainer: {strangers} of the optimizer's {len(optimizer.parameters)} parameters are not of the model; "
            "make it with model.parameters()"
        )


def class_weights(given: Any, y: Any) -> dict[int, float] | None:
    """Return the weights of classes by number.

    Raises an error for other ones, and for targets that are not classes.
    """
    if given is None:
        return None
    labels = None if y is None else agrad.asarray(y).numpy().reshape(-1)
    if labels is not None and ((labels != np.floor(labels)).any() or labels.min() < 0):
        raise DtypeError("class_weight is for class numbers from 0 on as targets y")
    if isinstance(given, str) and given == "balanced":
        if labels is None:
            raise ConfigurationError("class_weight='balanced' needs arrays X and y; give a dict by class")
        counts = np.bincount(labels.astype(np.int64))
        there = np.count_nonzero(counts)
        given = {c: labels.size / (there * n) if n else 0.0 for c, n in enumerate(counts.tolist())}
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError(f"class_weight is a dict by class number, or 'balanced', not {given!r}")
    if any(not isinstance(c, int | np.integer) or c < 0 or not w >= 0 for c, w in given.items()):
        raise ConfigurationError(f"class_weight: expected class numbers and weights of 0 or more, found {given!r}")
    missing = set() if labels is None else set(np.unique(labels).astype(int).tolist()) - set(given)
    if missing:
        raise ConfigurationError(f"class_weight has no weight for the classes {sorted(missing)}")
    return {int(c): float(w) for c, w in given.items()}


def real_dtype(name: str) -> str:
    """Return the dtype of data for parameters of one.

    Raises ``ConfigurationError`` for one that NumPy lacks.
    """
    if name == "bfloat16":
        raise ConfigurationError(
            "Trainer: parameters of bfloat16 are not trained; use float32 and precision='bfloat16'"
        )
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)


def whole(value: Any, name: str) -> None:
    """Raise ``ConfigurationError`` unless a value is an integer of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigurationError(f"{name}: expected an integer of 1 or more, found {value!r}")
