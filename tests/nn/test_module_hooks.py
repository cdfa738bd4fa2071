"""Hooks of modules beside PyTorch's, under jit, and what they cannot do."""

from typing import Any

import numpy as np
import pytest
from refusals import fails
from tensors import here, host

import agrad
from agrad import nn
from agrad.errors import NotDifferentiableError, OperandError, TracedValueError


class Pair(nn.Module):
    """Two arguments and two results."""

    def forward(self, x: Any, y: Any, scale: float = 1.0) -> Any:
        return x * y * scale, x + y


X, Y = (np.random.default_rng(seed).normal(size=3) for seed in (0, 1))


def test_forward_hooks_replace_and_are_removed(backend: str) -> None:
    seen: list[Any] = []
    model = Pair()
    handles = [
        model.register_forward_pre_hook(lambda m, args: (args[0] * 2, args[1])),
        model.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": 3.0}), with_kwargs=True),
        model.register_forward_hook(lambda m, args, out: (out[0] + 1, out[1])),
        model.register_forward_hook(lambda m, args, kwargs, out: seen.append((m, kwargs)), with_kwargs=True),
        model.register_forward_hook(lambda m, args, out: seen.append("first"), prepend=True),
    ]
    first, second = model(here(X), here(Y))
    np.testing.assert_allclose(host(first), 2 * X * Y * 3 + 1, rtol=1e-12)
    np.testing.assert_allclose(host(second), 2 * X + Y, rtol=1e-12)
    assert seen == ["first", (model, {"scale": 3.0})]
    for handle in handles:
        handle.remove()
        handle.remove()
    np.testing.assert_allclose(host(model(here(X), here(Y))[0]), X * Y, rtol=1e-12)
    with model.register_forward_hook(lambda m, args, out: 0):
        assert model(here(X), here(Y)) == 0
    assert model(here(X), here(Y)) != 0


def observed(model: Any, x: Any, y: Any, total: Any, replaces: bool) -> Any:
    """Run a model with a hook of every kind; return what the hooks saw."""
    seen: list[Any] = []

    def hook(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append([None if g is None else np.array(g.detach().numpy()) for g in (*grad_input, *grad_output)])
        return tuple(None if g is None else g * 2 for g in grad_input) if replaces else None

    def pre(module: Any, grad_output: Any) -> Any:
        return tuple(g * 3 for g in grad_output) if replaces else None

    model.register_full_backward_hook(hook)
    model.register_full_backward_pre_hook(pre)
    a, b = model(x, y)
    total(a * a + b).backward()
    return seen


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("recorded", ["both", "one", "results alone"])
def test_backward_hooks_see_what_pytorch_s_see(backend: str, replaces: bool, recorded: str, torch: Any) -> None:
    def forward(self: Any, x: Any, y: Any) -> Any:
        return x * y * self.w, x + y * self.w

    theirs, mine = (type("Weighted", (base,), {"forward": forward})() for base in (torch.nn.Module, nn.Module))
    theirs.w, mine.w = torch.nn.Parameter(torch.ones(3).double()), nn.Parameter(here(np.ones(3)))
    a, b = torch.tensor(X, requires_grad=recorded != "results alone"), torch.tensor(Y, requires_grad=recorded == "both")
    x, y = here(X), here(Y)
    x.requires_grad, y.requires_grad = a.requires_grad, b.requires_grad
    expected = observed(theirs, a, b, torch.sum, replaces)
    found = observed(mine, x, y, agrad.sum, replaces)
    assert len(found) == len(expected) == 1
    for g, e in zip(found[0], expected[0], strict=True):
        # PyTorch gives zeros for an argument without a gradient beside one that has one
        assert not np.any(e) if g is None and e is not None else (g is None) == (e is None)
        if g is not None:
            np.testing.assert_allclose(g, e, rtol=1e-12)
    for tensor, other in ((x, a), (y, b), (mine.w, theirs.w)):
        assert (tensor.grad is None) == (other.grad is None)
        if other.grad is not None:
            np.testing.assert_allclose(host(tensor.grad), other.grad.numpy(), rtol=1e-12)


def test_backward_hooks_in_transforms(backend: str) -> None:
    model = nn.Sequential(nn.Tanh())
    model.register_full_backward_hook(lambda m, gs, outs: tuple(g * 2 for g in gs))

    def loss(x: Any) -> Any:
        return agrad.sum(model(x) ** 2)

    plain = 2 * np.tanh(X) * (1 - np.tanh(X) ** 2)
    x, gradient = here(X), agrad.grad(loss)
    batched = agrad.vmap(gradient)(here(np.stack([X, Y])))
    for found in (gradient(x), agrad.jit(gradient)(x), batched[0]):
        np.testing.assert_allclose(host(found), 2 * plain, rtol=1e-12)
    match = "Sequential: backward hooks are not supported in forward mode"
    fails(NotDifferentiableError, match, agrad.jvp, loss, (x,), (x,))


def test_hooks_under_jit(backend: str) -> None:
    model = nn.Linear(3, 2, dtype="float64")
    step = agrad.jit(lambda x: agrad.sum(model(x) ** 2))
    plain = step(here(X)).item()

    with model.register_forward_hook(lambda m, args, out: out * 2):
        assert step(here(X)).item() == pytest.approx(4 * plain, rel=1e-12)
        step(here(Y))
    assert step(here(X)).item() == pytest.approx(plain, rel=1e-12)
    assert (step.cache_info().misses, step.cache_info().hits) == (3, 1)
    seen: list[Any] = []
    with model.register_forward_hook(lambda m, args, out: seen.append(out)):
        fails(TracedValueError, "changed seen while it was traced", step, here(X))


def test_wrong_results_of_hooks_are_errors(backend: str) -> None:
    x = here(X)
    x.requires_grad = True
    for register, hook, match in (
        ("register_forward_pre_hook", lambda m, args, kwargs: 3, r"must return None or \(args, kwargs\), got 3"),
        ("register_full_backward_hook", lambda m, gs, outs: (gs[0], gs[0]), "must return None or 1 gradients, got 2"),
        ("register_full_backward_hook", lambda m, gs, outs: gs[0][:1], r"of shape \(3,\), got Tensor"),
        ("register_full_backward_pre_hook", lambda m, gs: ("no",), "a gradient of float64 .*, got 'no'"),
    ):
        model = nn.Tanh()
        options = {"with_kwargs": True} if register == "register_forward_pre_hook" else {}
        getattr(model, register)(hook, **options)
        fails(OperandError, match, lambda model=model: agrad.sum(model(x)).backward())
