"""The notation: a user's own operations, the checks at import, what the tape keeps, and calls of forward mode."""

import inspect
import weakref
from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_all, check_faces
from leaves import leaf
from modes import check_same
from refusals import fails

import agrad
from agrad.engine.tape import SETTINGS
from agrad.errors import PrimitiveDefinitionError
from agrad.ops.shared import axes_of
from agrad.registry import KERNELS, PRIMITIVES, file_primitive, kernel, public


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


X = np.asarray([[0.5, -1.2, 0.8], [1.1, 0.3, -0.7]])

# ---------------------------------------------------------------- a user's own operations


def test_two_arguments_that_broadcast(place: Any) -> None:
    hypot = agrad.elementwise(
        "own_hypot",
        lambda g, y, x1: g * x1 / y,
        lambda g, y, x2: g * x2 / y,
        forward=lambda xp, x1, x2, /: xp.sqrt(x1 * x1 + x2 * x2),
    )
    check_all(hypot, [X, X[:, :1] + 2], rng())
    check_all(lambda x: hypot(x, 3.0), [X], rng())
    check_all(lambda x: hypot(3, x), [X], rng())
    check_faces(hypot, [place(X), place(X[:, :1] + 2)], rng())


def test_an_argument_without_a_derivative() -> None:
    turned = agrad.elementwise(
        "turned", lambda g: g, lambda g: g * 1j, forward=lambda xp, a, b, /: a + 1j * b, keeps_type=False
    )

    def real(a: Any, b: Any) -> Any:
        return agrad.sum(agrad.real(turned(a, b) * (1 + 2j)))

    ones = np.ones(2)
    for f in (agrad.grad(real, (0, 1)), agrad.jit(agrad.grad(real, (0, 1)))):
        for found, expected in zip(f(ones, ones), (1.0, -2.0), strict=True):
            np.testing.assert_array_equal(found, expected * ones, strict=True)
    mapped = agrad.vmap(agrad.grad(real, (0, 1)))(np.ones((3, 2)), np.ones((3, 2)))
    np.testing.assert_array_equal(mapped[1], np.full((3, 2), -2.0), strict=True)
    np.testing.assert_array_equal(agrad.grad(real)(ones, 2.0), ones, strict=True)
    scale = agrad.elementwise("scale", lambda g, x2: g * x2, None, forward=lambda xp, x1, x2, /: x1 * x2)
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    agrad.sum(scale(a, b)).backward()
    assert_close(a.grad, [3.0, 4.0], "gradient")
    assert b.grad is None


def test_settings_and_their_defaults(place: Any) -> None:
    seen = []

    @agrad.primitive(name="power_sum")
    def power_sum_p(xp: Any, x: Any, /, *, axis: Any, power: int = 2) -> Any:
        return xp.sum(x**power, axis=axis)

    @power_sum_p.vjp
    def power_sum_vjp(xp: Any, g: Any, x: Any, *, axis: Any, power: int) -> Any:
        kept = tuple(1 if i in axis else n for i, n in enumerate(x.shape))
        return power * xp.reshape(g, kept) * x ** (power - 1)

    @power_sum_p.jvp
    def power_sum_jvp(xp: Any, t: Any, x: Any, *, axis: Any, power: int) -> Any:
        return xp.sum(power * t * x ** (power - 1), axis=axis)

    def power_sum(x: Any, /, *, axis: Any = None, **settings: Any) -> Any:
        seen.append(axis)
        return power_sum_p(x, axis=axes_of(axis, x), **settings)

    for how in ({}, {"axis": -1}, {"axis": (0,), "power": 3}):
        check_all(lambda x, how=how: power_sum(x, **how), [X], rng())
        check_faces(lambda x, how=how: power_sum(x, **how), [place(X)], rng())
    assert {None, -1, (0,)} <= set(seen)
    assert power_sum(leaf(X), axis=-1).op.settings == {"axis": (1,), "power": 2}
    fails(TypeError, "strange", power_sum, X, strange=1)
    fails(TypeError, r"power_sum\(\) missing 1 required keyword-only argument: 'axis'", power_sum_p, X)
    for function in (power_sum, power_sum_p):
        fails(TypeError, r"power_sum\(\) missing .* 'x'", function)
        fails(TypeError, r"power_sum\(\) takes 1 positional argument but 2", function, X, 0)


def test_several_outputs(place: Any) -> None:
    @agrad.primitive(out=("s", "c"))
    def sincos(xp: Any, x: Any, /) -> Any:
        return xp.sin(x), xp.cos(x)

    asked = []

    @sincos.vjp
    def sincos_vjp(g_s: Any, g_c: Any, s: Any, c: Any) -> Any:
        asked.append((g_s is not None, g_c is not None))
        parts = [] if g_s is None else [g_s * c]
        parts += [] if g_c is None else [-g_c * s]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @sincos.jvp
    def sincos_jvp(t: Any, s: Any, c: Any) -> Any:
        return t * c, -t * s

    check_all(sincos, [X], rng())
    check_all(lambda x: sincos(x)[0], [X], rng())
    check_all(lambda x: sincos(x)[1], [X], rng())
    check_all(lambda x: sincos(x)[0] * sincos(x)[1], [X], rng())
    check_faces(sincos, [place(X)], rng())
    asked.clear()
    x = leaf(X)
    s, c = sincos(x)
    agrad.sum(s).backward(retain_graph=True)
    agrad.sum(c).backward(retain_graph=True)
    agrad.sum(s * c + s).backward()
    assert asked == [(True, False), (False, True), (True, True)]
    assert s.parents[0] is x


def test_an_output_without_a_tangent() -> None:
    """None stands for a zero tangent, of an output that does not change."""

    @agrad.primitive(out=("y", "count"))
    def counted(xp: Any, x: Any, /) -> Any:
        return 2 * x, xp.sum(xp.ones_like(x))

    counted.vjp(lambda xp, g_y, x_meta: xp.zeros(x_meta.shape) if g_y is None else 2 * g_y)
    counted.jvp(lambda t: (2 * t, None))
    check_all(counted, [X], rng())


def test_any_number_of_arrays(place: Any) -> None:
    @agrad.primitive(broadcasts=True)
    def product(xp: Any, first: Any, /, *rest: Any, scale: float = 1.0) -> Any:
        return first * scale * sum((r * r for r in rest), 1.0)

    @product.vjp("first")
    @product.jvp("first")
    def product_first(g: Any, rest: Any, *, scale: float) -> Any:
        return g * scale * sum((r * r for r in rest), 1.0)

    @product.vjp("rest")
    def product_rest(g: Any, first: Any, rest: Any, *, scale: float) -> Any:
        return [2 * scale * g * first * r for r in rest]

    @product.jvp("rest")
    def product_rest_jvp(t: Any, first: Any, rest: Any, *, scale: float) -> Any:
        parts = [2 * scale * one * first * r for one, r in zip(t, rest, strict=True) if one is not None]
        return sum(parts[1:], parts[0])

    row = X[:1] + 2
    for xs in ([X], [X, X + 1], [X, X + 1, X - 2]):
        check_all(lambda *at: product(*at, scale=0.5), xs, rng())
    check_all(lambda a, c: product(a, row, c), [X, X + 1], rng())
    check_faces(product, [place(X), place(X + 1), place(X - 2)], rng())


def test_a_joint_rule_shares_its_work(place: Any) -> None:
    runs = []

    @agrad.primitive
    def geometric(xp: Any, a: Any, b: Any, /) -> Any:
        return xp.sqrt(a * b)

    @geometric.vjp("a", "b")
    def geometric_vjp(g: Any, y: Any, a: Any, b: Any) -> Any:
        runs.append(1)
        half = g / (2 * y)
        return half * b, half * a

    geometric.jvp("a")(lambda t, y, b: t * b / (2 * y))
    geometric.jvp("b")(lambda t, y, a: t * a / (2 * y))
    a, b = np.abs(X) + 1, np.abs(X) + 2
    check_all(geometric, [a, b], rng())
    check_all(lambda v: geometric(v, b), [a], rng())
    check_all(lambda v: geometric(a, v), [b], rng())
    check_faces(geometric, [place(a), place(b)], rng())
    runs.clear()
    agrad.sum(geometric(leaf(a), leaf(b))).backward()
    assert len(runs) == 1


def test_the_function_of_an_operation() -> None:
    @agrad.primitive(linear="x")
    def scaled(xp: Any, x: Any, /, *, factor: float) -> Any:
        """Scaled by a number."""
        return x * factor

    assert scaled.__doc__ == "Scaled by a number."
    assert scaled.__name__ == scaled.primitive.name == "scaled"
    assert scaled.__module__ == __name__
    assert str(inspect.signature(scaled)) == "(x, /, *, factor)"
    assert scaled.bind is scaled
    assert agrad.elementwise("softplus", None, doc="log(1 + exp(x)).").__doc__.startswith("log(1 + exp(x)).")


def test_functions_are_published_once() -> None:
    def sum(x: Any) -> Any:
        return x

    for publish, function, name in ((public, sum, "sum"), (public("linalg"), agrad.linalg.inv, "inv")):
        fails(PrimitiveDefinitionError, f"functions must be different, got {name} twice", publish, function)
    exp = agrad.elementwise("exp", None).primitive
    fails(PrimitiveDefinitionError, "names of primitives must be different, got exp twice", file_primitive, exp)


def test_two_operations_of_one_name() -> None:
    def make(factor: float) -> Any:
        @agrad.primitive(linear="x")
        def same(xp: Any, x: Any, /) -> Any:
            return factor * x

        same.vjp(lambda g: factor * g)
        return same

    two, three = make(2.0), make(3.0)
    x = leaf([1.0])
    agrad.sum(two(x) + three(x)).backward()
    assert_close(x.grad, [5.0], "gradient")
    assert "same" not in PRIMITIVES


def test_a_rule_filed_after_the_first_call_is_used() -> None:
    @agrad.primitive(linear="x")
    def late(xp: Any, x: Any, /) -> Any:
        return 2 * x

    late(X)
    for rule, slope in ((lambda g: 2 * g, 2.0), (lambda g: 5 * g, 5.0)):
        late.vjp(rule)
        assert_close(agrad.grad(lambda x: agrad.sum(late(x)))(X), np.full(X.shape, slope), "gradient")


def test_a_primitive_with_the_name_of_another_one_is_computed_as_written() -> None:
    """Kernels and compiled steps, which are found by names, are those of agrad's own operation."""

    @agrad.primitive(batch="leading")
    def relu(xp: Any, x: Any, /) -> Any:
        return xp.where(x > 0, x, 0.5 * x)

    @agrad.primitive
    def mean(xp: Any, x: Any, /, *, axis: Any, keepdims: bool) -> Any:
        return xp.sum(x, axis=axis, keepdims=keepdims)

    def f(x: Any) -> Any:
        return relu(x * 2.0), mean(x, axis=(0,), keepdims=False)

    x = np.asarray([-1.0, 2.0])
    for found in (f(x), agrad.jit(f)(x)):
        assert found[0].tolist() == [-1.0, 4.0] and float(found[1]) == 1.0
    assert relu.primitive.identifier == "relu"


# ---------------------------------------------------------------- the checks at import


def define(function: Any, **how: Any) -> None:
    agrad.primitive(**how)(function)


def squares() -> Any:
    @agrad.primitive(constant="b")
    def squares(xp: Any, a: Any, b: Any, /, *, axis: int = 0) -> Any:
        return a * a

    return squares


BAD = {
    r"signature \(xp, arrays, /, \*, options\), .* first, got \(x, /\)": lambda: define(lambda x, /: x),
    r"first, got \(xp, x\)": lambda: define(lambda xp, x: x),
    r"at least one array": lambda: define(lambda xp, /: 1),
    r"before the slash .* or after a star .* got 'scale'": lambda: define(lambda xp, x, /, scale: x),
    r"got 'options'": lambda: define(lambda xp, x, /, **options: x),
    r"linear and constant must be among x, got 'y'": lambda: define(lambda xp, x, /: x, linear="y", name="odd"),
    r"among x, got 'axis'": lambda: define(lambda xp, x, /, *, axis: x, constant=("axis",)),
    r"overwrites requires an option 'donate'": lambda: define(lambda xp, x, y, /: x, overwrites="y", name="odd"),
    r"n: overwrites must be .* got 'z'": lambda: define(lambda xp, x, /, *, donate: x, overwrites=("x", "z"), name="n"),
    r"among a, a_meta, b, b_meta, .*, the options axis, got 'z'": lambda: squares().vjp(lambda g, z: g),
    r"vjp of squares: .* got 't'": lambda: squares().vjp(lambda t, a: t),
    r"vjp of squares: .* got 'axis'": lambda: squares().vjp(lambda g, axis: g),
    r"vjp of squares: .* got 'axes'": lambda: squares().vjp(lambda g, *, axes: g),
    r"jvp of squares: .* got 'g_y'": lambda: squares().jvp(lambda g_y: g_y),
    r"vjp of squares: arguments must be among a, b, got 'c'": lambda: squares().vjp("c")(lambda g: g),
    r"squares: 'b' must not have a vjp": lambda: squares().vjp("b")(lambda g: g),
    r"among xp, x, value .*columns": lambda: agrad.primitive(lambda xp, x, /, *, rows=1: x).write_back(
        lambda x, value, columns: x
    ),
    "one array": lambda: agrad.primitive(lambda xp, x1, x2, /: x1).write_back(lambda value: value),
    "only output": lambda: define(lambda xp, x, /: (x, x), out=("first", "*rest")),
    "fixed number of arguments": lambda: define(lambda xp, /, *arrays: arrays, out="*parts"),
    "got 'parts'": lambda: agrad.primitive(lambda xp, x, /: (x, x), out="*parts").vjp(lambda g_parts, parts: parts[0]),
    "combine must be an operation with a neutral number": lambda: define(
        lambda xp, x, /, *, axis, keepdims: x, kind="reduction", combine=agrad.subtract
    ),
    r"batch must be one of 'leading', .* got 'sideways'": lambda: define(lambda xp, x, /: x, batch="sideways"),
    r"the batch of squares: parameters must be among .*batch_size.*, got 'y'": lambda: squares().batch(lambda a, y: a),
    "'batch_size'": lambda: agrad.primitive(lambda xp, batch_size, /: batch_size).batch(lambda batch_size: batch_size),
    "core_axes must be an integer or one for each array": lambda: define(
        lambda xp, x, /: x, batch="leading", core_axes=(1, 2)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_a_definition_that_breaks_the_notation(message: str) -> None:
    fails(PrimitiveDefinitionError, message, BAD[message])


def test_kernels_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in list(KERNELS):
        monkeypatch.setitem(KERNELS, key, KERNELS[key])  # what is filed here goes away with the test
    wrong = r"part must be 'forward', .*, got 'backward'"
    fails(PrimitiveDefinitionError, wrong, lambda: kernel("numpy", "mine", "backward")(lambda x: x))

    @agrad.primitive
    def mine(xp: Any, x: Any, /) -> Any:
        return x * x

    monkeypatch.setitem(KERNELS, ("numpy", "mine", "forward"), None)
    del KERNELS["numpy", "mine", "forward"]
    kernel("numpy", "mine", "forward")(lambda z: z)
    fails(PrimitiveDefinitionError, "registered once", lambda: kernel("numpy", "mine", "forward")(lambda x: x))
    fails(PrimitiveDefinitionError, "kernel of mine on numpy: .* must be among x, got 'z'", mine, np.ones(2))


# ---------------------------------------------------------------- what the tape keeps

M = np.asarray([[2.0, 0.5], [0.3, 3.0]])
KEPT: dict[str, tuple[Any, set[str]]] = {
    "exp keeps its output": (lambda x, w: agrad.exp(x), {"y"}),
    "log keeps its argument": (lambda x, w: agrad.log(x), {"x"}),
    "relu keeps its output": (lambda x, w: agrad.relu(x), {"y"}),
    "sigmoid keeps its output": (lambda x, w: agrad.sigmoid(x), {"y"}),
    "negative keeps nothing": (lambda x, w: -x, set()),
    "add keeps nothing": (lambda x, w: x + w, set()),
    "add of a number keeps the number": (lambda x, w: x + 1.0, {"x2"}),
    "multiply keeps both": (lambda x, w: x * w, {"x1", "x2"}),
    "multiply by a constant keeps it": (lambda x, w: x * w.detach(), {"x2"}),
    "multiply of a constant keeps it": (lambda x, w: w.raw * x, {"x1"}),
    "divide keeps output and divisor": (lambda x, w: x / w, {"y", "x2"}),
    "divide by a constant keeps it": (lambda x, w: x / w.detach(), {"x2"}),
    "matmul keeps both": (lambda x, w: x @ w, {"x1", "x2"}),
    "matmul with a constant left keeps it": (lambda x, w: w.detach() @ x, {"x1"}),
    "matmul with a constant right keeps it": (lambda x, w: x @ w.detach(), {"x2"}),
    "linear with all": (lambda x, w: agrad.linear(x, w, w[0]), {"x", "weight"}),
    "linear of a constant keeps no weight": (lambda x, w: agrad.linear(w.raw, x, x[0]), {"x"}),
    "solve keeps matrix and output": (lambda x, w: agrad.linalg.solve(x, w), {"x1", "y"}),
    "cholesky keeps its output": (lambda x, w: agrad.linalg.cholesky(x @ x.mT), {"y", "upper"}),
    "sum keeps a shape": (lambda x, w: agrad.sum(x, axis=0), {"x_meta", "axis", "keepdims"}),
    "max keeps both": (lambda x, w: agrad.max(x), {"x", "y", "axis", "keepdims"}),
    "reshape keeps a shape": (lambda x, w: agrad.reshape(x, (-1,)), {"x_meta", "shape"}),
    "permute_dims keeps the order": (lambda x, w: x.T, {"axes"}),
    "slicing keeps a shape": (lambda x, w: x[0], {"x_meta", "index"}),
    "concat keeps shapes": (lambda x, w: agrad.concat([x, w]), {"arrays_0_meta", "arrays_1_meta", "axis"}),
    "where keeps the condition": (lambda x, w: agrad.where(w > 1, x, w), {"condition"}),
    "softmax keeps its output": (lambda x, w: agrad.softmax(x), {"y", "axis"}),
    "broadcast_to keeps a shape": (lambda x, w: agrad.broadcast_to(x, (3, 2, 2)), {"x_meta", "shape"}),
}


@pytest.mark.parametrize("label", KEPT)
def test_the_tape_keeps_what_rules_name(label: str) -> None:
    """Exactly that, and shapes of arguments to which cotangents may be fitted. What is not named is freed."""
    function, expected = KEPT[label]
    y = function(leaf(M), leaf(M + 1))
    names = y.node.plan.names
    assert len(names) == len(y.node.saved)
    kept = {*names, *(y.node.saved[-1] if names[-1:] == (SETTINGS,) else ())} - {SETTINGS}
    assert {name for name in kept if not name.endswith("_meta")} == {n for n in expected if not n.endswith("_meta")}
    assert {name for name in expected if name.endswith("_meta")} <= kept
    assert not any(isinstance(value, agrad.Tensor) for value in y.node.saved)


def test_memory_of_intermediate_arrays() -> None:
    for function, lives in ((agrad.exp, False), (agrad.log, True)):
        inner = leaf(M) + 1.0
        watched = weakref.ref(inner.raw)
        y = function(inner)
        del inner
        assert (watched() is not None) == lives
        agrad.sum(y).backward()
        assert watched() is None


# ---------------------------------------------------------------- forward mode


@pytest.fixture
def calls() -> Any:
    """A function of two arguments, linear in both at once, and what it was called with."""
    seen: list[tuple[Any, ...]] = []

    @agrad.primitive(broadcasts=True, jointly=True, batch="leading")
    def lean(xp: Any, x1: Any, x2: Any, /, *, scale: float) -> Any:
        seen.append((np.asarray(x1).copy(), np.asarray(x2).copy()))
        return x1 - scale * x2

    @lean.vjp("x1")
    @lean.jvp("x1")
    def lean_first(g: Any) -> Any:
        return g

    @lean.vjp("x2")
    @lean.jvp("x2")
    def lean_second(g: Any, *, scale: float) -> Any:
        return -scale * g

    return lean, seen


def test_tangents_of_all_arguments_are_one_call(calls: Any) -> None:
    lean, seen = calls
    x, y, s, t = (np.asarray(v) for v in ([1.0, 2.0], [[3.0], [4.0]], [5.0, 6.0], [[7.0], [8.0]]))
    value, slope = agrad.jvp(lambda x, y: lean(x, y, scale=3.0), (x, y), (s, t))
    np.testing.assert_array_equal(value, x - 3 * y)
    np.testing.assert_array_equal(slope, s - 3 * t)
    assert len(seen) == 2  # the value and its tangent
    np.testing.assert_array_equal(seen[1][0], s)
    np.testing.assert_array_equal(seen[1][1], t)


def test_the_tangent_of_one_argument_takes_its_rule(calls: Any) -> None:
    lean, seen = calls
    x, t = np.asarray([1.0, 2.0]), np.asarray([5.0, 6.0])
    for f, expected in ((lambda v: lean(x, v, scale=3.0), -3 * t), (lambda v: lean(v, 1.0, scale=3.0), t)):
        seen.clear()
        np.testing.assert_array_equal(agrad.jvp(f, (x,), (t,))[1], expected)
        assert len(seen) == 1


def test_it_holds_in_every_mode(calls: Any) -> None:
    lean, _ = calls
    xs = np.asarray([1.0, 2.0, 0.5]), np.asarray([0.3, -1.0, 2.0])
    check_same(lambda x, y: lean(x**2, y**3, scale=2.0), lambda x, y: x**2 - 2.0 * y**3, xs)


def test_a_square_is_differentiated_without_a_first_power() -> None:
    x = np.asarray([1.5, -2.0, 0.0])
    with agrad.profile() as found:
        hessian = agrad.hessian(lambda x: agrad.sum(x**2))(x)
    np.testing.assert_array_equal(hessian, 2 * np.eye(3))
    assert sum(line.calls for line in found.rows() if (line.operation, line.direction) == ("pow", "forward")) == 1
