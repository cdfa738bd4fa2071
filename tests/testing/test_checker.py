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
from refusals import fails

import agrad
from agrad.errors import RuleError

X = np.asarray([[0.5, -1.2, 0.8], [1.1, 0.3, -0.7]])
Z = X + 1j * X[::-1]
ADJOINT = re.escape("<g, J t> = <J^T g, t>")


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
    assert np.max(np.abs(slope - np.cos(X))) < 1e-9


def constant(x: Any) -> Any:
    return x.detach() if isinstance(x, agrad.Tensor) else x


def doubled() -> Any:
    """Twice x, with a rule that writes into the output."""

    @agrad.primitive
    def doubled(xp: Any, x: Any, /) -> Any:
        return 2 * x

    def greedy(g: Any, y: Any) -> Any:
        y *= 0
        return 2 * g

    doubled.vjp(greedy)
    doubled.jvp(lambda t: 2 * t)
    return doubled


def sincos(sign: int) -> Any:
    @agrad.primitive(out=("s", "c"))
    def sincos(xp: Any, x: Any, /) -> Any:
        return xp.sin(x), xp.cos(x)

    @sincos.vjp
    def sincos_vjp(g_s: Any, g_c: Any, s: Any, c: Any) -> Any:
        parts = [None if g_s is None else g_s * c, None if g_c is None else sign * g_c * s]
        return sum(part for part in parts if part is not None)

    sincos.jvp(lambda t, s, c: (t * c, -t * s))
    return sincos


def off(where: str) -> str:
    return rf"^{where}: off by"


VJP, ADJ = (check_vjp, off("vjp")), (check_adjoint, off(ADJOINT))
FACES, JVP = (check_faces, off(ADJOINT)), (check_jvp, off("jvp of output 0"))
FORWARD = (check_second, off("second order, forward over reverse, argument 0"))
FIRST = [check_vjp, check_jvp, check_adjoint, check_recorded]
SHAPES = [(check, r"cube.*shape \(2, 3\)") for check in (check_vjp, check_recorded, check_faces)]
WRITES = [(check_read_only, r"writes|changed")]
WRONG: dict[str, tuple[Any, list[np.ndarray], list[Any], list[tuple[Any, str]]]] = {
    "a factor": (cubed(lambda g, x: 2.999 * g * x * x), [X], [check_jvp], [VJP, ADJ, FACES]),
    "jvp": (cubed(right, lambda t, x: 3.001 * t * x * x), [X], [check_vjp, check_recorded], [JVP, ADJ, FACES, FORWARD]),
    "an argument in the second order": (
        cubed(lambda g, x: 3 * g * constant(x) ** 2), [X], FIRST,
        [(check_second, "second order, reverse over reverse")]),
    "a cotangent in the second order": (
        cubed(lambda g, x: 3 * constant(g) * x**2), [X], FIRST, [(check_second, "second order")]),
    "other numbers on Tensors": (
        cubed(lambda g, x: 3 * g * x * x * (1.001 if isinstance(x, agrad.Tensor) else 1)), [X], [check_vjp],
        [(check_recorded, "raw and recorded")]),
    # an elementwise rule is not fitted where shapes and dtypes agree, so its own dtype must be right
    "dtype": (agrad.elementwise("halved", lambda xp, g: xp.astype(g / 2, xp.float32), forward=lambda xp, x, /: x / 2),
              [X], [], [(check_faces, "dtype must be float64, got float32")]),
    "a row": (cubed(lambda g, x: (3 * g * x * x)[:1]), [X], [], SHAPES),
    "writes into the argument": (cubed(lambda g, x: 3 * g * x.__imul__(x)), [X], [], WRITES),
    "writes into the output": (doubled(), [X], [], [(check_read_only, "changed the result")]),
    "the imaginary part": (
        cubed(lambda xp, g, x: 3 * g * xp.conj(x * x), lambda xp, t, x: 3 * t * xp.conj(x * x)), [Z], [check_adjoint],
        [VJP, JVP]),
    "creates Tensors": (cubed(lambda g, x: agrad.asarray(3 * g * x * x).raw), [X], [check_vjp],
                        [(check_makes_no_tensor, "made 1 Tensors")]),
    "the second output": (sincos(1), [X], [], [VJP]),
    "a right second output": (sincos(-1), [X], [check_all], []),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_fails_the_checks_that_see_it(kind: str) -> None:
    f, arrays, passed, failed = WRONG[kind]
    assert passed or failed
    for check in passed:
        check(f, arrays, rng())
    for check, text in failed:
        fails(RuleError if failed is SHAPES else AssertionError, text, check, f, arrays, rng())


def test_a_rule_that_depends_on_the_memory_layout() -> None:
    f = cubed(lambda g, x: 3 * g * x * x * (1.0 if x.flags.c_contiguous else 1.001))
    assert not (scattered(X).flags.c_contiguous or scattered(X).flags.f_contiguous)
    assert np.array_equal(scattered(X), X)
    fails(AssertionError, "contiguous", lambda: check_same_gradients(f, [X], [scattered(X)], rng()))
    check_same_gradients(cubed(right), [X], [scattered(X)], rng())
