"""Numerics of checks: random directions, second derivatives, comparisons.

A problem is a function of only differentiable arrays, which returns an array or a tuple of arrays, and the arrays.
Arrays pair as Re(sum(a * b)): the convention under which the gradient of abs(z)**2 is 2 conj(z).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import agrad
from agrad.backends import backend_of, to_host
from agrad.dtypes import dtype_name

Function = Callable[..., Any]
Arrays = Sequence[Any]
Seed = Callable[[], np.random.Generator]

ROUNDING = 1e-10
"""The tolerance between two exact ways to one number, relative to its size."""


def outputs(value: Any) -> tuple[Any, ...]:
    """Return the outputs of a function as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def host(value: Any) -> np.ndarray:
    """Return the values of a Tensor, an array, a number or a nested list in NumPy."""
    if isinstance(value, (int, float, complex, list)):
        return np.asarray(value)
    return np.asarray(to_host(raw(value)))


def raw(value: Any) -> Any:
    """Return the plain array of a Tensor; any other value unchanged."""
    return value.raw if isinstance(value, agrad.Tensor) else value


def pairing(a: Any, b: Any) -> float:
    """Return Re(sum(a * b))."""
    return float(np.real(np.sum(host(a) * host(b))))


def norm(values: Arrays) -> float:
    """Return the Euclidean norm of all elements of some arrays."""
    return float(np.sqrt(sum(np.sum(np.abs(host(v)) ** 2) for v in values)))


def placed(values: Any, like: Any) -> Any:
    """Return NumPy values in the dtype, library and device of a plain array."""
    backend, values = backend_of(like), np.asarray(values).astype(dtype_name(like.dtype))
    return values if backend.name == "numpy" else backend.from_host(values, backend.device_of(like))


def random_like(values: Arrays, rng: np.random.Generator) -> list[Any]:
    """Return normal arrays with shapes, dtypes, backends and devices of ``values``."""
    out = []
    for value in values:
        like = raw(value)
        drawn = rng.standard_normal(like.shape)
        if "complex" in dtype_name(like.dtype):
            drawn = drawn + 1j * rng.standard_normal(like.shape)
        out.append(placed(drawn, like))
    return out


def assert_close(got: Any, expected: Any, what: str, tolerance: float = ROUNDING, scale: float = 1.0) -> None:
    """Raise ``AssertionError`` unless arrays agree, relative to the largest element."""
    got, expected = host(got), host(expected)
    if got.dtype == bool:
        got, expected = got.astype(float), expected.astype(float)
    if got.shape != expected.shape:
        raise AssertionError(f"{what}: shape must be {expected.shape}, got {got.shape}")
    size = max(scale, float(np.max(np.abs(expected), initial=0.0)))
    worst = float(np.max(np.abs(got - expected), initial=0.0))
    if not worst <= tolerance * size:  # also for NaN
        raise AssertionError(f"{what}: off by {worst:.3g}\n got {got}\n expected {expected}")


def assert_all_close(got: Arrays, expected: Arrays, what: str, tolerance: float = ROUNDING) -> None:
    """Raise ``AssertionError`` unless pairs of arrays agree (``assert_close``)."""
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert_close(a, b, f"{what} {i}", tolerance)


def cotangents(y: Any, gs: Arrays) -> Any:
    """Return the cotangents in the structure of the result."""
    return tuple(gs) if isinstance(y, tuple) else gs[0]


def rounding(xs: Arrays) -> float:
    """Return the tolerance for two exact ways to one number."""
    single = any(dtype_name(raw(x).dtype) in ("float32", "complex64") for x in xs)
    return 1e-4 if single else ROUNDING


def weighted(y: Any, weights: Arrays, *, square: bool = False) -> Any:
    """Return the weighted outputs as one real number.

    Re(sum(w * y)), or with ``square`` the sum of Re(sum(w * y * (1 + y))).
    """
    total: Any = None
    for part, w in zip(outputs(y), weights, strict=True):
        term = agrad.sum(part * w * (1 + part) if square else part * w)
        if "complex" in dtype_name(term.dtype):
            term = agrad.real(term)
        total = term if total is None else total + term
    return total


def slope_of(f: Function, xs: Arrays, weights: Arrays) -> Function:
    """Return the gradients of the weighted squares of the outputs."""
    return agrad.grad(lambda *at: weighted(f(*at), weights, square=True), argnums=tuple(range(len(xs))))


WAYS = ("reverse over reverse", "forward over reverse", "reverse over forward", "create_graph")


def second_derivatives(
    f: Function, xs: Arrays, weights: Arrays, vs: Arrays, ways: Iterable[str] = WAYS
) -> dict[str, list[Any]]:
    """Return the derivative along ``vs`` of the gradient of squares, by each way."""
    every, slope = tuple(range(len(xs))), slope_of(f, xs, weights)

    def h(*at: Any) -> Any:
        return weighted(f(*at), weights, square=True)

    def along(*at: Any) -> Any:
        return weighted(tuple(slope(*at)), vs)

    def pushed(*at: Any) -> Any:
        return agrad.jvp(h, at, tuple(vs))[1]

    calls: dict[str, Callable[[], Any]] = {
        "reverse over reverse": lambda: agrad.grad(along, argnums=every)(*xs),
        "forward over reverse": lambda: agrad.jvp(slope, tuple(xs), tuple(vs))[1],
        "reverse over forward": lambda: agrad.grad(pushed, argnums=every)(*xs),
        "create_graph": lambda: second_by_create_graph(h, xs, vs),
    }
    return {way: list(calls[way]()) for way in ways}


def second_by_create_graph(h: Function, xs: Arrays, vs: Arrays) -> list[Any]:
    """Return the derivative of <gradient, v> through a recorded backward pass."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    h(*leaves).backward(create_graph=True)
    total = weighted(_filled(leaves), vs)
    for leaf in leaves:
        leaf.zero_grad()
    if total.requires_grad:
        total.backward()
    return list(_filled(leaves))


def _filled(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of leaves, zeros if the output does not depend on one."""
    return tuple([agrad.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves])


def gradients(f: Function, xs: Arrays, weights: Arrays, **how: bool) -> list[Any]:
    """Return the gradients of the weighted outputs by ``backward``.

    They are zero for an argument that the output does not depend on.
    """
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    total = weighted(f(*leaves), weights)
    if total.requires_grad:
        total.backward(**how)
    return list(_filled(leaves))


def check_like(value: Any, other: Any, what: str) -> None:
    """Check for the same backend, device, shape and dtype."""
    value, other = raw(value), raw(other)
    found, home = backend_of(value), backend_of(other)
    if found is not home:
        raise AssertionError(f"{what}: backend must be {home.name}, got {found.name}")
    facts = {"device": home.device_of, "shape": lambda x: tuple(x.shape), "dtype": lambda x: dtype_name(x.dtype)}
    for name, fact in facts.items():
        if fact(value) != fact(other):
            raise AssertionError(f"{what}: {name} must be {fact(other)}, got {fact(value)}")


def scattered(x: np.ndarray) -> np.ndarray:
    """Return the same values in memory that is neither contiguous nor in order."""
    spread = np.zeros(tuple(2 * n for n in x.shape), dtype=x.dtype)
    backwards: Any = (Ellipsis, *(slice(None, None, -2) for _ in x.shape))
    view = spread[backwards]
    view[...] = x
    return view
