"""Modes: a function of arrays under one transform or two, and checks that compare functions in all of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from checker import assert_close, host, random_like

import agrad
from agrad.dtypes import dtype_name

Function = Callable[..., Any]
Arrays = Sequence[Any]


def total(f: Function) -> Function:
    """Return the sum of the squares of all results of ``f``, weighted by result."""

    def number(*xs: Any) -> Any:
        smooth = [y for y in agrad.tree.leaves(f(*xs)) if not hasattr(y, "dtype") or is_inexact(y)]
        return sum(i * agrad.sum(agrad.real(y * agrad.conj(y))) for i, y in enumerate(smooth, 1))

    return number


def is_inexact(x: Any) -> bool:
    """Return whether a value is an array that can be differentiated."""
    return hasattr(x, "dtype") and dtype_name(x.dtype)[0] in "fc"


def smooth_places(xs: Arrays, argnums: Sequence[int]) -> tuple[int, ...]:
    """Return the places of the arguments to differentiate: all that can be if ``argnums`` is empty."""
    return tuple(argnums) or tuple(i for i, x in enumerate(xs) if is_inexact(x))


def gradient(f: Function, argnums: Sequence[int] = ()) -> Function:
    """Return the gradients of ``total(f)`` with respect to all arguments that have one, or to some."""
    return lambda *xs: agrad.grad(total(f), argnums=smooth_places(xs, argnums))(*xs)


def tangent(f: Function, argnums: Sequence[int] = ()) -> Function:
    """Return the tangent of ``f`` along its arguments themselves, where they are finite."""

    def pushed(*xs: Any) -> Any:
        places = smooth_places(xs, argnums)

        def g(*at: Any) -> Any:
            moved = dict(zip(places, at, strict=True))
            return f(*[moved.get(i, x) for i, x in enumerate(xs)])

        primals = tuple(xs[i] for i in places)
        return agrad.jvp(g, primals, tuple(agrad.where(agrad.isfinite(x), x, agrad.ones_like(x)) for x in primals))[1]

    return pushed


def along(f: Function, ts: Arrays) -> Function:
    return lambda *xs: agrad.jvp(f, xs, tuple(ts))[1]


def backward(f: Function, xs: Arrays, *, second: bool = False) -> list[Any]:
    """Return the gradients of leaves by ``backward``; with ``second``, those of their squares by another pass."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    total(f)(*leaves).backward(create_graph=second)
    found = [agrad.zeros_like(x) if x.grad is None else x.grad for x in leaves]
    if not second:
        return found
    for x in leaves:
        x.grad = None
    sum(agrad.sum(g**2) for g in found).backward()
    return [agrad.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def rows_of(xs: Arrays, ts: Arrays) -> list[Any]:
    """Return two batch elements of each argument, the first of which is the argument."""
    return [agrad.stack([x, x + 0.25 * t]) for x, t in zip(xs, ts, strict=True)]


Mode = Callable[[Function, Arrays, Arrays], Any]
"""What a mode makes of a function, its arguments and tangents of these."""

DERIVATIVES: dict[str, Mode] = {
    "value": lambda f, xs, ts: f(*xs),
    "gradient": lambda f, xs, ts: gradient(f)(*xs),
    "tangent": lambda f, xs, ts: along(f, ts)(*xs),
    "forward over reverse": lambda f, xs, ts: along(gradient(f), ts)(*xs),
    "reverse over forward": lambda f, xs, ts: gradient(along(f, ts))(*xs),
    "reverse over reverse": lambda f, xs, ts: gradient(gradient(f))(*xs),
}
MAPS: dict[str, Mode] = {
    "vmap": lambda f, xs, ts: agrad.vmap(f)(*rows_of(xs, ts)),
    "vmap of the gradient": lambda f, xs, ts: agrad.vmap(gradient(f))(*rows_of(xs, ts)),
    "vmap of the tangent": lambda f, xs, ts: agrad.vmap(along(f, ts))(*rows_of(xs, ts)),
    "gradient of vmap": lambda f, xs, ts: gradient(agrad.vmap(f))(*rows_of(xs, ts)),
    "tangent of vmap": lambda f, xs, ts: along(agrad.vmap(f), rows_of(ts, xs))(*rows_of(xs, ts)),
}
OTHERS: dict[str, Mode] = {
    "forward over forward": lambda f, xs, ts: along(along(f, ts), ts)(*xs),
    "jacrev": lambda f, xs, ts: agrad.jacrev(f)(*xs),
    "jacfwd": lambda f, xs, ts: agrad.jacfwd(f)(*xs),
    "linearize": lambda f, xs, ts: agrad.linearize(f, *xs)[1](*ts),
    "checkpoint": lambda f, xs, ts: gradient(agrad.checkpoint(f))(*xs),
    "backward": lambda f, xs, ts: backward(f, xs),
    "backward twice": lambda f, xs, ts: backward(f, xs, second=True),
}
JITTED: dict[str, Mode] = {
    "jit": lambda f, xs, ts: agrad.jit(f)(*xs),
    "jit of the gradient": lambda f, xs, ts: agrad.jit(gradient(f))(*xs),
    "gradient of jit": lambda f, xs, ts: gradient(agrad.jit(f))(*xs),
    "vmap of jit": lambda f, xs, ts: agrad.vmap(agrad.jit(f))(*rows_of(xs, ts)),
    "jit of vmap": lambda f, xs, ts: agrad.jit(agrad.vmap(f))(*rows_of(xs, ts)),
}
MODES = DERIVATIVES | MAPS | OTHERS


def compare(found: Any, expected: Any, what: str, tolerance: float, *, dtypes: bool = False) -> None:
    """Check that the leaves of two results agree."""
    for a, b in zip(agrad.tree.leaves(found), agrad.tree.leaves(expected), strict=True):
        assert not dtypes or dtype_name(a.dtype) == dtype_name(b.dtype), f"{what}: {a.dtype}, not {b.dtype}"
        assert_close(a, host(b), what, tolerance)


def tangents(xs: Arrays) -> list[Any]:
    return random_like(xs, np.random.default_rng(3))


def check_same(
    f: Function, g: Function, xs: Arrays, modes: Iterable[str] = MODES, tolerance: float = 1e-10, **others: Arrays
) -> None:
    """Check that ``f`` and ``g`` have the same values and derivatives in some modes.

    others: ``reference``, the arguments of ``g`` if it has its own.
    """
    ts, at = tangents(xs), others.get("reference", xs)
    for mode in modes:
        run = (MODES | JITTED)[mode]
        compare(run(f, xs, ts), run(g, at, tangents(at)), mode, tolerance)


def check_traced(
    f: Function,
    xs: Arrays,
    modes: Iterable[str] = (*DERIVATIVES, *MAPS),
    tolerance: float = 1e-10,
    *,
    plain: Function | None = None,
) -> None:
    """Check that each mode inside ``jit`` is what it is outside, in the call that traces and in a replay.

    plain: the function of NumPy arrays, to compute outside on NumPy.
    """
    ts = tangents(xs)
    for mode in modes:
        traced = agrad.jit(lambda *xs, mode=mode: MODES[mode](f, xs, ts))
        for at in (xs, [0.5 * x for x in xs]) if mode == "value" else (xs,):
            found = traced(*at)
            if plain is None:
                expected = MODES[mode](f, at, ts)
            else:
                with agrad.use_backend("numpy"):
                    expected = MODES[mode](plain, [host(x) for x in at], [host(t) for t in ts])
            compare(found, expected, f"{mode}, traced", tolerance)


def loop(f: Function, rows: Arrays, axes: Sequence[int | None]) -> list[np.ndarray]:
    """Return the leaves of ``f`` of each batch element by itself, stacked."""
    moved = [x if a is None else agrad.moveaxis(agrad.asarray(x), a, 0) for x, a in zip(rows, axes, strict=True)]
    count = next(len(x) for x, axis in zip(moved, axes, strict=True) if axis is not None)
    found = []
    for i in range(count):
        own = [x if axis is None else x[(i, ...)] for x, axis in zip(moved, axes, strict=True)]
        own = [agrad.asarray(x).detach() if hasattr(x, "shape") else x for x in own]
        found.append([host(part) for part in agrad.tree.leaves(f(*own))])
    return [np.stack(parts) for parts in zip(*found, strict=True)]


def check_mapped(
    f: Function,
    rows: Arrays,
    axes: Sequence[int | None] = (),
    *,
    values: float = 1e-12,
    tolerance: float = 1e-12,
    derivatives: bool = True,
    jitted: bool = True,
    nested: bool = True,
    argnums: Sequence[int] = (),
    wrap: Callable[[Function], Function] = lambda f: f,
    plain: Function | None = None,
) -> None:
    """Check that ``vmap`` of ``f`` and of its derivatives is the loop, inside and around ``jit``, and of two maps.

    wrap: applied to the functions of derivatives, such as ``jit``. plain: the function of NumPy arrays, for the loop.
    """
    axes = tuple(axes) or (0,) * len(rows)

    def looped(mode: Callable[[Function], Function]) -> list[np.ndarray]:
        if plain is None:
            return loop(mode(f), rows, axes)
        with agrad.use_backend("numpy"):
            return loop(mode(plain), [host(x) for x in rows], axes)

    expected = looped(lambda f: f)
    mapped = agrad.vmap(f, in_axes=axes)
    compare(mapped(*rows), expected, "vmap", values, dtypes=True)
    if nested:
        twice = [x if axis is None else agrad.stack([x, x], axis=axis) for x, axis in zip(rows, axes, strict=True)]
        found = agrad.vmap(mapped, in_axes=axes)(*twice)
        compare(found, [np.stack([e, e]) for e in expected], "vmap of vmap", values)
    if jitted:
        compare(agrad.jit(mapped)(*rows), expected, "jit of vmap", values)
        compare(agrad.vmap(agrad.jit(f), in_axes=axes)(*rows), expected, "vmap of jit", values)
    if not derivatives:
        return
    slope, push = gradient(f, argnums), tangent(f, argnums)
    slopes, pushed = looped(lambda f: gradient(f, argnums)), looped(lambda f: tangent(f, argnums))
    compare(wrap(agrad.vmap(slope, in_axes=axes))(*rows), slopes, "vmap of the gradient", tolerance, dtypes=True)
    compare(wrap(agrad.vmap(push, in_axes=axes))(*rows), pushed, "vmap of the tangent", tolerance)
    smooth = [axes[i] for i in smooth_places(rows, argnums)]
    summed = [np.sum(s, 0) if axis is None else np.moveaxis(s, 0, axis) for s, axis in zip(slopes, smooth, strict=True)]
    compare(wrap(gradient(mapped, argnums))(*rows), summed, "gradient of vmap", tolerance)
    compare(wrap(tangent(mapped, argnums))(*rows), pushed, "tangent of vmap", tolerance)
