"""Rules by hand that call the function itself, as the adjoint of a linear solve does: second derivatives, and maps."""

from typing import Any

import numpy as np
import pytest
from checker import assert_close

import agrad
from agrad.errors import NotDifferentiableError, TracedValueError

A = np.asarray([[4.0, 1.0, 0.5], [0.0, 3.0, -1.0], [1.0, 0.0, 5.0]])
B = np.asarray([1.0, -2.0, 3.0])
V = np.asarray([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0], [0.0, 1.0, 1.0]])


def adjoint(solve: Any) -> Any:
    """The solver with the pullback that calls it: of x = solve(a, b), a.T y = g gives the cotangent y of b."""

    def fwd(a: Any, b: Any) -> Any:
        x = solve(a, b)
        return x, (a, x)

    def bwd(kept: Any, g: Any) -> Any:
        a, x = kept
        y = solve(a.T, g)
        return -y[:, None] * x[None, :], y

    solve.defvjp(fwd, bwd)
    return solve


def of_agrad() -> Any:
    return adjoint(agrad.custom_vjp(lambda a, b: agrad.linalg.solve(a, b)))


def of_numpy(batch: str) -> Any:
    return adjoint(agrad.custom_vjp(lambda a, b: np.linalg.solve(np.asarray(a), np.asarray(b)), batch=batch))


def second_derivatives(solve: Any, a: Any, b: Any, v: Any) -> dict[str, Any]:
    def f(a: Any) -> Any:
        return agrad.sum(solve(a, b) ** 3)

    def g(b: Any) -> Any:
        return agrad.sum(solve(a, b) ** 3)

    return {
        "hessian by a": agrad.hessian(f)(a),
        "hessian by b": agrad.hessian(g)(b),
        "hvp": agrad.hvp(f, (a,), (v,))[0],
        "reverse over reverse": agrad.grad(lambda a: agrad.sum(agrad.grad(f)(a) * v))(a),
        "jacrev of grad": agrad.jacrev(agrad.grad(f))(a),
        "jacfwd": agrad.jacfwd(f)(a),
        "jacfwd of jacfwd": agrad.jacfwd(agrad.jacfwd(g))(b),
        "a map": agrad.vmap(agrad.grad(f))(agrad.stack([agrad.asarray(a), agrad.asarray(v) + 4 * agrad.asarray(a)])),
        "third order": agrad.hessian(agrad.grad(g))(b),
    }


def test_the_adjoint_of_a_solve_has_second_derivatives(place: Any) -> None:
    a, b, v = place(A), place(B), place(V)
    expected = second_derivatives(agrad.linalg.solve, a, b, v)
    for name, found in second_derivatives(of_agrad(), a, b, v).items():
        assert_close(found, expected[name], name, 1e-10)


def test_of_another_librarys_code_called_once_a_member() -> None:
    expected = second_derivatives(agrad.linalg.solve, A, B, V)
    for name, found in second_derivatives(of_numpy("loop"), A, B, V).items():
        assert_close(found, expected[name], name, 1e-10)


def test_an_error_under_a_map_names_the_loop() -> None:
    solve = of_numpy("vmap")

    def f(a: Any) -> Any:
        return agrad.sum(solve(a, B) ** 3)

    for call in (agrad.jacrev(agrad.grad(f)), agrad.hessian(f), agrad.jacfwd(f)):
        with pytest.raises(TracedValueError, match='batch="loop"'):
            call(A)
    with pytest.raises(TracedValueError, match='batch="loop"'):
        agrad.vmap(agrad.grad(f))(np.stack([A, A]))


def test_a_pullback_of_raw_code_is_called_once_for_each_mapped_cotangent() -> None:
    sine = agrad.custom_vjp(lambda x: np.sin(np.asarray(x)), batch="loop")
    sine.defvjp(lambda x: (np.sin(x), x), lambda x, g: (np.asarray(g) * np.cos(np.asarray(x)),))
    assert_close(agrad.jacrev(sine)(B), np.diag(np.cos(B)), "jacrev", 1e-12)
    two = agrad.vmap(lambda x: agrad.jacrev(sine)(x))(np.stack([B, 2 * B]))
    assert_close(two, np.stack([np.diag(np.cos(B)), np.diag(np.cos(2 * B))]), "vmap of jacrev", 1e-12)

    def of_both(s: Any) -> Any:
        return agrad.vmap(lambda x, w: agrad.jacrev(lambda y: s(y * w) * w)(x))(V, A)

    assert_close(of_both(sine), of_both(agrad.sin), "with what is mapped outside", 1e-12)


@pytest.mark.parametrize(
    ("bent", "slope"),
    [
        (lambda g: agrad.clip(g, -1.0, 1.0), lambda g: agrad.astype(agrad.abs(g) < 1.0, agrad.float64)),
        (lambda g: g * g, lambda g: 2.0 * g),
        (agrad.relu, lambda g: agrad.astype(g > 0.0, agrad.float64)),
        (agrad.abs, agrad.sign),
    ],
    ids=["clip", "square", "relu", "abs"],
)
def test_a_pullback_that_is_not_linear_has_no_transpose(bent: Any, slope: Any, place: Any) -> None:
    inner = agrad.custom_vjp(lambda g: bent(g))
    inner.defvjp(lambda g: (bent(g), g), lambda kept, t: (t * slope(kept),))
    outer = agrad.custom_vjp(lambda x: x * 1.0)
    outer.defvjp(lambda x: (x * 1.0, None), lambda kept, g: (inner(g),))
    x = place(B)
    with pytest.raises(NotDifferentiableError, match="must be linear, but"):
        agrad.jvp(outer, (x,), (place(np.ones(3)),))


@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp"])
@pytest.mark.parametrize("batch", ["vmap", "loop"])
def test_a_map_of_a_tall_jacobian(kind: str, batch: str) -> None:
    """Its pullback is recorded and transposed inside the map, whose members the rule takes apart."""
    f = getattr(agrad, kind)(lambda x, y: x * agrad.sum(y), batch=batch)
    if kind == "custom_vjp":
        f.defvjp(
            lambda x, y: (f.f(x, y), (x, y)),
            lambda r, g: (g * agrad.sum(r[1]), agrad.full_like(r[1], agrad.sum(g * r[0]))),
        )
    else:
        f.defjvp(lambda p, t: (f.f(*p), t[0] * agrad.sum(p[1]) + p[0] * agrad.sum(t[1])))
    expected = np.broadcast_to(B[:, None], (3, 3, 2))
    assert_close(agrad.vmap(agrad.jacobian(f, argnums=1), in_axes=(None, 0))(B, V[:, :2]), expected, "jacobian", 1e-12)

    def along(y: Any) -> Any:
        return agrad.linearize(lambda y: f(B, y), y)[1](agrad.ones_like(y))

    assert_close(agrad.vmap(along)(V), np.broadcast_to(3 * B, (3, 3)), "linearize", 1e-12)
