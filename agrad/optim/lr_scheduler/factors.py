"""Schedulers whose rates are multiples of the initial rates."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from agrad.errors import ConfigurationError
from agrad.optim.checks import integer, number, share
from agrad.optim.lr_scheduler.base import ClosedScheduler, LRScheduler, for_groups
from agrad.optim.optimizer import Optimizer
from agrad.optim.schedules import Exponential, Step, half_cosine

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LambdaLR", "LinearLR",
    "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "StepLR",
]  # fmt: skip


class StepLR(LRScheduler):
    """Step decay of the rates by ``gamma`` after every ``step_size`` steps.

    The factor is the same as in the schedule ``optim.Step``.

    Parameters
    ----------
    step_size : int
        Number of steps with the same rate, at least 1.
    gamma : float
        Factor, at least 0.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    1.0 1.0 0.1 0.1 0.01
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size: int = integer("StepLR", "step_size", step_size)
        self.gamma: Any = number("StepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return Step(1.0, self.step_size, self.gamma)(n)


class MultiStepLR(LRScheduler):
    """Step decay of the rates by ``gamma`` at each of the ``milestones``.

    After n steps, the factor is gamma to the power of the number of milestones up to n.

    Parameters
    ----------
    milestones : iterable of int
        Numbers of steps. A number that occurs twice counts twice.
    gamma : float
        Factor, at least 0.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3])
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [1.0, 0.1, 0.1, 0.01, 0.01]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: list[int] = sorted([integer("MultiStepLR", "milestones[i]", n, 0) for n in milestones])
        self.gamma: Any = number("MultiStepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return self.gamma ** bisect_right(self.milestones, n)


class ConstantLR(LRScheduler):
    """Constant factor of the rates for the first ``total_iters`` steps.

    The factor is removed afterwards: the rates are multiplied by 1 / factor.

    Parameters
    ----------
    factor : float
        Factor, from 0 to 1.
    total_iters : int
        Number of steps with this factor, at least 1.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [0.5, 0.5, 1.0, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.share: float = share("ConstantLR", "factor", factor)
        self.total_iters: int = integer("ConstantLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return self.share if n < self.total_iters else 1.0


class LinearLR(LRScheduler):
    """Linear change of the factor of the rates.

    The factor is start_factor + (end_factor - start_factor) * n / total_iters after n steps, and end_factor after
    ``total_iters``.

    Parameters
    ----------
    start_factor : float
        Initial factor, greater than 0 and at most 1.
    end_factor : float
        Final factor, from 0 to 1.
    total_iters : int
        Number of steps to the final factor, at least 1.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor: float = share("LinearLR", "start_factor", start_factor)
        if not self.start_factor:
            raise ConfigurationError("LinearLR: start_factor must be greater than 0, got 0")
        self.end_factor: float = share("LinearLR", "end_factor", end_factor)
        self.total_iters: int = integer("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * min(self.total_iters, n) / self.total_iters


class ExponentialLR(LRScheduler):
    """Exponential decay of the rates by ``gamma`` after every step.

    The factor is the same as in the schedule ``optim.Exponential``.

    Parameters
    ----------
    gamma : float
        Factor, at least 0.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [1.0, 0.5, 0.25, 0.125, 0.0625]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma: Any = number("ExponentialLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return Exponential(1.0, self.gamma)(n)


class PolynomialLR(LRScheduler):
    """Polynomial decay of the rates to 0.

    The factor is (1 - n / total_iters)**power after n steps, and 0 after ``total_iters``.

    Parameters
    ----------
    total_iters : int
        Number of steps to 0, at least 1.
    power : float
        Power, at least 0.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters: int = integer("PolynomialLR", "total_iters", total_iters)
        self.power: Any = number("PolynomialLR", "power", power)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return (1.0 - min(self.total_iters, n) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Cosine annealing between the initial rate and ``eta_min``.

    After n steps the rate is eta_min + (lr - eta_min) * (1 + cos(pi * n / T_max)) / 2. It rises again after ``T_max``.
    The schedule ``optim.Cosine`` remains at the final rate.

    Reference: Loshchilov and Hutter 2017, arXiv:1608.03983.

    Parameters
    ----------
    T_max : int
        Number of steps to ``eta_min``, at least 1.
    eta_min : float
        Smallest rate.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [1.0, 0.8536, 0.5, 0.1464, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max: int = integer("CosineAnnealingLR", "T_max", T_max)
        self.floor: Any = number("CosineAnnealingLR", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: int) -> float:
        return half_cosine(n % (2 * self.T_max) / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing with warm restarts.

    In a cycle of T steps, the rate after n steps is eta_min + (lr - eta_min) * (1 + cos(pi * n / T)) / 2.

    Reference: Loshchilov and Hutter 2017, arXiv:1608.03983.

    Parameters
    ----------
    T_0 : int
        Number of steps of the first cycle, at least 1.
    T_mult : int
        Factor of the cycle length from cycle to cycle, at least 1.
    eta_min : float
        Smallest rate.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> [round(scheduler.factor(n), 4) for n in range(5)]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0 = integer("CosineAnnealingWarmRestarts", "T_0", T_0)
        self.T_mult: int = integer("CosineAnnealingWarmRestarts", "T_mult", T_mult)
        self.floor: Any = number("CosineAnnealingWarmRestarts", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def factor(self, n: float) -> float:
        length = self.T_0
        if self.T_mult == 1:
            n = n % length
        while n >= length:
            n, length = n - length, length * self.T_mult
        return half_cosine(n / length)

    def get_lr(self) -> list[float]:
        return self.closed()

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates of the next step.

        Parameters
        ----------
        epoch : float or None
            Number of steps for which to set the rates, fractional if steps are counted in epochs. By default, the
            previous number plus 1.
        """
        if epoch is None:
            super().step()
            return
        share = self.factor(number("CosineAnnealingWarmRestarts", "epoch", epoch))
        self.last_epoch: int = math.floor(epoch)
        self._set([self.floor + (base - self.floor) * share for base in self.base_lrs])


class _Lambda(LRScheduler):
    """Base class of schedulers that call functions.

    Parameters
    ----------
    lr_lambda : function or list of function
        Function from the number of steps to the factor, or one for each group.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        name = type(self).__name__
        self.lr_lambdas: list[Callable[[int], float]] = for_groups(name, "lr_lambda", lr_lambda, optimizer)
        for f in self.lr_lambdas:
            if not callable(f):
                raise ConfigurationError(f"{name}: lr_lambda must be a function of the step, got {f!r}")
        super().__init__(optimizer, last_epoch)


class LambdaLR(_Lambda, ClosedScheduler):
    """Initial rates multiplied by a function of the number of steps.

    Other changes of a rate are overwritten.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda epoch: 1 / (1 + epoch))
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    1.0 0.5 0.3333 0.25 0.2
    """

    def closed(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_Lambda):
    """Rates multiplied by a function of the number of steps after each step.

    The initial rates are the current rates of the groups.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.MultiplicativeLR(optimizer, lr_lambda=lambda epoch: 0.5)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    1.0 0.5 0.25 0.125 0.0625
    """

    def closed(self) -> list[float]:
        return self._rates()

    def get_lr(self) -> list[float]:
        return [lr * f(self.last_epoch) for lr, f in zip(self._rates(), self.lr_lambdas, strict=True)]

    def start(self) -> None:
        self.last_epoch = 0
        self._set(self._rates())

    def restart(self) -> None:
        self.last_epoch: int = 0
        self._set(self.get_lr())
