"""``agrad.graph``: the tape, or what a function computes, as a numbered list, as rows, and as a picture."""

import math
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from checker import assert_close, host
from leaves import leaf
from refusals import fails
from test_inspect import same, sine_and_cosine

import agrad
from agrad.errors import ConfigurationError, GraphFreedError, OperandError, ShapeError
from agrad.inspecting.graph import Graph

TAPE = """\
#  operation    shape  dtype    value   gradient  inputs  consumers
0  x1           ()     float64  1.5708  1.0               2
1  x2           ()     float64  1.0     1.0               1
2  sin          ()     float64  1.0     2.5708    %0      1
3  add          ()     float64  2.5708  1.0       %0, %1  1
4  y: multiply  ()     float64  2.5708  1.0       %2, %3  output"""


def example() -> tuple[agrad.Tensor, agrad.Tensor, agrad.Tensor]:
    x1, x2 = leaf(math.pi / 2), leaf(1.0)
    return x1, x2, agrad.sin(x1) * (x1 + x2)


def test_the_printed_tape(backend: str) -> None:
    x1, x2, y = example()
    tape = agrad.graph(y, gradients=True, names={"x1": x1, "x2": x2, "y": y})
    assert backend == "dask" or str(tape) == repr(tape) == TAPE  # Dask's values are not computed to be printed
    assert len(tape) == tape.count == len(tape.rows) == 5
    assert [[i.row for i in row.inputs] for row in tape.rows] == [[], [], [0], [0, 1], [2, 3]]
    assert [(row.op, row.consumers) for row in tape.rows[2:]] == [("sin", 1), ("add", 1), ("multiply", 0)]
    total = math.pi / 2 + 1
    np.testing.assert_allclose([host(row.value) for row in tape.rows], [math.pi / 2, 1, 1, total, total], rtol=1e-14)
    np.testing.assert_allclose([host(row.gradient) for row in tape.rows], [1, 1, total, 1, 1], rtol=1e-14)
    without = str(agrad.graph(y))
    assert "gradient" not in without and without.splitlines()[1].split()[1] == "leaf"


def test_values_that_no_rule_keeps_are_there(backend: str) -> None:
    x = leaf([1.0, 2.0])
    tape = agrad.graph(agrad.sum((x + 1.0) * 2.0 - x))
    assert [row.op for row in tape.rows] == [None, "add", "multiply", "subtract", "sum"]
    for row, expected in zip(tape.rows, ([1, 2], [2, 3], [4, 6], [3, 4], 7), strict=True):
        same(row.value, expected)
    assert [str(i) for i in tape.rows[1].inputs] == ["%0", "1.0"]
    assert tape.rows[4].settings == {"axis": (0,), "keepdims": False}
    assert "axis=(0,), keepdims=False" in str(tape)


def test_constants_are_shown_by_value_or_by_name() -> None:
    x = leaf([1.0, 2.0])
    c, d = agrad.asarray(np.array([7.0, 8.0])), agrad.asarray(np.array([1.0, 3.0]))
    y = (x * c) * d + c
    tape = agrad.graph(y, names={"d": d})
    assert [str(i) for i in tape.rows[1].inputs] == ["%0", "[7.0, 8.0]"]
    same(tape.rows[1].inputs[1].value, [7.0, 8.0])
    assert [str(i) for i in tape.rows[2].inputs] == ["%1", "d"]
    assert [str(i) for i in tape.rows[3].inputs] == ["%2", "?"]  # no derivative needs it: the tape does not keep it


def test_several_outputs_in_one_graph(backend: str) -> None:
    x = leaf(2.0)
    a = x * 3.0
    b = a + 1.0
    tape = agrad.graph([a, b], gradients=True)
    assert [row.output for row in tape.rows] == [False, True, True]
    assert [float(host(row.gradient)) for row in tape.rows] == [6.0, 2.0, 1.0]
    assert str(tape).splitlines()[2].endswith("1, output")
    if backend == "numpy":
        weighted = agrad.graph((a, b), gradients=[agrad.asarray(10.0), agrad.asarray(1.0)])
        assert [float(row.gradient) for row in weighted.rows] == [33.0, 11.0, 1.0]
    twice = agrad.graph([b, b], gradients=True)
    assert [float(host(row.gradient)) for row in twice.rows] == [6.0, 2.0, 2.0]


def test_operations_of_several_outputs(backend: str) -> None:
    x = leaf([0.5, 1.0])
    s, c = sine_and_cosine(x)
    tape = agrad.graph(agrad.sum(s * c), gradients=True)
    titles = [row.op for row in tape.rows]
    assert titles == [None, "sine_and_cosine", "sine_and_cosine.s", "sine_and_cosine.c", "multiply", "sum"]
    assert tape.rows[1].value is None
    same(tape.rows[2].value, np.sin([0.5, 1.0]))
    same(tape.rows[3].gradient, np.sin([0.5, 1.0]))
    np.testing.assert_allclose(host(tape.rows[0].gradient), np.cos([1.0, 2.0]), rtol=1e-14)
    assert [i.row for i in tape.rows[3].inputs] == [1]


def test_a_gradient_that_is_not_there_is_blank() -> None:
    @agrad.primitive
    def second(xp, a, b, /):
        return b + 0 * a

    @second.vjp("a")
    def second_a(g):
        return None

    @second.vjp("b")
    def second_b(g):
        return g

    a, b = leaf(1.0), leaf(2.0)
    tape = agrad.graph(second(a * 2.0, b), gradients=True, names={"a": a, "b": b})
    assert {row.name: row.gradient is None for row in tape.rows if row.op is None} == {"a": True, "b": False}


def test_cotangents_of_outputs_with_many_elements() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    fails(ShapeError, r"graph\(gradients=True\).*\(2,\)", lambda: agrad.graph(y, gradients=True))
    same(agrad.graph(y, gradients=np.array([1.0, 10.0])).rows[0].gradient, [2.0, 40.0])
    fails(OperandError, "2 outputs", lambda: agrad.graph([y, y], gradients=np.ones(2)))


def test_what_is_no_tensor_is_refused() -> None:
    for wrong in (np.ones(2), 1.0, [], [leaf(1.0), 2.0], None):
        fails(OperandError, "graph: outputs must be a Tensor", agrad.graph, wrong)
    fails(OperandError, "'w'", agrad.graph, leaf(1.0), names={"w": 3})
    for limit in (1, 0, -5):
        fails(ConfigurationError, "limit", agrad.graph, leaf(1.0), limit=limit)


def test_leaves_and_constants_alone(backend: str) -> None:
    x, c = leaf([1.0, 2.0]), agrad.asarray([3.0, 4.0])
    assert [row.name for made in (x, c) for row in agrad.graph(made).rows] == ["leaf", "constant"]
    tape = agrad.graph([c, x], names={"c": c})
    assert [(row.index, row.name) for row in tape.rows] == [(0, "c"), (1, "leaf")]
    assert "constant" in agrad.graph(c).to_dot()


def test_a_freed_graph_still_prints() -> None:
    x = leaf([1.0, 2.0])
    y = agrad.sum(agrad.exp(x) + x)
    y.backward()
    tape = agrad.graph(y)
    assert [row.op for row in tape.rows] == [None, "exp", "add", "sum"]
    assert [row.value is None for row in tape.rows] == [False, True, True, False]
    assert [str(i) for i in tape.rows[2].inputs] == ["%1", "%0"]
    fails(GraphFreedError, "retain_graph", lambda: agrad.graph(y, gradients=True))


def test_long_graphs_are_cut_in_the_middle() -> None:
    x = leaf(0.0)
    y = x
    for _ in range(10_000):  # more than the recursion limit and the stack would allow
        y = y + 1.0
    tape = agrad.graph(y, limit=7, gradients=True)
    shown = [0, 1, 2, 9_997, 9_998, 9_999, 10_000]
    assert [row.index for row in tape.rows] == [float(row.value) for row in tape.rows] == shown
    assert [float(row.gradient) for row in tape.rows] == [1.0] * 7
    lines, left_out = str(tape).splitlines(), "9,994 of 10,001 rows left out"
    assert len(lines) == 9 and left_out in lines[4]
    assert [len(agrad.graph(y, **given).rows) for given in ({}, {"limit": None})] == [100, 10_001]
    same(y.parents[0].parents[0], 9_998.0)
    dot = tape.to_dot()
    check_dot(dot)
    assert left_out in dot and "left_out -> n9997;" in dot


@pytest.mark.parametrize("order", [1, 2])
def test_inside_reverse_mode(order: int) -> None:
    seen: list[str] = []

    def f(x: agrad.Tensor) -> Any:
        y = agrad.exp(x) * x
        seen.append(str(agrad.graph(y, gradients=True, names={"x": x, "y": y})))
        # a named leaf has a value that no rule uses
        assert [float(host(row.value)) for row in agrad.graph(x + 1.0, names={"x": x}).rows] == [0.5, 1.5]
        return y

    g = f
    for _ in range(order):
        g = agrad.grad(g)
    same(g(0.5), np.exp(0.5) * (1.5 if order == 1 else 2.5))
    lines = seen[0].splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["x", "exp", "y:"]
    assert "2.4731" in lines[1]


def test_inside_forward_mode_the_tape_of_the_value() -> None:
    seen: list[Any] = []
    w = leaf(3.0)

    def f(x: agrad.Tensor) -> Any:
        y = agrad.sin(x) * w
        seen.append(agrad.graph(y, names={"w": w}))
        return y

    agrad.jvp(f, (0.5,), (1.0,))
    assert [row.title for row in seen[0].rows] == ["w", "multiply"]


# ---------------------------------------------------------------- functions, before and after each transform

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


# ---------------------------------------------------------------- pictures

STRING = r'"(?:[^"\\]|\\.)*"'
ATTRIBUTES = rf"\[(?:\w+=(?:{STRING}|[\w.]+))(?:, \w+=(?:{STRING}|[\w.]+))*\]"
NODE = re.compile(rf"  (\w+) {ATTRIBUTES};")
EDGE = re.compile(rf"  (\w+) -> (\w+)(?: {ATTRIBUTES})?;")


def check_dot(text: str) -> set[tuple[str, str]]:
    """Reads the part of the DOT language that is written here; gives the edges."""
    head, *lines, end = text.splitlines()
    assert (head, end) == ("digraph agrad {", "}")
    declared, edges = set(), set()
    for line in lines:
        if node := NODE.fullmatch(line):
            declared.add(node[1])
        else:
            edge = EDGE.fullmatch(line)
            assert edge is not None, line
            edges.add((edge[1], edge[2]))
    assert {end for edge in edges for end in edge} <= declared
    return edges


def test_dot() -> None:
    x1, x2, y = example()
    text = agrad.graph(y, gradients=True, names={"x1": x1, "x2": x2}).to_dot()
    assert check_dot(text) == {("n0", "n2"), ("n0", "n3"), ("n1", "n3"), ("n2", "n4"), ("n3", "n4")}
    assert r'label="x1\nfloat64 ()\n8 B\n1.5708\ngradient 1.0"' in text
    text = agrad.graph(x1 * 2.0, names={'a "quoted"\nname\\': x1}).to_dot()
    assert check_dot(text) == {("n0", "n1"), ("c1_1", "n1")}
    assert r"a \"quoted\" name\\" in text


def program(directory: Path, body: str) -> None:
    path = directory / "dot"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_svg_is_drawn_by_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, 'test "$1" = -Tsvg && echo "<svg>" && cat && echo "</svg>"')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    tape = agrad.graph(example()[2])
    assert tape.to_svg() == f"<svg>\n{tape.to_dot()}</svg>\n"
    assert tape.to_svg() in tape._repr_html_()


@pytest.mark.parametrize("body", ["echo no fonts >&2; exit 3", "kill -9 $$", None], ids=["fails", "dies", "none"])
def test_svg_without_dot(body: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if body is not None:
        program(tmp_path, body)
    monkeypatch.setenv("PATH", str(tmp_path))
    tape = agrad.graph(example()[2], names={"a <b>": example()[0]})
    picture = ElementTree.fromstring(tape.to_svg())
    assert len(picture.findall("{*}g")) == len(picture.findall("{*}path")) == len(tape) == 5
    assert tape.to_svg() in tape._repr_html_()


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's program dot is not installed")
def test_svg_by_the_real_dot() -> None:
    svg = agrad.graph(example()[2], gradients=True).to_svg()
    assert "<svg" in svg and svg.count('class="edge"') == 5
