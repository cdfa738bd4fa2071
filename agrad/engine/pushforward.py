"""Pushforwards: the tangents of the outputs from the tangents of the arguments.

As for pullbacks, the values that each rule receives are selected once for each set of arguments with tangents.
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
"""Function of the tangents, the arguments inside the nesting level, the output or outputs, and the options. It returns
the tangents of the outputs, None for zero."""

Part = Callable[[Values, dict[str, Any]], Any]
"""Function of the values and the options. It returns one summand of the tangents of the outputs."""


def build_pushforward(primitive: Any, traced: tuple[int, ...], count: int, lifted: bool) -> Push | None:
    """Return the pushforward of an operation, or None if all tangents are zero.

    ``count`` is the number of arguments. ``traced`` are the positions of arguments with tangents. ``lifted`` is True if
    Tensors may be among the values. Rules then receive the agrad namespace and no plain arrays, because the operators
    of an array library may reject other types.
    """
    positions = tuple([i for i in traced if primitive.differentiable(i)])
    if not positions:
        return None
    outputs = ("y",) if primitive.outputs is None else () if primitive.spreads else primitive.outputs
    single = primitive.outputs is None
    arguments, together = primitive.argument_names(count), _linear_together(primitive, positions, count)
    summands: list[Any] = [together] if together else []
    for i in positions:
        argument = primitive.argument_of(i)
        if i not in together and argument not in summands:
            summands.append((i,) if argument in primitive.linear else argument)
    names = {name for part in summands if isinstance(part, str) for name in primitive.forward_rule(part).names}
    metas = {f"{a}_meta": i + 1 for i, a in enumerate(arguments) if f"{primitive.argument_of(i)}_meta" in names}
    entries = ("xp", *arguments, *outputs, *(f"t{i}" for i in traced), *metas)
    functions = [
        _rule(primitive, part, positions, count, entries)
        if isinstance(part, str)
        else _call(primitive, part, positions, count, lifted, entries)
        for part in summands
    ]
    needs_xp = "xp" in names

    def gather(tangents: Sequence[Any], inner: Sequence[Any], out: Any) -> Values:
        if lifted:
            tangents, inner = [lift(t) for t in tangents], [lift(x) for x in inner]
            out = lift(out) if single else tuple([lift(y) for y in out])
        xp = namespace if lifted else NAMESPACES[type(out if single else out[0])] if needs_xp else None
        values = (xp, *inner, *((out,) if single else out[: len(outputs)]), *tangents)
        return (*values, *[Meta(tuple(values[i].shape), values[i].dtype) for i in metas.values()]) if metas else values

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


def _linear_together(primitive: Any, positions: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the arguments in which the operation is jointly linear."""
    fixed = len(primitive.arrays)
    if primitive.jointly:
        found = tuple(i for i, name in enumerate(primitive.arrays) if name not in primitive.constant)
        if all(i in positions for i in found):
            return found
    if primitive.variadic in primitive.linear and any(i >= fixed for i in positions):
        return tuple(range(fixed, count))
    return ()


def _call(
    primitive: Any,
    replaced: tuple[int, ...],
    positions: tuple[int, ...],
    count: int,
    lifted: bool,
    entries: tuple[str, ...],
) -> Part:
    """Return the call of the operation with tangents, or zeros, for some arguments."""
    moving = [i for i in replaced if i in positions]
    zeros = [i for i in replaced if i not in positions]
    pick = picker([entries.index(f"t{i}") if i in moving else i + 1 for i in range(count)])
    like = entries.index(f"t{moving[0]}")

    def part(values: Values, settings: dict[str, Any]) -> Any:
        args = list(pick(values))
        for i in zeros:
            args[i] = (namespace if lifted else NAMESPACES[type(args[i])]).zeros_like(args[i])
        return (primitive.bind if lifted else primitive.raw[type(values[like])])(*args, **settings)

    return part


def _rule(primitive: Any, argument: str, positions: tuple[int, ...], count: int, entries: tuple[str, ...]) -> Part:
    """Return the forward rule of an argument with its tangent or tangents."""
    rule, several = primitive.forward_rule(argument), argument == primitive.variadic
    call, settings_of = rule.function, settings_picker(rule.settings, primitive.settings)
    targets = range(len(primitive.arrays), count) if several else [primitive.arrays.index(argument)]
    spots = [entries.index(f"t{i}") if i in positions else 0 for i in targets]
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
