"""Base class of learning rate schedulers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agrad.engine.scalars import refuse_trace
from agrad.errors import ConfigurationError, OperandError
from agrad.faces import complete_docstring
from agrad.nn.module import check_state, encoded, without_options
from agrad.optim.checks import integer, number
from agrad.optim.optimizer import Optimizer


def check_optimizer(what: str, optimizer: Any) -> None:
    """Raise ``OperandError`` unless an object is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise OperandError(f"{what}: optimizer must be an agrad optimizer, got {type(optimizer).__name__}")


def for_groups(what: str, name: str, value: Any, optimizer: Optimizer) -> list[Any]:
    """Return the values of an option for all groups, from one value or a list."""
    check_optimizer(what, optimizer)
    count = len(optimizer.parts)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ConfigurationError(f"{what}: {name} must have one value for each of {count} groups, got {len(value)}")
    return list(value)


def numbers_for_groups(what: str, name: str, value: Any, optimizer: Optimizer) -> list[float]:
    """Return a nonnegative number for each group, from one number or a list."""
    return [number(what, name, part) for part in for_groups(what, name, value, optimizer)]


def checked_optimizer(what: str, optimizer: Any) -> Optimizer:
    """Return an optimizer, checked to have numbers as rates."""
    check_optimizer(what, optimizer)
    for k, part in enumerate(optimizer.parts):
        if part.schedule is not None:
            raise ConfigurationError(f"{what}: lr of group {k} must be a number in the optimizer, got a schedule")
    return optimizer


class LRScheduler:
    """Base class of learning rate schedulers.

    A new scheduler sets the initial rates of the groups, and each ``step`` sets the next rates. Call ``step`` after the
    step of the optimizer, outside compiled functions. A compiled function reads the rate at each call. Several
    schedulers of one optimizer can be combined if they multiply its rates.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer whose groups each have a number as ``lr``.
    last_epoch : int
        Number of steps of the run to resume, minus 1. The groups must then have an ``initial_lr``. By default, -1.

    Examples
    --------
    >>> class Halving(agrad.optim.lr_scheduler.LRScheduler):
    ...     def factor(self, n):
    ...         return 0.5**n
    >>> scheduler = Halving(agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0))
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init_subclass__(cls) -> None:
        complete_docstring(cls, *cls.__mro__[1:-1])

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        what = type(self).__name__
        self.optimizer: Optimizer = checked_optimizer(what, optimizer)
        integer(what, "last_epoch", last_epoch, -1)
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch < 0:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ConfigurationError(
                    f"{what}: group {k} must have initial_lr if last_epoch is passed. Create the scheduler without "
                    "last_epoch, and load its state."
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch: int = last_epoch + 1
        if last_epoch < 0:
            self.start()
        else:
            self._set(self.closed())

    # ------------------------------------------------------------------ the rates

    def factor(self, n: int) -> float:
        """Return the factor of the initial rate after ``n`` steps.

        Parameters
        ----------
        n : int
            Number of steps.

        Returns
        -------
        float
            Factor of the difference between the rate and ``floor``.
        """
        raise ConfigurationError(f"{type(self).__name__} does not define factor(n)")

    floor: float = 0.0
    """Lower limit of the rate, to which ``factor`` does not apply."""

    def closed(self) -> list[float]:
        """Return the rates of the groups from the initial rates.

        Returns
        -------
        list of float
        """
        share = self.factor(self.last_epoch)
        return [self.floor + (base - self.floor) * share for base in self.base_lrs]

    def get_lr(self) -> list[float]:
        """Return the rates of the groups from the previous rates.

        Returns
        -------
        list of float
        """
        now, before = self.factor(self.last_epoch), self.factor(self.last_epoch - 1)
        if now == before:
            return self._rates()
        if before == 0:
            return [lr + (base - self.floor) * now for lr, base in zip(self._rates(), self.base_lrs, strict=True)]
        return [self.floor + (lr - self.floor) * (now / before) for lr in self._rates()]

    def start(self) -> None:
        """Set the initial rates from the current rates of the groups."""
        self.last_epoch, first = 0, self.factor(0)
        self._set([lr if first == 1 else self.floor + (lr - self.floor) * first for lr in self._rates()])

    def restart(self) -> None:
        """Set the initial rates again."""
        self._set(self.base_lrs)
        self.start()

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def step(self) -> None:
        """Set the learning rates of the next step.

        Raises
        ------
        TracedValueError
            If called inside a jitted function.
        ConfigurationError
            If groups were added to the optimizer after the scheduler was created.

        Examples
        --------
        >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
        >>> scheduler = agrad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        refuse_trace(f"{type(self).__name__}.step", "Call it after the jitted function, which reads the rate each time")
        self._check_groups()
        self.last_epoch += 1
        self._set(self.get_lr())

    def _check_groups(self) -> None:
        """Raise ``ConfigurationError`` if groups were added to the optimizer."""
        count = len(self.optimizer.parts)
        if len(self._last_lr) != count:
            raise ConfigurationError(
                f"{type(self).__name__}: the optimizer must have {len(self._last_lr)} groups, as when the scheduler "
                f"was created, got {count}. Create a new scheduler."
            )

    def get_last_lr(self) -> list[float]:
        """Return the last learning rate of each group.

        Returns
        -------
        list of float

        Examples
        --------
        >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
        >>> agrad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
        [0.5]
        """
        return list(self._last_lr)

    # ------------------------------------------------------------------ state

    counts: tuple[str, ...] = ("last_epoch",)
    """Attributes of the saved state that are nonnegative integers."""

    values: tuple[str, ...] = ()
    """Attributes of the saved state that are numbers."""

    lists: tuple[str, ...] = ("base_lrs", "_last_lr")
    """Attributes of the saved state that have a number for each group."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state as NumPy arrays by name.

        The current rates are in the state of the optimizer.

        Returns
        -------
        dict of str to numpy.ndarray
            ``last_epoch`` and everything else that the next steps depend on, and the class and options, which are
            compared when the state is loaded. Strings are arrays of bytes. Functions are not included.
        """
        state = encoded(self._options())
        state |= {name.strip("_"): np.array(getattr(self, name), np.int64) for name in self.counts}
        state |= {name.strip("_"): np.array(getattr(self, name), np.float64) for name in (*self.values, *self.lists)}
        return state

    def _options(self) -> dict[str, Any]:
        """Return class and options by name: the attributes that are not in the state."""
        known = (*self.counts, *self.values, *self.lists)
        return {"class": type(self).__name__, **{name: x for name, x in vars(self).items() if name not in known}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state that ``state_dict`` returned.

        A state of an older version has no options. The options of the scheduler are then unchanged.

        Parameters
        ----------
        state : mapping of str to array
            State of a scheduler of the same class with the same options.

        Examples
        --------
        >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
        >>> first, second = (agrad.optim.lr_scheduler.StepLR(optimizer, step_size=2) for _ in range(2))
        >>> first.step()
        >>> second.load_state_dict(first.state_dict())
        >>> second.last_epoch
        1
        """
        given = {name: np.asarray(value) for name, value in state.items()}
        self.check(given)
        self.take(given)

    def take(self, given: Mapping[str, np.ndarray]) -> None:
        """Set the attributes of a checked state.

        Parameters
        ----------
        given : mapping of str to numpy.ndarray
        """
        for name in self.counts:
            setattr(self, name, int(given[name.strip("_")]))
        for name in (*self.values, *self.lists):
            setattr(self, name, given[name.strip("_")].tolist())

    def check(self, given: Mapping[str, np.ndarray]) -> None:
        """Raise ``DataError`` unless arrays are a state of this scheduler.

        Parameters
        ----------
        given : mapping of str to numpy.ndarray
        """
        given = without_options(f"the state of {type(self).__name__}", given, self._options())
        size = (len(self.optimizer.parts),)
        expected = {name.strip("_"): ((), "float64") for name in self.values}
        expected |= {name.strip("_"): (size, "float64") for name in self.lists}  # type: ignore[misc]
        check_state(f"the state of {type(self).__name__}", given, expected, [n.strip("_") for n in self.counts])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._last_lr}, last_epoch={self.last_epoch})"


class ClosedScheduler(LRScheduler):
    """Base class of schedulers whose rates depend only on the number of steps."""

    def get_lr(self) -> list[float]:
        return self.closed()

    def start(self) -> None:
        self.last_epoch = 0
        self._set(self.closed())
