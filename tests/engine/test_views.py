"""Views: random programs of views and writes, on Tensors and on the libraries' own arrays; values and gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from leaves import WITH_VIEWS

import agrad
from agrad.backends import load

STEPS = 14


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


def take_view(rng: np.random.Generator, w: Any, x: Any, numbers: int, flips: bool) -> Any:
    shape = tuple(int(n) for n in x.shape)
    kind = numbers % 6
    if kind in (0, 1) and len(shape):
        return x[basic_index(rng, shape, flips)]
    if kind == 2:
        return w.permute_dims(x, tuple(int(i) for i in rng.permutation(len(shape))))
    if kind == 3:
        return w.reshape(x, divisors_shape(rng, shape))
    if kind == 4 and len(shape) < 4:
        return w.expand_dims(x, axis=int(rng.integers(len(shape) + 1)))
    if kind == 5 and 1 in shape and len(shape) > 1:
        return w.squeeze(x, shape.index(1))
    if flips and len(shape):
        return w.flip(x, axis=int(rng.integers(len(shape))))
    return w.reshape(x, shape)


def run(seed: int, w: Any, values: list[Any], *, flips: bool, check: Callable[[list[Any]], None]) -> list[Any]:
    """A program drawn from ``seed``; ``values`` are the arrays it begins with, none of them a leaf."""
    rng = np.random.default_rng(seed)
    live = list(values)
    live[1] = w.permute_dims(live[1], (1, 0)) * 1.0  # its axes may lie in memory in the other order
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
            other = live[int(rng.integers(len(live)))]
            picked += 0.1 * w.sum(other * other)
            del picked
        elif kind == 5:
            x += w.sum(live[number % len(live)])
            x *= 0.25
        elif kind == 6 and len(shape):
            index = basic_index(rng, shape, flips, write=True)
            x[index] *= 1.5
        elif kind == 7:
            if number % 2:
                live.append(x * 1.25)
            elif len(live) > 3:
                del live[at]
        del x
        check(live)
    return live


def starts(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1000 + seed)
    return [rng.uniform(-1, 1, (2, 3, 4)), rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, 6)]


def weighted_sum(w: Any, live: list[Any], place: Callable[[np.ndarray], Any], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return sum(w.sum(x * place(rng.uniform(0.5, 1.5, tuple(x.shape)))) for x in live)


def loss_of(seed: int, place: Callable[[np.ndarray], Any], flips: bool) -> Callable[..., Any]:
    def loss(*leaves: Any) -> Any:
        live = run(seed, agrad, [x * 1.0 for x in leaves], flips=flips, check=lambda live: None)
        return weighted_sum(agrad, live, place, seed)

    return loss


def directions(seed: int) -> list[np.ndarray]:
    return [np.random.default_rng(seed).standard_normal(x.shape) for x in starts(seed)]


STEP = 1e-30


@pytest.mark.parametrize("seed", range(60))
def test_programs_are_those_of_the_librarys_own_arrays(seed: int, backend: str, place: Any) -> None:
    """What the library changes through a view, a Tensor changes too: in each step, and in derivatives.

    The library's own arrays are complex, with a small imaginary part along a direction: that of the loss is its
    derivative along the direction.
    """
    if backend not in WITH_VIEWS:
        pytest.skip(f"{backend} has no views")
    own = load(backend)
    seen: list[list[np.ndarray]] = []
    flips = backend != "torch"  # PyTorch knows no negative steps, and flips copy
    along = directions(seed)
    natives = [own.xp.asarray(place(x + STEP * 1j * d), copy=True) for x, d in zip(starts(seed), along, strict=True)]
    live = run(
        seed, own.xp, natives, flips=flips, check=lambda live: seen.append([np.array(host(x).real) for x in live])
    )
    complex_place = lambda x: place(x + 0j)  # noqa: E731
    expected = host(weighted_sum(own.xp, live, complex_place, seed))
    steps = iter(seen)

    def compare(live: list[Any]) -> None:
        for x, value in zip(live, next(steps), strict=True):
            np.testing.assert_allclose(host(x), value, rtol=1e-12, atol=1e-12)

    tensors = [agrad.asarray(place(np.array(x))) for x in starts(seed)]
    before = [x.raw for x in tensors]
    run(seed, agrad, tensors, flips=flips, check=compare)
    for raw, value in zip(before, starts(seed), strict=True):
        assert_close(raw, value, "the array that was given")
    loss, xs = loss_of(seed, place, flips), [place(np.array(x)) for x in starts(seed)]
    slope, value = float(expected.imag) / STEP, float(expected.real)
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    loss(*leaves).backward()
    for found in (agrad.grad(loss, argnums=(0, 1, 2))(*xs), [0 * x if x.grad is None else x.grad for x in leaves]):
        assert_close(sum(np.sum(host(g) * d) for g, d in zip(found, along, strict=True)), slope, "gradient")
    pushed = agrad.jvp(loss, tuple(xs), tuple(place(np.array(d)) for d in along))
    assert_close(pushed[0], value, "value")
    assert_close(pushed[1], slope, "tangent")
