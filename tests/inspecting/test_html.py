"""Values, graphs, profiles and programs as HTML and pictures."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import agrad
from agrad.inspecting.drawing import Bar, Box, flame, layered


def test_a_tensor_is_a_table_of_what_it_is(backend: str) -> None:
    x = agrad.asarray([[1.0, 2.0]], backend=backend, requires_grad=True)
    found = ElementTree.fromstring(x._repr_html_())
    cells = {cell.text for cell in found.iter("td")}
    assert {"(1, 2)", x.dtype.name, backend, "True"} <= cells
    assert "1.0" in (found.findtext("pre") or "") or backend == "dask"


@pytest.mark.needs("dask")
def test_a_lazy_array_is_not_computed() -> None:
    import dask.array as da

    calls = []
    lazy = da.from_delayed(__import__("dask").delayed(lambda: calls.append(1) or np.ones(3))(), (3,), float)
    assert "dask" in agrad.asarray(lazy)._repr_html_()
    assert not calls


def test_text_is_escaped() -> None:
    x = agrad.asarray([1.0], requires_grad=True)
    page = agrad.graph(x * 2.0, names={"<b>": x})._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_values_inside_transforms_are_shown() -> None:
    def f(x: Any) -> Any:
        page = x._repr_html_()
        assert page.startswith("<div>") and "requires_grad" in page
        return agrad.sum(x * x)

    assert np.all(agrad.grad(f)(np.ones(2)) == 2)
    assert np.all(agrad.vmap(agrad.grad(f))(np.ones((3, 2))) == 2)
    assert agrad.jit(f)(np.ones(2)) == 2


def test_a_program_has_a_part_for_each_stage() -> None:
    lowered = agrad.jit(lambda x: agrad.sum(agrad.sin(x) * 2.0)).lower(np.ones(3))
    page = lowered._repr_html_()
    assert page.count("<details") == len(lowered.stages) + 1
    assert page.count("<details open>") == 1


def test_a_graph_of_a_function_has_times_and_sizes() -> None:
    graph = agrad.graph(lambda x: agrad.sum(agrad.exp(x)))(np.ones(4))
    rows = {row.op: row for row in graph.rows}
    assert rows["exp"].bytes == 32 and rows["exp"].seconds > 0
    assert rows[None].seconds is None
    assert "32 B" in graph.to_svg() and " us" in graph.to_svg()


def test_a_flame_is_as_wide_as_its_times(tmp_path: Path) -> None:
    bars = [Bar(("operations", "forward", "exp"), 3.0, 1), Bar(("operations", "backward", "exp"), 1.0, 2)]
    parts = ElementTree.fromstring(flame(bars)).findall("{*}g")
    widths = {part.findtext("{*}title"): float(part.find("{*}rect").get("width")) for part in parts}  # type: ignore
    assert widths["operations: 4,000.000 ms, 3 calls"] == 960
    assert widths["forward: 3,000.000 ms, 1 calls"] == 720
    with agrad.profile() as p:
        agrad.grad(lambda x: agrad.sum(agrad.exp(x)))(np.ones(3))
    file = tmp_path / "flame.svg"
    assert p.to_svg(file) == file.read_text(encoding="utf-8")
    assert ElementTree.fromstring(p._repr_html_()) is not None


def test_nothing_to_draw() -> None:
    with agrad.profile() as p:
        pass
    assert ElementTree.fromstring(p.to_svg()).findall("{*}g") == []
    assert ElementTree.fromstring(layered([])) is not None
    lonely = layered([Box(0, ["a"], [7], True, True)])
    assert len(ElementTree.fromstring(lonely).findall("{*}g")) == 1
