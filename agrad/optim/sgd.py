"""Stochastic gradient descent."""

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import agrad
from agrad.engine.scalars import host_call
from agrad.errors import ConfigurationError
from agrad.ops.updates import descent, sgd_update, sgd_update_p, unread
from agrad.optim.optimizer import Optimizer
from agrad.optim.options import Rate

__all__ = ["ASGD", "SGD"]

# checked plain arrays are passed directly to the operation; a trace records the update as a whole
_SGD: Any = sgd_update_p.primitive  # type: ignore[attr-defined]


class SGD(Optimizer):
    """Stochastic gradient descent (SGD) optimizer with optional momentum.

    With the gradient g (plus ``weight_decay * p``), a step sets v = momentum * v + (1 - dampening) * g and p = p - lr *
    v. Without momentum, v is g.

    Reference: Sutskever et al. 2013, Proceedings of ICML, with the sign and position of ``lr`` as in PyTorch.

    Parameters
    ----------
    dampening : float
        Dampening of the momentum: the share of the gradient that is not added to the velocity, from the second step on.
    nesterov : bool
        True for Nesterov momentum: the step uses g + momentum * v.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> agrad.optim.SGD([w], lr=0.1).step()
    >>> w.detach()
    Tensor([0.8, 1.6], dtype=float64, backend=numpy, device=cpu)
    """

    lr: Rate = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    _: KW_ONLY
    maximize: bool = False

    @classmethod
    def checked(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super().checked(options)
        if found["nesterov"] and (not found["momentum"] or found["dampening"]):
            raise ConfigurationError(f"{cls.__name__}: nesterov=True requires momentum greater than 0 and dampening=0")
        return found

    @classmethod
    def slots_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("v",) if options["momentum"] else ()

    @classmethod
    @unread
    def update(
        cls, p: Any, g: Any, arrays: tuple[Any, ...], count: Any, donate: bool | None, **options: Any
    ) -> tuple[Any, ...]:
        if options["dampening"] != 0:
            # dampening does not apply to the first step
            if hasattr(count, "shape"):
                parts = [cls.update(p, g, arrays, n, None if donate is None else False, **options) for n in (1, 2)]
                return tuple([agrad.where(count > 1, b, a) for a, b in zip(*parts, strict=True)])
            if count <= 1:
                options["dampening"] = 0.0
        if donate is None:
            update: Any = sgd_update
        else:
            update = sgd_update_p if isinstance(p, agrad.Tensor) else _SGD.raw[type(p)]
        # without momentum, the third array is not read, but may be overwritten, so it must not be the gradient
        donate = False if donate is None else donate
        p_new, v_new = update(p, g, arrays[0] if arrays else p, donate=donate, **options)
        return (p_new, v_new) if arrays else (p_new,)


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (ASGD) optimizer.

    At the n-th step, the rate is r = lr / (1 + lambd * lr * (n - 1))**alpha and p = (1 - lambd * r) * p - r * g. The
    state ``mean`` is the mean of the parameters since step ``t0``. Before, it is the parameter.

    Parameters
    ----------
    lambd : float
        Decay of the parameter and of the rate.
    alpha : float
        Power of the decay of the rate.
    t0 : float
        Number of the step at which averaging starts.

    Notes
    -----
    Polyak and Juditsky 1992, SIAM Journal on Control and Optimization 30, 838. PyTorch computes the rate r from the
    ``lr`` of the previous step.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
    >>> optimizer = agrad.optim.ASGD([w], lr=0.1, lambd=0.0)
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (w * w).sum().backward()
    ...     optimizer.step()
    >>> bool(abs(w).max() < 0.001)
    True
    """

    slots: ClassVar[tuple[str, ...]] = ("mean",)

    lr: Rate = 1e-2
    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6
    weight_decay: float = 0.0
    maximize: bool = False

    @staticmethod
    def _formula(
        xp: Any, p: Any, g: Any, arrays: Any, count: Any, *, lr: Any, lambd: float, alpha: float, t0: float,
        weight_decay: float, maximize: bool,
    ) -> Any:  # fmt: skip
        g = descent(p, g, weight_decay, maximize)
        rate = lr / (1 + lambd * lr * (count - 1)) ** alpha
        p = p * (1 - lambd * rate) - g * rate
        (mean,) = arrays
        since = count - 1 - t0
        share = 1 / (xp.clip(since, 1, None) if hasattr(since, "shape") else host_call(max, 1, since))
        return p, mean + (p - mean) * share
