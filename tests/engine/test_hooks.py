"""Hooks on gradients: when they run, what they see, what they replace, and what they do not cost."""

from typing import Any

import numpy as np
from checker import assert_close, host
from refusals import fails

import agrad
from agrad.errors import NotDifferentiableError, OperandError, RuleError

X = np.asarray([0.5, -1.0, 2.0])


def test_a_hook_sees_the_whole_gradient_once(place: Any) -> None:
    x = agrad.asarray(place(X), requires_grad=True)
    y = agrad.sin(x)
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g))
    x.register_hook(lambda g: seen.append(g))
    agrad.sum(y * 2 + y * y).backward()
    assert len(seen) == 2 and all(isinstance(g, agrad.Tensor) and not g.requires_grad for g in seen)
    assert_close(seen[0], 2 + 2 * np.sin(X), "of the result")
    assert_close(seen[1], host(x.grad), "of the leaf")
    assert_close(x.grad, (2 + 2 * np.sin(X)) * np.cos(X), "unchanged")


def test_what_a_hook_records_with_does_not_change_when_cotangents_are_added() -> None:
    x = agrad.asarray(np.linspace(0.0, 1.0, 50_000), requires_grad=True)
    w = agrad.asarray(np.ones(50_000), requires_grad=True)
    early = agrad.sin(x)
    late = x + 0.5  # of the cotangent as it is, to which that of early is added
    recorded: list[Any] = []
    late.register_hook(lambda g: recorded.append(w + g))
    agrad.sum(early * early + late * late).backward()
    _, cotangent = recorded[0].op.args
    assert repr(cotangent) == "(not kept)"  # and it is not taken for the sum


def test_a_hook_replaces_and_they_run_in_order() -> None:
    x = agrad.asarray(X, requires_grad=True)
    y = x * 3
    first = y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: (g + 1).raw)
    x.register_hook(lambda g: g * 2)
    y.retain_grad()
    agrad.sum(y).backward(retain_graph=True)
    assert_close(y.grad, np.full(3, 11.0), "what is retained is what came of it")
    assert_close(x.grad, np.full(3, 66.0), "replaced")
    first.remove()
    first.remove()
    x.grad = None
    agrad.sum(y).backward(retain_graph=True)
    assert_close(x.grad, np.full(3, 12.0), "removed")
    x.grad = None
    with y.register_hook(lambda g: g * 0):
        agrad.sum(y).backward(retain_graph=True)
    assert_close(x.grad, np.zeros(3), "the last of them")
    x.grad = None
    agrad.sum(y).backward(retain_graph=True)
    assert_close(x.grad, np.full(3, 12.0), "removed on leaving")
    assert_close(agrad.asarray(agrad.sum(y).grad_fn(np.asarray(1.0))[0]), np.ones(3), "grad_fn looks at one rule alone")


def test_hooks_in_transforms_and_second_order() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: g * 5)
        return agrad.sum(y * y)

    assert_close(agrad.grad(f)(X), 5 * 4 * X**3, "grad")
    assert_close(agrad.jvp(agrad.grad(f), (X,), (X,))[1], 60 * X**3, "forward over reverse")
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.grad(f)(x)))(X), 60 * X**2, "twice", 1e-12)
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.checkpoint(f)(x)))(X), 20 * X**3, "in a checkpoint")
    x = agrad.asarray(X, requires_grad=True)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g))
    agrad.sum(x**3).backward(create_graph=True)
    assert seen[0].requires_grad
    one, two = agrad.linalg.slogdet(agrad.eye(2) * agrad.sum(x * x))
    two.register_hook(lambda g: g * 3)
    x.grad = None
    two.backward()
    assert_close(x.grad, 3 * 4 * X / np.sum(X * X), "one output of several", 1e-12)
    assert one is not None


def test_writes_to_what_has_a_hook() -> None:
    """The hook stays with the value it was registered on, as PyTorch's does."""
    for write, expected in (
        (lambda b: b.__imul__(3), 60.0),
        (lambda b: b.__setitem__(slice(0, 3), b * 3), 60.0),
        (lambda b: b[:2].__imul__(1), 20.0),
    ):
        a = agrad.asarray(X, requires_grad=True)
        b = a * 2
        b.register_hook(lambda g: g * 10)
        write(b)
        agrad.sum(b).backward()
        assert_close(a.grad, np.full(3, expected), "the leaf")
    written: list[Any] = []

    def f(x: Any) -> Any:
        x *= 3
        written.append(x)
        return agrad.sum(x)

    assert_close(agrad.grad(f)(X), np.full(3, 3.0), "a transform's argument")
    assert not written[0].node.plan.retains
    a = agrad.asarray(X, requires_grad=True)
    b = a * 2
    b.register_hook(lambda g: g * 10).remove()
    b.retain_grad()
    b *= 3
    agrad.sum(b).backward()
    assert_close(a.grad, np.full(3, 6.0), "removed")
    assert_close(b.grad, np.ones(3), "retained")


def test_a_write_to_the_base_of_a_view_with_a_hook() -> None:
    def run(earlier_use: bool, write: Any) -> tuple[list[Any], Any]:
        x = agrad.asarray(np.ones(4), requires_grad=True)
        base, seen = x * 1.0, []
        view = base[2:]
        handle = view.register_hook(lambda g: (seen.append(host(g).tolist()), 10 * g)[1])
        used = view * 2.0 if earlier_use else 0.0
        write(base, view)
        out = agrad.sum(view * 3.0 + used)
        out.backward(retain_graph=True)
        gradient, x.grad = host(x.grad).tolist(), None
        handle.remove()
        out.backward()
        assert host(x.grad).tolist()[2:] == [5.0, 5.0] if earlier_use else [3.0, 3.0]
        return seen, gradient

    def to_base(base: Any, view: Any) -> None:
        base[0] += 1.0

    def to_both(base: Any, view: Any) -> None:
        view += 1.0
        base[0] += 1.0

    assert run(False, to_base) == ([[3.0, 3.0]], [0.0, 0.0, 30.0, 30.0])
    assert run(False, to_both) == ([[3.0, 3.0]], [0.0, 0.0, 30.0, 30.0])
    # the value before the write was used too: the hook sees the gradient of each
    assert run(True, to_base) == ([[3.0, 3.0], [2.0, 2.0]], [0.0, 0.0, 50.0, 50.0])
    assert run(True, to_both) == ([[5.0, 5.0]], [0.0, 0.0, 50.0, 50.0])


def test_a_hook_on_a_base_sees_the_gradients_of_its_views(place: Any) -> None:
    x = agrad.asarray(place(X), requires_grad=True)
    base = x * 1.0
    base.retain_grad()
    view = base[:2]
    view.retain_grad()
    view *= 3.0
    base.register_hook(lambda g: 10 * g)
    (agrad.sum(view * view) + base[0]).backward()
    slope = np.append(6 * X[:2] + [1, 0], 0)
    assert_close(view.grad, 6 * X[:2], "of the view")
    assert_close(base.grad, 10 * slope, "of the base")
    assert_close(x.grad, 30 * slope, "of the leaf")


def test_what_is_refused() -> None:
    x = agrad.asarray(X, requires_grad=True)
    fails(NotDifferentiableError, r"register_hook\(\): .* requires_grad=True", agrad.asarray(X).register_hook, print)
    fails(OperandError, "must be a function", x.register_hook, 3)
    pushed = lambda x: x.register_hook(print)  # noqa: E731
    fails(NotDifferentiableError, "must be recorded in reverse mode", agrad.jvp, pushed, (X,), (X,))
    x.register_hook(lambda g: g[:2])
    fails(RuleError, "a hook must return", agrad.sum(x).backward)
    z = agrad.asarray(X, requires_grad=True)
    z.register_hook(lambda g: agrad.astype(g, agrad.float32))
    fails(RuleError, "dtype float64", agrad.sum(z).backward)
