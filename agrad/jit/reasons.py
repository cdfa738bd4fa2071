"""Reports of jitted functions: reasons for traces, programs, counts of calls."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from agrad.jit.bindings import inputs_of
from agrad.jit.guards import Contents
from agrad.jit.kinds import change_text, is_static, kind_change, kind_text, state_kind, tensor_kind, value_text
from agrad.jit.program import Program, Variable, show
from agrad.transforms.trees import flatten

KEPT = 16
"""The number of traces that are remembered."""

SHOWN = 8
"""The most arguments of a signature, and differences of a trace, that are shown."""


class Explanation:
    """The last traces of a jitted function, why each was necessary, and its compiler.

    Printed, it is readable text. ``count`` is the number of all traces. ``signatures``, ``reasons`` and ``compilers``
    describe the last traces, the oldest first: the arguments, what differed from the nearest existing program, and
    which compiler compiled the program, or an empty string. A first trace has no reasons.
    """

    def __init__(self, name: str, count: int, hits: int, traces: Sequence[tuple[str, list[str], str]]) -> None:
        self.name: str = name
        self.count: int = count
        self.hits: int = hits
        self.signatures: list[str] = [signature for signature, *_ in traces]
        self.reasons: list[list[str]] = [reasons for _, reasons, _ in traces]
        self.compilers: list[str] = [compiler for *_, compiler in traces]

    def __repr__(self) -> str:
        if not self.count:
            return f"{self.name} was not traced yet"
        found = [
            [*_some(reasons), *filter(None, [text])] for reasons, text in zip(self.reasons, self.compilers, strict=True)
        ]
        if self.count == 1:
            start = f"{self.name} was traced once, for {self.signatures[0]}; programs found: {self.hits}"
            return "\n".join([start, *[f"     {line}" for line in found[0]]])
        lines = [f"{self.name} was traced {self.count} times; programs found: {self.hits}"]
        first = self.count - len(found) + 1
        for number, (signature, more) in enumerate(zip(self.signatures, found, strict=True), first):
            lines += [f"{number}. {signature}", *[f"     {line}" for line in more]]
        return "\n".join(lines)


def _some(parts: Sequence[str]) -> list[str]:
    """Return the first parts, and how many more there are."""
    return [*parts[:SHOWN], *([f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else [])]


# ------------------------------------------------------------------ signatures


def leaf_names(spec: Any, names: Sequence[str]) -> list[str]:
    """Return the name of each leaf of a call's arguments: ``params['w'][0]``.

    names: the names of the positional parameters.
    """
    found: list[str] = []
    for place in spec.accessors():
        part, at = place.path[:2]
        found.append(place[2:].codify(at if part else _positional(at, names)))
    return found


def _positional(place: Any, names: Sequence[str]) -> str:
    if isinstance(place, str):
        return place
    return names[place] if place < len(names) else f"argument {place}"


def signature_text(key: Any, names: Sequence[str]) -> str:
    """Return the arguments of a signature by name, with their kinds."""
    static = dict(key.static)
    parts = [f"{_positional(place, names)} = {value_text(value)}" for place, value in static.items()]
    parts += [
        f"{name} = {kind_text(kind)}" if is_static(kind) else f"{name}: {kind_text(kind)}"
        for name, kind in zip(leaf_names(key.spec, names), key.kinds, strict=True)
    ]
    return ", ".join(_some(parts)) or "no arguments"


def nearest(keys: Iterable[Any], key: Any) -> Any:
    """Return the signature with the fewest differences, the first one among equals."""

    def distance(other: Any) -> tuple[bool, int]:
        fields = sum(map(operator.ne, other[1:], key[1:]))
        return other.spec != key.spec, sum(map(operator.ne, other.kinds, key.kinds)) + fields

    return min(keys, key=distance)


def key_differences(old: Any, new: Any, names: Sequence[str]) -> list[str]:
    """Return what differs between two signatures."""
    found = list(_structures(old.spec, new.spec, names))
    before = dict(zip(leaf_names(old.spec, names), old.kinds, strict=True))
    for name, kind in zip(leaf_names(new.spec, names), new.kinds, strict=True):
        found += kind_change(name, before.get(name, kind), kind)
    static = {pair[0]: (pair, kind) for pair, kind in zip(old.static, old.static_types, strict=True)}
    for pair, kind in zip(new.static, new.static_types, strict=True):
        known = static.get(pair[0], (pair, kind))
        if known != (pair, kind):
            texts = value_text(known[0][1]), value_text(pair[1])
            found.append(change_text(_positional(pair[0], names), *texts, " (static)"))
    if old.pattern != new.pattern and old.spec == new.spec and old.kinds == new.kinds:
        found.append("other arguments are one and the same Tensor")
    for name, what in _FIELDS.items():
        if getattr(old, name) != getattr(new, name):
            found.append(change_text(what, _field_text(getattr(old, name)), _field_text(getattr(new, name))))
    return found


def _field_text(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


_FIELDS = {
    "records": "gradients are recorded",
    "on_global_tape": "arguments are recorded for backward()",
    "backend": "the selected backend",
    "device": "the selected device",
    "donated": "the donated leaves that may be overwritten",
}


def _structures(old: Any, new: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield the differences of structure, by name of the argument."""
    if old == new:
        return
    (old_args, old_named), (new_args, new_named) = old.children(), new.children()
    if old_args.num_children != new_args.num_children:
        yield change_text("positional arguments", str(old_args.num_children), str(new_args.num_children))
    for i, (a, b) in enumerate(zip(old_args.children(), new_args.children(), strict=False)):
        yield from _structure(a, b, _positional(i, names))
    before, after = (dict(zip(spec.entries(), spec.children(), strict=True)) for spec in (old_named, new_named))
    for name in (*before, *[name for name in after if name not in before]):
        if name in before and name in after:
            yield from _structure(before[name], after[name], name)
        else:
            yield f"argument {name}: {'new' if name in after else 'left out'}"


def _structure(old: Any, new: Any, path: str) -> Iterator[str]:
    if old == new:
        return
    before, after = old.entries(), new.entries()
    if old.is_leaf() or new.is_leaf() or old.type is not new.type:
        yield change_text(f"structure of {path}", _node_text(old), _node_text(new))
        return
    if issubclass(old.type, dict):
        yield from (f"structure of {path}: key {key!r} new" for key in after if key not in before)
        yield from (f"structure of {path}: key {key!r} gone" for key in before if key not in after)
    elif before != after:
        yield change_text(f"structure of {path}", f"{len(before)} parts", f"{len(after)} parts")
    parts = dict(zip(after, new.children(), strict=True))
    for key, child in zip(before, old.children(), strict=True):
        if key in parts:
            yield from _structure(child, parts[key], f"{path}[{key!r}]")


def _node_text(spec: Any) -> str:
    if spec.is_leaf():
        return "an array or a value"
    return "None" if spec.type is type(None) else str(spec.type.__name__)


# ------------------------------------------------------------------ state


def state_differences(entry: Any, leaves: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Return why an entry does not fit a call of its signature.

    names: the names of the leaves.
    """
    found = [
        f"{what}: other contents" if isinstance(what, Contents) else change_text(what, value_text(a), value_text(b))
        for what, a, b in entry.state.differences()
    ]
    own = {id(slot.tensor): entry.state.places[id(slot.tensor)] for slot in entry.slots if slot.tensor is not None}
    for i, tensor in entry.tensor_leaves.items():
        if tensor is not None and leaves[i] is not tensor:
            found.append(f"{names[i]}: the Tensor {own[id(tensor)]} -> another one")
        elif tensor is None and id(leaves[i]) in own:
            found.append(f"{names[i]}: another Tensor -> {own[id(leaves[i])]}")
    for slot in entry.slots:
        name, tensor = names[slot.leaf] if slot.tensor is None else own[id(slot.tensor)], slot.find(leaves)
        found += kind_change(name, slot.kind, tensor_kind(tensor))
        if slot.has_grad not in (None, tensor.grad is not None):
            words = ("None", "an array")
            found.append(change_text(f"{name}.grad", words[slot.has_grad], words[not slot.has_grad]))
    for attribute in entry.attributes:
        name = f"{entry.state.places[id(attribute.holder)]}.{attribute.name}"
        state, spec = flatten(getattr(attribute.holder, attribute.name))
        if spec != attribute.spec:
            found.append(f"{name}: another structure of state")
            continue
        for kind, leaf in zip(attribute.kinds, state, strict=True):
            found += kind_change(name, kind, state_kind(leaf))
    if not found and entry.guards is not None:
        found += entry.guards.differences(inputs_of(entry, leaves), names)
    if not found and entry.strides is not None:
        found.append("the layout of an array in memory, which decides if a result is a view")
    return found or ["state that has changed back since"]


class NumberGuards:
    """The numbers of the host that a trace depends on.

    program: computes the numbers from the inputs of a call. run: its function. expected: their values in the trace.
    places: the leaf index, or the name, of the inputs that are numbers.
    """

    def __init__(self, program: Program, run: Any, expected: list[Any], places: Mapping[Variable, int | str]) -> None:
        self._program, self._run, self._expected, self._places = program, run, expected, places

    def hold(self, inputs: Sequence[Any]) -> bool:
        """Return True if the numbers have the values of the trace."""
        return list(self._run(inputs)) == self._expected

    def differences(self, inputs: Sequence[Any], names: Sequence[str]) -> Iterator[str]:
        """Yield the numbers whose values differ from the trace."""
        texts = {v: names[at] if isinstance(at, int) else at for v, at in self._places.items()}
        for instruction in self._program.instructions:
            arguments = ", ".join([texts.get(v, value_text(v)) for v in instruction.operands])
            texts.update(dict.fromkeys(instruction.results, f"{instruction.name}({arguments})"))
        for v, old, new in zip(self._program.outputs, self._expected, self._run(inputs), strict=True):
            if old != new:
                yield change_text(texts.get(v, "a number"), value_text(old), value_text(new), ", which the trace read")


# ------------------------------------------------------------------ programs as text


class CacheInfo(NamedTuple):
    """Counts of a jitted function's replays and traces, and of the programs it keeps."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Lowered:
    """The program of one signature.

    Its text shows the program before and after each pass, and the generated code.
    """

    def __init__(self, name: str, entry: Any) -> None:
        self.name = name
        self.stages: list[tuple[str, Program]] = entry.stages
        self.code: str = getattr(entry.run, "text", "")

    def __str__(self) -> str:
        parts = []
        earlier = ""
        for name, program in self.stages:
            text = show(program)
            parts.append(f"# {name}\n{text}" if text != earlier else f"# {name}: as before")
            earlier = text
        if self.code:
            parts.append(f"# code\n{self.code}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the stages for notebooks, the last one open."""
        stages = [(name, show(program)) for name, program in self.stages]
        stages += [("code", self.code)] if self.code else []
        return "".join(
            f"<details{' open' * (k == len(stages) - 1)}><summary>{escape(name)}</summary><pre>{escape(text)}</pre>"
            "</details>"
            for k, (name, text) in enumerate(stages)
        )
