"""``grad``, ``value_and_grad``, ``vjp`` and ``jvp``: containers, arguments, nesting, closures, errors."""

import dataclasses
import itertools
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
from checker import assert_close, check_like, host

import agrad
from agrad.errors import (
    AgradError,
    ConfigurationError,
    DtypeError,
    NotDifferentiableError,
    OperandError,
    ShapeError,
)

X = np.asarray([0.5, -1.2, 0.8])


def total(x: Any) -> Any:
    return agrad.sum(x * x)


# ---------------------------------------------------------------- containers


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: Any
    layers: Any


@dataclasses.dataclass
class Checked:
    """Its constructor takes another parameter and refuses what is no array."""

    values: Any
    sign: dataclasses.InitVar[int] = 1

    def __post_init__(self, sign: int) -> None:
        if not hasattr(self.values, "shape"):
            raise TypeError("values must be an array")
        self.values = self.values * sign


Pair = namedtuple("Pair", ["first", "second"])


class Named(NamedTuple):
    left: Any
    right: Any


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves(part)]
    if dataclasses.is_dataclass(tree):
        return [leaf for field in dataclasses.fields(tree) for leaf in leaves(getattr(tree, field.name))]
    return [] if tree is None else [tree]


CONTAINERS = {
    "dict": lambda a, b: {"a": a, "b": b},
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "namedtuple": lambda a, b: Pair(a, b),
    "typed namedtuple": lambda a, b: Named(a, b),
    "dataclass": lambda a, b: Layer(a, b),
    "frozen dataclass": lambda a, b: Frozen(a, b),
    "dataclass with a constructor of its own": lambda a, b: [Checked(a), Checked(b)],
    "nested": lambda a, b: {"deep": [Frozen(a, (Layer(b, None), Pair(a + 1, [b])))], "none": None},
    "empty parts": lambda a, b: [a, {}, (), [b]],
}


@pytest.mark.parametrize("label", CONTAINERS)
def test_containers_in_and_out(label: str, backend: str, place: Any) -> None:
    tree = CONTAINERS[label](place(X), place(X[:2]))

    def f(tree: Any) -> Any:
        return sum(agrad.sum((i + 1) * leaf**2) for i, leaf in enumerate(leaves(tree)))

    gradient = agrad.grad(f)(tree)
    value, same = agrad.value_and_grad(f)(tree)
    y, pull = agrad.vjp(f, tree)
    (pulled,) = pull(agrad.ones_like(y))
    assert_close(value, f(tree), "value")
    for found in (gradient, same, pulled):
        assert type(found) is type(tree)
        assert len(leaves(found)) == len(leaves(tree))
        for i, (g, x) in enumerate(zip(leaves(found), leaves(tree), strict=True)):
            check_like(g, x, "gradient")
            assert not isinstance(g, agrad.Tensor)
            assert_close(g, 2 * (i + 1) * host(x), "gradient")
    _, t = agrad.jvp(f, (tree,), (tree,))
    assert_close(t, 2 * host(f(tree)), "tangent")


@pytest.mark.parametrize("label", CONTAINERS)
def test_containers_as_results(label: str) -> None:
    make = CONTAINERS[label]
    y, pull = agrad.vjp(lambda a, b: make(a * 2, b * 3), X, X[:2])
    assert type(y) is type(make(X, X))
    (ga, gb) = pull(make(np.ones(3), np.ones(2)))
    nested = label == "nested"  # a stands there twice, with the cotangents 1 and 2, and b twice with 1
    assert_close(ga, np.full(3, 6.0 if nested else 2.0), "cotangent of a")
    assert_close(gb, np.full(2, 6.0 if nested else 3.0), "cotangent of b")
    value, t = agrad.jvp(lambda a, b: make(a * 2, b * 3), (X, X[:2]), (X, X[:2]))
    assert type(t) is type(value) is type(y)


def test_cotangents_and_tangents_have_the_structure() -> None:
    _, pull = agrad.vjp(lambda x: {"y": x}, X)
    named, at = lambda x: x["a"], ({"a": X},)
    for call, error, match in (
        (lambda: pull([X]), ShapeError, "structure"),
        (lambda: agrad.jvp(named, at, ({"b": X},)), ShapeError, "structure"),
        (lambda: agrad.jvp(named, at, ({"a": X[:2]},)), ShapeError, r"0\['a'\] .* \(3,\), got float64 and \(2,\)"),
        (lambda: agrad.jvp(total, (X,), (X.astype(np.float32),)), ShapeError, "float32"),
        (lambda: agrad.jvp(total, X, X), OperandError, "tuple"),
        (lambda: agrad.vjp(lambda x: x, X)[1](X[:2]), ShapeError, r"\(2,\)"),
    ):
        with pytest.raises(error, match=match):
            call()


# ---------------------------------------------------------------- arguments


def three(a: Any, b: Any, c: Any, *, scale: float = 1.0) -> Any:
    return scale * agrad.sum(a * b**2 * c**3)


@pytest.mark.parametrize("argnums", [0, 1, 2, -1, (0,), (0, 2), (2, 0), (-1, -3), (1, 1 - 3)])
def test_argnums(argnums: Any) -> None:
    args = (X, X + 1, X + 2)
    a, b, c = args
    slopes = (b**2 * c**3, 2 * a * b * c**3, 3 * a * b**2 * c**2)
    if argnums == (1, -2):
        with pytest.raises(ConfigurationError, match="each argument once"):
            agrad.grad(three, argnums)(*args)
        return
    found = agrad.grad(three, argnums)(*args)
    if isinstance(argnums, int):
        assert_close(found, slopes[argnums], "gradient")
    else:
        assert isinstance(found, tuple)
        for n, g in zip(argnums, found, strict=True):
            assert_close(g, slopes[n], "gradient")


def test_argnums_out_of_range() -> None:
    for n in (3, -4, (0, 5)):
        with pytest.raises(ConfigurationError, match=r"3 positional arguments"):
            agrad.grad(three, n)(X, X, X)


def test_keywords_are_passed_on() -> None:
    assert_close(agrad.grad(three)(X, X, X, scale=2.0), 2 * X**5, "gradient")


def test_has_aux() -> None:
    def f(x: Any) -> Any:
        return total(x), {"squares": x * x, "word": "kept", "number": 3}

    gradient, aux = agrad.grad(f, has_aux=True)(X)
    (value, same), g = agrad.value_and_grad(f, has_aux=True)(X)
    y, pull, third = agrad.vjp(f, X, has_aux=True)
    v, t, fourth = agrad.jvp(f, (X,), (X,), has_aux=True)
    for found in (aux, same, third, fourth):
        assert isinstance(found["squares"], np.ndarray)
        assert_close(found["squares"], X * X, "aux")
        assert (found["word"], found["number"]) == ("kept", 3)
    for found in (gradient, g, pull(np.ones(()))[0]):
        assert_close(found, 2 * X, "gradient")
    assert_close(t, 2 * total(X), "tangent")
    assert_close(value, y, "value")
    assert_close(value, v, "value")
    with pytest.raises(NotDifferentiableError, match="pair"):
        agrad.grad(total, has_aux=True)(X)


def test_raw_in_raw_out_and_tensor_in_tensor_out(backend: str, place: Any) -> None:
    raw, tensor = place(X), agrad.asarray(place(X))
    for x, is_tensor in ((raw, False), (tensor, True)):
        value, g = agrad.value_and_grad(total)(x)
        y, pull = agrad.vjp(lambda x: x * 2, x)
        found = [
            value,
            g,
            y,
            *pull(y),
            *agrad.jvp(lambda x: x * 2, (x,), (x,)),
            agrad.grad(lambda x: agrad.sum(raw))(x),
        ]
        assert [isinstance(v, agrad.Tensor) for v in found] == [is_tensor] * len(found)
    mixed = agrad.grad(lambda a, b: agrad.sum(a * b), (0, 1))(raw, tensor)
    assert [isinstance(g, agrad.Tensor) for g in mixed] == [False, True]


def test_python_floats_are_arrays_of_the_selected_backend(backend: str) -> None:
    g = agrad.grad(lambda x: x**3)(2.0)
    assert_close(g, 12.0, "gradient")
    assert_close(agrad.jvp(lambda x: x**3, (2.0,), (1.0,))[1], 12.0, "tangent")


def test_a_function_that_has_never_heard_of_agrad(backend: str, place: Any) -> None:
    def energy(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.sum(xp.sin(x) ** 2) + xp.linalg.matmul(x, xp.flip(x)) * xp.mean(xp.astype(x, xp.float64))

    g = agrad.grad(energy)(place(X))
    assert not isinstance(g, agrad.Tensor)
    expected = 2 * np.sin(X) * np.cos(X) + 2 * X[::-1] * X.mean() + X @ X[::-1] / 3
    assert_close(g, expected, "gradient")


# ---------------------------------------------------------------- nesting


def forward(f: Any) -> Any:
    return lambda x: agrad.jvp(f, (x,), (agrad.ones_like(x),))[1]


def reverse(f: Any) -> Any:
    return agrad.grad(f)


def pulled(f: Any) -> Any:
    def derivative(x: Any) -> Any:
        y, pull = agrad.vjp(f, x)
        return pull(agrad.ones_like(y))[0]

    return derivative


MODES = {"forward": forward, "reverse": reverse, "pulled": pulled}


@pytest.mark.parametrize("order", list(itertools.product(MODES, repeat=3)), ids="-".join)
def test_third_derivatives_in_every_order_of_modes(order: tuple[str, ...], backend: str, place: Any) -> None:
    def f(x: Any) -> Any:
        return agrad.sin(x) * agrad.exp(x) / (1 + x * x)

    g = f
    for mode in order:
        g = MODES[mode](g)
    x, h = 0.7, 1e-3
    points = np.asarray([f(np.asarray(x + k * h)) for k in (-3, -2, -1, 1, 2, 3)])
    expected = points @ np.asarray([1, -8, 13, -13, 8, -1]) / (8 * h**3)
    assert_close(g(place(np.asarray(x))), expected, "third derivative", 1e-5)


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(MODES, repeat=2)), ids="-".join)
def test_perturbations_are_not_confused(outer: str, inner: str) -> None:
    """d/dx x * (d/dy (x + y)) is 1, whatever the modes: Siskind and Pearlmutter 2005."""
    first, second = MODES[outer], MODES[inner]
    x = np.asarray(3.0)
    assert_close(first(lambda x: x * second(lambda y: x + y)(np.asarray(1.0)))(x), 1.0, "x times 1")
    assert_close(first(lambda x: x * second(lambda y: x * y)(np.asarray(2.0)))(x), 6.0, "x times x")
    assert_close(first(lambda x: second(lambda y: x * y * y)(x))(x), 12.0, "2 x y at y = x")
    assert_close(first(lambda x: second(lambda y: x)(x))(x), 0.0, "the inner function is constant")


def test_an_inner_function_applied_to_an_outer_variable() -> None:
    """The amazing bug of Manzyuk and others 2019: a curried derivative."""

    def shift(u: Any) -> Any:
        return lambda f: lambda x: f(x + u)

    push = lambda f: agrad.jvp(f, (np.asarray(0.0),), (np.asarray(1.0),))[1]  # noqa: E731
    # the derivative of shift at 0, which takes a function to its derivative
    derivative = lambda f: lambda x: push(lambda u: shift(u)(f)(x))  # noqa: E731
    twice = derivative(derivative(lambda x: x**3))
    assert_close(twice(np.asarray(2.0)), 12.0, "second derivative")


def test_grad_through_a_loop_of_inner_gradients() -> None:
    """The derivative of gradient descent by its rate and by its start."""

    def trained(rate: Any, start: Any) -> Any:
        w = start
        for _ in range(3):
            w = w - rate * agrad.grad(lambda w: (w - 1) ** 2)(w)
        return w

    rate, start = np.asarray(0.1), np.asarray(4.0)
    by_rate, by_start = agrad.grad(trained, (0, 1))(rate, start)
    assert_close(by_rate, -2 * 3 * (1 - 0.2) ** 2 * 3, "by the rate")
    assert_close(by_start, (1 - 0.2) ** 3, "by the start")


def test_the_hessian_of_two_arguments() -> None:
    f = lambda a, b: agrad.sum(a * a * b)  # noqa: E731
    mixed = agrad.grad(lambda b: agrad.sum(agrad.grad(f)(X, b)))(X + 1)
    assert_close(mixed, 2 * X, "mixed second derivative")


# ---------------------------------------------------------------- meeting the imperative face


def test_closures_over_tensors_that_require_grad(backend: str, place: Any) -> None:
    w = agrad.asarray(place(X), requires_grad=True)
    g = agrad.grad(lambda x: agrad.sum(w * x * x))(agrad.asarray(place(X + 1)))
    assert g.requires_grad
    assert_close(g, 2 * X * (X + 1), "gradient")
    agrad.sum(g).backward()
    assert_close(w.grad, 2 * (X + 1), "gradient of the gradient by w")
    w.zero_grad()
    _, t = agrad.jvp(lambda x: w * x * x, (agrad.asarray(place(X)),), (agrad.ones(3, dtype=agrad.float64),))
    agrad.sum(t).backward()
    assert_close(w.grad, 2 * X, "gradient of the tangent by w")


def test_transforms_of_tensors_that_require_grad() -> None:
    x = agrad.asarray(X, requires_grad=True)
    y = agrad.sum(agrad.grad(lambda x: agrad.sum(x**3))(x))
    y.backward()
    assert_close(x.grad, 6 * X, "gradient")
    x.zero_grad()
    value, pull = agrad.vjp(lambda x: x**3, x)
    (g,) = pull(value)
    agrad.sum(g).backward()
    assert_close(x.grad, 15 * X**4, "gradient of 3 x**5")


def test_backward_inside_a_transform_is_refused() -> None:
    def f(x: Any) -> Any:
        y = total(x)
        y.backward()
        return y

    with pytest.raises(NotDifferentiableError, match=r"agrad.grad"):
        agrad.grad(f)(X)


def test_a_backward_pass_of_its_own_inside_a_transform() -> None:
    def f(x: Any) -> Any:
        w = agrad.asarray(X, requires_grad=True)
        agrad.sum(w**2).backward()
        return agrad.sum(x * w.grad)

    assert_close(agrad.grad(f)(X), 2 * X, "gradient")


def test_grad_inside_no_grad_and_no_grad_inside_grad() -> None:
    with agrad.no_grad():
        assert_close(agrad.grad(total)(X), 2 * X, "grad inside no_grad")
        assert_close(forward(total)(X), 2 * X.sum(), "jvp inside no_grad")
        assert_close(agrad.grad(lambda x: agrad.sum(agrad.grad(total)(x) ** 2))(X), 8 * X, "nested, inside no_grad")

    def part(x: Any) -> Any:
        with agrad.no_grad():
            frozen = x * x
        return agrad.sum(frozen * x)

    assert_close(agrad.grad(part)(X), X * X, "what no_grad computed is a constant")
    assert_close(forward(part)(X), (X * X).sum(), "in forward mode too")

    def enabled(x: Any) -> Any:
        with agrad.no_grad(), agrad.enable_grad():
            return total(x)

    assert_close(agrad.grad(enabled)(X), 2 * X, "enable_grad inside no_grad inside grad")


def test_an_exception_inside_leaves_no_trace() -> None:
    def fails(x: Any) -> Any:
        agrad.sin(x)
        raise KeyError("mine")

    calls = (agrad.grad, agrad.jacfwd, agrad.jacrev, agrad.jacobian, agrad.hessian, agrad.elementwise_grad, agrad.vmap)
    for attempt in (
        lambda: agrad.jvp(fails, (X,), (X,)),
        lambda: agrad.grad(lambda x: agrad.sum(agrad.grad(fails)(x)))(X),
        lambda: agrad.grad(lambda x: agrad.sum(agrad.checkpoint(fails)(x)))(X),
        *[lambda transform=transform: transform(fails)(X) for transform in calls],
    ):
        with pytest.raises(KeyError, match="mine"):
            attempt()
    assert not agrad.sin(agrad.asarray(X)).requires_grad
    assert_close(agrad.grad(total)(X), 2 * X, "gradient")
    assert isinstance(agrad.sin(X), np.ndarray)


def test_a_value_that_escapes_is_a_constant_afterwards() -> None:
    kept = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return total(x)

    agrad.grad(f)(X)
    assert_close(kept[0], 2 * X, "the value that escaped")
    assert_close(agrad.grad(lambda x: agrad.sum(x * kept[0]))(X), 2 * X, "used in another transform")


def test_a_pullback_may_be_called_again() -> None:
    y, pull = agrad.vjp(lambda x: agrad.exp(x) * x, X)
    first, second = pull(y)[0], pull(y)[0]
    assert_close(first, second, "cotangents")
    assert_close(pull(2 * y)[0], 2 * first, "linearity")


# ---------------------------------------------------------------- errors


def test_results_that_are_no_real_number() -> None:
    z = X + 0j
    cases: list[tuple[Any, Any, type[AgradError], str]] = [
        (lambda x: x * x, X, ShapeError, r"shape \(\), got \(3,\).*agrad.sum"),
        (lambda x: agrad.sum(x) > 0, X, DtypeError, "bool"),
        (lambda x: agrad.argmax(x), X, DtypeError, "int64"),
        (lambda x: agrad.sum(x), z, DtypeError, "complex.*real part"),
        (lambda x: (total(x), total(x)), X, NotDifferentiableError, "has_aux"),
        (lambda x: None, X, NotDifferentiableError, "got None"),
        (lambda x: "text", X, NotDifferentiableError, "got .text"),
    ]
    for f, x, kind, message in cases:
        with pytest.raises(kind, match=message):
            agrad.grad(f)(x)


def test_a_plain_number_as_a_result_has_the_gradient_zero() -> None:
    value, g = agrad.value_and_grad(lambda x: 3.0)(X)
    assert value == 3.0
    assert_close(g, 0 * X, "gradient")


def test_arguments_that_cannot_be_differentiated() -> None:
    cases: list[tuple[Any, type[AgradError], str]] = [
        (np.asarray([1, 2]), DtypeError, r"argument 0 must have a floating-point dtype, got int64.*Cast"),
        (
            {"w": [X, np.asarray([True])]},
            DtypeError,
            r"argument 0\['w'\]\[1\] must have a floating-point dtype, got bool",
        ),
        (3, DtypeError, r"argument 0 must be .* int 3.*3.0"),
        (True, DtypeError, r"bool True"),
        ("text", OperandError, r"argument 0 must be a floating-point array, got 'text'"),
        ({"a": object()}, OperandError, r"argument 0\['a'\] must be a floating-point array, got object"),
    ]
    for x, kind, message in cases:
        with pytest.raises(kind, match=message):
            agrad.grad(lambda x: total(X))(x)


def test_values_have_their_names_in_messages() -> None:
    def loss(x: Any) -> Any:
        return x

    with pytest.raises(ShapeError, match="the gradient of loss"):
        agrad.grad(loss)(X)
