"""What a jitted function reads besides its arguments, changed between calls, and written inside; recorded Tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from captures import CASES, Layer, Plain, X, close
from checker import host
from refusals import fails

import agrad
from agrad import nn
from agrad.errors import ConfigurationError, NotDifferentiableError, TracedValueError


@pytest.mark.parametrize("name", CASES)
def test_what_changes_between_calls_is_seen(name: str) -> None:
    read, change, _ = CASES[name]()
    jitted = agrad.jit(read)
    first = read(X)
    for _ in range(3):
        close(jitted(X), first)
    assert jitted.cache_info().misses == 1
    change()
    second = read(X)
    assert not np.array_equal(agrad.asarray(first).numpy(), agrad.asarray(second).numpy())
    for _ in range(2):
        close(jitted(X), second)
    assert jitted.cache_info().misses == 2


@pytest.mark.parametrize("name", [name for name, make in CASES.items() if make().write is not None])
def test_what_is_written_inside_is_an_error(name: str) -> None:
    write = CASES[name]().write
    assert write is not None
    fails(TracedValueError, "while it was traced", lambda: agrad.jit(lambda x: (write(x), x)[1])(X))


def test_a_log_that_no_code_names_costs_nothing() -> None:
    """A Module's list of losses is no state of the function, however long it grows."""
    layer = Layer()
    jitted = agrad.jit(layer)
    for _ in range(3):
        close(jitted(X), X * 4)
        layer.losses += [0.5] * 1000
    assert jitted.cache_info().misses == 1


def test_equal_values_are_the_same_program() -> None:
    cfg = {"lr": 2.5, "shape": (3, 4), "name": "a" * 40, "nan": float("nan")}
    jitted = agrad.jit(lambda x: x * cfg["lr"])
    for _ in range(3):
        close(jitted(X), X * 2.5)
        cfg = {"lr": 5.0 / 2, "shape": (3, 2 * 2), "name": "".join(["a"] * 40), "nan": float("nan")} | {}
    assert jitted.cache_info().misses == 3  # another dict each time
    for _ in range(3):
        cfg.update(lr=10.0 / 4, shape=(3, 2 + 2), name="a" * len(cfg["name"]), nan=float("nan"))  # type: ignore[arg-type]
        close(jitted(X), X * 2.5)
    assert jitted.cache_info().misses == 4


# ------------------------------------------------------------------ the limit

LIMITED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str]] = {
    "list": (lambda: {"layers": [1.0] * 1001}, lambda c: c["layers"][3], r"cfg\['layers'\]"),
    "dict": (lambda: {str(i): i for i in range(2000)}, lambda c: c["3"], "reaches cfg,"),
    "nested": (lambda: [{"a": [i, i]} for i in range(600)], lambda c: c[3]["a"][0], r"cfg\[\d+\]"),
    "objects": (lambda: [Plain() for _ in range(1100)], lambda c: c[3].rate, r"cfg\[\d+\]"),
    "arrays": (lambda: [np.ones(2) for _ in range(1100)], lambda c: c[3][0], r"cfg\[\d+\]"),
}


@pytest.mark.parametrize("name", LIMITED)
def test_more_than_can_be_compared_is_refused(name: str) -> None:
    make, read, named = LIMITED[name]
    cfg = make()
    message = rf"jit\(<lambda>\) .*{named}.* more than 1,000 .*pass it as an argument"
    fails(ConfigurationError, message, agrad.jit(lambda x: x * read(cfg)), X)


def test_tuples_and_layers_are_not_counted() -> None:
    numbers = tuple(range(5000))
    layers = [nn.ReLU() for _ in range(1500)]
    tensors = {str(i): agrad.asarray(float(i)) for i in range(1200)}
    jitted = agrad.jit(lambda x: layers[3](x) * numbers[4000] * tensors["3"])
    close(jitted(X), X * 12000.0)
    with agrad.no_grad():
        tensors["3"][...] = 5.0
    close(jitted(X), X * 20000.0)


def test_a_static_argument_is_looked_at() -> None:
    settings = Plain()
    f = agrad.jit(lambda x, settings: x * settings.rate, static_argnums=1)
    close(f(X, settings), X * 2.0)
    settings.rate = 5.0
    close(f(X, settings), X * 5.0)


# ------------------------------------------------------------------ arrays

ARRAYS: dict[str, tuple[Callable[[int], Any], Callable[[Any, Any], Any]]] = {
    "itself": (np.ones, lambda c, x: x * c[:3]),
    "of several values": (lambda n: np.arange(1.0, n + 1), lambda c, x: x * c[:3]),
    "zeros": (np.zeros, lambda c, x: x + c[:3]),
    "in another operation": (np.ones, lambda c, x: x * agrad.sin(c)[:3]),
    "its sum": (np.ones, lambda c, x: x * agrad.sum(c)),
    "as a tensor": (np.ones, lambda c, x: agrad.asarray(x) * agrad.sum(agrad.asarray(c)[:3])),
    "differentiated": (np.ones, lambda c, x: x * agrad.grad(lambda y: agrad.sum(y**3))(c)[:3]),
}


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_captured(name: str, size: int, backend: str, place: Any) -> None:
    """It is read at each call, or guarded: also one that is filled with one value, and of which constants are made."""
    if backend == "jax":
        pytest.skip("arrays that nothing can write into")
    make, use = ARRAYS[name]
    captured, x = place(make(size)), place(X)
    cfg = {"a": [captured]}
    jitted = agrad.jit(lambda x: use(captured, x) + use(cfg["a"][0], x))
    for value in (2.0, 3.0, 3.0):
        for _ in range(2):
            close(jitted(x), 2 * agrad.asarray(use(captured, x)))
        captured[0] = value
    close(jitted(x), 2 * agrad.asarray(use(captured, x)))
    # what tells of a write may be its bytes, or a number that counts writes
    read = size == 5000 or backend == "cupy"
    assert jitted.cache_info().misses == (4 if backend in ("torch", "dask") else 1 if read else 3)


@pytest.mark.parametrize("size", [3, 5000])
def test_a_write_to_a_captured_array(size: int, backend: str, place: Any) -> None:
    if backend in ("jax", "cupy"):
        pytest.skip("arrays that nothing can write into, or whose content is not looked at")
    captured = place(np.ones(size))

    def f(x: Any) -> Any:
        captured[0] = 2.0
        return x

    fails(TracedValueError, "changed captured while it was traced", lambda: agrad.jit(f)(place(X)))


def test_a_derivative_reads_captured_arrays_anew() -> None:
    scale = np.ones(5000)
    w = agrad.asarray(np.ones(5000), requires_grad=True)
    forward = agrad.jit(lambda: agrad.sum(w * w * scale))
    for value in (1.0, 3.0):
        scale[...] = value
        w.grad = None
        forward().backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.full(5000, 2 * value))
    assert forward.cache_info().misses == 1


def test_an_operation_made_of_another_computes_with_a_captured_array(place: Any) -> None:
    @agrad.primitive(linear="x", batch="leading")
    def halved_twice(xp: Any, x: Any, /) -> Any:
        return xp.negative(agrad.divide.bind(x, 4.0))

    held = place(np.arange(5000.0))  # large enough to be read at each call
    fast = agrad.jit(lambda y: y + halved_twice(held))
    for k in range(3):
        np.testing.assert_array_equal(host(fast(place(np.full(5000, float(k))))), k - np.arange(5000.0) / 4)


# ------------------------------------------------------------------ recorded Tensors

VALUES = [0.75, -1.25]

Program = Callable[[Any, Any], Any]
"""A function of ``agrad.jit``, or of the identity in its place, and of a recorded Tensor of two elements."""


def unseen(function: Callable[[Any, Any, Any], Any]) -> Program:
    """Return the program of a function of a Tensor and an iterator of another one, which no search looks into."""
    return lambda jit, t: function(jit, t, iter([t * t] * 9))


def caught(jit: Any, t: Any, values: Any) -> Any:
    def f(u: Any) -> Any:
        try:
            return u * next(values)
        except Exception:
            return u

    return jit(f)(t)


def captured(function: Callable[[Any, Any], Any]) -> Program:
    """Return the program of a function of an argument and a captured Tensor."""

    def program(jit: Any, t: Any) -> Any:
        c = t * t
        return jit(lambda u: function(u, c))(t)

    return program


PROGRAMS: dict[str, Program] = {
    "returned as it is": lambda jit, t: (lambda c: jit(lambda u: c)(t) * c)(t * t),
    "mapped inside": captured(lambda u, c: agrad.vmap(lambda a, b: a * b * b)(u, c)),
    "a gradient inside": captured(lambda u, c: agrad.grad(lambda v: agrad.sum(v**3 * c))(u)),
    "constants alone beside it": lambda jit, t: (lambda c: jit(lambda u: u * c**3)(agrad.ones(2)))(t * 1.0),
    "a gradient at it": captured(lambda u, c: agrad.grad(lambda v: agrad.sum(v**3 * u))(c)),
    "a container, and a view": lambda jit, t: (lambda held: jit(lambda u: u * held["all"][0] * held["all"][1])(t))(
        {"all": [t * t, t[:1]]}
    ),
    "the carry of a while_loop": lambda jit, t: agrad.while_loop(
        lambda h: agrad.all(agrad.abs(h) < 1.5), lambda h: jit(lambda v: v * h + h)(h), t * 1.0
    ),
    "not found by the search": unseen(lambda jit, t, values: jit(lambda u: u * next(values))(t)),
    "not found, in a Tensor of a transform": unseen(
        lambda jit, t, values: jit(lambda: agrad.grad(lambda v: agrad.sum(v**3))(next(values)))()
    ),
    "met where errors are caught": unseen(caught),
}
"""Others are among the random programs: products, results, arguments, and carries that jitted functions capture."""


def by_backward(f: Any, values: Any, order: int) -> list[Any]:
    t = agrad.asarray(values, requires_grad=True)
    out, found = f(t), []
    for _ in range(order):
        t.grad = None
        agrad.sum(out).backward(create_graph=True)
        out = t.grad
        found.append(out.detach())
    return found


def by_grad(f: Any, values: Any, order: int) -> list[Any]:
    found, x = [], agrad.asarray(values)
    for _ in range(order):
        f = agrad.grad(lambda t, f=f: agrad.sum(f(t)))
        found.append(f(x))
    return found


def mixed(f: Any, values: Any, order: int) -> list[Any]:
    """The tape's Tensor inside of a transform, forward over reverse, and reverse over a map."""
    t, x = agrad.asarray(values, requires_grad=True), agrad.asarray(values)
    slope = agrad.grad(lambda t: agrad.sum(f(t)))
    found = [agrad.jvp(slope, (x,), (x,))[1], agrad.vmap(slope)(agrad.stack([x, 2 * x]))]
    agrad.sum(agrad.grad(lambda u: agrad.sum(f(u * t)))(x)).backward()
    return [*found, t.grad, agrad.jit(slope)(x)]


@pytest.mark.parametrize("way", [by_backward, by_grad, mixed])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_without_jit(name: str, way: Any) -> None:
    f = PROGRAMS[name]
    if way is mixed and name == "the carry of a while_loop":
        way = by_grad  # the numbers of the steps of the members differ
    expected = way(lambda t: f(lambda g: g, t), VALUES, 3)
    for got, right in zip(way(lambda t: f(agrad.jit, t), VALUES, 3), expected, strict=True):
        close(got, right)


def test_writes() -> None:
    """Outside they change what the next call reads; inside they are refused, as is a gradient that would end there."""
    t = agrad.asarray(VALUES, requires_grad=True)
    c = t * 1.0
    jitted = agrad.jit(lambda u: u * c)
    for expected in (VALUES, [7.0, VALUES[1]]):
        close(jitted(agrad.ones(2)).detach(), expected)
        c[0] = 7.0
    agrad.sum(jitted(agrad.ones(2))).backward()
    close(t.grad, [0.0, 1.0])
    assert jitted.cache_info().misses == 1

    def write(u: Any) -> Any:
        c[0] = u
        return c * 2

    refusal = "writes into an argument or a captured Tensor"
    fails(TracedValueError, refusal, agrad.jit(write), agrad.asarray(1.0))
    with agrad.no_grad():
        fails(TracedValueError, refusal, agrad.jit(write), agrad.asarray(1.0))
    ending = agrad.jit(lambda u: agrad.sum(u * c).backward())
    fails(NotDifferentiableError, "reached c, a Tensor that other operations created", ending, agrad.ones(2))
    close(c.detach(), [7.0, VALUES[1]])


def test_a_view_from_outside_keeps_its_values() -> None:
    """A jitted write to its base replaces the base's array, at the first call as at the others."""
    t = agrad.asarray(VALUES, requires_grad=True)
    views = [t[:1], t.detach()[1:]]

    @agrad.jit
    def step(u: Any) -> Any:
        with agrad.no_grad():
            t[0] = u
        return t * 2

    for value in (3.0, 4.0):
        step(agrad.asarray(value))
        close(t.detach(), [value, VALUES[1]])
        close(views[0].detach() + 0, VALUES[:1])
        close(views[1] + 0, VALUES[1:])
