"""Checks of derivatives, which raise ``AssertionError`` for a wrong rule.

They accept a problem (see ``numerics``), with NumPy arrays or arrays of any backend as their docstrings say, and a
random generator.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

import agrad
from agrad.testing.numerics import (
    WAYS,
    Arrays,
    Function,
    Seed,
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
    rounding,
    second_derivatives,
    slope_of,
    weighted,
)


def check_adjoint(f: Function, xs: Arrays, rng: np.random.Generator) -> list[Any]:
    """Check that <g, J t> = <J^T g, t>, to rounding; return the gradients.

    Values, dtypes and devices are checked too.
    """
    values = outputs(agrad.vjp(f, *xs)[0])  # not of f(*xs): arrays of some libraries cannot be written to
    return _adjoint(f, xs, values, random_like(values, rng), rng)


def _adjoint(f: Function, xs: Arrays, values: Arrays, gs: Arrays, rng: np.random.Generator) -> list[Any]:
    y, pull = agrad.vjp(f, *xs)
    pulled, vs = pull(cotangents(y, gs)), random_like(xs, rng)
    at, pushed = map(outputs, agrad.jvp(f, tuple(xs), tuple(vs)))
    for mode, found in (("vjp", outputs(y)), ("jvp", at)):
        for value, expected in zip(found, values, strict=True):
            check_like(value, expected, f"the value under {mode}")
            assert_close(value, expected, f"the value under {mode}", rounding(xs))
    for tangent, value in zip(pushed, values, strict=True):
        check_like(tangent, value, "the tangent")
    for i, (gradient, x) in enumerate(zip(pulled, xs, strict=True)):
        check_like(gradient, x, f"vjp of argument {i}")
    left = sum(pairing(g, t) for g, t in zip(gs, pushed, strict=True))
    right = sum(pairing(c, v) for c, v in zip(pulled, vs, strict=True))
    scale = 1 + norm(gs) * norm(pushed) + norm(pulled) * norm(vs)
    assert_close(left, right, "<g, J t> = <J^T g, t>", rounding(xs), scale)
    return list(pulled)


def check_second_elsewhere(
    f: Function, xs: Arrays, on_host: Function, host_xs: Arrays, seed: Seed, ways: Iterable[str] = WAYS
) -> None:
    """Check second derivatives on a backend against NumPy, with dtype and device."""

    def drawn(g: Function, at: Arrays, rng: np.random.Generator) -> tuple[Arrays, Arrays]:
        return random_like(outputs(g(*at)), rng), random_like(at, rng)

    weights, vs = drawn(on_host, host_xs, seed())
    expected = agrad.jvp(slope_of(on_host, host_xs, weights), tuple(host_xs), tuple(vs))[1]
    for way, parts in second_derivatives(f, xs, *drawn(f, xs, seed()), ways).items():
        for i, (part, want) in enumerate(zip(parts, expected, strict=True)):
            check_like(part, xs[i], f"second order, {way}, argument {i}")
            assert_close(part, want, f"second order, {way}, argument {i}", 1e-9, 1 + norm(expected))


def check_recorded(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Check that rules return the same numbers for plain arrays and Tensors."""
    weights = random_like(outputs(f(*xs)), rng)
    plain = gradients(f, xs, weights)
    recorded = gradients(f, xs, weights, create_graph=True)
    assert_all_close(plain, recorded, "raw and recorded gradient of argument", rounding(xs))


def check_faces(f: Function, xs: Arrays, rng: np.random.Generator) -> list[Any]:
    """Check that all ways to compute a gradient agree; return the gradients."""
    values = outputs(f(*xs))
    weights = random_like(values, rng)
    by_backward = gradients(f, xs, weights)
    by_grad = agrad.grad(lambda *at: weighted(f(*at), weights), argnums=tuple(range(len(xs))))(*xs)
    by_vjp = _adjoint(f, xs, values, weights, rng)
    for i, x in enumerate(xs):
        check_like(by_backward[i], x, f"backward's gradient of argument {i}")
        check_like(by_grad[i], x, f"grad of argument {i}")
        if isinstance(by_grad[i], agrad.Tensor):
            raise AssertionError("grad of a plain array returns a Tensor")
        assert_close(by_backward[i], by_vjp[i], f"backward and vjp, argument {i}", rounding(xs))
        assert_close(by_grad[i], by_vjp[i], f"grad and vjp, argument {i}", rounding(xs))
    return by_vjp


def check_read_only(f: Function, xs: Arrays, rng: np.random.Generator) -> None:
    """Check that no rule writes into its inputs, cotangents or tangents."""

    def sealed(values: Arrays) -> list[np.ndarray]:
        out = [np.array(v) for v in values]
        for v in out:
            v.setflags(write=False)
        return out

    inputs = sealed(xs)
    y, pull = agrad.vjp(f, *inputs)
    gs, vs = sealed(random_like(outputs(y), rng)), sealed(random_like(xs, rng))
    kept = [v.copy() for v in (*inputs, *gs, *vs)]
    leaves = [agrad.asarray(x, requires_grad=True) for x in inputs]
    recorded = [part for part in outputs(f(*leaves)) if part.requires_grad]
    results = [host(part).copy() for part in recorded]
    try:
        first = pull(cotangents(y, gs))
        again = pull(cotangents(y, gs))
        agrad.jvp(f, tuple(inputs), tuple(vs))
        for part in recorded:
            part.backward(agrad.ones_like(part), retain_graph=True)
    except (ValueError, RuntimeError) as error:
        raise AssertionError(f"a rule writes to a read-only array: {error}") from error
    assert_all_close(first, again, "the same pullback called twice, argument", 0.0)
    for now, before in zip((*inputs, *gs, *vs), kept, strict=True):
        if not np.array_equal(now, before):
            raise AssertionError("a rule changed its arguments")
    for now, before in zip(recorded, results, strict=True):
        if not np.array_equal(host(now), before):
            raise AssertionError("a rule changed the result")


def check_same_gradients(f: Function, xs: Arrays, other_xs: Arrays, rng: np.random.Generator) -> None:
    """Check that gradients do not depend on the layout of the values in memory."""
    weights = random_like(outputs(f(*xs)), rng)
    what = "gradient, in memory that is not contiguous, of argument"
    assert_all_close(gradients(f, xs, weights), gradients(f, other_xs, weights), what, rounding(xs))
