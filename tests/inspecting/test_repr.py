"""Values, graphs, profiles and compiled functions as text, HTML and pictures."""

import queue
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from test_inspect import same

import agrad
from agrad.backends import backend_of_type
from agrad.inspecting import text as summary
from agrad.inspecting.drawing import Bar, Box, flame, layered


def test_repr_names_value_dtype_backend_device_and_operation() -> None:
    x = agrad.asarray([0.5, -1.0], requires_grad=True)
    assert repr(x) == "Tensor([0.5, -1.0], dtype=float64, backend=numpy, device=cpu, requires_grad=True)"
    assert repr(x * 2.0) == "Tensor([1.0, -2.0], dtype=float64, backend=numpy, device=cpu, op=multiply)"
    assert repr(x.detach()) == "Tensor([0.5, -1.0], dtype=float64, backend=numpy, device=cpu)"
    assert repr(agrad.sum(x)) == "Tensor(-0.5, dtype=float64, backend=numpy, device=cpu, op=sum)"
    assert f"{x}" == str(x) == repr(x)
    assert repr(agrad.Tensor()) == "<Tensor without a value>"
    # without a warning
    assert repr(agrad.asarray(np.array([0.1, 6e4, 6e-8], dtype=np.float16))).startswith("Tensor([0.1, 60000.0, 6e-08]")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array(True), "Tensor(True, dtype=bool,"),
        (np.array([1, -2], dtype=np.int8), "Tensor([1, -2], dtype=int8,"),
        (np.array([1 + 2j, complex(0.0, -0.5)]), "Tensor([1.0+2.0j, 0.0-0.5j], dtype=complex128,"),
        (np.array([np.nan, np.inf, -np.inf, 0.0]), "Tensor([nan, inf, -inf, 0.0], dtype=float64,"),
        (np.array([0.1, 0.3], dtype=np.float32), "Tensor([0.1, 0.3], dtype=float32,"),
        (np.array([1.5e-9, 2e20, 123456.75]), "Tensor([1.5e-09, 2e+20, 123456.75], dtype=float64,"),
        (np.zeros((0, 3)), "Tensor([], shape=(0, 3), dtype=float64,"),
        (np.array([[1.0, -2.5], [10.0, 0.0]]), "Tensor([[ 1.0, -2.5],\n        [10.0,  0.0]], dtype=float64,"),
        (np.arange(100), "Tensor([0, 1, 2, ..., 97, 98, 99], shape=(100,), dtype=int64,"),
        (np.arange(48), "43, 44, 45, 46, 47], dtype=int64,"),
    ],
)
def test_repr_of_values(values: np.ndarray, text: str, backend: str, place: Any) -> None:
    if backend == "dask":
        pytest.skip("Dask's values are not computed to be printed")
    shown = repr(agrad.asarray(place(values)))
    assert text in shown and f"backend={backend}, device=" in shown


@pytest.mark.parametrize("shape", [(1000, 1000), (4, 5, 6), (3, 3, 3, 3, 3), (7, 9), (1, 1000), (1000, 1), (2,) * 12])
def test_repr_is_a_few_lines(shape: tuple[int, ...], backend: str, place: Any) -> None:
    text = repr(agrad.asarray(place(np.ones(shape))))
    assert len(text.splitlines()) <= 9 and f"shape={shape}" in text


@pytest.mark.parametrize("shape", [(5, 1000), (1000, 5), (6, 9), (7, 1000), (8, 8), (2, 30), (60,)], ids=str)
def test_repr_shows_each_end_of_the_long_axes_once(shape: tuple[int, ...], backend: str, place: Any) -> None:
    """Three at each end; an axis of up to six is shown whole."""
    if backend == "dask":
        pytest.skip("Dask's values are not computed to be printed")
    values = np.arange(int(np.prod(shape))).reshape(shape)
    text = repr(agrad.asarray(place(values))).partition(", shape=")[0]
    for axis, length in enumerate(shape):
        if length > 6:
            values = np.delete(values, range(3, length - 3), axis)
    assert [int(number) for number in re.findall(r"\d+", text)] == values.reshape(-1).tolist()
    marks = [line for line in text.splitlines() if line.strip() == "...,"]
    assert len(marks) == (len(shape) == 2 and shape[0] > 6)
    assert text.count(", ...,") == (shape[-1] > 6) * (1 if len(shape) == 1 else min(shape[0], 6))


def test_repr_reads_only_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def spied(kind: type) -> SimpleNamespace:
        backend = backend_of_type(kind)
        return SimpleNamespace(xp=backend.xp, to_host=lambda raw: read.append(raw.size) or backend.to_host(raw))

    monkeypatch.setattr(summary, "backend_of_type", spied)
    x = agrad.asarray(np.arange(3000.0 * 2000.0).reshape(3000, 2000), requires_grad=True)
    shown = repr(x)
    str(agrad.graph(agrad.sum(x)))
    assert shown.startswith("Tensor([[      0.0,       1.0,") and "5999999.0]], shape=(3000, 2000)" in shown
    assert 0 < max(read) <= 49


@pytest.mark.needs("dask")
def test_repr_of_lazy_values_computes_nothing() -> None:
    import dask
    import dask.array as da

    computed: list[int] = []

    def poison(block: np.ndarray) -> np.ndarray:
        computed.append(1)
        return block

    lazy = da.arange(10.0, chunks=5).map_blocks(poison, dtype=float, meta=np.zeros(0))
    x = agrad.asarray(lazy, requires_grad=True)
    unknown = agrad.asarray(lazy[lazy > 5])
    texts = [repr(x), repr(x * 2.0), repr(unknown), str(agrad.graph(agrad.sum(x), gradients=True)), x._repr_html_()]
    assert not computed
    for text, part in zip(texts[1:4], ("op=multiply", "shape=(nan,)", "not computed yet"), strict=True):
        assert part in text
    with dask.config.set(scheduler="synchronous"):
        same((x * 2.0).op.args[0], np.arange(10.0))
    assert computed


@pytest.mark.needs("jax")
def test_repr_inside_another_librarys_transform() -> None:
    import jax

    seen: list[str] = []

    def f(raw: Any) -> Any:
        x = agrad.asarray(raw, requires_grad=True)
        y = agrad.sin(x)
        seen.extend([repr(y), str(agrad.graph(y))])
        return y.data

    jax.jit(f)(np.ones(3, dtype=np.float32))
    assert "shape=(3,), dtype=float32, backend=jax" in seen[0] and "op=sin" in seen[0]
    assert "float32(3,)" in seen[1]


@pytest.mark.needs("torch")
def test_repr_of_a_dtype_that_numpy_has_not() -> None:
    import torch

    x = agrad.asarray(torch.tensor([0.5, 3.0], dtype=torch.bfloat16))
    assert repr(x) == "Tensor([0.5, 3.0], dtype=bfloat16, backend=torch, device=cpu)"


def test_devices_are_shown_by_the_name_that_agrad_takes(backend: str) -> None:
    device = repr(agrad.asarray([1.0])).partition("device=")[2].rstrip(")")
    assert repr(agrad.asarray([1.0], device=device)) == repr(agrad.asarray([1.0]))
    if backend == "numpy":
        assert device == "cpu"


def test_the_name_of_a_cuda_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # as CuPy prints its devices
    monkeypatch.setattr(summary, "backend_of", lambda raw: SimpleNamespace(device_of=lambda x: "<CUDA Device 1>"))
    assert summary.device_name(np.ones(1)) == "cuda:1"


def test_repr_of_what_is_traced_says_its_level_and_no_tangent() -> None:
    texts: queue.SimpleQueue[str] = queue.SimpleQueue()
    agrad.jit(lambda x: texts.put(repr(x)) or x * 2.0)(np.ones(2))
    assert texts.get() == "Tensor([1.0, 1.0], dtype=float64, backend=numpy, device=cpu, level=trace)"


def test_a_tensor_is_a_table_of_what_it_is(backend: str) -> None:
    x = agrad.asarray([[1.0, 2.0]], backend=backend, requires_grad=True)
    found = ElementTree.fromstring(x._repr_html_())
    cells = {cell.text for cell in found.iter("td")}
    assert {"(1, 2)", x.dtype.name, backend, "True"} <= cells
    assert "1.0" in (found.findtext("pre") or "") or backend == "dask"


def test_text_is_escaped() -> None:
    x = agrad.asarray([1.0], requires_grad=True)
    page = agrad.graph(x * 2.0, names={"<b>": x})._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_a_program_has_a_part_for_each_stage() -> None:
    lowered = agrad.jit(lambda x: agrad.sum(agrad.sin(x) * 2.0)).lower(np.ones(3))
    page = lowered._repr_html_()
    assert (page.count("<details"), page.count("<details open>")) == (len(lowered.stages) + 1, 1)


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
