"""Scheduler that depends on a metric."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import agrad
from agrad.engine.scalars import refuse_trace
from agrad.expect import one_of
from agrad.optim.checks import integer, number
from agrad.optim.lr_scheduler.base import LRScheduler, checked_optimizer, numbers_for_groups
from agrad.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Decay of the rates by ``factor`` when a metric stops improving.

    ``step(metrics)`` expects the metric. It has improved if it is better than the best one so far by the threshold.

    Parameters
    ----------
    mode : str
        ``"min"`` if smaller is better, ``"max"`` if larger is better.
    factor : float
        Factor, below 1.
    patience : int
        Number of steps without improvement to tolerate before the rates change.
    threshold : float
        Smallest change that counts as an improvement.
    threshold_mode : str
        ``"rel"`` for a threshold relative to the best metric, ``"abs"`` for an absolute difference.
    cooldown : int
        Number of steps after a change in which missing improvements are not counted.
    min_lr : float or list of float
        Smallest rate, or one for each group.
    eps : float
        Smallest change of a rate that is applied.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     optimizer.step()
    ...     scheduler.step(loss)
    ...     print(loss, scheduler.get_last_lr())
    3.0 [1.0]
    2.0 [1.0]
    2.0 [1.0]
    2.0 [0.1]
    """

    counts: tuple[str, ...] = ("last_epoch", "num_bad_epochs", "cooldown_counter")
    values: tuple[str, ...] = ("best",)
    lists: tuple[str, ...] = ("_last_lr",)

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        what = "ReduceLROnPlateau"
        self.optimizer: Optimizer = checked_optimizer(what, optimizer)
        self.mode: Any = one_of(what, "mode", mode, ("min", "max"))
        self.threshold_mode: Any = one_of(what, "threshold_mode", threshold_mode, ("rel", "abs"))
        self.share: Any = number(what, "factor", factor, 1)
        self.patience: int = integer(what, "patience", patience, 0)
        self.cooldown: int = integer(what, "cooldown", cooldown, 0)
        self.threshold: Any = number(what, "threshold", threshold)
        self.eps: Any = number(what, "eps", eps)
        self.min_lrs: list[float] = numbers_for_groups(what, "min_lr", min_lr, optimizer)
        self.best: float = math.inf if mode == "min" else -math.inf
        self.last_epoch: int = 0
        self.num_bad_epochs: int = 0
        self.cooldown_counter: int = 0
        self._last_lr = self._rates()

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Reduce the rates if the metric has not improved for too long.

        Parameters
        ----------
        metrics : float or array
            Metric, a number or an array of one element, which is read from the device.
        """
        refuse_trace("ReduceLROnPlateau.step", "Call it after the jitted function, with a value that it returned")
        self._check_groups()
        now = float(agrad.asarray(metrics).item())
        self.last_epoch += 1
        if self._is_better(now):
            self.best, self.num_bad_epochs = now, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            rates = self._rates()
            smaller = [max(lr * self.share, least) for lr, least in zip(rates, self.min_lrs, strict=True)]
            self._set([new if lr - new > self.eps else lr for lr, new in zip(rates, smaller, strict=True)])
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    def _is_better(self, now: float) -> bool:
        change = self.threshold if self.mode == "max" else -self.threshold
        bound = self.best * (1 + change) if self.threshold_mode == "rel" else self.best + change
        return now < bound if self.mode == "min" else now > bound
