"""The notation of samples of calls of NumPy's functions, and their checks.

A call is a function of arrays alone, NumPy's or Tensors, so that its value on the one can be held against that on the
other, and its derivative against finite differences of NumPy's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from table import Input


@dataclass(frozen=True)
class Sample:
    """A call of the function ``group``. ``constant``: its results have no derivative.

    ``kink``: a small change of the arrays changes what is picked, so that finite differences say nothing.
    """

    group: str
    call: Callable[..., Any]
    inputs: tuple[Input, ...]
    number: int
    constant: bool
    kink: bool
    slow = False

    @property
    def name(self) -> str:
        return f"{self.group} {self.number}"


SAMPLES: list[Sample] = []


def sample(name: str, call: Callable[..., Any], *inputs: Input, constant: bool = False, kink: bool = False) -> None:
    """File a sample; the samples of one function are numbered."""
    number = sum(s.group == name for s in SAMPLES)
    SAMPLES.append(Sample(name, call, inputs, number, constant, kink))


def named(name: str) -> Any:
    place: Any = np
    for part in name.split("."):
        place = getattr(place, part)
    return place


def plain(
    names: str, *given: Any, constant: bool = False, kink: bool = False, method: str = "", **settings: Any
) -> None:
    """File samples of functions, or of a method of ufuncs, called with arrays and settings, if NumPy has them."""
    inputs = [x for x in given if isinstance(x, Input)]

    def call(function: Any, *xs: Any) -> Any:
        rest = iter(xs)
        return function(*[next(rest) if isinstance(x, Input) else x for x in given], **settings)

    for name in names.split():
        try:
            function = named(f"{name}.{method}" if method else name)
        except AttributeError:
            continue
        sample(name, partial(call, function), *inputs, constant=constant, kink=kink)


def on_integers(function: Any) -> Callable[..., Any]:
    return lambda *xs: function(*[np.astype(x, np.int64) for x in xs])


def joining(function: Any, *more: Any) -> Callable[..., Any]:
    return lambda *xs: function([*xs, *more])


def writing(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of the first array after ``write`` changed it in place."""

    def call(x: Any, *more: Any) -> Any:
        copy = np.copy(x)
        write(copy, *more)
        return copy

    return call


def hermitian(x: Any) -> Any:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def definite(x: Any) -> Any:
    return np.matmul(x, np.conj(np.swapaxes(x, -1, -2)))
