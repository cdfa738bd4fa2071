"""Adaptive optimizers and optimizers that use signs of gradients."""

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import agrad
from agrad.errors import ConfigurationError
from agrad.ops.updates import descent
from agrad.optim.checks import share
from agrad.optim.optimizer import Optimizer
from agrad.optim.options import Pair, Rate

__all__ = ["Adadelta", "Adagrad", "Lion", "RMSprop", "Rprop"]


def _filled(p: Any, value: float) -> Any:
    """Return an array like ``p`` of one value, also in the imaginary parts."""
    return agrad.full_like(p, complex(value, value) if agrad.isdtype(p.dtype, "complex floating") else value)


class RMSprop(Optimizer):
    """RMSprop optimizer.

    With s = alpha * s + (1 - alpha) * g**2, a step is p = p - lr * d with d = g / (sqrt(s) + eps). With momentum, d =
    momentum * d + g / (sqrt(s) + eps).

    Reference: Hinton 2012, Neural Networks for Machine Learning, lecture 6; centered: Graves 2013, arXiv:1308.0850.

    Parameters
    ----------
    alpha : float
        Decay rate of the mean square.
    centered : bool
        True to normalize by the variance s - mean**2 instead, with a running mean of the gradients.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.RMSprop([w], lr=0.01).step()
    >>> w.detach().round(4)
    Tensor([0.9, 1.9], dtype=float64, backend=numpy, device=cpu)
    """

    lr: Rate = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False
    maximize: bool = False

    @classmethod
    def slots_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        means = ("mean",) if options["centered"] else ()
        return ("square", *means, *(("velocity",) if options["momentum"] else ()))

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, alpha: float, eps: float, weight_decay: float,
        momentum: float, centered: bool, maximize: bool,
    ) -> Any:  # fmt: skip
        g = descent(p, g, weight_decay, maximize)
        square, *rest = arrays
        square = size = square * alpha + g * g * (1 - alpha)
        kept = [square]
        if centered:
            mean = rest.pop(0)
            mean = mean + (g - mean) * (1 - alpha)
            size = square - mean * mean
            kept.append(mean)
        step = g / (xp.sqrt(size) + eps)
        if rest:
            step = rest[0] * momentum + step
            kept.append(step)
        return p - step * lr, *kept


class Adagrad(Optimizer):
    """Adagrad optimizer.

    With s = s + g**2, the n-th step is p = p - lr / (1 + (n - 1) * lr_decay) * g / (sqrt(s) + eps).

    Reference: Duchi, Hazan and Singer 2011, Journal of Machine Learning Research 12, 2121.

    Parameters
    ----------
    lr_decay : float
        Decay of the learning rate.
    initial_accumulator_value : float
        Initial value of s.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.Adagrad([w], lr=0.1).step()
    >>> w.detach().round(4)
    Tensor([0.9, 1.9], dtype=float64, backend=numpy, device=cpu)
    """

    slots: ClassVar[tuple[str, ...]] = ("total",)

    lr: Rate = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10
    _: KW_ONLY
    maximize: bool = False

    @classmethod
    def initial(cls, p: Any, slots: tuple[str, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
        return (_filled(p, options["initial_accumulator_value"]),)

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, lr_decay: float, weight_decay: float, eps: float,
        initial_accumulator_value: float, maximize: bool,
    ) -> Any:  # fmt: skip
        g = descent(p, g, weight_decay, maximize)
        total = arrays[0] + g * g
        return p - g / (xp.sqrt(total) + eps) * (lr / (1 + (count - 1) * lr_decay)), total


class Adadelta(Optimizer):
    """Adadelta optimizer.

    With s = rho * s + (1 - rho) * g**2, a step is p = p - lr * d with d = sqrt(u + eps) / sqrt(s + eps) * g. Then u =
    rho * u + (1 - rho) * d**2.

    Reference: Zeiler 2012, arXiv:1212.5701.

    Parameters
    ----------
    rho : float
        Decay rate of s and u, from 0 to 1.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.Adadelta([w]).step()
    >>> (np.array([1.0, 2.0]) - w).detach().round(4)
    Tensor([0.0032, 0.0032], dtype=float64, backend=numpy, device=cpu)
    """

    slots: ClassVar[tuple[str, ...]] = ("square", "steps")

    lr: Rate = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0
    _: KW_ONLY
    maximize: bool = False

    @classmethod
    def checked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super().checked(options)
        share(cls.__name__, "rho", found["rho"])
        return found

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, rho: float, eps: float, weight_decay: float,
        maximize: bool,
    ) -> Any:  # fmt: skip
        g = descent(p, g, weight_decay, maximize)
        square, steps = arrays
        square = square * rho + g * g * (1 - rho)
        step = xp.sqrt(steps + eps) / xp.sqrt(square + eps) * g
        return p - step * lr, square, steps * rho + step * step * (1 - rho)


class Lion(Optimizer):
    """Lion optimizer: steps by the sign of averaged gradients.

    A step is p = p - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p). Then m = beta2 * m + (1 - beta2) * g.
    Real and imaginary parts of complex parameters are updated independently.

    Reference: Chen et al. 2023, arXiv:2302.06675, algorithm 2.

    Parameters
    ----------
    betas : tuple of float
        Weight of m in the step, and decay rate of m, each below 1.
    weight_decay : float
        Decoupled weight decay: a step subtracts ``lr * weight_decay`` times the parameter.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, -2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.Lion([w], lr=0.1).step()
    >>> w.detach().round(4)  # the step is lr times a sign
    Tensor([0.9, -1.9], dtype=float64, backend=numpy, device=cpu)
    """

    slots: ClassVar[tuple[str, ...]] = ("m",)

    lr: Rate = 1e-4
    betas: Pair = (0.9, 0.99)
    weight_decay: float = 0.0
    _: KW_ONLY
    maximize: bool = False

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, betas: Any, weight_decay: float, maximize: bool
    ) -> Any:
        g = -g if maximize else g
        (m,) = arrays
        step = xp.sign(m * betas[0] + g * (1 - betas[0]))
        if weight_decay != 0:
            step = step + p * weight_decay
        return p - step * lr, m * betas[1] + g * (1 - betas[1])


class Rprop(Optimizer):
    """Rprop optimizer: sign-based steps with a step size for each element.

    If the gradient keeps its sign, the step size is multiplied by ``etas[1]``. If the sign changes, the step size is
    multiplied by ``etas[0]``, the element is not updated, and its gradient is treated as 0 in the next step.

    Parameters
    ----------
    etas : tuple of float
        Factors of the step size, one below 1 and one above 1.
    step_sizes : tuple of float
        Smallest and largest step size.

    Notes
    -----
    Riedmiller and Braun 1993, IEEE International Conference on Neural Networks. ``lr`` is the initial step size and is
    not used afterwards.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, -2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.Rprop([w], lr=0.1).step()
    >>> w.detach().round(4)
    Tensor([0.9, -1.9], dtype=float64, backend=numpy, device=cpu)
    """

    slots: ClassVar[tuple[str, ...]] = ("last", "size")

    lr: Rate = 1e-2
    etas: Pair = (0.5, 1.2)
    step_sizes: Pair = (1e-6, 50.0)
    _: KW_ONLY
    maximize: bool = False

    @classmethod
    def checked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super().checked(options)
        (shrink, grow), (least, most) = found["etas"], found["step_sizes"]
        if not 0 < shrink < 1 < grow or least > most:
            raise ConfigurationError(
                f"{cls.__name__}: etas must be a number between 0 and 1 and a number greater than 1, and step_sizes "
                f"must be increasing, got {options['etas']!r} and {options['step_sizes']!r}"
            )
        return found

    @classmethod
    def initial(cls, p: Any, slots: tuple[str, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
        return agrad.zeros_like(p), _filled(p, options["lr"])

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, etas: Any, step_sizes: Any, maximize: bool
    ) -> Any:
        g = -g if maximize else g
        last, size = arrays
        turn = g * last
        factor = xp.where(
            turn > 0, xp.ones_like(g) * etas[1], xp.where(turn < 0, xp.ones_like(g) * etas[0], xp.ones_like(g))
        )
        size = xp.clip(size * factor, *step_sizes)
        g = xp.where(turn < 0, xp.zeros_like(g), g)
        return p - xp.sign(g) * size, g, size
