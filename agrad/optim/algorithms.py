"""The optimizers, with PyTorch's formulas, options and defaults."""

from collections.abc import Iterable
from typing import Any

import agrad
from agrad.errors import ConfigurationError
from agrad.ops.updates import adam_update_counted, adam_update_p, sgd_update_p
from agrad.optim.optimizer import Optimizer, Rate, number

# A step records nothing and has checked its arrays, so raw ones go straight to the operation on them. In a traced
# function the call of the update notes it as a whole.
_SGD: Any = sgd_update_p.primitive  # type: ignore[attr-defined]
_ADAM: Any = adam_update_p.primitive  # type: ignore[attr-defined]


class SGD(Optimizer):
    """Stochastic gradient descent, with optional momentum.

    With the gradient g (plus ``weight_decay * p``) a step takes v = momentum * v + (1 - dampening) * g and
    p = p - lr * v. Without momentum v is g.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaf Tensors of any shapes and floating dtypes.
    lr : float or function
        The learning rate, or a schedule: a function from the number of steps taken to the rate.
    momentum : float
        The share of the velocity that a step keeps.
    dampening : float
        The share of the gradient that is not added to the velocity, from the second step on.
    weight_decay : float
        The multiple of the parameter that is added to its gradient.
    nesterov : bool
        True to step by g + momentum * v, the velocity ahead.
    maximize : bool
        True to go up instead of down.

    Raises
    ------
    ConfigurationError
        If a number is below 0, or for ``nesterov`` without momentum or with dampening.

    Notes
    -----
    Sutskever et al. 2013, Proceedings of ICML, with the sign and the place of ``lr`` as in PyTorch.
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
        update: Any = sgd_update_p if isinstance(p, agrad.Tensor) else _SGD.raw[type(p)]
        p_new, v_new = update(
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
    """Adam, without amsgrad.

    With m = beta1 * m + (1 - beta1) * g and v = beta2 * v + (1 - beta2) * g**2, the n-th step is
    p = p - lr * (m / (1 - beta1**n)) / (sqrt(v / (1 - beta2**n)) + eps). Real and imaginary parts of complex parameters
    are treated separately.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaf Tensors of any shapes and floating dtypes.
    lr : float or function
        The learning rate, or a schedule: a function from the number of steps taken to the rate.
    betas : tuple of float
        The shares of the first and the second moment that a step keeps, each below 1.
    eps : float
        The term that prevents a division by a small denominator.
    weight_decay : float
        The multiple of the parameter that is added to its gradient.
    maximize : bool
        True to go up instead of down.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Notes
    -----
    Kingma and Ba 2015, arXiv:1412.6980.
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
        update: Any = adam_update_p if isinstance(p, agrad.Tensor) else _ADAM.raw[type(p)]
        if hasattr(count, "shape"):
            update = adam_update_counted
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

    The step is Adam's with g alone, after p = p - lr * weight_decay * p.

    Parameters
    ----------
    parameters : iterable of Tensor
        Leaf Tensors of any shapes and floating dtypes.
    lr : float or function
        The learning rate, or a schedule: a function from the number of steps taken to the rate.
    betas : tuple of float
        The shares of the first and the second moment that a step keeps, each below 1.
    eps : float
        The term that prevents a division by a small denominator.
    weight_decay : float
        Times ``lr`` the share of the parameter that a step subtracts.
    maximize : bool
        True to go up instead of down.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Notes
    -----
    Loshchilov and Hutter 2019, arXiv:1711.05101.
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
