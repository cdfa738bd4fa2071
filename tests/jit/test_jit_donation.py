"""Memory of results: donated arguments, sums with products, and products folded into steps, by routines of BLAS."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from jit_help import close, descent, memory_of, regression, same_calls, same_steps

import agrad
from agrad import nn, optim
from agrad.kernels.numpy.blas import ROUTINES, added_multiple, address, laid, product_adder

needs_routines = pytest.mark.skipif(not ROUTINES, reason="NumPy's BLAS has no known names")
N = 128


def arrays(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, N)).astype(np.float32), rng.normal(size=N).astype(np.float32)


class Layer(NamedTuple):
    w: Any
    b: Any


BUILT: dict[str, Any] = {
    "tuple": lambda w, b: (w, b),
    "list": lambda w, b: [w, b],
    "dict": lambda w, b: {"w": w, "b": b},
    "dict in another order": lambda w, b: {"w": w, "b": b, "a": None},
    "nested": lambda w, b: [{"layer": (w, [b])}],
    "namedtuple": Layer,
}


def parts(*trees: Any) -> list[Any]:
    """Return the matrix and the vector of each container."""
    return [x for tree in trees for x in sorted(agrad.tree.leaves(tree), key=lambda x: -x.ndim)]


def step(tree: Any, state: Any, x: Any) -> Any:
    """Return the containers after a step of momentum, and the loss."""

    def loss_of(tree: Any) -> Any:
        w, b = parts(tree)
        return agrad.mean((agrad.matmul(x, w) + b) ** 2)

    loss, gradients = agrad.value_and_grad(loss_of)(tree)
    state = agrad.tree.map(lambda v, g: 0.9 * v + g, state, gradients)
    return agrad.tree.map(lambda p, v: p - 0.1 * v, tree, state), state, loss


def started(kind: str, place: Any = lambda x: x) -> tuple[Any, Any, Any]:
    """Return the arguments of the first step."""
    build, x = BUILT[kind], arrays(1)[0][:3] * 0.1
    return build(*map(place, arrays())), build(*[place(np.zeros_like(a)) for a in arrays()]), place(x)


@pytest.mark.parametrize("kind", BUILT)
def test_donated_containers_give_the_same_steps(backend: str, place: Any, kind: str) -> None:
    found = []
    for run in (step, agrad.jit(step), agrad.jit(step, donate_argnums=(0, 1))):
        tree, state, x = started(kind, place)
        losses = []
        for _ in range(4):
            tree, state, loss = run(tree, state, x)
            losses.append(float(loss))
        found.append([losses, *parts(tree, state)])
    for got in found[1:]:
        close(got, found[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", BUILT)
def test_new_parameters_lie_where_the_donated_ones_lay(kind: str) -> None:
    run = agrad.jit(step, donate_argnums=(0, 1))
    tree, state, x = started(kind)
    for _ in range(3):
        before = list(map(id, parts(tree, state)))
        tree, state, _ = run(tree, state, x)
        assert list(map(id, parts(tree, state))) == before
    assert run.cache_info()[:2] == (2, 1)


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


# ------------------------------------------------------------------ BLAS


@needs_routines
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 3, 4), (1, 1, 1), (7, 1, 9), (1, 6, 5), (5, 6, 1), (1, 1, 8), (40, 300, 33)])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("beta", [0.9, 1.0])
def test_product_adder(dtype: str, shape: tuple[int, int, int], turned: str, beta: float) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m + k + n)
    a = rng.normal(size=(k, m)).astype(dtype).T if "a" in turned else rng.normal(size=(m, k)).astype(dtype)
    b = rng.normal(size=(n, k)).astype(dtype).T if "b" in turned else rng.normal(size=(k, n)).astype(dtype)
    out = rng.normal(size=(m, n)).astype(dtype)
    expected = a.astype(float) @ b.astype(float) + beta * out.astype(float)
    product_adder(out.dtype, shape)(laid(a), laid(b), beta, address(out))
    np.testing.assert_allclose(out, expected, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5)


@needs_routines
def test_added_multiple() -> None:
    x, out = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    added_multiple(-0.5, x, out)
    np.testing.assert_array_equal(out, 1 - 0.5 * x)


# ------------------------------------------------------------------ steps


def _trained(jitted: bool, size: int = 4, hold: bool = False, **settings: Any) -> tuple[list[np.ndarray], str]:
    made = lambda ps: optim.SGD(ps, lr=0.01, **settings)  # noqa: E731
    run, parameters, (batch, *_) = regression(64, 128, 64, 3, rows=size, make=made, jitted=jitted)
    held = []
    for _ in range(6):
        if hold:  # as somebody does who looks at the values before a step: they must stay as they are
            held += [(p.data, p.data.copy()) for p in parameters]
        run(*batch)
    for now, then in held:
        np.testing.assert_array_equal(now, then)
    return [p.detach().numpy() for p in parameters], str(run.lower(*batch)) if jitted else ""


@needs_routines
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("hold", [False, True])
def test_a_folded_step_is_the_ordinary_one(size: int, hold: bool) -> None:
    got, shown = _trained(True, size, hold, momentum=0.9)
    final = shown.split("# fusion")[1]
    assert "= sgd_update_of_a_product" in final
    assert "= sgd_update_of_a_row_sum" in final
    close(got, _trained(False, size, momentum=0.9)[0], rtol=2e-5, atol=1e-6)


OTHERS = {"nesterov": True, "dampening": 0.5, "weight_decay": 0.1, "maximize": True, "momentum": 0.0}


@pytest.mark.parametrize("option", [*OTHERS, "no routines"])
def test_other_steps_are_not_folded(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor any step without the routines of BLAS."""
    settings = {"momentum": 0.9} | {name: value for name, value in OTHERS.items() if name == option}
    if option == "no routines":
        # the table itself: ``agrad.jit`` is a function, and hides the package of its name
        for dtype in list(ROUTINES):
            monkeypatch.delitem(ROUTINES, dtype)
    got, shown = _trained(True, **settings)
    assert "update of a" not in shown
    close(got, _trained(False, **settings)[0], rtol=2e-5, atol=1e-6)


@needs_routines
def test_a_product_that_reads_what_an_earlier_step_writes_is_not_moved_behind_it() -> None:
    """The second weight's gradient is a product with the first weight itself, whose step comes first."""
    x = np.random.default_rng(1).normal(size=(96, 96)).astype(np.float32) / 10

    def made() -> Any:
        first, second = (agrad.asarray(x * np.float32(k), requires_grad=True) for k in (0.5, 0.25))
        train = descent(optim.SGD([first, second], lr=0.1, momentum=0.9), lambda: agrad.sum(first @ second))
        return lambda: (train(), first.detach() + 0, second.detach() + 0)[1:]

    same_steps(made, rtol=2e-5, atol=1e-6)
