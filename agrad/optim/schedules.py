"""Learning rate schedules: functions of the number of steps taken.

``schedule(n)`` is the rate after n steps, and the initial rate is ``schedule(0)``. Schedules are stateless, so a
resumed run needs only its number of steps. Pass a schedule as the ``lr`` of an optimizer, or call it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from agrad.errors import ConfigurationError
from agrad.optim.checks import integer, number

__all__ = ["Constant", "Cosine", "Exponential", "Step", "Warmup"]

Schedule = Callable[[int], float]


def half_cosine(share: float) -> float:
    """Return the cosine from 1 at 0 to 0 at 1."""
    return (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True)
class _Checked:
    """Base class of schedules, which checks the fields according to their types."""

    def __post_init__(self) -> None:
        title = type(self).__name__
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type is float:
                number(title, name, value)
            elif field.type is not int:
                if not callable(value):
                    raise ConfigurationError(f"{title}: {name} must be a function of the step, got {value!r}")
            else:
                integer(title, name, value)


@dataclass(frozen=True)
class Constant(_Checked):
    """Constant learning rate: ``schedule(n)`` is lr.

    Parameters
    ----------
    lr : float
        Learning rate, at least 0.

    Examples
    --------
    >>> schedule = agrad.optim.Constant(0.1)
    >>> schedule(0), schedule(1000)
    (0.1, 0.1)
    """

    lr: float

    def __call__(self, step: int) -> float:
        return self.lr


@dataclass(frozen=True)
class Cosine(_Checked):
    """Cosine decay from ``lr`` at step 0 to ``final`` from step ``steps`` on.

    ``schedule(n)`` is final + (lr - final) * (1 + cos(pi * n / steps)) / 2 up to n = steps.

    Reference: Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts.

    Parameters
    ----------
    lr : float
        Learning rate at step 0, at least 0.
    steps : int
        Number of steps to the final rate, at least 1.
    final : float
        Final rate, at least 0.

    Examples
    --------
    >>> [round(agrad.optim.Cosine(0.1, steps=100)(n), 4) for n in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    lr: float
    steps: int
    final: float = 0.0

    def __call__(self, step: int) -> float:
        share = min(max(step, 0), self.steps) / self.steps
        return self.final + (self.lr - self.final) * half_cosine(share)


@dataclass(frozen=True)
class Step(_Checked):
    """Learning rate that is multiplied by ``factor`` after every ``every`` steps.

    ``schedule(n)`` is lr * factor**(n // every).

    Parameters
    ----------
    lr : float
        Learning rate at step 0, at least 0.
    every : int
        Number of steps with the same rate, at least 1.
    factor : float
        Factor, at least 0.

    Examples
    --------
    >>> [round(agrad.optim.Step(0.1, every=10)(n), 4) for n in (0, 9, 10, 20)]
    [0.1, 0.1, 0.01, 0.001]
    """

    lr: float
    every: int
    factor: float = 0.1

    def __call__(self, step: int) -> float:
        return self.lr * self.factor ** (step // self.every)


@dataclass(frozen=True)
class Exponential(_Checked):
    """Learning rate that is multiplied by ``factor`` after every step.

    ``schedule(n)`` is lr * factor**n.

    Parameters
    ----------
    lr : float
        Learning rate at step 0, at least 0.
    factor : float
        Factor, at least 0.

    Examples
    --------
    >>> [round(agrad.optim.Exponential(0.1, 0.5)(n), 4) for n in range(4)]
    [0.1, 0.05, 0.025, 0.0125]
    """

    lr: float
    factor: float

    def __call__(self, step: int) -> float:
        return self.lr * self.factor**step


@dataclass(frozen=True)
class Warmup(_Checked):
    """Linear warmup of another schedule.

    The rates of the first ``steps`` steps are multiplied by 1/steps, 2/steps, ..., 1.

    Reference: Goyal et al. 2017, arXiv:1706.02677.

    Parameters
    ----------
    schedule : function
        Function from the number of steps taken to the rate.
    steps : int
        Number of steps to the full rate, at least 1.

    Examples
    --------
    >>> [round(agrad.optim.Warmup(agrad.optim.Constant(0.1), steps=4)(n), 4) for n in range(6)]
    [0.025, 0.05, 0.075, 0.1, 0.1, 0.1]
    """

    schedule: Schedule
    steps: int

    def __call__(self, step: int) -> float:
        return self.schedule(step) * min(1.0, (step + 1) / self.steps)
