"""Forward mode: the functions that take the tangents of an operation's arguments to those of its outputs.

They are written out from the rules' signatures, once for each set of arguments that carry a tangent, as the pulls of
backward passes are (see ``plans``).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.engine.levels import SPACES, lift
from agrad.engine.plans import compile_function, tuple_text
from agrad.engine.rulecalls import rule_has_kernels
from agrad.engine.sweep import fit_tangent
from agrad.engine.tape import Meta
from agrad.registry import namespace

Push = Callable[[Sequence[Any], Sequence[Any], Any, dict[str, Any]], tuple[Any, ...]]
"""Takes the tangents, the arguments as they lie inside the level, the output (or the tuple of outputs) and the
settings to the outputs' tangents, None for zero."""


class Joint(NamedTuple):
    """What a kernel for the tangents of several arguments at once stands for: all their forward rules together."""

    part: str
    names: tuple[str, ...]
    settings: tuple[str, ...]


def joint_rule(primitive: Any, positions: Sequence[int], count: int) -> Joint:
    """The tangents of the arguments at ``positions``, and of no others, together."""
    names = primitive.argument_names(count)
    targets = [names[i] for i in positions]
    return Joint(f"jvp:{','.join(targets)}", (*(f"t_{t}" for t in targets), *names, "y"), primitive.settings)


def build_push(primitive: Any, traced: tuple[int, ...], count: int, lifted: bool) -> Push | None:
    """The push of an operation on ``count`` arguments of which those at ``traced`` carry tangents; None: all zero.

    ``lifted``: whether there may be Tensors among what it is handed. Then rules get agrad's own namespace and nothing
    raw: an array library's operators and astype refuse strangers.
    """
    if not any(map(primitive.differentiable, traced)):
        return None
    text = _Text(primitive, traced, count, lifted)
    single = primitive.outputs is None
    text.scope["gather"] = _gather
    parts = text.parts()
    if single:
        sums = [f"    _r = {parts[0]}"]
        for part in parts[1:]:
            sums.append(f"    _p = {part}")
            sums.append("    _r = _p if _r is None else _r if _p is None else _r + _p")
        sums += [
            "    if _r is not None and (getattr(_r, 'shape', None) != y.shape or _r.dtype is not y.dtype):",
            f"        _r = fit_tangent(_r, y, {primitive.name!r})",
            "    return (_r,)",
        ]
    else:
        sums = ["    _totals = [None] * len(_out)"]
        sums += [f"    gather(_totals, {part}, _out, {primitive.name!r})" for part in parts]
        sums.append("    return tuple(_totals)")
    kernel = text.kernel() if single and not lifted else []
    lines = ["def push(_tangents, _inner, _out, _settings):", *text.opening(), *kernel, *sums]
    made: Push = compile_function("push", "\n".join(lines) + "\n", text.scope)
    return made


class _Text:
    """The expressions of one push, and the lines that unpack what they name."""

    def __init__(self, primitive: Any, traced: tuple[int, ...], count: int, lifted: bool) -> None:
        self.primitive = primitive
        self.traced = traced
        self.lifted = lifted
        self.arguments = primitive.argument_names(count)
        self.tangents = {i: f"_t{i}" for i in traced if primitive.differentiable(i)}
        self.handed: set[str] = set()
        """What rules are handed: arguments, tangents and outputs."""
        self.settings: set[str] = set()
        self.scope: dict[str, Any] = {
            "SPACES": SPACES,
            "AGRAD": namespace,
            "RAW": primitive.raw,
            "BIND": primitive.bind,
            "lift": lift,
            "fit_tangent": fit_tangent,
            "Meta": Meta,
        }

    def parts(self) -> list[str]:
        """What the output's tangent is the sum of."""
        primitive, fixed, together = self.primitive, len(self.primitive.arrays), self._together()
        found = [self._call(together)] if together else []
        for i, tangent in self.tangents.items():
            if i < fixed and i not in together:
                name = primitive.arrays[i]
                found.append(self._call((i,)) if name in primitive.linear else self._rule(name, tangent))
        rest = range(fixed, len(self.arguments))
        if any(i in self.tangents and i not in together for i in rest):
            found.append(self._rule(primitive.variadic, tuple_text(self.tangents.get(i, "None") for i in rest)))
        return found

    def kernel(self) -> list[str]:
        """The lines that ask the backend's kernel for all these tangents at once, where any backend has one."""
        joint = joint_rule(self.primitive, tuple(self.tangents), len(self.arguments))
        if not rule_has_kernels(self.primitive, joint):
            return []
        self.scope["kernels"] = self.primitive.kernels(joint)
        settings = [f"{name}=_settings[{name!r}]" for name in joint.settings]
        first = next(iter(self.tangents.values()))
        return [
            f"    _kernel = kernels[type({first})]",
            "    if _kernel is not None:",
            f"        _r = _kernel({', '.join([*self.tangents.values(), *self.arguments, 'y', *settings])})",
            "        if _r is not NotImplemented:",
            "            return (_r,)",
        ]

    def _together(self) -> tuple[int, ...]:
        """The arguments in which the operation is linear as a whole, where what it takes to say so carries tangents."""
        primitive, fixed = self.primitive, len(self.primitive.arrays)
        if primitive.jointly:
            found = tuple(i for i, name in enumerate(primitive.arrays) if name not in primitive.constant)
            if all(i in self.tangents for i in found):
                return found
        if primitive.variadic in primitive.linear and any(i >= fixed for i in self.tangents):
            return tuple(range(fixed, len(self.arguments)))
        return ()

    def _call(self, replaced: tuple[int, ...]) -> str:
        """The operation itself, on tangents in place of some arguments."""
        values = list(self.arguments)
        for i in replaced:
            values[i] = self.tangents.get(i) or self._zeros(self.arguments[i])
        if self.lifted:
            return f"BIND({', '.join(values)}, **_settings)"
        return f"RAW[type({self.tangents[next(i for i in replaced if i in self.tangents)]})]" + (
            f"({', '.join(values)}, **_settings)"
        )

    def _zeros(self, argument: str) -> str:
        if self.lifted:
            self.handed.add(argument)
        return f"{'AGRAD' if self.lifted else f'SPACES[type({argument})]'}.zeros_like({argument})"

    def _rule(self, argument: str, tangent: str) -> str:
        rule = self.primitive.forward_rule(argument)
        label = f"rule_{argument}"
        self.scope[label] = rule.function
        self.handed.update(t for t in self.tangents.values() if t in tangent)
        self.settings.update(rule.settings)
        # an elementwise rule serves both ways under the name g
        values = [tangent if name in ("t", "g") else self._value(name) for name in rule.names]
        return f"{label}({', '.join([*values, *(f'{name}={name}' for name in rule.settings)])})"

    def _value(self, name: str) -> str:
        """The expression of a rule's parameter."""
        if name == "xp":
            if self.lifted:
                return "AGRAD"
            return f"SPACES[type({'_out' if self.primitive.outputs is None else '_out[0]'})]"
        of_meta = name.endswith("_meta") and name not in self.primitive.all_arrays
        base = name[:-5] if of_meta else name
        rest = self.arguments[len(self.primitive.arrays) :]
        names = rest if base == self.primitive.variadic else (base,)
        if not of_meta:
            self.handed.update(names)
        texts = [f"Meta(tuple({n}.shape), {n}.dtype)" if of_meta else n for n in names]
        return tuple_text(texts) if base == self.primitive.variadic else texts[0]

    def opening(self) -> list[str]:
        """The lines that give what is handed in its names."""
        primitive = self.primitive
        lines = [
            f"    {tuple_text(self.arguments)} = _inner",
            f"    {tuple_text(f'_t{i}' for i in self.traced)} = _tangents",
            *(f"    {name} = _settings[{name!r}]" for name in sorted(self.settings)),
        ]
        if not primitive.spreads:
            lines.append("    y = _out" if primitive.outputs is None else f"    {tuple_text(primitive.outputs)} = _out")
        if self.lifted:
            lines += [f"    {name} = lift({name})" for name in sorted(self.handed)]
        return lines


def _gather(totals: list[Any], parts: Sequence[Any], outs: Sequence[Any], name: str) -> None:
    """Add one tangent for each of several outputs to those there are."""
    for i, part in enumerate(parts):
        if part is not None:
            part = fit_tangent(part, outs[i], name)
            totals[i] = part if totals[i] is None else totals[i] + part
