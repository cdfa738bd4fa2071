"""Bindings of a program: read its inputs from a call, and write its results back.

The functions are generated. A step of a small network needs a quarter of a millisecond and has forty inputs. Loops over
the inputs would need a third of that time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from agrad.backends import backend_of
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tensor import Tensor, wrap
from agrad.jit.kinds import Conditions, Kind, none_if, state_kind
from agrad.jit.lower.numpy.buffers import reusable_gradient_function
from agrad.jit.lower.plain import Scope, define
from agrad.jit.program import Variable
from agrad.transforms.trees import flatten, unflatten


@dataclass(slots=True, eq=False)
class Slot:
    """A leaf Tensor that a program reads or writes: captured, or an argument."""

    tensor: Tensor | None
    """None for an argument."""
    leaf: int
    """The number of the argument's leaf, or -1."""
    kind: Kind
    """Its ``tensor_kind``: the second entry is true if it requires a gradient."""
    has_grad: bool | None = None
    """None if the function does not read the gradient, but sets it or leaves it."""
    donates: bool = False
    """True if an input says at each call if the array may be overwritten."""
    reuses_gradient: bool = False
    """True if the program is given the array of the last gradient to write the next one there."""
    data: Any = None
    """The number of the output that is the new array, or None."""
    grad: Any = None
    """The number of the output that is the new gradient, or None."""
    clears: bool = False
    """True if the gradient is None afterwards."""

    @property
    def array(self) -> Kind:
        """Return the type, shape and dtype of the array."""
        return self.kind[3:]

    def find(self, leaves: Sequence[Any]) -> Tensor:
        """Return the Tensor of this call."""
        return cast(Tensor, leaves[self.leaf]) if self.tensor is None else self.tensor


@dataclass(slots=True, eq=False)
class Installed:
    """A Tensor that holds a traced array during the trace."""

    slot: Slot
    tensor: Tensor
    """The captured Tensor, or the Tensor that represents an argument."""
    data: Variable
    read: Callable[[], Any] | None = None
    """Replaces the gradient until somebody reads it; returns the gradient."""
    grad: Variable | None = None
    """The gradient as an input, if it was read."""


@dataclass(slots=True, eq=False)
class Attribute:
    """An attribute of a stateful object, with the structure and kinds of its leaves."""

    holder: Any
    name: str
    spec: Any
    kinds: tuple[Any, ...]
    """For each leaf its ``state_kind``."""
    places: tuple[int, ...]
    """The numbers of the leaves that are inputs."""
    new_spec: Any = None
    new_leaves: tuple[Any, ...] | None = None
    """The new leaves as outputs or values, or None for an attribute that is unchanged."""

    def take(self) -> list[Any] | None:
        """Return the inputs of this call, or None if the kind of a leaf has changed."""
        leaves, spec = flatten(getattr(self.holder, self.name))
        if spec != self.spec or tuple(map(state_kind, leaves)) != self.kinds:
            return None
        return [leaves[i] for i in self.places]


@dataclass(slots=True, frozen=True)
class Out:
    """An output of the program in the result of a call."""

    place: int
    """The number of the output."""
    tensor: bool
    """True if it becomes a Tensor."""


# ------------------------------------------------------------------ inputs


def inputs_of(entry: Any, leaves: Sequence[Any]) -> list[Any]:
    """Return the inputs of a call that the program fits, in the program's order."""
    found = [leaves[i].data if i in entry.tensor_leaves else leaves[i] for i in entry.leaf_inputs]
    found += [backend_of(slot.tensor.data).donatable(slot.tensor)[0] for slot in entry.slots if slot.donates]
    found += [None for slot in entry.slots if slot.reuses_gradient]
    for slot in entry.slots:
        tensor: Any = slot.find(leaves)
        found += [tensor.data, tensor.grad.bare] if slot.has_grad else [tensor.data]
    found += [value for attribute in entry.attributes for value in attribute.take()]
    found += entry.captured
    if entry.strides is not None:
        entry.strides(found)  # at its first call it keeps the layout
    return found


def gather_function(entry: Any) -> Callable[[Sequence[Any]], list[Any] | None]:
    """Return the function from the arguments' leaves to inputs, or None to retrace."""
    scope = Scope()
    scope.names.update(holds=entry.state.holds, guards=None if entry.guards is None else entry.guards.hold)
    lines = ["def gather(leaves):", *none_if(["not holds()", *_captured_arguments(entry, scope)])]
    values = [f"leaves[{i}].data" if i in entry.tensor_leaves else f"leaves[{i}]" for i in entry.leaf_inputs]
    tensors = [_tensor_text(slot, scope) for slot in entry.slots]
    donating: dict[str, list[int]] = {}
    for k, slot in enumerate(entry.slots):
        if slot.donates:
            values.append(f"n{k}")
            donating.setdefault(scope.hold(backend_of(slot.tensor.data).donatable, "donatable"), []).append(k)
    for name, some in donating.items():
        # evaluated before a variable here refers to an array
        lines.append(f"    {', '.join([f'n{k}' for k in some])}, = {name}({', '.join([tensors[k] for k in some])})")
    for k, (tensor, slot) in enumerate(zip(tensors, entry.slots, strict=True)):
        if slot.reuses_gradient:
            lines.append(f"    o{k} = {scope.hold(reusable_gradient_function(*slot.array[1:]), 'spare')}({tensor})")
            values.append(f"o{k}")
    wrong = Conditions(scope)
    for k, (tensor, slot) in enumerate(zip(tensors, entry.slots, strict=True)):
        lines.append(f"    d{k} = {tensor}.data")
        wrong.add(f"d{k}", slot.array)
        wrong.found.append(f"{tensor}.node is {'None' if slot.kind[1] else 'not None'}")
        values.append(f"d{k}")
        if slot.has_grad is not None:
            # a trace sets the gradient of a captured Tensor, perhaps to None; the gradient of an argument may be unset
            grad = f"getattr({tensor}, '_grad', None)" if slot.tensor is None else f"{tensor}._grad"
            wrong.found.append(f"{grad} is {'None' if slot.has_grad else 'not None'}")
            values += [f"{tensor}.grad.bare"] if slot.has_grad else []
    taken = [_take_attribute(a, f"s{k}", values, wrong) for k, a in enumerate(entry.attributes)]
    if taken:
        # an assignment to nested lists checks their lengths
        lines += ["    try:", *taken, "    except (TypeError, ValueError):", "        return None"]
    values += [scope.hold(raw, "captured") for raw in entry.captured]
    lines += wrong.lines("    ")
    lines.append(f"    inputs = [{', '.join(values)}]")
    if entry.guards is not None:
        lines += none_if(["not guards(inputs)"])
    if entry.strides is not None:
        lines += none_if([f"not {scope.hold(entry.strides, 'strides')}(inputs)"])
    lines.append("    return inputs")
    return cast(Any, define("gather", "\n".join(lines) + "\n", scope.names))


def _tensor_text(slot: Slot, scope: Scope) -> str:
    return f"leaves[{slot.leaf}]" if slot.tensor is None else scope.hold(slot.tensor, "t")


def _captured_arguments(entry: Any, scope: Scope) -> list[str]:
    """Return the conditions for argument Tensors that are not the captured ones."""
    own = {id(slot.tensor) for slot in entry.slots if slot.tensor is not None}
    known = [f"leaves[{i}] is not {scope.hold(t, 't')}" for i, t in entry.tensor_leaves.items() if t is not None]
    others = [i for i, tensor in entry.tensor_leaves.items() if tensor is None and own]
    return known + [f"id(leaves[{i}]) in {scope.hold(own, 'own')}" for i in others]


def _take_attribute(attribute: Attribute, stem: str, values: list[str], wrong: Conditions) -> str:
    """Return the line that reads an attribute. Inputs are added to ``values``, and conditions to ``wrong``."""
    names = [f"{stem}_{i}" for i in range(len(attribute.kinds))]
    nested = _nested(attribute.spec, names)
    if nested is None:
        values += [f"{stem}[{k}]" for k in range(len(attribute.places))]
        wrong.found.insert(0, f"{stem} is None")
        return f"        {stem} = {wrong.scope.hold(attribute.take, 'state')}()"
    values += [names[i] for i in attribute.places]
    for name, kind in zip(names, attribute.kinds, strict=True):
        wrong.add(name, kind)
    return f"        {nested} = {wrong.scope.hold(attribute.holder, 'holder')}.{attribute.name}"


class _Text(str):
    """The text of a leaf of a pytree."""

    __slots__ = ()


def _nested(spec: Any, leaves: Sequence[str], scope: Scope | None = None) -> str | None:
    """Return the text of nested lists and tuples of leaves, or None for other containers.

    With a scope, dictionaries are supported too.
    """
    try:
        return _container_text(unflatten(spec, list(map(_Text, leaves))), scope)
    except TypeError:
        return None


def _container_text(value: Any, scope: Scope | None) -> str:
    if type(value) is _Text:
        return value
    if type(value) is dict and scope is not None:
        parts = [f"{scope.hold(key)}: {_container_text(part, scope)}, " for key, part in value.items()]
        return f"{{{''.join(parts)}}}"
    if type(value) not in (list, tuple):
        raise TypeError
    text = "".join([f"{_container_text(part, scope)}, " for part in value])
    return f"[{text}]" if type(value) is list else f"({text})"


def stride_check() -> Callable[[Sequence[Any]], bool]:
    """Return the test that inputs have the same strides as at its first call."""
    kept: list[Any] = []

    def holds(inputs: Sequence[Any]) -> bool:
        now = [_strides(x) for x in inputs if hasattr(x, "shape")]
        if not kept:
            kept.append(now)
        return bool(now == kept[0])

    return holds


def _strides(raw: Any) -> list[int]:
    # the step along an axis of length 1 has no meaning
    return [step for step, n in zip(backend_of(raw).strides(raw), raw.shape, strict=False) if n > 1]


# ------------------------------------------------------------------ results


def finish_function(entry: Any) -> Callable[..., Any]:
    """Return the function that writes outputs into the state and returns the result.

    Its arguments are the outputs, the arguments' leaves, and the nesting level and the nodes of recorded leaves.
    """
    scope = Scope()
    scope.names.update(wrap=wrap, GLOBAL_TAPE=GLOBAL_TAPE, unflatten=unflatten)
    lines = ["def finish(values, leaves, level=None, nodes=()):"]
    program = entry.stages[-1][1]
    lazy = program.notes.get("lazy_gradients", {})
    for slot in entry.slots:
        tensor = _tensor_text(slot, scope)
        if slot.data is not None:
            value, kind = f"values[{slot.data}]", slot.array[0]
            made = getattr(program.outputs[slot.data], "kind", kind)
            if made is not kind is np.ndarray:  # a scalar, where a write in place keeps an array
                value = f"{scope.hold(np.asarray, 'asarray')}({value})"
            lines.append(f"    {tensor}.data = {value}")
        if slot.grad in lazy:
            given = f"values[{slot.grad}], values[{lazy[slot.grad].place}]"
            lines.append(f"    {tensor}._grad = {scope.hold(lazy[slot.grad].of, 'lazy')}({given})")
        elif slot.grad is not None:
            lines.append(f"    {tensor}._grad = wrap(values[{slot.grad}], GLOBAL_TAPE)")
        elif slot.clears:
            lines.append(f"    {tensor}._grad = None")
    for attribute in entry.attributes:
        if attribute.new_leaves is not None:
            value = _container(attribute.new_spec, attribute.new_leaves, (), scope)
            lines.append(f"    {scope.hold(attribute.holder, 'holder')}.{attribute.name} = {value}")
    recorded = () if entry.derivative is None else entry.derivative.places
    lines.append(f"    return {_container(entry.out_spec, entry.out_leaves, recorded, scope)}")
    return cast(Any, define("finish", "\n".join(lines) + "\n", scope.names))


def _container(spec: Any, leaves: Sequence[Any], recorded: Sequence[int], scope: Scope) -> str:
    """Return the expression of a pytree of outputs and values.

    recorded: the indices of the outputs that have nodes.
    """

    def text(leaf: Any) -> str:
        if not isinstance(leaf, Out):
            return scope.hold(leaf, "leaf")
        value = f"values[{leaf.place}]"
        if leaf.place in recorded:
            return f"wrap({value}, level, nodes[{recorded.index(leaf.place)}])"
        return f"wrap({value}, GLOBAL_TAPE)" if leaf.tensor else value

    texts = [text(leaf) for leaf in leaves]
    return _nested(spec, texts, scope) or f"unflatten({scope.hold(spec, 'spec')}, [{', '.join(texts)}])"
