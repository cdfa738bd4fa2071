"""Training steps of an optimizer, eager and jitted."""

from collections.abc import Callable
from typing import Any

from tensors import all_close

import agrad
from agrad import optim

OPTIMIZERS: dict[str, tuple[type[optim.Optimizer], dict[str, Any]]] = {
    "plain": (optim.SGD, {}),
    "plain, decay, maximize": (optim.SGD, {"weight_decay": 0.1, "maximize": True}),
    "momentum": (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    "dampening": (optim.SGD, {"momentum": 0.9, "dampening": 0.3}),
    "nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "Adam": (optim.Adam, {"weight_decay": 0.1, "maximize": True}),
    "AdamW": (optim.AdamW, {"weight_decay": 0.1}),
    "amsgrad": (optim.Adam, {"amsgrad": True}),
}
"""Optimizers whose steps are kernels of their own, with options."""


def step_of(optimizer: optim.Optimizer, loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step down the gradients of a loss of its arguments, which returns the loss."""

    def step(*inputs: Any, where: Any = None) -> Any:
        value = loss(*inputs)
        value.backward()
        optimizer.step(where=where)
        optimizer.zero_grad()
        return value

    return step


def same_jitted(train: Callable[[Callable[..., Any]], Any], rtol: float = 1e-9, atol: float = 1e-12) -> None:
    """Check that training returns the same arrays with steps as they are and with jitted ones."""
    all_close(train(lambda step: step), train(agrad.jit), rtol=rtol, atol=atol)
