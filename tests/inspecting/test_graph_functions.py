"""``agrad.graph`` of a function: what a call computes, before and after each transform."""

import shutil
from typing import Any

import numpy as np
import pytest
from checker import assert_close, host
from refusals import fails

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.inspecting.graph import Graph

W, X = np.asarray([[0.5, -1.0], [0.25, 2.0], [1.0, 0.1]]), np.linspace(-1.0, 1.0, 12).reshape(4, 3)


def f(w: Any, x: Any) -> Any:
    return agrad.sum(agrad.tanh(agrad.matmul(x, w)) ** 2)


def ops(graph: Graph) -> list[str | None]:
    return [row.op for row in graph.rows]


def outputs(graph: Graph) -> list[Any]:
    return [row.value for row in graph.rows if row.output]


def test_before_a_transform(place: Any) -> None:
    graph = agrad.graph(f)(place(W), place(X))
    w, x, product, _, power, total = graph.rows
    assert ops(graph) == [None, None, "matmul", "tanh", "pow", "sum"]
    assert (w.name, x.name, [i.row for i in product.inputs], power.inputs[1].value) == ("w", "x", [1, 0], 2)
    assert total.settings == {"axis": (0, 1), "keepdims": False}
    assert_close(outputs(graph)[0], f(W, X), "the output", 1e-12)


@pytest.mark.parametrize(
    "transformed",
    [
        agrad.grad(f),
        agrad.value_and_grad(f, argnums=(0, 1)),
        agrad.jacfwd(f),
        agrad.hessian(f),
        agrad.vmap(f, in_axes=(None, 0)),
        agrad.vmap(agrad.grad(f), in_axes=(None, 0)),
        agrad.grad(lambda w, x: agrad.sum(agrad.grad(f)(w, x) ** 2)),
        lambda w, x: agrad.jvp(f, (w, x), (w, x)),
        lambda w, x: agrad.linearize(f, w, x)[1](w, x),
        agrad.no_grad()(f),
    ],
    ids=["grad", "value", "jacfwd", "hessian", "vmap", "vmap grad", "grad grad", "jvp", "linearize", "no_grad"],
)
def test_after_a_transform(transformed: Any, place: Any) -> None:
    """The rows are complete: computed again from the inputs by the rows alone, they give the transform's result."""
    w, x = place(W), place(X)
    graph = agrad.graph(transformed, limit=None)(w, x)
    expected = transformed(w, x)
    expected = [expected] if not isinstance(expected, tuple) else [
        part for item in expected for part in (item if isinstance(item, tuple) else (item,))
    ]  # fmt: skip
    for got, wanted in zip(sorted(outputs(graph), key=_key), sorted(expected, key=_key), strict=True):
        assert_close(got, wanted, "the result")
    assert len(graph) == len(graph.rows)
    for row in graph.rows:
        assert all(i.row is None or i.row < row.index for i in row.inputs)
    # nothing that depends on the inputs stands as a constant: other inputs give the same operations
    assert ops(agrad.graph(transformed, limit=None)(w * 0.5, x * 0.5)) == ops(graph)
    assert graph.rows[0].consumers and graph.rows[1].consumers


def _key(value: Any) -> tuple[Any, ...]:
    return (host(value).shape, float(np.sum(host(value))))


def test_the_gradient_consists_of_operations() -> None:
    graph = agrad.graph(agrad.grad(lambda x: x**3))(2.0)
    assert ops(graph) == [None, "pow", "pow", "multiply", "multiply"]
    assert [row.consumers for row in graph.rows] == [2, 0, 1, 1, 0]
    assert outputs(graph) == [12.0]
    assert str(graph).splitlines()[1].split()[:3] == ["0", "x", "()"]


def test_names_of_inputs() -> None:
    def g(params: Any, *rest: Any, scale: float = 1.0) -> Any:
        return params["w"][0] * rest[1] * scale

    graph = agrad.graph(g)({"w": [X]}, W, agrad.asarray(X), scale=2.0)
    assert [row.name for row in graph.rows if row.op is None] == ["params['w'][0]", "rest[0]", "rest[1]"]
    told = hasattr(np.add, "__signature__")  # newer NumPy's
    expected = ["x1", "x2"] if told else ["argument 0", "argument 1"]
    assert [row.name for row in agrad.graph(np.add)(X, X).rows[:2]] == expected


def test_several_outputs_and_constants() -> None:
    graph = agrad.graph(lambda x: (agrad.linalg.qr(x)[1], x, agrad.asarray(1.0), 3))(X)
    assert ops(graph) == [None, "linalg.qr", "linalg.qr.Q", "linalg.qr.R", None]
    assert [row.output for row in graph.rows] == [True, False, False, True, True]
    assert (graph.rows[1].consumers, graph.rows[4].name) == (2, "constant")


def test_limit_and_errors() -> None:
    graph = agrad.graph(agrad.hessian(f), limit=4)(W, X)
    assert len(graph.rows) == 4 < len(graph)
    assert "rows left out; limit=None shows all" in str(graph)
    fails(ConfigurationError, "limit", agrad.graph, f, limit=1)
    fails(OperandError, "gradients must be None for a function", agrad.graph, f, gradients=True)
    assert agrad.graph(f).__name__ == "f"


def test_pictures() -> None:
    graph = agrad.graph(agrad.grad(f))(W, X)
    dot = graph.to_dot()
    assert dot.count("matmul") == 2 and "n0 -> n2;" in dot and "peripheries=2" in dot
    if shutil.which("dot"):
        assert graph.to_svg().count('class="node"') >= len(graph)


def test_outputs_whose_number_varies() -> None:
    graph = agrad.graph(agrad.grad(lambda x: agrad.sum(agrad.unstack(x)[1] ** 2)))(X)
    assert "unstack.parts[1]" in ops(graph)
    assert_close(outputs(graph)[0], np.where(np.arange(4)[:, None] == 1, 2 * X, 0.0), "the gradient")
