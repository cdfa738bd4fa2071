"""Signatures: positions of static arguments, and the generated test of a call.

The test recognizes arguments like the previous ones in a fraction of the time that computing their key needs.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from agrad.engine.tensor import Tensor
from agrad.errors import ConfigurationError
from agrad.jit.kinds import Conditions, is_static, none_if
from agrad.jit.lower.plain import Scope, define

Matches = Callable[[Sequence[Any], dict[str, Any]], Sequence[Any] | None]

_SINGLE = (bool, int, str)
"""Types of static arguments that are compared by type and value."""


class Key(NamedTuple):
    """The signature of a call: equal for calls that one program may serve."""

    spec: Any
    """The structure of the arguments."""
    kinds: tuple[Any, ...]
    pattern: tuple[int, ...]
    """For each Tensor among the leaves, the index of the first leaf that is the same Tensor."""
    donated: tuple[int, ...]
    static: tuple[Any, ...]
    """The positions and values of static arguments."""
    static_types: tuple[Any, ...]
    records: bool
    on_global_tape: bool
    backend: str
    device: str


class _Unknown(Exception):
    """Raised for arguments that need the whole signature."""


def match_function(key: Any) -> Matches | None:
    """Return the function from arguments to leaves, or to None for another signature.

    It does not test recording and the selected backend, nor what the inputs of a program are tested for. It may return
    None for arguments that have the signature. There is no function for Tensors that occur twice or are results of
    operations, and for containers other than dict, list and tuple.
    """
    if len(set(key.pattern)) < len(key.pattern):
        return None
    try:
        return _Text(key.kinds, key.donated).function(key.spec)
    except _Unknown:
        return None


class _Text:
    """The text of the function: lines that unpack pytrees, and conditions for leaves."""

    def __init__(self, kinds: Sequence[Any], donated: Sequence[int]) -> None:
        self.kinds, self.donated = kinds, donated
        self.scope = Scope()
        self.wrong = Conditions(self.scope)
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.arrays: list[str] = []
        """The expressions of NumPy arrays."""
        self._count = 0

    def function(self, spec: Any) -> Matches:
        positional, named = spec.children()
        self._parts(positional, "args")
        if named.type is dict:
            self._parts(named, "named")
        else:
            self.lines += none_if(["named"], "")
        tensors = [name for name, kind in zip(self.leaves, self.kinds, strict=True) if _types(kind)[0] is Tensor]
        if len(tensors) > 1:
            self.wrong.found.append(f"len({{{', '.join(tensors)}}}) != {len(tensors)}")
        self.lines += self.wrong.lines("")
        if self.donated:
            shared = [f"len(ids) != {len(self.arrays)}", *[f"id({array}.base) in ids" for array in self.arrays]]
            self.lines.append(f"ids = {{{', '.join([f'id({array})' for array in self.arrays])}}}")
            self.lines += none_if(shared, "")
        flat = positional.num_nodes == spec.num_leaves + 1 == positional.num_leaves + 1
        result = "args" if flat else f"({''.join([f'{name}, ' for name in self.leaves])})"
        body = "".join([f"        {line}\n" for line in (*self.lines, f"return {result}")])
        text = f"def matches(args, named):\n    try:\n{body}    except KeyError:\n        return None\n"
        return cast(Matches, define("matches", text, self.scope.names))

    def _parts(self, spec: Any, name: str) -> None:
        """Write the lines for the parts of a pytree."""
        entries, children = spec.entries(), spec.children()
        self.lines += none_if([f"len({name}) != {len(entries)}"], "")
        parts = [f"x{self._count + i}" for i in range(len(entries))]
        self._count += len(entries)
        if spec.type is dict:
            keys = [repr(key) if type(key) in (str, int) else self.scope.hold(key, "key") for key in entries]
            self.lines += [f"{part} = {name}[{key}]" for part, key in zip(parts, keys, strict=True)]
        elif parts:
            self.lines.append(f"{', '.join(parts)}, = {name}")
        for part, child in zip(parts, children, strict=True):
            self._node(child, part)

    def _node(self, spec: Any, name: str) -> None:
        if spec.is_leaf():
            kind = self.kinds[len(self.leaves)]
            if (is_static(kind) and kind[0] not in _SINGLE) or (_types(kind)[0] is Tensor and not kind[2]):
                raise _Unknown
            self.wrong.add(name, kind)
            if np.ndarray in _types(kind):
                array = name if kind[0] is np.ndarray else f"{name}.data"
                self.arrays.append(array)
                if len(self.leaves) in self.donated:
                    self.wrong.found += [f"not {array}.flags.carray", f"not {array}.flags.owndata"]
            self.leaves.append(name)
        elif spec.type in (list, tuple, dict):
            self.lines += none_if([f"type({name}) is not {spec.type.__name__}"], "")
            self._parts(spec, name)
        elif spec.type is type(None):
            self.wrong.found.append(f"{name} is not None")
        else:
            raise _Unknown


def _types(kind: Any) -> tuple[Any, ...]:
    """Return the types of a leaf, and of the array of a Tensor."""
    return (kind[0], *kind[3:4]) if type(kind) is tuple and len(kind) > 2 else (None,)


def static_places(
    function: Callable[..., Any], numbers: tuple[int, ...], names: tuple[str, ...]
) -> tuple[list[str], frozenset[int | str]]:
    """Return the names of positional parameters, and positions of static arguments."""
    places: set[int | str] = {*numbers, *names}
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function written in C may not have a signature
        return [], frozenset(places)
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    known = {p.name for p in parameters}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for number in numbers:
        if not isinstance(number, int) or number < 0 or (number >= len(positional) and not takes_more):
            raise ConfigurationError(
                f"jit: static_argnums must be numbers of the {len(positional)} positional arguments, counted from 0, "
                f"got {number!r}"
            )
        if number < len(positional):
            places.add(positional[number])
    for name in names:
        if name not in known and not takes_all:
            raise ConfigurationError(f"jit: static_argnames must be names of arguments of the function, got {name!r}")
        if name in positional:
            places.add(positional.index(name))
    return positional, frozenset(places)
