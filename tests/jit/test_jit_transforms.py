"""``agrad.jit`` with the transforms and random draws, and its face: signatures, reports, errors; ``eval_shape``."""

from typing import Any

import numpy as np
import pytest
from jit_help import descent
from refusals import fails, refuses

import agrad
from agrad import ShapeDtype
from agrad.errors import ConfigurationError, DtypeError, OperandError, ShapeError, TracedValueError

X = np.random.default_rng(0).standard_normal((5, 3))
W = np.ones(3)


def steered(x: Any) -> Any:
    return x if agrad.sum(x) < 10 else 2 * x


def flat(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, tuple) else [tree]


def test_derivatives_by_a_python_number() -> None:
    """It is an argument of the program like any other; where nothing is mapped one trace serves all its values."""
    made = {
        "grad": agrad.grad(lambda a, b: a**3 * b),
        "by the second": agrad.grad(lambda a, b: a**3 * b**2, argnums=1),
        "value_and_grad": agrad.value_and_grad(lambda a, b: a**3 * b, argnums=(0, 1)),
        "jacobian": agrad.jacobian(lambda a, b: agrad.asarray(W) * a * b),
        "jacfwd": agrad.jacfwd(lambda a, b: agrad.asarray(W) * a**2 * b),
        "hessian": agrad.hessian(lambda a, b: a**3 * b),
        "in a container": lambda a, b: agrad.grad(lambda p: p["a"] ** 3 * b)({"a": a})["a"],
        "jvp": lambda a, b: agrad.jvp(lambda a: a**3 * b, (a,), (b,)),
        "vjp": lambda a, b: agrad.vjp(lambda a: a**3 * b, a)[1](np.asarray(1.0)),
        "hvp": lambda a, b: agrad.hvp(lambda a: a**3 * b, (a,), (1.0,)),
        "vmap": lambda a, b: agrad.vmap(lambda w: (w * b, a))(W),
    }
    for name, f in made.items():
        program = agrad.jit(f)
        for a, b in ((2.0, 1.0), (3.0, 0.5)):
            for got, right in zip(flat(program(a, b)), flat(f(a, b)), strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-12, err_msg=name)
        if name in ("grad", "by the second", "value_and_grad", "in a container", "jvp"):
            assert program.cache_info().misses == 1, name
    fails(DtypeError, r"Write 2\.0", lambda: agrad.jit(agrad.grad(lambda a: a * 3.0))(2))


def test_signatures_and_the_cache() -> None:
    g = agrad.jit(lambda x: x * 2, cache_size=2)
    g(X)
    g(X.astype(np.float32))
    g(X)
    assert g.cache_info() == (1, 2, 2, 2)
    assert type(g(agrad.asarray(X))) is agrad.Tensor
    assert g.cache_info() == (1, 3, 2, 2)
    g(X)
    assert g.cache_info().hits == 2  # float32 was the oldest
    g.cache_clear()
    assert g.cache_info() == (0, 0, 2, 0)
    g(X)
    assert g.cache_info() == (0, 1, 2, 1)


def test_static_arguments() -> None:
    def g(x: Any, n: Any, mode: str = "up") -> Any:
        for _ in range(int(n)):
            x = x * 2 if mode == "up" else x / 2
        return x

    by_number = agrad.jit(g, static_argnums=1, static_argnames="mode")
    for call in ((X, 2.0), (X, 2.0, "down"), (X, 3.0)):
        np.testing.assert_array_equal(by_number(*call), g(*call))
    np.testing.assert_array_equal(by_number(X, n=2.0, mode="down"), g(X, 2.0, "down"))
    assert by_number.cache_info().misses == 4
    equal = agrad.jit(lambda x, n: x * n if not isinstance(n, tuple) else x * n[0], static_argnums=1)
    ints = np.arange(3)
    for n in (1, 1.0, True, (1,), (1.0,), 0.0, -0.0):
        np.testing.assert_array_equal(1 / (1 + equal(ints, n)), 1 / (1 + ints * (n[0] if isinstance(n, tuple) else n)))
        assert equal(ints, n).dtype == (ints * (n[0] if isinstance(n, tuple) else n)).dtype
    assert np.signbit(equal(ints, -0.0)).all() and not np.signbit(equal(ints, 0.0)).any()


def test_no_grad_inside() -> None:
    w = agrad.asarray(W, requires_grad=True)
    recorded, silent = agrad.jit(lambda x: [w * x, agrad.no_grad()(lambda: w * x)()])(X)
    assert recorded.requires_grad and not silent.requires_grad


def test_the_report_of_a_program() -> None:
    g = agrad.jit(agrad.grad(lambda x: agrad.sum(agrad.sin(x) * agrad.sin(x))))
    text = str(g.lower(X))
    for part in ("# traced", "# common subexpressions", "sin(a0)", "float64[5,3]", "# code", "def program"):
        assert part in text
    assert g.cache_info().misses == 1


def test_warnings_of_numpy_follow_the_caller() -> None:
    x = np.zeros(100_000)
    g = agrad.jit(lambda x: agrad.log(x) * 2 + 1)
    with np.errstate(all="ignore"):
        assert np.isneginf(g(x)).all()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=r"divide by zero .* log"):
        g(x)


test_errors_name_the_thing = refuses(
    [
        (OperandError, "jit: function must be a function", lambda: agrad.jit(3)),
        (ConfigurationError, "static_argnums", lambda: agrad.jit(lambda x: x, static_argnums=1)),
        (ConfigurationError, "static_argnames", lambda: agrad.jit(lambda x: x, static_argnames="y")),
        (ConfigurationError, "cache_size", lambda: agrad.jit(lambda x: x, cache_size=0)),
        (OperandError, "set...cannot be hashed", lambda: agrad.jit(lambda x: x)({1, 2})),
        (ShapeError, "broadcast", lambda: agrad.jit(lambda x: x + agrad.asarray(np.ones(4)))(X)),
        (
            ConfigurationError,
            "compiler must be one of auto, jax, or None, got 'xla'",
            lambda: agrad.jit(abs, compiler="xla"),
        ),
        (TracedValueError, "agrad.while_loop instead of while", lambda: agrad.jit(steered)(X)),
        (TracedValueError, "loop with agrad.while_loop", lambda: agrad.vmap(steered)(X)),
    ]
)


def test_an_error_in_a_replay_says_where() -> None:
    labels = np.asarray([0, 1, 2, 0, 1])
    g = agrad.jit(lambda x, y: agrad.cross_entropy(x, y))
    g(X, labels)
    with pytest.raises(agrad.errors.IndexRangeError, match="got 7") as caught:
        g(X, labels + 7)
    assert any("agrad.jit" in note for note in caught.value.__notes__)


def test_a_decorator_with_options() -> None:
    @agrad.jit(cache_size=3)
    def g(x: Any) -> Any:
        "Twice."
        return x * 2

    assert g.__doc__ == "Twice." and g.__name__ == "g" and g.cache_info().maxsize == 3
    assert repr(g) == "<jit g>"


def test_a_write_into_an_argument_that_is_no_leaf_is_refused() -> None:
    def multiplied(y: Any) -> Any:
        y *= 3
        return agrad.sum(y)

    def written(y: Any) -> Any:
        y[0][1] = 5.0
        return agrad.sum(y)

    x = agrad.asarray(X, requires_grad=True)
    for f in (multiplied, written):
        y = x * 2
        fails(TracedValueError, r"writes into an argument.* must be a leaf", agrad.jit(f), y)
        with agrad.no_grad():
            fails(TracedValueError, "which must be a leaf", agrad.jit(f), y)
        np.testing.assert_array_equal(y.detach().numpy(), 2 * X)
        inside = agrad.grad(lambda x, f=f: agrad.jit(f)(x * 1.0))
        fails(TracedValueError, r"writes into an argument.* must be a leaf", inside, X)
        fails(agrad.errors.LeafMutationError, "a leaf that requires a gradient", agrad.jit(f), x)


def test_a_write_into_a_raw_argument_is_refused() -> None:
    def g(x: Any) -> Any:
        x[0] = 5.0
        return x * 2

    fails(TracedValueError, "writes into an argument", lambda: agrad.jit(g)(X))
    t = agrad.asarray(X.copy())
    for _ in range(2):
        t[0] = 1.0
        np.testing.assert_array_equal(agrad.jit(g)(t)[0].numpy(), [10.0] * 3)
        np.testing.assert_array_equal(t[0].numpy(), [5.0] * 3)


def test_a_transform_inside_no_grad() -> None:
    """``no_grad`` silences what was opened outside of it, and not the transform opened inside."""
    f = agrad.jit(lambda x: agrad.sum(agrad.exp(x) * x))
    expected = agrad.grad(f)(X)
    with agrad.no_grad():
        for _ in range(2):
            np.testing.assert_allclose(agrad.grad(f)(X), expected)
            np.testing.assert_allclose(agrad.jvp(f, (X,), (X,))[1], np.sum(expected * X))
        leaf = agrad.asarray(X, requires_grad=True)
        assert not f(leaf).requires_grad


def test_operations_that_are_looked_at_are_not_replayed() -> None:
    f = agrad.jit(lambda x: agrad.sum(agrad.log(x)))
    x = np.ones(3)
    f(x)
    with agrad.profile() as p:
        f(x)
    assert {row.operation for row in p.rows()} == {"log", "sum"}
    with agrad.detect_anomaly(), np.errstate(all="ignore"):
        fails(agrad.errors.AnomalyError, "log returned", f, np.zeros(3))
    assert [row.op for row in agrad.graph(f)(x).rows] == [None, "log", "sum"]
    assert f.cache_info().misses == 1


# ------------------------------------------------------------------ shapes without values


def model(parameters: Any, x: Any, scale: float = 1.0) -> Any:
    h = agrad.tanh(x @ parameters["w"]) * scale
    return {"h": h, "loss": agrad.sum(h), "kept": (h > 0, 3, "name", None)}


@pytest.mark.parametrize("wrap", [lambda f: f, agrad.jit])
def test_shapes_of_arrays_and_of_objects(wrap: Any, backend: str) -> None:
    arrays = {"w": agrad.ones((3, 2), dtype="float32")}, agrad.ones((5, 3), dtype="float32")
    objects = {"w": ShapeDtype((3, 2), "float32")}, ShapeDtype((5, 3), agrad.float32)
    kept = ShapeDtype((5, 2), "bool"), 3, "name", None
    right = {"h": ShapeDtype((5, 2), "float32"), "loss": ShapeDtype((), "float32"), "kept": kept}
    assert agrad.eval_shape(wrap(model), *arrays) == right
    assert agrad.eval_shape(wrap(model), *objects, scale=2.0) == right
    assert agrad.eval_shape(wrap(agrad.grad(lambda p, x: model(p, x)["loss"])), *objects) == objects[0]
    assert agrad.eval_shape(agrad.vmap(agrad.sum), objects[1]) == ShapeDtype((5,), "float32")


def test_inside_transforms(backend: str) -> None:
    def f(x: Any) -> Any:
        shape = agrad.eval_shape(lambda x: agrad.concat([x, x]), x).shape
        assert shape == (4,)
        return agrad.sum(x * x) * shape[0]

    x = agrad.asarray([1.0, 2.0])
    assert agrad.jit(f)(x).item() == 20.0
    assert agrad.grad(f)(x).tolist() == [8.0, 16.0]
    assert agrad.vmap(f)(agrad.stack([x, x])).tolist() == [20.0, 20.0]
    assert agrad.vmap(agrad.grad(f))(agrad.stack([x, x])).tolist() == [[8.0, 16.0]] * 2


def test_state_is_set_back(backend: str) -> None:
    w = agrad.asarray([1.0, 2.0], requires_grad=True)
    step = descent(agrad.optim.Adam([w], lr=0.1), lambda x: agrad.sum(w * x), "first")
    assert agrad.eval_shape(step, w.detach()) == ShapeDtype((), w.dtype)
    assert w.tolist() == [1.0, 2.0]
    assert w.grad is None
    step(w.detach())
    assert w.tolist() != [1.0, 2.0]


def test_errors() -> None:
    x = np.asarray([1.0, 0.0])
    fails(TracedValueError, "result's shape depends on values", agrad.eval_shape, agrad.nonzero, x)
    fails(TracedValueError, "a Boolean index inside", lambda: agrad.eval_shape(lambda x: x[x > 0], x))
    seen: list[Any] = []
    fails(TracedValueError, "changed", lambda: agrad.eval_shape(lambda x: seen.append(1) or x, x))


def test_numbers_and_text() -> None:
    assert agrad.eval_shape(lambda x: x * 2, 1.5) == ShapeDtype((), agrad.asarray(1.5).dtype)
    assert repr(ShapeDtype((2, 3), "int32")) == "ShapeDtype((2, 3), 'int32')"
    assert ShapeDtype((2,), "int32") != ShapeDtype((2,), "int64")
    assert len({ShapeDtype([2], "int32"), ShapeDtype((2,), agrad.int32)}) == 1
    assert agrad.tree.map(lambda leaf: leaf.shape, {"a": ShapeDtype((2,), "int32")}) == {"a": (2,)}
