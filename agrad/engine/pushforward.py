"""Pushforwards: the tangents of outputs from those of its arguments.

As for pullbacks, which values each rule is handed is decided once for each set of arguments that carry a tangent.
"""

from collections.abc import Callable, Sequence
from typing import Any

from agrad.engine.backward import fit_tangent
from agrad.engine.levels import lift
from agrad.engine.namespaces import NAMESPACES
from agrad.engine.places import Values, picker, places_of, settings_picker
from agrad.engine.tape import Meta
from agrad.registry import namespace

Push = Callable[[Sequence[Any], Sequence[Any], Any, dict[str, Any]], tuple[Any, ...]]
"""Takes the tangents, the arguments as they lie inside the level, the output (or the tuple of outputs) and the
settings to the outputs' tangents, None for zero."""

Part = Callable[[Values, dict[str, Any]], Any]
"""Takes the values and the settings to one summand of the outputs' tangents."""


def build_pushforward(primitive: Any, traced: tuple[int, ...], count: int, lifted: bool) -> Push | None:
    """Return the pushforward of an operation; None where all tangents are zero.

    count: the number of arguments. traced: the positions of those with tangents.
    lifted: whether Tensors may be among the values. Then rules get agrad's own namespace and no raw array: the
    operators of an array library may reject foreign types.
    """
    positions = tuple([i for i in traced if primitive.differentiable(i)])
    if not positions:
        return None
    outputs = ("y",) if primitive.outputs is None else () if primitive.spreads else primitive.outputs
    single = primitive.outputs is None
    entries = ("xp", *primitive.argument_names(count), *outputs, *(f"t{i}" for i in traced))
    parts = _parts(primitive, positions, count, lifted, entries)
    names = {name for part in parts for name in part[1]}
    metas = [(f"{a}_meta", i + 1) for i, a in enumerate(primitive.argument_names(count)) if f"{a}_meta" in names]
    entries = (*entries, *(name for name, _ in metas))
    functions = [build(entries) for build, _ in parts]
    needs_xp = "xp" in names

    def gather(tangents: Sequence[Any], inner: Sequence[Any], out: Any) -> Values:
        if lifted:
            tangents, inner = [lift(t) for t in tangents], [lift(x) for x in inner]
            out = lift(out) if single else tuple([lift(y) for y in out])
        xp = namespace if lifted else NAMESPACES[type(out if single else out[0])] if needs_xp else None
        values = (xp, *inner, *((out,) if single else out[: len(outputs)]), *tangents)
        return (*values, *[Meta(tuple(values[i].shape), values[i].dtype) for _, i in metas]) if metas else values

    if single:

        def push(tangents: Sequence[Any], inner: Sequence[Any], out: Any, settings: dict[str, Any]) -> tuple[Any, ...]:
            values, total = gather(tangents, inner, out), None
            for part in functions:
                r = part(values, settings)
                total = r if total is None else total if r is None else total + r
            if total is not None and (getattr(total, "shape", None) != out.shape or total.dtype is not out.dtype):
                total = fit_tangent(total, values[1 + count], primitive.name)
            return (total,)
    else:

        def push(tangents: Sequence[Any], inner: Sequence[Any], out: Any, settings: dict[str, Any]) -> tuple[Any, ...]:
            values, totals = gather(tangents, inner, out), [None] * len(out)
            for part in functions:
                for i, r in enumerate(part(values, settings)):
                    if r is not None:
                        r = fit_tangent(r, out[i], primitive.name)
                        totals[i] = r if totals[i] is None else totals[i] + r
            return tuple(totals)

    return push


Builder = Callable[[tuple[str, ...]], Part]


def _parts(
    primitive: Any, positions: tuple[int, ...], count: int, lifted: bool, entries: tuple[str, ...]
) -> list[tuple[Builder, Sequence[str]]]:
    """Return the builder of each summand, with the names of its values."""
    fixed, together = len(primitive.arrays), _linear_together(primitive, positions, count)
    found: list[tuple[Builder, Sequence[str]]] = []
    if together:
        found.append(_call(primitive, together, positions, count, lifted))
    for i in positions:
        if i < fixed and i not in together:
            if primitive.arrays[i] in primitive.linear:
                found.append(_call(primitive, (i,), positions, count, lifted))
            else:
                found.append(_rule(primitive, primitive.arrays[i], [f"t{i}"], count))
    if any(i >= fixed and i not in together for i in positions):
        tangents = [f"t{i}" if i in positions else None for i in range(fixed, count)]
        found.append(_rule(primitive, primitive.variadic, tangents, count))
    return found


def _linear_together(primitive: Any, positions: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the arguments in all of which at once the operation is linear."""
    fixed = len(primitive.arrays)
    if primitive.jointly:
        found = tuple(i for i, name in enumerate(primitive.arrays) if name not in primitive.constant)
        if all(i in positions for i in found):
            return found
    if primitive.variadic in primitive.linear and any(i >= fixed for i in positions):
        return tuple(range(fixed, count))
    return ()


def _call(
    primitive: Any, replaced: tuple[int, ...], positions: tuple[int, ...], count: int, lifted: bool
) -> tuple[Builder, Sequence[str]]:
    """Return the builder of a call of the operation on tangents.

    Tangents stand in place of some arguments, zeros where one has no tangent.
    """
    first = next(i for i in replaced if i in positions)

    def build(entries: tuple[str, ...]) -> Part:
        sources = [entries.index(f"t{i}") if i in replaced and i in positions else i + 1 for i in range(count)]
        zeros = [i for i in replaced if i not in positions]
        pick, like = picker(sources), entries.index(f"t{first}")

        def part(values: Values, settings: dict[str, Any]) -> Any:
            args = list(pick(values))
            for i in zeros:
                args[i] = (namespace if lifted else NAMESPACES[type(args[i])]).zeros_like(args[i])
            return (primitive.bind if lifted else primitive.raw[type(values[like])])(*args, **settings)

        return part

    return build, ()


def _rule(primitive: Any, argument: str, tangents: list[str | None], count: int) -> tuple[Builder, Sequence[str]]:
    """Return the builder of the forward rule of an argument.

    tangents: the entry of its tangent; of the variadic argument, those of all.
    """
    rule = primitive.forward_rule(argument)
    call, several = rule.function, argument == primitive.variadic
    settings_of = settings_picker(rule.settings, primitive.settings)

    def build(entries: tuple[str, ...]) -> Part:
        spots = [0 if t is None else entries.index(t) for t in tangents]
        # an elementwise rule serves both modes, under the name g
        own = [k for k, name in enumerate(rule.names) if name in ("t", "g")]
        names = [name if k not in own else "xp" for k, name in enumerate(rule.names)]
        pick = picker(places_of(names, entries, primitive, count))

        def part(values: Values, settings: dict[str, Any]) -> Any:
            args = list(pick(values))
            given = tuple([values[i] if i else None for i in spots]) if several else values[spots[0]]
            for k in own:
                args[k] = given
            return call(*args, **settings_of(settings))

        return part

    rest = primitive.argument_names(count)[len(primitive.arrays) :]
    names = [n for n in rule.names if n not in ("t", "g")]
    names += [f"{a}_meta" for a in rest if f"{primitive.variadic}_meta" in names]
    return build, names
