"""Checks of options: each returns the value or raises ``ConfigurationError``."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from operator import index
from typing import Any

from agrad.errors import ConfigurationError


def one_of(name: str, what: str, value: Any, choices: Iterable[Any]) -> Any:
    """Return a value, checked to be one of several choices."""
    if value not in choices:
        raise ConfigurationError(f"{name}: {what} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def share(name: str, what: str, value: Any) -> Any:
    """Return a number, checked to be from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigurationError(f"{name}: {what} must be a number from 0 to 1, got {value!r}")
    return value


def integer(name: str, what: str, value: Any, least: int = 1) -> int:
    """Return an integer, checked to be at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigurationError(f"{name}: {what} must be an integer of at least {least}, got {value!r}")
    return int(value)


def numbers(name: str, what: str, value: Any, count: int, least: int) -> tuple[int, ...]:
    """Return ``count`` integers of at least ``least``, from one integer or a sequence."""
    try:
        found = tuple(index(n) for n in value) if isinstance(value, Sequence) else (index(value),) * count
    except TypeError:
        found = ()
    if len(found) == 1:
        found *= count
    if len(found) != count or any(n < least for n in found):
        several = "" if count == 1 else f", or {count} of them"
        raise ConfigurationError(f"{name}: {what} must be an integer of at least {least}{several}, got {value!r}")
    return found
