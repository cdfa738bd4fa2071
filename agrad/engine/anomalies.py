"""Checks of ``detect_anomaly`` for NaN and infinity."""

import cmath
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from agrad.engine.namespaces import NAMESPACES
from agrad.engine.tape import Node
from agrad.engine.tensor import Tensor
from agrad.errors import AnomalyError


def users_line() -> str:
    """Return the innermost line on the stack that is not in agrad."""
    package = __name__.partition(".")[0]
    for frame, line in traceback.walk_stack(None):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != package and not frame.f_code.co_filename.startswith("<agrad"):
            summary = traceback.extract_stack(frame, limit=1)[0]
            return f"{summary.filename}:{line}: {summary.line}"
    return "unknown line"


def is_finite(value: Any) -> bool:
    """Return True if all values are finite, and the tangents of forward levels too."""
    while isinstance(value, Tensor):
        if value.level.holds_tangents and not (value.node is None or is_finite(value.node)):
            return False
        value = value.data
    if not hasattr(value, "dtype"):
        return not isinstance(value, (float, complex)) or cmath.isfinite(value)
    xp = NAMESPACES[type(value)]
    return not xp.isdtype(value.dtype, ("real floating", "complex floating")) or bool(xp.all(xp.isfinite(value)))


def check_results(primitive: Any, args: tuple[Any, ...], out: Any) -> None:
    """Raise ``AnomalyError`` if a plain result contains a NaN or an infinity."""
    results = out if isinstance(out, tuple) else (out,)
    _check(primitive.name, primitive.argument_names(len(args)), args, results)


def check_tangents(primitive: Any, traced: tuple[int, ...], tangents: list[Any], out: tuple[Any, ...]) -> None:
    """Raise ``AnomalyError`` if a forward rule returned a NaN or an infinity."""
    names = primitive.argument_names(max(traced) + 1)
    _check(f"the forward rule of {primitive.name}", [f"the tangent of {names[i]}" for i in traced], tangents, out)


def _check(what: str, names: Sequence[str], values: Iterable[Any], results: Iterable[Any]) -> None:
    if all(map(is_finite, results)):
        return
    given = " and ".join(name for name, value in zip(names, values, strict=False) if not is_finite(value))
    outside = f"received a NaN or an infinity in {given}, which was computed outside of detect_anomaly,"
    raise AnomalyError(f"{what} {outside if given else 'returned a NaN or an infinity'} at {users_line()}")


def check_cotangents(node: Node, gs: Iterable[Any], parts: tuple[Any, ...]) -> None:
    """Raise ``AnomalyError`` if a backward rule returned a NaN or an infinity.

    ``gs`` are the cotangents that the rule received.
    """
    name = node.plan.primitive.name
    for argument, part in zip(node.plan.arguments, parts, strict=False):
        if part is None or is_finite(part):
            continue
        where = getattr(node, "where", None)
        line = f"; the operation was recorded at {where}" if where else ""
        if not all(map(is_finite, gs)):
            raise AnomalyError(
                f"the backward rule of {name} received a cotangent that already contains a NaN or an infinity: the "
                f"initial one, or a sum that overflowed{line}"
            )
        raise AnomalyError(f"the backward rule of {name} returned a NaN or an infinity for {argument}{line}")
