"""Jacobians, Hessians, their products, linear maps: structures, modes, chunks, complex numbers, errors, memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cases import CASES
from checker import assert_close, host, outputs, random_like
from crossing import each
from jit_help import memory_of
from modes import check_same
from table import Case
from tensors import draw

import agrad
from agrad.dtypes import dtype_name
from agrad.engine import batching
from agrad.transforms.trees import flatten

jacobians = pytest.mark.parametrize("jac", [agrad.jacrev, agrad.jacfwd, agrad.jacobian], ids=lambda f: f.__name__)


def complex_draw(*shape: int) -> np.ndarray:
    return draw(*shape) + 1j * draw(*shape, seed=1)


def curve(x: Any) -> Any:
    return agrad.sum(agrad.sin(x) * x * agrad.flip(x))


# ---------------------------------------------------------------- the table

SMOOTH = [c for c in CASES if not c.row.constant and not c.example.kink and c.places and not c.is_empty]


@each(SMOOTH)
def test_forward_reverse_and_linearized_agree(case: Case) -> None:
    """Two modes, chunks, and the columns of the linearization. Of complex functions only two tangents."""
    f, xs = case.problem()
    _, push = agrad.linearize(f, *xs)
    ts = random_like(xs, case.rng())
    pushed = outputs(push(*ts))
    for part, tangent in zip(pushed, outputs(agrad.jvp(f, tuple(xs), tuple(ts))[1]), strict=True):
        assert_close(part, host(tangent), "the linearization", 1e-9)
    if any("complex" in dtype_name(part.dtype) for part in (*xs, *outputs(f(*xs)))):
        return
    every = tuple(range(len(xs)))
    blocks = agrad.jacrev(f, every)(*xs)
    forward = agrad.jacfwd(f, every, chunk_size=3)(*xs)
    chunked = agrad.jacrev(f, every, chunk_size=2)(*xs)
    rows = blocks if isinstance(f(*xs), tuple) else (blocks,)
    for part, row in zip(pushed, rows, strict=True):
        along = sum(np.tensordot(host(block), host(t), axes=host(t).ndim) for block, t in zip(row, ts, strict=True))
        assert_close(part, along, "reverse and the linearization", 1e-9)
    for a, b, c in zip(flatten(blocks)[0], flatten(forward)[0], flatten(chunked)[0], strict=True):
        assert_close(a, host(b), "reverse and forward", 1e-9)
        assert_close(a, host(c), "in chunks", 1e-12)


# ---------------------------------------------------------------- structure


@dataclass
class Point:
    x: Any
    y: Any


@jacobians
def test_a_container_of_outputs_by_a_container_of_inputs(jac: Any) -> None:
    w, x, b = draw(3, 4), draw(4), draw(3)

    def f(p: Any, b: Any) -> Any:
        return {"s": agrad.sum(p["at"].x), "y": [p["w"] @ p["at"].x + b]}

    got = jac(f, argnums=(0, 1))({"w": w, "at": Point(x, b)}, b)
    assert set(got) == {"s", "y"}
    by_p, by_b = got["y"][0]
    assert_close(by_b, np.eye(3), "by b")
    assert_close(by_p["at"].x, w, "by x")
    assert_close(by_p["at"].y, np.zeros((3, 3)), "by what is not used")
    assert_close(by_p["w"], np.einsum("ij,k->ijk", np.eye(3), x), "by w")
    assert_close(got["s"][0]["at"].x, np.ones(4), "of a scalar")
    assert got["s"][0]["w"].shape == (3, 4)


@jacobians
def test_shapes_are_outputs_by_inputs(jac: Any, place: Any) -> None:
    x = place(draw(2, 3))
    got = jac(lambda x: agrad.sin(x)[:, None, :] * agrad.ones((2, 4, 3)))(x)
    assert tuple(got.shape) == (2, 4, 3, 2, 3) and type(got) is type(x)
    assert_close(host(got)[1, 2, 0, 1, 0], np.cos(host(x)[1, 0]), "one element")
    assert isinstance(jac(agrad.sin)(agrad.asarray(x)), agrad.Tensor)
    assert tuple(jac(agrad.sum)(x).shape) == (2, 3)
    assert tuple(jac(lambda x: x[0:0])(x).shape) == (0, 3, 2, 3)
    assert tuple(jac(lambda x: agrad.sum(x, axis=1))(x[:, 0:0]).shape) == (2, 2, 0)
    assert_close(jac(lambda x: 2.0)(x), np.zeros((2, 3)), "of a constant")


@jacobians
def test_aux(jac: Any) -> None:
    got, aux = jac(lambda x: (x * x, {"twice": 2 * x, "name": "aux"}), has_aux=True)(draw(3))
    assert_close(got, np.diag(2 * draw(3)), "Jacobian")
    assert type(aux["twice"]) is np.ndarray and aux["name"] == "aux"
    assert_close(aux["twice"], 2 * draw(3), "aux")


@jacobians
def test_arguments_by_name(jac: Any) -> None:
    def f(a: Any, b: Any, *, scale: Any) -> Any:
        return a * b * scale

    a, b, s = draw(3), draw(3, seed=1), draw(3, seed=2)
    by_scale, by_a = jac(f, argnums=("scale", "a"))(a, b, scale=s)
    assert_close(by_scale, np.diag(a * b), "a keyword argument")
    assert_close(by_a, np.diag(b * s), "a positional argument by its name")
    assert_close(jac(f, argnums="b")(a, b=b, scale=s), np.diag(a * s), "positional, given by keyword")


# ---------------------------------------------------------------- second derivatives


def test_products_agree_with_the_matrices(place: Any) -> None:
    x, v = place(draw(4)), place(draw(4, seed=1))
    matrix = host(agrad.hessian(curve)(x))
    assert_close(agrad.hvp(curve, (x,), (v,))[0], matrix @ host(v), "hvp")
    found, aux = agrad.hvp(lambda x: (curve(x), "aux"), (x,), (v,), has_aux=True)
    assert aux == "aux"
    assert_close(found[0], matrix @ host(v), "hvp with aux")

    def model(x: Any) -> Any:
        return {"y": agrad.sin(x) * agrad.sum(x), "z": x[0] * x}

    def loss(out: Any) -> Any:
        return agrad.sum(agrad.exp(out["y"])) + agrad.sum(out["z"] ** 4)

    jac = agrad.jacobian(model)(x)
    second = agrad.hessian(loss)(model(x))
    expected = sum(host(jac[a]).T @ host(second[a][b]) @ host(jac[b]) for a in "yz" for b in "yz") @ host(v)
    assert_close(agrad.gnvp(model, loss, (x,), (v,))[0], expected, "gnvp", 1e-9)


def test_elementwise_gradients() -> None:
    x = draw(2, 3)
    assert_close(agrad.elementwise_grad(agrad.tanh)(x), 1 - np.tanh(x) ** 2, "slopes")
    assert_close(agrad.elementwise_grad(agrad.elementwise_grad(agrad.sin))(x), -np.sin(x), "second")
    by_a, by_b = agrad.elementwise_grad(lambda a, b: a * b, argnums=("a", 1))(x, draw(3))
    assert_close(by_a, np.ones((2, 1)) * draw(3), "by a")
    assert_close(by_b, x.sum(0), "what is broadcast is summed")
    got, aux = agrad.elementwise_grad(lambda x: (x * x, 7), has_aux=True)(x)
    assert aux == 7
    assert_close(got, 2 * x, "with aux")
    z = complex_draw(3)
    assert_close(agrad.elementwise_grad(agrad.sin, holomorphic=True)(z), np.cos(z), "holomorphic")


# ---------------------------------------------------------------- linear maps


def test_linearized_functions_do_not_run_again(place: Any) -> None:
    calls = []

    def f(p: Any) -> Any:
        calls.append(1)
        return {"y": agrad.sin(p["x"]) * p["x"][0], "fixed": agrad.ones(2)}

    x, v = place(draw(3)), place(draw(3, seed=1))
    value, push = agrad.linearize(f, {"x": x})
    for scale in (1.0, 2.0, 0.0):
        t = push({"x": v * scale})
        _, expected = agrad.jvp(f, ({"x": x},), ({"x": v * scale},))
        assert_close(t["y"], host(expected["y"]), "tangent")
        assert_close(t["fixed"], np.zeros(2), "of a constant")
    assert len(calls) == 4
    assert_close(value["y"], host(agrad.sin(x) * x[0]), "value")


def test_linearized_functions_are_differentiable_and_map() -> None:
    x, vs = draw(3), draw(5, 3, seed=1)
    _, push = agrad.linearize(lambda x: agrad.sin(x) * agrad.sum(x), x)
    matrix = agrad.jacfwd(lambda x: agrad.sin(x) * agrad.sum(x))(x)
    assert_close(agrad.vmap(push)(vs), vs @ matrix.T, "a map of tangents")
    assert_close(agrad.jacrev(push)(vs[0]), matrix, "the Jacobian of a linear function")
    whole = agrad.grad(lambda x: agrad.sum(agrad.linearize(agrad.sin, x)[1](agrad.ones(3))))(x)
    assert_close(whole, -np.sin(x), "the derivative of a linearization")
    value, push, aux = agrad.linearize(lambda x: (x * x, x), x, has_aux=True)
    assert_close(aux, x, "aux")
    assert_close(push(x), 2 * value, "with aux")


def test_transposes_of_linear_functions() -> None:
    a, x = draw(3, 4), draw(4)

    def f(x: Any, y: Any) -> Any:
        return a @ x * 2 - agrad.flip(y["z"]) / 3, agrad.sum(agrad.where(x > 0, x, 0.0 * x))

    g = (draw(3, seed=1), np.asarray(2.0))
    by_x, by_y = agrad.linear_transpose(f, x, {"z": draw(3)})(g)
    assert_close(by_y["z"], -g[0][::-1] / 3, "by y")
    assert_close(by_x, 2 * a.T @ g[0], "by x, at zero")
    once = agrad.linear_transpose(lambda x: a @ x, x)
    assert_close(agrad.linear_transpose(lambda g: once(g)[0], draw(3))(x)[0], a @ x, "transposed twice")
    square = draw(4, 4)
    solved = agrad.linear_transpose(lambda b: agrad.linalg.solve(square, b), x)(x)[0]
    assert_close(solved, np.linalg.solve(square.T, x), "a solution is linear in the right-hand side")


# ---------------------------------------------------------------- complex numbers


def test_holomorphic_functions() -> None:
    z = complex_draw(3)
    for jac in (agrad.jacrev, agrad.jacfwd, agrad.jacobian):
        assert_close(jac(lambda z: z * z * agrad.sum(z), holomorphic=True)(z),
                     np.diag(2 * z * z.sum()) + (z * z)[:, None], "Jacobian")  # fmt: skip
    assert_close(agrad.grad(lambda z: agrad.sum(agrad.exp(z)), holomorphic=True)(z), np.exp(z), "gradient")
    assert_close(agrad.hessian(lambda z: agrad.sum(z**3), holomorphic=True)(z), np.diag(6 * z), "Hessian")


def test_between_real_and_complex() -> None:
    x, z = draw(3), complex_draw(2)
    turned = agrad.jacobian(lambda x: agrad.exp(1j * x))(x)
    assert_close(turned, np.diag(1j * np.exp(1j * x)), "complex of real")
    assert_close(agrad.jacobian(lambda z: agrad.abs(z) ** 2)(z), np.diag(2 * np.conj(z)), "real of complex")


# ---------------------------------------------------------------- memory, threads, tasks


def test_forward_mode_holds_no_graph() -> None:
    """Four thousand steps take no more memory than five hundred."""

    def loop(steps: int) -> Callable[[], Any]:
        def f(x: Any) -> Any:
            for _ in range(steps):
                x = x * 1.00001 + 1e-6
            return x

        return lambda: agrad.jvp(f, (np.ones(64),), (np.ones(64),))

    loop(10)()
    assert memory_of(loop(4000))[1] < memory_of(loop(500))[1] + 4000


def test_chunks_bound_the_memory() -> None:
    w = draw(300, 300)

    def f(x: Any) -> Any:
        for _ in range(10):
            x = agrad.tanh(w @ x)
        return x

    x = draw(300)
    whole, chunked = (memory_of(agrad.jacrev(f, chunk_size=c), x)[1] for c in (None, 10))
    row = 300 * 8
    assert chunked < 2.6 * 300 * row  # the result, its parts before they are joined, and ten rows on their way
    assert whole > chunked


# ---------------------------------------------------------------- forward or in reverse, in how many calls


def test_jacobian_takes_the_cheaper_way(monkeypatch: pytest.MonkeyPatch) -> None:
    members = []
    original = batching.Batch.__init__

    def counted(self: Any, count: int) -> None:
        members.append(count)
        original(self, count)

    monkeypatch.setattr(batching.Batch, "__init__", counted)
    x, w = draw(3), draw(20, 3)
    assert_close(agrad.jacobian(lambda x: w @ x)(x), w, "tall")
    assert_close(agrad.jacobian(lambda x: w.T @ x)(draw(20)), w.T, "wide")
    assert members == [3, 3]
    agrad.jacobian(lambda x: w @ x, chunk_size=2)(x)
    assert members[2:] == [2]  # one vector alone needs no map


def test_a_single_row_needs_no_map() -> None:
    @agrad.primitive
    def cube(xp: Any, x: Any, /) -> Any:
        return x**3

    @cube.vjp
    @cube.jvp
    def cube_rule(g: Any, x: Any) -> Any:
        return 3 * g * x**2

    x = draw(3)
    assert_close(agrad.jacrev(lambda x: agrad.sum(cube(x)))(x), 3 * x**2, "one row")
    assert_close(agrad.jacrev(cube, chunk_size=1)(x), np.diag(3 * x**2), "row by row")
    assert_close(agrad.jacfwd(cube, chunk_size=1)(x), np.diag(3 * x**2), "column by column")


def test_jacobian_calls_a_function_of_few_arguments_once() -> None:
    called = []
    x, data = draw(3), draw(7, 3)

    def f(x: Any) -> Any:
        called.append(type(x))
        q, r = agrad.linalg.qr(agrad.reshape(data @ x, (7, 1)) * agrad.exp(x[:1]))
        big = agrad.concat([agrad.maximum(data @ x, 0.1), x[1] * data[:, 0], agrad.reshape(q, (7,)) * r[0, 0]])
        return {"big": big, "of one": agrad.stack([x[0], x[0] * 2.0]), "of none": agrad.asarray(data[0])}

    for chunk_size in (None, 1, 2):
        called.clear()
        found = agrad.jacobian(f, chunk_size=chunk_size)(x)
        assert len(called) == 1
        for name, block in agrad.jacrev(f)(x).items():
            assert_close(found[name], block, name)
    big = lambda x: f(x)["big"]  # noqa: E731
    check_same(agrad.jacobian(big), agrad.jacrev(big), (x,), ("jacrev", "vmap"))


def test_jacobian_of_functions_with_derivatives_of_their_own() -> None:
    @agrad.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * g * x**2,))
    x = draw(2)
    again = agrad.checkpoint(lambda x: agrad.concat([agrad.sin(x), x * x]))
    assert_close(
        agrad.jacobian(again)(x), np.concatenate([np.diag(np.cos(x)), np.diag(2 * x)]), "of a checkpointed function"
    )
    assert_close(agrad.jacobian(cube)(x), np.diag(3 * x**2), "in reverse")


def test_infinite_slopes_behind_where() -> None:
    """The recorded pullback keeps them: a guard puts 0 only where a branch is not used."""

    def f(x: Any) -> Any:
        return agrad.where(x >= 0, agrad.sqrt(x), 0.0 * x)

    x = np.asarray([0.0, 1.0])
    with np.errstate(all="ignore"):
        assert agrad.linearize(f, x)[1](np.ones(2)).tolist() == [np.inf, 0.5]
        tall = agrad.jacobian(lambda x: agrad.concat([f(x), x]))(x)
        assert np.diagonal(tall).tolist() == [np.inf, 0.5]
        unused = agrad.jacobian(lambda x: agrad.concat([agrad.where(x > 1.0, agrad.sqrt(x), x), x]))(x)
        assert_close(unused, np.concatenate([np.eye(2)] * 2), "of a branch that is not used")
