"""``agrad.graph`` of a function: every operation of a call."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agrad.backends import backend_of_type
from agrad.engine.calls import array_of_number
from agrad.engine.levels import Level, dispatch
from agrad.engine.observing import Observer
from agrad.engine.tape import Mode, _ModeChange
from agrad.engine.tensor import RecordedTensor, Tensor, raw_of
from agrad.errors import ConfigurationError, OperandError
from agrad.inspecting.graph import Graph, Input, Row, graph_of_tensors, make_row, shown_rows
from agrad.inspecting.profile import waits
from agrad.transforms.trees import argument_names, flatten, paths, unflatten

BELOW_ALL = -1
"""The number of the nesting level of a recorder, the oldest, which every operation reaches."""


class Recorder(Level):
    """The nesting level that adds a row for every operation on its Tensors.

    The node of its Tensors is the number of a row. The level is older than all levels with derivatives, whose rules
    therefore add rows too.
    """

    __slots__ = ("rows",)

    name = "recorder"
    derivative = False

    def __init__(self) -> None:
        super().__init__(BELOW_ALL)
        self.rows: list[Row] = []

    def wrap(self, raw: Any, row: int) -> Tensor:
        """Return the Tensor of a row."""
        tensor = RecordedTensor()
        tensor.data, tensor.level, tensor.node = raw, self, row
        return tensor

    def add(self, op: str | None, name: str | None, value: Any, **rest: Any) -> int:
        """Add a row and return its number."""
        self.rows.append(make_row(len(self.rows), op, name, value, **rest))
        return len(self.rows) - 1

    def process(self, primitive: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        mine = [isinstance(arg, Tensor) and arg.level is self and arg.node is not None for arg in args]
        raw = tuple(map(raw_of, args))
        wait = waits(raw)
        wait()
        start = time.perf_counter()
        out = dispatch(primitive, raw, settings)
        wait()
        seconds = time.perf_counter() - start
        if not any(mine):
            return self.constant(out)
        operands = zip(args, mine, raw, strict=True)
        inputs = tuple([Input(arg.node) if own else Input(value=value) for arg, own, value in operands])
        call = {"inputs": inputs, "settings": dict(settings), "seconds": seconds}
        if not isinstance(out, tuple):
            return self.wrap(out, self.add(primitive.name, None, out, **call))
        whole = self.add(primitive.name, None, None, **call)
        parts = []
        for i, value in enumerate(out):
            name = f"{primitive.name}.{primitive.output_name(i)}"
            parts.append(self.wrap(value, self.add(name, None, value, inputs=(Input(whole),))))
        return tuple(parts)


class _Looking(_ModeChange):
    """A mode with an observer, in which jitted functions run without a trace."""

    def _change(self, now: Mode) -> Mode:
        return now._replace(observers=(*now.observers, Observer()))


def graph(
    outputs: Any, gradients: Any = False, *, names: Mapping[str, Tensor] | None = None, limit: int | None = 100
) -> Any:
    """Return the graph of the operations that computed Tensors, or of a function call.

    ``agrad.graph(f)(*args, **kwargs)`` calls ``f`` and returns every operation on its arguments in order, including the
    operations of transforms: the graph of ``agrad.grad(f)`` shows how the gradient is computed. ``args`` are pytrees of
    arrays of any backend. Python floats and complex numbers count as arrays of the selected backend. ``kwargs`` and
    integers are constants.

    A row contains the operation, shape, dtype, value, inputs (``%3`` is row 3) and the number of operations that use
    it. Values that the tape does not store are recomputed. Neither the tape nor any ``.grad`` changes. Inside a
    transform, the graph is the innermost tape.

    Parameters
    ----------
    outputs : Tensor, list of Tensors, or callable
        Results of the graph, or the function to call.
    gradients : bool, array, or list of arrays, default False
        True to add to each row the gradient of the sum of the outputs with respect to it, if each output has a single
        element. Otherwise, a cotangent for each output. Only for Tensors.
    names : mapping of str to Tensor, optional
        Names for Tensors, such as ``{"w": w}``. Only for Tensors.
    limit : int or None, default 100
        Number of rows to show, from the beginning and the end. None shows all.

    Returns
    -------
    Graph or callable
        For a function, a function with the arguments of ``f`` that returns the ``Graph`` of the call.

    Raises
    ------
    OperandError
        If ``outputs`` is neither a Tensor nor a function.
    ShapeError
        If a cotangent in ``gradients`` is missing or has the wrong shape.
    GraphFreedError
        With ``gradients``, if a backward pass freed the graph.

    See Also
    --------
    agrad.profile : Count and time operations.
    agrad.detect_anomaly : Raise an error at the first NaN.

    Examples
    --------
    >>> x = agrad.asarray([1.0, 2.0], requires_grad=True)
    >>> tape = agrad.graph(agrad.sum(x * agrad.exp(x)), names={"x": x})
    >>> [(row.title, row.shape) for row in tape.rows]
    [('x', (2,)), ('exp', (2,)), ('multiply', (2,)), ('sum', ())]
    >>> [row.op for row in agrad.graph(agrad.grad(agrad.sin))(0.5).rows]
    [None, 'sin', 'cos', 'multiply']
    """
    if limit is not None and limit < 2:
        raise ConfigurationError(f"graph: limit must be at least 2, or None for all rows, got {limit}")
    if not callable(outputs) or isinstance(outputs, Tensor):
        return graph_of_tensors(outputs, gradients, names or {}, limit)
    if names or not (gradients is False or gradients is None):
        raise OperandError(
            "graph: names and gradients must be None for a function. Its inputs have the names of its parameters. "
            "Call agrad.graph(agrad.grad(f))(x) to show its gradient."
        )

    @functools.wraps(outputs, updated=())
    def traced(*args: Any, **kwargs: Any) -> Graph:
        return _graph_of_call(outputs, args, kwargs, limit)

    return traced


def _graph_of_call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], limit: int | None) -> Graph:
    recorder = Recorder()
    leaves, spec = flatten(args)
    lifted = []
    for leaf, name in zip(leaves, _names(f, args), strict=True):
        raw = raw_of(array_of_number(leaf))
        is_raw = backend_of_type(type(raw)) is not None
        lifted.append(recorder.wrap(raw, recorder.add(None, name, raw)) if is_raw else raw)
    with _Looking():
        found, _ = flatten(f(*unflatten(spec, lifted), **kwargs))
    return _finished(recorder, found, limit)


def _names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """Return a name for each leaf of the arguments: ``x``, ``params['w']``."""
    names = argument_names(f, args) or [f"argument {i}" for i in range(len(args))]
    return [name + path for name, arg in zip(names, args, strict=True) for path in paths(arg)]


def _finished(recorder: Recorder, outputs: Sequence[Any], limit: int | None) -> Graph:
    shown = set()
    for value in outputs:
        while isinstance(value, Tensor) and value.level is not recorder:
            value = value.data
        if isinstance(value, Tensor):
            shown.add(value.node)
        elif hasattr(value, "shape"):
            shown.add(recorder.add(None, "constant", value))
    rows = recorder.rows
    consumers = [0] * len(rows)
    for row in rows:
        for source in {operand.row for operand in row.inputs if operand.row is not None}:
            consumers[source] += 1
    finished = [replace(rows[i], consumers=consumers[i], output=i in shown) for i in shown_rows(len(rows), limit)]
    return Graph(finished, len(rows), False)
