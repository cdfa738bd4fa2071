"""Views: random programs of views and writes, on Tensors and on the libraries' own arrays; values and gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad
from agrad.backends import load
from agrad.backends.base import Backend

STEPS = 14
WITH_VIEWS = ("numpy", "torch", "array_api_strict", "cupy")


class Namespace:
    """The few words that programs use, of a raw library or of agrad."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def permute(self, x: Any, axes: Any) -> Any:
        return self.xp.permute_dims(x, axes)

    def reshape(self, x: Any, shape: Any) -> Any:
        return self.xp.reshape(x, shape)

    def expand(self, x: Any, axis: int) -> Any:
        return self.xp.expand_dims(x, axis=axis)

    def squeeze(self, x: Any, axis: int) -> Any:
        return self.xp.squeeze(x, axis)

    def flip(self, x: Any, axis: int) -> Any:
        return self.xp.flip(x, axis=axis)

    def scaled(self, x: Any, factor: float) -> Any:
        return x * factor

    def energy(self, x: Any) -> Any:
        x = x * 1.0  # PyTorch's tape keeps what it is given, and refuses where that was changed
        return self.xp.sum(x * x)


class RowByRow(Namespace):
    """PyTorch's words for a library whose products lie row by row, whatever the order of their operands' axes.

    Which reshapes are views goes by that order, and what a program of views and writes computes goes by the views.
    """

    def scaled(self, x: Any, factor: float) -> Any:
        return (x * factor).contiguous()


def peers_words(own: Backend, place: Callable[[np.ndarray], Any]) -> Namespace:
    """PyTorch's words, laying products out as this library does."""
    turned = own.xp.permute_dims(place(np.ones((2, 3))), (1, 0))
    kept = own.strides(turned * 1.0) == own.strides(turned)
    return (Namespace if kept else RowByRow)(load("torch").xp)


def basic_index(rng: np.random.Generator, shape: tuple[int, ...], reverse: bool, write: bool = False) -> Any:
    """An index that gives a view, with every axis named as array-api-strict wants it; never one of no dimensions."""
    entries: list[Any] = []
    keep = rng.integers(len(shape))
    for axis, n in enumerate(shape):
        start = int(rng.integers(0, n))
        kinds = ["int", "from", "all", "strided", *(["back"] if reverse else [])]
        kind = rng.choice(kinds if axis != keep else kinds[1:])
        entries.append(
            {
                "int": start - n * int(rng.integers(2)),
                "from": slice(start, n),
                "all": slice(None),
                "strided": slice(0, n, 2),
                "back": slice(None, None, -1),
            }[str(kind)]
        )
    if rng.integers(4) == 0 and not write:  # array-api-strict reads with None and does not write
        entries.insert(int(rng.integers(len(entries) + 1)), None)
    return tuple(entries)


def divisors_shape(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths with two neighbours joined, one split, or all joined."""
    lengths = list(shape)
    if len(lengths) > 1 and rng.integers(2):
        i = int(rng.integers(len(lengths) - 1))
        lengths[i : i + 2] = [lengths[i] * lengths[i + 1]]
    elif lengths and len(lengths) < 4:
        i = int(rng.integers(len(lengths)))
        if lengths[i] % 2 == 0 and lengths[i]:
            lengths[i : i + 1] = [2, lengths[i] // 2]
    return tuple(lengths)


def take_view(rng: np.random.Generator, w: Namespace, x: Any, numbers: int, flips: bool) -> Any:
    shape = tuple(int(n) for n in x.shape)
    kind = numbers % 6
    if kind in (0, 1) and len(shape):
        return x[basic_index(rng, shape, flips)]
    if kind == 2:
        return w.permute(x, tuple(int(i) for i in rng.permutation(len(shape))))
    if kind == 3:
        return w.reshape(x, divisors_shape(rng, shape))
    if kind == 4 and len(shape) < 4:
        return w.expand(x, int(rng.integers(len(shape) + 1)))
    if kind == 5 and 1 in shape and len(shape) > 1:
        return w.squeeze(x, shape.index(1))
    if flips and len(shape):
        return w.flip(x, int(rng.integers(len(shape))))
    return w.reshape(x, shape)


def run(seed: int, w: Namespace, values: list[Any], *, flips: bool, check: Callable[[list[Any]], None]) -> list[Any]:
    """A program drawn from ``seed``; ``values`` are the arrays it begins with, none of them a leaf."""
    rng = np.random.default_rng(seed)
    live = list(values)
    live[1] = w.scaled(w.permute(live[1], (1, 0)), 1.0)  # its axes may lie in memory in the other order
    for _ in range(STEPS):
        at = int(rng.integers(len(live)))
        x = live[at]
        shape = tuple(int(n) for n in x.shape)
        kind, number = int(rng.integers(8)), int(rng.integers(1000))
        if kind <= 2 and len(live) < 9:
            live.append(take_view(rng, w, x, number, flips))
        elif kind == 3 and len(shape):
            x[basic_index(rng, shape, flips, write=True)] = 0.125 * (number % 40)
        elif kind == 4 and len(shape):
            picked = x[basic_index(rng, shape, flips)]
            picked += 0.1 * w.energy(live[int(rng.integers(len(live)))])
            del picked
        elif kind == 5:
            x += w.xp.sum(live[number % len(live)])
            x *= 0.25
        elif kind == 6 and len(shape):
            index = basic_index(rng, shape, flips, write=True)
            x[index] *= 1.5
        elif kind == 7:
            if number % 2:
                live.append(w.scaled(x, 1.25))
            elif len(live) > 3:
                del live[at]
        del x
        check(live)
    return live


def starts(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1000 + seed)
    return [rng.uniform(-1, 1, (2, 3, 4)), rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, 6)]


@pytest.mark.parametrize("seed", range(60))
def test_values_are_those_of_the_librarys_own_arrays(seed: int, backend: str, place: Any) -> None:
    """Step by step, on everything that lives: what NumPy changes through a view, a Tensor changes too."""
    if backend not in WITH_VIEWS:
        pytest.skip(f"{backend} has no views")
    own = load(backend)
    seen: list[list[np.ndarray]] = []

    def remember(live: list[Any]) -> None:
        seen.append([np.array(own.to_host(x)) for x in live])

    flips = backend != "torch"  # PyTorch knows no negative steps, and flips copy
    data = starts(seed)
    natives = [own.xp.asarray(place(np.array(x)), copy=True) for x in data]
    run(seed, Namespace(own.xp), natives, flips=flips, check=remember)
    steps = iter(seen)

    def compare(live: list[Any]) -> None:
        expected = next(steps)
        assert len(live) == len(expected)
        for x, value in zip(live, expected, strict=True):
            np.testing.assert_allclose(host(x), value, rtol=1e-12, atol=1e-12)

    tensors = [agrad.asarray(place(np.array(x))) for x in data]
    before = [x.raw for x in tensors]
    kept = [host(x).copy() for x in tensors]
    run(seed, Namespace(agrad), tensors, flips=flips, check=compare)
    for raw, value in zip(before, kept, strict=True):
        assert_close(raw, value, "the array that was given")


def weighted_sum(w: Namespace, live: list[Any], place: Callable[[np.ndarray], Any], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return sum(w.xp.sum(x * place(rng.uniform(0.5, 1.5, tuple(x.shape)))) for x in live)


def peers_gradients(seed: int, w: Namespace) -> tuple[float, list[np.ndarray]]:
    """PyTorch's own loss and gradients of a program, by its own autograd."""
    import torch

    leaves = [torch.from_numpy(x).clone().requires_grad_() for x in starts(seed)]
    live = run(seed, w, [x * 1.0 for x in leaves], flips=False, check=lambda live: None)
    loss = weighted_sum(w, live, torch.from_numpy, seed)
    loss.backward()
    return loss.item(), [x.grad.numpy() if x.grad is not None else np.zeros(x.shape) for x in leaves]


def loss_of(seed: int, place: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    def loss(*leaves: Any) -> Any:
        w = Namespace(agrad)
        live = run(seed, w, [x * 1.0 for x in leaves], flips=False, check=lambda live: None)
        return weighted_sum(w, live, place, seed)

    return loss


@pytest.mark.needs("torch")
@pytest.mark.parametrize("seed", range(40))
def test_gradients_are_pytorchs(seed: int, backend: str, place: Any) -> None:
    """By ``backward`` and by ``grad``; on a library without views there is nothing to compare."""
    if backend not in WITH_VIEWS:
        pytest.skip(f"{backend} has no views")
    value, expected = peers_gradients(seed, peers_words(load(backend), place))
    data = [place(np.array(x)) for x in starts(seed)]
    leaves = [agrad.asarray(x, requires_grad=True) for x in data]
    out = loss_of(seed, place)(*leaves)
    out.backward()
    assert_close(out, value, "value")
    inside = agrad.grad(loss_of(seed, place), argnums=(0, 1, 2))(*data)
    for x, by_grad, gradient in zip(leaves, inside, expected, strict=True):
        assert_close(x.grad if x.grad is not None else np.zeros(x.shape), gradient, "gradient by backward")
        assert_close(by_grad, gradient, "gradient by grad")


@pytest.mark.parametrize("seed", range(12))
def test_forward_and_second_order(seed: int, backend: str, place: Any) -> None:
    """The tangent is what the gradient says; second order agrees in two orders, and with differences."""
    rng = np.random.default_rng(seed)
    data = starts(seed)
    f = loss_of(seed, place)
    placed = [place(np.array(x)) for x in data]
    directions = [rng.standard_normal(x.shape) for x in data]
    tangents = [place(np.array(d)) for d in directions]
    gradient = agrad.grad(f, argnums=(0, 1, 2))
    _, tangent = agrad.jvp(f, tuple(placed), tuple(tangents))
    along = sum(np.sum(host(g) * d) for g, d in zip(gradient(*placed), directions, strict=True))
    assert_close(tangent, along, "tangent")
    _, forward_over_reverse = agrad.jvp(gradient, tuple(placed), tuple(tangents))

    def slope(*xs: Any) -> Any:
        return agrad.jvp(f, xs, tuple(tangents))[1]

    reverse_over_forward = agrad.grad(slope, argnums=(0, 1, 2))(*placed)
    epsilon = 1e-5
    ahead, behind = (
        gradient(*[place(x + s * epsilon * d) for x, d in zip(data, directions, strict=True)]) for s in (1, -1)
    )
    for one, other, a, b in zip(forward_over_reverse, reverse_over_forward, ahead, behind, strict=True):
        assert_close(one, host(other), "second order in two orders")
        assert_close(one, (host(a) - host(b)) / (2 * epsilon), "second order by differences", 1e-6)
