"""NumPy arrays beside arrays of the selected backend: they move there, and their cotangents come back."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import CASES
from checker import host, outputs
from crossing import Row, each, each_row
from modes import check_same
from refusals import fails
from table import Case

import agrad
import agrad.numpy as anp
from agrad.errors import LeafMutationError, MixedBackendsError, OperandError

X = np.asarray([1.0, 2.0, 3.0])
W = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]])
V = np.asarray([0.1, 0.2, 0.3])
Function = Callable[[Any], Any]


def model(w: Any, v: Any) -> Function:
    """Operators with the array of the selected backend on either side, functions, an index, writes."""

    def f(x: Any) -> Any:
        y = w @ x * v + x
        y[np.asarray([2])] *= V[:1]
        y[1] = x[0] * 2
        y[0] = v[1]
        picked = agrad.take(x, agrad.asarray([0, 2], backend=w.backend))
        return agrad.sum(y * y) * v[0] + agrad.sum(agrad.concat([x, v]) ** 2) + agrad.sum((x - v) ** 3 / v) + picked[1]

    return f


def arrays_of(name: str) -> tuple[Any, Any]:
    return agrad.asarray(W, backend=name), agrad.asarray(V, backend=name)


MIXED = ("gradient", "tangent", "forward over reverse", "reverse over reverse", "vmap of the gradient", "jacrev")
JITTED = ("jit", "jit of the gradient", "gradient of jit", "jit of vmap")


def test_derivatives_with_respect_to_numpy_arrays(backend: str) -> None:
    """Results are on the selected backend, and gradients where their arguments are."""
    here, there = agrad.get_backend(), "numpy"
    f, g = model(*arrays_of(here)), model(*arrays_of(there))
    check_same(f, g, (X,), [*MIXED, *JITTED])
    assert type(agrad.grad(f)(X)) is type(agrad.vjp(f, X)[1](np.asarray(1.5))[0]) is np.ndarray
    for found in (*agrad.jvp(f, (X,), (np.ones(3),)), f(agrad.asarray(X, backend=there))):
        assert agrad.asarray(found).backend == here
    x = agrad.asarray(X, backend=there, requires_grad=True)
    f(x).backward()
    (x * arrays_of(here)[1]).backward(np.ones(3))  # the cotangent moves too
    assert x.grad.backend == there
    np.testing.assert_allclose(x.grad.numpy(), agrad.grad(g)(X) + V, rtol=1e-12, atol=1e-12)
    t, s = agrad.asarray(X, backend=here), agrad.asarray(np.float64(2.0), backend=there, requires_grad=True)
    agrad.sum(s * t).backward()
    assert s.grad.backend == there and s.grad.item() == 6.0
    assert float(agrad.grad(lambda x: agrad.sum(agrad.sum(x) * t))(X)[0]) == 6.0


def control_flow(w: Any, v: Any) -> dict[str, Function]:
    """Loops, branches and solvers that begin with NumPy arrays and use arrays of the selected backend.

    Each uses its argument as a start and in what it closes over, and NumPy arrays there too.
    """
    ones, times = np.ones(3), np.asarray([0.0, 0.3])

    @agrad.custom_vjp
    def halved(x: Any) -> Any:
        return x * v / 2

    halved.defvjp(lambda x: (x * v / 2, x), lambda x, g: (g * v / 2 + 0 * x,))

    def total(*ys: Any) -> Any:
        return agrad.sum(agrad.stack([agrad.sum(y**2) for y in ys]))

    def solved(x: Any) -> Any:
        first = agrad.linear_solve(lambda y: w @ y + x * y, ones, X)
        return total(first, agrad.linear_solve(lambda y: w @ y, x))

    def integrated(x: Any) -> Any:
        y0, tight = {"a": x, "b": ones}, {"rtol": 1e-7, "atol": 1e-7}
        ys = agrad.odeint(lambda y, t: {"a": -y["a"] * v * x, "b": -0.1 * ones}, y0, times, **tight)
        return total(ys["a"], ys["b"])

    return {
        "scan": lambda x: total(agrad.scan(lambda c, row: (c * row + v * x, c * W[0]), ones, W * x)[0]),
        "rows of a scan": lambda x: total(agrad.scan(lambda c, row: (c * row, c * v * x), x, W)[1]),
        "fori_loop": lambda x: total(agrad.fori_loop(0, 3, lambda i, c: c * W[0] + v * x, ones)),
        "cond": lambda x: agrad.cond(x[0] > 1.5, lambda x: agrad.sum(v * x**2), lambda x: agrad.sum(x**3 * W[0]), x),
        "switch": lambda x: total(agrad.switch(2, [lambda x: x * W[0], lambda x: ones, lambda x: v * x], x)),
        "root": lambda x: total(agrad.root(lambda y: y**3 + v * y - x, ones), agrad.root(lambda y: y - v, x)),
        "fixed_point": lambda x: total(agrad.fixed_point(lambda y: 0.3 * agrad.cos(y) * v + x, ones)),
        "linear_solve": solved,
        "odeint": integrated,
        "custom_vjp": lambda x: total(halved(agrad.sin(x))),
        "checkpoint": lambda x: total(agrad.checkpoint(lambda y: agrad.sin(y) * v)(x)),
    }


@each_row(dict.fromkeys(control_flow(W, V)), elsewhere=True)
def test_control_flow_goes_on_with_arrays_of_the_selected_backend(case: Row, backend: str) -> None:
    f, g = (control_flow(*arrays_of(name))[case.name] for name in (agrad.get_backend(), "numpy"))
    modes = ("gradient", "tangent", "forward over reverse", "vmap of the gradient", *JITTED[1::2])
    check_same(f, g, (X,), modes, 1e-6)
    start = agrad.asarray(X, backend="numpy")
    np.testing.assert_allclose(host(f(start)), host(g(start)), rtol=1e-6, atol=1e-8)
    assert type(agrad.grad(f)(X)) is np.ndarray


def test_a_batched_branch_reads_arrays_of_the_selected_backend(backend: str) -> None:
    def gradients(v: Any) -> Any:
        inverse = lambda x: agrad.sum(v * agrad.linalg.inv(x[:1, None]))  # noqa: E731
        f = lambda x: agrad.cond(x[0] > 1.5, lambda x: agrad.sum(v * x), inverse, x)  # noqa: E731
        return host(agrad.vmap(agrad.grad(f))(np.stack([X, X + 1, np.zeros(3) + 3])))

    np.testing.assert_allclose(gradients(agrad.asarray(V, backend=agrad.get_backend())), gradients(V), rtol=1e-6)


def test_solvers_of_numpy_arrays_alone_remain_on_numpy(backend: str) -> None:
    """They call the function on NumPy arrays, and its results are NumPy arrays."""
    for found in (
        agrad.root(lambda y: y**3 - X, np.ones(3)),
        agrad.fixed_point(lambda y: 0.5 * agrad.cos(y), X),
        agrad.linear_solve(lambda y: W @ y + 9 * y, X),
        agrad.odeint(lambda y, t: -y, X, np.asarray([0.0, 1.0])),
    ):
        assert type(found) is np.ndarray


def test_a_traced_loop_moves_its_value_to_the_selected_backend(backend: str) -> None:
    v = agrad.asarray(V, backend=agrad.get_backend())

    def f(x: Any) -> Any:
        return agrad.while_loop(lambda c: agrad.sum(c) < 100.0, lambda c: c * 2 + v, x)

    for run in (f, agrad.jit(f)):
        found = run(agrad.asarray(X, backend="numpy"))
        assert found.backend == agrad.get_backend()
        np.testing.assert_allclose(host(found), 16 * X + 15 * V, rtol=1e-12)


def test_a_write_moves_a_numpy_tensor_and_its_views(backend: str) -> None:
    v = agrad.asarray(V, backend=agrad.get_backend())

    def f(x: Any) -> Any:
        rows = agrad.stack([x, x])
        row = rows[1]
        rows[0] = v * x
        row[:2] = v[:2] ** 2 * x[0]
        return agrad.sum(rows**2) + agrad.sum(row)

    def pure(x: Any) -> Any:
        row = agrad.concat([V[:2] ** 2 * x[0], x[2:]])
        return agrad.sum((V * x) ** 2) + agrad.sum(row**2) + agrad.sum(row)

    np.testing.assert_allclose(agrad.grad(f)(X), agrad.grad(pure)(X), rtol=1e-12, atol=1e-12)
    leaf = agrad.asarray(X, backend="numpy", requires_grad=True)
    with pytest.raises(LeafMutationError, match="must not change a leaf"):
        leaf[:] = v
    if backend != "numpy":
        with agrad.no_grad(), pytest.raises(OperandError, match=r'v\.to\("numpy"\)'):
            leaf[:] = v
        assert leaf.backend == "numpy"
        np.testing.assert_array_equal(leaf.detach().numpy(), X)


def test_arrays_are_created_on_the_selected_backend(backend: str) -> None:
    """In a function of NumPy arrays too, whose other arrays then move there."""
    found = []

    def f(x: Any) -> Any:
        out = anp.zeros(3)
        out[1:] = x[:2]
        found.append(out.backend)
        return anp.sum(out * anp.array([x[0], 1.0, 2.0]) * anp.array(V))

    gradient = agrad.grad(f)(X)
    assert found == [agrad.get_backend()]
    assert type(gradient) is np.ndarray
    np.testing.assert_allclose(gradient, [0.2, 0.6, 0.0], rtol=1e-12, atol=1e-12)


def test_without_a_selection_mixtures_are_errors() -> None:
    t = agrad.asarray(X, backend="array_api_strict")
    zero = agrad.asarray(np.float64(2.0), backend="numpy")
    hint = r'After agrad\.set_backend\("array_api_strict"\), operations move NumPy arrays there'
    with agrad.use_backend("numpy"):
        for other in (V, agrad.asarray(V, backend="numpy"), zero):
            for f in (lambda t, o=other: t * o, lambda t, o=other: agrad.where(t > 0, o, 1.0)):
                for run in (f, agrad.grad(lambda t, f=f: agrad.sum(f(t))), agrad.vmap(f)):
                    fails(MixedBackendsError, hint, run, t)
        fails(MixedBackendsError, r"x\[i\] = v was given arrays of", t.__setitem__, slice(None), V)
        fails(MixedBackendsError, r"[Mm]ove", lambda: agrad.ones(3)[agrad.asarray([0], backend="array_api_strict")])
    with agrad.use_backend("array_api_strict"):
        assert (t * np.float64(2.0)).backend == "array_api_strict"


def test_three_libraries_are_an_error() -> None:
    torch = pytest.importorskip("torch")
    with agrad.use_backend("array_api_strict"), pytest.raises(MixedBackendsError, match="numpy and of"):
        agrad.concat([agrad.asarray(V, backend="numpy"), torch.ones(3), agrad.ones(3)])
    with agrad.use_backend("array_api_strict"), pytest.raises(MixedBackendsError, match=r"numpy and of torch\."):
        agrad.asarray(V, backend="numpy") * torch.ones(3)


def mixable(case: Case) -> bool:
    return sum(isinstance(a, np.ndarray) for a in case.arguments()) > 1 and not (case.is_empty or case.row.slow)


SEPARATE = {"broadcast_arrays", "meshgrid", "repeat"}
"""Results for each array, where that is; and numbers of repetitions, which are read."""


@each([case for case in CASES if mixable(case) and case.group not in SEPARATE], elsewhere=True)
def test_every_operation_takes_numpy_arrays(case: Case, backend: str) -> None:
    """One of the arguments is a NumPy array: the result is on the selected backend, each gradient where its leaf is."""
    args, places = case.arguments(), case.places

    def leaves(where: Callable[[int], str]) -> list[Any]:
        return [
            agrad.asarray(a, backend=where(i), requires_grad=i in places and a.dtype.kind in "fc")
            if isinstance(a, np.ndarray)
            else a
            for i, a in enumerate(args)
        ]

    def gradients(given: list[Any]) -> list[Any]:
        ys = [y for y in outputs(case.call(*given)) if isinstance(y, agrad.Tensor)]
        assert {y.backend for y in ys} <= {agrad.get_backend()}
        recorded = [y for y in ys if y.requires_grad]
        for y in recorded:
            agrad.sum(agrad.abs(y) ** 2).backward(retain_graph=True)
        return [
            *map(host, [y.detach() for y in ys]),
            *[host(x.grad) for x in given if isinstance(x, agrad.Tensor) and x.grad is not None],
        ]

    with agrad.use_backend("numpy"):
        expected = gradients(leaves(lambda i: "numpy"))
    for place, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            given = leaves(lambda i, place=place: "numpy" if i == place else agrad.get_backend())
            for found, value in zip(gradients(given), expected, strict=True):
                np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-12)
            for x in given:
                assert not isinstance(x, agrad.Tensor) or x.grad is None or x.grad.backend == x.backend


@pytest.mark.parametrize("operation", [operator.add, operator.matmul, operator.pow, operator.lt])
def test_an_operator_of_an_array_and_a_constant_is_a_tensor(operation: Any, place: Any, backend: str) -> None:
    x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    raw, constant = place(x), agrad.asarray(place(x))
    if "strict" in backend:  # it defers to no other class
        with pytest.raises(TypeError, match="Expected Array"):
            operation(raw, constant)
        return
    found = operation(raw, constant)
    assert isinstance(found, agrad.Tensor)
    np.testing.assert_array_equal(host(found), operation(x, x))
