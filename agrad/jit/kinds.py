"""Kinds of values, by which arguments and state match a program.

A kind is what a trace records of a value. Another value matches if it has the same kind. Generated code tests kinds,
and the reasons of a retrace compare them.
"""

import types
from collections.abc import Sequence
from reprlib import Repr
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.dtypes import dtype_name
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tape import LEAF, Node
from agrad.engine.tensor import Tensor
from agrad.jit.lower.plain import Scope

Kind = Any
"""A type of numbers that may change; (type, value) of a static value; (type, shape, dtype) of an array, for arguments
of other libraries than NumPy with the device and whether its type is weak; or ``Tensor``, whether it is recorded and is
a leaf, and the kind of its array."""


def array_kind(raw: Any) -> Kind:
    """Return the kind of an array argument."""
    kind = type(raw)
    if kind.__module__ == "numpy":
        return (kind, raw.shape, raw.dtype)
    return (kind, tuple(raw.shape), raw.dtype, backend_of(raw).device_name(raw), getattr(raw, "weak_type", None))


def state_kind(leaf: Any) -> Kind:
    """Return the kind of a leaf of state."""
    if hasattr(leaf, "shape"):
        return (type(leaf), tuple(leaf.shape), leaf.dtype)
    return type(leaf) if type(leaf) in (int, float) else (type(leaf), leaf)


def tensor_kind(tensor: Tensor) -> Kind:
    """Return the kind of a Tensor whose array is an input."""
    data: Any = tensor.data
    return (Tensor, tensor.node is not None, True, type(data), tuple(data.shape), data.dtype)


def is_static(kind: Kind) -> bool:
    """Return True for the kind of a static value."""
    return isinstance(kind, tuple) and len(kind) == 2


# ------------------------------------------------------------------ tests


class Conditions:
    """The conditions, as Python text, under which values have other kinds."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        scope.names.update(Tensor=Tensor, GLOBAL_TAPE=GLOBAL_TAPE, LEAF=LEAF, Node=Node)
        self.found: list[str] = []
        self._arrays: list[tuple[str, Kind]] = []

    def add(self, name: str, kind: Kind) -> None:
        """Add the conditions for an expression, for a Tensor also ``level`` and node."""
        of_type = f"type({name}) is not {self.scope.hold(kind if isinstance(kind, type) else kind[0], 'kind')}"
        if isinstance(kind, type):
            self.found.append(of_type)
        elif kind[0] is Tensor:
            self.found += [of_type, f"{name}.level is not GLOBAL_TAPE"]
            self.found += [f"type({name}.node) is not Node", f"{name}.node.plan is not LEAF"] if kind[1] else []
            if kind[3] is not np.ndarray:
                self.add(f"{name}.data", kind[3:])
        elif len(kind) == 2:
            self.found += [of_type, f"{name} != {self.scope.hold(kind[1], 'value')}"]
        elif len(kind) == 3:
            self._arrays.append((name, kind))
        else:
            device = self.scope.hold(backend_of_type(kind[0]).device_name, "device")  # type: ignore[union-attr]
            parts = [f"tuple({name}.shape)", f"{name}.dtype", f"{device}({name})"]
            parts += [] if kind[4] is None else [f"{name}.weak_type"]
            self.found += [of_type, f"({', '.join(parts)}) != {self.scope.hold(kind[1 : 1 + len(parts)], 'array')}"]

    def lines(self, indent: str) -> list[str]:
        """Return the lines that return None if one of the conditions is true."""
        found = [f"type({name}) is not {self.scope.hold(kind[0], 'kind')}" for name, kind in self._arrays]
        if self._arrays:  # a list compiles in half the time of a condition for each array
            values = "".join([f"{name}.shape, {name}.dtype, " for name, _ in self._arrays])
            found.append(f"({values}) != {self.scope.hold(tuple([p for _, k in self._arrays for p in k[1:]]), 'like')}")
        return none_if([*found, *self.found], indent)


def none_if(conditions: Sequence[str], indent: str = "    ") -> list[str]:
    """Return the lines that return None if one of the conditions is true."""
    return [f"{indent}if {' or '.join(conditions)}:", f"{indent}    return None"] if conditions else []


# ------------------------------------------------------------------ texts

_short = Repr()
_short.maxstring = _short.maxother = 40
_short.maxlevel = 2

_PLAIN_REPR: Any = object.__repr__


def value_text(value: Any) -> str:
    """Return a short text: arrays by dtype and shape, objects by their type."""
    if isinstance(value, Tensor) or (hasattr(value, "shape") and backend_of_type(type(value)) is not None):
        return f"{'Tensor ' if isinstance(value, Tensor) else ''}{_array_text(value.shape, value.dtype)}"
    if isinstance(value, (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return value.__qualname__
    return f"a {type(value).__name__}" if type(value).__repr__ is _PLAIN_REPR else str(_short.repr(value))


def _array_text(shape: Sequence[int], dtype: Any) -> str:
    name = dtype.rpartition(".")[2] if isinstance(dtype, str) else dtype_name(dtype)
    return f"{name}[{','.join(map(str, shape))}]"


def kind_text(kind: Kind, whole: bool = False) -> str:
    """Return the text of a kind; whole: with the type, the device and so on."""
    if isinstance(kind, type):
        return kind.__name__
    if is_static(kind):
        return value_text(kind[1])
    is_tensor = kind[0] is Tensor
    made_by, shape, dtype, *rest = kind[3:] if is_tensor else kind
    words = ["Tensor"] if is_tensor else []
    words.append(_array_text(shape, dtype))
    if whole:
        words.append(f"({', '.join([f'{made_by.__module__}.{made_by.__qualname__}', *map(str, rest)])})")
    if is_tensor and kind[1]:
        words.append("that requires a gradient" if kind[2] else "made by operations")
    return " ".join(words)


def change_text(name: str, old: str, new: str, what: str = "") -> str:
    """Return the text of a change."""
    return f"{name}{what}: {old} -> {new if new != old else f'another {new}'}"


def kind_change(name: str, old: Kind, new: Kind) -> list[str]:
    """Return the text of a change of kind, in a list, which is empty if there is none."""
    if old == new:
        return []
    texts = [kind_text(old), kind_text(new)]
    if texts[0] == texts[1] and not is_static(old):
        texts = [kind_text(old, whole=True), kind_text(new, whole=True)]
    return [change_text(name, texts[0], texts[1], " (static)" if is_static(old) and is_static(new) else "")]
