"""Summary: the layers of a model, their output shapes and parameters."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import agrad
from agrad.errors import ConfigurationError, OperandError
from agrad.nn.members import walk
from agrad.nn.module import Module
from agrad.nn.parameter import is_parameter


@dataclass(frozen=True, repr=False)
class Summary:
    """Table that ``summary`` returns. Print it with ``print``."""

    rows: list[tuple[str, ...]]
    """Layers, output shapes, parameters, trainable parameters, remarks."""
    total: int
    trainable: int

    def __str__(self) -> str:
        head = ("layer", "output shape", "parameters", "trainable", "")
        table = [head, *self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(5)]
        lines = [
            "  ".join(cell.rjust(w) if i in (2, 3) else cell.ljust(w) for i, (cell, w) in enumerate(pairs)).rstrip()
            for pairs in (list(zip(row, widths, strict=True)) for row in table)
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join([*lines, f"{self.total:,} parameters, {self.trainable:,} of them trainable"])

    __repr__ = __str__


def summary(model: Module, inputs: Any, *, dtype: Any = None) -> Summary:
    """Summarize the layers of a model in a table.

    It calls the model once, in evaluation mode and without recording. Modes, parameters, buffers and host states are
    unchanged.

    Parameters
    ----------
    model : Module
        Model.
    inputs : array, or tuple of arrays, or tuple of int, or tuple of those
        Arguments of the call, the shape of one argument, or a tuple of shapes. A shape is replaced by zeros on the
        device of the parameters.
    dtype : dtype or None
        dtype of the zeros. By default, the dtype of the first parameter.

    Returns
    -------
    Summary
        Table. A module that is called several times or has several names is counted once and marked.

    Examples
    --------
    >>> model = agrad.nn.Sequential(agrad.nn.Linear(4, 8), agrad.nn.ReLU(), agrad.nn.Linear(8, 3))
    >>> agrad.nn.summary(model, (2, 4))
    layer        output shape  parameters  trainable
    ------------------------------------------------
    Sequential   (2, 3)
      0: Linear  (2, 8)                40         40
      1: ReLU    (2, 8)
      2: Linear  (2, 3)                27         27
    67 parameters, 67 of them trainable
    """
    if not isinstance(model, Module):
        raise OperandError(f"summary: model must be a Module, got {type(model).__name__}")
    args = _arguments(model, inputs, dtype)
    shapes: dict[int, list[str]] = {}

    def note(module: Module, _: Any, out: Any) -> None:
        shapes.setdefault(id(module), []).append(_shape(out))

    with _unchanged(model), agrad.no_grad(), ExitStack() as hooks:
        for module in model.modules():
            hooks.enter_context(module.register_forward_hook(note))
        model(*args)
    parameters = model.parameters()
    trainable = sum(tensor.size for tensor in parameters if tensor.requires_grad)
    return Summary(_rows(model, shapes), sum(tensor.size for tensor in parameters), trainable)


def _rows(model: Module, shapes: dict[int, list[str]]) -> list[tuple[str, ...]]:
    own: dict[int, list[int]] = {}
    for part in walk(model):
        if isinstance(part.value, agrad.Tensor) and is_parameter(part.value):
            counts = own.setdefault(id(part.owner), [0, 0])
            counts[0] += part.value.size
            counts[1] += part.value.size if part.value.requires_grad else 0
    names: dict[int, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(id(module), []).append(name)
    rows: list[tuple[str, ...]] = []
    for part in walk(model):
        if not isinstance(part.value, Module):
            continue
        calls, (count, trained) = shapes.get(id(part.value), []), own.get(id(part.value), [0, 0])
        remarks = [f"also {', '.join(names[id(part.value)][1:])}"] if len(names[id(part.value)]) > 1 else []
        remarks += [f"called {len(calls)} times" if calls else "not called"] if len(calls) != 1 else []
        label = "  " * part.depth + (f"{part.key}: " if part.key else "") + type(part.value).__name__
        numbers = (f"{count:,}" if count else "", f"{trained:,}" if count else "")
        rows.append((label, " ".join(dict.fromkeys(calls)), *numbers, "; ".join(remarks)))
    return rows


def _shape(out: Any) -> str:
    if isinstance(out, (list, tuple)):
        return f"[{', '.join(map(_shape, out))}]"
    if isinstance(out, dict):
        return f"{{{', '.join(f'{key}: {_shape(value)}' for key, value in out.items())}}}"
    return str(tuple(out.shape)) if hasattr(out, "shape") else "None" if out is None else type(out).__name__


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)


def _arguments(model: Module, inputs: Any, dtype: Any) -> list[Any]:
    several = isinstance(inputs, (tuple, list)) and not _is_shape(inputs)
    first = next(iter(model.parameters()), None)
    place = {} if first is None else {"backend": first.backend, "device": first.device}
    kind = dtype if dtype is not None else agrad.float32 if first is None else first.dtype
    args = [
        agrad.zeros(tuple(x), dtype=kind, **place) if _is_shape(x) else x for x in (inputs if several else [inputs])
    ]
    wrong = [x for x in args if not hasattr(x, "shape")]
    if wrong:
        raise ConfigurationError(f"summary: inputs must be arrays or shapes (tuples of int), got {wrong[0]!r}")
    return args


@contextmanager
def _unchanged(model: Module) -> Iterator[None]:
    """Switch to evaluation mode, and restore modes, Tensors and host states on exit."""
    modules = model.modules()
    modes = [(module, module.__dict__.get("training")) for module in modules]
    hooks = [(module, module.__dict__.get("_hooks")) for module in modules]
    tensors = [(tensor, tensor.data) for _, tensor in model._tensors()]
    states = [(module, module.host_state()) for module in modules]
    model.eval()
    try:
        yield
    finally:
        for name, held in (("training", modes), ("_hooks", hooks)):
            for module, value in held:
                if value is None:
                    module.__dict__.pop(name, None)
                else:
                    module.__dict__[name] = value
        for tensor, data in tensors:
            tensor.data = data
        for module, state in states:
            if state:
                module.load_host_state(state)
