"""Adam and its variants."""

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import agrad
from agrad.engine.scalars import host_call
from agrad.ops.updates import (
    adam_given,
    adam_number,
    adam_numbers,
    adam_update_p,
    correction,
    descent,
    host_adam_numbers,
    unread,
)
from agrad.optim.optimizer import Optimizer
from agrad.optim.options import Pair, Rate

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]

# checked plain arrays are passed directly to the operation
_ADAM: Any = adam_update_p.primitive  # type: ignore[attr-defined]


class Adam(Optimizer):
    """Adam optimizer.

    With m = beta1 * m + (1 - beta1) * g and v = beta2 * v + (1 - beta2) * g**2, the n-th step is p = p - lr * (m / (1 -
    beta1**n)) / (sqrt(v / (1 - beta2**n)) + eps). Real and imaginary parts of complex parameters are updated
    independently. Reference: Kingma and Ba 2015, arXiv:1412.6980.

    Parameters
    ----------
    amsgrad : bool
        True to use the square root of the largest v so far as the divisor (Reddi et al. 2018, arXiv:1904.09237).

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.Adam([w], lr=0.1).step()
    >>> w.detach().round(4)  # the first step has the length of lr in each coordinate
    Tensor([0.9, 1.9], dtype=float64, backend=numpy, device=cpu)
    """

    decoupled = False

    lr: Rate = 1e-3
    betas: Pair = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False
    _: KW_ONLY
    maximize: bool = False

    @classmethod
    def slots_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("m", "v", "v_max") if options["amsgrad"] else ("m", "v")

    @classmethod
    @unread
    def update(
        cls, p: Any, g: Any, arrays: tuple[Any, ...], count: Any, donate: bool | None, **options: Any
    ) -> tuple[Any, ...]:
        if options["amsgrad"] or donate is None or hasattr(count, "shape"):
            return super().update(p, g, arrays, count, donate, **options)
        update: Any = adam_update_p if isinstance(p, agrad.Tensor) else _ADAM.raw[type(p)]
        lr, (beta1, beta2), decay, shrink = options["lr"], options["betas"], options["weight_decay"], None
        given = lr, beta1, beta2, options["eps"], count
        if type(lr) is float and type(count) is int:
            rate, floor = host_adam_numbers(None, *given)
        else:
            rate, floor = (host_call(adam_number, k, *given) for k in (0, 1))
        if cls.decoupled:
            decay, shrink = 0.0, None if decay == 0 else 1 - lr * decay
        return update(
            p,
            -g if options["maximize"] else g,
            *arrays,
            rate=rate,
            floor=floor,
            beta1=beta1,
            beta2=beta2,
            decay=decay,
            shrink=shrink,
            step=count,
            donate=donate,
        )

    @classmethod
    def _formula(
        cls, xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, betas: Any, eps: float,
        weight_decay: float, amsgrad: bool, maximize: bool,
    ) -> Any:  # fmt: skip
        g = -g if maximize else g
        decay = (0.0, 1 - lr * weight_decay) if cls.decoupled and weight_decay != 0 else (weight_decay, None)
        return adam_given(xp, p, g, *arrays[:2], *adam_numbers(xp, lr, *betas, eps, count), *betas, *decay, *arrays[2:])


class AdamW(Adam):
    """AdamW optimizer: Adam with decoupled weight decay.

    It first sets p = p - lr * weight_decay * p, then applies the step of Adam to g without weight decay.

    Reference: Loshchilov and Hutter 2019, arXiv:1711.05101.

    Parameters
    ----------
    weight_decay : float
        Decoupled weight decay: a step subtracts ``lr * weight_decay`` times the parameter.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (0.0 * w).sum().backward()
    >>> agrad.optim.AdamW([w], lr=0.1, weight_decay=0.5).step()
    >>> w.detach().round(4)  # (1 - lr * weight_decay) * w
    Tensor([0.95, 1.9], dtype=float64, backend=numpy, device=cpu)
    """

    decoupled = True
    weight_decay: float = 1e-2


class Adamax(Optimizer):
    """Adamax optimizer: Adam with the infinity norm of past gradients.

    With m = beta1 * m + (1 - beta1) * g and u = max(beta2 * u, abs(g) + eps), the n-th step is
    p = p - lr / (1 - beta1**n) * m / u.

    Reference: Kingma and Ba 2015, arXiv:1412.6980, section 7.1.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.Adamax([w], lr=0.1).step()
    >>> w.detach().round(4)
    Tensor([0.9, 1.9], dtype=float64, backend=numpy, device=cpu)
    """

    slots: ClassVar[tuple[str, ...]] = ("m", "u")

    lr: Rate = 2e-3
    betas: Pair = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    _: KW_ONLY
    maximize: bool = False

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, betas: Any, eps: float, weight_decay: float,
        maximize: bool,
    ) -> Any:  # fmt: skip
        g = descent(p, g, weight_decay, maximize)
        m, u = arrays
        m = m + (g - m) * (1 - betas[0])
        u = xp.maximum(u * betas[1], xp.abs(g) + eps)
        return p - m / u * (lr / correction(xp, betas[0], count)), m, u


def _moments(xp: Any, p: Any, g: Any, m: Any, v: Any, lr: Any, o: dict[str, Any]) -> tuple[Any, ...]:
    """Return parameter, gradient and moments after the weight decay of NAdam and RAdam."""
    decay, decoupled = o["weight_decay"], o["decoupled_weight_decay"]
    if decay != 0 and decoupled:
        p = p * (1 - lr * decay)
    g = descent(p, g, 0.0 if decoupled else decay, o["maximize"])
    beta1, beta2 = o["betas"]
    return p, g, m + (g - m) * (1 - beta1), v * beta2 + g * g * (1 - beta2)


class NAdam(Optimizer):
    """NAdam optimizer: Adam with Nesterov momentum.

    Its moments m and v are the same as in Adam. With mu(n) = beta1 * (1 - 0.96**(n * momentum_decay) / 2) and M(n), its
    product over the steps, the n-th step is p = p - lr * ((1 - mu(n)) * g / (1 - M(n)) + mu(n + 1) * m / (1 - M(n +
    1))) / (sqrt(v / (1 - beta2**n)) + eps).

    Reference: Dozat 2016, Incorporating Nesterov Momentum into Adam.

    Parameters
    ----------
    momentum_decay : float
        Decay of mu.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> optimizer = agrad.optim.NAdam([w], lr=0.1)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> bool(abs(w).max() < 0.01)
    True
    """

    slots: ClassVar[tuple[str, ...]] = ("m", "v", "mu_product")

    lr: Rate = 2e-3
    betas: Pair = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False
    _: KW_ONLY
    maximize: bool = False

    @classmethod
    def initial(cls, p: Any, slots: tuple[str, ...], options: Mapping[str, Any]) -> tuple[Any, ...]:
        # of shape (1,), because NumPy returns scalars of another type for arrays of shape ()
        zero = agrad.reshape(agrad.sum(agrad.zeros_like(agrad.real(p))), (1,))
        return agrad.zeros_like(p), agrad.zeros_like(p), zero + 1

    @staticmethod
    def _formula(xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, momentum_decay: float, **o: Any) -> Any:
        m, v, product = arrays
        p, g, m, v = _moments(xp, p, g, m, v, lr, o)
        now, then = (o["betas"][0] * (1 - 0.5 * 0.96 ** (n * momentum_decay)) for n in (count, count + 1))
        product = product * now
        so_far = xp.reshape(product, ())
        root = xp.sqrt(v / correction(xp, o["betas"][1], count)) + o["eps"]
        of_g, of_m = lr * (1 - now) / (1 - so_far), lr * then / (1 - so_far * then)
        return p - (g * of_g + m * of_m) / root, m, v, product


class RAdam(Optimizer):
    """RAdam optimizer: Adam with a rectified learning rate.

    Its moments m and v are the same as in Adam. With R = 2 / (1 - beta2) - 1 and r = R - 2 * n * beta2**n / (1 -
    beta2**n), the n-th step is p = p - lr * m / (1 - beta1**n) while r is at most 5. Otherwise, it is the step of Adam,
    with eps added to sqrt(v), multiplied by sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R - 2) * r)).

    Reference: Liu et al. 2020, arXiv:1908.03265.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.RAdam([w], lr=0.1).step()
    >>> w.detach().round(4)  # the first steps are momentum steps
    Tensor([0.8, 1.6], dtype=float64, backend=numpy, device=cpu)
    """

    slots: ClassVar[tuple[str, ...]] = ("m", "v")

    lr: Rate = 1e-3
    betas: Pair = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False
    _: KW_ONLY
    maximize: bool = False

    @staticmethod
    def _formula(xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, **o: Any) -> Any:
        p, g, m, v = _moments(xp, p, g, *arrays, lr, o)
        beta1, beta2 = o["betas"]
        second = correction(xp, beta2, count)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * count * (1 - second) / second
        counted = hasattr(count, "shape")
        step = m * (lr / correction(xp, beta1, count))
        is_long = length > 5
        if not counted and not is_long:
            return p - step, m, v
        if counted:
            length = xp.where(is_long, length, xp.full_like(length, 6.0))
        share = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length) * second) ** 0.5
        scale = share / (xp.sqrt(v) + o["eps"])
        if counted:
            scale = xp.where(is_long, scale, xp.ones_like(scale))
        return p - step * scale, m, v
