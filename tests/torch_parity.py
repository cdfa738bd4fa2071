"""Comparisons of a function with PyTorch's of the same name: values, and derivatives in every mode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tensors import host

import agrad
from agrad.nn import functional

TOLERANCE = 1e-10


@dataclass(frozen=True)
class Call:
    """A call of a function, with NumPy arrays as its arguments, or None; ``keywords`` name the last ones."""

    function: str
    arrays: Sequence[Any]
    options: dict[str, Any] = field(default_factory=dict)
    keywords: Sequence[str] = ()
    smooth: bool = True
    """False for points where second derivatives are a matter of convention, or PyTorch's are NaN or missing."""

    @property
    def name(self) -> str:
        shown = ", ".join(f"{key}={value}" for key, value in self.options.items() if not hasattr(value, "shape"))
        shapes = "x".join(str(getattr(array, "shape", "none")).replace(", ", ",") for array in self.arrays)
        return f"{self.function}{shapes}({shown})"


def check_call(call: Call, modes: bool = True) -> None:
    """Compare on the selected backend; ``modes`` False for value and gradient alone."""
    import torch

    ours = getattr(functional, call.function)
    theirs = getattr(torch.nn.functional, call.function)
    options = {key: _place(value) for key, value in call.options.items()}
    their_options = {key: _theirs(value) for key, value in call.options.items()}

    def called(function: Any, arrays: Sequence[Any], options: dict[str, Any]) -> Any:
        first = len(arrays) - len(call.keywords)
        return function(*arrays[:first], **dict(zip(call.keywords, arrays[first:], strict=True)), **options)

    check_same(
        lambda *arrays: called(ours, arrays, options),
        lambda *tensors: called(theirs, tensors, their_options),
        call.arrays,
        call.smooth,
        modes,
    )


def _place(value: Any) -> Any:
    return here(value) if isinstance(value, np.ndarray) else value


def _theirs(value: Any) -> Any:
    import torch

    return torch.asarray(value) if isinstance(value, np.ndarray) else value


def here(array: np.ndarray) -> Any:
    """Return an array of the selected backend's library."""
    place = agrad.zeros((1,))
    return agrad.asarray(array, backend=place.backend, device=place.device).raw


def check_same(
    f: Callable[..., Any], theirs: Callable[..., Any], arrays: Sequence[Any], smooth: bool = True, modes: bool = True
) -> None:
    """Compare a function of arrays with one of PyTorch's tensors that gives one array."""
    import torch

    rng = np.random.default_rng(5)
    where = [i for i, array in enumerate(arrays) if array is not None and array.dtype.kind == "f"]
    tensors = [None if array is None else torch.asarray(array.copy()) for array in arrays]
    for i in where:
        tensors[i].requires_grad_()
    expected = theirs(*tensors)
    weight = rng.normal(size=tuple(expected.shape))
    directions = [rng.normal(size=arrays[i].shape) for i in where]
    total = (expected * torch.asarray(weight)).sum()
    inputs = [tensors[i] for i in where]
    slopes = torch.autograd.grad(total, inputs, create_graph=smooth, allow_unused=True) if inputs else ()
    mine = [None if array is None else here(array) for array in arrays]

    def of_floats(*parts: Any) -> Any:
        full = list(mine)
        for i, part in zip(where, parts, strict=True):
            full[i] = part
        return f(*full)

    def loss(*parts: Any) -> Any:
        return agrad.sum(of_floats(*parts) * here(weight))

    parts = [mine[i] for i in where]
    argnums = tuple(range(len(where)))
    close(of_floats(*parts), expected, "the value")
    if not where:
        return
    gradient = agrad.grad(loss, argnums=argnums)
    for i, g, slope in zip(where, gradient(*parts), slopes, strict=True):
        close(g, torch.zeros_like(tensors[i]) if slope is None else slope, f"the gradient by argument {i}")
    if not modes:
        return
    moves = tuple(here(v) for v in directions)
    _, t = agrad.jvp(loss, tuple(parts), moves)
    total = sum(float(np.sum(host(g) * v)) for g, v in zip(gradient(*parts), directions, strict=True))
    close(t, np.asarray(total), "the forward derivative")
    close(agrad.jit(of_floats)(*parts), expected, "the jitted value")
    for i, g, slope in zip(where, agrad.jit(gradient)(*parts), slopes, strict=True):
        close(g, torch.zeros_like(tensors[i]) if slope is None else slope, f"the jitted gradient by argument {i}")
    batched = [agrad.stack([part, part + move * 0.125]) for part, move in zip(parts, moves, strict=True)]
    single = [host(of_floats(*[b[k, ...] for b in batched])) for k in range(2)]
    close(agrad.vmap(of_floats)(*batched), np.stack(single), "the batched value")
    if smooth:
        _check_second(gradient, parts, moves, slopes, [tensors[i] for i in where])


def _check_second(gradient: Any, parts: Any, moves: Any, slopes: Any, tensors: Any) -> None:
    """Compare the derivative of the gradient along ``moves``, reverse over reverse and forward over reverse."""
    import torch

    pairs = [(s, torch.asarray(host(v))) for s, v in zip(slopes, moves, strict=True) if s is not None]
    paired = sum((s * v).sum() for s, v in pairs)
    if getattr(paired, "requires_grad", False):
        second = torch.autograd.grad(paired, tensors, allow_unused=True)
    else:
        second = (None,) * len(tensors)

    def slope(*parts: Any) -> Any:
        return sum(agrad.sum(g * v) for g, v in zip(gradient(*parts), moves, strict=True))

    reverse = agrad.grad(slope, argnums=tuple(range(len(parts))))(*parts)
    _, forward = agrad.jvp(gradient, tuple(parts), moves)
    for i, (tensor, theirs, ours, along) in enumerate(zip(tensors, second, reverse, forward, strict=True)):
        theirs = torch.zeros_like(tensor) if theirs is None else theirs
        close(ours, theirs, f"the second derivative by floating argument {i}")
        close(along, theirs, f"the second derivative by floating argument {i}, forward over reverse")


def close(mine: Any, theirs: Any, what: str) -> None:
    theirs = theirs if isinstance(theirs, np.ndarray) else theirs.detach().numpy(force=True)
    scale = max(1.0, float(np.max(np.abs(theirs[np.isfinite(theirs)]), initial=0.0)))
    np.testing.assert_allclose(host(mine), theirs, rtol=TOLERANCE, atol=TOLERANCE * scale, err_msg=what)
