"""The checker itself: a rule that is wrong in any of these ways fails it, and the right rule passes all of it."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import (
    check_adjoint,
    check_all,
    check_faces,
    check_jvp,
    check_makes_no_tensor,
    check_read_only,
    check_recorded,
    check_same_gradients,
    check_second,
    check_vjp,
    differences,
    scattered,
)

import agrad
from agrad.errors import RuleError

X = np.asarray([[0.5, -1.2, 0.8], [1.1, 0.3, -0.7]])
Z = X + 1j * X[::-1]
ADJOINT = re.escape("<g, J t> = <J^T g, t>")
SQUARE = np.asarray([[2.0, 0.5, 0.1], [0.3, 3.0, -0.4], [0.2, -0.6, 2.5]])


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def cubed(vjp: Callable[..., Any], jvp: Callable[..., Any] | None = None) -> Any:
    """x**3 with these rules; both right ones are 3 g x**2."""

    @agrad.primitive
    def cube(xp: Any, x: Any, /) -> Any:
        return x * x * x

    cube.vjp(vjp)
    cube.jvp(jvp or (lambda t, x: 3 * t * x * x))
    return cube


def right(g: Any, x: Any) -> Any:
    return 3 * g * x * x


def test_the_right_rule_passes() -> None:
    check_all(cubed(right), [X], rng())
    check_all(cubed(right), [Z], rng())


def test_differences_are_exact_enough() -> None:
    v = np.ones_like(X)
    (slope,) = differences(np.sin, [X], [v])
    assert np.max(np.abs(slope - np.cos(X))) < 1e-11


@pytest.mark.parametrize("factor", [2.999, 2, -3])
def test_wrong_vjp(factor: float) -> None:
    f = cubed(lambda g, x: factor * g * x * x)
    for check, where in ((check_vjp, "vjp"), (check_adjoint, ADJOINT), (check_faces, ADJOINT)):
        with pytest.raises(AssertionError, match=rf"^{where}: off by"):
            check(f, [X], rng())
    check_jvp(f, [X], rng())


def test_wrong_jvp_alone() -> None:
    f = cubed(right, lambda t, x: 3.001 * t * x * x)
    check_vjp(f, [X], rng())
    check_recorded(f, [X], rng())
    for check, where in (
        (check_jvp, "jvp of output 0"),
        (check_adjoint, ADJOINT),
        (check_faces, ADJOINT),
        (check_second, "second order, forward over reverse, argument 0"),
    ):
        with pytest.raises(AssertionError, match=rf"^{where}: off by"):
            check(f, [X], rng())


def test_transposed() -> None:
    @agrad.primitive(linear="x")
    def turned(xp: Any, x: Any, /) -> Any:
        return xp.matmul(x, xp.asarray(SQUARE)) if x.shape[-1] == 3 else x

    turned.vjp(lambda xp, g: xp.matmul(g, xp.asarray(SQUARE)))
    check_jvp(turned, [X], rng())
    for check, where in ((check_vjp, "vjp"), (check_adjoint, ADJOINT)):
        with pytest.raises(AssertionError, match=rf"^{where}: off by"):
            check(turned, [X], rng())


def constant(x: Any) -> Any:
    return x.detach() if isinstance(x, agrad.Tensor) else x


@pytest.mark.parametrize(
    ("f", "where"),
    [
        (cubed(lambda g, x: 3 * g * constant(x) ** 2), "second order, reverse over reverse"),
        (cubed(lambda g, x: 3 * constant(g) * x**2), "second order"),
        (cubed(right, lambda t, x: 3 * t * constant(x) ** 2), "second order, reverse over forward"),
    ],
    ids=["argument", "cotangent", "argument of the jvp"],
)
def test_wrong_in_the_second_order_alone(f: Any, where: str) -> None:
    """A rule that treats a value as a constant is right only in the first order."""
    for check in (check_vjp, check_jvp, check_adjoint, check_recorded):
        check(f, [X], rng())
    with pytest.raises(AssertionError, match=where):
        check_second(f, [X], rng())


def test_other_numbers_on_tensors() -> None:
    f = cubed(lambda g, x: 3 * g * x * x * (1.001 if isinstance(x, agrad.Tensor) else 1))
    check_vjp(f, [X], rng())
    with pytest.raises(AssertionError, match="raw and recorded"):
        check_recorded(f, [X], rng())


def test_wrong_dtype() -> None:
    """An elementwise rule is not fitted where shapes and dtypes agree, so its own dtype must be right."""
    f = agrad.elementwise("halved", lambda xp, g: xp.astype(g / 2, xp.float32), forward=lambda xp, x, /: x / 2)
    with pytest.raises(AssertionError, match="dtype must be float64, got float32"):
        check_faces(f, [X], rng())


def test_wrong_shape() -> None:
    for rule in (lambda g, x: (3 * g * x * x)[:1], lambda xp, g, x: xp.sum(g * x)):
        for check in (check_vjp, check_recorded, check_faces):
            with pytest.raises(RuleError, match=r"cube.*shape \(2, 3\)"):
                check(cubed(rule), [X], rng())


@pytest.mark.parametrize("rule", [lambda g, x: np.multiply(g, 3, out=g) * x * x, lambda g, x: 3 * g * x.__imul__(x)])
def test_a_rule_that_writes_into_its_cotangent_or_argument(rule: Any) -> None:
    with pytest.raises(AssertionError, match=r"writes|changed"):
        check_read_only(cubed(rule), [X], rng())


def test_a_rule_that_writes_into_the_output() -> None:
    @agrad.primitive
    def doubled(xp: Any, x: Any, /) -> Any:
        return 2 * x

    def greedy(g: Any, y: Any) -> Any:
        y *= 0
        return 2 * g

    doubled.vjp(greedy)
    doubled.jvp(lambda t: 2 * t)
    with pytest.raises(AssertionError, match="changed the result"):
        check_read_only(doubled, [X], rng())


def test_missing_conjugate() -> None:
    @agrad.primitive
    def mirrored(xp: Any, x: Any, /) -> Any:
        return xp.conj(x) * x

    mirrored.jvp(lambda xp, t, x: xp.conj(t) * x + xp.conj(x) * t)
    mirrored.vjp(lambda xp, g, x: g * x + g * xp.conj(x))
    check_jvp(mirrored, [Z], rng())
    for check, where in ((check_vjp, "vjp"), (check_adjoint, ADJOINT)):
        with pytest.raises(AssertionError, match=rf"^{where}: off by"):
            check(mirrored, [Z], rng())
    mirrored.vjp(lambda xp, g, x: xp.conj(g * x) + g * xp.conj(x))
    check_all(mirrored, [Z], rng())


def test_a_wrong_imaginary_part() -> None:
    f = cubed(lambda xp, g, x: 3 * g * xp.conj(x * x), lambda xp, t, x: 3 * t * xp.conj(x * x))
    check_adjoint(f, [Z], rng())
    for check, where in ((check_vjp, "vjp"), (check_jvp, "jvp of output 0")):
        with pytest.raises(AssertionError, match=rf"^{where}: off by"):
            check(f, [Z], rng())


def test_a_rule_that_makes_tensors() -> None:
    f = cubed(lambda g, x: agrad.asarray(3 * g * x * x).raw)
    check_vjp(f, [X], rng())
    with pytest.raises(AssertionError, match="made 1 Tensors"):
        check_makes_no_tensor(f, [X], rng())


def test_a_rule_that_minds_the_memory() -> None:
    f = cubed(lambda g, x: 3 * g * x * x * (1.0 if x.flags.c_contiguous else 1.001))
    assert not scattered(X).flags.c_contiguous
    assert not scattered(X).flags.f_contiguous
    assert np.array_equal(scattered(X), X)
    with pytest.raises(AssertionError, match="contiguous"):
        check_same_gradients(f, [X], [scattered(X)], rng())
    check_same_gradients(cubed(right), [X], [scattered(X)], rng())


def test_one_argument_of_two() -> None:
    """A wrong rule for the second argument is seen though the first one's is right, and larger."""

    @agrad.primitive(linear=("a", "b"))
    def blend(xp: Any, a: Any, b: Any, /) -> Any:
        return 1e3 * a + b

    blend.vjp("a")(lambda g: 1e3 * g)
    blend.vjp("b")(lambda g: 1.01 * g)
    with pytest.raises(AssertionError, match=r"^vjp: off by"):
        check_vjp(blend, [X, X], rng())


def test_a_wrong_second_output() -> None:
    @agrad.primitive(out=("s", "c"))
    def sincos(xp: Any, x: Any, /) -> Any:
        return xp.sin(x), xp.cos(x)

    @sincos.jvp
    def sincos_jvp(t: Any, s: Any, c: Any) -> Any:
        return t * c, -t * s

    def pull(sign: int) -> Any:
        def rule(g_s: Any, g_c: Any, s: Any, c: Any) -> Any:
            parts = [part for part in (None if g_s is None else g_s * c, None if g_c is None else sign * g_c * s) if
                     part is not None]  # fmt: skip
            return parts[0] if len(parts) == 1 else parts[0] + parts[1]

        return rule

    sincos.vjp(pull(-1))
    check_all(sincos, [X], rng())
    sincos.vjp(pull(1))
    with pytest.raises(AssertionError, match=r"^vjp: off by"):
        check_vjp(sincos, [X], rng())
