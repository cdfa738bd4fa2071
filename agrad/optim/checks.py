"""Checks of the arguments of optimizers and schedules."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import agrad
from agrad.engine.scalars import TracedNumber, host_call
from agrad.errors import (
    ConfigurationError,
    DtypeError,
    MixedBackendsError,
    NotDifferentiableError,
    OperandError,
)
from agrad.expect import integer as integer
from agrad.nn.module import Module


def leaves(parameters: Iterable[agrad.Tensor], what: str, to_clip: bool = False) -> list[agrad.Tensor]:
    """Return the parameters as a list, checked to be distinct leaf Tensors.

    Parameters whose gradients are clipped may be absent, or belong to a function that is being traced.
    """
    if isinstance(parameters, (agrad.Tensor, Module)):
        fix = "[tensor]" if isinstance(parameters, agrad.Tensor) else "model.parameters()"
        raise OperandError(f"{what}: params must be a list, got one {type(parameters).__name__}. Pass {fix}.")
    if not isinstance(parameters, Iterable):
        raise OperandError(f"{what}: parameters must be a list of Tensors, got {parameters!r}")
    found = list(parameters)
    if not found and not to_clip:
        raise ConfigurationError(f"{what}: parameters must not be empty")
    first: dict[int, int] = {}
    for i, tensor in enumerate(found):
        if not isinstance(tensor, agrad.Tensor):
            raise OperandError(f"{what}: parameter {i} must be a Tensor, got {type(tensor).__name__}")
        inside = isinstance(tensor.data, agrad.Tensor) and not (to_clip and tensor.data.level.name == "trace")
        if not tensor.is_leaf or inside:
            raise NotDifferentiableError(
                f"{what}: parameter {i} must be a leaf, got the result of an operation. Create it with "
                "agrad.asarray(x, requires_grad=True)."
            )
        if tensor.dtype.kind not in ("real floating", "complex floating"):
            raise DtypeError(f"{what}: parameter {i} must be floating-point, got {tensor.dtype}. Cast it first.")
        if first.setdefault(id(tensor), i) != i:
            raise ConfigurationError(f"{what}: parameters {first[id(tensor)]} and {i} must differ, got the same Tensor")
    return found


def number(what: str, name: str, value: Any, below: float | None = None, finite: bool = True) -> Any:
    """Return ``value`` as a float, checked to be at least 0 and less than ``below``.

    A traced number is checked at each call of the compiled function.
    """
    if isinstance(value, TracedNumber):
        return host_call(lambda now: number(what, name, now, below, finite), value)
    good = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    if not good or (not 0 <= value < (math.inf if below is None else below) and (finite or value != math.inf)):
        limit = "at least 0" if below is None else f"at least 0 and less than {below:g}"
        raise ConfigurationError(f"{what}: {name} must be a {'finite ' * finite}number of {limit}, got {value!r}")
    return float(value)


def share(what: str, name: str, value: Any) -> float:
    """Return a number, checked to be from 0 to 1."""
    if number(what, name, value) > 1:
        raise ConfigurationError(f"{what}: {name} must be a number from 0 to 1, got {value!r}")
    return float(value)


def pair(what: str, name: str, value: Any, below: float | None = None) -> tuple[Any, Any]:
    """Return two numbers as a tuple of floats, each checked with ``number``."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ConfigurationError(f"{what}: {name} must be two numbers, got {value!r}")
    first, second = (number(what, f"{name}[{i}]", part, below) for i, part in enumerate(value))
    return first, second


def rate(what: str, name: str, value: Any, below: float | None = None) -> Any:
    """Return a schedule, or a number checked with ``number``."""
    return value if callable(value) else number(what, name, value, below)


def flag(what: str, name: str, value: Any, below: float | None = None) -> bool:
    """Return True or False for a value."""
    return bool(value)


def refuse_other(name: str, i: int, tensor: agrad.Tensor, what: str, raw: Any) -> None:
    """Raise an error if the backend or dtype of an array differs from its parameter."""
    fix = "Call zero_grad()." if what == "gradient" else "Create a new optimizer after moving or casting."
    if type(raw) is not type(tensor.data) and agrad.asarray(raw).backend != tensor.backend:
        raise MixedBackendsError(
            f"{name}: the {what} of parameter {i} must be on the backend of the parameter, {tensor.backend}, got "
            f"{agrad.asarray(raw).backend}. {fix}"
        )
    if agrad.asarray(raw).dtype != tensor.dtype:  # one of the two may be traced
        raise DtypeError(
            f"{name}: the {what} of parameter {i} must have the dtype of the parameter, {tensor.dtype}, got "
            f"{agrad.asarray(raw).dtype}. {fix}"
        )
