"""Donated arguments: whose memory results take, and whose they must not."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from jit_help import close, descent, memory_of, same_calls

import agrad
from agrad import nn, optim
from agrad.kernels.numpy.blas import ROUTINES

needs_routines = pytest.mark.skipif(not ROUTINES, reason="NumPy's BLAS has no known names")
N = 128


class Layer(NamedTuple):
    w: Any
    b: Any


def arrays(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, N)).astype(np.float32), rng.normal(size=N).astype(np.float32)


BUILT: dict[str, Any] = {
    "tuple": lambda w, b: (w, b),
    "list": lambda w, b: [w, b],
    "dict": lambda w, b: {"w": w, "b": b},
    "dict in another order": lambda w, b: {"w": w, "b": b, "a": None},
    "nested": lambda w, b: [{"layer": (w, [b])}],
    "namedtuple": Layer,
}
PARTS: dict[str, Any] = {
    "tuple": tuple,
    "list": tuple,
    "dict": lambda t: (t["w"], t["b"]),
    "dict in another order": lambda t: (t["w"], t["b"]),
    "nested": lambda t: (t[0]["layer"][0], t[0]["layer"][1][0]),
    "namedtuple": lambda t: (t.w, t.b),
}


def functional(kind: str, **options: Any) -> Any:
    """Return a jitted step of momentum from containers to containers, and the container's two functions."""
    build, parts = BUILT[kind], PARTS[kind]

    def loss_of(tree: Any, x: Any) -> Any:
        w, b = parts(tree)
        return agrad.mean((agrad.matmul(x, w) + b) ** 2)

    def step(tree: Any, state: Any, x: Any) -> Any:
        loss, gradients = agrad.value_and_grad(loss_of)(tree, x)
        pairs = zip(parts(tree), parts(state), parts(gradients), strict=True)
        new = [(p, 0.9 * v + g) for p, v, g in pairs]
        return build(*[p - 0.1 * v for p, v in new]), build(*[v for _, v in new]), loss

    return (step if options.pop("eager", False) else agrad.jit(step, **options)), build, parts


@pytest.mark.parametrize("kind", BUILT)
def test_donated_containers_give_the_same_steps(backend: str, place: Any, kind: str) -> None:
    found = []
    for options in ({"eager": True}, {}, {"donate_argnums": (0, 1)}):
        step, build, parts = functional(kind, **options)
        tree = build(*map(place, arrays()))
        state = build(*[place(np.zeros_like(a)) for a in arrays()])
        x, losses = place(arrays(1)[0][:3] * 0.1), []
        for _ in range(4):
            tree, state, loss = step(tree, state, x)
            losses.append(float(loss))
        found.append([losses, *parts(tree), *parts(state)])
    for got in found[1:]:
        close(got, found[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", BUILT)
def test_new_parameters_lie_where_the_donated_ones_lay(kind: str) -> None:
    step, build, parts = functional(kind, donate_argnums=(0, 1))
    tree, state = build(*arrays()), build(*[np.zeros_like(a) for a in arrays()])
    x = arrays(1)[0][:3] * 0.1
    for _ in range(3):
        before = [id(a) for a in (*parts(tree), *parts(state))]
        tree, state, _ = step(tree, state, x)
        assert [id(a) for a in (*parts(tree), *parts(state))] == before
    assert step.cache_info()[:2] == (2, 1)


def test_arguments_that_are_not_donated_and_earlier_results_stay() -> None:
    step, build, parts = functional("dict")
    tree, state = build(*arrays()), build(*[np.zeros_like(a) for a in arrays()])
    x, kept = arrays(1)[0][:3] * 0.1, []
    for _ in range(4):
        kept.append([(a, a.copy()) for a in (*parts(tree), *parts(state), x)])
        tree, state, _ = step(tree, state, x)
    for pairs in kept:
        for a, before in pairs:
            np.testing.assert_array_equal(a, before)
    every = [a for pairs in kept for a, _ in pairs[:-1]]
    assert len({a.__array_interface__["data"][0] for a in every}) == len(every)


@pytest.mark.parametrize("how", ["given twice", "a view too", "its transpose", "read-only", "a column order", "a view"])
def test_a_donated_array_that_is_seen_elsewhere_stays(how: str) -> None:
    def f(a: Any, b: Any) -> Any:
        return a * 2.0 + 1.0, agrad.sum(b * b) + b[0, 0]

    donating = agrad.jit(f, donate_argnums=0)
    for _ in range(3):
        a = arrays()[0]
        donating(a.copy(), arrays(1)[0])  # the signature of a call like it
        if how == "read-only":
            a.flags.writeable = False
        a = {"a column order": np.asfortranarray, "a view": lambda a: a[:]}.get(how, lambda a: a)(a)
        b = {"given twice": a, "a view too": a[:], "its transpose": a.T}.get(how, arrays(1)[0])
        kept = a.copy(), b.copy()
        close(donating(a, b), f(*kept), rtol=1e-5)
        close((a, b), kept, rtol=0)


def test_containers_of_another_structure_are_another_program() -> None:
    @agrad.jit
    def total(tree: Any) -> Any:
        return sum(agrad.sum(value) * (i + 1) for i, (_, value) in enumerate(sorted(tree[0].items()))) + len(tree)

    one, two = np.ones(3), np.full(3, 2.0)
    trees: list[tuple[Any, float]] = [
        ([{"a": one, "b": two}], 16.0),
        ([{"b": one, "a": two}], 13.0),
        ([{"a": one, "c": two}], 16.0),
        ([{"a": one}], 4.0),
        ([{"a": one, "b": two, "c": one}], 25.0),
        (({"a": one, "b": two},), 16.0),
        ([{"a": one, "b": two}, None], 17.0),
        ([{"a": one, "b": np.ones(4)}], 12.0),
    ]
    for _ in range(2):
        for tree, right in trees:
            assert [float(total(tree)) for _ in range(2)] == [right, right]


# ------------------------------------------------------------------ sums with products


FORMS: dict[str, Any] = {
    "sum": lambda x, a, b: x + a @ b,
    "the other way": lambda x, a, b: a @ b + x,
    "a multiple": lambda x, a, b: 0.5 * x + a @ b,
    "a multiple behind": lambda x, a, b: a @ b + x * 0.5,
    "several": lambda x, a, b: x + a @ b + b @ a + a @ a,
    "of itself": lambda x, a, b: x + x @ b,
    "transposed": lambda x, a, b: 2.0 * x + a.T @ b.T,
}


@needs_routines
@pytest.mark.parametrize("donates", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_with_products(form: str, donates: bool, dtype: str) -> None:
    f = FORMS[form]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(N, N)).astype(dtype) for _ in range(3)]
    right = f(*[x.astype(float) for x in given])
    program = agrad.jit(f, donate_argnums=0 if donates else ())
    for _ in range(2):
        x, a, b = (array.copy() for array in given)
        out = program(x, a, b)
        np.testing.assert_allclose(out, right, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-4)
        assert out.dtype == dtype
        assert (out is x) is (donates and form != "of itself")
        np.testing.assert_array_equal(a, given[1])
        np.testing.assert_array_equal(b, given[2])
        if not donates:
            np.testing.assert_array_equal(x, given[0])
    assert "add of a product" in str(program.lower(*[array.copy() for array in given]))


@needs_routines
def test_sums_with_products_of_any_layout() -> None:
    program = agrad.jit(lambda x, a, b: 0.5 * x + a @ b)
    rng = np.random.default_rng(0)
    big = rng.normal(size=(2 * N, 2 * N))
    layouts = [big[:N, :N], big[::2, ::2], big[:N, :N].T, big[::-1][:N, :N].copy()]
    for x in layouts:
        for a in layouts:
            np.testing.assert_allclose(program(x, a, layouts[1]), 0.5 * x + a @ layouts[1], atol=1e-10)


def test_products_that_are_read_twice_are_not_added() -> None:
    def f(x: Any, a: Any) -> Any:
        product = a @ a
        return x + product, product * 2.0

    x, a = arrays()[0], arrays(1)[0]
    program = same_calls(f, (x, a), rtol=1e-4, atol=1e-4)
    assert "add of a product" not in str(program.lower(x, a))


@pytest.mark.parametrize(("kind", "slots"), [("SGD", 1), ("Adam", 2)])
def test_the_first_call_makes_the_state_and_the_gradient_alone(kind: str, slots: int) -> None:
    w = nn.init.parameter(np.ones((512, 512)), dtype="float64")
    optimizer = getattr(optim, kind)([w], lr=0.1, **({"momentum": 0.9} if kind == "SGD" else {}))
    step = agrad.jit(descent(optimizer, lambda x: agrad.sum(x @ w)))
    x, place = np.ones((1, 512)), w.data.ctypes.data
    assert memory_of(step, x)[1] < (slots + 1.5) * w.data.nbytes
    assert w.data.ctypes.data == place
    np.testing.assert_allclose(w.data, 0.9)


def test_a_number_added_to_a_product_is_no_array() -> None:
    given = arrays()[0], arrays(1)[0]
    for f in (lambda x, w: x @ w + 0.5, lambda x, w: 0.5 + x @ w):
        same_calls(f, given, rtol=1e-4, atol=1e-4)
