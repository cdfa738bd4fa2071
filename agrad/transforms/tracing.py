"""``agrad.graph`` of a function: every operation that a call computes, whatever transforms are inside or around it."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agrad.backends import backend_of_type
from agrad.dtypes import as_dtype
from agrad.engine.calls import array_of_number
from agrad.engine.graph import Graph, Input, Row
from agrad.engine.graph import graph as graph_of_tensors
from agrad.engine.levels import Level, dispatch
from agrad.engine.observing import Observer
from agrad.engine.tape import Mode, _ModeChange
from agrad.engine.tensor import Lifted, Tensor
from agrad.errors import ConfigurationError, OperandError
from agrad.transforms.trees import flatten, paths, unflatten

BELOW_ALL = -1
"""The number of a recorder's level: older than the ambient one, so that what all other levels compute reaches it."""


class Recorder(Level):
    """Writes down every operation on its Tensors; the Tensors' node is the number of the row that made them.

    It lies below all levels that record derivatives, so rules run on its Tensors, and what they do is written down too.
    """

    __slots__ = ("rows",)

    name = "recorder"
    derivative = False

    def __init__(self) -> None:
        super().__init__(BELOW_ALL)
        self.rows: list[Row] = []

    def wrap(self, raw: Any, row: int) -> Tensor:
        """The Tensor of a row."""
        tensor = Lifted()
        tensor.data, tensor.level, tensor.node = raw, self, row
        return tensor

    def add(
        self, op: str | None, name: str | None, value: Any, inputs: tuple[Input, ...] = (), settings: Any = None
    ) -> int:
        """Write a row; gives its number."""
        known = hasattr(value, "shape")
        self.rows.append(
            Row(
                index=len(self.rows),
                op=op,
                name=name,
                shape=tuple(value.shape) if known else None,
                dtype=as_dtype(value.dtype) if known else None,
                value=value,
                gradient=None,
                inputs=inputs,
                settings=dict(settings or {}),
                consumers=0,
                output=False,
            )
        )
        return len(self.rows) - 1

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        mine = [isinstance(arg, Tensor) and arg.level is self and arg.node is not None for arg in args]
        raw = tuple([arg.raw if isinstance(arg, Tensor) else arg for arg in args])
        out = dispatch(primitive, raw, settings)
        if not any(mine):
            return self._constant(out)
        inputs = tuple(
            [
                Input(arg.node, None, None) if own else Input(None, value, None)
                for arg, own, value in zip(args, mine, raw, strict=True)
            ]
        )
        if not isinstance(out, tuple):
            return self.wrap(out, self.add(primitive.name, None, out, inputs, settings))
        whole = self.add(primitive.name, None, None, inputs, settings)
        parts = []
        for i, value in enumerate(out):
            name = f"{primitive.name}.{primitive.output_name(i)}"
            parts.append(self.wrap(value, self.add(name, None, value, (Input(whole, None, None),))))
        return tuple(parts)


class _Looking(_ModeChange):
    """Says that operations are looked at, so that traced functions run as they are written."""

    def _change(self, now: Mode) -> Mode:
        return now._replace(observers=(*now.observers, Observer()))


def graph(
    outputs: Any,
    gradients: Any = False,
    *,
    names: Mapping[str, Tensor] | None = None,
    limit: int | None = 100,
) -> Any:
    """The tape behind a Tensor, or behind a list of them, to print, draw or read row by row; or, of a function, the
    function that gives the graph of a call.

    Of a function ``f``, ``agrad.graph(f)(*args, **kwargs)`` calls it with Tensors of the values in ``args`` and gives
    every operation that ran on them, in order, those of derivatives and maps inside ``f`` among them: the graph of
    ``agrad.grad(f)`` shows what the gradient consists of. Inputs have the parameters' names. args: nested containers of
    arrays of any backend; Python floats and complex numbers count as arrays of the selected one; ``kwargs`` and
    integers are constants. ``gradients`` and ``names`` are for Tensors.

    Of Tensors: gradients: True adds to each row the gradient of the outputs' sum by it, where each output has one
    element; else give their cotangent, or a list of one for each. names: what to call Tensors, ``{"w": w}``. Inside a
    transform it shows the innermost tape. limit: how many rows to show, the first and the last ones; None for all.

    Each row has the operation, shape, dtype, value, inputs (``%3`` is row 3; constants by value) and the number of
    operations here that use it. Of a tape, values that it does not keep are computed again, as for ``t.op.args``.
    Neither the tape nor any ``.grad`` changes. Raises ``OperandError`` for what is neither a Tensor nor a function;
    with ``gradients``, also ``ShapeError`` for a missing or wrong cotangent and ``GraphFreedError`` where a backward
    pass freed the graph.
    """
    if not callable(outputs) or isinstance(outputs, Tensor):
        return graph_of_tensors(outputs, gradients, names=names, limit=limit)
    if names or not (gradients is False or gradients is None):
        raise OperandError(
            "graph: names and gradients are for Tensors; a function's inputs are named by its parameters, and "
            "agrad.graph(agrad.grad(f))(x) shows how its gradient is computed"
        )
    if limit is not None and limit < 2:
        raise ConfigurationError(f"graph: limit is at least 2, or None for all rows, not {limit}")
    f = outputs

    @functools.wraps(f, updated=())
    def traced(*args: Any, **kwargs: Any) -> Graph:
        recorder = Recorder()
        leaves, spec = flatten(args)
        lifted = []
        for leaf, name in zip(leaves, _names(f, args), strict=True):
            raw = leaf.raw if isinstance(leaf, Tensor) else array_of_number(leaf)
            is_array = backend_of_type(type(raw)) is not None
            lifted.append(recorder.wrap(raw, recorder.add(None, name, raw)) if is_array else raw)
        with _Looking():
            found, _ = flatten(f(*unflatten(spec, lifted), **kwargs))
        return _finished(recorder, found, limit)

    return traced


def _names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """What to call each leaf of the arguments: ``x``, ``params['w']``."""
    try:
        bound = inspect.signature(f).bind_partial(*args)
    except (TypeError, ValueError):  # a function that tells nothing of its arguments, or refuses these by itself
        heads = [f"argument {i}" for i in range(len(args))]
    else:
        heads = []
        for name, value in bound.arguments.items():
            variadic = bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
            heads += [f"{name}[{i}]" for i in range(len(value))] if variadic else [name]
    return [head + path for head, arg in zip(heads, args, strict=True) for path in paths(arg)]


def _inside(value: Any, recorder: Recorder) -> Any:
    """What the recorder holds of a result; the raw array of a result that none of its operations made."""
    while isinstance(value, Tensor) and value.level is not recorder:
        value = value.data
    return value


def _finished(recorder: Recorder, outputs: Sequence[Any], limit: int | None) -> Graph:
    shown = set()
    for leaf in outputs:
        value = _inside(leaf, recorder)
        if isinstance(value, Tensor):
            shown.add(value.node)
        elif hasattr(value, "shape"):
            shown.add(recorder.add(None, "constant", value))
    rows = recorder.rows
    consumers = [0] * len(rows)
    for row in rows:
        for source in {operand.row for operand in row.inputs if operand.row is not None}:
            consumers[source] += 1
    picked = range(len(rows))
    chosen = (
        list(picked) if limit is None or len(rows) <= limit else [*picked[: limit // 2], *picked[limit // 2 - limit :]]
    )
    finished = [_row(rows[i], consumers[i], i in shown) for i in chosen]
    return Graph(finished, len(rows), False)


def _row(row: Row, consumers: int, output: bool) -> Row:
    return Row(**{**vars(row), "consumers": consumers, "output": output})
