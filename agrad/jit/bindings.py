"""Generated functions of an entry: match a call, gather inputs, store results.

Speed is decided here: a step of a small network takes a quarter of a millisecond, and has forty inputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agrad.backends import backend_of, backend_of_type
from agrad.engine.levels import GLOBAL_TAPE
from agrad.engine.tensor import Tensor, wrap
from agrad.jit.lower.plain import Scope, define
from agrad.transforms.trees import flatten, unflatten


def like_array(raw: Any) -> tuple[Any, ...]:
    """Return the type, shape, dtype and device that arrays of a program share."""
    kind = type(raw)
    if kind.__module__ == "numpy":
        return (kind, raw.shape, raw.dtype)
    backend = backend_of_type(kind)
    assert backend is not None
    return (kind, tuple(raw.shape), str(raw.dtype), str(backend.device_of(raw)), getattr(raw, "weak_type", None))


_SINGLE = (bool, int, str)
"""Types of static arguments whose comparison is one."""


def match_function(leaves: Sequence[Any], kinds: Sequence[Any], spec: Any) -> Callable[[Sequence[Any]], bool] | None:
    """Return a function that tests positional arguments for a signature.

    It says nothing of keywords, of what is recorded and of the selected backend, and may say no where the signature is
    the same. None where the arguments are not plain leaves or derivatives flow to them: there the signature asks more.
    """
    if spec.num_nodes != len(leaves) + 3:  # the pair, the tuple of arguments, and None for keywords
        return None
    tensors = [i for i, kind in enumerate(kinds) if type(kind) is tuple and kind[0] is Tensor]
    if len({id(leaves[i]) for i in tensors}) < len(tensors):
        return None
    scope = Scope()
    scope.names.update(Tensor=Tensor, GLOBAL_TAPE=GLOBAL_TAPE, like_array=like_array)
    asked = [f"len(args) == {len(leaves)}"]
    asked += [f"args[{i}] is not args[{k}]" for k in tensors for i in tensors if i < k]
    for i, kind in enumerate(kinds):
        name, array = f"args[{i}]", kind
        if type(kind) is not tuple:
            asked.append(f"type({name}) is {scope.hold(kind, 'kind')}")
            continue
        if kind[0] is Tensor:
            _, recorded, is_leaf, *like = kind
            if recorded or not is_leaf:
                return None
            asked += [f"type({name}) is Tensor", f"{name}.level is GLOBAL_TAPE", f"{name}.node is None"]
            name, array = f"{name}.data", tuple(like)
        if array[0] is np.ndarray:
            parts = zip(("type({})", "{}.shape", "{}.dtype"), ("is", "==", "=="), array, strict=True)
            asked += [f"{text.format(name)} {how} {scope.hold(part, 'like')}" for text, how, part in parts]
        elif len(array) > 2:
            asked.append(f"type({name}) is {scope.hold(array[0], 'kind')}")
            asked.append(f"like_array({name}) == {scope.hold(array, 'like')}")
        elif array[0] in _SINGLE:
            asked += [f"type({name}) is {array[0].__name__}", f"{name} == {scope.hold(array[1], 'value')}"]
        else:
            return None
    text = f"def matches(args):\n    return {' and '.join(asked)}\n"
    made: Callable[[Sequence[Any]], bool] = define("matches", text, scope.names)
    return made


def gather_function(entry: Any) -> Callable[[Sequence[Any]], list[Any] | None]:
    """Return the function from the arguments' leaves to inputs, or None to retrace."""
    scope = Scope()
    scope.names.update(Tensor=Tensor, hold=entry.state.holds, guards=entry.guards)
    lines = ["def gather(leaves):", "    if not hold():", "        return None"]
    lines += _arguments(entry, scope)
    values = [_raw_text(entry, i) for i in entry.leaf_inputs]
    for k, slot in enumerate(entry.slots):
        tensor = f"leaves[{slot.leaf}]" if slot.tensor is None else scope.hold(slot.tensor, "t")
        lines.append(f"    t{k} = {tensor}")
        if slot.donates:
            # asked before a variable here holds the array
            lines.append(f"    n{k} = {scope.hold(backend_of(slot.tensor.data).donatable, 'donatable')}(t{k})")
            values.append(f"n{k}")
    for k, slot in enumerate(entry.slots):
        dtype = scope.hold(slot.dtype, "dtype")
        wrong = [
            f"type(d{k}) is not {scope.hold(slot.kind, 'kind')}",
            f"d{k}.shape != {scope.hold(slot.shape, 'shape')}",
            f"(d{k}.dtype is not {dtype} and d{k}.dtype != {dtype})",
            f"t{k}.node is {'None' if slot.needs_grad else 'not None'}",
            f"getattr(t{k}, '_grad', None) is {'None' if slot.has_grad else 'not None'}",
        ]
        lines += [f"    d{k} = t{k}.data", f"    if {' or '.join(wrong)}:", "        return None"]
        values.append(f"d{k}")
        if slot.has_grad:
            values.append(f"t{k}._grad.bare")
    for k, attribute in enumerate(entry.attributes):
        lines += _take_attribute(attribute, f"s{k}", scope, values)
    values += [scope.hold(raw, "captured") for raw in entry.captured]
    lines.append(f"    inputs = [{', '.join(values)}]")
    if entry.guards is not None:
        lines += ["    if not guards(inputs):", "        return None"]
    if entry.strides is not None:
        lines += [f"    if not {scope.hold(entry.strides, 'strides')}(inputs):", "        return None"]
    lines.append("    return inputs")
    return define("gather", "\n".join(lines) + "\n", scope.names)


def _raw_text(entry: Any, leaf: int) -> str:
    return f"leaves[{leaf}].data" if entry.leaf_is_tensor[leaf] else f"leaves[{leaf}]"


def _arguments(entry: Any, scope: Scope) -> list[str]:
    """Return the checks that argument Tensors are the captured ones, and no others."""
    lines = []
    own = scope.hold(entry.own, "own") if entry.own else ""
    for i, is_tensor in enumerate(entry.leaf_is_tensor):
        if not is_tensor:
            continue
        number = entry.fixed.get(i)
        if number is not None:
            wrong = f"leaves[{i}] is not {scope.hold(entry.slots[number].tensor, 't')}"
        elif own:
            wrong = f"id(leaves[{i}]) in {own}"
        else:
            continue
        lines += [f"    if {wrong}:", "        return None"]
    return lines


def _pattern(value: Any, names: list[str]) -> str | None:
    """Return the assignment target that unpacks nested lists into names, or None."""
    if type(value) not in (list, tuple):
        return names.pop(0)
    parts = [_pattern(part, names) for part in value]
    if not parts or any(part is None for part in parts):
        return "_" if not parts else None
    return f"({', '.join(str(part) for part in parts)},)"


def _build(value: Any, names: list[str]) -> str:
    """Return the expression of a nested list or tuple of its leaves' expressions."""
    if type(value) not in (list, tuple):
        return names.pop(0)
    parts = ", ".join(_build(part, names) for part in value)
    return f"[{parts}]" if type(value) is list else f"({parts}{',' if len(value) == 1 else ''})"


def _plain(value: Any) -> bool:
    """Return True for a value of lists and tuples alone, none of them empty."""
    if type(value) in (list, tuple):
        return bool(value) and all(map(_plain, value))
    return not isinstance(value, (list, tuple, dict)) and value is not None


def _take_attribute(attribute: Any, stem: str, scope: Scope, values: list[str]) -> list[str]:
    holder = scope.hold(attribute.holder, "holder")
    now = getattr(attribute.holder, attribute.name)
    count = len(attribute.kinds)
    if type(now) is list and not now:  # a list compares its length first
        return [f"    if {holder}.{attribute.name} != []:", "        return None"]
    if not _plain(now):
        scope.names[f"take_{stem}"] = attribute.take
        values += [f"{stem}[{k}]" for k in range(len(attribute.places))]
        return [f"    {stem} = take_{stem}()", f"    if {stem} is None:", "        return None"]
    names = [f"{stem}_{i}" for i in range(count)]
    lines = [
        "    try:",
        f"        {_pattern(now, list(names))} = {holder}.{attribute.name}",
        "    except (TypeError, ValueError):",
        "        return None",
    ]
    for i, kind in enumerate(attribute.kinds):
        name = names[i]
        if isinstance(kind, type):
            wrong = f"type({name}) is not {scope.hold(kind, 'kind')}"
        elif len(kind) == 3:
            type_, shape, dtype = (scope.hold(part, "like") for part in kind)
            wrong = f"type({name}) is not {type_} or {name}.shape != {shape} or {name}.dtype != {dtype}"
        else:
            wrong = f"{name} != {scope.hold(kind[0], 'value')}"
        lines += [f"    if {wrong}:", "        return None"]
    values += [names[i] for i in attribute.places]
    return lines


def finish_function(entry: Any) -> Callable[..., Any]:
    """Return ``finish(values, leaves)``, which writes outputs into the state.

    It gives the result, but of a call that is recorded None.
    """
    scope = Scope()
    scope.names.update(wrap=wrap, GLOBAL_TAPE=GLOBAL_TAPE, unflatten=unflatten)
    lines = ["def finish(values, leaves):"]
    for k, slot in enumerate(entry.slots):
        if slot.data is None and slot.grad is None and not slot.clears:
            continue
        tensor = f"leaves[{slot.leaf}]" if slot.tensor is None else scope.hold(slot.tensor, "t")
        lines.append(f"    t{k} = {tensor}")
        if slot.data is not None:
            lines.append(f"    t{k}.data = values[{slot.data}]")
        if slot.grad is not None:
            lines.append(f"    t{k}._grad = wrap(values[{slot.grad}], GLOBAL_TAPE)")
        elif slot.clears:
            lines.append(f"    t{k}._grad = None")
    for attribute in entry.attributes:
        if attribute.new_leaves is None:
            continue
        holder = scope.hold(attribute.holder, "holder")
        leaves = [
            f"values[{leaf.place}]" if hasattr(leaf, "place") else scope.hold(leaf, "leaf")
            for leaf in attribute.new_leaves
        ]
        lines.append(f"    {holder}.{attribute.name} = {_container(attribute.new_spec, leaves, scope)}")
    lines.append(f"    return {_result_text(entry, scope) if entry.derivative is None else None}")
    return define("finish", "\n".join(lines) + "\n", scope.names)


def _result_text(entry: Any, scope: Scope) -> str:
    """Return the expression of the function's result."""
    leaves = []
    for leaf in entry.out_leaves:
        if hasattr(leaf, "place"):
            value = f"values[{leaf.place}]"
            leaves.append(f"wrap({value}, GLOBAL_TAPE)" if leaf.tensor else value)
        else:
            leaves.append(scope.hold(leaf, "leaf"))
    return _container(entry.out_spec, leaves, scope)


def _container(spec: Any, leaves: list[str], scope: Scope) -> str:
    """Return the expression of a container of leaves' expressions."""
    skeleton = unflatten(spec, [object() for _ in leaves])
    if _plain(skeleton) and flatten(skeleton)[1] == spec:
        return _build(skeleton, leaves)
    return f"unflatten({scope.hold(spec, 'spec')}, [{', '.join(leaves)}])"
