"""Numerical checks of derivatives: each is a function that raises ``AssertionError`` where a rule is wrong.

A problem is a function of differentiable arrays alone, that gives an array or a tuple of arrays, and the arrays.
Arrays pair as Re(sum(a * b)): the convention under which the gradient of abs(z)**2 is 2 conj(z).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import agrad
from agrad.backends import backend_of, to_host
from agrad.dtypes import dtype_name
from agrad.engine.sweep import sweep

Function = Callable[..., Any]
Arrays = Sequence[Any]

STEP = 1e-3
ROUNDING = 1e-10
"""How far two exact ways to one number may differ, relative to its size."""
DIFFERENCE = 1e-6
"""How far a finite difference with extrapolation may be from the derivative, relative to its size."""


def outputs(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def host(value: Any) -> np.ndarray:
    """The values of a Tensor, a raw array, a number or a nested list, on NumPy."""
    if isinstance(value, (int, float, complex, list)):
        return np.asarray(value)
    return np.asarray(to_host(value.raw if isinstance(value, agrad.Tensor) else value))


def raw(value: Any) -> Any:
    return value.raw if isinstance(value, agrad.Tensor) else value


def pairing(a: Any, b: Any) -> float:
    return float(np.real(np.sum(host(a) * host(b))))


def norm(values: Arrays) -> float:
    return float(np.sqrt(sum(np.sum(np.abs(host(v)) ** 2) for v in values)))


def random_like(values: Arrays, rng: np.random.Generator) -> list[Any]:
    """Normal arrays with the shapes, dtypes, backends and devices of ``values``."""
    out = []
    for value in values:
        like = raw(value)
        drawn = rng.standard_normal(like.shape)
        if "complex" in dtype_name(like.dtype):
            drawn = drawn + 1j * rng.standard_normal(like.shape)
        drawn = np.asarray(drawn).astype(dtype_name(like.dtype))
        backend = backend_of(like)
        out.append(drawn if backend.name == "numpy" else backend.from_host(drawn, backend.device_of(like)))
    return out


def assert_close(got: Any, expected: Any, what: str, tolerance: float = ROUNDING, scale: float = 1.0) -> None:
    got, expected = host(got), host(expected)
    if got.dtype == bool:
        got, expected = got.astype(float), expected.astype(float)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    size = max(scale, float(np.max(np.abs(expected), initial=0.0)))
    worst = float(np.max(np.abs(got - expected), initial=0.0))
    assert worst <= tolerance * size, f"{what}: off by {worst:.3g}\n got {got}\n expected {expected}"


def differences(f: Function, xs: Arrays, vs: Arrays, step: float = STEP) -> list[np.ndarray]:
    """The derivative of ``f`` along ``vs``: central differences at two steps, extrapolated to order four."""

    def central(h: float) -> list[np.ndarray]:
        after = outputs(f(*[np.asarray(x + h * v) for x, v in zip(xs, vs, strict=True)]))
        before = outputs(f(*[np.asarray(x - h * v) for x, v in zip(xs, vs, strict=True)]))
        return [(host(a) - host(b)) / (2 * h) for a, b in zip(after, before, strict=True)]

    return [(4 * fine - coarse) / 3 for fine, coarse in zip(central(step / 2), central(step), strict=True)]


def cotangents(y: Any, gs: Arrays) -> Any:
    """The cotangents in the structure of the result."""
    return tuple(gs) if isinstance(y, tuple) else gs[0]


def check_vjp(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """The pullback against finite differences in random directions, one argument at a time and all together."""
    y, pull = agrad.vjp(f, *xs)
    gs = random_like(outputs(y), rng)
    found = pull(cotangents(y, gs))
    for chosen in [*range(len(xs)), None]:
        vs = random_like(xs, rng)
        if chosen is not None:
            vs = [v if i == chosen else np.zeros_like(v) for i, v in enumerate(vs)]
        slopes = differences(f, xs, vs)
        expected = sum(pairing(g, s) for g, s in zip(gs, slopes, strict=True))
        got = sum(pairing(c, v) for c, v in zip(found, vs, strict=True))
        assert_close(got, expected, "vjp", DIFFERENCE, 1 + norm(gs) * norm(slopes))


def check_jvp(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """The tangent against finite differences in a random direction, element by element."""
    vs = random_like(xs, rng)
    y, t = agrad.jvp(f, tuple(xs), tuple(vs))
    for i, (part, slope) in enumerate(zip(outputs(t), differences(f, xs, vs), strict=True)):
        assert_close(part, slope, f"jvp of output {i}", DIFFERENCE, 1 + norm([slope]))
    for i, (value, expected) in enumerate(zip(outputs(y), outputs(f(*xs)), strict=True)):
        assert_close(value, expected, f"value of output {i} under jvp")


def check_adjoint(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """<g, J t> = <J^T g, t>, to rounding."""
    y, pull = agrad.vjp(f, *xs)
    gs, vs = random_like(outputs(y), rng), random_like(xs, rng)
    pulled = pull(cotangents(y, gs))
    _, pushed = agrad.jvp(f, tuple(xs), tuple(vs))
    left = sum(pairing(g, t) for g, t in zip(gs, outputs(pushed), strict=True))
    right = sum(pairing(c, v) for c, v in zip(pulled, vs, strict=True))
    scale = 1 + norm(gs) * norm(outputs(pushed)) + norm(pulled) * norm(vs)
    assert_close(left, right, "<g, J t> = <J^T g, t>", _rounding(xs), scale)


def _rounding(xs: Arrays) -> float:
    single = any(dtype_name(raw(x).dtype) in ("float32", "complex64") for x in xs)
    return 1e-4 if single else ROUNDING


def weighted(y: Any, weights: Arrays, *, square: bool = False) -> Any:
    """One real number of all outputs: Re(sum(w * y)), or with ``square`` the sum of Re(sum(w * y * (1 + y)))."""
    total: Any = None
    for part, w in zip(outputs(y), weights, strict=True):
        term = agrad.sum(part * w * (1 + part) if square else part * w)
        if "complex" in dtype_name(term.dtype):
            term = agrad.real(term)
        total = term if total is None else total + term
    return total


def check_second(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Second derivatives in three orders of modes, and by ``create_graph``, against differences of the first.

    The function is squared first, so that the cotangent depends on the arguments too: a rule that is linear in its
    cotangent, and is not recorded, would show.
    """
    weights = random_like(outputs(f(*xs)), rng)
    every = tuple(range(len(xs)))
    vs = random_like(xs, rng)

    def h(*at: Any) -> Any:
        return weighted(f(*at), weights, square=True)

    slope = agrad.grad(h, argnums=every)

    def along(*at: Any) -> Any:
        return weighted(tuple(slope(*at)), vs)

    def pushed(*at: Any) -> Any:
        return agrad.jvp(h, at, tuple(vs))[1]

    expected = differences(slope, xs, vs)
    scale = 1 + norm(expected) + norm(slope(*xs))
    ways = {
        "reverse over reverse": agrad.grad(along, argnums=every)(*xs),
        "forward over reverse": agrad.jvp(slope, tuple(xs), tuple(vs))[1],
        "reverse over forward": agrad.grad(pushed, argnums=every)(*xs),
        "create_graph": second_by_create_graph(h, xs, vs),
    }
    for way, found in ways.items():
        for i, (part, want) in enumerate(zip(found, expected, strict=True)):
            assert_close(part, want, f"second order, {way}, argument {i}", DIFFERENCE, scale)
    _, twice = agrad.jvp(lambda *at: agrad.jvp(h, at, tuple(vs))[1], tuple(xs), tuple(vs))
    curvature = sum(pairing(e, v) for e, v in zip(expected, vs, strict=True))
    assert_close(twice, curvature, "second order, forward over forward", DIFFERENCE, scale * (1 + norm(vs)))


def second_by_create_graph(h: Function, xs: Arrays, vs: Arrays) -> list[Any]:
    """The derivative of <gradient, v> through a backward pass that was itself recorded."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    h(*leaves).backward(create_graph=True)
    total = weighted(tuple(leaf.grad for leaf in leaves), vs)
    for leaf in leaves:
        leaf.zero_grad()
    if total.requires_grad:
        total.backward()
    return [np.zeros_like(x) if leaf.grad is None else leaf.grad for x, leaf in zip(xs, leaves, strict=True)]


def gradients(f: Function, xs: Arrays, weights: Arrays, **how: bool) -> list[Any]:
    """The gradients of the weighted outputs by ``backward``, zero where nothing reached an argument."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    total = weighted(f(*leaves), weights)
    if total.requires_grad:
        total.backward(**how)
    return [x * 0 if leaf.grad is None else leaf.grad for x, leaf in zip(xs, leaves, strict=True)]


def check_recorded(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """The rules run on raw arrays and run on Tensors give the same numbers."""
    weights = random_like(outputs(f(*xs)), rng)
    plain = gradients(f, xs, weights)
    recorded = gradients(f, xs, weights, create_graph=True)
    for i, (a, b) in enumerate(zip(plain, recorded, strict=True)):
        assert_close(a, b, f"raw and recorded gradient of argument {i}", _rounding(xs))


def check_faces(f: Function, xs: Arrays, rng: np.random.Generator) -> list[Any]:
    """``backward``, ``grad``, ``vjp``, ``jvp`` agree on any backend and keep dtype and device. Gives the gradients."""
    weights = random_like(outputs(f(*xs)), rng)
    by_backward = gradients(f, xs, weights)
    by_grad = agrad.grad(lambda *at: weighted(f(*at), weights), argnums=tuple(range(len(xs))))(*xs)
    y, pull = agrad.vjp(f, *xs)
    by_vjp = pull(cotangents(y, weights))
    for i, x in enumerate(xs):
        check_like(by_backward[i], x, f"backward's gradient of argument {i}")
        check_like(by_grad[i], x, f"grad of argument {i}")
        check_like(by_vjp[i], x, f"vjp of argument {i}")
        assert not isinstance(by_grad[i], agrad.Tensor), "grad of a raw array is a Tensor"
        assert_close(by_backward[i], by_vjp[i], f"backward and vjp, argument {i}", _rounding(xs))
        assert_close(by_grad[i], by_vjp[i], f"grad and vjp, argument {i}", _rounding(xs))
    for value, expected in zip(outputs(y), outputs(f(*xs)), strict=True):
        check_like(value, expected, "the value under vjp")
        assert_close(value, expected, "the value under vjp", _rounding(xs))
    vs = random_like(xs, rng)
    value, pushed = agrad.jvp(f, tuple(xs), tuple(vs))
    for v, t in zip(outputs(value), outputs(pushed), strict=True):
        check_like(t, v, "the tangent")
    check_adjoint(f, xs, rng)
    return list(by_vjp)


def check_like(value: Any, other: Any, what: str) -> None:
    """The same backend, device, shape and dtype."""
    value, other = raw(value), raw(other)
    home = backend_of(other)
    assert backend_of(value) is home, f"{what}: on {backend_of(value).name}, not {home.name}"
    assert home.device_of(value) == home.device_of(other), f"{what}: on device {home.device_of(value)}"
    assert tuple(value.shape) == tuple(other.shape), f"{what}: shape {value.shape}, not {other.shape}"
    same = dtype_name(value.dtype) == dtype_name(other.dtype)
    assert same, f"{what}: dtype {dtype_name(value.dtype)}, not {dtype_name(other.dtype)}"


def check_read_only(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """No rule writes into its inputs, its cotangents or its tangents: all are read-only, and unchanged afterwards."""

    def sealed(values: Arrays) -> list[np.ndarray]:
        out = [np.array(v) for v in values]
        for v in out:
            v.setflags(write=False)
        return out

    inputs = sealed(xs)
    y, pull = agrad.vjp(f, *inputs)
    gs, vs = sealed(random_like(outputs(y), rng)), sealed(random_like(xs, rng))
    kept = [v.copy() for v in (*inputs, *gs, *vs)]
    results = [host(part).copy() for part in outputs(y)]
    try:
        first = pull(cotangents(y, gs))
        again = pull(cotangents(y, gs))
        agrad.jvp(f, tuple(inputs), tuple(vs))
    except (ValueError, RuntimeError) as error:
        raise AssertionError(f"a rule writes where it may only read: {error}") from error
    for a, b in zip(first, again, strict=True):
        assert_close(a, b, "the same pullback called twice", 0.0)
    for now, before in zip((*inputs, *gs, *vs), kept, strict=True):
        assert np.array_equal(now, before), "a rule changed what it was handed"
    for now, before in zip(outputs(y), results, strict=True):
        assert np.array_equal(host(now), before), "a rule changed the result"


@contextmanager
def counting_tensors() -> Iterator[list[int]]:
    """Counts the Tensors made inside, in the one place through which each must come: the class's ``__new__``."""
    count = [0]

    def new(cls: type) -> Any:
        count[0] += 1
        return object.__new__(cls)

    agrad.Tensor.__new__ = new  # type: ignore[method-assign]
    try:
        yield count
    finally:
        del agrad.Tensor.__new__


def check_makes_no_tensor(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """An ordinary backward pass is plain array code: it makes no Tensor at all."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    ys = [part for part in outputs(f(*leaves)) if part.requires_grad]
    gs = random_like(ys, rng)
    starts = {y.node: g for y, g in zip(ys, gs, strict=True) if y.node.parents}
    with counting_tensors() as count:
        found = sweep(starts, retain=True)
    assert count == [0], f"the backward pass made {count[0]} Tensors"
    assert not any(isinstance(g, agrad.Tensor) for g in found.values())


def check_same_gradients(f: Function, xs: Arrays, other_xs: Arrays, rng: np.random.Generator) -> None:
    """The gradients do not depend on how the same values lie in memory."""
    weights = random_like(outputs(f(*xs)), rng)
    for i, (a, b) in enumerate(zip(gradients(f, xs, weights), gradients(f, other_xs, weights), strict=True)):
        assert_close(a, b, f"gradient of argument {i} where memory is not contiguous", _rounding(xs))


def scattered(x: np.ndarray) -> np.ndarray:
    """The same values in memory that is neither contiguous nor in order."""
    spread = np.zeros(tuple(2 * n for n in x.shape), dtype=x.dtype)
    view = spread[(Ellipsis, *(slice(None, None, -2) for _ in x.shape))]
    view[...] = x
    return view


EXACT: tuple[Callable[[Function, Arrays, np.random.Generator], Any], ...] = (
    check_adjoint,
    check_recorded,
    check_faces,
    check_read_only,
    check_makes_no_tensor,
)
"""Checks that hold on kinks too."""

DIFFERENTIAL: tuple[Callable[[Function, Arrays, np.random.Generator], Any], ...] = (
    check_vjp,
    check_jvp,
    check_second,
)
"""Checks against finite differences, away from kinks."""


def check_all(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Every check, for a function of float64 or complex128 NumPy arrays at a point where it is smooth."""
    for check in (*DIFFERENTIAL, *EXACT):
        check(f, xs, rng)
