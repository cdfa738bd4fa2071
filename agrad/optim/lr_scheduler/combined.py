"""Schedulers that combine other schedulers."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from agrad.engine.scalars import refuse_trace
from agrad.errors import ConfigurationError, OperandError
from agrad.optim.checks import integer
from agrad.optim.lr_scheduler.base import LRScheduler
from agrad.optim.lr_scheduler.plateau import ReduceLROnPlateau
from agrad.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Combined(LRScheduler):
    """Base class of schedulers that combine several schedulers of an optimizer."""

    lists = ("_last_lr",)

    def _take(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        what = type(self).__name__
        if not isinstance(schedulers, (list, tuple)) or not schedulers:
            raise ConfigurationError(f"{what}: schedulers must be a non-empty list, got {schedulers!r}")
        for i, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise OperandError(f"{what}: schedulers[{i}] must be a scheduler, got {type(scheduler).__name__}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ConfigurationError(f"{what}: schedulers[{i}] must not require a metric, got a ReduceLROnPlateau")
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ConfigurationError(f"{what}: schedulers must have the same optimizer, got another one at {i}")
        self.schedulers = list(schedulers)
        self.optimizer = schedulers[0].optimizer

    def restart(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self.start()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state of this scheduler and of its parts by name.

        Returns
        -------
        dict of str to numpy.ndarray
            State of this scheduler, and the state of each part under names like ``0.last_epoch``.
        """
        parts = [(i, scheduler.state_dict()) for i, scheduler in enumerate(self.schedulers)]
        return {**super().state_dict(), **{f"{i}.{name}": value for i, state in parts for name, value in state.items()}}

    def check(self, given: Mapping[str, np.ndarray]) -> None:
        own, parts = self._split(given)
        super().check(own)
        for scheduler, part in zip(self.schedulers, parts, strict=True):
            scheduler.check(part)

    def take(self, given: Mapping[str, np.ndarray]) -> None:
        own, parts = self._split(given)
        super().take(own)
        for scheduler, part in zip(self.schedulers, parts, strict=True):
            scheduler.take(part)

    def _split(self, given: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
        """Return the arrays of this scheduler, and the arrays of each part."""
        own, parts = dict(given), []
        for i in range(len(self.schedulers)):
            stem = f"{i}."
            parts.append({name.removeprefix(stem): own.pop(name) for name in list(own) if name.startswith(stem)})
        return own, parts


class ChainedScheduler(_Combined):
    """Schedulers that step together, each from the rates of the previous one.

    Parameters
    ----------
    schedulers : list of LRScheduler
        Schedulers of one optimizer, in order.
    optimizer : Optimizer or None
        Optimizer of the schedulers.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> decay = agrad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> warmup = agrad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> scheduler = agrad.optim.lr_scheduler.ChainedScheduler([warmup, decay])
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.1]
    [0.05]
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(schedulers, optimizer)
        self.last_epoch: int = 0
        self._last_lr = self._rates()

    def start(self) -> None:
        self.last_epoch = 0
        for scheduler in self.schedulers:
            scheduler.start()
        self._last_lr = self._rates()

    def step(self) -> None:
        """Step each scheduler."""
        for scheduler in self.schedulers:
            scheduler.step()
        self.last_epoch += 1
        self._last_lr = self._rates()


class SequentialLR(_Combined):
    """Schedulers that run one after another.

    At each milestone, the next scheduler starts with its initial rates.

    Parameters
    ----------
    optimizer : Optimizer
        Optimizer of all schedulers.
    schedulers : list of LRScheduler
        Schedulers, in order.
    milestones : list of int
        Increasing numbers of steps at which the schedulers after the first one start.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> warmup = agrad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = agrad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1)
    >>> scheduler = agrad.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.5]
    [0.5]
    [1.0]
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1 or sorted(milestones) != list(milestones):
            raise ConfigurationError(
                f"SequentialLR: milestones must be {len(schedulers) - 1} increasing integers, the first steps of the "
                f"schedulers after the first one, got {milestones!r}"
            )
        self.milestones: list[int] = [integer("SequentialLR", "milestones[i]", n, 0) for n in milestones]
        self.last_epoch: int = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._present().start()
        self._last_lr = self._rates()

    def _present(self) -> LRScheduler:
        return self.schedulers[bisect_right(self.milestones, self.last_epoch)]

    def start(self) -> None:
        self.last_epoch = 0
        self._present().start()
        self._last_lr = self._rates()

    def step(self) -> None:
        """Step the active scheduler."""
        refuse_trace("SequentialLR.step", "Call it after the jitted function, which reads the rate each time")
        self.last_epoch += 1
        if self.last_epoch in self.milestones:
            self._present().restart()
        else:
            self._present().step()
        self._last_lr = self._rates()
