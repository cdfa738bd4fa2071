"""Checks of what optimizers and schedules are given."""

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
from agrad.nn.module import Module


def leaves(parameters: Iterable[agrad.Tensor], what: str, traced: bool = False) -> list[agrad.Tensor]:
    """Return the parameters as a list, checked to be distinct leaf Tensors.

    traced: True if they may be those of a jitted function that is being traced.
    """
    if isinstance(parameters, (agrad.Tensor, Module)):
        remedy = "[tensor]" if isinstance(parameters, agrad.Tensor) else "model.parameters()"
        raise OperandError(f"{what} takes a list of Tensors, not one {type(parameters).__name__}: write {remedy}")
    if not isinstance(parameters, Iterable):
        raise OperandError(f"{what} takes a list of Tensors, not {parameters!r}")
    found = list(parameters)
    if not found:
        raise ConfigurationError(f"{what} was given no parameters")
    first: dict[int, int] = {}
    for i, tensor in enumerate(found):
        if not isinstance(tensor, agrad.Tensor):
            raise OperandError(f"{what}: parameter {i} is a {type(tensor).__name__}, not a Tensor")
        inside = isinstance(tensor.data, agrad.Tensor) and not (traced and tensor.data.level.name == "trace")
        if not tensor.is_leaf or inside:
            raise NotDifferentiableError(
                f"{what}: parameter {i} is the result of an operation; a parameter is a leaf, made with "
                "agrad.asarray(x, requires_grad=True)"
            )
        if tensor.dtype.kind not in ("real floating", "complex floating"):
            raise DtypeError(f"{what}: parameter {i} has dtype {tensor.dtype}, which has no derivative; cast it first")
        if first.setdefault(id(tensor), i) != i:
            raise ConfigurationError(
                f"{what}: parameters {first[id(tensor)]} and {i} are the same Tensor; give it once"
            )
    return found


def number(what: str, name: str, value: Any, below: float | None = None) -> Any:
    """Return ``value`` as a float, checked to be 0 or more, and less than ``below``.

    A number of a jitted function is checked at each call.
    """
    if isinstance(value, TracedNumber):
        return host_call(lambda now: number(what, name, now, below), value)
    good = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
    if not good or not 0 <= value < (float("inf") if below is None else below):
        limit = "0 or more" if below is None else f"0 or more, and less than {below:g}"
        raise ConfigurationError(f"{what}: {name} must be a finite number of {limit}, got {value!r}")
    return float(value)


def share(what: str, name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    if number(what, name, value) > 1:
        raise ConfigurationError(f"{what}: {name} must be a number from 0 to 1, got {value!r}")
    return float(value)


def pair(what: str, name: str, value: Any, below: float | None = None) -> tuple[Any, Any]:
    """Return two numbers as a tuple of floats, each checked as by ``number``."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ConfigurationError(f"{what}: {name} must be two numbers, got {value!r}")
    first, second = (number(what, f"{name}[{i}]", part, below) for i, part in enumerate(value))
    return first, second


def rate(what: str, name: str, value: Any, below: float | None = None) -> Any:
    """Return a schedule, or a number checked as by ``number``."""
    return value if callable(value) else number(what, name, value, below)


def flag(what: str, name: str, value: Any, below: float | None = None) -> bool:
    """Return True or False for a value."""
    return bool(value)


def integer(what: str, name: str, value: Any, least: int = 1) -> int:
    """Return an integer, checked to be ``least`` or more."""
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{what}: {name} must be an integer of {least} or more, got {value!r}")
    return value


def refuse_other(name: str, i: int, tensor: agrad.Tensor, what: str, raw: Any) -> None:
    """Raise an error if an array has another backend or dtype than its parameter."""
    remedy = "forget it with zero_grad()" if what == "gradient" else "make a new optimizer after moving or casting"
    if type(raw) is not type(tensor.data) and agrad.asarray(raw).backend != tensor.backend:
        raise MixedBackendsError(
            f"{name}: the {what} of parameter {i} is on {agrad.asarray(raw).backend}, "
            f"the parameter on {tensor.backend}; {remedy}"
        )
    if agrad.asarray(raw).dtype != tensor.dtype:  # one of the two may be traced
        raise DtypeError(
            f"{name}: the {what} of parameter {i} has dtype {agrad.asarray(raw).dtype}, "
            f"the parameter {tensor.dtype}; {remedy}"
        )
