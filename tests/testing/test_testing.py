"""``agrad.testing.check_grads``: right derivatives pass, and each kind of wrong one fails with the argument's name."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad.errors import ConfigurationError, DerivativeError, DtypeError, KinkError, MissingRuleError, OperandError
from agrad.testing import check_grads

X = np.asarray([[0.5, -1.2, 0.8], [1.1, 0.3, -0.7]])
Y = np.asarray([[1.5, 0.7, -0.4], [0.2, 1.3, 0.9]])
Z = X + 1j * X[::-1]
ROW = np.asarray([0.4, -0.9, 1.7])


def constant(x: Any) -> Any:
    """A Tensor's values without its derivative: what a rule does that forgets it is differentiated again."""
    return x.detach() if isinstance(x, agrad.Tensor) else x


def weighed(
    a: Callable[..., Any] | None = lambda g, weight: g * weight * weight,
    b: Callable[..., Any] | None = lambda xp, g, x, weight: 2 * g * x * weight,
    ta: Callable[..., Any] = lambda t, weight: t * weight * weight,
    tb: Callable[..., Any] = lambda t, x, weight: 2 * t * x * weight,
) -> Any:
    """x * weight**2, with these rules."""

    @agrad.primitive(broadcasts=True, batch="leading")
    def weigh(xp: Any, x: Any, weight: Any, /) -> Any:
        return x * weight * weight

    if a is not None:
        weigh.vjp("x")(a)
    if b is not None:
        weigh.vjp("weight")(b)
    weigh.jvp("x")(ta)
    weigh.jvp("weight")(tb)
    return weigh


def message(f: Any, *args: Any, error: Any = DerivativeError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        check_grads(f, args, **options)
    return str(caught.value)


# ---------------------------------------------------------------- what is right


def test_right_rules_pass(place: Any) -> None:
    check_grads(weighed(), (place(X), place(Y)))
    check_grads(weighed(), (place(X[:, :2]), place(ROW[:2])))
    check_grads(weighed(), (agrad.asarray(place(Z)), place(Y + 1j)))


def test_containers(place: Any) -> None:
    def f(params: Any, *rest: Any) -> Any:
        return {"h": agrad.tanh(rest[0] @ params["w"][0]) * params["scale"], "s": (agrad.sum(rest[0] ** 2),)}

    params = {"w": [place(X[:1].T.copy())], "scale": place(np.asarray(1.5))}
    check_grads(f, (params, place(X[:1])), directions=1, order=1)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (agrad.log, np.abs(X) * 1e-5), (agrad.square, X * 1e6), (agrad.sin, X * 1e-12),
        (lambda x: agrad.exp(20 * x), X), (lambda x: 0.0 * x, X), (lambda x: agrad.sum(x) + 1e6, X),
        (agrad.maximum, None),
    ],
    ids=["near the domain's edge", "large", "tiny", "steep", "zero", "a large constant", "away from a kink"],
)  # fmt: skip
def test_points_that_are_hard_for_differences(f: Any, x: Any) -> None:
    check_grads(f, (x,) if x is not None else (X, X + 1e-3))


def test_single_precision(place: Any) -> None:
    x = place(X.astype(np.float32))
    check_grads(lambda x: agrad.exp(x) * agrad.sin(x), (x,))
    text = message(weighed(a=lambda g, weight: 1.1 * g * weight * weight), x, place(Y.astype(np.float32)))
    assert "argument 0 (x)" in text
    assert "single precision, differences are accurate to about 1e-3: check float64" in text


def test_functions_of_complex_numbers(place: Any) -> None:
    check_grads(lambda z: (agrad.abs(z) ** 2, agrad.exp(z) * agrad.conj(z), agrad.real(z)), (place(Z[:1]),))


def test_composed_transforms_high_orders_and_large_arrays() -> None:
    check_grads(weighed(), (X[:, :2], ROW[:2]), order=3)
    check_grads(lambda x: x**3, (2.0,), order=4)
    check_grads(agrad.grad(lambda x: agrad.sum(agrad.sin(x) ** 3)), (X,))
    check_grads(lambda x: agrad.tanh(x) * agrad.mean(x), (np.random.default_rng(0).standard_normal(3000),))


# ---------------------------------------------------------------- what is wrong


def at_one_element(xp: Any, g: Any, weight: Any) -> Any:
    return g * weight * weight * (1 + 1e-3 * xp.astype(weight == 1.3, weight.dtype))


WRONG = {
    "sign": ({"b": lambda g, x, weight: -2 * g * x * weight}, "argument 1 (weight)", "reverse mode", "a factor of -1"),
    "factor": ({"a": lambda g, weight: 1.001 * g * weight**2}, "argument 0 (x)", "reverse mode", "a factor of 1.001"),
    "one element": ({"a": at_one_element}, "argument 0 (x), element [1, 1]", "reverse mode", "1 of 6 checked elements"),
    "jvp alone": ({"tb": lambda t, x, weight: t * x * weight}, "argument 1 (weight)", "forward mode", "factor of 0.5"),
    "axis": ({"a": lambda xp, g, weight: xp.flip(g * weight**2, axis=0)}, "argument 0 (x)", "reverse mode", "of 6"),
    "zero": ({"b": lambda xp, g, x, weight: g * 0.0}, "argument 1 (weight)", "reverse mode", "agrad returns 0,"),
    "forgotten": ({"b": lambda g: None}, "argument 1 (weight)", "reverse mode", "agrad returns 0,"),
    "second order by an argument": (
        {"b": lambda g, x, weight: 2 * g * x * constant(weight)}, "argument 1 (weight)", "over reverse mode", "wrong"
    ),
    "second order by another argument": (
        {"a": lambda g, weight: g * constant(weight) ** 2}, "argument 1 (weight)", "over reverse mode", "wrong"
    ),
    "second order by the cotangent": (
        {"a": lambda g, weight: constant(g) * weight**2}, "argument 0 (x)", "over reverse mode", "wrong"
    ),
    "second order of the tangent": (
        {"ta": lambda t, weight: t * constant(weight) ** 2}, "argument 1 (weight)", "over forward mode", "wrong"
    ),
    "second order by the tangent": (
        {"ta": lambda t, weight: constant(t) * weight**2}, "argument 0 (x)", "over forward mode", "wrong"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_rules_are_named(kind: str, place: Any) -> None:
    rules, argument, mode, text = WRONG[kind]
    found = message(weighed(**rules), place(X), place(Y))
    assert found.startswith("check_grads of weigh: the ") and f"derivative with respect to {argument}" in found
    assert mode in found and text in found and ("over" in found) == kind.startswith("second")


def test_a_missing_rule_is_named() -> None:
    assert "no vjp rule for weight" in message(weighed(b=None), X, Y, error=MissingRuleError)


def test_a_missing_conjugate() -> None:
    @agrad.primitive
    def size(xp: Any, z: Any, /) -> Any:
        return xp.real(z * xp.conj(z))

    size.jvp(lambda xp, t, z: 2 * xp.real(xp.conj(z) * t))
    size.vjp(lambda xp, g, z: 2 * g * z)
    text = message(size, Z, order=1)
    assert "argument 0 (z), element" in text and "imaginary part" in text
    size.vjp(lambda xp, g, z: 2 * g * xp.conj(z))
    check_grads(size, (Z,))


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_a_value_that_differs_where_it_is_differentiated(mode: str) -> None:
    f = agrad.custom_vjp(agrad.sin)
    for fwd, text in (
        (lambda x: agrad.sin(x) * np.asarray([1.0, 1.01, 1.0]), r"element \[1\], is -0\.79\d* in the \w+ mode pass"),
        (lambda x: agrad.astype(agrad.sin(x), agrad.float32), r"is float32\(3,\) in the .* but float64\(3,\) without"),
    ):
        f.defvjp(lambda x, fwd=fwd: (fwd(x), x), lambda x, g: (agrad.astype(g, agrad.float64) * agrad.cos(x),))
        assert re.search(text, message(f, ROW, modes=[mode]))


def test_the_element_and_both_numbers() -> None:
    text = message(weighed(a=at_one_element), X, Y, directions=1, order=1, modes=("rev",))
    got, wanted = (float(n) for n in re.findall(r"agrad returns ([-\d.e]+), finite differences ([-\d.e]+)", text)[0])
    assert got / wanted == pytest.approx(1.001, rel=1e-6)


def test_one_element_of_many_is_found() -> None:
    off = np.ones((60, 70))
    off[37, 58] = 2.0
    big = np.random.default_rng(0).standard_normal((60, 70))
    text = message(weighed(a=lambda g, weight: g * weight**2 * off), big, big + 3.0, order=1)
    assert "argument 0 (x), element [37, 58] is wrong" in text


def test_places_inside_containers() -> None:
    wrong = weighed(b=lambda g, x, weight: 3 * g * x * weight)
    text = message(lambda p, q: wrong(p["x"], q[1]["deep"]), {"x": X}, [X, {"deep": Y}])
    assert "argument 1 (q)[1]['deep'], element" in text
    assert "argument 1 (rest[0])" in message(lambda x, *rest: wrong(x, rest[0]), X, Y)


def test_modes_are_checked_alone() -> None:
    check_grads(weighed(ta=lambda t, weight: t), (X, Y), modes=("rev",))
    check_grads(weighed(a=lambda g, weight: g), (X, Y), modes=("fwd",))
    check_grads(weighed(a=lambda g, weight: g * constant(weight) ** 2), (X, Y), order=1)


# ---------------------------------------------------------------- kinks


KINKS = {
    "relu": (agrad.relu, "the slopes differ"),
    "maximum": (lambda x: agrad.maximum(x, 0.0) * 2, "there is a kink at"),
    "edge": (agrad.sqrt, "on one side it is not finite"),
    "jump": (lambda x: agrad.where(x > 0, x + 1.0, x), "it jumps"),
    "cusp": (lambda x: agrad.sqrt(agrad.abs(x)), "there is a kink at"),
}


@pytest.mark.parametrize("kind", KINKS)
def test_kinks_are_told_from_wrong_rules(kind: str) -> None:
    f, text = KINKS[kind]
    found = message(f, np.asarray([1.0, 0.0, 2.0]), error=KinkError)
    assert "argument 0" in found and "element [1]" in found and text in found
    check_grads(f, (np.asarray([1.0, 0.3, 2.0]),))


def test_a_wrong_rule_beside_a_kink_is_a_wrong_rule() -> None:
    wrong = weighed(a=lambda g, weight: 2 * g * weight * weight)
    text = message(lambda x: agrad.relu(wrong(x, np.ones(3))), np.asarray([1.0, 0.0, 2.0]), modes=("rev",))
    assert "element [2]" in text


# ---------------------------------------------------------------- what cannot be checked


@np.errstate(all="ignore")
def test_what_cannot_be_checked_is_named() -> None:
    rng = np.random.default_rng(0)
    for error, text, f, *arguments in (
        (DtypeError, "argument 1 (i) must have a floating-point dtype, got int64", lambda x, i: x[i], X, np.arange(1)),
        (DtypeError, "bind it first", lambda x, i: x[i], X, np.arange(1)),
        (DtypeError, "argument 1 (p)['n'] must have a derivative, got the int 3", lambda x, p: x, X, {"n": 3}),
        (DtypeError, "output 1 has dtype int64", lambda x: (x, agrad.argmax(x)), X),
        (OperandError, "argument 1 (how) must be an array, got str", lambda x, how: x, X, "fast"),
        (DerivativeError, "different values when it is computed again", lambda x: x * rng.standard_normal(), X),
        (DerivativeError, "output 0 is not finite", agrad.log, X),
        (OperandError, "must return an array", lambda x: None, X),
    ):
        assert text in message(f, *arguments, error=error)


def test_noise_is_said_to_be_noise() -> None:
    text = message(lambda x: agrad.sin(1e9 * x), X)
    assert "the differences do not converge, because the function is noisy or changes fast: pass another eps" in text


def test_options() -> None:
    for bad in ({"order": 0}, {"modes": ()}, {"modes": ("back",)}):
        fails(ConfigurationError, "order must be at least 1", check_grads, agrad.sin, (X,), **bad)
    fails(OperandError, "a tuple", check_grads, agrad.sin, X)
    fails(OperandError, "must contain an argument", check_grads, agrad.sin, ())
    wrong = weighed(a=lambda g, weight: 1.001 * g * weight**2)
    check_grads(wrong, (X, Y), rtol=1e-2, order=1)
    check_grads(wrong, (X, Y), atol=1.0, order=1)
    message(wrong, X, Y, eps=1e-3, seed=5)
