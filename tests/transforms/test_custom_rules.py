"""Custom derivative rules: in every mode, against JAX, around other code, under maps, and their errors."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, check_adjoint, host
from modes import MODES, check_mapped, check_same, check_traced
from refusals import each_fails, fails

import agrad
from agrad import errors
from agrad.errors import ConfigurationError, NotDifferentiableError, OperandError, ShapeError, TracedValueError
from examples import kernels

_rng = np.random.default_rng(1)
X, ROWS = _rng.standard_normal(3), _rng.standard_normal((2, 3))


def by_wrong_rules(x: Any) -> Any:
    """Two functions with rules that are wrong by a factor of 3, so that it shows whose derivative is used."""
    f = agrad.custom_vjp(lambda p, n: {"y": agrad.sin(p["a"]) * p["b"], "z": p["b"] * n})

    def fwd(p: Any, n: Any) -> Any:
        return f(p, n), (p, agrad.cos(p["a"]), n)

    def bwd(kept: Any, g: Any) -> Any:
        p, c, n = kept
        return {"a": 3 * c * p["b"] * g["y"], "b": agrad.sin(p["a"]) * g["y"] + n * g["z"]}, None

    f.defvjp(fwd, bwd)
    h = agrad.custom_jvp(lambda a, b: agrad.sin(a) * b)
    h.defjvps(lambda t, y, a, b: 3 * agrad.cos(a) * b * t, lambda t, y, a, b: agrad.sin(a) * t)
    out = f({"a": x, "b": x * x}, 2.0)
    return agrad.sum(out["y"] + out["z"]) + agrad.sum(h(x, x * x))


def test_a_rule_is_used_in_every_mode() -> None:
    expected = 2 * (3 * np.cos(X) * X * X + np.sin(X) * 2 * X) + 4 * X
    assert_close(agrad.grad(by_wrong_rules)(X), expected, "gradient", 1e-12)
    check_adjoint(by_wrong_rules, [X], np.random.default_rng(0))
    check_mapped(by_wrong_rules, [ROWS])
    check_traced(by_wrong_rules, (X,))
    assert_close(agrad.linearize(by_wrong_rules, X)[1](ROWS[0]), np.sum(expected * ROWS[0]), "linearized", 1e-12)


def sine_product(kind: str, batch: str = "vmap", calls: list[Any] | None = None) -> Callable[[Any, Any], Any]:
    """Return sin(a) * b with a rule, which notes the shapes that it is called with."""
    f = getattr(agrad, kind)(without_a_rule, batch=batch)

    def bwd(kept: Any, g: Any) -> Any:
        a, b = kept
        if calls is not None:
            calls.append(tuple(a.shape))
        return g * b * agrad.cos(a), g * agrad.sin(a)

    if kind == "custom_vjp":
        f.defvjp(lambda a, b: (f(a, b), (a, b)), bwd)
    else:
        f.defjvps(lambda t, y, a, b: t * b * agrad.cos(a), lambda t, y, a, b: t * agrad.sin(a))
    return f


def without_a_rule(a: Any, b: Any) -> Any:
    return agrad.multiply(agrad.sin(a), b)


KINDS = ["custom_vjp", "custom_jvp"]
BATCHES = ["vmap", "loop"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_rule_changes_nothing(kind: str, place: Any) -> None:
    f, g = sine_product(kind), without_a_rule
    check_same(f, g, (place(X), place(ROWS[0])), MODES, 1e-12)
    # a square map inside: an exchange of its batch axis and that of the cotangents would not show in shapes
    after, expected = (lambda x, f=f: np.arange(9.0).reshape(3, 3) @ agrad.vmap(f)(x, x) for f in (f, g))
    check_same(after, expected, (X,), ("jacrev", "vmap of the gradient", "reverse over reverse"), 1e-12)
    assert_close(*[agrad.jacrev(agrad.jacrev(f))(X) for f in (after, expected)], "jacrev of jacrev", 1e-12)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_arguments_that_all_batch_elements_share(kind: str, batch: str, place: Any) -> None:
    """The cotangent is the sum over the elements, whether they are processed together or one by one."""
    calls: list[Any] = []
    f, rows, shared = sine_product(kind, batch, calls), place(ROWS), place(X)
    found, expected = (agrad.vmap(g, in_axes=(0, None)) for g in (f, without_a_rule))
    modes = ("gradient", "tangent", "forward over reverse", "backward")
    check_same(found, expected, (rows, shared), modes, 1e-12)
    check_same(lambda b: found(rows, b), lambda b: expected(rows, b), (shared,), modes, 1e-12)
    check_same(lambda a: found(a, shared), lambda a: expected(a, shared), (rows,), modes, 1e-12)
    constant = lambda g: lambda b: agrad.vmap(lambda row: g(shared, b) + 0 * row)(rows)  # noqa: E731
    check_same(constant(f), constant(without_a_rule), (shared,), modes, 1e-12)
    if kind == "custom_vjp":
        calls.clear()
        agrad.grad(lambda a: agrad.sum(found(a, shared)))(rows)
        assert calls == [(3,)] * (1 if batch == "vmap" else 2)


def test_settings_methods_keywords_and_constants() -> None:
    @agrad.custom_vjp(nondiff_argnums=(1,))
    def power(x: Any, n: int = 2) -> Any:
        """A power."""
        return x**n

    power.defvjp(lambda x, n: (x**n, x), lambda n, x, g: (10 * g * n * x ** (n - 1),))
    assert power.__doc__ == "A power." and power.__name__ == "power"
    assert_close(agrad.grad(lambda x: agrad.sum(power(x, n=3)))(X), 30 * X**2, "by keyword")
    assert_close(agrad.grad(lambda x: agrad.sum(power(x)))(X), 20 * X, "by default")
    assert_close(power(X, 3), X**3, "raw in, raw out")
    assert isinstance(power(X, 3), np.ndarray) and isinstance(power(agrad.asarray(X)), agrad.Tensor)

    class Layer:
        scale = 2.0

        @agrad.custom_jvp(nondiff_argnums=0)
        def __call__(self, x: Any) -> Any:
            return x * self.scale

    Layer.__call__.defjvp(lambda self, p, t: (self(p[0]), t[0] * 7.0))
    assert_close(agrad.grad(lambda x: agrad.sum(Layer()(x)))(X), [7.0, 7.0, 7.0], "a method")


def test_no_cotangent_of_some_members() -> None:
    f = agrad.custom_vjp(lambda x: x * 2, batch="loop")
    f.defvjp(lambda x: (x * 2, x), lambda x, g: (g * 2 if x > 0 else None,))
    x = np.asarray([1.0, -1.0, 2.0])
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x)))(x), [2.0, 0.0, 2.0], "grad of vmap")
    assert_close(agrad.vmap(agrad.grad(f))(x), [2.0, 0.0, 2.0], "vmap of grad")
    fails(ShapeError, "must not be empty", lambda: agrad.vmap(f)(x[:0]))


@pytest.mark.parametrize("batch", ["vmap", "loop"])
def test_results_that_no_member_maps(batch: str, place: Any) -> None:
    """A constant, a number and an integer array beside a result: for every member the same."""
    table, whole = place(np.asarray([5.0, 7.0])), place(np.asarray([2, 3]))

    f = agrad.custom_vjp(lambda x: (x * x, table, 4.5, whole), batch=batch)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (10 * g[0] * x,))
    h = agrad.custom_jvp(lambda x: (x * x, table, 4.5, whole), batch=batch)
    h.defjvp(lambda p, t: (h(p[0]), (10 * t[0] * p[0], table * 0, 0.0, None)))
    rows = place(ROWS)
    for g in (f, h):
        y, constant, number, integers = agrad.vmap(g)(rows)
        assert_close(y, ROWS**2, "mapped", 1e-12)
        np.testing.assert_array_equal(host(constant), np.broadcast_to([5.0, 7.0], (2, 2)))
        np.testing.assert_array_equal(host(integers), np.broadcast_to([2, 3], (2, 2)))
        assert np.all(host(number) == 4.5)
        slope = agrad.grad(lambda v, g=g: agrad.sum(agrad.vmap(g)(v)[0]))(rows)
        assert_close(slope, 10 * ROWS, "gradient", 1e-12)


def test_arguments_by_keyword_and_rules_that_leave_some_out() -> None:
    f = agrad.custom_vjp(lambda a, b=2.0: a * b)
    f.defvjp(lambda a, b: (a * b, (a, b)), lambda kept, g: [10 * g * kept[1], None])
    slope = agrad.grad(lambda a: agrad.sum(f(a, b=3.0)))(X)
    assert_close(slope, [30.0, 30.0, 30.0], "a list of cotangents, and an argument by keyword")
    h = agrad.custom_jvp(lambda a, b: a * b)
    h.defjvps(None, lambda t, y, a, b: t * a)
    assert_close(agrad.jvp(h, (X, 2 * X), (X, 3 * X))[1], 3 * X**2, "the first argument has none", 1e-12)
    assert_close(agrad.grad(lambda a: agrad.sum(h(a, X) + a))(X), [1.0, 1.0, 1.0], "of the first alone")
    h.defjvps(None, None)
    assert_close(agrad.jvp(h, (X, X), (X, X))[1], np.zeros(3), "no argument has one")


def test_a_bwd_that_uses_a_cotangent_twice_or_not_at_all() -> None:
    """The transpose of ``bwd`` adds what it sends along several ways."""
    f = agrad.custom_vjp(lambda a, b, c: (a * b, agrad.sin(c)))
    f.defvjp(
        lambda a, b, c: (f(a, b, c), (a, b, c)),
        lambda kept, g: (g[0] * kept[1], g[0] * kept[0], g[1] * agrad.cos(kept[2])),
    )
    plain = lambda a: (a * 2 * a, agrad.sin(a))  # noqa: E731
    check_same(lambda a: f(a, 2 * a, a), plain, (X,), ("value", "tangent", "gradient"), 1e-12)
    for bwd, factor in ((lambda kept, g: (g, g), 4.0), (lambda kept, g: (None, 5 * g), 15.0)):
        same = agrad.custom_vjp(lambda a, b: a + b)
        same.defvjp(lambda a, b: (a + b, None), bwd)
        assert_close(agrad.jvp(same, (X, X), (X, 3 * X))[1], factor * X, "one cotangent for both", 1e-12)


@pytest.mark.parametrize("stop", [lambda y: agrad.stop_gradient({"y": y})["y"], agrad.Tensor.detach])
def test_constants_in_every_mode(stop: Any, place: Any) -> None:
    constant = agrad.custom_jvp(agrad.sin)
    constant.defjvp(lambda p, t: (constant(p[0]), 0 * t[0]))
    f, g = (lambda x, cut=cut: cut(x) * x for cut in (lambda x: stop(agrad.sin(agrad.asarray(x))), constant))
    check_same(f, g, (place(X),), [*MODES, "jit of the gradient", "gradient of jit"], 1e-12)
    assert_close(agrad.grad(lambda x: agrad.sum(f(x)))(place(X)), np.sin(X), "gradient")


# ---------------------------------------------------------------- rules that call the function itself

A = np.asarray([[4.0, 1.0, 0.5], [0.0, 3.0, -1.0], [1.0, 0.0, 5.0]])
B = np.asarray([1.0, -2.0, 3.0])


SECOND = ("gradient", "tangent", "forward over reverse", "reverse over reverse", "jacfwd", "vmap of the gradient")


def by_its_adjoint(solve: Callable[[Any, Any], Any], batch: str) -> Any:
    """Return a solver with the pullback that calls it: of x = solve(a, b), a.T y = g gives the cotangent y of b."""
    f = agrad.custom_vjp(solve, batch=batch)

    def bwd(kept: Any, g: Any) -> Any:
        a, x = kept
        y = f(a.T, g)
        return -y[:, None] * x[None, :], y

    f.defvjp(lambda a, b: (x := f(a, b), (a, x)), bwd)
    return f


def of_numpy(a: Any, b: Any) -> Any:
    return np.linalg.solve(np.asarray(a), np.asarray(b))


def test_the_adjoint_of_a_solve_has_second_derivatives(place: Any) -> None:
    found = by_its_adjoint(agrad.linalg.solve, "vmap")
    check_same(found, agrad.linalg.solve, (place(A), place(B)), SECOND, 1e-10)
    third = [agrad.hessian(agrad.grad(lambda b, f=f: agrad.sum(f(A, b) ** 3)))(B) for f in (found, agrad.linalg.solve)]
    assert_close(*third, "third order", 1e-10)


def test_code_of_another_library_is_called_once_for_each_element() -> None:
    check_same(by_its_adjoint(of_numpy, "loop"), agrad.linalg.solve, (A, B), SECOND, 1e-10)
    f = lambda a: agrad.sum(by_its_adjoint(of_numpy, "vmap")(a, B) ** 3)  # noqa: E731
    for call in (agrad.jacrev(agrad.grad(f)), agrad.hessian(f), agrad.jacfwd(f)):
        fails(TracedValueError, 'batch="loop"', call, A)
    fails(TracedValueError, 'batch="loop"', agrad.vmap(agrad.grad(f)), np.stack([A, A]))


def test_a_pullback_of_raw_code_is_called_once_for_each_mapped_cotangent() -> None:
    sine = agrad.custom_vjp(lambda x: np.sin(np.asarray(x)), batch="loop")
    sine.defvjp(lambda x: (np.sin(x), x), lambda x, g: (np.asarray(g) * np.cos(np.asarray(x)),))
    check_same(agrad.jacrev(sine), agrad.jacrev(agrad.sin), (B,), ("value", "vmap"), 1e-12)

    def of_both(s: Any) -> Any:
        return agrad.vmap(lambda x, w: agrad.jacrev(lambda y: s(y * w) * w)(x))(ROWS, A[:2])

    assert_close(of_both(sine), of_both(agrad.sin), "with what is mapped outside", 1e-12)


@pytest.mark.parametrize("batch", BATCHES)
def test_the_jacobian_of_raw_code_with_more_results_than_arguments(batch: str) -> None:
    f = agrad.custom_vjp(lambda x: np.concatenate([np.sin(x), np.cos(x)]), batch=batch)
    f.defvjp(lambda x: (f.f(x), x), lambda x, g: (np.cos(x) * np.asarray(g)[:3] - np.sin(x) * np.asarray(g)[3:],))
    if batch == "loop":
        expected = np.concatenate([np.diag(np.cos(X)), np.diag(-np.sin(X))])
        assert_close(agrad.jacobian(f)(X), expected, "tall", 1e-12)
    else:
        fails(TracedValueError, 'batch="loop"', agrad.jacobian(f), X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", BATCHES)
def test_a_map_of_a_tall_jacobian(kind: str, batch: str) -> None:
    """Its pullback is recorded and transposed inside the map, whose elements the rule takes apart."""
    f = getattr(agrad, kind)(lambda x, y: x * agrad.sum(y), batch=batch)
    if kind == "custom_vjp":
        f.defvjp(
            lambda x, y: (f.f(x, y), (x, y)),
            lambda r, g: (g * agrad.sum(r[1]), agrad.full_like(r[1], agrad.sum(g * r[0]))),
        )
    else:
        f.defjvp(lambda p, t: (f.f(*p), t[0] * agrad.sum(p[1]) + p[0] * agrad.sum(t[1])))
    expected = np.broadcast_to(B[:, None], (2, 3, 2))
    assert_close(agrad.vmap(agrad.jacobian(f, argnums=1), in_axes=(None, 0))(B, ROWS[:, :2]), expected, "jacobian")

    def along(y: Any) -> Any:
        return agrad.linearize(lambda y: f(B, y), y)[1](agrad.ones_like(y))

    assert_close(agrad.vmap(along)(ROWS), np.broadcast_to(3 * B, (2, 3)), "linearize", 1e-12)


# ---------------------------------------------------------------- other code

KERNEL_MODES = ("value", "gradient", "vmap of the gradient", "backward")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_c_function() -> None:
    # its slope stands in the pullback as a constant, so forward mode, which transposes that, works too
    check_same(kernels.c_function(), lambda x: agrad.logaddexp(x, 0 * x), (X,), [*KERNEL_MODES, "tangent"], 1e-12)


@pytest.mark.needs("numba")
@pytest.mark.filterwarnings("ignore")
def test_a_numba_function() -> None:
    f = kernels.numba_function()

    def recurrence(a: Any, x: Any) -> Any:
        y, out = 0.0, []
        for i in range(3):
            y = a * y + x[i]
            out.append(y)
        return agrad.stack(out)

    check_same(lambda x: f(0.5, x), lambda x: recurrence(0.5, x), (X,), KERNEL_MODES, 1e-12)
    check_same(lambda a: f(a, X), lambda a: recurrence(a, X), (np.asarray(0.5),), ("gradient",))
    push = lambda: agrad.jvp(lambda x: f(0.5, x), (X,), (X,))  # noqa: E731
    fails(NotDifferentiableError, "bwd must consist of agrad functions", push)


@pytest.mark.needs("cupy")
def test_a_cuda_kernel() -> None:
    with agrad.use_backend("cupy"):
        x = agrad.asarray(X, backend="cupy").raw
        check_same(kernels.cuda_kernel(), lambda x: x * agrad.sigmoid(x), (x,), KERNEL_MODES, 1e-12)


def test_numerical_rule(place: Any) -> None:
    box = agrad.numerical_rule(lambda a, b: {"y": place(np.sin(host(a)) * np.sum(host(b)))})
    f = lambda a: box(a, a * a)["y"]  # noqa: E731
    g = lambda a: agrad.sin(a) * agrad.sum(a * a)  # noqa: E731
    check_same(f, g, (place(X),), ("gradient", "tangent", "vmap of the gradient"), 1e-8)
    check_same(f, g, (place(X),), ("forward over reverse",), 1e-4)
    assert_close(agrad.jvp(f, (place(X),), (place(0 * X),))[1], 0 * X, "along nothing")


def test_numerical_rules_are_flagged_and_have_limits() -> None:
    box = agrad.numerical_rule(np.cbrt)
    assert "numerical cbrt" in str(agrad.graph(box(agrad.asarray(X, requires_grad=True))))
    large = agrad.numerical_rule(lambda x: x * x)
    assert_close(agrad.grad(lambda x: agrad.sum(large(x)))(np.asarray([1e6, 1e-6])), [2e6, 2e-6], "scales", 1e-8, 2e6)


# ---------------------------------------------------------------- errors


def by_vjp(fwd: Any, bwd: Any = lambda kept, g: (g,), f: Any = lambda x: x * 2, **how: Any) -> Callable[[], Any]:
    """Return a gradient of a function with a rule."""
    made = agrad.custom_vjp(f, **how)
    made.defvjp(fwd, bwd)
    return lambda: agrad.grad(lambda x: agrad.sum(made(x)))(X)


def by_jvp(rule: Any, forward: bool = True, f: Any = lambda a, b: a * b) -> Callable[[], Any]:
    """Return a tangent, or a gradient, of a function of two arguments with a rule."""
    made = agrad.custom_jvp(f)
    made.defjvp(rule)
    if forward:
        return lambda: agrad.jvp(made, (X, X), (X, X))
    return lambda: agrad.grad(lambda a: agrad.sum(made(a, X)))(X)


def by_jvps(*rules: Any) -> Callable[[], Any]:
    made = agrad.custom_jvp(lambda a, b: a * b)
    made.defjvps(*rules)
    return lambda: agrad.jvp(made, (X, X), (X, X))


def of_a_leaf(**how: Any) -> Callable[[], Any]:
    w = agrad.asarray(X, requires_grad=True)
    f = agrad.custom_vjp(lambda x: x, **how)
    f.defvjp(lambda x: (x * w, None), lambda kept, g: (g,))
    return lambda: f(w)


PAIR, TWO = (lambda x: (x * 2, None)), agrad.custom_vjp(lambda a, b=2.0: a * b)
STACKED = lambda p, t: agrad.stack([p[0], t[0]])  # noqa: E731 - an array of two rows unpacks like a pair
THREE = lambda p, t: (p[0], t[0], 0)  # noqa: E731
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: agrad.grad(lambda x: agrad.sum(agrad.custom_vjp(agrad.sin)(x)))(X), errors.MissingRuleError, "defvjp"),
    (lambda: agrad.grad(lambda x: agrad.sum(agrad.custom_jvp(agrad.sin)(x)))(X), errors.MissingRuleError, "defjvp"),
    (by_vjp(lambda x: x * 2), OperandError, "a pair"),
    (by_vjp(lambda x: STACKED((x,), (x,))), OperandError, "a pair"),
    (by_vjp(lambda x: THREE((x,), (x,))), OperandError, "a pair"),
    (by_vjp(PAIR, lambda kept, g: g), ShapeError, "a tuple with a cotangent for each"),
    (by_vjp(PAIR, lambda kept, g: (g, g)), ShapeError, "each of the 1 arguments, got 2 entries"),
    (by_vjp(PAIR, lambda kept, g: ([g],)), ShapeError, "with the structure"),
    (by_vjp(PAIR, lambda kept, g: (g[:2],)), errors.RuleError, "shape"),
    (of_a_leaf(), NotDifferentiableError, "close over"),
    (of_a_leaf(nondiff_argnums=0), NotDifferentiableError, "nondiff_argnums"),
    (by_jvp(lambda p, t: p[0] * p[1]), OperandError, r"a pair \(result, tangent\), got (Tensor|ndarray)"),
    (by_jvp(STACKED), OperandError, "the rule must return a pair"),
    (by_jvp(THREE), OperandError, "the rule must return a pair"),
    (by_jvp(lambda p, t: (p[0] * p[1], (t[0], t[1]))), ShapeError, "with the structure of the result"),
    (by_jvp(lambda p, t: (p[0], t[0] ** 2), False), NotDifferentiableError, "must be linear"),
    (by_jvps(lambda t, y, a, b: t * b), ConfigurationError, "for each of the 2 arguments, got 1"),
    (lambda: agrad.custom_jvp(lambda n, a: a, nondiff_argnums=0).defjvps(None), ConfigurationError, "defjvps does not"),
    (lambda: TWO(), OperandError, "^<lambda>: .*missing a required argument: 'a'"),
    (lambda: TWO(X, c=1.0), OperandError, "^<lambda>: .*unexpected keyword argument 'c'"),
    (lambda: TWO(X, 1.0, 2.0), OperandError, "^<lambda>: .*too many positional arguments"),
    (lambda: agrad.custom_vjp(lambda a, *, b=2.0: a * b)(X), OperandError, "must not have keyword-only arguments"),
    (lambda: agrad.custom_jvp(lambda a, **more: a)(X, b=1.0), OperandError, "must not have keyword-only arguments"),
    (lambda: agrad.custom_vjp(3), OperandError, "must be a function"),
    (lambda: agrad.custom_vjp(agrad.sin, batch="all"), ConfigurationError, "batch"),
    (lambda: agrad.custom_vjp(agrad.sin, nondiff_argnums=3)(X), ConfigurationError, "the 1 arguments, got 3"),
    (lambda: agrad.linear_transpose(lambda x: x**2, X), NotDifferentiableError, "pow"),
    (lambda: agrad.linear_transpose(agrad.checkpoint(agrad.sin), X), NotDifferentiableError, "checkpoint"),
    (lambda: agrad.jvp(agrad.numerical_rule(np.sin), (1j,), (1j,)), NotDifferentiableError, "arguments must be real"),
    (lambda: agrad.numerical_rule(np.cbrt, step=0), ConfigurationError, "step"),
]


def test_wrong_rules_and_calls_are_errors() -> None:
    each_fails(ERRORS)
    assert_close(agrad.custom_vjp(lambda x: x * 2)(X), X * 2, "without a derivative no rule is needed")


BENT: dict[str, tuple[Any, Any]] = {
    "clip": (lambda g: agrad.clip(g, -1.0, 1.0), lambda g: agrad.astype(agrad.abs(g) < 1.0, agrad.float64)),
    "square": (lambda g: g * g, lambda g: 2.0 * g),
    "relu": (agrad.relu, lambda g: agrad.astype(g > 0.0, agrad.float64)),
}


@pytest.mark.parametrize(("bent", "slope"), BENT.values(), ids=BENT)
def test_a_pullback_that_is_not_linear_has_no_transpose(bent: Any, slope: Any, place: Any) -> None:
    inner = agrad.custom_vjp(lambda g: bent(g))
    inner.defvjp(lambda g: (bent(g), g), lambda kept, t: (t * slope(kept),))
    outer = agrad.custom_vjp(lambda x: x * 1.0)
    outer.defvjp(lambda x: (x * 1.0, None), lambda kept, g: (inner(g),))
    fails(NotDifferentiableError, "must be linear, but", lambda: agrad.jvp(outer, (place(B),), (place(np.ones(3)),)))


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp", "fwd"])
def test_a_function_with_rules_that_writes_into_an_argument_is_refused(kind: str) -> None:
    def written(a: Any) -> Any:
        a[0] = 9.0
        return a * a

    plain = lambda a: a * a  # noqa: E731

    def made() -> Any:
        if kind == "custom_jvp":
            f = agrad.custom_jvp(written)
            f.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
            return f
        f = agrad.custom_vjp(plain if kind == "fwd" else written)
        f.defvjp(lambda a: ((written if kind == "fwd" else plain)(a), a), lambda a, g: (2 * a * g,))
        return f

    def loss(f: Any) -> Any:
        return lambda t: agrad.sum(f(t * 2) * (t * 2))

    if kind == "fwd":
        ways = [lambda f: agrad.grad(loss(f))(X), lambda f: agrad.jit(agrad.grad(loss(f)))(X)]
    else:  # a derivative calls the rule in the place of the function
        ways = [
            lambda f: f(agrad.asarray(X.tolist())),
            lambda f: f(X.copy()),
            lambda f: agrad.jit(f)(agrad.asarray(X)),
            lambda f: agrad.vmap(loss(f))(ROWS),
        ]
    for way in ways:
        fails(OperandError, r"must not write to an argument.* shape \(3,\).*y = x \+ 0", way, made())
