"""Cyclic schedulers of the learning rate and the momentum."""

from collections.abc import Callable
from typing import Any, Literal

from agrad.errors import ConfigurationError
from agrad.expect import one_of
from agrad.optim.checks import integer, number, share
from agrad.optim.lr_scheduler.base import ClosedScheduler, numbers_for_groups
from agrad.optim.optimizer import Optimizer
from agrad.optim.schedules import half_cosine

__all__ = ["CyclicLR", "OneCycleLR"]


class _Cyclic(ClosedScheduler):
    """Base class of schedulers that also set ``momentum`` or ``betas[0]``."""

    base_momentums: list[float]
    max_momentums: list[float]

    def _take_momentums(self, optimizer: Optimizer, cycle: bool, base: Any, most: Any) -> None:
        what = type(self).__name__
        self.cycle_momentum: bool = bool(cycle)
        if not cycle:
            return
        if not {"momentum", "betas"} & set(optimizer.defaults):
            raise ConfigurationError(f"{what}: {type(optimizer).__name__} has no momentum. Pass cycle_momentum=False.")
        self.base_momentums = numbers_for_groups(what, "base_momentum", base, optimizer)
        self.max_momentums = numbers_for_groups(what, "max_momentum", most, optimizer)

    def rates_and_momentums(self, k: int) -> tuple[float, float]:
        """Return the rate and the momentum of a group."""
        raise ConfigurationError(f"{type(self).__name__} does not define rates_and_momentums(k)")

    def closed(self) -> list[float]:
        rates = []
        for k, group in enumerate(self.optimizer.param_groups):
            rate, momentum = self.rates_and_momentums(k)
            rates.append(rate)
            if self.cycle_momentum and "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            elif self.cycle_momentum:
                group["momentum"] = momentum
        return rates


class OneCycleLR(_Cyclic):
    """1cycle schedule: the rate rises to ``max_lr``, then falls to almost 0.

    The rate rises from max_lr / div_factor to ``max_lr`` in the first part of the steps, and falls to max_lr /
    div_factor / final_div_factor in the rest. The momentum changes from ``max_momentum`` to ``base_momentum`` and back.
    More than ``total_steps`` steps raise an error.

    Reference: Smith and Topin 2018, arXiv:1708.07120.

    Parameters
    ----------
    max_lr : float or list of float
        Largest rate, or one for each group.
    total_steps, epochs, steps_per_epoch : int or None
        Number of steps, or the numbers of epochs and of steps per epoch.
    pct_start : float
        Share of the steps before ``max_lr``, from 0 to 1.
    anneal_strategy : str
        Shape of the curve, ``"cos"`` or ``"linear"``.
    cycle_momentum : bool
        False to keep the momentum unchanged.
    base_momentum, max_momentum : float or list of float
        Smallest and largest momentum, or beta1.
    div_factor, final_div_factor : float
        Divisors as above.
    three_phase : bool
        True to fall to the initial rate as fast as it rose, and then to the final rate.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=5, cycle_momentum=False)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    0.04 0.9505 0.6113 0.1883 0.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        what = "OneCycleLR"
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ConfigurationError(f"{what}: total_steps, or both epochs and steps_per_epoch, must be passed")
            total_steps = integer(what, "epochs", epochs) * integer(what, "steps_per_epoch", steps_per_epoch)
        self.total_steps: int = integer(what, "total_steps", total_steps)
        self.anneal_strategy: Any = one_of(what, "anneal_strategy", anneal_strategy, ("cos", "linear"))
        self.max_lrs: list[float] = numbers_for_groups(what, "max_lr", max_lr, optimizer)
        for name, value in (("div_factor", div_factor), ("final_div_factor", final_div_factor)):
            if not number(what, name, value):
                raise ConfigurationError(f"{what}: {name} must be greater than 0, got 0")
        self.final_div_factor = final_div_factor
        self._take_momentums(optimizer, cycle_momentum, base_momentum, max_momentum)
        up = share(what, "pct_start", pct_start) * self.total_steps
        self.ends: list[float] = [up - 1, 2 * up - 2] if three_phase else [up - 1]
        self.ends.append(self.total_steps - 1)
        if last_epoch < 0:
            for group, most in zip(optimizer.param_groups, self.max_lrs, strict=True):
                group["initial_lr"] = most / div_factor
        super().__init__(optimizer, last_epoch)

    def rates_and_momentums(self, k: int) -> tuple[float, float]:
        n = self.last_epoch
        if n > self.total_steps:
            raise ConfigurationError(
                f"OneCycleLR: the step must be at most {self.total_steps}, got {n}. Call step less often."
            )
        first, most = self.base_lrs[k], self.max_lrs[k]
        corners = [first, most, *([first] if len(self.ends) == 3 else []), first / self.final_div_factor]
        phase = next((i for i, end in enumerate(self.ends) if n <= end), len(self.ends) - 1)
        begin = self.ends[phase - 1] if phase else 0.0
        length = self.ends[phase] - begin
        share = (n - begin) / length if length else 1.0
        rate = self._between(corners[phase], corners[phase + 1], share)
        if not self.cycle_momentum:
            return rate, 0.0
        high, low = self.max_momentums[k], self.base_momentums[k]
        turns = [high, low, high, high]
        return rate, self._between(turns[phase], turns[phase + 1], share)

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) * half_cosine(share)


class CyclicLR(_Cyclic):
    """Cyclical learning rates between two bounds.

    In each cycle, the rate changes linearly from ``base_lr`` to ``max_lr`` and back, and the momentum in the opposite
    direction. The amplitude of a cycle is their difference multiplied by a scale: 1 for ``"triangular"``, halved after
    each cycle for ``"triangular2"``, gamma**n after n steps for ``"exp_range"``.

    Reference: Smith 2017, arXiv:1506.01186.

    Parameters
    ----------
    base_lr, max_lr : float or list of float
        Smallest and largest rate, or one for each group.
    step_size_up : int
        Number of steps up, at least 1.
    step_size_down : int or None
        Number of steps down. By default, ``step_size_up``.
    mode : str
        ``"triangular"``, ``"triangular2"`` or ``"exp_range"``. Ignored if ``scale_fn`` is given.
    gamma : float
        Factor of ``"exp_range"``.
    scale_fn : function or None
        Function that returns the scale.
    scale_mode : str
        ``"cycle"`` to call ``scale_fn`` with the number of the cycle, from 1, ``"iterations"`` with the number of
        steps.
    cycle_momentum : bool
        False to keep the momentum unchanged.
    base_momentum, max_momentum : float or list of float
        Smallest and largest momentum, or beta1.

    Examples
    --------
    >>> optimizer = agrad.optim.SGD([agrad.nn.Parameter(np.zeros(1))], lr=1.0)
    >>> scheduler = agrad.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2, cycle_momentum=False)
    >>> for _ in range(5):
    ...     print(round(scheduler.get_last_lr()[0], 4), end=" ")
    ...     optimizer.step()
    ...     scheduler.step()
    0.1 0.3 0.5 0.3 0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        what = "CyclicLR"
        base_lrs = numbers_for_groups(what, "base_lr", base_lr, optimizer)
        self.max_lrs: list[float] = numbers_for_groups(what, "max_lr", max_lr, optimizer)
        self.up: int = integer(what, "step_size_up", step_size_up)
        self.down: int = self.up if step_size_down is None else integer(what, "step_size_down", step_size_down)
        self.gamma: Any = number(what, "gamma", gamma)
        self.scale_fn = scale_fn
        self.scale_mode: Any = one_of(what, "scale_mode", scale_mode, ("cycle", "iterations"))
        self.mode = mode
        if scale_fn is None:
            one_of(what, "mode", mode, ("triangular", "triangular2", "exp_range"))
        elif not callable(scale_fn):
            raise ConfigurationError(f"{what}: scale_fn must be a function, got {scale_fn!r}")
        self._take_momentums(optimizer, cycle_momentum, base_momentum, max_momentum)
        for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
            group["initial_lr"] = lr
        super().__init__(optimizer, last_epoch)

    def rates_and_momentums(self, k: int) -> tuple[float, float]:
        n = self.last_epoch
        cycle, place = n // (self.up + self.down) + 1, n % (self.up + self.down)
        height = place / self.up if place <= self.up else 1 - (place - self.up) / self.down
        height *= self._scale(n, cycle)
        rate = self.base_lrs[k] + (self.max_lrs[k] - self.base_lrs[k]) * height
        if not self.cycle_momentum:
            return rate, 0.0
        return rate, self.max_momentums[k] - (self.max_momentums[k] - self.base_momentums[k]) * height

    def _scale(self, n: int, cycle: int) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else n)
        if self.mode == "exp_range":
            return self.gamma**n
        return 0.5 ** (cycle - 1) if self.mode == "triangular2" else 1.0
