"""The checks of derivatives of the tests, with one of the engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import agrad
from agrad.engine.backward import backward_pass
from agrad.testing.checks import (  # noqa: F401 - for the tests
    check_adjoint,
    check_faces,
    check_read_only,
    check_recorded,
    check_same_gradients,
    check_second_elsewhere,
)
from agrad.testing.numerics import (  # noqa: F401
    WAYS,
    Arrays,
    Function,
    assert_all_close,
    assert_close,
    check_like,
    cotangents,
    gradients,
    host,
    norm,
    outputs,
    pairing,
    random_like,
    raw,
    scattered,
    second_derivatives,
    slope_of,
    weighted,
)

STEP = 1e-5
DIFFERENCE = 1e-6
"""How far a finite difference may be from the derivative, relative to its size."""


@contextmanager
def counting_tensors() -> Iterator[list[int]]:
    """Count the Tensors made inside, in the class's ``__new__``."""
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
    """Check that an ordinary backward pass makes no Tensor."""
    leaves = [agrad.asarray(x, requires_grad=True) for x in xs]
    ys = [part for part in outputs(f(*leaves)) if part.requires_grad]
    gs = random_like(ys, rng)
    starts = {y.node: g for y, g in zip(ys, gs, strict=True) if y.node.parents}
    with counting_tensors() as count:
        found = backward_pass(starts, retain=True)
    assert count == [0], f"the backward pass made {count[0]} Tensors"
    assert not any(isinstance(g, agrad.Tensor) for g in found.values())


def differences(f: Function, xs: Arrays, vs: Arrays, step: float = STEP) -> list[np.ndarray]:
    """Return the derivative of ``f`` along ``vs`` by central differences."""
    after, before = (outputs(f(*[np.asarray(x + h * v) for x, v in zip(xs, vs, strict=True)])) for h in (step, -step))
    return [(host(a) - host(b)) / (2 * step) for a, b in zip(after, before, strict=True)]


def check_vjp(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Check the pullback by finite differences, along a random direction of each argument."""
    y, pull = agrad.vjp(f, *xs)
    gs, vs = random_like(outputs(y), rng), random_like(xs, rng)
    for i, gradient in enumerate(pull(cotangents(y, gs))):
        slopes = differences(f, xs, [v if k == i else np.zeros_like(v) for k, v in enumerate(vs)])
        expected = sum(pairing(g, s) for g, s in zip(gs, slopes, strict=True))
        assert_close(pairing(gradient, vs[i]), expected, "vjp", DIFFERENCE, 1 + norm(gs) * norm(slopes))


def check_jvp(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Check the tangent by finite differences in a random direction."""
    vs = random_like(xs, rng)
    _, t = agrad.jvp(f, tuple(xs), tuple(vs))
    for i, (part, slope) in enumerate(zip(outputs(t), differences(f, xs, vs), strict=True)):
        assert_close(part, slope, f"jvp of output {i}", DIFFERENCE, 1 + norm([slope]))


def check_second(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Check second derivatives in all orders of modes by differences of the first.

    The function is squared first, so that the cotangent depends on the arguments too: a rule that is linear in its
    cotangent, and is not recorded, would show.
    """
    weights, vs = random_like(outputs(f(*xs)), rng), random_like(xs, rng)
    expected = differences(slope_of(f, xs, weights), xs, vs)
    scale = 1 + norm(expected)
    for way, found in second_derivatives(f, xs, weights, vs, WAYS[:3]).items():
        for i, (part, want) in enumerate(zip(found, expected, strict=True)):
            assert_close(part, want, f"second order, {way}, argument {i}", DIFFERENCE, scale)

    def pushed(*at: Any) -> Any:
        return agrad.jvp(lambda *at: weighted(f(*at), weights, square=True), at, tuple(vs))[1]

    _, twice = agrad.jvp(pushed, tuple(xs), tuple(vs))
    curvature = sum(pairing(e, v) for e, v in zip(expected, vs, strict=True))
    assert_close(twice, curvature, "second order, forward over forward", DIFFERENCE, scale * (1 + norm(vs)))


EXACT: tuple[Callable[[Function, Arrays, np.random.Generator], Any], ...] = (
    check_adjoint,
    check_recorded,
    check_faces,
    check_read_only,
    check_makes_no_tensor,
)
"""Checks that hold on kinks too."""

DIFFERENTIAL: tuple[Callable[[Function, Arrays, np.random.Generator], Any], ...] = (check_vjp, check_jvp, check_second)
"""Checks against finite differences, away from kinks."""


def check_all(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Run every check, for NumPy arrays in double precision at a smooth point."""
    for check in (*DIFFERENTIAL, *EXACT):
        check(f, xs, rng)
