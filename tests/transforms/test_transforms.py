"""``grad``, ``value_and_grad``, ``vjp`` and ``jvp``: containers, arguments, nesting, closures, errors."""

import dataclasses
import itertools
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_like, host
from refusals import fails

import agrad
from agrad.errors import NotDifferentiableError

X = np.asarray([0.5, -1.2, 0.8])
leaves = agrad.tree.leaves


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


CONTAINERS = {
    "dict": lambda a, b: {"a": a, "b": b},
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "namedtuple": lambda a, b: Pair(a, b),
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


# ---------------------------------------------------------------- arguments


def three(a: Any, b: Any, c: Any, *, scale: float = 1.0) -> Any:
    return scale * agrad.sum(a * b**2 * c**3)


def test_argnums() -> None:
    args = (X, X + 1, X + 2)
    a, b, c = args
    slopes = (b**2 * c**3, 2 * a * b * c**3, 3 * a * b**2 * c**2)
    for n in (0, 1, 2, -1):
        assert_close(agrad.grad(three, n)(*args, scale=2.0), 2 * slopes[n], f"gradient {n}")
    for argnums in ((0,), (0, 2), (2, 0), (-1, -3)):
        found = agrad.grad(three, argnums)(*args, scale=2.0)
        assert isinstance(found, tuple)
        for n, g in zip(argnums, found, strict=True):
            assert_close(g, 2 * slopes[n], f"gradient {argnums}")


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


# ---------------------------------------------------------------- nesting


def forward(f: Any) -> Any:
    return lambda x: agrad.jvp(f, (x,), (agrad.ones_like(x),))[1]


MODES = {"forward": forward, "reverse": agrad.grad, "pulled": lambda f: lambda x: agrad.vjp(f, x)[1](x * 0 + 1.0)[0]}


def test_third_derivatives_in_every_order_of_modes(place: Any) -> None:
    def f(x: Any) -> Any:
        return agrad.sin(x) * agrad.exp(x) / (1 + x * x)

    x, h = 0.7, 1e-3
    points = np.asarray([f(np.asarray(x + k * h)) for k in (-3, -2, -1, 1, 2, 3)])
    expected = points @ np.asarray([1, -8, 13, -13, 8, -1]) / (8 * h**3)
    for order in itertools.product(MODES, repeat=3):
        inner, middle, outer = (MODES[mode] for mode in order)
        assert_close(outer(middle(inner(f)))(place(np.asarray(x))), expected, "-".join(order), 1e-5)


def test_perturbations_are_not_confused() -> None:
    """d/dx x * (d/dy (x + y)) is 1, whatever the modes: Siskind and Pearlmutter 2005."""
    x = np.asarray(3.0)
    for modes in itertools.product(MODES, repeat=2):
        first, second = (MODES[mode] for mode in modes)
        rows = {
            "x times 1": (lambda x, d=second: x * d(lambda y: x + y)(np.asarray(1.0)), 1.0),
            "x times x": (lambda x, d=second: x * d(lambda y: x * y)(np.asarray(2.0)), 6.0),
            "2 x y at y = x": (lambda x, d=second: d(lambda y: x * y * y)(x), 12.0),
            "the inner function is constant": (lambda x, d=second: d(lambda y: x)(x), 0.0),
        }
        for label, (f, expected) in rows.items():
            assert_close(first(f)(x), expected, f"{label}, {modes}")


def test_an_inner_function_applied_to_an_outer_variable() -> None:
    """The amazing bug of Manzyuk and others 2019: a curried derivative."""

    def shift(u: Any) -> Any:
        return lambda f: lambda x: f(x + u)

    push = lambda f: agrad.jvp(f, (np.asarray(0.0),), (np.asarray(1.0),))[1]  # noqa: E731
    # the derivative of shift at 0, which takes a function to its derivative
    derivative = lambda f: lambda x: push(lambda u: shift(u)(f)(x))  # noqa: E731
    twice = derivative(derivative(lambda x: x**3))
    assert_close(twice(np.asarray(2.0)), 12.0, "second derivative")


# ---------------------------------------------------------------- meeting the imperative face


def test_tensors_that_require_a_gradient_outside_and_inside(backend: str, place: Any) -> None:
    """The graph of a leaf goes on through a transform; a backward pass of a leaf of the function's own is inside."""
    for derivative, by_w, by_x in (
        (lambda w, x: agrad.grad(lambda x: agrad.sum(w * x**3))(x), 3 * X**2, 6 * X**2),
        (lambda w, x: agrad.jvp(lambda x: w * x**3, (x,), (agrad.ones_like(x),))[1], 3 * X**2, 6 * X**2),
        (lambda w, x: agrad.vjp(lambda x: w * x**3, x)[1](x)[0], 3 * X**3, 9 * X**3),
    ):
        w, x = (agrad.asarray(place(X), requires_grad=True) for _ in range(2))
        found = derivative(w, x)
        assert found.requires_grad
        agrad.sum(found).backward()
        assert_close(w.grad, by_w, "by w")
        assert_close(x.grad, by_x, "by x")

    def f(x: Any) -> Any:
        w = agrad.asarray(place(X), requires_grad=True)
        agrad.sum(w**2).backward()
        return agrad.sum(x * w.grad)

    assert_close(agrad.grad(f)(place(X)), 2 * X, "a backward pass inside")


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
    def ending(x: Any) -> Any:
        agrad.sin(x)
        raise KeyError("mine")

    calls = (agrad.grad, agrad.jacfwd, agrad.jacrev, agrad.jacobian, agrad.hessian, agrad.elementwise_grad, agrad.vmap)
    for attempt in (
        lambda: agrad.jvp(ending, (X,), (X,)),
        lambda: agrad.grad(lambda x: agrad.sum(agrad.grad(ending)(x)))(X),
        lambda: agrad.grad(lambda x: agrad.sum(agrad.checkpoint(ending)(x)))(X),
        *[lambda transform=transform: transform(ending)(X) for transform in calls],
    ):
        fails(KeyError, "mine", attempt)
    assert not agrad.sin(agrad.asarray(X)).requires_grad
    assert_close(agrad.grad(total)(X), 2 * X, "gradient")
    assert isinstance(agrad.sin(X), np.ndarray)


# ---------------------------------------------------------------- strict, and results of one element


def partial_loss(parameters: Any, x: Any) -> Any:
    return agrad.sum(parameters["w"] * x) + agrad.sum(agrad.stop_gradient(parameters["layers"][0]))


@pytest.mark.parametrize("transform", [agrad.grad, agrad.value_and_grad])
def test_strict_names_the_leaf(transform: Any, backend: str) -> None:
    parameters = {"w": agrad.asarray([1.0, 2.0]), "layers": [agrad.asarray([3.0])]}
    x = agrad.asarray([5.0, 6.0])
    unused = r"must depend on argument 0\['layers'\]\[0\] by"
    fails(NotDifferentiableError, unused, transform(partial_loss, strict=True), parameters, x)
    out = transform(partial_loss)(parameters, x)
    gradient = out[1] if isinstance(out, tuple) else out
    assert gradient["layers"][0].tolist() == [0.0]
    # all that is used
    assert agrad.grad(partial_loss, argnums=1, strict=True)(parameters, x).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("wrap", [agrad.jit, agrad.vmap, agrad.grad, lambda f: agrad.vmap(agrad.jit(f))])
def test_strict_inside_transforms(wrap: Any, backend: str) -> None:
    inner = agrad.grad(lambda x, y: agrad.sum(x * x) + agrad.floor(agrad.sum(y)), argnums=(0, 1), strict=True)
    x = agrad.asarray(1.5) if wrap is agrad.grad else agrad.asarray([1.5, 2.5])
    fails(NotDifferentiableError, "must depend on argument 1 by", lambda: wrap(lambda x: agrad.sum(inner(x, x)[0]))(x))
    used = agrad.grad(lambda x: agrad.sum(x * x), strict=True)
    assert agrad.all(wrap(lambda x: agrad.sum(used(x)))(x) >= 2.0)


def test_strict_of_a_constant_function() -> None:
    for f in (lambda x: 3.0, lambda x: agrad.asarray(2.0)):
        fails(NotDifferentiableError, "must depend on argument 0 by", agrad.grad(f, strict=True), np.asarray(1.0))
        assert float(agrad.grad(f)(np.asarray(1.0))) == 0.0
    # a derivative that happens to be 0 is a dependence
    assert float(agrad.grad(lambda x: 0.0 * x, strict=True)(np.asarray(1.0))) == 0.0


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_results_of_one_element(shape: tuple[int, ...], backend: str) -> None:
    def f(x: Any) -> Any:
        return agrad.reshape(agrad.sum(x**3), shape)

    x, slope = agrad.asarray([0.5, -1.0, 2.0]), np.asarray([0.75, 3.0, 12.0])
    value, g = agrad.value_and_grad(f)(x)
    assert value.shape == shape
    assert_close(g, slope, "gradient")
    assert_close(agrad.hessian(f)(x), np.reshape(np.diag([3.0, -6.0, 12.0]), (*shape, 3, 3)), "Hessian")
    assert_close(agrad.hvp(f, (x,), (x,))[0], 2 * slope, "product")
    assert_close(agrad.vmap(agrad.grad(f))(agrad.stack([x, x]))[1], slope, "gradient of a member")
