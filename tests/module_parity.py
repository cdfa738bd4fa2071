"""Comparisons of a module with PyTorch's of the same name and values: results, and gradients of all that has one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_parity import check_same, close, here

import agrad
from agrad import nn


def same_values(ours: nn.Module, theirs: Any) -> dict[str, tuple[Any, Any, bool]]:
    """Load the values of a module into PyTorch's, and return their parameters by name, True for transposed ones."""
    import torch

    theirs.load_state_dict({name: torch.asarray(value) for name, value in nn.torch_state_dict(ours).items()})
    linear = {f"{name}.weight".lstrip(".") for name, module in ours.named_modules() if isinstance(module, nn.Linear)}
    found = dict(theirs.named_parameters())
    return {name: (tensor, found[name], name in linear) for name, tensor in ours.named_parameters()}


def check_module(
    ours: nn.Module,
    theirs: Any,
    arrays: Sequence[np.ndarray],
    call: Callable[..., Any] = lambda module, *arrays: module(*arrays),
    modes: bool = True,
    smooth: bool = True,
) -> None:
    """Compare a call of both modules, which gives one array, on the selected backend, in float64.

    Of the inputs all modes are compared, of the parameters the gradients of ``backward``, jitted and not.
    """
    import torch

    pairs = same_values(ours, theirs)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the only one with a second derivative
        check_same(lambda *xs: call(ours, *xs), lambda *xs: call(theirs, *xs), arrays, smooth, modes)
    theirs.zero_grad()
    value = call(theirs, *[torch.asarray(x) for x in arrays])
    weight = np.random.default_rng(3).normal(size=tuple(value.shape))
    (value * torch.asarray(weight)).sum().backward()

    def backward(*xs: Any) -> Any:
        loss = agrad.sum(call(ours, *xs) * here(weight))
        loss.backward()
        return loss

    for step in (backward, agrad.jit(backward)):
        ours.zero_grad()
        step(*[here(x) for x in arrays])
        for name, (mine, other, turned) in pairs.items():
            close(mine.grad, other.grad.T if turned else other.grad, f"the gradient of {name}")
