"""Rules written by hand: against JAX's where it is installed, at every level, around raw kernels; what is refused."""

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host

import agrad
from agrad.errors import (
    ConfigurationError,
    MissingRuleError,
    NotDifferentiableError,
    OperandError,
    RuleError,
    ShapeError,
)
from examples import kernels

_rng = np.random.default_rng(1)
X, ROWS = _rng.standard_normal(3), _rng.standard_normal((2, 3))


def made(m: Any, xp: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Two functions with rules that are wrong by a factor of 3, so that it shows whose derivative is used."""

    @m.custom_vjp
    def f(p: Any, n: Any) -> Any:
        return {"y": xp.sin(p["a"]) * p["b"], "z": p["b"] * n}

    def fwd(p: Any, n: Any) -> Any:
        return {"y": xp.sin(p["a"]) * p["b"], "z": p["b"] * n}, (p, xp.cos(p["a"]), n)

    def bwd(kept: Any, g: Any) -> Any:
        p, c, n = kept
        return {"a": 3 * c * p["b"] * g["y"], "b": xp.sin(p["a"]) * g["y"] + n * g["z"]}, None

    f.defvjp(fwd, bwd)

    @m.custom_jvp
    def h(a: Any, b: Any) -> Any:
        return xp.sin(a) * b

    @h.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (a, b), (s, t) = primals, tangents
        return h(a, b), 3 * xp.cos(a) * b * s + xp.sin(a) * t

    def with_vjp(a: Any) -> Any:
        out = f({"a": a, "b": a * a}, 2.0)
        return xp.sum(xp.sin(out["y"]) + out["z"])

    return with_vjp, lambda a: xp.sum(xp.sin(h(a, a * a)))


TOWERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda m, xp, f: m.grad(f)(X),
    "forward over reverse": lambda m, xp, f: m.jvp(m.grad(f), (X,), (X,))[1],
    "reverse over reverse": lambda m, xp, f: m.grad(lambda a: xp.sum(m.grad(f)(a) ** 2))(X),
    "jacobian of the gradient": lambda m, xp, f: m.jacfwd(m.grad(f))(X),
    "vmap of grad": lambda m, xp, f: m.vmap(m.grad(f))(ROWS),
    "grad of vmap": lambda m, xp, f: m.grad(lambda a: xp.sum(m.vmap(lambda r: f(r * a))(ROWS)))(X),
}


@pytest.mark.needs("jax")
@pytest.mark.parametrize("name", TOWERS)
@pytest.mark.parametrize("which", [0, 1], ids=["custom_vjp", "custom_jvp"])
def test_as_in_jax(name: str, which: int) -> None:
    import jax

    with agrad.use_backend("jax"):
        pass  # selecting it is what turns JAX's 64-bit mode on
    ours = TOWERS[name](agrad, agrad, made(agrad, agrad)[which])
    theirs = TOWERS[name](jax, jax.numpy, made(jax, jax.numpy)[which])
    assert_close(ours, np.asarray(theirs), name, 1e-12)
    assert np.max(np.abs(host(ours))) > 0.1


def test_forward_mode() -> None:
    f, h = made(agrad, agrad)
    for g in (f, h):
        _, t = agrad.jvp(g, (X,), (ROWS[0],))
        assert_close(t, np.sum(host(agrad.grad(g)(X)) * ROWS[0]), "the transposed rule")
        assert_close(agrad.vmap(lambda v, g=g: agrad.jvp(g, (X,), (v,))[1])(ROWS), agrad.grad(g)(X) @ ROWS.T, "mapped")
        assert_close(agrad.linearize(g, X)[1](ROWS[0]), t, "linearized")


def right() -> list[Callable[[Any, Any], Any]]:
    """Functions with right rules, which are handed and give arrays of any backend."""

    @agrad.custom_vjp
    def f(a: Any, b: Any) -> Any:
        return agrad.sin(a) * b

    f.defvjp(lambda a, b: (f(a, b), (a, b)), lambda kept, g: (g * kept[1] * agrad.cos(kept[0]), g * agrad.sin(kept[0])))

    @agrad.custom_jvp
    def h(a: Any, b: Any) -> Any:
        return agrad.sin(a) * b

    h.defjvps(lambda t, y, a, b: t * b * agrad.cos(a), lambda t, y, a, b: t * agrad.sin(a))
    return [f, h]


@pytest.mark.parametrize("which", [0, 1], ids=["custom_vjp", "custom_jvp"])
def test_on_every_backend_and_face(which: int, place: Any) -> None:
    f = right()[which]
    x, y = place(X), place(ROWS[0])
    plain = lambda a, b: agrad.sum(agrad.sin(a) * b)  # noqa: E731
    ruled = lambda a, b: agrad.sum(f(a, b))  # noqa: E731
    for towers in (
        lambda f: agrad.grad(f, (0, 1))(x, y),
        lambda f: agrad.jvp(f, (x, y), (y, x)),
        lambda f: (agrad.hessian(f)(x, y), agrad.jacrev(agrad.grad(f, 1))(x, y)),
    ):
        for a, b in zip(towers(ruled), towers(plain), strict=True):
            assert_close(a, host(b), "functional", 1e-12)
    found = []
    for g in (ruled, plain):
        a, b = (agrad.asarray(v, requires_grad=True) for v in (x, y))
        (g(a, b) ** 2).backward(create_graph=True)
        total = agrad.sum(a.grad**2) + agrad.sum(b.grad * a.grad)
        first, a.grad, b.grad = host(a.grad), None, None
        total.backward()
        found.append([first, host(a.grad), host(b.grad)])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, "imperative", 1e-12)


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


@pytest.mark.parametrize("kind", [agrad.custom_vjp, agrad.custom_jvp])
def test_many_cotangents_through_a_map_of_a_rule(kind: Any) -> None:
    """The map inside is older than the one of the cotangents, and square, so that an exchange of both would not show
    in shapes.
    """
    f = kind(lambda x: -agrad.sin(x))
    if kind is agrad.custom_vjp:
        f.defvjp(lambda x: (-agrad.sin(x), x), lambda x, g: (-g * agrad.cos(x),))
    else:
        f.defjvp(lambda p, t: (-agrad.sin(p[0]), -(t[0] * agrad.cos(p[0]))))
    a = np.arange(9.0).reshape(3, 3)

    def after(x: Any) -> Any:
        return a @ agrad.vmap(f)(x)

    assert_close(agrad.jacrev(after)(X), -a * np.cos(X), "jacrev", 1e-12)
    assert_close(agrad.vmap(agrad.vjp(after, X)[1])(np.eye(3))[0], -a * np.cos(X), "vmap of the pullback", 1e-12)
    twice = agrad.jacrev(agrad.jacrev(after))(X)
    assert_close(twice, a[:, :, None] * np.diag(np.sin(X)), "jacrev of jacrev", 1e-12)


@pytest.mark.parametrize("batch", ["vmap", "loop"])
def test_an_argument_that_all_members_share(batch: str, place: Any) -> None:
    """Its cotangent is the sum of the members' own, whether they are taken together or one by one."""
    calls = []
    f = agrad.custom_vjp(lambda a, b, scale: agrad.sin(a) * b * scale, batch=batch)

    def back(kept: Any, g: Any) -> Any:
        a, b, scale = kept
        calls.append(tuple(a.shape))
        return g * b * scale * agrad.cos(a), g * agrad.sin(a) * scale, None

    f.defvjp(lambda a, b, scale: (f(a, b, scale), (a, b, scale)), back)
    rows, shared, weights = place(ROWS), place(X), place(np.asarray([[1.0, -2.0, 0.5], [3.0, 0.25, 7.0]]))
    slopes = host(weights) * 2.0 * X * np.cos(ROWS), 2.0 * np.sum(host(weights) * np.sin(ROWS), axis=0)

    def total(rows: Any, shared: Any) -> Any:
        return agrad.sum(agrad.vmap(f, in_axes=(0, None, None))(rows, shared, 2.0) * weights)

    for found, slope in zip(agrad.grad(total, (0, 1))(rows, shared), slopes, strict=True):
        assert_close(found, slope, "functional", 1e-12)
    assert calls == [(3,)] * (1 if batch == "vmap" else 2)
    leaves = [agrad.asarray(v, requires_grad=True) for v in (rows, shared)]
    total(*leaves).backward()
    for x, slope in zip(leaves, slopes, strict=True):
        assert_close(x.grad, slope, "imperative", 1e-12)
    # of the shared one alone, which no member maps, and of a function of nothing mapped
    assert_close(agrad.grad(total, 1)(rows, shared), slopes[1], "the shared one alone", 1e-12)
    alone = agrad.grad(lambda b: agrad.sum(agrad.vmap(lambda row: f(shared, b, 2.0) + 0 * row)(rows)))(shared)
    assert_close(alone, 4.0 * np.sin(X), "members that map none of its arguments", 1e-12)


@pytest.mark.parametrize("batch", ["vmap", "loop"])
def test_a_tangent_that_all_members_share(batch: str, place: Any) -> None:
    h = agrad.custom_jvp(lambda a, b: agrad.sin(a) * b, batch=batch)
    h.defjvps(lambda t, y, a, b: t * b * agrad.cos(a), lambda t, y, a, b: t * agrad.sin(a))
    rows, shared = place(ROWS), place(X)
    mapped = agrad.vmap(h, in_axes=(0, None))
    _, both = agrad.jvp(mapped, (rows, shared), (place(2 * ROWS), place(3 * X)))
    assert_close(both, 2 * ROWS * X * np.cos(ROWS) + 3 * X * np.sin(ROWS), "both", 1e-12)
    _, one = agrad.jvp(lambda b: mapped(rows, b), (shared,), (place(3 * X),))
    assert_close(one, 3 * X * np.sin(ROWS), "the shared one alone", 1e-12)
    _, other = agrad.jvp(lambda a: mapped(a, shared), (rows,), (place(2 * ROWS),))
    assert_close(other, 2 * ROWS * X * np.cos(ROWS), "the mapped one alone", 1e-12)


def test_no_cotangent_of_some_members() -> None:
    f = agrad.custom_vjp(lambda x: x * 2, batch="loop")
    f.defvjp(lambda x: (x * 2, x), lambda x, g: (g * 2 if x > 0 else None,))
    x = np.asarray([1.0, -1.0, 2.0])
    assert_close(agrad.grad(lambda x: agrad.sum(agrad.vmap(f)(x)))(x), [2.0, 0.0, 2.0], "grad of vmap")
    assert_close(agrad.vmap(agrad.grad(f))(x), [2.0, 0.0, 2.0], "vmap of grad")
    with pytest.raises(ShapeError, match="must not be empty"):
        agrad.vmap(f)(x[:0])


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


def test_how_a_rule_is_called_is_checked() -> None:
    f = agrad.custom_vjp(lambda a, b=2.0: a * b)
    f.defvjp(lambda a, b: (a * b, (a, b)), lambda kept, g: [10 * g * kept[1], None])
    slope = agrad.grad(lambda a: agrad.sum(f(a, b=3.0)))(X)
    assert_close(slope, [30.0, 30.0, 30.0], "a list of cotangents, and an argument by keyword")
    for call, reason in (
        (lambda: f(), "missing a required argument: 'a'"),
        (lambda: f(X, c=1.0), "unexpected keyword argument 'c'"),
        (lambda: f(X, 1.0, 2.0), "too many positional arguments"),
    ):
        with pytest.raises(OperandError, match=f"^<lambda>: .*{reason}"):
            call()
    for call in (
        lambda: agrad.custom_vjp(lambda a, *, b=2.0: a * b)(X),
        lambda: agrad.custom_jvp(lambda a, **more: a)(X, b=1.0),
    ):
        with pytest.raises(OperandError, match="must not have keyword-only arguments"):
            call()


def test_how_a_rule_for_tangents_answers_is_checked() -> None:
    f = agrad.custom_jvp(lambda a, b: a * b)

    def tried(file: Callable[[], None], error: type[Exception], match: str) -> None:
        file()
        with pytest.raises(error, match=match):
            agrad.jvp(f, (X, X), (X, X))
        with pytest.raises(error, match=match):
            agrad.grad(lambda a: agrad.sum(f(a, X)))(X)

    tried(lambda: f.defjvp(lambda p, t: p[0] * p[1]), OperandError, r"a pair \(result, tangent\), got (Tensor|ndarray)")
    tried(lambda: f.defjvp(lambda p, t: (p[0] * p[1], (t[0], t[1]))), ShapeError, "with the structure of the result")
    tried(lambda: f.defjvps(lambda t, y, a, b: t * b), ConfigurationError, "for each of the 2 arguments, got 1")
    f.defjvps(None, lambda t, y, a, b: t * a)
    assert_close(agrad.jvp(f, (X, 2 * X), (X, 3 * X))[1], 3 * X**2, "the first argument has none", 1e-12)
    assert_close(agrad.grad(lambda a: agrad.sum(f(a, X) + a))(X), [1.0, 1.0, 1.0], "of the first alone")
    f.defjvps(None, None)
    assert_close(agrad.jvp(f, (X, X), (X, X))[1], np.zeros(3), "no argument has one")
    with pytest.raises(ConfigurationError, match="defjvps does not support nondiff_argnums"):
        agrad.custom_jvp(lambda n, a: a, nondiff_argnums=0).defjvps(None)


def test_a_bwd_that_uses_an_output_s_cotangent_twice_or_not_at_all() -> None:
    """The transpose of ``bwd`` adds what it sends along several ways, and knows ways that are cut."""
    f = agrad.custom_vjp(lambda a, b, c: (a * b, agrad.sin(c)))
    f.defvjp(
        lambda a, b, c: (f(a, b, c), (a, b, c)),
        lambda kept, g: (g[0] * kept[1], g[0] * kept[0], g[1] * agrad.cos(kept[2])),
    )
    (y, _), (s, t) = agrad.jvp(lambda a: f(a, 2 * a, a), (X,), (ROWS[0],))
    assert_close(y, 2 * X**2, "a product", 1e-12)
    assert_close(s, 4 * X * ROWS[0], "along two ways", 1e-12)
    assert_close(t, np.cos(X) * ROWS[0], "along one", 1e-12)
    same = agrad.custom_vjp(lambda a, b: a + b)
    same.defvjp(lambda a, b: (a + b, None), lambda kept, g: (g, g))
    assert_close(agrad.jvp(same, (X, X), (X, 3 * X))[1], 4 * X, "one cotangent for both", 1e-12)
    cut = agrad.custom_vjp(lambda a, b: a + b)
    cut.defvjp(lambda a, b: (a + b, None), lambda kept, g: (None, 5 * g))
    assert_close(agrad.jvp(cut, (X, X), (X, 3 * X))[1], 15 * X, "one that is cut", 1e-12)


def test_straight_through() -> None:
    @agrad.custom_jvp
    def quantized(x: Any) -> Any:
        return agrad.round(x)

    quantized.defjvp(lambda p, t: (quantized(p[0]), t[0]))
    by_stopping = lambda x: x + agrad.stop_gradient(agrad.round(x) - x)  # noqa: E731
    for f in (quantized, by_stopping):
        assert_close(f(X * 3), np.round(X * 3), "value")
        assert_close(agrad.grad(lambda x, f=f: agrad.sum(f(x) * x))(X * 3), np.round(X * 3) + X * 3, "slope", 1e-12)


@pytest.mark.parametrize("stop", [lambda y: agrad.stop_gradient({"y": y})["y"], agrad.Tensor.detach])
def test_constants_at_every_level(stop: Any, place: Any) -> None:
    x = place(X)
    f = lambda x: agrad.sum(stop(agrad.sin(x)) * x)  # noqa: E731
    assert_close(agrad.grad(f)(x), np.sin(X), "reverse")
    assert_close(agrad.jvp(f, (x,), (x,))[1], np.sum(np.sin(X) * X), "forward")
    assert_close(agrad.hessian(f)(x), np.zeros((3, 3)), "second order")
    assert_close(agrad.jit(agrad.grad(f))(x), np.sin(X), "jit")
    assert_close(agrad.vmap(agrad.grad(f))(place(ROWS)), np.sin(ROWS), "vmap of grad")
    mapped = lambda x: agrad.sum(agrad.vmap(f)(agrad.stack([x, x * 2])))  # noqa: E731
    assert_close(agrad.grad(mapped)(x), np.sin(X) + 2 * np.sin(2 * X), "grad of vmap")
    f(leaf := agrad.asarray(x, requires_grad=True)).backward()
    assert_close(leaf.grad, np.sin(X), "imperative")


# ---------------------------------------------------------------- raw kernels


def check_kernel(f: Any, expected: Any, x: Any, rows: Any) -> None:
    total, same = (lambda x: agrad.sum(f(x) ** 2)), (lambda x: agrad.sum(expected(x) ** 2))
    assert_close(f(x), host(expected(x)), "value", 1e-12)
    assert_close(agrad.grad(total)(x), host(agrad.grad(same)(x)), "gradient", 1e-12)
    assert_close(agrad.vmap(agrad.grad(total))(rows), host(agrad.vmap(agrad.grad(same))(rows)), "per sample", 1e-12)
    leaf = agrad.asarray(x, requires_grad=True)
    total(leaf).backward()
    assert_close(leaf.grad, host(agrad.grad(same)(x)), "imperative", 1e-12)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_c_function() -> None:
    f = kernels.c_function()
    check_kernel(f, lambda x: agrad.logaddexp(x, 0 * x), X, ROWS)
    # its slope stands in the pullback as a constant, so forward mode, which transposes that, works too
    _, t = agrad.jvp(f, (X,), (X,))
    assert_close(t, X / (1 + np.exp(-X)), "forward")


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

    check_kernel(lambda x: f(0.5, x), lambda x: recurrence(0.5, x), X, ROWS)
    slope = agrad.grad(lambda a: agrad.sum(f(a, X)))(np.asarray(0.5))
    assert_close(slope, agrad.grad(lambda a: agrad.sum(recurrence(a, X)))(np.asarray(0.5)), "the other argument")
    with pytest.raises(NotDifferentiableError, match="bwd must consist of agrad functions"):
        agrad.jvp(lambda x: f(0.5, x), (X,), (X,))


@pytest.mark.needs("cupy")
def test_a_cuda_kernel() -> None:
    with agrad.use_backend("cupy"):
        x, rows = (agrad.asarray(a, backend="cupy").raw for a in (X, ROWS))
        check_kernel(kernels.cuda_kernel(), lambda x: x * agrad.sigmoid(x), x, rows)


# ---------------------------------------------------------------- black boxes


def test_numerical_rule(place: Any) -> None:
    box = agrad.numerical_rule(lambda a, b: {"y": place(np.sin(host(a)) * np.sum(host(b)))})
    f = lambda a: agrad.sum(box(a, a * a)["y"] ** 2)  # noqa: E731
    g = lambda a: agrad.sum((agrad.sin(a) * agrad.sum(a * a)) ** 2)  # noqa: E731
    x = place(X)
    assert_close(agrad.grad(f)(x), host(agrad.grad(g)(x)), "reverse", 1e-8)
    assert_close(agrad.jvp(f, (x,), (place(ROWS[0]),))[1], host(agrad.grad(g)(x)) @ ROWS[0], "forward", 1e-8)
    assert_close(agrad.hessian(f)(x), host(agrad.hessian(g)(x)), "second order", 1e-4)
    assert_close(agrad.vmap(agrad.grad(f))(place(ROWS)), host(agrad.vmap(agrad.grad(g))(place(ROWS))), "mapped", 1e-8)
    assert_close(agrad.jvp(f, (x,), (x * 0,))[1], 0.0, "along nothing")


def test_numerical_rules_are_flagged_and_have_limits() -> None:
    box = agrad.numerical_rule(np.cbrt)
    assert "numerical cbrt" in str(agrad.graph(box(agrad.asarray(X, requires_grad=True))))
    large = agrad.numerical_rule(lambda x: x * x)
    assert_close(agrad.grad(lambda x: agrad.sum(large(x)))(np.asarray([1e6, 1e-6])), [2e6, 2e-6], "scales", 1e-8, 2e6)
    with pytest.raises(NotDifferentiableError, match="arguments must be real"):
        agrad.jvp(large, (X + 1j,), (X + 1j,))
    with pytest.raises(ConfigurationError, match="step"):
        agrad.numerical_rule(np.cbrt, step=0)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("given", [lambda p, t: agrad.stack([p[0], t[0]]), lambda p, t: (p[0], t[0], 0)])
def test_a_rule_gives_a_pair(given: Any) -> None:
    """An array of two rows is none, and unpacks like one."""
    h = agrad.custom_jvp(lambda x: x * 2)
    h.defjvp(given)
    with pytest.raises(OperandError, match="the rule must return a pair"):
        agrad.jvp(h, (X,), (X,))
    f = agrad.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: given((x,), (x,)), lambda kept, g: (g,))
    with pytest.raises(OperandError, match="a pair"):
        agrad.grad(lambda x: agrad.sum(f(x)))(X)


def test_what_is_refused() -> None:
    f = agrad.custom_vjp(lambda x: x * 2)
    with pytest.raises(MissingRuleError, match="defvjp"):
        agrad.grad(lambda x: agrad.sum(f(x)))(X)
    with pytest.raises(MissingRuleError, match="defjvp"):
        agrad.grad(lambda x: agrad.sum(agrad.custom_jvp(agrad.sin)(x)))(X)
    assert_close(f(X), X * 2, "without a derivative no rule is needed")

    def tried(fwd: Any, bwd: Any, error: type[Exception], match: str) -> None:
        f.defvjp(fwd, bwd)
        with pytest.raises(error, match=match):
            agrad.grad(lambda x: agrad.sum(f(x)))(X)

    tried(lambda x: x * 2, lambda kept, g: (g,), OperandError, "a pair")
    tried(lambda x: (x * 2, None), lambda kept, g: g, ShapeError, "a tuple with a cotangent for each")
    tried(lambda x: (x * 2, None), lambda kept, g: (g, g), ShapeError, "each of the 1 arguments, got 2 entries")
    tried(lambda x: (x * 2, None), lambda kept, g: ([g],), ShapeError, "with the structure")
    tried(lambda x: (x * 2, None), lambda kept, g: (g[:2],), RuleError, "shape")
    w = agrad.asarray(X, requires_grad=True)
    f.defvjp(lambda x: (x * w, None), lambda kept, g: (g,))
    with pytest.raises(NotDifferentiableError, match="close over"):
        f(w)
    h = agrad.custom_jvp(lambda x: x)
    h.defjvp(lambda p, t: (p[0], t[0] ** 2))
    once = agrad.checkpoint(lambda x: agrad.sin(x))
    for call, error, match in (
        (lambda: agrad.grad(lambda x: agrad.sum(h(x)))(X), NotDifferentiableError, "must be linear"),
        (lambda: agrad.custom_vjp(3), OperandError, "must be a function"),
        (lambda: agrad.custom_vjp(agrad.sin, batch="all"), ConfigurationError, "batch"),
        (lambda: agrad.custom_vjp(agrad.sin, nondiff_argnums=3)(X), ConfigurationError, "the 1 arguments, got 3"),
        (lambda: agrad.custom_vjp(lambda x: x, nondiff_argnums=0)(w), NotDifferentiableError, "nondiff_argnums"),
        (lambda: agrad.linear_transpose(lambda x: x**2, X), NotDifferentiableError, "pow"),
        (lambda: agrad.linear_transpose(once, X), NotDifferentiableError, "checkpoint"),
    ):
        with pytest.raises(error, match=match):
            call()


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
        with pytest.raises(OperandError, match=r"must not write to an argument.* shape \(3,\).*y = x \+ 0"):
            way(made())
