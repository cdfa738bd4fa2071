"""Launches of CuPy's elementwise kernels, which compile on first use."""

from functools import cache
from typing import Any

from agrad.backends.cupy.source import ELEMENTWISE

Raw = Any


@cache
def elementwise_kernel(name: str) -> Any:
    """Return CuPy's kernel for an entry of ``ELEMENTWISE``."""
    import cupy

    source = ELEMENTWISE[name]
    return cupy.ElementwiseKernel(source.inputs, source.outputs, source.body, f"agrad_{name}")


def on_each(name: str, x: Raw, *others: Any) -> Any:
    """Launch a kernel over all elements, on the device of the arrays."""
    with x.device:
        return elementwise_kernel(name)(x, *others)


def adam_numbers(
    lr: float, beta1: float, beta2: float, weight_decay: float, decoupled: bool, step: int
) -> tuple[float, float, float]:
    """Return the numbers that depend on Adam's step: rate, shrink and root2."""
    shrink = 1.0 - lr * weight_decay if decoupled else 1.0
    return lr / (1.0 - beta1**step), shrink, (1.0 - beta2**step) ** 0.5


def adam_values(
    rate: Any, shrink: Any, root2: Any, *, beta1: float, beta2: float, eps: float, decay: float
) -> tuple[Any, ...]:
    """Return the numbers that the kernel ``adam`` takes after its arrays."""
    return rate, shrink, decay, 1.0 - beta1, beta2, 1.0 - beta2, root2, eps


def sgd_values(
    *, lr: Any, momentum: float, dampening: float, nesterov: bool, weight_decay: float, maximize: bool
) -> tuple[str, tuple[Any, ...]]:
    """Return the kernel of a step of SGD, and the numbers after its arrays."""
    plain = (lr, -1.0 if maximize else 1.0, weight_decay)
    if momentum == 0:
        return "sgd_plain", plain
    return "sgd_momentum", (*plain, momentum, 1.0 - dampening, bool(nesterov))


def adam_with_numbers(
    p: Raw,
    g: Raw,
    m: Raw,
    v: Raw,
    rate: Any,
    shrink: Any,
    root2: Any,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    donate: bool,
) -> tuple[Raw, Raw, Raw]:
    """Return the new parameter and moments for given ``adam_numbers``.

    ``donate`` writes them into ``p``, ``m`` and ``v``.
    """
    values = adam_values(rate, shrink, root2, beta1=beta1, beta2=beta2, eps=eps, decay=decay)
    found: tuple[Raw, Raw, Raw] = on_each("adam", p, g, m, v, *values, *([p, m, v] if donate else []))
    return found
