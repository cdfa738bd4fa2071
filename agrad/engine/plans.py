"""Plans: the values that the nodes of an operation keep."""

from collections.abc import Callable, Iterable
from typing import Any

from agrad.engine.places import Values, first_places, picker
from agrad.engine.pullback import build_pullback
from agrad.engine.tape import ARGUMENT, RESULT, SETTINGS, Meta, Plan


def saved_names(
    primitive: Any, positions: tuple[int, ...], arguments: tuple[str, ...], exact: bool, numbers: tuple[int, ...] = ()
) -> tuple[str, ...]:
    """Return the names of the values that a node keeps: those its rules name.

    No other array is kept.
    Settings and Python numbers cost nothing and are kept for ``op.args``. Where a cotangent may need fitting to an
    argument that is not kept, its shape and dtype are.
    """
    names: dict[str, None] = {}
    for rule in primitive.rules_for(positions):
        for name in rule.kept:
            names |= dict.fromkeys(_entries(primitive, name, arguments))
    if not exact:
        names |= dict.fromkeys(f"{arguments[i]}_meta" for i in positions if arguments[i] not in names)
    names |= dict.fromkeys(arguments[i] for i in numbers)
    return (*sorted(names, key=_is_meta, reverse=True), *([SETTINGS] if primitive.settings else []))


def _is_meta(name: str) -> bool:
    return name.endswith("_meta")


def _entries(primitive: Any, name: str, arguments: tuple[str, ...]) -> Iterable[str]:
    """Return the entries behind a rule's name: one for each variadic operand."""
    base, suffix = (name[:-5], "_meta") if _is_meta(name) else (name, "")
    if base == primitive.variadic:
        return [f"{a}{suffix}" for a in arguments[len(primitive.arrays) :]]
    return [name]


def keeper(names: tuple[str, ...], entries: tuple[str, ...]) -> Callable[[Values], Values]:
    """Return the function from all values of a call to those that a node keeps.

    names: the values to keep, shapes and dtypes first. entries: the names of arguments and outputs, and ``SETTINGS``,
    which stands at the end, behind any number of outputs.
    """
    at = first_places(entries)
    places = [-1 if name == SETTINGS else at[name.removesuffix("_meta")] for name in names]
    metas = [place for name, place in zip(names, places, strict=True) if _is_meta(name)]
    pick = picker(places[len(metas) :])
    if not metas:
        return pick
    if len(metas) == 1:
        (first,) = metas
        return lambda values: (_meta(values[first]), *pick(values))
    if len(metas) == 2:
        one, two = metas
        return lambda values: (_meta(values[one]), _meta(values[two]), *pick(values))
    return lambda values: (*[_meta(values[place]) for place in metas], *pick(values))


def _meta(value: Any) -> Meta:
    # half the time of Meta(shape, dtype)
    return tuple.__new__(Meta, (value.shape, value.dtype))


def build_plan(
    primitive: Any, positions: tuple[int, ...], count: int, exact: bool, numbers: tuple[int, ...] = ()
) -> Plan:
    """Return the plan of nodes with arguments at ``positions`` on the tape.

    count: the number of arguments. numbers: the positions of Python numbers.
    """
    arguments = primitive.argument_names(count)
    plan = Plan()
    plan.primitive = primitive
    plan.positions = positions
    plan.count = count
    plan.exact = exact
    plan.lifted = plan.retains = False
    plan.arguments = tuple(arguments[i] for i in positions)
    plan.names = saved_names(primitive, positions, arguments, exact, numbers)
    plan.needs_slow_path = primitive.masks or (primitive.sum_slices is not None and count == 1)
    outputs = () if primitive.spreads else primitive.outputs or ("y",)
    plan.keep = keeper(plan.names, (*arguments, *outputs))
    plan.kept = ARGUMENT if plan.names == arguments[:1] else RESULT if plan.names == ("y",) else ""
    plan.pullback = build_pullback(primitive, plan)
    return plan
