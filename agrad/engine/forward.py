"""Forward mode: the tangents of an operation's outputs from those of its arguments."""

from typing import Any

from agrad.engine.levels import lift, namespace_of
from agrad.engine.sweep import fit_tangent
from agrad.engine.tape import Meta
from agrad.engine.tensor import Tensor
from agrad.registry import namespace


def push(
    primitive: Any, tangents: list[Any], inner: tuple[Any, ...], out: Any, settings: dict[str, Any]
) -> tuple[Any, ...]:
    """The tangents of the outputs, one each (None for zero), from those of the arguments (None for zero).

    ``inner``: the arguments as they lie inside the level; ``out``: the output, or a tuple of the outputs.
    """
    single = primitive.outputs is None
    outs = (out,) if single else out
    totals: list[Any] = [None] * len(outs)
    xp = None
    for value in (*tangents, *inner, *outs):
        if isinstance(value, Tensor):
            # nothing raw beside a Tensor: an array library's operators and astype refuse strangers
            tangents, inner, outs = [lift(t) for t in tangents], lift(inner), lift(outs)
            xp = namespace
            break
    else:
        xp = namespace_of(outs)
    fixed = len(primitive.arrays)
    values: dict[str, Any] = dict(zip(primitive.arrays, inner, strict=False))
    if primitive.variadic:
        values[primitive.variadic] = inner[fixed:]
    if not primitive.spreads:
        values.update(zip(primitive.outputs or ("y",), outs, strict=True))

    def gather(parts: Any) -> None:
        for i, part in enumerate((parts,) if single else parts):
            if part is not None:
                part = fit_tangent(part, outs[i], primitive.name)
                totals[i] = part if totals[i] is None else totals[i] + part

    for i, tangent in enumerate(tangents[:fixed]):
        if tangent is not None:
            argument = primitive.arrays[i]
            if argument in primitive.linear:
                gather(primitive.bind(*inner[:i], tangent, *inner[i + 1 :], **settings))
            else:
                gather(_run(primitive.forward_rule(argument), xp, tangent, values, settings))
    rest = tangents[fixed:]
    if any(t is not None for t in rest):
        if primitive.variadic in primitive.linear:
            filled = [
                namespace_of((x,)).zeros_like(x) if t is None else t for t, x in zip(rest, inner[fixed:], strict=True)
            ]
            gather(primitive.bind(*inner[:fixed], *filled, **settings))
        else:
            gather(_run(primitive.forward_rule(primitive.variadic), xp, tuple(rest), values, settings))
    return tuple(totals)


def _run(rule: Any, xp: Any, tangent: Any, values: dict[str, Any], settings: dict[str, Any]) -> Any:
    handed = []
    for name in rule.names:
        if name in ("t", "g"):  # an elementwise rule serves both ways under the name g
            handed.append(tangent)
        elif name == "xp":
            handed.append(xp)
        elif name in values:
            handed.append(values[name])
        else:
            value = values[name[:-5]]
            handed.append(tuple(map(_meta, value)) if isinstance(value, tuple) else _meta(value))
    if rule.settings:
        return rule.function(*handed, **{name: settings[name] for name in rule.settings})
    return rule.function(*handed)


def _meta(value: Any) -> Meta:
    return Meta(tuple(value.shape), value.dtype)
