"""``agrad.graph`` of Tensors: a tape as a list of operations, or as a figure."""

import contextlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agrad.dtypes import DType, as_dtype
from agrad.engine.backward import backward_pass, topological_order
from agrad.engine.gradients import cotangent_for, starting_cotangents
from agrad.engine.levels import GetOutput, OutputCotangents
from agrad.engine.tape import LEAF, Meta, Node, no_grad
from agrad.engine.tensor import Tensor, raw_of, strip_constant_levels
from agrad.errors import OperandError
from agrad.inspecting.drawing import Box, layered
from agrad.inspecting.html import folded, preformatted
from agrad.inspecting.profile import size_of
from agrad.inspecting.text import aligned, one_line
from agrad.inspecting.values import MISSING, Recall, entry, settings_of

_SECONDS = 60
"""Timeout of the program dot in seconds."""


class Input(NamedTuple):
    """An operand of an operation: a row, or the value of a constant."""

    row: int | None = None
    """The number of the row, or None for a constant."""
    value: Any = None
    """The number or plain array of a constant. None for a row, or if the constant is not stored."""
    name: str | None = None
    """The name of a constant."""

    def __str__(self) -> str:
        if self.row is not None:
            return f"%{self.row}"
        return self.name or ("?" if self.value is None else one_line(self.value, 24))


@dataclass(frozen=True, eq=False)
class Row:
    """One line of a tape."""

    index: int
    """The number of the row, larger than the numbers of its inputs."""
    op: str | None
    """The operation, or None for a leaf or a constant."""
    name: str | None
    """The name from ``names``, or ``"leaf"`` or ``"constant"``."""
    shape: tuple[int, ...] | None
    dtype: DType | None
    value: Any
    """The plain array, or None if it is not stored and cannot be recomputed."""
    gradient: Any = None
    """The gradient of the outputs with respect to this value, or None if there is none."""
    inputs: tuple[Input, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    consumers: int = 0
    """The number of operations that use the value, before an output."""
    output: bool = False
    """True for the outputs of the graph."""
    seconds: float | None = None
    """The time of the operation in a function call. None on a tape, and for inputs and constants."""

    @property
    def bytes(self) -> int | None:
        """The size of the value in bytes, or None if it is not stored."""
        return None if self.value is None else size_of(self.value)

    @property
    def cost(self) -> str:
        """The size and the time as text, if known."""
        parts = [] if self.bytes is None else [f"{self.bytes:,} B"]
        return ", ".join([*parts, *([] if self.seconds is None else [f"{self.seconds * 1e6:,.1f} us"])])

    @property
    def title(self) -> str:
        """The name, the operation, or both."""
        return self.name or str(self.op) if self.op is None or self.name is None else f"{self.name}: {self.op}"


def make_row(index: int, op: str | None, name: str | None, value: Any, meta: Meta | None = None, **rest: Any) -> Row:
    """Return a row of a value, or of ``meta`` if the value is None."""
    raw = raw_of(value)
    known = raw if hasattr(raw, "shape") else meta
    shape, dtype = (None, None) if known is None else (tuple(known.shape), as_dtype(known.dtype))
    return Row(index, op, name, shape, dtype, raw, **rest)


def shown_rows(count: int, limit: int | None) -> Sequence[int]:
    """Return the numbers of the rows to show: the first and last, ``limit`` in total."""
    rows = range(count)
    return rows if limit is None or count <= limit else [*rows[: limit // 2], *rows[limit // 2 - limit :]]


class Graph:
    """A tape when ``agrad.graph`` was called. ``str`` lists it.

    ``rows`` are the rows shown, without those in the middle of a long tape. ``count`` is the number of all rows. The
    graph does not keep the tape alive.
    """

    def __init__(self, rows: Sequence[Row], count: int, gradients: bool) -> None:
        self.rows: tuple[Row, ...] = tuple(rows)
        self.count = count
        self.gradients = gradients

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        header = ["#", "operation", "shape", "dtype", "value", *(["gradient"] if self.gradients else [])]
        table = [[*header, "inputs", "consumers"], *map(self._cells, self.rows)]
        lines = [line.rstrip() for line in aligned(table, right=(0,))]
        cut = self._cut()
        if cut is not None:
            dots = "...".rjust(len(str(self.count - 1)))
            lines.insert(cut + 1, f"{dots}  {self._left_out()}; limit=None shows all")
        return "\n".join(lines)

    def _cut(self) -> int | None:
        """Return the index in ``rows`` before which rows are omitted, or None."""
        return next((k for k, row in enumerate(self.rows) if row.index != k), None)

    def _left_out(self) -> str:
        return f"{self.count - len(self.rows):,} of {self.count:,} rows left out"

    def _cells(self, row: Row) -> list[str]:
        inputs = [str(i) for i in row.inputs]
        inputs += [f"{name}={value!r}" for name, value in row.settings.items()]
        text = ", ".join(inputs)
        consumers = [str(row.consumers)] if row.consumers or not row.output else []
        return [
            str(row.index),
            row.title,
            "" if row.shape is None else str(row.shape),
            "" if row.dtype is None else str(row.dtype),
            "" if row.value is None else one_line(row.value),
            *(["" if row.gradient is None else one_line(row.gradient)] if self.gradients else []),
            text if len(text) <= 60 else text[:57] + "...",
            ", ".join([*consumers, "output"] if row.output else consumers),
        ]

    # ---------------------------------------------------------------- figures

    def to_dot(self) -> str:
        """Return the graph in the DOT language of Graphviz."""
        lines = [
            "digraph agrad {",
            '  graph [rankdir="TB"];',
            '  node [fontname="Helvetica", fontsize=10];',
            "  edge [arrowsize=0.7];",
        ]
        shown = {row.index for row in self.rows}
        edges: dict[str, None] = {}
        for row in self.rows:
            lines.append(f"  n{row.index} [{self._look(row)}];")
            for k, operand in enumerate(row.inputs):
                if operand.row is None:
                    source = f"c{row.index}_{k}"
                    lines.append(f'  {source} [label={_quoted(str(operand))}, shape="plaintext"];')
                else:
                    source = f"n{operand.row}" if operand.row in shown else "left_out"
                edges[f"  {source} -> n{row.index};"] = None
        cut = self._cut()
        if cut is not None:
            lines.append(f'  left_out [label={_quoted(self._left_out())}, shape="plaintext"];')
            if cut:
                edges[f"  n{self.rows[cut - 1].index} -> left_out [style=dotted];"] = None
        return "\n".join([*lines, *edges, "}"]) + "\n"

    @staticmethod
    def _label(row: Row) -> list[str]:
        """Return the lines of a row in a figure."""
        label = [row.title]
        if row.shape is not None:
            label.append(f"{row.dtype} {row.shape}")
        if row.cost:
            label.append(row.cost)
        if row.value is not None:
            label.append(one_line(row.value))
        if row.gradient is not None:
            label.append(f"gradient {one_line(row.gradient)}")
        return label

    def _look(self, row: Row) -> str:
        label = self._label(row)
        shape, colour = ("box", "#dbe9f6") if row.op is None else ("ellipse", "#ffffff")
        parts = [f"label={_quoted(*label)}", f'shape="{shape}"', 'style="filled"', f'fillcolor="{colour}"']
        return ", ".join([*parts, "peripheries=2"] if row.output else parts)

    def to_svg(self) -> str:
        """Return the graph as SVG, with shapes, sizes and times.

        The Graphviz program ``dot`` draws it if it can, otherwise agrad in layers.
        """
        dot: dict[str, Any] = {"input": self.to_dot(), "capture_output": True, "encoding": "utf-8", "timeout": _SECONDS}
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(["dot", "-Tsvg"], check=True, **dot).stdout
        return self._layered()

    def _layered(self) -> str:
        """Return the graph as SVG, drawn without Graphviz."""
        cut = self._cut()
        boxes = []
        for k, row in enumerate(self.rows):
            label = [*self._label(row), *([f"after {self._left_out()}"] if k == cut else [])]
            inputs = [i.row for i in row.inputs if i.row is not None]
            boxes.append(Box(row.index, label, inputs, row.op is None, row.output))
        return layered(boxes)

    def _repr_html_(self) -> str:
        """Return the figure for notebooks, with the list folded below it."""
        picture = self.to_svg()
        picture = picture[picture.index("<svg") :]
        return f'<div><div style="overflow:auto">{picture}</div>{folded("As a list", preformatted(str(self)))}</div>'


def _quoted(*lines: str) -> str:
    """Return a string in the DOT language."""
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines]
    return '"' + "\\n".join(escaped) + '"'


# ---------------------------------------------------------------- reading the tape


def graph_of_tensors(outputs: Any, gradients: Any, names: Mapping[str, Tensor], limit: int | None) -> Graph:
    """Return the tape of a Tensor or a list of Tensors (``recorder.graph``)."""
    given = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
    if not given or not all(isinstance(t, Tensor) for t in given):
        kinds = ", ".join(type(t).__name__ for t in given) or "nothing"
        raise OperandError(f"graph: outputs must be a Tensor or a list of Tensors, got {kinds}. Use agrad.asarray.")
    for name, tensor in names.items():
        if not isinstance(tensor, Tensor):
            raise OperandError(f"graph: names must map to Tensors, got a {type(tensor).__name__} for {name!r}")
    # values may be Tensors of an older tape, which must not record their operations
    with no_grad():
        return _Reader([_on_tape(t) for t in given], names, limit).read(gradients)


def _on_tape(tensor: Tensor) -> Any:
    """Return the newest Tensor on a tape inside a Tensor, or the plain array."""
    value = strip_constant_levels(tensor)
    while isinstance(value, Tensor) and not value.level.tape:
        value = strip_constant_levels(value.data)
    return value


class _Reader:
    """A reader of the tape of some Tensors."""

    def __init__(self, outputs: Sequence[Any], names: Mapping[str, Tensor], limit: int | None) -> None:
        self.outputs = outputs
        self.recorded = [t for t in outputs if isinstance(t, Tensor)]
        self.roots = {t.node for t in self.recorded}
        self.nodes = topological_order(self.roots)[::-1]
        # each constant among the outputs has a row before the others
        self.constants = [t for t in outputs if not isinstance(t, Tensor)]
        self.offset = len(self.constants)
        self.index = {node: self.offset + i for i, node in enumerate(self.nodes)}
        self.count = self.offset + len(self.nodes)
        self.limit = limit
        self.node_names: dict[Node, str] = {}
        self.raw_names: dict[int, str] = {}
        self.recall = Recall({t.node: t.data for t in self.recorded})
        for node in self.nodes:
            self.recall.note(node)
        for name, tensor in names.items():
            value = _on_tape(tensor)
            if isinstance(value, Tensor):
                self.node_names[value.node] = name
                self.recall.values.setdefault(value.node, value.data)
            else:
                self.raw_names[id(value)] = name

    def read(self, gradients: Any) -> Graph:
        shown = shown_rows(self.count, self.limit)
        nodes = [self.nodes[i - self.offset] for i in shown if i >= self.offset]
        asked = not (gradients is False or gradients is None)
        found = self._gradients(gradients, set(nodes)) if asked else {}
        values = self.recall.find(node for node in nodes if not self._has_outputs(node))
        consumers = dict.fromkeys(nodes, 0)
        metas: dict[Node, Meta] = {}
        for node in self.nodes:
            for parent in set(node.parents):
                if parent in consumers:
                    consumers[parent] += 1
            self._metas(node, consumers, metas)
        rows = [self._constant(i) for i in shown if i < self.offset]
        for node in nodes:
            gradient = raw_of(found.get(node))
            rows.append(
                self._row(node, values.get(node), metas.get(node), gradient=gradient, consumers=consumers[node])
            )
        return Graph(rows, self.count, asked)

    @staticmethod
    def _has_outputs(node: Node) -> bool:
        """Return True for an operation with several outputs, which are rows too."""
        primitive = node.plan.primitive
        return primitive is not None and primitive.outputs is not None

    @staticmethod
    def _metas(node: Node, wanted: Iterable[Node], metas: dict[Node, Meta]) -> None:
        """Add the shapes and dtypes of operands that a node stores."""
        if node.saved is None:
            return
        places = node.plan.places()
        for parent, argument in zip(node.parents, node.plan.arguments, strict=True):
            if parent in wanted and parent not in metas and argument in places:
                metas[parent] = node.saved[places[argument]]

    def _constant(self, index: int) -> Row:
        value = self.constants[index]
        return make_row(index, None, self.raw_names.get(id(value), "constant"), value, output=True)

    def _row(self, node: Node, value: Any, meta: Meta | None, **rest: Any) -> Row:
        plan = node.plan
        name = self.node_names.get(node)
        op: str | None = None
        if plan is LEAF:
            name = name or "leaf"
        elif isinstance(plan.primitive, GetOutput):
            parent = node.parents[0]
            made_by = parent.plan.primitive
            op = f"{made_by.name}.{made_by.output_name(plan.primitive.output)}"
            rest["inputs"] = (Input(self.index[parent]),)
        else:
            op = plan.primitive.name
            rest["inputs"], rest["settings"] = self._inputs(node), settings_of(node)
        return make_row(self.index[node], op, name, value, meta, output=node in self.roots, **rest)

    def _inputs(self, node: Node) -> tuple[Input, ...]:
        inputs = []
        for parent, place in self.recall.layout(node.plan).operands:
            if parent >= 0:
                inputs.append(Input(self.index[node.parents[parent]]))
                continue
            value = entry(node, place)
            raw = None if value is MISSING else raw_of(value)
            inputs.append(Input(None, raw, self.raw_names.get(id(raw))))
        return tuple(inputs)

    # ---------------------------------------------------------------- gradients

    def _gradients(self, given: Any, wanted: set[Node]) -> dict[Node, Any]:
        """Return the gradients at the wanted nodes, without changing the tape."""
        if given is True:
            given = [None] * len(self.outputs)
        elif not isinstance(given, (list, tuple)):
            given = [given]
        if len(given) != len(self.outputs):
            raise OperandError(
                f"graph: gradients must have a cotangent for each of the {len(self.outputs)} outputs, got {len(given)}"
            )
        nodes = [tensor.node if isinstance(tensor, Tensor) else None for tensor in self.outputs]
        gs = [
            raw_of(cotangent_for(tensor, g, "graph(gradients=True)"))
            for tensor, g in zip(self.outputs, given, strict=True)
        ]
        found: dict[Node, Any] = {}

        def visit(node: Node, g: Any) -> None:
            if node in wanted and not isinstance(g, OutputCotangents):
                found[node] = g

        backward_pass(starting_cotangents(nodes, gs), retain=True, visit=visit)
        return found
