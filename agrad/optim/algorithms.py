"""The optimizers: PyTorch's formulas, options and defaults."""

from collections.abc import Callable, Iterable
from typing import Any

import agrad
from agrad.errors import ConfigurationError
from agrad.ops.updates import adam_update_counted, adam_update_p, sgd_update_p
from agrad.optim.optimizer import Optimizer, Rate, number


def _function(update: Any, p: Any) -> Callable[..., Any]:
    """Return the function of an update for an array ``p``.

    A step records nothing and has checked its arrays, so raw ones go straight to the operation on them. In a traced
    function the call of the update notes it as a whole.
    """
    return update if isinstance(p, agrad.Tensor) else update.primitive.raw[type(p)]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for.

    ``momentum`` keeps that share of the velocity; ``dampening`` lessens what the gradient adds to it, from the second
    step on; ``nesterov`` looks ahead by the velocity; ``weight_decay`` adds that multiple of the parameter to its
    gradient; ``maximize`` goes up instead of down. Raises ``ConfigurationError`` for numbers below 0, and for
    ``nesterov`` without momentum or with dampening.
    """

    def __init__(
        self,
        parameters: Iterable[agrad.Tensor],
        lr: Rate = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(parameters, lr)
        self.momentum = number("SGD", "momentum", momentum)
        self.dampening = number("SGD", "dampening", dampening)
        self.weight_decay = number("SGD", "weight_decay", weight_decay)
        self.nesterov, self.maximize = bool(nesterov), bool(maximize)
        if self.nesterov and (not self.momentum or self.dampening):
            raise ConfigurationError("SGD: nesterov takes a momentum above 0 and no dampening")
        self.slots = ("v",) if self.momentum else ()

    def update(self, p: Any, g: Any, arrays: tuple[Any, ...], count: int, lr: float, donate: bool) -> tuple[Any, ...]:
        if self.dampening and hasattr(count, "shape"):
            first, later = (self.update(p, g, arrays, number, lr, False) for number in (1, 2))
            return tuple([agrad.where(count > 1, b, a) for a, b in zip(first, later, strict=True)])
        p_new, v_new = _function(sgd_update_p, p)(
            p,
            g,
            arrays[0] if arrays else g,
            lr=lr,
            momentum=self.momentum,
            dampening=self.dampening if self.dampening and count > 1 else 0.0,
            nesterov=self.nesterov,
            weight_decay=self.weight_decay,
            maximize=self.maximize,
            donate=donate,
        )
        return (p_new, v_new) if arrays else (p_new,)

    def options(self) -> dict[str, Any]:
        names = ("momentum", "dampening", "weight_decay", "nesterov", "maximize")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980), without amsgrad.

    ``betas`` are the shares of the first and the second moment that a step keeps, ``eps`` keeps the division from a
    small denominator, ``weight_decay`` adds that multiple of the parameter to its gradient, and ``maximize`` goes up
    instead of down. Of complex parameters, real and imaginary parts are treated each by itself. Raises
    ``ConfigurationError`` for numbers out of range.
    """

    slots = ("m", "v")
    decoupled = False

    def __init__(
        self,
        parameters: Iterable[agrad.Tensor],
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(parameters, lr)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ConfigurationError(f"{self._name}: betas are two numbers, not {betas!r}")
        self.betas = (
            number(self._name, "betas[0]", betas[0], 1),
            number(self._name, "betas[1]", betas[1], 1),
        )
        self.eps = number(self._name, "eps", eps)
        self.weight_decay = number(self._name, "weight_decay", weight_decay)
        self.maximize = bool(maximize)

    def update(self, p: Any, g: Any, arrays: tuple[Any, ...], count: int, lr: float, donate: bool) -> tuple[Any, ...]:
        update = adam_update_counted if hasattr(count, "shape") else _function(adam_update_p, p)
        return update(
            p,
            -g if self.maximize else g,
            *arrays,
            lr=lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            eps=self.eps,
            weight_decay=self.weight_decay,
            decoupled=self.decoupled,
            step=count,
            donate=donate,
        )

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"betas": self.betas, "eps": self.eps}
        options |= {name: getattr(self, name) for name in ("weight_decay", "maximize") if getattr(self, name)}
        return options


class AdamW(Adam):
    """Adam with weight decay of the parameter itself.

    Loshchilov and Hutter 2019, arXiv:1711.05101.

    Options as ``Adam``; ``weight_decay`` times ``lr`` is the share of the parameter that a step takes away.
    """

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[agrad.Tensor],
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay, maximize=maximize)
