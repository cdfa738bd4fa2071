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
    outputs = [p, m, v] if donate else []
    found: tuple[Raw, Raw, Raw] = on_each(
        "adam", p, g, m, v, rate, shrink, decay, 1.0 - beta1, beta2, 1.0 - beta2, root2, eps, *outputs
    )
    return found
